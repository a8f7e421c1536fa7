"""What the shape of systolic arrays and the order of tiles cost on TPUs, and rings of other chips in a torus."""

from __future__ import annotations

from typing import Any

import pytest

from gpuplan.machine.build import hardware_of
from gpuplan.machine.hardware import Hardware
from gpuplan.machine.price import seconds
from gpuplan.specs.catalog import Catalog
from gpuplan.specs.on import parse_target
from gpuplan.term import DEFINITION, Term
from gpuplan.work import Attention, Collective, Matmul

CATALOG = Catalog.open()


def hardware(on: str) -> Hardware:
    return hardware_of(parse_target(on, CATALOG), catalog=CATALOG, engine="maxtext", fused_experts=False)


def leaf(value: float) -> Term:
    return Term("leaf", value, "1", DEFINITION)


TWO = Term("two", 2.0, "B", DEFINITION)


def attention(on: str, *, heads: float, dim: float, **given: Any) -> float:
    item = Attention(
        name="a", sequences=leaf(4), q_len=leaf(8192), kv_len=leaf(8192), heads=leaf(heads), kv_heads=leaf(heads), k_dim=leaf(dim),
        v_dim=leaf(dim), kv_element_bytes=TWO, dtype="bf16", causal=True, **given,
    )  # fmt: skip
    return float(seconds(item, hardware(on)).value)


def test_small_heads_leave_half_of_an_array_idle() -> None:
    """128 x 128 arrays pad a head of 64 (How to Scale Your Model, TPUs: smaller axes are padded to 128)."""
    wide, narrow = attention("tpu-v5e", heads=16, dim=128), attention("tpu-v5e", heads=32, dim=64)
    assert narrow > 2 * wide


@pytest.mark.parametrize("backward", [False, True])
def test_softmax_weighs_more_beside_wider_arrays(backward: bool) -> None:
    """The same products in twice the heads of half the width take longer, and by more where arrays are 256 x 256."""
    lost = [
        attention(on, heads=32, dim=128, backward=backward) / attention(on, heads=16, dim=256, backward=backward)
        for on in ("4xtpu-v5p", "tpu-v6e")
    ]
    assert 1 < lost[0] < 1.05 < lost[1]


def test_experts_compute_the_tiles_where_their_rows_meet_twice() -> None:
    """megablox takes a tile of 512 rows more for each expert: 1024 rows take as long as 1536, of a weight gradient as well."""
    hw = hardware("4xtpu-v5p")

    def took(rows: float, *, grouped: bool, gradient: bool = False) -> float:
        shape = {"m": leaf(5120), "k": leaf(rows)} if gradient else {"m": leaf(rows), "k": leaf(5120)}
        item = Matmul(
            name="experts_up", sums_rows=gradient, n=leaf(8192), batch=leaf(16), dtype="bf16", left_bytes=TWO,
            right_bytes=TWO, out_bytes=TWO, grouped=grouped, **shape,
        )  # fmt: skip
        return float(seconds(item, hw).value)

    for gradient in (False, True):
        assert took(1024, grouped=True, gradient=gradient) == pytest.approx(
            1.5 * took(1024, grouped=False, gradient=gradient), rel=0.08
        )


@pytest.mark.parametrize(("chips", "slack"), [(2, 0.12), (4, 0.12), (16, 0.12)])
def test_collectives_of_neuron_run_in_one_ring_whatever_the_torus(chips: int, slack: float) -> None:
    """nccom-test on trn1.32xlarge: a bus bandwidth of 56.7 GB/s with 2 ranks and 50.6 with 64, at 1 GiB; 4 x 192 GB/s are there."""
    size, whole = (
        2.0**30,
        hardware_of(parse_target("16xtrainium1", CATALOG), catalog=CATALOG, engine="megatron-lm", fused_experts=False),
    )
    item = Collective(name="c", kind="all_reduce", size=Term("size", size, "B", DEFINITION), group=leaf(chips), stride=leaf(1))
    bus = 2 * (chips - 1) / chips * size / float(seconds(item, whole).value)
    assert bus == pytest.approx(53.6e9, rel=slack)
