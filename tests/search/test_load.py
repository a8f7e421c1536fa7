"""What a load is asked with: each contradiction has one message, and what is left open is chosen for the load."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpuplan.errors import UsageError
from gpuplan.estimate.result import Estimate
from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.plan.read import question
from gpuplan.search.library import Library
from gpuplan.search.load import load_of
from gpuplan.search.serving import answer_serving, settled
from gpuplan.search.serving_judges import KEPT

ASKED: dict[str, Any] = {"model": "llama-3.1-8b", "on": "h100", "prompt": 1024, "output": 256}


@pytest.fixture(scope="module")
def library() -> Library:
    return Library.of(ServeAsk(model="", on=""))


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ({"batch": 4, "concurrency": 4}, "load.batch"),
        ({"batch": 4, "rate": 4.0}, "load.batch"),
        ({"concurrency": 4, "rate": 4.0}, "load.twice"),
        ({"requests": 40}, "load.nothing"),
        ({"cached_share": 0.5}, "load.nothing"),
        ({"arrival": "closed"}, "load.nothing"),
        ({"arrival": "closed", "rate": 4.0}, "load.closed"),
        ({"arrival": "poisson", "concurrency": 4}, "load.poisson"),
        ({"arrival": "burst"}, "load.burst"),
        ({"arrival": "burst", "requests": 4, "concurrency": 4}, "load.burst"),
        ({"simulate": True}, "load.nothing"),
        ({"rate": 4.0, "engine": "gpt-fast"}, "load.no-schedule"),
        ({"rate": 4.0, "model": "bge-m3", "output": None, "requests": 40}, "load.reads"),
        ({"rate": 4.0, "model": "bge-m3", "output": None, "cached_share": 0.5}, "load.reads"),
        ({"arrival": "burst", "requests": 4, "model": "bge-m3", "output": None}, "load.reads"),
        ({"rate": 4.0, "model": "bge-m3", "output": None, "engine": "gpt-fast"}, "load.no-schedule"),
        ({"rate": 4.0, "host_weights": 2**30}, "load.host"),
        ({"rate": 4.0, "model": "llama-3.2-11b-vision", "images": 1}, "load.across"),
        ({"rate": 4.0, "beams": 4}, "load.beams"),
        ({"concurrency": 4, "simulate": True, "pins": {"decode.attention": 1e-3}}, "load.pins"),
    ],
    ids=str,
)
def test_one_message_for_each_contradiction(library: Library, said: dict[str, Any], code: str) -> None:
    with pytest.raises(UsageError) as caught:
        answer_serving(ServeAsk(**{**ASKED, **said}), library)
    assert [problem.code for problem in caught.value.problems] == [code]
    assert caught.value.problems[0].hint


@pytest.mark.parametrize("rate", ["0", "-1", "0/s", "five", "1e300", "5 kg"])
def test_a_rate_is_a_rate(rate: str) -> None:
    with pytest.raises(UsageError) as caught:
        question(ServeAsk, {**ASKED, "rate": rate})
    assert len(caught.value.problems) == 1
    assert ("out of range" in caught.value.problems[0].message) == (rate == "1e300")


@pytest.mark.parametrize(("text", "per_second"), [("5", 5.0), ("5/s", 5.0), ("300/min", 5.0), ("18000/h", 5.0), (5, 5.0)])
def test_rates_have_units(text: str | int, per_second: float) -> None:
    assert question(ServeAsk, {**ASKED, "rate": text}).rate == pytest.approx(per_second)


def test_no_more_users_than_requests() -> None:
    load = load_of(ServeAsk(**ASKED, concurrency=64, requests=10))
    assert load is not None
    assert load.concurrency == 10


def test_an_empty_trace(tmp_path: Path, library: Library) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n")
    with pytest.raises(UsageError) as caught:
        answer_serving(ServeAsk(model="llama-3.1-8b", on="h100", trace=str(path)), library)
    assert [problem.code for problem in caught.value.problems] == ["trace.empty"]
    with pytest.raises(UsageError) as caught:
        answer_serving(ServeAsk(model="llama-3.1-8b", on="h100", trace=str(path), rate=3.0, prompt=5), library)
    assert [problem.code for problem in caught.value.problems] == ["load.trace"]


def test_a_trace_is_answered(tmp_path: Path, library: Library) -> None:
    """Its means are the question, its longest request the context, and its bad rows are counted."""
    path = tmp_path / "trace.csv"
    rows = [f"{at},{200 + 100 * (at % 5)},{20 + at % 7}" for at in range(60)]
    path.write_text("\n".join(["time,prompt,output", *rows, "60,none,3"]) + "\n")
    made = answer_serving(ServeAsk(model="llama-3.1-8b", on="h100", trace=str(path)), library)
    assert made.question["prompt"] == "400"
    assert made.verdict.fits
    assert float(made.figures["requests_per_s"].value) == pytest.approx(60 / 59, rel=0.05)
    assert float(made.figures["ttft_p50_s"].value) <= float(made.figures["ttft_p99_s"].value)
    assert any(note.code == "trace.bad-rows" for note in made.notes)


@pytest.mark.parametrize("rate", [1.0, 15.0, 25.0, 1000.0])
def test_the_division_is_the_best_for_the_rate(library: Library, rate: float) -> None:
    """No division that is named is faster of those that surely keep the rate, nor keeps more where none does."""
    said = {**ASKED, "model": "llama-3.1-70b", "on": "8xh100", "rate": rate}
    chosen = answer_serving(ServeAsk(**said), library)
    surely = _surely_keeps(chosen)
    for tp, pp in ((2, 1), (4, 1), (8, 1), (2, 2), (4, 2), (2, 4), (1, 8)):
        other = answer_serving(ServeAsk(**said, tp=tp, pp=pp), library)
        if other.verdict.fits:
            assert chosen.verdict.fits
            own, others = (float(one.figures["e2e_s"].value) for one in (chosen, other))
            assert own <= others * (1 + 1e-9 if surely == _surely_keeps(other) or not surely else KEPT)
        elif other.verdict.overloaded and not chosen.verdict.fits:
            assert chosen.figures["highest_rate_per_s"].value >= other.figures["highest_rate_per_s"].value


def _surely_keeps(answer: Estimate) -> bool:
    """Whether requests wait a bounded time also at the low end of what is kept."""
    return all(note.code != "load.narrowly" for note in answer.notes)


def test_what_surely_keeps_the_rate_is_taken_before_what_may_not(library: Library) -> None:
    """DeepSeek-V3 at five requests a second: tensor parallelism over eight answers sooner if it keeps up, which is not sure."""
    said = {**ASKED, "model": "deepseek-v3", "on": "8xh200", "rate": 5.0, "prompt": 2000, "output": 500}
    chosen, faster = answer_serving(ServeAsk(**said), library), answer_serving(ServeAsk(**said, tp=8), library)
    assert _surely_keeps(chosen)
    assert not _surely_keeps(faster)
    assert chosen.figures["e2e_s"].value > faster.figures["e2e_s"].value
    assert "surer, within" in " ".join(choice.reason for choice in chosen.chosen)


def test_users_need_not_be_shared_evenly(library: Library) -> None:
    """101 users leave every division open, and those of one replica get their part."""
    found = settled(ServeAsk(**{**ASKED, "on": "8xh100", "concurrency": 101}), library)
    assert float(found.plan.parallel.dp) > 1


def test_what_fits_narrowly_tells_times_as_they_are_if_it_fits(library: Library) -> None:
    made = answer_serving(ServeAsk(model="gpt-oss-120b", on="1xh100", concurrency=64, prompt=1024, output=256), library)
    assert made.verdict.narrowly
    assert made.ranges["max_sequences"][0] < 1, "it may not fit"
    low, high = made.ranges["ttft_s"]
    assert high < 10 * low
    assert any(note.code == "load.if-fits" for note in made.notes)
