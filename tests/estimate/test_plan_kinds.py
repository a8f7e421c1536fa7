"""Kinds of plans against what was published of them: adapters, quantised weights, recomputation, schedules, offload."""

from __future__ import annotations

from typing import Any

import pytest

from gpuplan.errors import UnknownError
from gpuplan.estimate.training import TrainingFigures, step_pricer, training_figures
from gpuplan.models.mixers import Attention
from gpuplan.plan.train import Manner, Saving, Tuning
from gpuplan.workload.program import Role
from tests.estimate.subjects import subject, train_plan

GIB = 2.0**30


def made(model: str, on: str, engine: str, **given: Any) -> TrainingFigures:
    return training_figures(subject(model, on, engine), train_plan(**given))


def gib(figures: TrainingFigures, key: str = "reserved_memory_bytes") -> float:
    return float(figures.figures[key].value) / GIB


def part(figures: TrainingFigures, name: str) -> float:
    """Bytes of a part of the most loaded stage; zero where there is none."""
    _, parts = figures.memory.binding()
    return float(parts[name].value) if name in parts else 0.0


@pytest.mark.parametrize(
    ("model", "rank", "targets", "trained"),
    [
        # huggingface/peft 5d602fdb, method comparison on MetaMathQA: trainable parameters.
        ("llama-3.2-3b", 32, "qv", 9175040),
        ("llama-3.2-3b", 64, "qv", 18350080),
        ("llama-3.2-3b", 10, "mlp", 9461760),
        # arXiv 2106.09685, table 4: queries and values of GPT-3 at rank 8.
        ("gpt-3-175b", 8, "qv", 37748736),
        # modelscope/ms-agent issue 198: 0.0543 % of Qwen-7B where `c_attn`, which is all three, is adapted at rank 8.
        ("qwen-7b", 8, "qv", 4194304),
    ],
)
def test_adapters_have_the_published_number_of_parameters(model: str, rank: int, targets: Any, trained: int) -> None:
    figures = made(model, "1xh100-sxm-80gb", "accelerate", tuning=Tuning(lora=rank, lora_targets=targets), zero_stage=0)
    adapter_bytes = figures.memory.peak.find("recipe.adapter_bytes") or figures.memory.peak.find("engine.adapter")
    assert adapter_bytes is not None
    assert part(figures, "adapters") / float(adapter_bytes.value) == trained


def test_dora_adds_one_magnitude_for_each_output() -> None:
    # The same comparison: rank 32 on queries and values with DoRA trains 9,289,728.
    tuning = Tuning(lora=32, lora_targets="qv", dora=True)
    figures = made("llama-3.2-3b", "1xh100-sxm-80gb", "accelerate", tuning=tuning, zero_stage=0)
    assert part(figures, "adapters") / 4 == 9289728


def test_double_quantised_nf4_takes_0_516_bytes_a_weight() -> None:
    # arXiv 2305.14314, 3: 0.127 bits of constants a parameter; embedding and head stay as they are.
    kinds = {base: made(
        "llama-3.1-8b", "1xh100-sxm-80gb", "torchtune", tuning=Tuning(lora=16, base_weights=base), zero_stage=0
    ) for base in ("bf16", "nf4", "nf4-dq")}  # fmt: skip
    counts = subject("llama-3.1-8b").counts
    assert counts.head is not None
    layers = float(counts.params_total.value - counts.embedding.value - counts.head.value)
    sizes = {base: part(one, "frozen") for base, one in kinds.items()}
    assert (sizes["bf16"] - sizes["nf4-dq"]) / layers == pytest.approx(2 - 4.127 / 8, abs=2e-4)
    assert (sizes["nf4"] - sizes["nf4-dq"]) * 8 / layers == pytest.approx(0.373, abs=2e-3)


def test_a_65b_model_is_tuned_on_one_48_gb_accelerator() -> None:
    # arXiv 2305.14314, abstract: from over 780 GB to under 48 GB.
    figures = made(
        "llama-1-65b", "1xa6000", "accelerate", tuning=Tuning(lora=64, base_weights="nf4-dq"), recompute="full",
        seq_len=512.0, global_batch=16.0, zero_stage=0,
    )  # fmt: skip
    assert gib(figures, "peak_memory_bytes") < 48
    full = made("llama-1-65b", "16xh100-sxm-80gb", "deepspeed", recompute="full", seq_len=512.0, zero_stage=0)
    assert gib(full, "peak_memory_bytes") > 780e9 / GIB


@pytest.mark.parametrize(
    ("compiled", "measured"),
    # torchtitan b5bcd76c, Llama 3 8B on 8 H100, sequences of 8192, micro-batch 2, selective by operator: reserved GiB.
    [(False, 82.4), (True, 77.0)],
)
def test_every_other_matmul_is_kept_as_in_torchtitan(compiled: bool, measured: float) -> None:
    figures = made(
        "llama-3-8b", "8xh100-sxm-80gb", "torchtitan", dp=8.0, zero_stage=3, seq_len=8192.0, micro_batch=2.0,
        global_batch=16.0, recompute="selective",
    )  # fmt: skip
    assert gib(figures) == pytest.approx(measured, rel=0.06), compiled


def test_zero_states_of_deepspeed_and_scores_of_unfused_attention() -> None:
    # bigscience 9e64edec, chronicles: 72 layers of BLOOM's width (its own are 70) take 37 GB of device memory.
    figures = made(
        "bloom-176b", "384xa100-sxm-80gb", "megatron-deepspeed", tp=8.0, pp=12.0, dp=4.0, zero_stage=1, sequence_parallel=False,
        seq_len=2048.0, micro_batch=2.0, global_batch=2048.0, recompute="full", precision="fp16", saving=Saving(attention="eager"),
    )  # fmt: skip
    assert gib(figures, "peak_memory_bytes") == pytest.approx(37.0, rel=0.12)


def test_schedules_hold_as_many_micro_batches_as_published() -> None:
    # DeepSeek-V3 (arXiv 2412.19437), table 2: 1F1B and zero bubble hold PP, DualPipe PP + 1 and twice the parameters.
    # Zero bubble (arXiv 2401.10241): ZB-H2 holds 2 p - 1.
    held = {}
    for schedule in ("1f1b", "gpipe", "zb-h1", "zb-h2", "zb-v", "dualpipe"):
        plan = train_plan(pp=8.0, dp=2.0, global_batch=64.0, schedule=schedule)
        figures = training_figures(subject("llama-3.1-8b", "16xh100-sxm-80gb"), plan)
        flying = figures.memory.peak.find("first_stage.in_flight")
        assert flying is not None
        held[schedule] = float(flying.value)
        twice = part(figures, "weights") > 1.5 * float(made(
            "llama-3.1-8b", "16xh100-sxm-80gb", "megatron-lm", pp=8.0, dp=2.0
        ).memory.stages["first"][1]["weights"].value)  # fmt: skip
        assert twice == (schedule == "dualpipe")
    assert held == {"1f1b": 8, "gpipe": 32, "zb-h1": 8, "zb-h2": 15, "zb-v": 8, "dualpipe": 9}


def test_offloaded_states_leave_the_accelerator_and_cost_time() -> None:
    base: dict[str, Any] = {"dp": 8.0, "zero_stage": 3, "recompute": "full"}
    here = made("llama-3.1-8b", "8xh100-sxm-80gb", "fsdp", **base)
    for what in (("optimizer",), ("optimizer", "params"), ("optimizer", "params", "activations")):
        there = made("llama-3.1-8b", "8xh100-sxm-80gb", "fsdp", **base, saving=Saving(offload=what))
        assert there.memory.peak.value < here.memory.peak.value
        assert there.time.step.value >= here.time.step.value
        assert part(there, "optimizer") == 0
        here = there if what == ("optimizer",) else here


def test_processors_update_what_is_offloaded() -> None:
    # torchtune's table: Llama 3 70B in 16 bits alone, 8 A100 with FSDP's CPU offload, 2 x 2,048 tokens each: 196 tokens/s a GPU.
    figures = made(
        "llama-3-70b", "dgx-a100-80gb", "torchtune", dp=8.0, zero_stage=3, seq_len=2048.0, micro_batch=2.0, global_batch=16.0,
        recompute="full", precision="bf16-pure", saving=Saving(offload=("optimizer", "params")),
    )  # fmt: skip
    assert float(figures.figures["tokens_per_s_per_accelerator"].value) == pytest.approx(196, rel=0.15)
    # 14 bytes a parameter, for all accelerators that share the host: gradients twice, weights once, moments in and out.
    _, parts = figures.time.binding()
    update = parts["optimizer"]
    params = float(subject("llama-3-70b").counts.params_total.value)
    assert float(update.value) == pytest.approx(14 * params / 150e9, rel=1e-6)


@pytest.mark.parametrize(("chips", "rate"), [(1, 100e9), (2, 2 * 1.06e9), (8, 8 * 1.06e9)])
def test_ranks_of_a_host_update_offloaded_states_with_a_thread_each(chips: int, rate: float) -> None:
    # accelerate launch and torchrun set OMP_NUM_THREADS to 1 where a node has several processes; one alone has all threads.
    plan: dict[str, Any] = {"dp": float(chips), "zero_stage": 3, "saving": Saving(offload=("optimizer",)), "recompute": "full"}
    _, parts = made("llama-3.2-1b", f"{chips}xa100-sxm-80gb", "accelerate", **plan).time.binding()
    params = float(subject("llama-3.2-1b").counts.params_total.value)
    assert float(parts["optimizer"].value) == pytest.approx(34 * params / rate, rel=0.13)


def test_where_accelerators_update_them_offloaded_states_travel() -> None:
    # MaxText's optimizer_memory_host_offload, and optimizers of 8 bits, whose kernels are the accelerator's.
    params = float(subject("llama-3.1-8b").counts.params_total.value)
    for on, engine, optimizer, states in (("4xtpu-v5p", "maxtext", "adamw", 12), ("4xh100-sxm-80gb", "fsdp", "adamw-8bit", 6)):
        plan: dict[str, Any] = {"dp": 4.0, "zero_stage": 3, "optimizer": optimizer, "saving": Saving(offload=("optimizer",))}
        figures = made("llama-3.1-8b", on, engine, **plan)
        size = figures.time.step.find("step.offload.states_there_bytes")
        assert size is not None
        assert float(size.value) == pytest.approx(states * params / 4, rel=1e-6)
        assert figures.time.step.find("engine.host_update") is None


def test_gradients_that_only_the_last_micro_batch_scatters_are_summed_whole() -> None:
    # KempnerForge 5666d0d1, config validation: 8.03 B parameters in 16 bits on 32 H200, micro-batches of 4 x 4,096, 51.3 GiB; its
    # training/grad.py communicates gradients in the last of 4 micro-batches, and fp32 sums of 8.03 B parameters are 29.9 GiB.
    base: dict[str, Any] = {
        "dp": 32.0, "zero_stage": 3, "seq_len": 4096.0, "micro_batch": 4.0, "recompute": "full", "precision": "bf16-pure",
    }  # fmt: skip
    several = made("llama-3-8b", "8xh200-sxm-141gb@8xib-ndr", "kempnerforge", **{**base, "dp": 8.0}, global_batch=128.0)
    once = made("llama-3-8b", "8xh200-sxm-141gb@8xib-ndr", "kempnerforge", **{**base, "dp": 8.0}, global_batch=32.0)
    params = float(subject("llama-3-8b").counts.params_total.value)
    assert part(several, "summed_gradients") == pytest.approx(4 * params)
    assert part(once, "summed_gradients") == 0
    # A micro-batch that does not scatter is shorter.
    assert float(several.time.step.value) < 4 * float(once.time.step.value)
    measured = made("llama-3-8b", "32xh200-sxm-141gb", "kempnerforge", **base, global_batch=512.0)
    assert float(measured.memory.allocated.value) / 2**30 == pytest.approx(51.3, rel=0.12)


def test_matrices_that_gather_their_own_inputs_gather_twelve_times_a_layer() -> None:
    # KempnerForge 5666d0d1, benchmarks/profiling/13b_24gpu_profiling.md, not compiled, all made again: 9679 gathers between tensor
    # parallel ranks in 5 steps of 4 micro-batches and 40 layers. A usual layer gathers its input once before each half.
    plan: dict[str, Any] = {"tp": 4.0, "recompute": "full", "precision": "bf16-pure", "zero_stage": 3}
    for compiled, gathers in ((False, 9679 / (5 * 4 * 40)), (True, 6)):
        asked = train_plan(**plan, how=Manner(compiled=compiled))
        work = step_pricer(subject("llama-3-8b", "4xh200-sxm-141gb", "kempnerforge"), asked).work.blocks["layer"]
        # An all-reduce is a gather and a scatter, and the forward pass is run twice.
        forward = work.forward.tensor_collectives
        back = work.backward.of(Role.SUM).tensor_collectives
        assert 2 * len(forward) + len(back) == pytest.approx(gathers, abs=0.2)


def test_without_sequence_parallelism_each_rank_may_hold_the_whole_head() -> None:
    # KempnerForge 5666d0d1, distributed/tensor_parallel.py: the head is split with sequence parallelism, the embedding never.
    plan: dict[str, Any] = {"tp": 4.0, "recompute": "full", "precision": "bf16-pure", "zero_stage": 0}
    edge = 128256.0 * 4096
    layers = float(subject("llama-3-8b").counts.params_total.value) - 2 * edge - 4096
    for scattered, held in ((True, edge + edge / 4), (False, 2 * edge)):
        figures = made("llama-3-8b", "4xh200-sxm-141gb", "kempnerforge", **plan, sequence_parallel=scattered)
        assert part(figures, "weights") / 2 == pytest.approx(held + layers / 4, rel=0.001)


def test_padded_experts_take_as_long_as_the_fullest() -> None:
    # KempnerForge 5666d0d1, model/moe.py: batched matmuls over experts whose tokens are padded to the fullest one's. Mixtral has 8
    # experts, 2 for a token: even routing pads nothing, and all tokens with the same two pad to four times as many.
    plan: dict[str, Any] = {"dp": 8.0, "zero_stage": 3, "precision": "bf16-pure"}

    def experts(load: float) -> float:
        figures = made("mixtral-8x7b", "8xh200-sxm-141gb", "kempnerforge", **plan, expert_load=load)
        rows = [term for term in figures.time.step.walk() if term.name.endswith(".rows") and "forward" in term.name]
        return float(rows[0].value)

    assert experts(4.0) == pytest.approx(4 * experts(1.0))


@pytest.mark.parametrize(("skew", "load"), [(None, 4.0), (4.0, 1.85), (1.0, 1.0)])
def test_padding_follows_the_skew_of_the_router(skew: float | None, load: float) -> None:
    # benchmarks/moe_expert_parallel of the same commit: in runs of 20 steps the idlest expert has some 1e-3 of the busiest one's
    # tokens, so that nearly all tokens have the same two of eight experts; who says another skew gets that.
    figures = made(
        "mixtral-8x7b", "8xh200-sxm-141gb", "kempnerforge", dp=8.0, zero_stage=3, precision="bf16-pure", expert_skew=skew
    )
    found = figures.time.step.find("step.padded_load")
    assert found is not None
    assert float(found.value) == pytest.approx(load, rel=0.01)


def test_biases_of_experts_that_are_added_behind_their_products_take_traffic() -> None:
    # Megatron-LM d98e8a64, TEGroupedMLP._apply_bias: bias times fp32 weights, 4 bytes written; a sum, 2 and 4 read, 4 written; a
    # concatenation, 4 and 4; a cast, 4 and 2. Backward: the cast 2 and 4, to the product 4 and 2, to the bias and to the weights 4,
    # 4 and 4 each, a concatenation 2 and 2.
    forward, back = 4 + 2 + 4 + 4 + 4 + 4 + 4 + 2, 2 + 4 + 4 + 2 + 2 * (4 + 4 + 4) + 2 + 2
    plan: dict[str, Any] = {"dp": 8.0, "ep": 8.0}
    step = made("gpt-oss-20b", "8xh100-sxm-80gb", "nemo", **plan).time.step
    found = {
        phase: [float(term.value) for term in step.walk() if f"{phase}." in term.name and term.name.endswith("biases.traffic")]
        for phase in ("forward", "backward")
    }
    copies = 4096 * 4
    assert found["forward"]
    assert sum(found["forward"] + found["backward"]) / len(found["forward"]) == pytest.approx(
        copies * 2880 * (forward + back), rel=0.02
    )
    for model, engine in (("gpt-oss-20b", "fsdp"), ("qwen3-30b-a3b", "nemo")):
        assert not [term for term in made(model, "8xh100-sxm-80gb", engine, **plan).time.step.walk() if "biases" in term.name]


def test_owners_of_whole_tensors_broadcast_round_all_who_share() -> None:
    # InternEvo c628a8c8, doc/en/train_performance.md: with states over all 1,024 A100 a 7B makes 2,271 tokens/s a GPU, within nodes
    # 3,625; on 16 it is 3,842 and 3,939. 16,384 tokens a GPU and step.
    def step(chips: int, group: int) -> float:
        figures = made(
            "llama-2-7b", f"{chips}xa100-sxm-80gb@2xroce-200", "internevo", dp=float(chips), zero_stage=1, seq_len=2048.0,
            micro_batch=2.0, global_batch=8.0 * chips, shard_group=None if group == chips else float(group),
        )  # fmt: skip
        return float(figures.time.step.value)

    lost = step(1024, 1024) - step(1024, 8)
    measured = 16384 / 2271 - 16384 / 3625
    # NCCL's latencies explain about half of what was lost.
    assert 0.4 * measured < lost < 1.3 * measured
    assert step(16, 16) / step(16, 8) == pytest.approx(3939 / 3842, abs=0.02)


def test_a_frozen_backward_pass_skips_weight_gradients() -> None:
    # arXiv 2106.09685, 4.2: a speed-up of about a quarter, as most gradients are not computed.
    full = made("gpt-3-175b", "64xh100-sxm-80gb", "megatron-lm", tp=8.0, pp=8.0)
    tuned = made("gpt-3-175b", "64xh100-sxm-80gb", "megatron-lm", tp=8.0, pp=8.0, tuning=Tuning(lora=8, lora_targets="qv"))
    assert 1.15 < float(full.time.step.value / tuned.time.step.value) < 1.6
    assert tuned.memory.peak.value < full.memory.peak.value


def test_local_steps_communicate_as_many_times_less() -> None:
    # DiLoCo (arXiv 2311.08105, abstract): 500 local steps, 500 times less communication; outer Nesterov momentum stays.
    base: dict[str, Any] = {"tp": 8.0, "dp": 4.0, "zero_stage": 0}
    few, many = (made("llama-3.1-8b", "4xdgx-h100", "megatron-lm", **base, sync_every=steps) for steps in (1.0, 500.0))
    exchanged = [one.time.step.find("step.data_parallel") for one in (few, many)]
    assert float(exchanged[0].value) == pytest.approx(500 * float(exchanged[1].value))  # type: ignore[union-attr]
    params = float(subject("llama-3.1-8b").counts.params_total.value)
    assert part(many, "outer_optimizer") == pytest.approx(params * 8 / 8, rel=0.01)


def test_a_reference_model_costs_its_weights_and_a_forward_pass() -> None:
    # A forward pass is a third of a step without recomputation (Chinchilla, appendix F: the backward pass is twice the forward).
    base: dict[str, Any] = {"tp": 8.0, "micro_batch": 4.0}
    plain = made("llama-3.1-8b", "8xh100-sxm-80gb", "megatron-lm", **base)
    scored = made("llama-3.1-8b", "8xh100-sxm-80gb", "megatron-lm", **base, tuning=Tuning(reference=True))
    assert 1.2 < float(scored.time.step.value / plain.time.step.value) < 1.36
    params = float(subject("llama-3.1-8b").counts.params_total.value)
    assert part(scored, "reference") == pytest.approx(params * 2 / 8, rel=0.01)
    # Adapters are switched off to score: peft's disable_adapter, as TRL's DPOTrainer does.
    tuned = made("llama-3.1-8b", "8xh100-sxm-80gb", "megatron-lm", **base, tuning=Tuning(reference=True, lora=8))
    assert part(tuned, "reference") == 0


def test_a_rank_holds_one_head_of_keys_and_values_at_least() -> None:
    # vLLM's QKVParallelLinear holds (heads / tp + 2 max(kv_heads / tp, 1)) x head_dim rows of the projection on each rank.
    arch = subject("qwen3-30b-a3b").arch
    block = next(iter(arch.decoder.blocks.values()))
    assert isinstance(block.mixer, Attention)
    assert block.mixer.kv_heads == 4
    sizes = {}
    for tp in (4.0, 8.0):
        figures = made("qwen3-30b-a3b", f"{tp:g}xh100-sxm-80gb", "fsdp", tp=tp, zero_stage=0)
        params = figures.memory.peak.find("memory.weights.dense")
        assert params is not None
        sizes[tp] = float(params.value) / 2
    counts = subject("qwen3-30b-a3b").counts
    one = counts.blocks[0]
    replicated = float((one.layer["norms"].value + one.layer["router"].value) * one.layers.value)
    split = float(counts.params_total.value) - replicated - float(one.layer["experts"].value * one.layers.value)
    copies = 2 * 128 * arch.hidden * (1 - 4 / 8) * arch.depth
    assert sizes[4.0] == pytest.approx(replicated + split / 4, rel=1e-9)
    assert sizes[8.0] == pytest.approx(replicated + split / 8 + copies, rel=1e-6)


def test_engines_that_gather_hold_an_even_share_and_send_what_they_project() -> None:
    # ISEEKYAN/Megatron-LM pull request 91: weights stay sharded evenly, the interleaved projection is all-gathered.
    gathered = made("qwen3-30b-a3b", "8xh100-sxm-80gb", "megatron-lm", tp=8.0, zero_stage=0)
    copied = made("qwen3-30b-a3b", "8xh100-sxm-80gb", "fsdp", tp=8.0, zero_stage=0)
    even = made("qwen3-30b-a3b", "4xh100-sxm-80gb", "megatron-lm", tp=4.0, zero_stage=0)
    assert part(gathered, "weights") < part(copied, "weights")
    assert gathered.time.step.find("forward.moe.mixer.gathered_bytes") is not None
    assert copied.time.step.find("forward.moe.mixer.gathered_bytes") is None
    assert even.time.step.find("forward.moe.mixer.gathered_bytes") is None


def test_hybrid_sharding_gathers_inside_a_group_and_reduces_across_groups() -> None:
    # PyTorch, ShardingStrategy.HYBRID_SHARD: full sharding within a node, parameters replicated across nodes. MiCS (arXiv
    # 2205.00119, 3.1): states take 1/p of a model on each rank of a group of p, and gathers stay inside it.
    base: dict[str, Any] = {"dp": 64.0, "zero_stage": 3, "recompute": "full", "seq_len": 8192.0}
    hybrid = made("llama-3.1-8b", "64xh100-sxm-80gb", "fsdp", **base, shard_group=8.0)
    params = float(subject("llama-3.1-8b").counts.params_total.value)
    assert part(hybrid, "optimizer") == pytest.approx(params * 12 / 8, rel=1e-9)
    step = hybrid.time.step
    gather, across = step.find("step.dense.weights.seconds"), step.find("step.dense.replicas.seconds")
    assert gather is not None
    assert across is not None
    # An eighth of the gradients, of 2 bytes each as MixedPrecisionPolicy reduces them, travels over eight replicas; no gather
    # leaves the node.
    size = step.find("step.dense.shard_bytes")
    assert size is not None
    assert size.value == pytest.approx(params * 2 / 8)
    beyond = [
        one for one in gather.walk() if one.name.startswith("step.dense.weights.scale-out") and one.name.endswith("wire_bytes")
    ]
    assert all(float(one.value) == 0 for one in beyond)


@pytest.mark.parametrize(("row", "measured"), [("a100-sxm-80gb", 3760.0), ("h100-sxm-80gb", 3700.0)])
def test_hybrid_sharding_of_fms_fsdp(row: str, measured: float) -> None:
    # foundation-model-stack/fms-fsdp 6dc80d26, README: HSDP on 128 A100 (7B) and 96 H100 (13B), sequences of 4096, eager.
    model, chips, micro = ("llama-2-7b", 128, 2.0) if row.startswith("a100") else ("llama-2-13b", 96, 1.0)
    ports = {"a100-sxm-80gb": 2, "h100-sxm-80gb": 4}[row]
    plan: dict[str, Any] = {
        "dp": float(chips), "zero_stage": 3, "shard_group": 8.0, "seq_len": 4096.0, "micro_batch": micro,
        "global_batch": chips * micro, "how": Manner(compiled=False, reduce_in="bf16"),
    }  # fmt: skip
    figures = made(model, f"{chips}x{row}@{ports}xroce-200", "fsdp", **plan)
    assert float(figures.figures["tokens_per_s_per_accelerator"].value) == pytest.approx(measured, rel=0.12)


def test_gradients_travel_in_the_type_that_is_named() -> None:
    sizes = {}
    for kind in ("fp32", "bf16"):
        figures = made("llama-3.1-8b", "16xh100-sxm-80gb", "fsdp", dp=16.0, zero_stage=2, how=Manner(reduce_in=kind))
        sent = figures.time.step.find("step.dense.gradient_bytes")
        assert sent is not None
        sizes[kind] = float(sent.value)
    assert sizes["fp32"] == 2 * sizes["bf16"]


def test_states_on_disks_are_read_and_written_once_a_step() -> None:
    # ZeRO-Infinity (arXiv 2104.07857), 4.1: 2 x 16 bytes a parameter move for the optimizer's states of mixed-precision Adam,
    # so that a step of batch b and length s does s b / 4 FLOP for each byte; weights add what is written, 2 bytes.
    plan: dict[str, Any] = {"dp": 8.0, "zero_stage": 3, "recompute": "full"}
    rate = 1.6e9
    on_disk = Saving(offload=("optimizer", "params"), offload_to="nvme", nvme_bandwidth=rate)
    figures = made("llama-3.1-8b", "8xh100-sxm-80gb", "deepspeed", **plan, saving=on_disk, precision="fp16")
    local = float(subject("llama-3.1-8b").counts.params_total.value) / 8
    found = figures.time.step.find("step.offload_disk")
    assert found is not None
    moved = 2 * 16 + 2
    assert float(found.value) == pytest.approx(local * moved / rate, rel=1e-9)


def test_disks_of_a_machine_on_record_and_of_one_that_is_not() -> None:
    # microsoft/DeepSpeed 08f24443, DeepNVMe: 10 GB/s read and 5 GB/s written by the drives of an NC96ads A100 v4 with 4 GPUs.
    hw = subject("llama-3.1-8b", "azure-nc96ads-a100", "deepspeed").hw
    assert hw.disk_read is not None
    assert hw.disk_write is not None
    assert (hw.disk_read.value, hw.disk_write.value) == (2.5e9, 1.25e9)
    plan: dict[str, Any] = {"dp": 8.0, "zero_stage": 3, "saving": Saving(offload=("optimizer",), offload_to="nvme")}
    with pytest.raises(UnknownError, match="--nvme-bandwidth"):
        made("llama-3.1-8b", "8xh100-sxm-80gb", "deepspeed", **plan)


def test_experts_travel_to_the_host_too() -> None:
    plan: dict[str, Any] = {"dp": 8.0, "ep": 8.0, "zero_stage": 3, "recompute": "full", "saving": Saving(offload=("optimizer",))}
    figures = made("mixtral-8x7b", "8xh100-sxm-80gb", "deepspeed", **plan)
    sizes = figures.time.step.find("step.offload.gradients_bytes.all")
    assert sizes is not None
    assert sizes.value == pytest.approx(2 * float(subject("mixtral-8x7b").counts.params_total.value) / 8, rel=1e-3)


def test_sharded_replicas_average_as_seldom_as_they_are_told() -> None:
    # DiLoCo (arXiv 2311.08105): outer momentum and the last average, 8 bytes a parameter, here shared like all states; INTELLECT-1
    # (arXiv 2412.01152, 2.2) shards within a node and averages across nodes in the same way.
    base: dict[str, Any] = {"dp": 32.0, "zero_stage": 3, "shard_group": 8.0, "recompute": "full"}
    each, few, many = (made("llama-3.1-8b", "4xdgx-h100", "fsdp", **base, sync_every=steps) for steps in (None, 1.0, 500.0))
    exchanged = [one.time.step.find("step.averaging") for one in (few, many)]
    assert float(exchanged[0].value) == pytest.approx(500 * float(exchanged[1].value))  # type: ignore[union-attr]
    assert each.time.step.find("step.averaging") is None
    assert many.time.step.value < each.time.step.value
    params = float(subject("llama-3.1-8b").counts.params_total.value)
    assert part(many, "outer_optimizer") == pytest.approx(params * 8 / 8, rel=1e-9)


def test_weights_that_stay_in_the_node_cross_the_network_once_less() -> None:
    # ZeRO++ (arXiv 2306.10209), 3.2 and table 1: hpZ brings the 3 M that ZeRO-3 sends between nodes to 2 M, for M more weights in
    # every node. FSDP2's reshard_after_forward takes the same number.
    base: dict[str, Any] = {"dp": 64.0, "zero_stage": 3, "how": Manner(reduce_in="bf16")}
    sent, held = {}, {}
    for group in (None, 8.0):
        figures = made("llama-3.1-8b", "8xdgx-h100", "fsdp", **base, reshard_group=group)
        forward = figures.time.step.find("step.micro.gather")
        assert forward is not None
        backward = figures.time.step.find("step.micro.gather_again") or forward
        sent[group] = sum(
            len({one.name for one in gather.walk() if one.name.endswith(".wire_bytes") and "scale-out" in one.name and one.value})
            for gather in (forward, backward)
        )
        held[group] = float(figures.memory.peak.value), part(figures, "resharded")
    assert sent == {None: 2, 8.0: 1}
    params = float(subject("llama-3.1-8b").counts.params_total.value)
    assert held[8.0][1] == pytest.approx(2 * params / 8)
    assert held[None][1] == 0


def test_adapters_of_latent_attention_stand_beside_all_of_its_projections() -> None:
    # peft, `target_modules="all-linear"`: q_a, q_b, kv_a, kv_b and o of every layer, of DeepSeek-V3's widths.
    figures = made("deepseek-v3", "8xh200-sxm-141gb", "megatron-lm", dp=8.0, tuning=Tuning(lora=16, lora_targets="attention"))
    widths = ((7168, 1536), (1536, 128 * 192), (7168, 512 + 64), (512, 128 * 256), (128 * 128, 7168))
    trained = figures.memory.peak.find("adapters.dense")
    assert trained is not None
    assert trained.value == 16 * sum(sum(one) for one in widths)
