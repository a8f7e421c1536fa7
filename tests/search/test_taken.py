"""Every kind of question says what it does not take in one way, and names no option that there is not."""

from __future__ import annotations

from typing import Any

import pytest

from gpuplan.errors import UsageError
from gpuplan.plan.ask_serving import FitAsk, ServeAsk
from gpuplan.plan.common import Common
from gpuplan.plan.option import entries
from gpuplan.search.taken import KINDS, refuse


@pytest.mark.parametrize("kind", KINDS)
def test_the_table_names_options_that_there_are(kind: str) -> None:
    made, every = KINDS[kind], entries(ServeAsk)
    assert {*made.options, *made.ones, *made.hints} <= set(every)
    assert set(made.panels) <= {entry.option.panel for entry in every.values()}
    assert set(made.hints) <= set(made.options)


@pytest.mark.parametrize(
    ("kind", "given", "said"),
    [
        ("unlike", {"tp": 2, "rate": 1.0, "pins": {"hw.x": 1.0}}, ["--rate, --tp, --set: not where unlike"]),
        ("pair", {"dp": 2, "host_weights": 1}, ["--dp: not with workers of two kinds", "--host-weights: not with workers"]),
        ("steady pair", {"seed": 1, "cached_share": 0.5}, ["--cached-share, --seed: not with workers of two kinds that are not"]),
        ("pictures", {"tp": 2}, ["--tp: not of a diffusion model"]),
    ],
)
def test_all_that_is_not_taken_is_said_at_once(kind: str, given: dict[str, Any], said: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        refuse(ServeAsk(model="x", on="h100", **given), kind)
    assert len(caught.value.problems) == len(said)
    assert all(one in problem.message for one, problem in zip(said, caught.value.problems, strict=True))
    assert all(problem.hint for problem in caught.value.problems)


def test_what_is_taken_passes() -> None:
    refuse(ServeAsk(model="x", on="h100", tp=1, batch=3), "unlike")
    refuse(ServeAsk(model="x", on="h100", rate=1.0, pins={"hw.x": 1.0}), "pair")
    refuse(FitAsk(model="x", on="h100", context=5), "pictures")
    with pytest.raises(UsageError, match="--context: not of a diffusion model"):
        refuse(FitAsk(model="x", on="h100", context=5), "pictures", but=frozenset({*Common.field_names(), "task"}))
