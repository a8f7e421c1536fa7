"""Many machines at once and one machine alone are the same estimate: every figure, to its last digit, with the same explanation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from math import isclose
from typing import Any

import numpy as np
import pytest

from gpuplan.errors import GpuplanError, UnknownError
from gpuplan.estimate.long_run import NEVER, Run
from gpuplan.estimate.on_machines import OnMachines, on_machines
from gpuplan.estimate.serving_figures import serving_figures
from gpuplan.estimate.subject import Subject, WorkSubject
from gpuplan.estimate.training import Works, step_pricer, step_work, training_figures
from gpuplan.machine.hardware import Hardware
from gpuplan.machine.machines import Machines
from gpuplan.num import Apart, agreed
from gpuplan.plan.train import Manner, Saving
from gpuplan.specs.engine import Engine
from gpuplan.specs.instance import InstanceFamily
from gpuplan.specs.operations import Operations
from gpuplan.term import Source, Term, walk_of
from tests.estimate.subjects import library, serve_plan, subject, train_plan

MODEL = "llama-3.1-8b"
TOLD = ("step_time_s", "mfu", "peak_memory_bytes", "tpot_s", "ttft_s", "cost_usd")
"""Figures of which all that is below them is compared."""
EVERY = 23
"""One target of so many is in the sample."""


@cache
def targets() -> tuple[str, ...]:
    """Every accelerator, system and instance of the catalog."""
    catalog = library().catalog
    names = [*catalog.paths("accelerators"), *catalog.paths("systems")]
    for path in catalog.paths("instances").values():
        names += [f"{path.parent.name}:{one.name}" for one in catalog.read(InstanceFamily, path).instances]
    return tuple(names)


def placed(names: Sequence[str], engine: str, model: str = MODEL) -> dict[str, Subject]:
    """The model with an engine on each target, as far as the catalog knows that."""
    about, profile = subject(model), library().catalog.load(Engine, engine)
    found = {}
    for name in names:
        try:
            found[name] = about.replaced(hw=library().machine(name, profile), engine=profile)
        except UnknownError:
            continue
    return found


def assert_alike(about: Mapping[str, Subject], plans: Sequence[Any], estimate: Callable[..., Any], many: OnMachines[Any]) -> None:
    """The very terms of each machine alone, names and sources included, and arrays that hold the same numbers."""
    places = many.places()
    assert len(places) + len(many.refused) == len(about)
    for at, (name, one) in enumerate(about.items()):
        alone = answer(lambda one=one, at=at: estimate(one, plans[at]))
        if isinstance(alone, GpuplanError):
            assert (str(many.refused[at]), many.refused[at].exit_code) == (str(alone), alone.exit_code), name
            continue
        group, index = places[at]
        here = group.at(index)
        assert list(here.figures) == list(alone.figures), name
        for key, term in alone.figures.items():
            value = np.broadcast_to(group.made.figures[key].value, len(group.places))[index]
            assert isclose(value, term.value, rel_tol=1e-12, abs_tol=1e-300), (name, key)
        keys = [key for key in TOLD if key in alone.figures]
        assert told(here.figures[key] for key in keys) == told(alone.figures[key] for key in keys), name


def answer(make: Callable[[], Any]) -> Any:
    try:
        return make()
    except GpuplanError as error:
        return error


def told(terms: Iterable[Term]) -> list[tuple[str, float, str, Source, object]]:
    """All that is below some terms, each once."""
    return [(one.name, float(one.value), one.unit, one.source, one.spread) for one in walk_of(tuple(terms))]


def plans_of(about: Mapping[str, Subject], make: Callable[[int], Any]) -> list[Any]:
    return [make(int(one.hw.count)) for one in about.values()]


@pytest.mark.slow
def test_every_target_of_the_catalog_is_as_it_is_alone() -> None:
    about = placed(targets(), "megatron-lm")
    plans: list[Any] = plans_of(about, lambda ranks: train_plan(dp=float(ranks), global_batch=4.0 * ranks))
    assert_alike(about, plans, training_figures, on_machines(list(about.values()), plans, training_figures))
    about = placed(targets(), "vllm")
    plans = plans_of(about, lambda ranks: serve_plan(dp=float(ranks), batch=8.0))
    assert_alike(about, plans, serving_figures, on_machines(list(about.values()), plans, serving_figures))


@pytest.mark.parametrize(
    ("engine", "given"),
    [
        ("fsdp", {"zero_stage": 3, "recompute": "full"}),
        ("maxtext", {"recompute": "save_dot_except_mlp"}),
        ("deepspeed", {"zero_stage": 2, "saving": Saving(offload=("optimizer",))}),
        ("torchtitan", {"recompute": "selective-op", "how": Manner(compiled=True)}),
    ],
)
def test_a_training_estimate_on_many_machines_is_that_of_each(engine: str, given: dict[str, Any]) -> None:
    about = placed(targets()[::EVERY], engine)
    plans = plans_of(about, lambda ranks: train_plan(dp=float(ranks), global_batch=4.0 * ranks, **given))
    works, run = Works(), Run(tokens=1e12)
    many = on_machines(list(about.values()), plans, lambda one, plan: training_figures(one, plan, run, works=works))
    assert len(many.groups) < len(about) / 2
    assert_alike(about, plans, lambda one, plan: training_figures(one, plan, run), many)


@pytest.mark.parametrize(("model", "engine"), [(MODEL, "tensorrt-llm"), ("deepseek-v3", "vllm")])
def test_a_serving_estimate_on_many_machines_is_that_of_each(model: str, engine: str) -> None:
    about = placed(targets()[::EVERY], engine, model)
    plans = plans_of(about, lambda ranks: serve_plan(tp=1.0, dp=float(ranks), batch=8.0, weights="fp8"))
    many = on_machines(list(about.values()), plans, serving_figures)
    assert_alike(about, plans, serving_figures, many)


def test_prices_and_interruptions_follow_each_machine() -> None:
    operations = library().catalog.load(Operations, "usual")
    about = placed(["dgx-h100", "2xdgx-h100", "512xdgx-h100", "dgx-a100-640gb", "dgx-h200"], "megatron-lm")
    prices = [Term("hw.price", 2.0 + at, "USD/s", Source("user", f"offer {at}")) for at in range(len(about))]
    about = {
        name: one.replaced(price=price, operations=operations) for (name, one), price in zip(about.items(), prices, strict=True)
    }
    plans = plans_of(about, lambda ranks: train_plan(dp=float(ranks), global_batch=float(ranks)))
    for mtbf, ends in ((None, True), (3e6, False)):
        run = Run(tokens=1e12, accelerator_mtbf=mtbf)
        many = on_machines(list(about.values()), plans, lambda one, plan, run=run: training_figures(one, plan, run))
        assert_alike(about, plans, lambda one, plan, run=run: training_figures(one, plan, run), many)
        # So often interrupted, the largest does not get on: what has no end stands beside what has one.
        assert ("cost_usd" in many.of(2).figures) is ends
        assert (NEVER in many.of(2).figures) is not ends
        assert "cost_usd" in many.of(0).figures


def test_what_is_not_known_is_an_error_of_each_and_no_number() -> None:
    about = placed(["h100-sxm-80gb", "t4", "v100-sxm2-32gb", "a100-sxm-80gb"], "megatron-lm")
    many = on_machines(list(about.values()), [train_plan()] * 4, training_figures)
    assert sorted(many.refused) == [1, 2]
    assert "NVIDIA T4 has no bf16 rate" in many.refused[1].problems[0].message
    with pytest.raises(UnknownError, match="V100"):
        many.of(2)


def test_work_is_made_once_and_of_no_machine() -> None:
    about, plan, works = subject(MODEL, "h100-sxm-80gb"), train_plan(), Works()
    without = WorkSubject(card=about.card, arch=about.arch, counts=about.counts, engine=about.engine, origins=about.origins)
    made = step_work(without, plan, kernel="flash")
    for on in ("h100-sxm-80gb", "mi300x"):
        pricer = step_pricer(about.replaced(hw=library().machine(on, about.engine)), plan, works)
        own = pricer.work.blocks["layer"]
        assert own.kept.value == made.work.blocks["layer"].kept.value
        assert own is works.step(about, plan, kernel="flash", remakes_attention=False).work.blocks["layer"]


def machines(*names: str) -> tuple[Hardware, ...]:
    engine = library().catalog.load(Engine, "megatron-lm")
    return tuple(library().machine(name, engine) for name in names)


def test_machines_have_one_answer_or_an_array_or_are_told_apart() -> None:
    both = Machines(machines("8xh100-sxm-80gb", "8xh200-sxm-141gb"))
    assert both.hbm_bandwidth.value == pytest.approx([3.35e12, 4.8e12], rel=0.01)
    assert both.hbm_bandwidth.at(1).source == both.members[1].hbm_bandwidth.source
    assert both.count == 8
    assert both.levels[0].topology == "switched"
    assert both.peak("bf16").value == both.members[0].peak("bf16").value  # One number where all have the same.
    assert both.under_load().parameter("matmul.bf16.settle").value == 1e-12
    with pytest.raises(Apart) as apart:
        _ = Machines((*both.members, *machines("mi300x"))).levels
    assert apart.value.kinds == [0, 0, 1]
    with pytest.raises(Apart) as apart:
        Machines(machines("h100-sxm-80gb", "t4")).peak("bf16")
    assert apart.value.kinds == [False, True]


def test_a_choice_that_candidates_do_not_share_tells_them_apart() -> None:
    assert agreed(np.array([1.0, 2.0]) > 0)
    with pytest.raises(Apart) as apart:
        agreed(np.array([1.0, 2.0, 3.0]) > 1.5)
    assert apart.value.kinds == [False, True, True]
