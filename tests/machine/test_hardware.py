"""Does every accelerator get parameters, from the nearest file there is, and does the reader hear when they are borrowed?"""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from gpuplan.errors import SpecError, UnknownError
from gpuplan.machine.build import hardware_of
from gpuplan.machine.hardware import settled
from gpuplan.specs.accelerator import Accelerator
from gpuplan.specs.catalog import Catalog, shipped_folder
from gpuplan.specs.measured import Measured
from gpuplan.specs.on import parse_target
from gpuplan.specs.target import Target
from tests.estimate.subjects import subject
from tests.sweeps import each

CATALOG = Catalog.open()
RESIDUALS = (
    "matmul_residual", "prefill_residual", "decode_residual", "stream_residual", "all_reduce_residual", "all_to_all_residual",
    "transfer_residual",
)  # fmt: skip


@pytest.mark.parametrize("ident", CATALOG.paths("measured"))
def test_measured_files_load(ident: str) -> None:
    file = CATALOG.load(Measured, ident)
    for residual in file.residual.values():
        assert residual.low.value <= 1 <= residual.high.value
    if file.describes == "accelerator":
        chip = CATALOG.load(Accelerator, ident)
        assert file.name
        assert chip.units is None or file.units is None or file.units.value == chip.units.count.value
        types = {kind: kind.removesuffix("_block") for kind in (*file.matmul, *file.grouped) if not kind.endswith("_wo")}
        assert set(types.values()) <= set(chip.dtypes())


@each("ident", CATALOG.paths("accelerators"))
def test_every_accelerator_has_all_kernels(ident: str) -> None:
    hw = hardware_of(Target(ident, CATALOG.load(Accelerator, ident), 1), catalog=CATALOG)
    for dtype in hw.peaks:
        assert 0 < hw.parameter(f"matmul.{dtype}.efficiency").value <= 1
        assert 0 < hw.parameter(f"attention.prefill.{dtype}.efficiency").value <= 1
    for stored in ("bf16", "fp8"):
        assert 0 < hw.parameter(f"attention.decode.{stored}.memory_efficiency").value <= 1
    assert 0 < hw.parameter("attention.backward_share").value <= 1
    assert hw.parameter("stream.launch").unit == hw.parameter("host.launch").unit == "s"
    for name in RESIDUALS:
        term = hw.parameter(name)
        assert term.value == 1
        assert term.spread is not None
        assert term.spread[0] < 1 < term.spread[1]
    assert hw.notes or CATALOG.paths("measured").keys() >= {ident}


def test_measured_needs_no_note_and_borrowed_says_whose_and_is_wider() -> None:
    own = hardware_of(parse_target("h100-sxm-80gb", CATALOG), catalog=CATALOG)
    lent = hardware_of(parse_target("h100-pcie-80gb", CATALOG), catalog=CATALOG)
    assert own.notes == ()
    (note,) = lent.notes
    assert note.code == "hw.not-measured"
    assert "NVIDIA H100 SXM5 80 GB" in note.text
    assert lent.parameter("matmul.bf16.efficiency").value == own.parameter("matmul.bf16.efficiency").value
    assert "measured on NVIDIA H100 SXM5" in lent.parameter("matmul.bf16.efficiency").source.note
    narrow, wide = own.parameter("matmul_residual").spread, lent.parameter("matmul_residual").spread
    assert narrow is not None
    assert wide is not None
    assert wide[0] < narrow[0] < 1 < narrow[1] < wide[1]


def test_terms_carry_the_source() -> None:
    hw = hardware_of(parse_target("dgx-h100", CATALOG), catalog=CATALOG)
    term = hw.parameter("matmul.bf16.efficiency")
    assert term.name == "hw.matmul.bf16.efficiency"
    assert term.source.kind == "fitted"
    assert term.source.url.startswith("https://github.com/ai-dynamo/aiconfigurator/")
    assert hw.peak("bf16").name == "hw.bf16_flop_per_s"
    assert hw.peak("bf16").value == pytest.approx(989.4e12)


def test_unmeasured_data_types_are_noted_where_they_are_used() -> None:
    hw = hardware_of(parse_target("h100-sxm-80gb", CATALOG), catalog=CATALOG)
    assert "bf16" not in hw.dtype_notes
    assert "fp8" in hw.dtype_notes["int8"].text


def test_engines_have_their_own_kernels() -> None:
    target = parse_target("h100-sxm-80gb", CATALOG)
    base, vllm = hardware_of(target, catalog=CATALOG), hardware_of(target, catalog=CATALOG, engine="vllm")
    unknown = hardware_of(target, catalog=CATALOG, engine="llama-cpp")
    name = "matmul.fp8.start"
    assert vllm.parameter(name).value < base.parameter(name).value == unknown.parameter(name).value


USER_FILE = """format: 1
id: {id}
name: my card
describes: accelerator
{more}
sources: {{me: {{title: my bench, checked: "2026-11-20", kind: measured}}}}
stream: {{efficiency: 0.5, launch: 3 us}}
"""


def _with(folder: Path, **files: str) -> Catalog:
    (folder / "measured").mkdir()
    for ident, more in files.items():
        name = ident.replace("_", "-")
        (folder / "measured" / f"{name}.yaml").write_text(USER_FILE.format(id=name, more=more))
    return Catalog([shipped_folder(), folder])


def test_memory_bound_kernels_of_an_engine_may_be_its_own() -> None:
    target = parse_target("mi325x", CATALOG)
    plain, own = (hardware_of(target, catalog=CATALOG, engine=engine) for engine in ("megatron-lm", "vllm"))
    # AITER's times of the same silicon: kernels of a graph begin in a third of what is assumed of those issued one by one.
    assert own.parameter("stream.launch").value == pytest.approx(2.658e-6)
    assert own.parameter("matmul.fp8.start").value == own.parameter("stream.launch").value < plain.parameter("stream.launch").value
    assert own.parameter("stream.efficiency").value == plain.parameter("stream.efficiency").value
    assert own.parameter("matmul.fp8_block.start").source.title.startswith("ROCm AITER")


def test_a_user_file_wins_and_may_borrow_the_rest(tmp_path: Path) -> None:
    catalog = _with(tmp_path, rtx_4090="like: l40s\nwiden: 1.5")
    hw = hardware_of(parse_target("rtx-4090", catalog), catalog=catalog)
    assert hw.parameter("stream.efficiency").value == 0.5
    assert hw.parameter("matmul.bf16.efficiency").value == CATALOG.load(Measured, "l40s").matmul["bf16"].efficiency.value
    given = catalog.load(Measured, "rtx-4090")
    again = hardware_of(parse_target("l40", CATALOG), given, catalog=CATALOG)
    assert again.parameter("stream.efficiency").value == 0.5


def test_files_that_are_like_each_other_are_refused(tmp_path: Path) -> None:
    catalog = _with(tmp_path, rtx_4090="like: rtx-3090", rtx_3090="like: rtx-4090")
    with pytest.raises(SpecError, match="in a circle"):
        hardware_of(parse_target("rtx-4090", catalog), catalog=catalog)
    (tmp_path / "measured" / "rtx-4090.yaml").write_text(USER_FILE.format(id="rtx-4090", more="like: nothing-such"))
    catalog = Catalog([shipped_folder(), tmp_path])
    with pytest.raises(SpecError, match="nothing-such"):
        hardware_of(parse_target("rtx-4090", catalog), catalog=catalog)


def test_unknown_parameter_is_an_error() -> None:
    hw = hardware_of(parse_target("h100-sxm-80gb", CATALOG), catalog=CATALOG)
    with pytest.raises(UnknownError, match=r"no `matmul\.bf16\.speed` is known"):
        hw.parameter("matmul.bf16.speed")


def test_a_shared_accelerator_has_its_share() -> None:
    chip = CATALOG.load(Accelerator, "a10")
    whole, half = (hardware_of(Target("a10", chip, 1, share=share), catalog=CATALOG) for share in (1.0, 0.5))
    assert half.peak("bf16").value == whole.peak("bf16").value / 2
    assert half.hbm_bandwidth.value == whole.hbm_bandwidth.value / 2
    assert "0.5 of one accelerator" in half.hbm_bandwidth.source.note


def test_two_names_for_the_same_links_are_one_level() -> None:
    rack = hardware_of(parse_target("gb200-nvl72", CATALOG), catalog=CATALOG)
    assert [level.size for level in rack.levels] == [72.0]
    two = hardware_of(parse_target("2xgb200-nvl72", CATALOG), catalog=CATALOG)
    assert [level.name for level in two.levels] == ["nvlink5-rack", "scale-out"]


def test_a_measured_bus_bandwidth_replaces_that_of_another_fabric() -> None:
    hw = hardware_of(parse_target("a100-pcie-40gb-8", CATALOG), catalog=CATALOG)
    share = hw.parameter("fabric.pcie.all_gather.full")
    level = next(level for level in hw.levels if level.name == "pcie")
    assert level.measured_bus_bandwidth is not None
    assert share.value == level.measured_bus_bandwidth.value / level.bandwidth_per_direction.value  # type: ignore[operator]
    assert share.formula is not None


def test_a_clock_that_was_not_seen_to_settle_falls_no_further_than_others() -> None:
    # The tables of fp4 matmuls on B200 end where the clock still falls; what a fit makes of the rest would be three times slower.
    before = subject("llama-3.1-8b", "1xb200-sxm-180gb").hw.parameters
    after = {**before, **settled(before)}
    assert float(before["matmul.fp4.throttle"].value) > 1
    assert after["matmul.fp4.throttle"].value == before["matmul.bf16.throttle"].value
    for kind in ("matmul.bf16", "matmul.fp8", "attention.prefill.bf16"):
        assert after[f"{kind}.throttle"].value == before[f"{kind}.throttle"].value


@pytest.mark.parametrize("dtype", ["bf16", "fp8"])
def test_siblings_settle_in_the_order_of_their_power_limits(dtype: str) -> None:
    def rate(chip: str, *, loaded: bool) -> float:
        hw = subject("llama-3.1-8b", f"1x{chip}").hw
        held = (hw.under_load() if loaded else hw).parameters
        share = float(held[f"matmul.{dtype}.efficiency"].value) / (1 + float(held[f"matmul.{dtype}.throttle"].value))
        return share * float(hw.peaks[dtype].value)

    chips = ("b200-sxm-180gb", "b300-sxm-270gb", "gb200-186gb", "gb300-279gb")
    b200, b300, gb200, gb300 = (rate(chip, loaded=True) for chip in chips)
    assert b200 * (1 - 1e-9) <= min(b300, gb200)
    assert max(b300, gb200) <= gb300 * 1.1
    apart = dict(zip(chips, (rate(chip, loaded=False) for chip in chips), strict=True))
    assert apart["gb200-186gb"] < apart["b200-sxm-180gb"]  # Measured each by itself, the one with more watts comes out slower.
    assert gb300 == pytest.approx(apart["gb300-279gb"], rel=1e-9)  # Nothing contradicts it.
    if dtype == "bf16":  # Both were seen to settle, and neither is believed more.
        assert b200 == pytest.approx((apart["b200-sxm-180gb"] * apart["gb200-186gb"]) ** 0.5, rel=1e-9)
        assert gb200 == pytest.approx(b200, rel=1e-9)
        return
    # GB200 was not: all three say what the silicon sustains. B300 borrows B200's measurement.
    watts = {"b200-sxm-180gb": 1000, "gb200-186gb": 1200, "gb300-279gb": 1400}
    together = math.prod(apart[chip] * watts[chip] ** -0.5 for chip in watts) ** (1 / 3)
    for found, limit in ((b200, 1000), (gb200, 1200), (b300, 1100)):
        assert found == pytest.approx(together * limit**0.5, rel=1e-6)


def test_only_chips_of_one_silicon_say_what_it_sustains() -> None:
    def throttle(chip: str, dtype: str, *, loaded: bool) -> float:
        hw = subject("llama-3.1-8b", f"1x{chip}").hw
        return float((hw.under_load() if loaded else hw).parameters[f"matmul.{dtype}.throttle"].value)

    # B300 has more tensor cores for fp4 than GB200, which it is beside; B70 has more units than B60, which it is like.
    for chip, dtype in (("b300-sxm-270gb", "fp4"), ("arc-pro-b70", "bf16")):
        assert throttle(chip, dtype, loaded=True) == throttle(chip, dtype, loaded=False)


def test_all_targets_of_a_chip_share_the_terms_of_its_kernels() -> None:
    one, many = (hardware_of(parse_target(name, CATALOG), catalog=CATALOG) for name in ("h100-sxm-80gb", "2xdgx-h100"))
    assert many.parameter("matmul.bf16.efficiency") is one.parameter("matmul.bf16.efficiency")
    served = hardware_of(parse_target("h100-sxm-80gb", CATALOG), catalog=CATALOG, engine="vllm")
    assert served.parameter("matmul.bf16.efficiency") is not one.parameter("matmul.bf16.efficiency")
