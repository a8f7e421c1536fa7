"""Owning, credits, the grid and an API in plans: the same figures as of the machine alone, and nothing dropped."""

from __future__ import annotations

from typing import Any

import pytest

from gpuplan.errors import GpuplanError, UnknownError, UsageError
from gpuplan.estimate.planned import Planned
from gpuplan.plan.ask import TrainAsk
from gpuplan.plan.ask_goal import PlanFinetuneAsk, PlanServeAsk, PlanTrainAsk
from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.planner.serve_answer import plan_serve
from gpuplan.planner.train import plan_finetune, plan_train
from gpuplan.search.library import Library
from gpuplan.search.serving import answer_serving
from gpuplan.search.training import answer_training
from gpuplan.units import MONTH, human

LIBRARY = Library.shared()
TUNED: dict[str, Any] = {"model": "qwen3-8b", "on": "any", "seq_len": 1024, "samples": 1000.0, "epochs": 1.0}


def tuned(**given: Any) -> Planned:
    return plan_finetune(PlanFinetuneAsk(on="2xrtx-3090"), TrainAsk(**TUNED | given), LIBRARY)


def told(found: Planned, code: str) -> str:
    return next((note.text for note in found.notes if note.code == code), "")


def offer(found: Planned) -> str:
    return found.best[0].offering.offer


def test_a_plan_on_bought_cards_costs_what_the_cards_alone_do() -> None:
    found = tuned(own=1600.0, electricity=0.30 / 3.6e6, price=0.35 / 3600, grid="germany", credits=0.01)
    alone = answer_training(
        TrainAsk(**TUNED | {"on": "2xrtx-3090"}, lora=16, own=1600.0, electricity=0.30 / 3.6e6, price=0.35 / 3600), LIBRARY
    )
    assert found.least == "cost_usd"
    assert found.best[0].figures["cost_usd"] == pytest.approx(float(alone.figures["cost_usd"].value), rel=1e-9)
    assert "1,600 USD for one rtx-3090" in offer(found)
    assert human(float(alone.figures["break_even_s"].value), "s") in told(found, "plan.break-even")
    assert "0.35 USD/h" in told(found, "plan.break-even")
    assert "CO2e" in told(found, "plan.carbon")
    assert "left to pay" in told(found, "plan.credits")
    assert "--own 1600" in found.command
    assert told(found, "own.uncounted")


def test_what_is_paid_already_costs_what_it_takes_to_run() -> None:
    paid, bought = tuned(own=0.0), tuned(own=1600.0)
    watts = paid.best[0].estimate.find("own.power_usd_per_s")
    assert watts is not None
    assert float(paid.best[0].offering.price.value) == pytest.approx(float(watts.value))  # type: ignore[union-attr]
    assert paid.best[0].figures["cost_usd"] < bought.best[0].figures["cost_usd"]
    assert offer(paid).startswith("paid already")
    assert not told(paid, "plan.break-even")


def test_machines_of_several_accelerators_are_bought_whole() -> None:
    run = TrainAsk(model="llama-3.1-8b", on="any", tokens=1e10, own=300e3)
    found = plan_train(PlanTrainAsk(on="dgx-h100", count=16), run, LIBRARY)
    assert found.best[0].offering.target == "2xdgx-h100"
    price = found.best[0].estimate.find("hw.price")
    assert price is not None
    years = float(found.best[0].estimate.find("own.life").value)  # type: ignore[union-attr,arg-type]
    assert float(price.value) > 300e3 / 8 / years


def test_a_price_of_ones_own_says_of_what_it_is() -> None:
    run = TrainAsk(model="llama-3.2-1b", on="any", tokens=1e10, price=24 / 3600)
    found = plan_train(PlanTrainAsk(on="dgx-h100", count=8), run, LIBRARY)
    assert offer(found) == "your price, 24.00 USD/h for one dgx-h100, 3.00 USD/h for each of 8 accelerators"


@pytest.mark.parametrize(
    ("on", "given", "error", "said"),
    [
        (None, {"own": 3e5}, UsageError, "--own is that of one machine"),
        ("h100,h200", {"own": 3e5}, UsageError, "--own is that of one machine"),
        ("dgx-h100", {"own_use": 0.5}, UsageError, "--own-use means nothing without --own"),
        ("rtx-3090", {"own": 1e3, "grid": "atlantis"}, UnknownError, "no grid of that name"),
    ],
)
def test_what_cannot_be_owned_says_why(on: str | None, given: dict[str, Any], error: type[GpuplanError], said: str) -> None:
    with pytest.raises(error, match=said):
        plan_train(PlanTrainAsk(on=on, count=8), TrainAsk(model="llama-3.2-1b", on="any", tokens=1e10, **given), LIBRARY)


def test_a_fleet_is_compared_with_an_api_at_its_mean_load() -> None:
    run = ServeAsk(model="llama-3.1-8b", on="any", rate=20.0, prompt=1000, output=200, api_price="0.1/0.4")
    goal = PlanServeAsk(on="dgx-h100", ttft=1.0, tpot=0.03)
    found = plan_serve(goal, run.replaced(own=300e3), LIBRARY)
    asked = 20 * MONTH * (1000 * 0.1 + 200 * 0.4) / 1e6
    fleet = found.best[0].figures["cost_usd_per_month"]
    text = told(found, "plan.api")
    assert f"{human(asked, 'USD')} a month for this load, the fleet costs {human(fleet, 'USD')}: the fleet is cheaper" in text
    assert "300,000 USD for one dgx-h100" in offer(found)
    mean = plan_serve(goal.replaced(mean_rate=1.0), run.replaced(own=300e3), LIBRARY)
    assert human(asked / 20, "USD") in told(mean, "plan.api")
    assert "the API is cheaper" in told(mean, "plan.api")


def test_a_seller_at_another_kind_of_price_is_told() -> None:
    run = ServeAsk(model="llama-3.1-8b", on="any", rate=1.0)
    with pytest.raises(UnknownError, match="--price-kind market"):
        plan_serve(PlanServeAsk(on=None, cloud="vast"), run, LIBRARY)


def test_a_fleet_that_is_bought_says_what_all_of_it_costs_and_asks_about_itself() -> None:
    """The unit was a node of eight with four times the load, whose price was said for a fleet of two."""
    goal, run = PlanServeAsk(on="h100", ttft=1.0, tpot=0.05), ServeAsk(model="llama-3.1-70b", on="", rate=5.0, own=30000.0)
    found = plan_serve(goal, run, LIBRARY)
    assert found.best[0].offering.target == "2xh100"
    assert "--on 2xh100 --rate 5/s" in found.command
    assert "owning 2 at 30,000 USD each, 60,000 USD in all;" in told(found, "own.costs")
    more = plan_serve(goal, run.replaced(rate=50.0), LIBRARY)
    many = more.best[0].offering.count
    assert many > 8
    assert f"owning {many} at 30,000 USD each, {many * 30_000:,} USD in all;" in told(more, "own.costs")


def test_a_month_of_what_is_bought_costs_no_more_where_it_works_less() -> None:
    """Its price of a second in use bears the time in which it waits: a month was told as if it worked all of it at that price."""
    served = ServeAsk(model="llama-3.1-8b", on="h100", rate=2.0, own=30000.0)
    goal = PlanServeAsk(on="h100", ttft=1.0, tpot=0.05)
    for own, seldom in (
        (answer_serving(served, LIBRARY), answer_serving(served.replaced(own_use=0.25), LIBRARY)),
        (
            plan_serve(goal, served, LIBRARY).best[0].estimate,
            plan_serve(goal, served.replaced(own_use=0.25), LIBRARY).best[0].estimate,
        ),
    ):
        always, less = (float(one.figures["cost_usd_per_month"].value) for one in (own, seldom))
        assert 0.5 * always < less <= always  # electricity is less
        token, dear = (float(one.figures["cost_usd_per_million_output_tokens"].value) for one in (own, seldom))
        assert dear > 3 * token
    small = plan_serve(goal.replaced(budget=always * 1.01), served.replaced(own_use=0.25), LIBRARY)
    assert small.best
