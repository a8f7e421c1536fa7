"""Are grouped matmuls fitted to what a layer of experts took, and do estimates then ask for that set?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gpuplan.calibrate import knobs
from gpuplan.calibrate.expert_fits import FIXED, GEMMS, fit_experts, predict
from gpuplan.calibrate.fit import fit
from gpuplan.calibrate.table_rows import Rows
from gpuplan.calibrate.trial_chip import Chip
from gpuplan.machine.build import hardware_of
from gpuplan.machine.price import matmul_seconds
from gpuplan.specs.accelerator import Accelerator
from gpuplan.specs.catalog import Catalog
from gpuplan.specs.on import parse_target
from gpuplan.term import USER, Term
from gpuplan.work import Matmul

CATALOG = Catalog.open()
STREAM = {"efficiency": 0.9, "launch": 1e-6}
TRUTH = {
    "efficiency": 0.6, "memory_efficiency": 0.8, "start": 8e-6, "unhidden": 0.3, "tail": 0.2, "throttle": 0.0, "settle": 1e-3,
    "short_depth": 100.0, "walk": 2e-10, "fine": 0.1, "whole": 0.5, "zeroed": 3.0, "tile_m": 32.0, "tile_n": 128.0,
}  # fmt: skip


def layers(count: int = 500) -> Rows:
    """Layers of experts as people divide them, taken at random."""
    dice = np.random.default_rng(3)
    touched = np.exp2(dice.integers(0, 8, count))
    m = np.exp2(dice.integers(0, 12, count))
    cols = {
        "m": m, "touched": touched, "copies": m * touched, "hidden": 1024.0 * dice.integers(1, 8, count),
        "inner": np.exp2(dice.integers(7, 14, count)), "up": np.full(count, 2.0), "even": np.ones(count),
        "elsewhere": m * touched * dice.integers(0, 8, count),
    }  # fmt: skip
    return Rows(cols, np.ones(count), dice.random(count) < 0.4, "fake")


def alone(count: int) -> Rows:
    """The same of one rank that holds all experts, each of which has work."""
    rows = layers(count)
    rows = rows.where(rows.columns["copies"] >= rows.columns["touched"])
    return replace(rows, columns={**rows.columns, "elsewhere": np.zeros(len(rows))})


def test_a_fake_layer_of_experts_is_recovered() -> None:
    chip = Chip.of(CATALOG.load(Accelerator, "h100-sxm-80gb"))
    rows = layers()
    given = {"dtype": "bf16", "left": 2.0, "right": 2.0}
    rows = replace(rows, seconds=predict(chip, STREAM, rows, TRUTH, **given))  # type: ignore[arg-type]
    every = {**knobs.MATMUL_KNOBS, **knobs.ZEROED}
    found = fit(rows, every, FIXED, lambda r, v: predict(chip, STREAM, r, v, **given))  # type: ignore[arg-type]
    assert found.errors.median_ape < 0.005
    for key in ("efficiency", "memory_efficiency", "start", "zeroed"):
        assert found.values[key].value == pytest.approx(TRUTH[key], rel=0.03), key


HEAD = (
    "framework,version,kernel_source,moe_dtype,num_tokens,hidden_size,inter_size,topk,num_experts,moe_tp_size,moe_ep_size,"
    "distribution,latency\n"
)


def test_a_set_is_of_all_kernels_that_an_engine_takes(tmp_path: Path) -> None:
    chip = Chip.of(CATALOG.load(Accelerator, "h100-sxm-80gb"))
    rows = alone(400)
    seconds = predict(chip, STREAM, rows, TRUTH, dtype="bf16", left=2.0, right=2.0)
    lines = []
    cols = rows.columns
    for at in range(len(rows)):
        shape = (
            f"bfloat16,{cols['copies'][at]:.0f},{cols['hidden'][at]:.0f},{cols['inner'][at]:.0f},1,{cols['touched'][at]:.0f},1,1"
        )
        lines += [
            f"TRTLLM,1.2,{'one' if at % 2 else 'other'},{shape},balanced,{1e3 * seconds[at]}",
            f"TRTLLM,1.2,asked_min_latency,{shape},balanced,{3e3 * seconds[at]}",
        ]
    (tmp_path / "h100_sxm-moe.csv").write_text(HEAD + "\n".join(lines) + "\n")
    made = fit_experts(tmp_path, "h100_sxm", chip, STREAM)
    own = "engines.tensorrt-llm.grouped"
    assert set(made.sets) == {"grouped.bf16", f"{own}.bf16", f"{own}_few.bf16"}
    assert made.sets["grouped.bf16"].software == "TRTLLM 1.2 one, TRTLLM 1.2 other"
    assert made.sets["grouped.bf16"].errors.median_ape < 0.02
    few = made.sets[f"{own}_few.bf16"]
    assert (few.software, few.values["most_tokens"].value) == ("TRTLLM 1.2 asked_min_latency", 128.0)
    assert few.rows_fitted + few.rows_held_back == (cols["copies"] <= 128).sum()


def test_a_kernel_of_layers_without_a_gate_alone_is_a_set_of_its_own(tmp_path: Path) -> None:
    chip = Chip.of(CATALOG.load(Accelerator, "h100-sxm-80gb"))
    rows = alone(400)
    rows = replace(rows, columns={**rows.columns, "hidden": np.full(len(rows), 2688.0)})
    given = {"dtype": "bf16", "left": 2.0, "right": 2.0}
    tp = np.exp2(np.arange(len(rows)) % 4)
    bare = replace(rows, columns={**rows.columns, "inner": 1856.0 / tp, "up": np.full(len(rows), 1.0)})
    lines = []
    for kernel, each, slower, ways in (("fused", rows, 1.0, np.ones(len(rows))), ("bare", bare, 4.0, tp)):
        seconds = slower * predict(chip, STREAM, each, TRUTH, **given)  # type: ignore[arg-type]
        cols = each.columns
        lines += [
            f"SGLang,0.5,{kernel},bfloat16,{cols['copies'][at]:.0f},{cols['hidden'][at]:.0f},{cols['inner'][at] * ways[at]:.0f},1,"
            f"{cols['touched'][at]:.0f},{ways[at]:.0f},1,balanced,{1e3 * seconds[at]}"
            for at in range(len(each))
        ]
    (tmp_path / "h100_sxm-moe.csv").write_text(HEAD + "\n".join(lines) + "\n")
    made = fit_experts(tmp_path, "h100_sxm", chip, STREAM)
    assert made.sets["engines.sglang.grouped.bf16"].software == "SGLang 0.5 fused"
    assert made.sets["engines.sglang.grouped_ungated.bf16"].software == "SGLang 0.5 bare"


def test_an_engine_takes_another_kernel_for_experts_without_a_gate() -> None:
    def asked(engine: str, *, ungated: bool) -> float:
        hw = hardware_of(parse_target("h100-sxm-80gb", CATALOG), catalog=CATALOG, engine=engine)
        return float(matmul_seconds(item(grouped=True, left=2.0, right=2.0).replaced(ungated=ungated), hw).value)

    assert asked("sglang", ungated=True) > 1.5 * asked("sglang", ungated=False)
    assert asked("vllm", ungated=True) == asked("vllm", ungated=False)


def test_places_of_other_ranks_experts_are_zeroed_by_kernels_that_keep_them() -> None:
    def asked(engine: str, elsewhere: float | None) -> float:
        hw = hardware_of(parse_target("h100-sxm-80gb", CATALOG), catalog=CATALOG, engine=engine)
        rows = None if elsewhere is None else Term("elsewhere", elsewhere, "1", USER)
        return float(matmul_seconds(item(grouped=True, left=2.0, right=2.0).replaced(elsewhere=rows), hw).value)

    triton, cutlass = ((asked(one, 1e5) - asked(one, None)) / asked(one, None) for one in ("sglang", "tensorrt-llm"))
    assert triton > 5 * cutlass
    assert asked("sglang", 0.0) == asked("sglang", None)


def test_a_slow_kernel_is_told_and_not_replaced(tmp_path: Path) -> None:
    chip = Chip.of(CATALOG.load(Accelerator, "h100-sxm-80gb"))
    rows = alone(400)
    slow = predict(chip, STREAM, rows, {**TRUTH, "memory_efficiency": 0.15}, dtype="bf16", left=2.0, right=2.0)
    cols = rows.columns
    lines = [
        f"VLLM,0.9,slow,bfloat16,{cols['copies'][at]:.0f},{cols['hidden'][at]:.0f},{cols['inner'][at]:.0f},1,"
        f"{cols['touched'][at]:.0f},1,1,balanced,{1e3 * slow[at]}"
        for at in range(len(rows))
    ]
    (tmp_path / "h100_sxm-moe.csv").write_text(HEAD + "\n".join(lines) + "\n")
    made = fit_experts(tmp_path, "h100_sxm", chip, STREAM)
    assert made.sets["engines.vllm.grouped.bf16"].values["memory_efficiency"].value == pytest.approx(0.15, rel=0.05)


def test_every_engine_has_kernels_by_inputs_of_eight_and_of_sixteen_bits(tmp_path: Path) -> None:
    chip = Chip.of(CATALOG.load(Accelerator, "b200-sxm-180gb"))
    rows = alone(400)
    lines = []
    cols = rows.columns
    for kind in ("mxfp4_a8", "mxfp4_wo"):
        gemm = GEMMS[kind]
        seconds = predict(chip, STREAM, rows, TRUTH, dtype=gemm.dtype, left=gemm.left, right=gemm.right)
        lines += [
            f"{name},1.2,one,{gemm.table},{cols['copies'][at]:.0f},{cols['hidden'][at]:.0f},{cols['inner'][at]:.0f},1,"
            f"{cols['touched'][at]:.0f},1,1,balanced,{1e3 * seconds[at]}"
            for at in range(len(rows)) for name in ("TRTLLM", "VLLM")
        ]  # fmt: skip
    (tmp_path / "b200_sxm-moe.csv").write_text(HEAD + "\n".join(lines) + "\n")
    made = fit_experts(tmp_path, "b200_sxm", chip, STREAM)
    engines = {f"engines.{engine}.grouped.mxfp4_{inputs}" for engine in ("tensorrt-llm", "vllm") for inputs in ("a8", "wo")}
    assert set(made.sets) == {"grouped.mxfp4_wo", *engines}, "the base has no inputs of 8 bits, which not every engine takes"


def item(*, grouped: bool, blocked: bool = False, right: float = 1.0, left: float = 1.0) -> Matmul:
    def given(value: float, unit: str = "1") -> Term:
        return Term("given", value, unit, USER)

    return Matmul(
        name="mm", m=given(64.0), n=given(4096.0), k=given(4096.0), batch=given(8.0), dtype="fp8" if left == 1.0 else "bf16",
        left_bytes=given(left, "B"), right_bytes=given(right, "B"), out_bytes=given(2.0, "B"), grouped=grouped, blocked=blocked,
    )  # fmt: skip


def leaves(term: Term) -> set[str]:
    """Every name under a term."""
    found, todo = set(), [term]
    while todo:
        one = todo.pop()
        if one.name not in found:
            found.add(one.name)
            todo += [each for _, each in one.args]
    return found


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (item(grouped=True), "grouped.fp8"),
        (item(grouped=True, blocked=True), "grouped.fp8_block"),
        (item(grouped=False, blocked=True), "matmul.fp8_block"),
        (item(grouped=False), "matmul.fp8"),
        (item(grouped=True, left=2.0, right=2.0), "grouped.bf16"),
        (item(grouped=True, left=2.0, right=GEMMS["int4_wo"].right), "grouped.int4_wo"),
        (item(grouped=False, left=2.0, right=GEMMS["int4_wo"].right), "matmul.bf16"),
    ],
)
def test_a_matmul_asks_for_the_set_that_describes_it_best(asked: Matmul, expected: str) -> None:
    hw = hardware_of(parse_target("h100-sxm-80gb", CATALOG), catalog=CATALOG)
    names = leaves(matmul_seconds(asked, hw))
    assert f"hw.{expected}.efficiency" in names
    assert ("hw.grouped_residual" in names) == expected.startswith("grouped")


def test_an_engine_takes_another_kernel_for_few_tokens() -> None:
    def asked(tokens: float, engine: str) -> float:
        hw = hardware_of(parse_target("b200-sxm-180gb", CATALOG), catalog=CATALOG, engine=engine)
        four_bits = item(grouped=True, left=0.5, right=0.5625).replaced(dtype="fp4", tokens=Term("tokens", tokens, "1", USER))
        return float(matmul_seconds(four_bits, hw).value)

    assert asked(1.0, "tensorrt-llm") == asked(128.0, "tensorrt-llm") < asked(129.0, "tensorrt-llm") == asked(1e4, "tensorrt-llm")
    assert asked(1.0, "vllm") == asked(129.0, "vllm")


def test_mx_weights_meet_activations_of_eight_bits_where_the_engine_takes_them() -> None:
    asked = item(grouped=True, left=2.0, right=GEMMS["mxfp4_wo"].right).replaced(micro=True)

    def names(*kinds: str) -> set[str]:
        target = parse_target("b200-sxm-180gb", CATALOG)
        hw = hardware_of(target, catalog=CATALOG, engine="vllm", eight_bit_inputs=kinds)
        return leaves(matmul_seconds(asked, hw))

    assert {"hw.grouped.mxfp4_a8.efficiency", "hw.fp8_flop_per_s"} <= names("mxfp4")
    assert {"hw.grouped.mxfp4_wo.efficiency", "hw.bf16_flop_per_s"} <= names()


def test_weight_only_matmuls_start_as_others_do_but_in_the_engine_that_was_timed() -> None:
    def start(engine: str | None, kind: str = "int8_wo") -> float:
        hw = hardware_of(parse_target("a100-sxm-80gb", CATALOG), catalog=CATALOG, engine=engine)
        assert "hw.matmul.int8_wo.efficiency" in leaves(matmul_seconds(item(grouped=False, left=2.0), hw))
        return float(hw.parameter(f"matmul.{kind}.start").value)

    assert start(None) == start("vllm") == start(None, "bf16")
    assert start("tensorrt-llm") > 2 * start("tensorrt-llm", "bf16")


def test_a_chip_without_measured_experts_prices_them_as_batched_matmuls() -> None:
    hw = hardware_of(parse_target("mi300x", CATALOG), catalog=CATALOG)
    grouped, batched = (matmul_seconds(item(grouped=each, left=2.0, right=2.0), hw) for each in (True, False))
    assert grouped.value == batched.value


def test_a_handful_of_rows_fits_nothing(tmp_path: Path) -> None:
    (tmp_path / "h100_sxm-moe.csv").write_text(HEAD + "TRTLLM,1.2,quick,bfloat16,8,1024,1024,1,8,1,1,balanced,0.1\n")
    chip = Chip.of(CATALOG.load(Accelerator, "h100-sxm-80gb"))
    assert fit_experts(tmp_path, "h100_sxm", chip, STREAM).sets == {}
