"""Do the collective formulas count bytes as nccl-tests does, and split a group over levels without losing any?"""

from __future__ import annotations

import pytest

from gpuplan.formulas import collectives as fabric

SIZE = 1e9


@pytest.mark.parametrize("ranks", [2.0, 4.0, 8.0, 16.0])
def test_bus_bandwidth_factors_of_nccl_tests(ranks: float) -> None:
    assert fabric.all_reduce_wire(size=SIZE, ranks=ranks, covered=1.0) == pytest.approx(2 * (ranks - 1) / ranks * SIZE)
    assert fabric.gather_wire(size=SIZE, ranks=ranks, covered=1.0) == pytest.approx((ranks - 1) / ranks * SIZE)
    assert fabric.all_to_all_wire(size=SIZE, group=ranks, ranks=ranks, covered=1.0) == pytest.approx((ranks - 1) / ranks * SIZE)


def test_two_levels_send_to_every_peer_once() -> None:
    group, inside = 32.0, 8.0
    outside = fabric.ranks_outside(group=group, inside=inside)
    within = fabric.all_to_all_wire(size=SIZE, group=group, ranks=inside, covered=1.0)
    across = fabric.all_to_all_wire(size=SIZE, group=group, ranks=outside, covered=inside)
    assert within + across == pytest.approx((group - 1) / group * SIZE)


@pytest.mark.parametrize(
    ("group", "stride", "size", "inside"), [(8, 1, 8, 8), (16, 1, 8, 8), (4, 4, 8, 2), (8, 8, 8, 1), (2, 64, 8, 1)]
)
def test_placement(group: int, stride: int, size: int, inside: int) -> None:
    assert fabric.ranks_inside(group=float(group), stride=float(stride), size=float(size)) == inside


def test_one_rank_sends_nothing() -> None:
    for wire in (
        fabric.all_reduce_wire(size=SIZE, ranks=1.0, covered=4.0),
        fabric.gather_wire(size=SIZE, ranks=1.0, covered=4.0),
        fabric.all_to_all_wire(size=SIZE, group=4.0, ranks=1.0, covered=4.0),
        fabric.broadcast_wire(size=SIZE, ranks=1.0, covered=4.0),
        fabric.level_start_seconds(ranks=1.0, size=SIZE, start=1e-5, per_doubling=1e-6, bulk=1e-5, switch=1e6),
    ):
        assert wire == 0.0


def test_shares_stay_between_pair_and_full() -> None:
    shares = [fabric.reached_share(ranks=float(n), size=8.0, pair=0.6, full=0.9) for n in (1, 2, 3, 4, 8, 64)]
    assert shares == sorted(shares)
    assert shares[0] == shares[1] == pytest.approx(0.6)
    assert shares[-1] == shares[-2] == pytest.approx(0.9)


def test_mi300x_mesh_as_measured() -> None:
    # nccl-tests bus bandwidth on 8 x MI300X: 47.7 GB/s with 2 ranks, 312.9 GB/s with 8 (ml-engineering, network benchmarks)
    for ranks, measured in ((2.0, 47.7e9), (8.0, 312.9e9)):
        share = fabric.linked_share(ranks=ranks, peer_bandwidth=64e9, bandwidth=448e9, full=0.7)
        assert share * 448e9 == pytest.approx(measured, rel=0.07)


def test_torus_axes() -> None:
    axes = [(1.0, 4.0), (4.0, 4.0), (16.0, 8.0)]

    def links(group: float, stride: float) -> list[float]:
        return [fabric.axis_links(group=group, stride=stride, below=below, length=length, links=2.0) for below, length in axes]

    assert links(4.0, 1.0) == [2.0, 0.0, 0.0]
    assert links(16.0, 1.0) == [2.0, 2.0, 0.0]
    assert links(128.0, 1.0) == [2.0, 2.0, 2.0]
    assert links(8.0, 16.0) == [0.0, 0.0, 2.0]
    assert links(4.0, 4.0) == [0.0, 2.0, 0.0]
