"""What must hold of any training question, over engines, models and machines: of parts, savings, overlaps and better chips."""

from __future__ import annotations

from functools import cache
from itertools import combinations, pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from gpuplan.errors import GpuplanError, UsageError
from gpuplan.estimate.training import TrainingFigures, training_figures
from gpuplan.models.catalog import find
from gpuplan.plan.again import module_rules
from gpuplan.plan.train import Manner, Saving, TrainPlan, Tuning
from gpuplan.search.shape import shape_of
from gpuplan.specs.accelerator import Accelerator
from gpuplan.specs.catalog import Catalog
from gpuplan.specs.engine import Engine
from tests.estimate.subjects import subject, train_plan

MACHINES = ("16xh100-sxm-80gb", "8xa100-sxm-80gb", "2xrtx-4090", "32xb200-sxm-180gb", "16xmi300x", "16xtpu-v5p", "l4", "2xdgx-h100")
MODELS = ("llama-3.1-8b", "qwen2.5-0.5b", "mixtral-8x7b", "deepseek-v2-lite", "gemma-3-4b", "phi-2", "gpt2", "mamba2-2.7b")
MODULES = ("core_attn", "layernorm", "mla_up_proj", "mlp", "moe", "moe_act", "shared_experts")
LITTLE = 1 + 1e-9


@cache
def engines() -> dict[str, Engine]:
    catalog = Catalog.open()
    made = (catalog.load(Engine, name) for name in catalog.paths("engines"))
    return {one.id: one for one in made if one.training is not None}


class Question:
    """A model on a machine with an engine, and a plan that may be changed."""

    def __init__(self, model: str, on: str, engine: str, plan: dict[str, Any]) -> None:
        self.model, self.on, self.engine, self.plan = model, on, engine, plan

    def __repr__(self) -> str:
        return f"{self.model} on {self.on} with {self.engine}: {self.plan}"

    def made(self, **changes: Any) -> TrainingFigures:
        plan: TrainPlan = train_plan(**{**self.plan, **changes})
        return training_figures(subject(self.model, self.on, self.engine), plan)

    def memory(self, **changes: Any) -> float:
        return float(self.made(**changes).memory.peak.value)

    def step(self, **changes: Any) -> float:
        return float(self.made(**changes).time.step.value)


@st.composite
def questions(draw: st.DrawFn) -> Question:
    """Any of them that may be asked: data parallel, since every engine is, with what saves memory."""
    model, on = draw(st.sampled_from(MODELS)), draw(st.sampled_from(MACHINES))
    tpu = "tpu" in on
    vendor = "amd" if "mi3" in on else "nvidia"
    runs = {name for name, one in engines().items() if one.refused_by(vendor, "") is None}
    engine = "maxtext" if tpu else draw(st.sampled_from(sorted(runs - {"maxtext"})))
    ranks = {"2xdgx-h100": 16, "l4": 1}.get(on) or int(on.partition("x")[0])
    micro = draw(st.sampled_from((1, 2, 8)))
    plan: dict[str, Any] = {
        "dp": float(ranks), "micro_batch": float(micro), "global_batch": float(micro * ranks * draw(st.sampled_from((1, 4)))),
        "seq_len": float(draw(st.sampled_from((512, 2048, 8192)))), "zero_stage": draw(st.sampled_from((0, 1, 2, 3))),
        "recompute": draw(st.sampled_from(("none", "selective", "full"))),
    }  # fmt: skip
    if draw(st.booleans()):
        plan["documents"] = 256.0
    if draw(st.integers(0, 3)) == 0:
        plan["tuning"] = Tuning(lora=16, base_weights=draw(st.sampled_from((None, "nf4"))))
    return Question(model, on, engine, plan)


def laws(examples: int) -> Any:
    """The same questions each time, and as many as take some seconds."""
    check = [HealthCheck.too_slow, HealthCheck.filter_too_much]
    return settings(max_examples=examples, deadline=None, derandomize=True, phases=[Phase.generate], suppress_health_check=check)


@laws(120)
@given(questions())
def test_parts_are_no_less_than_nothing_and_sum_to_the_whole(asked: Question) -> None:
    made = asked.made()
    for stages in (made.memory.stages, made.time.stages):
        for whole, parts in stages.values():
            sizes = [float(part.value) for part in parts.values()]
            assert min(sizes) >= 0, {name: part.value for name, part in parts.items() if part.value < 0}
            assert sum(sizes) == pytest.approx(float(whole.value), rel=1e-12)


@laws(120)
@given(questions())
def test_no_utilisation_passes_the_whole_and_hardware_does_no_less_than_the_model(asked: Question) -> None:
    figures = asked.made().figures
    mfu, hfu, causal = (float(figures[name].value) for name in ("mfu", "hfu", "mfu_causal"))
    assert 0 < causal <= mfu * LITTLE
    assert mfu <= hfu * LITTLE
    assert hfu <= 1


@laws(60)
@given(questions())
def test_what_saves_more_memory_never_costs_memory(asked: Question) -> None:
    by_recompute = [asked.memory(recompute=how) for how in ("none", "selective", "full")]
    assert all(less <= more * LITTLE for more, less in pairwise(by_recompute)), by_recompute
    by_stage = [asked.memory(zero_stage=stage) for stage in (0, 1, 2)]
    assert all(less <= more * LITTLE for more, less in pairwise(by_stage)), by_stage


@laws(60)
@given(questions(), st.sampled_from((("optimizer",), ("activations",), ("optimizer", "params"))))
def test_what_goes_to_the_host_never_costs_memory(asked: Question, what: tuple[Any, ...]) -> None:
    plan = {"zero_stage": 3} if "params" in what else {}
    assert asked.memory(saving=Saving(offload=what), **plan) <= asked.memory(**plan) * LITTLE


@laws(60)
@given(questions())
def test_weights_that_live_on_the_host_are_not_on_the_accelerator(asked: Question) -> None:
    made = asked.made(zero_stage=3, saving=Saving(offload=("params",)))
    for _, parts in made.memory.stages.values():
        assert not {"weights", "frozen", "adapters"} & set(parts)


@laws(60)
@given(questions())
def test_recomputation_never_saves_time_and_counts_what_it_saves(asked: Question) -> None:
    none, some, everything = (asked.made(recompute=how) for how in ("none", "selective", "full"))
    steps = [float(one.time.step.value) for one in (none, some, everything)]
    assert all(less <= more * LITTLE for less, more in pairwise(steps)), steps
    if some.memory.peak.value < none.memory.peak.value * (1 - 1e-9):
        # It may cost no time where the accelerator waits for the host, but it is counted.
        assert any(term.name.endswith(".run_again") and term.value > 0 for term in some.time.step.walk())


@laws(50)
@given(questions(), st.sets(st.sampled_from(MODULES), min_size=1))
def test_every_module_that_is_named_is_counted_in_memory_time_and_flop(asked: Question, named: set[str]) -> None:
    shape = shape_of(find(asked.model).architecture, 1)  # type: ignore[arg-type]
    having = [name for name in sorted(named) if all(rule.holds for rule in module_rules("selective", (name,), shape))]
    base = asked.made(recompute="none")
    sizes, steps, flop = [float(base.memory.peak.value)], [float(base.time.step.value)], [float(base.figures["hfu"].value)]
    for number in range(1, len(having) + 1):
        made = asked.made(recompute="selective", saving=Saving(recompute_modules=tuple(having[:number])))
        sizes.append(float(made.memory.peak.value))
        steps.append(float(made.time.step.value))
        flop.append(float(made.figures["hfu"].value) * steps[-1])
    assert all(less <= more * LITTLE for more, less in pairwise(sizes)), (having, sizes)
    assert all(less <= more * LITTLE for less, more in pairwise(steps)), (having, steps)
    flop[0] *= steps[0]
    assert all(less <= more * LITTLE for less, more in pairwise(flop)), (having, flop)


@laws(50)
@given(questions())
def test_overlapping_is_never_slower_than_waiting(asked: Question) -> None:
    kinds = ("tp", "dp", "pp", "ep")
    waiting = asked.step(how=Manner(overlap=()))
    for number in (1, 4):
        for some in combinations(kinds, number):
            assert asked.step(how=Manner(overlap=some)) <= waiting * LITTLE, some


SHARED_NOTHING = ("mlx-lm",)
"""It shares no weights."""


@pytest.mark.parametrize("engine", sorted(set(engines()) - set(SHARED_NOTHING)))
def test_gathers_of_sharded_weights_are_never_free(engine: str) -> None:
    """ZeRO-3 on one node, where all that travels could hide: kernels beside it lose multiprocessors and bandwidth to it."""
    plan = {"dp": 8.0, "micro_batch": 8.0, "global_batch": 64.0, "seq_len": 4096.0, "zero_stage": 3, "recompute": "none"}
    _, parts = Question("llama-3.1-8b", "8xh100-sxm-80gb", engine, plan).made().time.binding()
    exchange = [parts["sharded_data_parallel"].find(f"step.micro.{what}") for what in ("gather", "gather_and_scatter")]
    travels = sum(float(one.value) for one in exchange if one is not None)
    assert travels > 0
    assert float(parts["sharded_data_parallel"].value) >= 0.1 * travels


@laws(50)
@given(questions())
def test_compiled_code_is_never_slower_and_is_refused_where_nothing_compiles(asked: Question) -> None:
    profile = engines()[asked.engine].training
    assert profile is not None
    if profile.compiled is None:
        with pytest.raises(UsageError, match=r"torch\.compile"):
            asked.step(how=Manner(compiled=True))
        return
    eager, compiled = (asked.made(how=Manner(compiled=how)).time for how in (False, True))
    assert compiled.step.value <= eager.step.value * LITTLE
    between = [float(one.binding()[1]["elementwise"].value) for one in (eager, compiled)]
    assert between[1] < between[0]


@laws(50)
@given(questions())
def test_sharding_more_exchanges_no_less(asked: Question) -> None:
    sharding = engines()[asked.engine].training.sharding  # type: ignore[union-attr]
    if sharding.owner_hop is not None or sharding.slice_host is not None or asked.plan["dp"] == 1:
        return  # ZeRO-1 tensor by tensor is slower than what gathers layers.
    steps = [asked.step(zero_stage=stage) for stage in (1, 2, 3)]
    assert steps[0] <= steps[1] * LITTLE
    # What ZeRO-3 gathers runs beside kernels; who gathers updated weights behind the step waits for all of them.
    assert steps[1] < steps[2] or sharding.updated == "behind-step"


@cache
def superset_pairs() -> list[tuple[str, str]]:
    """Chips of one family, the second of which has no datasheet rate, capacity or power below the first's."""
    catalog = Catalog.open()
    chips = [catalog.load(Accelerator, name) for name in catalog.paths("accelerators")]
    return [(one.id, two.id) for one in chips for two in chips if one.family == two.family and one is not two and _covers(two, one)]


def _covers(two: Accelerator, one: Accelerator) -> bool:
    if one.power is None or two.power is None or one.power.value > two.power.value:
        return False
    rates = [dtype for dtype in ("bf16", "fp16", "fp8", "fp32") if dtype in one.dtypes()]
    more = all(dtype in two.dtypes() and two.peak(dtype).value >= one.peak(dtype).value for dtype in rates)
    pairs = ((one.memory.bandwidth, two.memory.bandwidth), (one.memory.capacity, two.memory.capacity))
    return bool(rates) and more and all(less.value <= big.value for less, big in pairs)


def _measured(chip: str) -> bool:
    return chip in Catalog.open().paths("measured") and _own(chip)


@cache
def _own(chip: str) -> bool:
    from gpuplan.specs.measured import Measured

    catalog = Catalog.open()
    return bool(catalog.read(Measured, catalog.paths("measured")[chip]).matmul)


@cache
def _step(chip: str) -> float | None:
    try:
        made = training_figures(subject("gpt2", chip, "fsdp"), train_plan(micro_batch=4.0, seq_len=1024.0))
    except GpuplanError:
        return None
    return float(made.time.step.value)


@pytest.mark.slow
def test_a_chip_that_has_no_less_of_anything_is_no_slower() -> None:
    slower = []
    for less, more in superset_pairs():
        if _measured(less) and _measured(more):
            continue
        steps = (_step(less), _step(more))
        if steps[0] is not None and steps[1] is not None and steps[1] > steps[0] * 1.001:
            slower.append((less, more, steps))
    assert not slower


@pytest.mark.parametrize("precision", ["bf16", "fp8"])
def test_the_blackwells_come_in_the_order_of_their_power_limits(precision: Any) -> None:
    chips = ("b200-sxm-180gb", "b300-sxm-270gb", "gb200-186gb", "gb300-279gb")
    for model, engine in (("llama-3.1-8b", "megatron-lm"), ("llama-3.1-70b", "fsdp"), ("gpt2", "torchtitan")):
        steps = [
            float(
                training_figures(
                    subject(model, f"8x{chip}", engine), train_plan(dp=8.0, precision=precision, recompute="full", zero_stage=3)
                ).time.step.value
            )
            for chip in chips
        ]
        # Links and short kernels were measured on each by itself.
        assert all(step <= steps[0] * 1.01 for step in steps[1:]), steps
        assert steps[3] <= steps[2] * 1.01, steps
