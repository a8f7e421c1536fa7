"""Are prices of work sane on every chip: above the physical bound, free when nothing is sent, monotone, the same for arrays?"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpuplan.errors import UnknownError
from gpuplan.machine.build import hardware_of
from gpuplan.machine.called import called_all_reduce_seconds
from gpuplan.machine.hardware import Hardware
from gpuplan.machine.price import (
    attention_seconds,
    collective_seconds,
    matmul_seconds,
    seconds,
    stream_seconds,
    transfer_seconds,
)
from gpuplan.ranges import interval
from gpuplan.specs.catalog import Catalog
from gpuplan.specs.on import parse_target
from gpuplan.term import USER, Term
from gpuplan.work import Attention, Collective, CollectiveKind, Dtype, Matmul, Stream, Transfer

CATALOG = Catalog.open()
MACHINES = {
    name: hardware_of(parse_target(name, CATALOG), catalog=CATALOG)
    for name in (
        "2xdgx-h100",
        "dgx-h200",
        "dgx-a100-640gb",
        "8xl40s",
        "dgx-b200",
        "mi300x-8",
        "tpu-v5p-256",
        "gb200-nvl72",
        "gaudi2-8",
    )
}
KINDS: tuple[CollectiveKind, ...] = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast")
every_machine = pytest.mark.parametrize("hw", MACHINES.values(), ids=MACHINES.keys())


def given(value: Any, unit: str = "1", name: str = "given") -> Term:
    return Term(name, value, unit, USER)


def matmul(m: Any, n: Any, k: Any, dtype: Dtype = "bf16", right: float = 2.0, batch: Any = 1.0) -> Matmul:
    return Matmul(
        name="mm", m=given(m), n=given(n), k=given(k), batch=given(batch), dtype=dtype, left_bytes=given(2.0, "B"),
        right_bytes=given(right, "B"), out_bytes=given(2.0, "B"),
    )  # fmt: skip


def attention(q: Any, kv: Any, sequences: Any = 1.0, **more: Any) -> Attention:
    return Attention(
        name="attn", sequences=given(sequences), q_len=given(q), kv_len=given(kv), heads=given(32.0), kv_heads=given(8.0),
        k_dim=given(128.0), v_dim=given(128.0), kv_element_bytes=given(more.pop("stored", 2.0), "B"), dtype="bf16",
        causal=more.pop("causal", True), **more,
    )  # fmt: skip


def collective(kind: CollectiveKind, size: Any, group: Any, stride: Any = 1.0) -> Collective:
    return Collective(name="coll", kind=kind, size=given(size, "B"), group=given(group), stride=given(stride))


SHAPES = [(1.0, 4096.0, 4096.0), (64.0, 8192.0, 8192.0), (777.0, 1536.0, 4000.0), (8192.0, 28672.0, 8192.0), (1.0, 1.0, 1.0)]


@every_machine
@pytest.mark.parametrize("shape", SHAPES)
def test_no_matmul_beats_the_roofline(hw: Hardware, shape: tuple[float, float, float]) -> None:
    m, n, k = shape
    taken = matmul_seconds(matmul(m, n, k), hw)
    bound = max(2 * m * n * k / hw.peak("bf16").value, 2 * (m * k + k * n + m * n) / hw.hbm_bandwidth.value)
    assert taken.value >= bound
    assert taken.unit == "s"
    low, high = interval({"t": taken})["t"]
    assert low < taken.value < high


@every_machine
def test_no_attention_beats_the_roofline(hw: Hardware) -> None:
    peak, bandwidth = hw.peak("bf16").value, hw.hbm_bandwidth.value
    for q in (64.0, 512.0, 8192.0):
        flop = 4 * q * (q + 1) / 2 * 32 * 128
        assert attention_seconds(attention(q, q), hw).value >= flop / peak
        assert attention_seconds(attention(q, q, backward=True), hw).value >= 2.5 * flop / peak
    for kv in (16.0, 4096.0, 131072.0):
        assert attention_seconds(attention(1.0, kv, 64.0), hw).value >= 64 * kv * 8 * 256 * 2 / bandwidth


@every_machine
def test_a_window_is_never_dearer(hw: Hardware) -> None:
    for q, kv in ((8192.0, 8192.0), (1.0, 8192.0)):
        whole = attention_seconds(attention(q, kv), hw).value
        assert attention_seconds(attention(q, kv, window=given(512.0)), hw).value < whole
        assert attention_seconds(attention(q, kv, window=given(1e9)), hw).value == pytest.approx(whole)


@every_machine
def test_streams_and_launches_add_up(hw: Hardware) -> None:
    one = stream_seconds(Stream(name="s", size=given(1e9, "B"), launches=given(1.0)), hw).value
    two = stream_seconds(Stream(name="s", size=given(1e9, "B"), launches=given(2.0)), hw).value
    assert one >= 1e9 / hw.hbm_bandwidth.value
    assert two - one == pytest.approx(hw.parameter("stream.launch").value)


@every_machine
@pytest.mark.parametrize("kind", KINDS)
def test_a_group_of_one_costs_nothing(hw: Hardware, kind: CollectiveKind) -> None:
    for stride in (1.0, 2.0, 64.0):
        assert collective_seconds(collective(kind, 1e9, 1.0, stride), hw).value == 0.0


@every_machine
@pytest.mark.parametrize("kind", KINDS)
def test_more_bytes_are_never_faster(hw: Hardware, kind: CollectiveKind) -> None:
    sizes = np.exp2(np.arange(0.0, 34.0))
    for group, stride in ((2.0, 1.0), (4.0, 2.0), (8.0, 1.0)):
        taken = np.asarray(collective_seconds(collective(kind, sizes, group, stride), hw).value)
        assert (np.diff(taken) > 0).all()


def test_placement_by_size_and_stride() -> None:
    hw = MACHINES["2xdgx-h100"]
    inside = collective_seconds(collective("all_reduce", 1e9, 8.0), hw)
    across = collective_seconds(collective("all_reduce", 1e9, 2.0, 8.0), hw)
    both = collective_seconds(collective("all_reduce", 1e9, 16.0), hw)
    assert inside.find("coll.scale-out.wire_bytes").value == 0.0  # type: ignore[union-attr]
    assert inside.find("coll.nvlink4-nvswitch.wire_bytes").value == pytest.approx(1.75e9)  # type: ignore[union-attr]
    assert across.find("coll.nvlink4-nvswitch.wire_bytes").value == 0.0  # type: ignore[union-attr]
    assert across.find("coll.scale-out.wire_bytes").value == pytest.approx(1e9)  # type: ignore[union-attr]
    assert both.find("coll.scale-out.wire_bytes").value == pytest.approx(1e9 / 8)  # type: ignore[union-attr]
    assert across.value > both.value >= inside.value
    # 400 Gbit/s for each of eight NICs, all used when each host reduces first
    assert both.value < 2 * 1e9 / 50e9


@pytest.mark.parametrize(
    ("on", "size", "measured"), [("h100-pcie-4", 66_322_432.0, 2.045e-3), ("a100-pcie-80gb-4", 531_488_770.0, 33.55e-3)]
)  # fmt: skip
def test_a_ring_over_bridged_pairs_has_the_pace_of_pcie(on: str, size: float, measured: float) -> None:
    """Four cards of which NVLink joins pairs (vidur's profiles): what a pair has summed up crosses PCIe as all of it would."""
    hw = hardware_of(parse_target(on, CATALOG), catalog=CATALOG)
    whole, pair = (collective_seconds(collective("all_reduce", size, group), hw) for group in (4.0, 2.0))
    assert whole.value == pytest.approx(measured, rel=0.3)
    assert whole.find("coll.pcie.wire_bytes").value == pytest.approx(1.5 * size)  # type: ignore[union-attr]
    assert pair.find("coll.pcie.wire_bytes").value == 0.0  # type: ignore[union-attr]


def test_engine_all_reduce_is_faster_for_small_messages_only_inside() -> None:
    hw = MACHINES["2xdgx-h100"]
    small, large, far = (collective("all_reduce", size, group) for size, group in ((16384.0, 8.0), (1e9, 8.0), (16384.0, 16.0)))
    assert collective_seconds(small, hw, custom_all_reduce=True).value < 0.5 * collective_seconds(small, hw).value
    assert collective_seconds(large, hw, custom_all_reduce=True).value <= collective_seconds(large, hw).value
    assert collective_seconds(far, hw, custom_all_reduce=True).value == collective_seconds(far, hw).value


def test_latent_attention_is_no_plain_attention_of_its_width() -> None:
    # aiconfigurator-core 0.12.0, b200_sxm/mla, SGLang 0.5.14 (trtllm_mla): a prompt of 8192, 128 heads of 192 and 128. What SGLang
    # leaves of plain heads that are 192 wide to Triton's kernels takes four times as long.
    hw = hardware_of(parse_target("dgx-b200", CATALOG), catalog=CATALOG, engine="sglang")
    latent = attention(8192.0, 8192.0).replaced(heads=given(128.0), kv_heads=given(128.0), k_dim=given(192.0))
    assert attention_seconds(latent, hw).value == pytest.approx(2.08e-3, rel=0.4)


@pytest.mark.parametrize(("engine", "microseconds"), [("vllm", 7.9), ("sglang", 6.4), ("tensorrt-llm", 6.2)])
def test_each_engine_has_its_own_all_reduce(engine: str, microseconds: float) -> None:
    # aiconfigurator-core 0.12.0, h100_sxm/comm, custom_allreduce_perf: 128 KiB over 8 ranks inside a CUDA graph.
    hw = hardware_of(parse_target("dgx-h100", CATALOG), catalog=CATALOG, engine=engine)
    small = collective("all_reduce", 2.0**17, 8.0)
    assert collective_seconds(small, hw, custom_all_reduce=True).value == pytest.approx(1e-6 * microseconds, rel=0.15)


@pytest.mark.parametrize(
    ("on", "ranks", "size", "microseconds"),
    [
        # ROCm AITER pull request 801, `vllm cr`, and vLLM pull request 19744, baseline: fp16 on MI300X.
        ("8xmi300x", 2.0, 2.0**14, 7.53), ("8xmi300x", 2.0, 2.0**20, 28.15), ("8xmi300x", 4.0, 2.0**15, 7.58),
        ("8xmi300x", 4.0, 2.0**22, 63.86),
        # vLLM pull request 39080, which no parameter was set by: bf16 on MI355X.
        ("8xmi355x", 8.0, 48 * 2.0**10, 6.7), ("8xmi355x", 8.0, 768 * 2.0**10, 16.0),
    ],
)  # fmt: skip
def test_sums_over_xgmi_take_a_kernel_of_their_own(on: str, ranks: float, size: float, microseconds: float) -> None:
    hw = hardware_of(parse_target(on, CATALOG), catalog=CATALOG, engine="vllm")
    item = collective("all_reduce", size, ranks)
    assert collective_seconds(item, hw, custom_all_reduce=True).value == pytest.approx(1e-6 * microseconds, rel=0.3)
    assert collective_seconds(item, hw).value > 1.2 * collective_seconds(item, hw, custom_all_reduce=True).value


def test_a_call_by_itself_waits_for_the_host_and_copies() -> None:
    # aiconfigurator-core 0.12.0, h100_sxm/comm, vLLM 0.24.0 without a graph over two ranks: 20.6 us for 16 KiB, 3.96 ms for 1 GiB,
    # where NCCL takes 3.22 ms.
    hw = hardware_of(parse_target("dgx-h100", CATALOG), catalog=CATALOG, engine="vllm")
    for size, measured in ((2.0**14, 20.6e-6), (2.0**30, 3.957e-3)):
        assert called_all_reduce_seconds(collective("all_reduce", size, 2.0), hw).value == pytest.approx(measured, rel=0.1)
    unmeasured = hardware_of(parse_target("dgx-h100", CATALOG), catalog=CATALOG, engine="tensorrt-llm")
    item = collective("all_reduce", 2.0**14, 2.0)
    in_graph = collective_seconds(item, unmeasured, custom_all_reduce=True)
    assert called_all_reduce_seconds(item, unmeasured).value == in_graph.value


def test_beyond_its_bounds_an_engine_leaves_sums_to_the_library() -> None:
    one = hardware_of(parse_target("dgx-a100-640gb", CATALOG), catalog=CATALOG, engine="vllm")
    bound = one.parameter("fabric.nvlink3-nvswitch.custom_all_reduce.up_to").value
    for size, own in ((bound, True), (2 * bound, False)):
        item = collective("all_reduce", size, 2.0)
        assert (collective_seconds(item, one, custom_all_reduce=True).value < collective_seconds(item, one).value) == own
    rack = hardware_of(parse_target("gb200-nvl72", CATALOG), catalog=CATALOG, engine="sglang")
    for ranks, own in ((4.0, True), (8.0, False)):
        item = collective("all_reduce", 2.0**16, ranks)
        assert (collective_seconds(item, rack, custom_all_reduce=True).value < collective_seconds(item, rack).value) == own


@pytest.mark.parametrize(("ranks", "seconds"), [(2.0, 0.0267), (4.0, 0.156), (8.0, 0.649)])
def test_a_system_may_name_whose_collectives_it_has(ranks: float, seconds: float) -> None:
    # aiconfigurator-core 0.12.0, l40s/comm, nccl_perf 2.27.3: all-reduce of 512 MiB; all but pairs go through the host.
    staged = hardware_of(parse_target("l40s-8-staged", CATALOG), catalog=CATALOG)
    item = collective("all_reduce", 2.0**29, ranks)
    assert collective_seconds(item, staged).value == pytest.approx(seconds, rel=0.15)
    peers = hardware_of(parse_target("8xrtx-4090", CATALOG), catalog=CATALOG)
    assert peers.levels[0].bandwidth_per_direction.value == staged.levels[0].bandwidth_per_direction.value
    if ranks > 2:
        assert collective_seconds(item, peers).value < 0.5 * seconds


def test_torus_uses_the_axes_that_the_group_spans() -> None:
    hw = MACHINES["tpu-v5p-256"]
    (level,) = hw.levels
    assert level.dims
    one_axis = collective_seconds(collective("all_gather", 1e9, float(level.dims[0])), hw)
    everything = collective_seconds(collective("all_gather", 1e9, float(hw.count)), hw)
    assert everything.find("coll.ici.share").value == pytest.approx(0.9)  # type: ignore[union-attr]
    assert one_axis.find("coll.ici.share").value < 0.5  # type: ignore[union-attr, operator]


def test_transfers() -> None:
    hw = MACHINES["2xdgx-h100"]
    taken = {
        path: transfer_seconds(Transfer(name="t", size=given(1e9, "B"), path=path, stride=given(1.0)), hw).value
        for path in ("scale_up", "scale_out", "host")
    }
    assert taken["scale_up"] < taken["host"] < taken["scale_out"]
    assert taken["scale_out"] >= 1e9 / 50e9


@every_machine
def test_arrays_equal_scalars(hw: Hardware) -> None:
    rows = np.array([1.0, 64.0, 5000.0])
    sizes, groups, strides = np.array([1e3, 1e6, 1e9]), np.array([1.0, 4.0, 8.0]), np.array([1.0, 2.0, 1.0])
    pairs = [
        (matmul(rows, 4096.0, 2048.0), [matmul(m, 4096.0, 2048.0) for m in rows.tolist()]),
        (matmul(64.0, 4096.0, 2048.0, batch=rows), [matmul(64.0, 4096.0, 2048.0, batch=b) for b in rows.tolist()]),
        (attention(64 * rows, 64 * rows), [attention(64 * q, 64 * q) for q in rows.tolist()]),
        (attention(1.0, 100 * rows, rows), [attention(1.0, 100 * q, q) for q in rows.tolist()]),
    ]
    pairs += [
        (
            collective(kind, sizes, groups, strides),  # type: ignore[misc]
            [collective(kind, s, g, t) for s, g, t in zip(sizes.tolist(), groups.tolist(), strides.tolist(), strict=True)],
        )
        for kind in KINDS
    ]
    for many, singles in pairs:
        got: Any = seconds(many, hw).value
        assert np.broadcast_to(got, 3) == pytest.approx([seconds(one, hw).value for one in singles], rel=1e-12)


@pytest.mark.parametrize(
    ("on", "size", "published"),
    [
        ("v100-sxm2-16gb", 1024, 10.56), ("v100-sxm2-16gb", 2048, 12.71), ("v100-sxm2-16gb", 8192, 14.38),
        ("h100-sxm-80gb", 1024, 37.39), ("h100-sxm-80gb", 4096, 51.88), ("a40", 2048, 21.44), ("rtx-3080-ti", 4096, 24.02),
        ("rtx-4090", 8192, 53.41), ("rtx-5080", 8192, 33.09), ("a100-pcie-80gb", 4500, 18.88),
    ],
)  # fmt: skip
def test_products_in_fp32_are_no_work_of_tensor_cores(on: str, size: float, published: float) -> None:
    hw = hardware_of(parse_target(on, CATALOG), catalog=CATALOG)
    item = Matmul(
        name="mm", m=given(float(size)), n=given(float(size)), k=given(float(size)), batch=given(1.0), dtype="fp32",
        left_bytes=given(4.0, "B"), right_bytes=given(4.0, "B"), out_bytes=given(4.0, "B"),
    )  # fmt: skip
    assert hw.parameter("matmul.fp32.throttle").value == 0
    taken: Any = matmul_seconds(item, hw).value
    assert 2.0 * size**3 / taken / 1e12 == pytest.approx(published, rel=0.09)


def test_what_a_family_tells_of_one_type_hides_no_lender_of_others() -> None:
    """GH200 borrows H100's clock under load in 16 bits, by its own limit of power, beside what its family tells of fp32."""
    falls: list[Any] = [
        hardware_of(parse_target(name, CATALOG), catalog=CATALOG).parameter("matmul.bf16.throttle").value
        for name in ("gh200-96gb", "h100-sxm-80gb")
    ]
    assert 0 < falls[0] != falls[1]


def test_missing_data_type_is_an_error_that_names_it() -> None:
    with pytest.raises(UnknownError, match=r"A100.* has no fp8 rate"):
        matmul_seconds(matmul(1.0, 1.0, 1.0, "fp8"), MACHINES["dgx-a100-640gb"])


def test_no_fabric_is_an_error() -> None:
    hw = hardware_of(parse_target("h100-sxm-80gb", CATALOG), catalog=CATALOG)
    with pytest.raises(UnknownError, match="no fabric level"):
        collective_seconds(collective("all_reduce", 1.0, 2.0), hw)
    with pytest.raises(UnknownError, match="host link"):
        transfer_seconds(Transfer(name="t", size=given(1.0, "B"), path="host", stride=given(1.0)), hw.replaced(host_link=None))


def test_narrow_weights_speed_up_decode_only() -> None:
    hw = MACHINES["2xdgx-h100"]
    few, many = (matmul_seconds(matmul(m, 8192.0, 8192.0), hw).value for m in (1.0, 8192.0))
    few4, many4 = (matmul_seconds(matmul(m, 8192.0, 8192.0, right=0.5), hw).value for m in (1.0, 8192.0))
    assert few4 < 0.4 * few
    assert many4 > 0.9 * many


def test_a_row_of_plain_arithmetic_waits_for_its_weights_alone() -> None:
    """A vector by a matrix in fp32 fills no tile of a matrix unit: LitGPT's Falcon 7B makes 37 tokens a second of it on A100."""
    hw = hardware_of(parse_target("a100-sxm-40gb", Catalog.open()), catalog=Catalog.open())
    made: Any = matmul_seconds(matmul(1.0, 4544.0, 18176.0, "fp32", right=4.0), hw).value
    least: Any = 4544.0 * 18176.0 * 4.0 / hw.hbm_bandwidth.value
    assert least < made < 2.0 * least


def test_few_units_keep_fewer_bytes_under_way() -> None:
    """What a unit has under way at most leaves bandwidth idle where units are few, and nothing where they are many."""
    target = parse_target("a100-sxm-80gb", Catalog.open())
    item = matmul(1.0, 8192.0, 8192.0, right=0.5625)
    free = hardware_of(target, catalog=Catalog.open(), engine="llama-cpp")
    rate = next(name for name in free.parameters if name.startswith("matmul.int4_wo") and name.endswith("unit_rate"))

    def seconds_at(bytes_per_s: float) -> Any:
        limited = free.replaced(parameters={**free.parameters, rate: given(bytes_per_s, "B/s", rate)})
        return matmul_seconds(item, limited).value

    assert seconds_at(5e9) > 1.5 * seconds_at(1.2e10)
    assert seconds_at(3e10) == seconds_at(6e10)


def test_widening_takes_longer_where_arithmetic_is_slow() -> None:
    """K types of GGUF files on Macs are bound by putting weights together, and plain ones of four bits are not."""
    hw = hardware_of(parse_target("apple-m3-max-40c", Catalog.open()), catalog=Catalog.open(), engine="llama-cpp")
    plain = matmul(1.0, 8192.0, 8192.0, right=0.5625)
    coded: Any = matmul_seconds(plain.replaced(coded=True), hw).value
    simple: Any = matmul_seconds(plain, hw).value
    widen: Any = hw.parameter("matmul.coded_wo.widen").value
    peak: Any = hw.peaks["fp32"].value
    assert coded > simple
    assert coded > 8192.0 * 8192.0 * widen / peak
