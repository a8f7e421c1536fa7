"""Percentiles of fleets: the quick way says what the whole answer says, misses nothing, and asks little."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

import pytest

from gpuplan.errors import InfeasibleError, UsageError
from gpuplan.estimate.carried import Carried
from gpuplan.estimate.planned import Planned
from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.planner import serve_percentiles
from gpuplan.planner.ask import planned
from gpuplan.planner.promise import Promise
from gpuplan.planner.serve import ranked
from gpuplan.planner.serve_percentiles import Percentiles, Rehearsals
from gpuplan.search.library import Library
from gpuplan.search.rehearsal import Rehearsal
from gpuplan.search.serving import answer_serving

ASKED: Mapping[str, Any] = {
    "model": "qwen2.5-0.5b", "rate": "300/s", "prompt": "512", "output": "64", "prompt_spread": "1", "output_spread": "1",
    "ttft": "120ms", "tpot": "8ms", "p": "99", "lowest_bits": "16",
}  # fmt: skip


TIMES = ("ttft", "tpot", "e2e")


@pytest.mark.parametrize(
    ("plan", "times"),
    [
        ({"tp": 1, "dp": 2}, TIMES),
        ({"tp": 2, "dp": 1}, TIMES[1:] + TIMES[:1]),
        ({"tp": 1, "pp": 2, "dp": 1}, TIMES[2:] + TIMES[:2]),
    ],
)
def test_a_plan_whose_tables_are_kept_says_what_the_whole_answer_says(plan: Mapping[str, Any], times: tuple[str, ...]) -> None:
    """Each plan at each rate, of one time: the plans together ask of every time at every rate.

    What is kept is told of each time apart (tests/load/test_kept.py has them all at one load).
    """
    library = Library.shared((), calibrated=False)
    ask = ServeAsk(
        model="qwen2.5-0.5b", on="2xl4", prompt=512, output=64, prompt_spread=1.0, output_spread=1.0, rate=1.0, simulate=True,
        **plan,
    )  # fmt: skip
    one = Rehearsal(ask, library)
    for rate, name in zip((2.0, 20.0, 60.0), times, strict=True):
        whole = answer_serving(ask.replaced(rate=rate), library)
        kept = []
        for part in (0.99, 1.01):
            most = part * float(whole.figures[f"{name}_p95_s"].value)
            kept.append(one.keeps(ask.replaced(rate=rate), {name: most}, 95))
            assert kept[-1] == serve_percentiles.keeps(whole, Promise(**{name: most}, percent=95.0))
        assert kept == [False, True]


def test_what_a_percentile_would_have_to_be_is_told_of_each_time() -> None:
    asked = {"model": "qwen2.5-0.5b", "on": "lambda:gpu_1x_a10", "rate": "3/s", "p": "99"}
    found = planned("plan serve", {**asked, "ttft": "1ms", "tpot": "1us"})
    assert isinstance(found, Planned)
    assert not found.best
    assert [one.limit.figure for one in found.relax] == ["ttft_p99_s", "tpot_p99_s"]
    assert all(one.needs > one.limit.most for one in found.relax)


def test_what_is_kept_in_the_mean_alone_is_said_to_be() -> None:
    with pytest.raises(InfeasibleError, match="it is kept in the mean, but not for 99 in 100"):
        planned("plan serve", {"model": "llama-3.1-8b", "on": "lambda:gpu_1x_a10", "rate": "1/s", "p": "99", "ttft": "230ms"})


@pytest.mark.slow
def test_no_division_that_was_left_out_takes_less(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Percentiles] = []
    go = Percentiles.go

    def watched(self: Percentiles, shown: int) -> Any:
        made.append(self)
        return go(self, shown)

    monkeypatch.setattr(Percentiles, "go", watched)
    found = planned("plan serve", {**ASKED, "on": "lambda:gpu_1x_a10,aws:g6.12xlarge"})
    assert isinstance(found, Planned)
    (one,) = made
    best = {each.option.machine.name: each.usd_per_month for each in ranked(one.found.values())}
    compared = 0
    for division in one.search.divisions:
        parts = division.fleet.parts
        while parts < 12 and not one._keeps(division, parts):
            parts += 1
        if parts < 12:
            compared += 1
            assert one._with(division, parts).usd_per_month >= best[division.option.machine.name] * (1 - 1e-9)
    assert compared > len(best) > 1


def test_a_mixture_of_experts_with_many_divisions_takes_few_simulations(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[ServeAsk] = []
    kept = Rehearsals.kept

    def counted(self: Rehearsals, ask: ServeAsk, promise: Promise) -> Any:
        asked.append(ask)
        return kept(self, ask, promise)

    monkeypatch.setattr(Rehearsals, "kept", counted)
    given = {"model": "deepseek-v3", "on": "hotaisle:8x-mi300x,civo:gpu-h200-sxm-xlarge", "rate": "2.4/s", "prompt": "1338"}
    found = planned("plan serve", {**given, "output": "223", "prompt_spread": "1.46", "output_spread": "1.11", "p": "99"})
    assert isinstance(found, Planned)
    assert len(found.best) == 2
    assert len(asked) <= 12


def most_of(**given: str) -> dict[str, float]:
    found = planned(
        "plan carries", {"model": "qwen2.5-0.5b", "on": "2xl4", "ttft": "150ms", "tpot": "8ms", "prompt": "512", **given}
    )
    assert isinstance(found, Carried)
    return {one.figure: one.value for one in found.most}


def test_a_fleet_carries_less_for_99_in_100_and_no_division_more() -> None:
    mean, most = most_of(), most_of(p="99")
    assert 0 < most["rate_per_s"] < mean["rate_per_s"]
    assert 0 < most["requests_in_flight"] <= mean["requests_in_flight"]
    library, promise = Library.shared((), calibrated=False), Promise(ttft=0.15, tpot=0.008, percent=99)
    kept = []
    for weights, tp in product((None, "fp8"), (1, 2)):
        division: Mapping[str, Any] = {"weights": weights, "tp": tp, "pp": 1, "dp": 2 // tp}
        ask = ServeAsk(model="qwen2.5-0.5b", on="2xl4", prompt=512, simulate=True, **division)
        for part in (0.999, 1.04):
            whole = answer_serving(ask.replaced(rate=part * most["rate_per_s"]), library)
            kept.append((part, serve_percentiles.keeps(whole, promise)))
    assert (0.999, True) in kept
    assert (1.04, True) not in kept


@pytest.mark.parametrize(("given", "said"), [({"p": "97"}, "--p 97"), ({"model": "any", "p": "99"}, "the mean is told")], ids=str)
def test_percentiles_that_are_not_told_are_refused(given: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        planned("plan carries", {"model": "qwen2.5-0.5b", "on": "l4", **given})


def test_a_promise_that_no_load_keeps_for_99_in_100_is_said() -> None:
    given = {"model": "qwen2.5-0.5b", "on": "l4", "prompt": "512", "ttft": "40ms", "p": "99", "prompt_spread": "3"}
    found = planned("plan carries", given)
    assert isinstance(found, Carried)
    assert not found.most
    assert any("kept in the mean, but by no load for 99 in 100" in note.text for note in found.notes)
