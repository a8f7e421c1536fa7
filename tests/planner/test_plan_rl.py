"""Is the machine that `plan rl` names the best of all, are its bounds bounds, and does it say what would have to give?"""

from __future__ import annotations

from typing import Any

import pytest

from gpuplan.cli.main import run as call
from gpuplan.errors import GpuplanError
from gpuplan.estimate.planned import Planned
from gpuplan.plan.ask import TrainAsk
from gpuplan.planner.ask import planned
from gpuplan.planner.rl import Search
from gpuplan.render.planned import as_json
from gpuplan.search.ask import train
from gpuplan.search.library import Library
from tests.sweeps import thinned

ASKED: dict[str, Any] = {
    "model": "qwen2.5-0.5b", "prompts": "32", "group_size": "8", "response_len": "512", "response_max": "2k", "steps": "10",
    "max_count": "8",
}  # fmt: skip
TOKENS = 10 * 32 * 8 * (1024 + 512.0)


@pytest.fixture(scope="module")
def library() -> Library:
    return Library.shared()


def found(**given: str) -> Planned:
    made = planned("plan rl", ASKED | given)
    assert isinstance(made, Planned)
    return made


def brute(library: Library, targets: list[str], **given: Any) -> dict[str, float]:
    """Seconds of the run on every machine on which it fits."""
    made: dict[str, float] = {}
    for on in targets:
        ask = TrainAsk(model="qwen2.5-0.5b", on=on, rl="grpo", prompts=32, group_size=8, response_len=512, response_max=2048,
                       tokens=TOKENS, **given)  # fmt: skip
        try:
            answer = train(ask, advise=False, library=library)
        except GpuplanError:
            continue
        if answer.verdict.fits:
            made[on] = float(answer.figures["wall_time_s"].value)
    return made


@pytest.mark.parametrize("given", thinned([{"staleness": 2}, {}], every=2), ids=["older", "in turn"])
def test_the_best_is_that_of_all(library: Library, given: dict[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    bounds: dict[str, float] = {}
    sharper = Search._sharper

    def kept(self: Search, one: Any) -> Any:
        made = sharper(self, one)
        bounds[made.target] = made.least_seconds
        return made

    monkeypatch.setattr(Search, "_sharper", kept)
    targets = ["2xl40s", "4xl40s", "4xa100-sxm-40gb"]
    made = found(on=",".join(targets), minimize="time", **{key: str(one) for key, one in given.items()})
    every = brute(library, targets, **given)
    assert made.best[0].figures["wall_time_s"] == min(every.values())
    assert len(every) > 2
    assert bounds.keys() & every.keys()
    for name in bounds.keys() & every.keys():
        assert 0.1 * every[name] < bounds[name] <= every[name]


def test_machines_that_differ_in_price_alone_are_answered_once() -> None:
    made = found(on="l40s", max_count="1", best="20")
    assert made.looked.plans < made.looked.estimated
    for one in made.best:
        assert one.offering.price is not None
        price = float(one.offering.price.value)
        assert one.figures["cost_usd"] == pytest.approx(price * one.figures["accelerator_time_s"])
        assert one.estimate.question["on"] == one.offering.target


@pytest.mark.slow  # tests/planner/test_jobs.py has it of the other plans
def test_several_processes_say_the_same() -> None:
    on = "2xl40s,4xl40s"
    assert as_json(found(on=on, jobs="2", minimize="cost")) == as_json(found(on=on, minimize="cost"))


def test_what_would_have_to_give(capsys: pytest.CaptureFixture[str]) -> None:
    made = found(on="2xl40s", deadline="1min", minimize="time")
    assert not made.reached
    ((relax),) = made.relax
    assert relax.needs > 60
    words = ["plan", "rl", "qwen2.5-0.5b", "--on", "2xl40s", "--steps", "10", "--deadline", "1min", "--minimize", "time"]
    assert call(words) == 3
    assert "--deadline 60.0 s would have to be" in capsys.readouterr().out


def test_its_command_asks_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    made = found(on="4xa100-sxm-40gb", minimize="time", staleness="1")
    assert call([*made.command.split()[1:], "--require", f"wall_time_s == {made.best[0].figures['wall_time_s']!r}"]) == 0
    capsys.readouterr()
    assert call(["plan", "rl", "qwen2.5-0.5b", "--on", "4xa100-sxm-40gb", "--minimize", "time", "--staleness", "1", "--steps", "1",
                 "--prompts", "32", "--response-max", "8k"]) == 0  # fmt: skip
    out, err = capsys.readouterr()
    assert "generate" in out
    assert err == ""


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"steps": "10", "tokens": "1M"}, "--steps and --tokens both say how long the run is"),
        ({"model": "llama-3.1-405b", "on": "l40s"}, "does not fit"),
    ],
)
def test_what_cannot_be_is_said(given: dict[str, str], said: str) -> None:
    with pytest.raises(GpuplanError, match=said):
        found(**{"on": "l40s", "minimize": "time"} | given)


def test_a_length_that_nobody_gave_is_told() -> None:
    made = planned("plan rl", {key: one for key, one in ASKED.items() if key != "steps"} | {"on": "2xl40s", "minimize": "time"})
    assert "1,000 steps are taken" in next(note.text for note in made.notes if note.code == "plan.steps")


def test_what_is_left_open_is_told_as_the_single_answers_have_it() -> None:
    """Older responses, each with what it saves on the best machine; and nothing of what the question fixes, as it does prompts."""
    made = found(on="4xl40s", minimize="time")
    told = {one.instead: one.at for one in made.flips if "learns" in one.what}
    assert set(told) <= {"--staleness 1", "--staleness 2"}
    assert told
    for option, part in told.items():
        run = TrainAsk(
            model="qwen2.5-0.5b", on="4xl40s", rl="grpo", tokens=TOKENS, prompts=32, group_size=8, response_len=512,
            response_max=2048, staleness=int(option.split()[1]),
        )  # fmt: skip
        alone = float(train(run, advise=False, library=Library.shared()).figures["wall_time_s"].value)
        assert part == pytest.approx(alone / made.best[0].figures["wall_time_s"], rel=1e-9)
        assert part < 1
    assert not any("learns" in one.what for one in found(on="4xl40s", minimize="time", staleness="0").flips)
