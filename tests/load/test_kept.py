"""A simulation that ends as soon as a promise is certainly broken says what the percentiles of a whole one say."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from gpuplan.load.kept import keeps
from gpuplan.load.pace import OneRank
from gpuplan.load.requests import Lengths, Requests, closed, open_loop
from gpuplan.load.rules import Rules
from gpuplan.load.service import Service
from gpuplan.load.simulate import Fleet, simulate
from tests.load.test_simulate import lines

PARTS = {"ttft": "ttft", "tpot": "tpot", "e2e": "end_to_end"}
RULES = Rules(tokens=512, sequences=16, mixes=True, cuts=True, reserves_output=False, pages=400, page_tokens=16)


def loads() -> Iterator[tuple[Requests, int]]:
    """Requests, and the first that is told."""
    prompt, output = Lengths.lognormal(300, cv=1.0), Lengths.lognormal(40, cv=1.0)
    for rate in (0.5, 4.0, 12.0, 60.0):
        yield open_loop(rate, 400, prompt, output, seed=3), 40
    yield closed(24, 400, prompt, output, seed=3), 200


@pytest.mark.parametrize("percent", [90, 95, 99])
@pytest.mark.parametrize("name", list(PARTS))
def test_it_says_what_the_percentiles_say(name: str, percent: int) -> None:
    service = Service(pace=OneRank(lines()), rules=RULES)
    for asked, told in loads():
        made: Any = simulate(asked, service, steady_from=told)
        value = getattr(getattr(made, PARTS[name]), f"p{percent}")
        for part in (0.5, 0.97, 1.0, 1.03, 2.0):
            kept = keeps(asked, service, {name: part * value}, percent, steady_from=told)
            assert kept == (part >= 1.0 and made.keeps_up)


def test_it_ends_long_before_the_last_request_where_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = open_loop(60.0, 2000, Lengths(mean=300), Lengths(mean=40))
    answered: list[int] = []
    run = Fleet.run

    def counted(self: Fleet, enough: Any = None) -> bool:
        def both(done: Any) -> bool:
            answered.extend(done)
            return bool(enough(done))

        return run(self, both)

    monkeypatch.setattr(Fleet, "run", counted)
    assert not keeps(asked, Service(pace=OneRank(lines()), rules=RULES), {"ttft": 0.05}, 99)
    assert len(answered) < 200
