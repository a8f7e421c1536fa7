"""Where groups lie on the fabric: levels, wraparound, rails, oversubscription, PCIe; more bandwidth is never slower."""

from __future__ import annotations

from typing import Any

import pytest

from gpuplan.errors import UsageError
from gpuplan.estimate.training import training_figures
from gpuplan.machine.hardware import Hardware
from gpuplan.machine.price import collective_seconds, transfer_seconds
from gpuplan.plan.ask import TrainAsk
from gpuplan.plan.train import Manner
from gpuplan.record import replace
from gpuplan.search.library import Library
from gpuplan.search.training import answer_training
from gpuplan.term import DEFINITION, Term
from gpuplan.work import Collective, CollectiveKind, Path, Transfer
from tests.estimate.subjects import subject, train_plan

PATHS: tuple[tuple[Path, float], ...] = (("scale_up", 1.0), ("scale_out", 8.0))
KINDS: tuple[CollectiveKind, ...] = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")


def machine(on: str) -> Hardware:
    return subject("llama-3.1-8b", on).hw


def term(name: str, value: float, unit: str = "1") -> Term:
    return Term(name, value, unit, DEFINITION)


def sent(hw: Hardware, kind: CollectiveKind, group: float, stride: float = 1.0, size: float = 1e9) -> float:
    item = Collective(name="x", kind=kind, size=term("size", size, "B"), group=term("group", group), stride=term("stride", stride))
    return float(collective_seconds(item, hw).value)  # type: ignore[arg-type]


def faster(hw: Hardware, at: int, factor: float) -> Hardware:
    """The same with one level of another bandwidth."""
    levels = list(hw.levels)
    level = levels[at]
    wide = replace(level.bandwidth_per_direction, value=float(level.bandwidth_per_direction.value) * factor)  # type: ignore[arg-type]
    levels[at] = level.replaced(bandwidth_per_direction=wide)
    return hw.replaced(levels=tuple(levels))


@pytest.mark.parametrize("on", ["32xh100-sxm-80gb", "144xgb200-186gb", "16xl40s", "256xtpu-v5p", "16xmi300x", "4xdgx-a100@ib-hdr"])
@pytest.mark.parametrize("kind", KINDS)
def test_more_bandwidth_is_never_slower(on: str, kind: CollectiveKind) -> None:
    hw = machine(on)
    for at in range(len(hw.levels)):
        for group, stride in ((2.0, 1.0), (8.0, 1.0), (2.0, 8.0), (float(hw.count), 1.0)):
            times = [sent(faster(hw, at, factor), kind, group, stride) for factor in (0.5, 1.0, 2.0)]
            assert times == sorted(times, reverse=True), (hw.levels[at].name, group, stride)


STAGED = ("16xl40s", "all_to_all")
"""Its host hands all-to-alls on through its own memory: as published, slower than a port of the network for each accelerator."""
INSIDE = [
    (on, kind) for on in ("16xh100-sxm-80gb", "16xa100-sxm-80gb", "16xl40s", "16xmi300x") for kind in KINDS if (on, kind) != STAGED
]


@pytest.mark.parametrize(("on", "kind"), INSIDE)
def test_inside_a_node_is_faster_than_across_nodes(on: str, kind: CollectiveKind) -> None:
    hw = machine(on)
    assert sent(hw, kind, 8.0, 1.0) < sent(hw, kind, 16.0, 1.0)
    assert sent(hw, kind, 2.0, 1.0) < sent(hw, kind, 2.0, 8.0)


def test_a_group_along_the_rails_has_the_port_of_each_rank() -> None:
    # Eight groups of two nodes, each on its own port; a group that fills both nodes sends its whole size through all eight.
    hw = machine("2xdgx-h100")
    rail, all_ranks = (sent(hw, "all_gather", group, stride) for group, stride in ((2.0, 8.0), (16.0, 1.0)))
    port = float(hw.levels[-1].bandwidth_per_direction.value)  # type: ignore[arg-type]
    assert rail > 0.5e9 / port
    assert all_ranks < 0.6 * rail, "gathering over nodes and then inside them uses every port"


def test_a_pipeline_waits_for_the_hand_over_that_crosses_nodes() -> None:
    # Two ranks a stage: inside a node while four stages fill it, and across nodes as soon as there are more.
    def handed(on: str, **plan: Any) -> float:
        figures = training_figures(subject("llama-3.1-8b", on), train_plan(global_batch=64.0, **plan))
        found = figures.time.step.find("first_stage.step.micro.one_send")
        assert found is not None
        return float(found.value)  # type: ignore[arg-type]

    inside = handed("2xdgx-h100", tp=2.0, pp=4.0, dp=2.0, zero_stage=0)
    near = handed("dgx-h100", tp=2.0, pp=4.0)
    across = handed("2xdgx-h100", tp=2.0, pp=8.0)
    assert across > 2.5 * near
    assert inside == across, "stages of two ranks and two replicas are four ranks apart"


def test_a_wider_domain_is_no_slower() -> None:
    rack, nodes = machine("2xgb200-nvl72"), machine("144xb200-sxm-180gb")
    for kind in KINDS:
        assert sent(rack, kind, 8.0) < sent(rack, kind, 64.0) * 1.5
        assert sent(rack, kind, 64.0) < sent(nodes, kind, 64.0), kind
        assert sent(rack, kind, 64.0) < sent(rack, kind, 144.0), kind


def test_pcie_is_slower_than_nvlink() -> None:
    box, node = machine("8xl40s"), machine("8xh100-sxm-80gb")
    assert all(sent(box, kind, 8.0) > 3 * sent(node, kind, 8.0) for kind in KINDS)
    base: dict[str, Any] = {"dp": 1.0, "tp": 8.0, "recompute": "full", "precision": "bf16"}
    shares = [float(made.time.step.find("step.tensor_parallel").value) / float(made.time.step.value)  # type: ignore[union-attr,arg-type]
              for on in ("8xl40s", "8xh100-sxm-80gb")
              for made in [training_figures(subject("llama-3.1-8b", on), train_plan(**base))]]  # fmt: skip
    assert shares[0] > shares[1]


def test_an_axis_without_its_wrap_around_is_slower() -> None:
    # A v5e pod of 256 closes its axes of 16; a slice of 64 is 8 x 8 and open (Google: TPU v5e, wrap-around only at full axes).
    whole, part = (next(level for level in machine(on).levels if level.dims) for on in ("256xtpu-v5e", "64xtpu-v5e"))
    assert all(whole.wrap or ())
    assert not any(part.wrap or ())
    hw = machine("256xtpu-v5e")
    at = next(index for index, level in enumerate(hw.levels) if level.dims)
    levels = list(hw.levels)
    levels[at] = levels[at].replaced(wrap=(False,) * len(levels[at].dims))
    open_torus = hw.replaced(levels=tuple(levels))
    for kind in KINDS:
        for group in (4.0, 16.0, 256.0):
            assert sent(hw, kind, group) <= sent(open_torus, kind, group)


def test_oversubscription_slows_what_crosses_it() -> None:
    hw = machine("256xh100-sxm-80gb")
    levels = list(hw.levels)
    levels[-1] = levels[-1].replaced(oversubscription=3.0)
    thin = hw.replaced(levels=tuple(levels))
    for kind in KINDS:
        assert sent(thin, kind, 256.0) > sent(hw, kind, 256.0)
        assert sent(thin, kind, 8.0) == sent(hw, kind, 8.0)
    steps = [training_figures(subject("llama-3.1-70b", on), train_plan(tp=8.0, pp=2.0, dp=16.0)).time.step.value
             for on in ("256xh100-sxm-80gb", "256xh100-sxm-80gb@ib-ndr")]  # fmt: skip
    assert all(step > 0 for step in steps)


def test_switches_that_add_halve_what_an_all_reduce_sends() -> None:
    hw = machine("256xh100-sxm-80gb@ib-ndr")
    adding = hw.adding()
    assert sent(adding, "all_reduce", 32.0, 8.0) == pytest.approx(sent(hw, "all_reduce", 32.0, 8.0) / 2, rel=0.1)
    assert sent(adding, "all_reduce", 8.0) == sent(hw, "all_reduce", 8.0), "what a node does inside was measured as it is"
    for kind in ("all_gather", "reduce_scatter", "all_to_all"):
        assert sent(adding, kind, 32.0, 8.0) == sent(hw, kind, 32.0, 8.0)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="add on its way"):
        machine("256xh100-sxm-80gb@8xroce-400").adding()
    base: dict[str, Any] = {"tp": 8.0, "dp": 32.0, "zero_stage": 0, "global_batch": 32.0}
    plain, added = (
        training_figures(subject("llama-3.1-70b", "256xh100-sxm-80gb@ib-ndr"), train_plan(**base, how=Manner(sharp=on, overlap=())))
        for on in (None, True)
    )
    exchanged = [float(one.time.step.find("step.data_parallel").value) for one in (plain, added)]  # type: ignore[union-attr,arg-type]
    assert exchanged[1] == pytest.approx(exchanged[0] / 2, rel=0.1)


def test_stages_side_by_side_hand_over_sooner_where_the_network_thins_out() -> None:
    """The order TP, CP, PP, DP of Llama 3 (arXiv 2407.21783, 3.3.2), on its cluster with pods that share seven times too little."""
    base: dict[str, Any] = {"tp": 8.0, "pp": 16.0, "dp": 48.0, "global_batch": 1536.0, "zero_stage": 1}
    found = {
        (on, inside): training_figures(
            subject("llama-3.1-405b", on), train_plan(**base, how=Manner(stages_inside=inside, overlap=()))
        ).time.step
        for on in ("6144xh100-sxm-80gb@meta-24k-roce", "6144xh100-sxm-80gb@ib-ndr")
        for inside in (None, True)
    }  # fmt: skip
    sends = [float(one.find("first_stage.step.pipeline_send").value) for one in found.values()]  # type: ignore[union-attr,arg-type]
    shared = [float(one.find("first_stage.step.data_parallel").value) for one in found.values()]  # type: ignore[union-attr,arg-type]
    assert sends[1] < sends[0] / 4, "inside a pod in place of between two"
    assert shared[1] == pytest.approx(shared[0], rel=0.1), "sums cross between pods once, for all ranks of one"
    assert sends[3] == pytest.approx(sends[2])


def test_which_ranks_are_neighbours_is_chosen_where_it_matters() -> None:
    asked = TrainAsk(model="llama-3.1-70b", on="6144xh100-sxm-80gb@meta-24k-roce", seq_len=8192, global_batch=1536)
    free, outside, inside = (
        answer_training(asked.replaced(stages_inside=one), Library.shared(), with_price=False) for one in (None, False, True)
    )
    steps = [float(one.figures["step_time_s"].value) for one in (free, outside, inside)]
    assert steps[0] <= min(steps[1:]) * 1.005
    assert steps[2] < steps[1]
    assert free.question["stages_inside"] == "true"
    flat = answer_training(asked.replaced(on="256xh100-sxm-80gb"), Library.shared(), with_price=False)
    assert "stages_inside" not in flat.question


def test_a_hand_over_inside_a_node_is_faster_than_across() -> None:
    hw = machine("16xh100-sxm-80gb")
    near, far = (
        Transfer(name="x", size=term("size", 1e8, "B"), path=path, stride=term("stride", stride)) for path, stride in (PATHS)
    )
    assert float(transfer_seconds(near, hw).value) < float(transfer_seconds(far, hw).value)  # type: ignore[arg-type]


@pytest.mark.parametrize("on", ["4xdgx-h100", "4xdgx-a100"])
def test_tensor_parallelism_belongs_inside_a_node(on: str) -> None:
    inside, across = (
        training_figures(subject("llama-3.1-70b", on), train_plan(tp=tp, dp=32.0 / tp, zero_stage=3)).time.step.find(
            "step.tensor_parallel"
        )
        for tp in (8.0, 16.0)
    )
    assert inside is not None
    assert across is not None
    assert float(across.value) > 2 * float(inside.value)  # type: ignore[arg-type]
