"""How an engine is set up moves the step the way it must: overlaps, graphs, compilation, dispatch, recomputation, schedules."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from gpuplan.estimate.recipe import training_profile
from gpuplan.estimate.training import TrainingFigures, step_pricer, training_figures
from gpuplan.formulas.collectives import all_to_all_wire, dispatch_wire
from gpuplan.formulas.lanes import contended_seconds
from gpuplan.plan.ask import TrainAsk
from gpuplan.plan.parallelism import Parallelism
from gpuplan.plan.train import Manner, TrainPlan, Tuning
from gpuplan.search.library import Library
from gpuplan.specs.engine import TrainingProfile
from gpuplan.workload.program import Part

LIBRARY = Library.of(TrainAsk(model="", on=""))


def step(model: str, on: str, engine: str = "megatron-lm", **changes: Any) -> float:
    found = LIBRARY.look_up(TrainAsk(model=model, on=on, engine=engine), "train", with_price=False)
    degrees = {key: float(changes.pop(key, 1)) for key in ("tp", "pp", "cp", "ep", "vpp")}
    shape = {key: changes.pop(key) for key in ("schedule", "zero_stage", "etp") if key in changes}
    dp = found.subject.hw.count / (degrees["tp"] * degrees["pp"] * degrees["cp"])
    plan = TrainPlan(
        parallel=Parallelism(**degrees, dp=dp, **shape),
        seq_len=4096.0,
        micro_batch=1.0,
        global_batch=changes.pop("batch", dp * 16),
        **changes,
    )
    return float(training_figures(found.subject, plan).figures["step_time_s"].value)  # type: ignore[arg-type]


def test_each_overlap_saves_time() -> None:
    plan = {"model": "qwen3-235b-a22b", "on": "256xh100", "tp": 2, "pp": 8, "ep": 32, "precision": "fp8"}
    switched = [("tp",), ("dp",), ("pp",), ("ep",)]
    none = step(**plan, how=Manner(overlap=()))
    assert all(step(**plan, how=Manner(overlap=one)) < none for one in switched)
    assert step(**plan, how=Manner(overlap=("tp", "dp", "pp", "ep"))) == min(
        step(**plan, how=Manner(overlap=some))
        for size in range(5)
        for some in itertools.combinations(("tp", "dp", "pp", "ep"), size)
    )


def test_attention_that_is_on_no_list_is_run_again() -> None:
    # torchtitan did not keep the results of cuDNN's attention, which Blackwell runs, until November 2025.
    plan = {"model": "llama-3.1-8b", "zero_stage": 3, "recompute": "selective-op"}
    then, now = (step(**plan, on="8xb200", engine=engine) for engine in ("torchtitan@2025-08", "torchtitan"))
    assert 1.03 * now < then < 1.2 * now
    then, now = (step(**plan, on="8xh100", engine=engine) for engine in ("torchtitan@2025-08", "torchtitan"))
    assert then < 1.01 * now


def test_dualpipe_hides_the_way_to_experts_unasked() -> None:
    # DeepSeek-V3 (arXiv 2412.19437, 3.2.1): both exchanges of one micro-batch beside the computation of another are what it is for.
    plan = {"model": "deepseek-v3", "on": "512xh100", "pp": 8, "ep": 64, "precision": "fp8"}
    for how in (Manner(), Manner(dispatcher="deepep")):
        beside, behind = (step(**plan, schedule=kind, how=how) for kind in ("dualpipe", "zb-h1"))
        assert beside < 0.85 * behind
    off = Manner(overlap=())
    assert step(**plan, schedule="dualpipe", how=off) > step(**plan, schedule="dualpipe")


def test_compiled_is_faster_than_eager_and_the_middle_lies_between() -> None:
    made = {
        said: step("llama-3-8b", "8xh100", "torchtitan", how=Manner(compiled=said), zero_stage=3) for said in (True, None, False)
    }
    assert made[True] < made[None] < made[False]


def test_a_loop_over_experts_waits_for_its_host() -> None:
    # Transformers before pull request 42697 (December 2025) looped over the 128 experts of each of 48 layers; a host that issues
    # 15 kernels of 5 us or more for each, three times over, needs 1.4 s at the least for a micro-batch.
    plan = {"model": "qwen3-30b-a3b", "on": "8xh100", "zero_stage": 3, "batch": 8.0}
    for engine in ("accelerate", "deepspeed", "axolotl", "ms-swift", "llama-factory"):
        before, after = (step(**plan, engine=f"{engine}@{month}") for month in ("2025-06", "2026-06"))
        assert before > 48 * 128 * 15 * 5e-6 * 3 > after


def test_graphs_hide_the_host_of_small_experts() -> None:
    plan = {"model": "qwen3-30b-a3b", "on": "8xb200", "ep": 4, "precision": "fp8"}
    assert step(**plan, how=Manner(graphs=True)) < step(**plan, how=Manner(graphs=False))


def test_copies_for_one_node_cross_the_network_once() -> None:
    plan = {"model": "deepseek-v3", "on": "2048xh800", "pp": 16, "ep": 64, "precision": "fp8"}
    assert step(**plan, how=Manner(dispatcher="deepep", overlap=())) < step(**plan, how=Manner(dispatcher="alltoall", overlap=()))


@pytest.mark.parametrize(
    ("copies", "group", "reach"), list(itertools.product((1.0, 2.0, 8.0), (16.0, 64.0, 256.0), (0.25, 0.5, 1.0)))
)
def test_deduplicated_dispatch_never_sends_more_than_the_copies(copies: float, group: float, reach: float) -> None:
    nodes = group / 8.0
    sent = dispatch_wire(size=1e9, copies=copies, reach=reach, group=group, ranks=nodes, covered=8.0)
    assert 0 <= sent <= all_to_all_wire(size=1e9, group=group, ranks=nodes, covered=8.0) * (1 + 1e-12)  # type: ignore[operator]


@pytest.mark.parametrize("comm", [0.0, 1.0, 3.0, 10.0])
def test_exposed_communication_is_never_negative_nor_more_than_all_of_it(comm: float) -> None:
    exposed = contended_seconds(comm=comm, window=4.0, overlap=0.5, lost=0.1)
    assert 0 <= exposed <= comm + 1e-12


def test_more_nodes_are_no_faster_for_each_accelerator() -> None:
    steps = [step("llama-3.1-70b", f"{count}xh100", tp=8, pp=2) for count in (16, 64, 256, 1024)]
    assert steps == sorted(steps)


def test_recomputation_costs_more_the_more_it_covers() -> None:
    made = {
        kind: step("deepseek-v3", "256xh100", pp=8, ep=32, recompute=kind) for kind in ("none", "selective", "mlp", "moe", "full")
    }
    assert made["none"] < made["selective"] < made["full"]
    assert made["none"] < made["mlp"] < made["moe"] < made["full"]


def test_schedules_that_fill_the_bubble_are_faster() -> None:
    made = {
        kind: step("llama-3.1-70b", "64xh100", tp=4, pp=8, schedule=kind, batch=32.0)
        for kind in ("1f1b", "zb-h1", "dualpipe", "zb-v")
    }
    assert made["zb-v"] < made["dualpipe"] < made["zb-h1"] < made["1f1b"]


def test_adapters_skip_weight_gradients_and_quantised_weights_must_be_widened() -> None:
    plan = {"model": "qwen-7b", "on": "a100-80gb", "engine": "accelerate", "zero_stage": 0}
    full, lora = step(**plan), step(**plan, tuning=Tuning(lora=16))
    assert lora < full
    assert step(**plan, tuning=Tuning(lora=16, base_weights="nf4")) > lora


def test_the_pace_of_an_accelerator_goes_before_that_of_its_family() -> None:
    def profile(engine: str) -> TrainingProfile:
        found = LIBRARY.look_up(TrainAsk(model="llama-3-8b", on="h100", engine=engine), "train", with_price=False)
        return training_profile(found.subject.engine)

    own, family = (profile("maxtext").pace_of(*names, "matmul") for names in (("tpu-v6e", "tpu"), ("tpu-v4", "tpu")))
    any_one = profile("accelerate").pace_of("h100-sxm-80gb", "hopper", "matmul")
    assert own is not None
    assert family is not None
    assert any_one is not None
    assert len({id(own), id(family)}) == 2
    assert profile("maxtext").pace_of("h100-sxm-80gb", "hopper", "matmul") is None


def test_chunks_give_replicas_longer_to_exchange() -> None:
    """Nemotron-4 340B on 128 B200 with 8 micro-batches: NeMo 25.02 took 1.70 s with 12 chunks (performance summary)."""
    plan = {"model": "nemotron-4-340b", "on": "128xb200", "tp": 8, "pp": 4, "precision": "fp8", "batch": 32.0}
    shared = {"engine": "nemo", "how": Manner(overlap=("tp", "dp", "pp"))}
    hidden = step(**plan, **shared, vpp=12)
    assert hidden < step(**plan, **shared, vpp=1)
    assert hidden == pytest.approx(32 * 4096 / 128 / 602, rel=0.15)


def test_copies_that_the_dispatcher_makes_run_beside_the_next_micro_batch() -> None:
    plan = {"model": "qwen3-30b-a3b", "on": "8xb200", "ep": 8, "precision": "fp8"}
    for overlap in ((), ("ep",)):
        # Replayed from graphs, so that the host is in nobody's way.
        both = [step(**plan, how=Manner(overlap=overlap, dispatcher=kind, graphs=True)) for kind in ("deepep", "hybridep")]
        assert both[1] < both[0] if overlap else both[1] == pytest.approx(both[0])


def test_ranks_that_share_experts_send_their_own_tokens() -> None:
    """Llama 4 Maverick fine-tuned on 256 B200: 0.224 and 0.205 s a step (DGX Cloud Benchmarking v25.07 and v25.08)."""
    plan = {"model": "llama-4-maverick-17b-128e", "on": "256xb200", "engine": "nemo", "tp": 8, "ep": 32, "batch": 32.0}
    cut = step(**plan, etp=8, how=Manner(overlap=("tp", "dp")))
    assert cut == pytest.approx(0.224, rel=0.25)


def test_whole_experts_of_sequence_parallel_ranks_sum_nothing() -> None:
    """Qwen3 has no shared expert, so its tokens come back whole; DeepSeek-V3's shared expert is summed over tp ranks."""

    def summed(model: str) -> int:
        found = LIBRARY.look_up(TrainAsk(model=model, on="256xh100", engine="nemo"), "train", with_price=False)
        parallel = Parallelism(tp=2.0, pp=1.0, cp=1.0, ep=32.0, vpp=1.0, dp=128.0, sequence_parallel=True)
        plan = TrainPlan(parallel=parallel, seq_len=4096.0, micro_batch=1.0, global_batch=2048.0)
        forward = step_pricer(found.subject, plan).work.blocks["moe"].forward
        return len([item for item in forward.within((Part.EXPERTS,)).tensor_collectives if float(item.group.value) > 1])

    assert not summed("qwen3-235b-a22b")
    assert summed("deepseek-v3")


def test_the_host_takes_as_long_for_a_step_as_there_are_tensors_and_less_where_it_is_compiled() -> None:
    # A step of a small model on a fast accelerator is the host's: it must not cost what one of a large model does.
    def priced(model: str, *, compiled: bool) -> TrainingFigures:
        found = LIBRARY.look_up(TrainAsk(model=model, on="b200", engine="accelerate"), "train", with_price=False)
        plan = TrainPlan(
            parallel=Parallelism(zero_stage=0), seq_len=1024.0, micro_batch=1.0, global_batch=1.0, how=Manner(compiled=compiled)
        )
        return training_figures(found.subject, plan)

    def host(found: TrainingFigures) -> float:
        term = found.time.step.find("step.step_host")
        assert term is not None
        return float(np.asarray(term.value))

    small, large = (priced(model, compiled=False) for model in ("llama-3.2-1b", "llama-3.1-8b"))
    # A layer: queries, keys and values as one, output, gate and up projection as one, down; two norms.
    assert host(large) / host(small) == pytest.approx((20 + 32 * 6 * 0.154) / (20 + 16 * 6 * 0.154), rel=0.01)
    assert priced("llama-3.2-1b", compiled=True).time.step.value < 0.9 * small.time.step.value
