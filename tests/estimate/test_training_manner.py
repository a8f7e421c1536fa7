"""How an engine is set up moves the step the way it must: overlaps, graphs, compilation, dispatch, recomputation, schedules."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from gpuplan.estimate.recipe import training_profile
from gpuplan.estimate.training import TrainingFigures, profile_of, step_pricer, training_figures
from gpuplan.formulas.collectives import all_to_all_wire, dispatch_wire
from gpuplan.formulas.lanes import contended_seconds
from gpuplan.plan.ask import TrainAsk
from gpuplan.plan.parallelism import Parallelism
from gpuplan.plan.train import Manner, TrainPlan, Tuning
from gpuplan.search.library import Library
from gpuplan.specs.engine_training import TrainingProfile
from gpuplan.workload.program import Part

LIBRARY = Library.of(TrainAsk(model="", on=""))


def step(model: str, on: str, engine: str = "megatron-lm", **changes: Any) -> float:
    found = LIBRARY.look_up(TrainAsk(model=model, on=on, engine=engine), "train", with_price=False)
    degrees = {key: float(changes.pop(key, 1)) for key in ("tp", "pp", "cp", "ep", "vpp")}
    shape = {key: changes.pop(key) for key in ("schedule", "zero_stage", "etp") if key in changes}
    dp = found.subject.hw.count / (degrees["tp"] * degrees["pp"] * degrees["cp"])
    plan = TrainPlan(
        parallel=Parallelism(**degrees, dp=dp, **shape),
        seq_len=changes.pop("seq_len", 4096.0),
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
    # Hopper has run it since October 2025 (#1776).
    months = ("torchtitan@2025-08", "torchtitan@2025-10", "torchtitan")
    flash, listed_later, now = (step(**plan, on="8xh100", engine=engine) for engine in months)
    assert now < listed_later < flash


def test_cudnn_attention_on_hopper_saves_torchtitan_a_tenth_or_more() -> None:
    # pytorch/torchtitan issue 1042: about 10 % with 14 layers of Llama 3 8B under its whole head, 8192 tokens on H100.
    plan = {"model": "llama-3.1-8b", "zero_stage": 3, "seq_len": 8192.0, "recompute": "none", "on": "8xh100"}
    then, now = (step(**plan, engine=engine) for engine in ("torchtitan@2025-09", "torchtitan"))
    assert 1.08 < then / now < 1.22


def test_operators_of_shared_tensors_cost_the_host_unless_compiled() -> None:
    # pytorch pull request 107305: 0.34 ms for an addmm of DTensors; four passes of 32 layers where all is made again.
    plan = {"model": "llama-3.1-8b", "on": "8xh200", "tp": 8, "zero_stage": 3, "batch": 1.0, "recompute": "full"}
    eager, compiled = (step(**plan, engine="torchtitan", how=Manner(compiled=said)) for said in (False, True))
    assert 32 * 4 * 9 * 0.34e-3 < eager < 2 * 32 * 4 * 9 * 0.34e-3
    assert compiled < 0.5 * eager


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


@pytest.mark.parametrize("engine", ["accelerate", "ms-swift"])
def test_an_optimizer_over_lists_reads_and_writes_more(engine: str) -> None:
    # Until August 2025 Transformers' AdamW was not the fused one: 52 bytes more of each weight in fp32, 72 ms of 6.7 billion at
    # 4.8 TB/s at the least. DeepSpeed, which shards, brings its own.
    plan = {"model": "llama-2-7b", "on": "8xh200"}
    before, after = (step(**plan, engine=f"{engine}@{month}", zero_stage=0) for month in ("2025-06", "2026-06"))
    assert 0.072 < before - after < 0.144
    sharded = [step(**plan, engine=f"{engine}@{month}", zero_stage=2) for month in ("2025-06", "2026-06")]
    assert sharded[0] == pytest.approx(sharded[1])


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
    assert own is not None
    assert family is not None
    assert len({id(own), id(family)}) == 2
    # One clock of A100 for all whose products are cuBLAS', fitted to other engines' runs; of H100 nothing is known of these.
    a100 = {profile(engine).pace_of("a100-sxm-80gb", "ampere", "matmul") for engine in ("accelerate", "deepspeed", "composer")}
    assert len({one.value for one in a100 if one is not None}) == 1
    assert profile("accelerate").pace_of("h100-sxm-80gb", "hopper", "matmul") is None
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
    # A layer, as its code has it: queries, keys, values, output, gate, up, down; two norms.
    each = LIBRARY.look_up(TrainAsk(model="llama-3.2-1b", on="b200", engine="accelerate"), "train", with_price=False)
    training = each.subject.engine.training
    assert training is not None
    assert training.host.tensor is not None
    once, tensor = float(training.host.step.value), float(training.host.tensor.value)
    assert host(large) / host(small) == pytest.approx((once + 32 * 9 * tensor) / (once + 16 * 9 * tensor), rel=1e-6)
    assert priced("llama-3.2-1b", compiled=True).time.step.value < 0.9 * small.time.step.value


def test_hooks_of_zero_3_take_their_time_on_one_accelerator_too_and_by_module() -> None:
    # QwenLM/Qwen 03cd81f5, README: Qwen-1.8B in full on one A100, 8 micro-batches of a sequence: 2.1 s at 256 tokens, 2.3 at 2048.
    def priced(zero: int, *, on: str = "a100-80gb", length: float = 256.0, tuning: Tuning | None = None) -> TrainingFigures:
        found = LIBRARY.look_up(TrainAsk(model="qwen1.5-1.8b", on=on, engine="accelerate"), "train", with_price=False)
        dp = float(found.subject.hw.count)
        plan = TrainPlan(
            parallel=Parallelism(zero_stage=zero, dp=dp),
            seq_len=length,
            micro_batch=1.0,
            global_batch=8.0 * dp,
            recompute="full",
            tuning=tuning or Tuning(),
        )
        return training_figures(found.subject, plan)

    def value(found: TrainingFigures, name: str) -> float:
        term = found.time.step.find(name)
        assert term is not None, name
        return float(np.asarray(term.value))

    alone = priced(3)
    # Seven matrices and two norms here, where Qwen's own code has five and two.
    assert value(alone, "layer.layer.issue_with_again.modules") == 7 + 2 + 4
    assert value(alone, "layer.layer.issue_with_again.hooks") == 3 * (7 + 2 + 4)
    assert float(alone.time.step.value) == pytest.approx(2.1 * 13 / 11, rel=0.15)
    assert float(priced(3, length=2048.0).time.step.value) < 1.15 * float(alone.time.step.value)
    assert float(alone.time.step.value) > 3 * float(priced(0).time.step.value)
    assert alone.time.step.find("layer.layer.issue_with_again.called") is None
    pair = priced(3, on="2xa100-80gb")
    assert value(pair, "layer.layer.issue_with_again.collectives") == 3 * 7
    assert value(priced(3, tuning=Tuning(lora=8)), "layer.layer.issue_with_again.modules") == 7 + 2 + 4 + 4 * 7


def test_adapters_stream_their_inputs_and_outputs_and_stored_weights_are_widened_by_the_host() -> None:
    # The same page: LoRA on Qwen-1.8B takes 6.8 s at 8192 tokens where training it in full takes 5.6.
    def priced(length: float, tuning: Tuning) -> TrainingFigures:
        found = LIBRARY.look_up(TrainAsk(model="qwen1.5-1.8b", on="a100-80gb", engine="accelerate"), "train", with_price=False)
        plan = TrainPlan(
            parallel=Parallelism(zero_stage=0), seq_len=length, micro_batch=1.0, global_batch=8.0, recompute="full", tuning=tuning,
        )  # fmt: skip
        return training_figures(found.subject, plan)

    lora = priced(8192.0, Tuning(lora=64))
    forward, backward = (lora.time.step.find(f"{phase}.layer.adapters.bytes") for phase in ("forward", "backward"))
    assert forward is not None
    assert backward is not None
    read, made = 6 * 2048 + 5504, 5 * 2048 + 2 * 5504
    assert float(np.asarray(forward.value)) == 8192 * (21 * read + 10 * made)
    assert float(np.asarray(backward.value)) == 8192 * (27 * read + 4 * made)
    assert lora.time.step.value > priced(8192.0, Tuning()).time.step.value
    short, stored = (float(priced(256.0, Tuning(lora=64, base_weights=base)).time.step.value) for base in ("bf16", "int4"))
    assert stored - short == pytest.approx(8 * 24 * 3 * 7 * 120e-6, rel=0.05)


def test_deepspeed_reduces_gradients_of_stage_2_for_all_ranks_and_beside_nothing_unless_asked() -> None:
    # DeepSpeed edaa7221: use_multi_rank_bucket_allreduce, and overlap_comm for stage 3 alone, unless they are given.
    def exchange(engine: str, **how: Any) -> float:
        found = LIBRARY.look_up(TrainAsk(model="llama-3.1-8b", on="8xa100-80gb", engine=engine), "train", with_price=False)
        plan = TrainPlan(
            parallel=Parallelism(zero_stage=2, dp=8.0), seq_len=4096.0, micro_batch=1.0, global_batch=64.0, how=Manner(**how)
        )
        figures = training_figures(found.subject, plan)
        term = figures.time.step.find("step.micro.sharded_gradients")
        assert term is not None
        return float(np.asarray(term.value))

    # An all-reduce sends what a reduce-scatter sends twice.
    each = 2 * 8.03e9 * 2 * 7 / 8 / 300e9
    assert exchange("accelerate") > each
    assert exchange("accelerate", overlap=("dp",)) < 0.7 * exchange("accelerate")
    assert exchange("axolotl") < 0.7 * exchange("accelerate")


@pytest.mark.parametrize("engine", ["accelerate", "deepspeed"])
def test_deepspeed_reduces_gradients_of_stage_1_behind_the_last_backward_pass_unless_asked(engine: str) -> None:
    # stage_1_and_2.py: `if self.partition_gradients or self.overlap_comm:` there are hooks, and reduce_gradients does it otherwise.
    def exchange(**how: Any) -> float:
        found = LIBRARY.look_up(TrainAsk(model="llama-2-7b", on="2xdgx-a100@ib-hdr", engine=engine), "train", with_price=False)
        plan = TrainPlan(
            parallel=Parallelism(zero_stage=1, dp=16.0), seq_len=2048.0, micro_batch=4.0, global_batch=64.0, how=Manner(**how)
        )
        _, parts = training_figures(found.subject, plan).time.binding()
        return float(parts["data_parallel"].value)

    # Sixteen ranks of two nodes with eight links of 200 Gbit/s each: half of 13.5 GB twice through each node's for the sums of all,
    # at 0.74 of the links, and 15 of 16 parts of as much round all ranks, at 0.94.
    assert exchange() == pytest.approx(6.74e9 * 2 * (1 / 0.74 + 15 / 16 / 0.94) / 200e9, rel=0.25)
    assert exchange(overlap=("dp",)) < 0.6 * exchange()


def test_shards_travel_while_the_accelerator_waits_for_the_host() -> None:
    def step(length: float) -> tuple[float, float]:
        found = LIBRARY.look_up(TrainAsk(model="llama-3.2-1b", on="8xh100", engine="accelerate"), "train", with_price=False)
        plan = TrainPlan(parallel=Parallelism(zero_stage=3, dp=8.0), seq_len=length, micro_batch=1.0, global_batch=8.0)
        figures = training_figures(found.subject, plan)
        _, parts = figures.time.binding()
        return float(parts["sharded_data_parallel"].value), float(parts["host"].value)

    waiting, host = step(256.0)
    assert host > 0.05
    assert waiting == 0
    busy, host = step(32768.0)
    assert host == 0
    assert busy > 0


def test_layers_of_transformers_run_operator_by_operator() -> None:
    """Passes over the hidden width, as PyTorch's dispatcher counts the operators of Transformers' LlamaDecoderLayer: 62 forward."""

    def passes(engine: str, **changes: Any) -> float:
        found = LIBRARY.look_up(TrainAsk(model="llama-3-8b", on="8xa100-sxm-80gb", engine=engine), "train", with_price=False)
        plan = TrainPlan(parallel=Parallelism(dp=8.0, zero_stage=3), seq_len=2048.0, micro_batch=1.0, global_batch=8.0, **changes)
        profile = profile_of(found.subject.engine, plan)
        return profile.hidden_passes.value + (0.0 if profile.rms_passes is None else profile.rms_passes.value)

    assert {passes(engine) for engine in ("accelerate", "deepspeed", "peft", "ms-swift", "axolotl", "llama-factory")} == {62.0}
    # FSDP trains a model of its user's own, but adapters are PEFT's, around layers of Transformers: surely eager or nobody says.
    lora = Tuning(lora=16)
    assert passes("fsdp") < passes("fsdp", how=Manner(compiled=False)) < passes("fsdp", tuning=lora) == 62.0
    assert passes("fsdp", tuning=lora, how=Manner(compiled=False)) == 62.0
    assert passes("fsdp", tuning=lora, how=Manner(compiled=True)) == passes("fsdp", how=Manner(compiled=True)) < passes("fsdp")
    # PaddleNLP's norms are a fused kernel each, or, without its extension, 18 passes in place of 2.
    assert passes("paddlenlp", how=Manner(compiled=False)) == passes("paddlenlp") + 2 * (18 - 2)
