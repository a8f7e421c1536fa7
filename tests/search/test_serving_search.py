"""The division of a serving question is the one that trying each would choose."""

from __future__ import annotations

from typing import Any

import pytest

from gpuplan.errors import PlanError
from gpuplan.estimate.device_limits import serving_profile
from gpuplan.estimate.serving import ServingModel
from gpuplan.estimate.serving_figures import serving_figures
from gpuplan.estimate.serving_memory import ServingMemory, at_least
from gpuplan.plan.ask_serving import FitAsk, ServeAsk
from gpuplan.plan.common import Common
from gpuplan.plan.parallelism import Parallelism, divisors, mask
from gpuplan.plan.serve import ServePlan, serve_rules
from gpuplan.ranges import high_end
from gpuplan.search import serving
from gpuplan.search.library import Found, Library
from gpuplan.search.requests import lengths_of
from gpuplan.search.serving_judges import TILE
from gpuplan.search.serving_space import PARTS
from gpuplan.search.serving_types import types_of
from gpuplan.search.shape import shape_of
from tests.sweeps import thinned

LIBRARY = Library.of(Common(model="", on=""))
QUESTIONS: list[dict[str, Any]] = [
    {"model": "llama-3.1-8b", "on": "8xh100"},
    {"model": "llama-3.1-70b", "on": "8xl4"},
    {"model": "llama-3.1-70b", "on": "16xh100", "batch": 48},
    {"model": "deepseek-v3", "on": "4xdgx-h100"},
    {"model": "deepseek-v3", "on": "8xh100"},
    {"model": "gemma-3-27b", "on": "6xa100-sxm-80gb", "pp": 3},
    {"model": "mamba2-2.7b", "on": "2xdgx-h100", "tp": 4},
    {"model": "gpt2", "on": "12xh100", "batch": 24},
]


def divisions(
    found: Found, prompt: float, output: float, context: float, ask: dict[str, Any], *, queues: bool = True
) -> list[ServePlan]:
    """Every legal division with its batch, smaller replicas first."""
    subject, made = found.subject, []
    ranks, limit = subject.hw.count, serving_profile(subject.engine, subject.hw).max_sequences.value
    shape = shape_of(subject.arch, ranks, subject.engine)
    for size in divisors(ranks):
        for pp in divisors(size):
            tp, dp, batch = size // pp, ranks // size, ask.get("batch")
            if ask.get("tp", tp) != tp or ask.get("pp", pp) != pp:
                continue
            if batch is not None and batch % dp:
                continue
            types, _ = types_of(found.card, subject, None, None)
            plan = ServePlan(
                parallel=Parallelism(tp=float(tp), pp=float(pp), dp=float(dp), zero_stage=0, sequence_parallel=False),
                batch=1.0 if batch is None else batch / dp, prompt=prompt, output=output, context=context, queues=queues,
                weights=types.weights, kv_cache=types.kv_cache, group=types.group, plain=types.plain,
            )  # fmt: skip
            if not mask(serve_rules(plan, shape, subject.arch.positions)):
                continue
            if batch is None and "fit" not in ask:
                most = ServingModel.of(subject, plan).memory().max_sequences
                whole = limit if most is None else min(float(most.value), limit)
                some = [whole // part for part in PARTS]
                tiled = [one // TILE * TILE if part > 1 and one >= TILE else one for part, one in zip(PARTS, some, strict=True)]
                made += [plan.replaced(batch=max(float(one), 1.0)) for one in tiled]
            else:
                made.append(plan)
    return made


def surely(memory: ServingMemory) -> bool:
    """Whether what it needs in any case fits with all doubts."""
    return bool(high_end(at_least(memory.needed)) <= memory.budget.value)


@pytest.mark.parametrize("few", thinned([0, 10**6], every=2), ids=["on meshes", "one by one"])
@pytest.mark.parametrize("asked", QUESTIONS, ids=lambda asked: f"{asked['model']} {asked['on']}")
def test_the_division_is_the_best_of_all_that_were_tried(asked: dict[str, Any], few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "FEW", few)
    ask = ServeAsk(**asked, as_engine=True)
    answer, found = serving.answer_serving(ask, LIBRARY), LIBRARY.look_up(ask, "serve")
    prompt, output = lengths_of(ask, found.card.architecture.max_context)
    tried = divisions(found, float(prompt), float(output), float(prompt + output), asked)
    held = [(plan, ServingModel.of(found.subject, plan).memory()) for plan in tried]
    fitting = [plan for plan, memory in held if memory.needed.value <= memory.budget.value]
    if fitting:
        sure = [one for one in held if surely(one[1])]
        fast = {
            id(plan): float(serving_figures(found.subject, plan).figures["tokens_per_s"].value)
            for plan, memory in sure or held
            if memory.needed.value <= memory.budget.value
        }
        near = [plan for plan in tried if fast.get(id(plan), 0.0) >= 0.995 * max(fast.values())]
        best = min(near, key=lambda plan: (plan.parallel.pp, -fast[id(plan)]))
        why = f"most tokens a second of {len(fitting)} plans that fit"
    else:
        best = min(held, key=lambda one: float(one[1].needed.value))[0]
        why = f"least memory of {len(held)} plans, none of which fits"
    p = best.parallel
    assert answer.verdict.fits == bool(fitting)
    expected = {"tp": p.tp, "pp": p.pp, "dp": p.dp, "batch": best.batch * p.dp}
    assert {name: float(answer.question[name]) for name in expected} == expected
    assert {choice.reason for choice in answer.chosen if choice.name in ("tp", "pp")} <= {why}


@pytest.mark.parametrize("few", thinned([0, 10**6], every=2), ids=["on meshes", "one by one"])
@pytest.mark.parametrize("asked", QUESTIONS, ids=lambda asked: f"{asked['model']} {asked['on']}")
def test_fit_takes_the_smallest_replicas_that_fit(asked: dict[str, Any], few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "FEW", few)
    ask = FitAsk(**asked)
    answer, found = serving.answer_fit(ask, LIBRARY), LIBRARY.look_up(ask, "serve", with_price=False)
    context = float(answer.question["context"])
    # One sequence for all replicas together: each has room for it, and it is shared by one replica at most.
    batch = asked.get("batch", 1)
    tried = divisions(found, context - 1, 1.0, context, {**asked, "batch": batch}, queues=False)
    held = [(plan, ServingModel.of(found.subject, plan).memory()) for plan in tried]
    fitting = [plan for plan, memory in held if memory.needed.value <= memory.budget.value]
    sure = [plan for plan, memory in held if surely(memory)]
    best = (sure or fitting)[0] if fitting else min(held, key=lambda one: float(one[1].needed.value))[0]
    assert answer.verdict.fits == bool(fitting)
    assert [float(answer.question[name]) for name in ("tp", "pp")] == [best.parallel.tp, best.parallel.pp]


def test_a_batch_that_no_replicas_can_share_evenly_is_rounded_up_for_each() -> None:
    answer = serving.answer_serving(ServeAsk(model="llama-3.1-8b", on="4xh100", batch=7, tp=2, pp=1), LIBRARY)
    assert [answer.question[name] for name in ("tp", "dp", "batch")] == ["2", "2", "8"]


def test_what_no_division_allows_is_said() -> None:
    with pytest.raises(PlanError) as error:
        serving.answer_serving(ServeAsk(model="llama-3.1-8b", on="8xh100", tp=3), LIBRARY)
    assert {problem.code for problem in error.value.problems} == {
        "plan.ranks",
        "plan.tp-heads",
        "plan.tp-kv-heads",
        "plan.tp-width",
    }


@pytest.mark.parametrize(
    ("model", "engine"),
    [("gpt-oss-120b", "vllm"), ("gpt-oss-120b", "sglang"), ("gpt-oss-120b", "tensorrt-llm"), ("deepseek-v2-lite", "vllm")],
)
def test_ways_to_share_experts_are_the_same_one_by_one_and_on_meshes(
    model: str, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = ServeAsk(model=model, on="2xh200", engine=engine, concurrency=64)
    found = []
    for few in (0, 10**6):
        monkeypatch.setattr(serving, "FEW", few)
        found.append(serving.settled(ask, LIBRARY))
    whole, single = found
    assert whole.plan == single.plan
    assert [one.reason for one in whole.chosen] == [one.reason for one in single.chosen]
