"""A search on many machines at once finds on each what a search on it alone finds, however few are estimated together."""

from __future__ import annotations

from collections.abc import Hashable

import pytest

from gpuplan.estimate.subject import Subject
from gpuplan.plan.ask import TrainAsk
from gpuplan.plan.train import TrainPlan
from gpuplan.search import best_on_each as each
from gpuplan.search.best import Best, only
from gpuplan.search.space import Space
from gpuplan.search.training import space_of
from tests.estimate.subjects import library

EIGHT = (
    "8xh100-sxm-80gb",
    "dgx-h200",
    "dgx-a100-640gb",
    "hgx-h20-8",
    "8xl40s",
    "mi300x-8",
    "gaudi3-8",
    "dgx-1-v100-32gb",
    "8xt4",
)


def cases(model: str, **given: object) -> list[tuple[Subject, Space[TrainPlan]]]:
    made = []
    for on in EIGHT:
        ask = TrainAsk(model=model, on=on, engine="megatron-lm", precision="bf16", global_batch=64, **given)  # type: ignore[arg-type]
        found = library().look_up(ask, "train", with_price=False)
        made.append((found.subject, space_of(ask, found)[0]))
    return made


ALONE: dict[Hashable, Best[TrainPlan] | None] = {}
"""The best plan of each search alone, which is the same however many machines are looked at together elsewhere."""


def best_alone(subject: Subject, space: Space[TrainPlan]) -> Best[TrainPlan] | None:
    place = each.place_of(subject, space)
    if place not in ALONE:
        ALONE[place] = each.best_plan(subject, space)
    return ALONE[place]


@pytest.mark.parametrize("model", ["mixtral-8x7b", pytest.param("llama-3.1-8b", marks=pytest.mark.slow)])
@pytest.mark.parametrize("together", [pytest.param(1, marks=pytest.mark.slow), each.TOGETHER])
def test_the_best_plan_on_each_machine_is_that_of_a_search_on_it_alone(
    model: str, together: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(each, "TOGETHER", together)
    asked = cases(model)
    found = each.best_on_each(asked)
    known = [(subject, space) for subject, space in asked if each.place_of(subject, space) in found]
    lacking = {subject.hw.family for subject, _ in asked} - {subject.hw.family for subject, _ in known}
    assert lacking == {"volta", "turing"}  # They multiply no bf16.
    for subject, space in known:
        alone, here = best_alone(subject, space), found[each.place_of(subject, space)]
        assert alone is not None
        assert (here.plan, here.fits, here.looked_at, here.fitting) == (alone.plan, alone.fits, alone.looked_at, alone.fitting)
        assert here.keys == pytest.approx(alone.keys, rel=1e-12)


def test_the_only_plan_is_found_once_for_all_machines() -> None:
    asked = cases("llama-3.1-8b", tp=1, pp=1, cp=1, vpp=1, micro_batch=2, recompute="full")
    found = each.best_on_each(asked)
    for subject, space in asked:
        here = found[each.place_of(subject, space)]
        assert (here.plan, here.looked_at) == (only(space), 1)


def test_machines_that_no_plan_tells_apart_are_searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    for on in ("lambda:gpu_8x_h100_sxm5", "runpod:8x_H100-SXM_SECURE", "8xl40s"):
        ask = TrainAsk(model="llama-3.1-8b", on=on, engine="megatron-lm", precision="bf16", global_batch=64)
        found = library().look_up(ask, "train", with_price=False)
        asked.append((found.subject, space_of(ask, found)[0]))
    memories = [subject.hw.host_memory for subject, _ in asked[:2]]
    assert memories[0] is None or memories[1] is None or memories[0].value != memories[1].value
    keys = [[subject.hw.as_plans_see(hosts=hosts) for subject, _ in asked] for hosts in (False, True)]
    assert [len(set(one)) for one in keys] == [2, 3]
    searched: list[int] = []
    plain = each._searched
    monkeypatch.setattr(each, "_searched", lambda subjects, space: searched.append(len(subjects)) or plain(subjects, space))
    found = each.best_on_each(asked)
    assert searched == [2]
    first, second = (found[each.place_of(subject, space)] for subject, space in asked[:2])
    assert first is second
