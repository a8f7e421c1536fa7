"""What must hold of every training estimate, whatever its numbers are."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from gpuplan.errors import GpuplanError
from gpuplan.estimate.long_run import Run
from gpuplan.estimate.training import TrainingFigures, training_figures
from gpuplan.plan.ask import TrainAsk
from gpuplan.plan.train import Saving, TrainPlan, Tuning
from gpuplan.search.ask import train
from tests.estimate.subjects import MODELS, subject, traffic, train_plan
from tests.search.spaces import legal_plans, space_for
from tests.sweeps import thinned

RANKS = 16
ON = f"{RANKS}xh100-sxm-80gb"


def some_plans(model: str, **given: Any) -> Iterator[TrainPlan]:
    """A handful of legal plans, spread over the degrees."""
    plans = legal_plans(space_for(model, ranks=RANKS, **given))
    yield from plans[:: max(len(plans) // 4, 1)]


def figures(model: str, plan: TrainPlan, on: str = ON, engine: str = "megatron-lm") -> TrainingFigures:
    return training_figures(subject(model, on, engine), plan, run=Run(tokens=1e12))


def peak(model: str, on: str = ON, engine: str = "megatron-lm", **given: Any) -> float:
    return float(figures(model, train_plan(**given), on, engine).memory.peak.value)


@pytest.mark.parametrize("model", MODELS)
def test_the_parts_sum_to_the_totals(model: str) -> None:
    for plan in some_plans(model, zero_stage=(0, 3), recompute=("none", "full")):
        made = figures(model, plan)
        for stages in (made.memory.stages, made.time.stages):
            for whole, parts in stages.values():
                assert sum(float(part.value) for part in parts.values()) == pytest.approx(whole.value, rel=1e-12)
        assert made.memory.peak.value == max(float(whole.value) for whole, _ in made.memory.stages.values())
        assert made.time.step.value == max(float(whole.value) for whole, _ in made.time.stages.values())


@pytest.mark.parametrize("model", MODELS)
def test_no_part_is_negative(model: str) -> None:
    for plan in some_plans(model, zero_stage=(1, 3), recompute=("none", "selective")):
        made = figures(model, plan)
        for stages in (made.memory.stages, made.time.stages):
            for _, parts in stages.values():
                assert all(float(part.value) >= 0 for part in parts.values()), [part for part in parts.values() if part.value < 0]


@pytest.mark.parametrize("model", MODELS)
def test_hardware_flop_is_never_below_model_flop_nor_faster_than_the_peak(model: str) -> None:
    for plan in some_plans(model, zero_stage=(1,), recompute=("none", "selective", "full")):
        made = figures(model, plan).figures
        assert made["hfu"].value >= made["mfu"].value >= made["mfu_causal"].value > 0
        # The mask leaves half of the scores: the other half is in `mfu` by convention and need not run.
        assert made["mfu_causal"].value < 1


@pytest.mark.parametrize("model", ["llama-3.1-8b", "mixtral-8x7b", "gpt2"])
@pytest.mark.parametrize("engine", ["megatron-lm", "fsdp"])
def test_memory_falls_with_the_zero_stage(model: str, engine: str) -> None:
    for dp, tp in ((2.0, 8.0), (16.0, 1.0), (4.0, 4.0)):
        sizes = [peak(model, engine=engine, dp=dp, tp=tp, zero_stage=stage) for stage in (0, 1, 2, 3)]
        assert all(more >= less for more, less in pairwise(sizes)), (dp, sizes)


@pytest.mark.parametrize("model", MODELS)
def test_memory_falls_with_recomputation(model: str) -> None:
    for micro_batch in (1.0, 4.0):
        sizes = [peak(model, dp=16.0, micro_batch=micro_batch, recompute=how) for how in ("none", "selective", "full")]
        assert all(more >= less for more, less in pairwise(sizes)), sizes


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("sequence_parallel", [False, True])
def test_memory_falls_with_the_tensor_parallel_degree(model: str, sequence_parallel: bool) -> None:
    sizes = [peak(model, tp=tp, dp=2.0, sequence_parallel=sequence_parallel) for tp in (1.0, 2.0, 4.0, 8.0)]
    assert all(more > less for more, less in pairwise(sizes)), sizes


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("stage", [1, 2, 3])
def test_memory_falls_with_the_ranks_that_share_states(model: str, stage: int) -> None:
    sizes = [peak(model, dp=dp, zero_stage=stage) for dp in (2.0, 4.0, 8.0, 64.0)]
    assert all(more > less for more, less in pairwise(sizes)), sizes


@pytest.mark.parametrize("model", MODELS)
def test_memory_falls_with_the_micro_batch_and_the_length(model: str) -> None:
    for name, values in (("micro_batch", (8.0, 4.0, 2.0, 1.0)), ("seq_len", (4096.0, 2048.0, 1024.0))):
        sizes = [peak(model, dp=8.0, **{name: value}) for value in values]
        assert all(more > less for more, less in pairwise(sizes)), (name, sizes)


@pytest.mark.parametrize("model", MODELS)
def test_memory_falls_with_narrower_optimizer_states(model: str) -> None:
    falling = (
        ("adamw", "lion", "adamw-8bit", "adamw-4bit"), ("ademamix", "adamw", "adagrad", "adafactor"), ("lion", "lion-8bit"),
        ("ademamix", "ademamix-8bit"), ("rmsprop", "rmsprop-8bit"), ("adam-mini", "lomo"),
    )  # fmt: skip
    for names in falling:
        sizes = [peak(model, dp=8.0, optimizer=name) for name in names]
        assert all(more > less for more, less in pairwise(sizes)), (names, sizes)
    assert peak(model, dp=8.0, optimizer="adalomo") == peak(model, dp=8.0, optimizer="adafactor")
    assert peak(model, dp=8.0, precision="bf16-pure") < peak(model, dp=8.0) <= peak(model, dp=8.0, precision="fp32")


@pytest.mark.parametrize("model", MODELS)
def test_a_degree_of_one_has_no_traffic(model: str) -> None:
    alone = figures(model, train_plan(zero_stage=1), on="h100-sxm-80gb")
    for word in ("tensor_parallel", "data_parallel", "pipeline", "bubble", "context_parallel", "expert_parallel"):
        assert sum(traffic(alone, word)) == 0, word
    spread = figures(model, train_plan(tp=2.0, pp=2.0, dp=4.0, zero_stage=3))
    assert sum(traffic(spread, "tensor_parallel")) > 0
    assert sum(traffic(spread, "pipeline_send")) > 0
    assert sum(traffic(spread, "bubble")) > 0


@pytest.mark.parametrize("model", MODELS)
def test_all_ranks_together_hold_the_model_at_least_once(model: str) -> None:
    total = float(subject(model).counts.params_total.value)
    for plan in some_plans(model, zero_stage=(1,)):
        made = figures(model, plan)
        weights = max(
            float(part.value) for _, parts in made.memory.stages.values() for name, part in parts.items() if name == "weights"
        )
        p = plan.parallel
        # Experts are spread over ep x etp of the tp x cp x dp ranks of a stage, dense layers over tp of them.
        ways = float(p.pp * max(p.tp, p.ep * (1 if p.ep > 1 else p.tp)))
        assert weights / 2 * ways >= total * (1 - 1e-12), plan.parallel


@pytest.mark.parametrize("model", MODELS)
def test_one_rank_holds_every_parameter_once_and_a_tied_model_its_embedding_once(model: str) -> None:
    about = subject(model, "h100-sxm-80gb")
    made = training_figures(about, train_plan())
    assert made.memory.stages["only"][1]["weights"].value == pytest.approx(2 * float(about.counts.params_total.value), rel=1e-12)
    if about.arch.tied:
        # Its matrix is the embedding's; of its own it has a bias at most.
        assert about.counts.head is None or float(about.counts.head.value) == about.arch.vocab * about.arch.head_bias


def test_a_tied_model_holds_its_embedding_on_both_ends_of_a_pipeline() -> None:
    about = subject("gemma-3-27b")
    assert about.arch.tied
    made = training_figures(about, train_plan(pp=2.0, dp=8.0))
    embedding = float(about.counts.embedding.value)
    both = sum(
        float(part.value) / 2
        for place in ("first", "last")
        for part in made.memory.stages[place][1].values()  # type: ignore[index]
        if part.name.endswith("memory.weights")
    )
    assert both == pytest.approx(float(about.counts.params_total.value) + embedding, rel=1e-9)


@pytest.mark.parametrize("model", ["llama-3.1-8b", "mixtral-8x7b", "gemma-3-27b", "gpt2"])
def test_a_step_takes_longer_than_its_arithmetic_at_the_peak(model: str) -> None:
    for plan in some_plans(model, recompute=("none", "full")):
        about = subject(model, ON)
        made = figures(model, plan)
        params = float(about.counts.params_active.value) - float(about.counts.embedding.value)
        flop = 6 * params * float(plan.global_batch * plan.seq_len)
        assert made.time.step.value > flop / (RANKS * float(about.hw.peak("bf16").value))


@pytest.mark.parametrize(
    "ask",
    [
        TrainAsk(model="llama-3.1-8b", on="8xh100-sxm-80gb", tokens=15e12),
        TrainAsk(model="mixtral-8x7b", on="16xa100-sxm-80gb", tokens=1e12),
        TrainAsk(model="gpt2", on="l40s", tokens=1e9),
    ],
    ids=lambda ask: ask.model,
)
def test_every_figure_lies_within_its_range(ask: TrainAsk) -> None:
    made = train(ask)
    for name, (low, high) in made.ranges.items():
        assert low <= float(made.figures[name].value) <= high, name
    low, high = made.ranges["step_time_s"]
    assert low < high


def test_a_longer_run_costs_as_much_more() -> None:
    short, long = (train(TrainAsk(model="llama-3.1-8b", on="8xh100-sxm-80gb", tokens=n, dp=8)).figures for n in (1e12, 3e12))
    for name in ("run_time_s", "accelerator_time_s", "cost_usd", "energy_joules"):
        assert long[name].value == pytest.approx(3 * float(short[name].value))
    assert short["accelerator_time_s"].value == pytest.approx(8 * float(short["wall_time_s"].value))


def test_a_wish_that_cannot_be_met_is_an_error_and_not_a_number() -> None:
    with pytest.raises(GpuplanError):
        train(TrainAsk(model="llama-3.1-8b", on="8xh100-sxm-80gb", precision="fp8", engine="vllm"))


def test_sharded_weights_are_gathered_no_further_than_the_stage_goes() -> None:
    made = figures("llama-3.1-8b", train_plan(pp=16.0, dp=2.0, zero_stage=3, global_batch=64.0), on="32xh100-sxm-80gb")
    for place, (_, parts) in made.memory.stages.items():
        sizes = {name: float(part.value) for name, part in parts.items()}
        if place == "middle":
            # Two layers on each stage, half of them kept and both gathered.
            assert sizes["gathered"] == pytest.approx(2 * sizes["weights"])
    one = figures("llama-3.1-8b", train_plan(pp=32.0, dp=2.0, zero_stage=3, global_batch=64.0), on="64xh100-sxm-80gb")
    parts = {name: float(part.value) for name, part in one.memory.stages["middle"][1].items()}
    assert parts["gathered"] == pytest.approx(2 * parts["weights"])


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("engine", ["megatron-lm", "torchtitan"])
def test_no_kind_of_recomputation_costs_memory_nor_saves_time(model: str, engine: str) -> None:
    base: dict[str, Any] = {"dp": 16.0, "micro_batch": 4.0}
    none = figures(model, train_plan(**base), engine=engine)
    everything = figures(model, train_plan(**base, recompute="full"), engine=engine)
    for how in ("selective", "selective-op", "mlp", "moe"):
        made = figures(model, train_plan(**base, recompute=how), engine=engine)
        # A layer is made again while the rest is held: what was saved pays for that, or all but nothing was.
        transient = max(float(one.value) for one in made.memory.peak.walk() if one.name.startswith("activations."))
        assert made.memory.allocated.value <= none.memory.allocated.value + transient, how
        assert made.memory.allocated.value >= everything.memory.allocated.value * 0.999, how
        assert made.time.step.value >= none.time.step.value * 0.999, how


@pytest.mark.parametrize("model", ["llama-3.1-8b", "mixtral-8x7b", "gpt2"])
def test_memory_falls_with_every_layer_that_is_recomputed(model: str) -> None:
    sizes = [
        peak(model, dp=16.0, micro_batch=4.0, recompute="full", saving=Saving(recompute_layers=layers)) for layers in (1, 2, 4, 8)
    ]
    assert all(more > less for more, less in pairwise(sizes)), sizes
    assert sizes[-1] >= peak(model, dp=16.0, micro_batch=4.0, recompute="full")


@pytest.mark.parametrize("model", MODELS)
def test_narrower_frozen_weights_and_fewer_adapters_take_less(model: str) -> None:
    def tuned(base: Any, **given: Any) -> float:
        return peak(model, dp=16.0, zero_stage=0, recompute="full", tuning=Tuning(base_weights=base, **given))

    sizes = [tuned(base, lora=16) for base in ("fp32", "bf16", "int8", "nf4", "nf4-dq")]
    assert all(more > less for more, less in pairwise(sizes)), sizes
    assert tuned("bf16", lora=64) > tuned("bf16", lora=16)
    assert tuned("bf16", lora=16, train_edges=True) > tuned("bf16", lora=16)
    assert tuned("bf16", lora=16) < peak(model, dp=16.0, zero_stage=0, recompute="full")


@pytest.mark.parametrize("kind", ["ring", "all-gather", "ulysses"])
def test_context_parallelism_of_each_kind_shares_activations(kind: str) -> None:
    sizes = [
        peak("llama-3.1-8b", cp=cp, dp=16.0 / cp, cp_kind=kind, recompute="none", seq_len=32768.0) for cp in (1.0, 2.0, 4.0, 8.0)
    ]
    assert all(more > less for more, less in pairwise(sizes)), sizes


def test_a_fuller_rank_of_experts_takes_more_memory_and_time() -> None:
    base: dict[str, Any] = {"dp": 16.0, "ep": 8.0}
    even, full = (figures("mixtral-8x7b", train_plan(**base, **given)) for given in ({}, {"expert_load": 1.5}))
    assert full.memory.peak.value > even.memory.peak.value
    assert full.time.step.value > even.time.step.value


def test_more_capacity_takes_more_memory_and_time() -> None:
    base: dict[str, Any] = {"dp": 16.0, "ep": 8.0}
    made = [figures("mixtral-8x7b", train_plan(**base, capacity_factor=factor)) for factor in (1.0, 1.25, 2.0)]
    peaks, steps = [float(one.memory.peak.value) for one in made], [float(one.time.step.value) for one in made]
    assert peaks == sorted(set(peaks))
    assert steps == sorted(set(steps))


def test_a_more_uneven_router_takes_more_memory_and_time() -> None:
    base: dict[str, Any] = {"dp": 16.0, "ep": 4.0}
    even, some, more = (figures("mixtral-8x7b", train_plan(**base, expert_skew=skew)) for skew in (None, 4.0, 40.0))
    peaks, steps = ([one.memory.peak.value for one in (even, some, more)], [one.time.step.value for one in (even, some, more)])
    assert peaks == sorted(set(peaks))
    assert steps == sorted(set(steps))


def test_experts_cut_by_tensor_parallelism_hold_as_much_as_whole_ones() -> None:
    whole = figures("mixtral-8x7b", train_plan(tp=2.0, dp=8.0, ep=8.0))
    cut = figures("mixtral-8x7b", train_plan(tp=2.0, dp=8.0, ep=4.0, etp=2.0))
    weights = [one.memory.peak.find("memory.weights.experts") for one in (whole, cut)]
    assert [one.value for one in weights if one is not None] == [weights[0].value] * 2  # type: ignore[union-attr]


@pytest.mark.parametrize("model", ["llama-3.1-8b", "mixtral-8x7b", "deepseek-v3"])
@pytest.mark.parametrize("zero_stage", [1, 2, 3])
def test_a_shard_group_of_all_ranks_is_plain_sharding_and_a_smaller_one_holds_more(model: str, zero_stage: int) -> None:
    base: dict[str, Any] = {"dp": 16.0, "zero_stage": zero_stage}
    plain, whole = figures(model, train_plan(**base)), figures(model, train_plan(**base, shard_group=16.0))
    for name, term in plain.figures.items():
        assert whole.figures[name].value == pytest.approx(term.value, rel=1e-12), name
    sizes = [float(figures(model, train_plan(**base, shard_group=group)).memory.peak.value) for group in (1.0, 2.0, 4.0, 8.0, 16.0)]
    assert all(more > less for more, less in pairwise(sizes)), sizes


@pytest.mark.parametrize("model", MODELS)
def test_no_modules_are_none_and_each_further_one_takes_memory_and_time(model: str) -> None:
    base: dict[str, Any] = {"dp": 16.0}
    plain = figures(model, train_plan(**base))
    made = [figures(model, train_plan(**base, mtp=number)) for number in (0.0, 1.0, 2.0)]
    for name, term in plain.figures.items():
        assert made[0].figures[name].value == term.value, name
    for few, many in pairwise(made):
        assert many.memory.peak.value > few.memory.peak.value
        assert many.time.step.value > few.time.step.value
        assert many.figures["hfu"].value >= many.figures["mfu"].value


@pytest.mark.parametrize("model", ["llama-3.1-8b", "mixtral-8x7b", "gpt2", "gemma-3-27b"])
@pytest.mark.parametrize("pp", [2.0, 4.0])
def test_ends_that_are_named_as_even_are_the_even_division(model: str, pp: float) -> None:
    layers = subject(model).arch.depth
    base: dict[str, Any] = {"pp": pp, "dp": 16 / pp}
    plain = figures(model, train_plan(**base))
    if layers % pp:
        return
    each = layers / pp
    for ends in (
        {"first_stage_layers": each},
        {"last_stage_layers": each},
        {"first_stage_layers": each, "last_stage_layers": each},
    ):
        made = figures(model, train_plan(**base, **ends))
        for name, term in plain.figures.items():
            assert made.figures[name].value == pytest.approx(term.value, rel=1e-12), (name, ends)


def test_an_odd_division_still_holds_every_layer() -> None:
    for pp in (2.0, 8.0, 16.0):
        made = figures("deepseek-v3", train_plan(pp=pp, dp=16 / pp))
        held = {}
        for place in ("first", "middle", "last"):
            whole = made.time.stages[place][0]  # type: ignore[index]
            found = [whole.find(f"{place}_stage.{kind}.layers") for kind in ("dense", "moe")]
            held[place] = sum(float(one.value) for one in found if one is not None)
            assert held[place] == int(held[place])
        assert held["first"] + (pp - 2) * held["middle"] + held["last"] == 61


def test_faster_disks_take_no_longer_and_hold_as_much() -> None:
    def on(rate: float | None, to: Any) -> TrainingFigures:
        saving = Saving(offload=("optimizer", "params"), offload_to=to, nvme_bandwidth=rate)
        return figures("llama-3.1-8b", train_plan(dp=16.0, zero_stage=3, saving=saving), engine="deepspeed")

    host = on(None, "host")
    steps = [on(rate, "nvme") for rate in (1e9, 2e9, 8e9, 1e15)]
    # The host updates the states while disks read and write them: faster disks than that are of no use.
    assert all(slow.time.step.value > fast.time.step.value for slow, fast in pairwise(steps[:3]))
    assert steps[2].time.step.value >= steps[3].time.step.value * (1 - 1e-12)
    assert steps[-1].time.step.value == pytest.approx(host.time.step.value, rel=1e-4)
    assert {float(one.memory.peak.value) for one in steps} == {float(host.memory.peak.value)}


@pytest.mark.parametrize("model", ["llama-3.1-8b", "mixtral-8x7b"])
def test_weights_that_stay_on_fewer_ranks_take_memory_and_no_more_time(model: str) -> None:
    base: dict[str, Any] = {"dp": 16.0, "zero_stage": 3}
    plain = figures(model, train_plan(**base))
    made = [figures(model, train_plan(**base, reshard_group=group)) for group in (16.0, 8.0, 4.0, 1.0)]
    for name, term in plain.figures.items():
        assert made[0].figures[name].value == pytest.approx(term.value, rel=1e-12), name
    for wide, narrow in pairwise(made):
        assert narrow.memory.peak.value > wide.memory.peak.value
        assert narrow.time.step.value <= wide.time.step.value * (1 + 1e-12)


@pytest.mark.parametrize("model", thinned(["llama-3.1-8b", "mixtral-8x7b", "deepseek-v3"], every=3))
def test_a_rate_is_as_uncertain_as_its_time(model: str) -> None:
    made = train(TrainAsk(model=model, on="256xh100", tokens=1e12))
    tokens = float(made.figures["tokens_per_step"].value)  # type: ignore[arg-type]
    (fast, slow), (least, most) = made.ranges["step_time_s"], made.ranges["tokens_per_s"]
    assert (least, most) == pytest.approx((tokens / slow, tokens / fast), rel=1e-9)
    middle = float(made.figures["step_time_s"].value)  # type: ignore[arg-type]
    assert made.ranges["run_time_s"] == pytest.approx((1e12 / tokens * fast, 1e12 / tokens * slow), rel=1e-9)
    assert 0 < fast < middle < slow
