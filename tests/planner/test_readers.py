"""Fleets for models that only read: the fewest replicas that keep a time, by brute force over single estimates."""

from __future__ import annotations

from typing import Any

import pytest

from gpuplan.errors import UsageError
from gpuplan.estimate.carried import Carried
from gpuplan.estimate.planned import Planned
from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.planner.ask import planned
from gpuplan.planner.promise import Promise
from gpuplan.planner.serve_bounds import fewest, requests_of
from gpuplan.planner.where import places
from gpuplan.search.library import Library
from gpuplan.search.serving import answer_serving
from tests.cli.conftest import Call
from tests.planner.conftest import call
from tests.sweeps import thinned

__all__ = ["call"]


def library() -> Library:
    return Library.shared((), calibrated=False)


def fleets(model: str, **given: str) -> Planned:
    found = planned("plan serve", {"model": model, **given})
    assert isinstance(found, Planned)
    return found


def kept(model: str, on: str, most: float, **load: Any) -> bool:
    made = answer_serving(ServeAsk(model=model, on=on, **load), library())
    return made.verdict.fits and "latency_s" in made.figures and float(made.figures["latency_s"].value) <= most


@pytest.mark.parametrize("on", ["lambda:gpu_1x_a10", "aws:g6.12xlarge"])
@pytest.mark.parametrize("model", ["bge-m3", "qwen3-embedding-0.6b", "modernbert-base"])
def test_no_fewer_keep_a_rate(model: str, on: str) -> None:
    found = fleets(model, rate="3000/s", e2e="60ms", on=on).best[0]
    parts = found.offering.count // (4 if "12xlarge" in on else 1)
    assert parts > 1
    assert found.figures["latency_s"] <= 0.06
    assert found.estimate.figures["cost_usd_per_million_tokens"].name == "fleet.million_tokens"
    assert kept(model, on, 0.06, rate=3000.0 / parts)
    assert not kept(model, on, 0.06, rate=3000.0 / (parts - 1))


def test_no_fewer_keep_users_who_ask_again() -> None:
    found = fleets("bge-m3", concurrency="200", e2e="130ms", on="lambda:gpu_1x_a10").best[0]
    parts = found.offering.count
    assert kept("bge-m3", "lambda:gpu_1x_a10", 0.13, concurrency=-(-200 // parts))
    assert not kept("bge-m3", "lambda:gpu_1x_a10", 0.13, concurrency=-(-200 // (parts - 1)))


def test_what_a_machine_carries_is_what_it_keeps() -> None:
    found = planned("plan carries", {"model": "bge-m3", "on": "l4", "e2e": "100ms"})
    assert isinstance(found, Carried)
    rate, users, context = (one.value for one in found.most)
    assert kept("bge-m3", "l4", 0.1, rate=rate)
    assert not kept("bge-m3", "l4", 0.1, rate=1.02 * rate)
    assert kept("bge-m3", "l4", 0.1, concurrency=int(users))
    assert not kept("bge-m3", "l4", 0.1, concurrency=int(users) + 1)
    assert context == 8194


@pytest.mark.parametrize(
    "model", thinned(["bge-m3", "qwen3-embedding-8b", "bge-reranker-v2-m3", "siglip-so400m-patch14-384"], every=4)
)
def test_no_machine_is_below_the_bound(model: str) -> None:
    """Of all machines that have a price: the bound may rule out nothing that keeps the time."""
    found = fleets(model, rate="2000/s", e2e="1s", best="100")
    run = ServeAsk(model=model, on="any", rate=2000.0)
    requests = requests_of(library().card(model), run, None)
    chips = {one.accelerator: one.chip for one in places(_where(), run, library(), priced=True, training=False).machines}
    assert len(found.best) > 20
    for one in found.best:
        least = fewest(requests, chips[one.offering.accelerator], 1, Promise(e2e=1.0, reads=True))
        assert least <= one.offering.count


def _where() -> Any:
    from gpuplan.plan.ask_goal import PlanServeAsk

    return PlanServeAsk()


def test_weights_stay_as_they_are_published() -> None:
    assert fleets("bge-m3", rate="3000/s", on="h100").best[0].estimate.question["weights"] == "bf16"
    fewer = fleets("bge-m3", rate="3000/s", on="h100", lowest_bits="8").best[0]
    assert fewer.estimate.question["weights"] in ("bf16", "fp8")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"ttft": "1s"}, "--ttft: a model that only reads makes no tokens"),
        ({"p": "99"}, "--p 99: of a model that only reads the mean is told"),
        ({"pools": True}, "--pools: not of a model that only reads"),
        ({"output": "10"}, "--output: not of a model that only reads"),
    ],
    ids=str,
)
def test_what_there_is_none_of_is_said(given: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        planned("plan serve", {"model": "bge-m3", "rate": "100/s", "on": "l4", **given})


@pytest.mark.parametrize("form", [(), ("--plain",), ("--md",), ("--csv",), ("--brief",), ("--json",), ("--full-answer",)], ids=str)
@pytest.mark.parametrize("words", [("serve", "bge-m3", "--rate", "500", "--on", "l4,h100"), ("carries", "bge-m3", "--on", "l4")])
def test_no_form_speaks_of_tokens_that_are_made(call: Call, words: tuple[str, ...], form: tuple[str, ...]) -> None:
    said = call("plan", *words, *form)
    assert said.code == 0
    assert "latency" in said.out or words[0] == "carries"
    text = " ".join(said.out.lower().split()).replace("date unknown", "")
    assert not any(word in text for word in ("ttft", "tpot", "output", "unknown"))


@pytest.mark.parametrize("model", ["whisper-large-v3", "t5-large"])
@pytest.mark.parametrize("words", [("serve", "--rate", "2"), ("carries", "--on", "h100")], ids=" ".join)
def test_a_model_of_two_stacks_is_told_what_to_ask(call: Call, words: tuple[str, ...], model: str) -> None:
    said = call("plan", words[0], model, *words[1:])
    assert said.code == 2
    assert f"error: {model} reads with an encoder and writes with a decoder" in said.err
    asked = said.err.split("`gpuplan ")[1].split("`")[0]
    assert call(*asked.split()).code == 0


def test_a_time_that_nothing_keeps_is_told_what_would_be(call: Call) -> None:
    said = call("plan", "serve", "bge-m3", "--rate", "100", "--e2e", "1ms", "--on", "h100,l4")
    assert said.code == 3
    assert "--e2e 1.00 ms would have to be" in said.out
