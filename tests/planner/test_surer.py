"""Where the fleet of least cost may break its promise, the answer names the machine that a cautious buyer would take."""

from __future__ import annotations

from itertools import pairwise

from gpuplan.estimate.planned import Planned
from gpuplan.planner.ask import planned
from gpuplan.planner.surer import doubt, said_of, surer
from gpuplan.search.training_space import UNSURE

COST = "cost_usd_per_month"


def asked(**given: object) -> Planned:
    made = planned("plan serve", {"model": "llama-3.1-8b", "rate": "10/s", "ttft": "500ms", **given})
    assert isinstance(made, Planned)
    return made


def test_a_tighter_promise_is_more_doubtful() -> None:
    best = asked(tpot="60ms", on="h100,a100-80gb,l40s").best
    limits = [asked(tpot=tpot, on="h100").limits for tpot in ("500ms", "60ms", "40ms", "20ms")]
    doubts = [doubt(best[0], one) for one in limits]
    assert all(before <= after for before, after in pairwise(doubts))
    assert all(0 <= one <= 1 for one in doubts)
    assert doubt(best[0], []) == 0


def test_the_surer_machine_costs_less_with_its_doubts_weighed() -> None:
    for tpot in ("25ms", "35ms", "60ms"):
        made = asked(tpot=tpot, any=True)
        times = [limit for limit in made.limits if limit.figure != COST]
        found = surer(made.best, COST, times)
        told = [note for note in made.notes if note.code == "plan.narrowly"]
        if found is None:
            assert not any("keeps it" in note.hint for note in told)
            continue
        first = made.best[0]
        weighed = {one.offering.target: one.figures[COST] * (1 + UNSURE * doubt(one, times)) for one in made.best}
        assert found.offering.target == min(weighed, key=weighed.__getitem__) != first.offering.target
        assert doubt(found, times) < doubt(first, times)
        assert said_of(found, COST, times) in told[0].hint
