"""The user's own values act before anything is chosen, and whatever figure is given, the others agree with it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gpuplan.errors import GpuplanError
from gpuplan.estimate.pins import SHARES
from gpuplan.estimate.result import Estimate
from gpuplan.physics import most_of
from gpuplan.search.ask import answered
from tests.sweeps import thinned

SERVE = {"model": "llama-3.1-8b", "on": "h100", "prompt": 2000, "output": 300}
TRAIN = {"model": "llama-3.1-8b", "on": "8xh100", "tokens": 1e12}


def value(made: Estimate, key: str) -> float:
    return float(made.figures[key].value)  # type: ignore[arg-type]


def ask(given: dict[str, object], task: str = "serve", **pins: str) -> Estimate:
    return answered(task, {**given, "set": [f"{name}={text}" for name, text in pins.items()]}, advise=False)


@pytest.mark.parametrize(("pin", "batch"), [("16", 16), ("1", 1), ("0", 1)])
def test_the_engine_runs_no_more_sequences_than_the_user_says(pin: str, batch: int) -> None:
    assert ask(SERVE, **{"engine.max_sequences": pin}).question["batch"] == str(batch)


@pytest.mark.parametrize(
    ("on", "pins"),
    [
        ("h100", {"engine.memory_utilization": "0.5"}),
        ("h100", {"hw.memory_capacity": "40 GiB"}),
        ("l40s", {"hw.memory_capacity": "40 GiB"}),
        ("h100", {"engine.context": "20 GiB"}),
        ("h100", {"memory.activations": "30 GiB"}),
        ("h100", {"cache.sequence": "2 GiB"}),
        ("4xl4", {"hw.memory_capacity": "20 GiB"}),
    ],
)
def test_the_batch_is_what_fits_with_the_values_of_the_user(on: str, pins: dict[str, str]) -> None:
    made = ask({**SERVE, "on": on}, **pins)
    free = ask({**SERVE, "on": on})
    assert made.verdict.fits
    assert value(made, "peak_memory_bytes") <= value(made, "memory_budget_bytes")
    assert int(made.question["batch"]) < int(free.question["batch"])
    more = answered(
        "serve",
        {**SERVE, "on": on, "tp": int(made.question["tp"]), "batch": int(made.question["batch"]) + int(made.question["dp"]),
         "set": [f"{name}={text}" for name, text in pins.items()]},
        advise=False,
    )  # fmt: skip
    assert value(more, "tokens_per_s") <= value(made, "tokens_per_s") * 1.005


def test_a_training_plan_is_chosen_for_the_memory_that_the_user_says() -> None:
    made = ask(TRAIN, "train", **{"hw.memory_capacity": "40 GiB"})
    assert made.verdict.fits
    assert value(made, "peak_memory_bytes") <= 40 * 2**30


@pytest.mark.parametrize("pin", [{"engine.serving_reserve": "1"}, {"plan.batch": "3"}, {"hw.memory_capacity": "-1 GiB"}])
def test_what_is_no_input_is_refused(pin: dict[str, str]) -> None:
    with pytest.raises(GpuplanError):
        ask(SERVE, **pin)


def agree(made: Estimate) -> Iterator[str]:
    """What of an answer to a training question contradicts the rest of it."""
    now = {key: float(term.value) for key, term in made.figures.items()}  # type: ignore[arg-type]
    step, chips = now["step_time_s"], 8.0
    pairs = {
        "tokens_per_s": (now["tokens_per_s"] * step, now["tokens_per_step"]),
        "tokens_per_s_per_accelerator": (now["tokens_per_s_per_accelerator"] * chips, now["tokens_per_s"]),
        "hfu": (now["hfu"] / now["mfu"], 1.0 if made.question["recompute"] == "none" else now["hfu"] / now["mfu"]),
        "run_time_s": (now["run_time_s"] * now["tokens_per_s"], 1e12),
        "accelerator_time_s": (now["accelerator_time_s"], chips * now["wall_time_s"]),
        "effective_training_share": (now["effective_training_share"] * now["wall_time_s"], now["run_time_s"]),
    }
    yield from (key for key, (one, other) in pairs.items() if abs(one / other - 1) > 1e-6)
    yield from (key for key in SHARES if now.get(key, 0.0) > most_of(key, now) + 1e-9)
    for breakdown in made.breakdowns:
        parts = sum(float(part.value) for part in breakdown.parts)  # type: ignore[arg-type]
        if abs(parts / float(breakdown.total.value) - 1) > 1e-9:  # type: ignore[arg-type]
            yield breakdown.title


SETTLED = {**TRAIN, "tp": 1, "pp": 1, "cp": 1, "zero_stage": 3, "micro_batch": 1, "recompute": "full"}
FREE = ask(SETTLED, "train")


@pytest.mark.parametrize("factor", thinned([0.7, 1.2, 1e-3, 1e3], every=4))
@pytest.mark.parametrize("key", [*FREE.figures])
def test_every_figure_is_agreed_with_or_refused(key: str, factor: float) -> None:
    """Whatever figure the user gives, by its key or its term: no other contradicts it, or it is refused with a hint."""
    wanted = value(FREE, key) * factor
    for name in {key, FREE.figures[key].name}:
        try:
            made = answered("train", {**SETTLED, "set": {name: wanted}}, advise=False)
        except GpuplanError as error:
            assert all(problem.hint for problem in error.problems)  # noqa: PT017
            continue
        assert value(made, key) == pytest.approx(wanted, rel=1e-6)
        assert [*agree(made)] == []


def test_a_rate_is_answered_by_the_pace_that_gives_it() -> None:
    made = ask(SETTLED, "train", mfu="0.4")
    assert value(made, "mfu") == pytest.approx(0.4)
    assert value(made, "hfu") == pytest.approx(0.4 * value(FREE, "hfu") / value(FREE, "mfu"))
    assert value(made, "cost_usd") > value(FREE, "cost_usd")
    wished = ask(SETTLED, "train", **{"run.wall_seconds": "200 days"})
    assert value(wished, "wall_time_s") == pytest.approx(200 * 86400)
    assert [*agree(wished)] == []


@pytest.mark.parametrize(
    ("pin", "code"),
    [
        ({"run.wall_seconds": "24h"}, "set.beyond-physics"),
        ({"mfu": "2"}, "set.beyond-physics"),
        ({"mfu": "0.3", "tokens_per_s": "100/s"}, "set.two-paces"),
        ({"headroom_bytes": "3 GiB"}, "set.result"),
        ({"memory.peak": "3 GiB"}, "set.result"),
        ({"run.cost": "3 USD"}, "set.result"),
        ({"hfu": "0"}, "set.no-pace"),
    ],
)
def test_what_no_machine_does_is_refused(pin: dict[str, str], code: str) -> None:
    with pytest.raises(GpuplanError) as caught:
        ask(TRAIN, "train", **pin)
    assert [one.code for one in caught.value.problems] == [code]


@pytest.mark.parametrize("text", ["100", "100 tokens/s"])
def test_a_rate_of_tokens_in_another_spelling_gets_the_one_that_works(text: str) -> None:
    with pytest.raises(GpuplanError) as caught:
        ask(TRAIN, "train", tokens_per_s=text)
    assert "100/s" in f"{caught.value.problems[0].message} {caught.value.problems[0].hint}"
    assert value(ask(TRAIN, "train", tokens_per_s="100/s"), "tokens_per_s") == pytest.approx(100)


@pytest.mark.parametrize("key", ["tokens_per_s", "ttft_s", "tpot_s", "itl_s", "mbu", "batch_prefill_s"])
def test_serving_at_another_pace(key: str) -> None:
    free = ask(SERVE)
    made = answered(
        "serve", {**SERVE, "set": {key: value(free, key) * (0.8 if key in ("tokens_per_s", "mbu") else 1.25)}}, advise=False
    )
    slower = value(made, "itl_s") / value(free, "itl_s")
    assert slower > 1
    assert value(free, "tokens_per_s") / value(made, "tokens_per_s") == pytest.approx(slower, rel=0.1)
    assert value(made, "tokens_per_s") * value(made, "energy_joules_per_token") == pytest.approx(
        value(free, "tokens_per_s") * value(free, "energy_joules_per_token")
    )
