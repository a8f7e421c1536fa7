"""Spot, commitments, credits, owning, the prices of an API, and carbon, in the answers that rest on them."""

from __future__ import annotations

import math

import pytest

from gpuplan.errors import GpuplanError, UnknownError, UsageError
from gpuplan.search.ask import answered
from gpuplan.units import YEAR
from tests.search.asked_of_each import compared

HOUR = 3600.0
RUN = {"on": "4xaws:p5.48xlarge", "tokens": "100B", "tp": 1, "pp": 1, "micro_batch": 1, "global_batch": 512, "zero_stage": 3}
SERVE = {"on": "h100", "prompt": 2000, "output": 300, "tp": 1, "pp": 1}
OWN = {**RUN, "on": "4xdgx-h100", "own": "330k"}


def asked(task: str, **given):
    return answered(task, {"model": "llama-3.1-8b", **given}, advise=False, keep=True)


def train(**given):
    return asked("train", **{**RUN, **given})


def serve(**given):
    return asked("serve", **{**SERVE, **given})


def value(answer, key: str) -> float:
    return float(answer.figures[key].value)


def codes(answer) -> set[str]:
    return {note.code for note in answer.notes}


# Spot


def test_reclaims_cost_time_and_work_since_the_last_checkpoint():
    plain, spot = train(price_kind="spot"), train(price_kind="spot", spot_life="6h")
    assert "run.spot" in codes(plain)
    assert "run.spot" not in codes(spot)
    assert value(spot, "run_time_s") == value(plain, "run_time_s")
    assert value(spot, "wall_time_s") > 1.1 * value(plain, "wall_time_s")
    assert value(spot, "cost_usd") / value(plain, "cost_usd") == pytest.approx(
        value(spot, "wall_time_s") / value(plain, "wall_time_s")
    )
    # Four instances, one of which is taken back every six hours each: of one every 1.5 hours.
    assert value(spot, "reclaims") == pytest.approx(value(spot, "wall_time_s") / (1.5 * HOUR))
    assert value(spot, "interruptions") == pytest.approx(value(spot, "reclaims"), rel=0.01)


def test_waiting_for_another_instance_adds_to_every_reclaim():
    short, long = train(price_kind="spot", spot_life="24h"), train(price_kind="spot", spot_life="24h", spot_wait="2h")
    assert value(long, "wall_time_s") > value(short, "wall_time_s")
    mean = long.find("run.mean_restart")
    assert mean is not None
    assert float(mean.value) == pytest.approx(2 * HOUR + 900, rel=0.01)


def test_checkpoints_come_more_often_where_more_is_lost():
    often, seldom = train(price_kind="spot", spot_life="3h"), train(price_kind="spot", spot_life="100h")
    assert value(often, "checkpoint_interval_s") < value(seldom, "checkpoint_interval_s")
    given = train(price_kind="spot", spot_life="3h", checkpoint_every="1h")
    assert value(given, "wall_time_s") > value(often, "wall_time_s")


def test_what_is_taken_back_before_it_gets_on_has_no_cost():
    never = train(price_kind="spot", spot_life="20min")
    assert "cost_usd" not in never.figures
    assert "time_between_interruptions_s" in never.figures


def test_spot_replicas_are_there_for_a_part_of_the_time():
    made = serve(on="2xaws:p5.48xlarge", dp=16, price_kind="spot", spot_life="12h", spot_wait="1h")
    assert value(made, "available_share") == pytest.approx(12 / 13)
    assert value(made, "available_tokens_per_s") == pytest.approx(value(made, "tokens_per_s") * 12 / 13)


# Terms and credits


def test_a_commitment_is_paid_for_its_whole_term():
    made = asked("train", on="gcp:v5p-16", tokens="1B", price_kind="reserved_1yr", tp=1, pp=1, micro_batch=1, global_batch=512)
    assert value(made, "committed_usd") == pytest.approx(8 * 2.94 / HOUR * YEAR)
    assert "price.committed" in codes(made)
    assert value(made, "cost_usd") < value(made, "committed_usd")


@pytest.mark.parametrize(("credits", "left"), [("1k", True), ("100M", False)])
def test_credits_pay_first(credits: str, left: bool):
    made = train(credits=credits)
    used, after, cost = (value(made, key) for key in ("credits_used_usd", "cost_after_credits_usd", "cost_usd"))
    assert used + after == pytest.approx(cost)
    assert (after > 0) is left


def test_credits_of_a_service_last_so_long():
    made = serve(price=2.0, credits="1k")
    assert value(made, "credits_last_s") == pytest.approx(500 * HOUR)


# Owning


def test_owning_adds_up_by_hand():
    made = asked(
        "train", **{**OWN, "own_years": 4, "own_use": 0.8, "own_resale": "10%", "own_network": 0.2, "own_staff": "5%",
        "own_hosting": "2k", "electricity": "0.07 USD/kWh", "pue": 1.3, "price": 30.0},
    )  # fmt: skip
    watts = 8500 * (0.8 + 0.2 * 0.2)
    capital = (330e3 * 1.2 - 33e3) / (4 * YEAR)
    running = 330e3 * 0.05 / YEAR + 2000 / (YEAR / 12) + watts * 1.3 * 0.07 / 3.6e6
    each = (capital + running) / 0.8 / 8
    price = made.find("hw.price")
    assert price is not None
    assert float(price.value) == pytest.approx(each)
    assert value(made, "cost_usd") == pytest.approx(each * value(made, "accelerator_time_s"))
    rent = 30.0 / HOUR * 0.8
    assert value(made, "break_even_s") == pytest.approx(330e3 * 1.2 / (rent - running))


def test_what_nobody_says_of_owning_is_told_as_uncounted_and_never_made_up():
    made = asked("train", **OWN)
    note = next(note for note in made.notes if note.code == "own.uncounted")
    for what in ("network", "staff", "hosting"):
        assert what in note.text
    low, high = made.ranges["cost_usd"]
    assert low < value(made, "cost_usd") < high
    life = made.find("own.life")
    assert life is not None
    assert life.source.url.startswith("https://")


def test_a_machine_that_idles_costs_more_for_a_second_in_use_and_pays_later():
    busy, idle = asked("train", **OWN, own_use=1.0), asked("train", **OWN, own_use=0.3)
    assert value(idle, "cost_usd") > 2 * value(busy, "cost_usd")
    assert value(idle, "break_even_s") > 2 * value(busy, "break_even_s")


def test_electricity_is_typed_as_bills_have_it():
    plain, said = (asked("train", **(OWN | {"electricity": text})) for text in ("0.12", "0.12 USD/kWh"))
    assert value(plain, "cost_usd") == value(said, "cost_usd")


@pytest.mark.parametrize(
    ("on", "said"), [("4xdgx-h100", "owning 4 at 330,000 USD each, 1,320,000 USD in all;"), ("dgx-h100", "of owning; what")]
)
def test_what_is_paid_for_each_of_several_machines_is_summed(on: str, said: str):
    (note,) = (note.text for note in asked("train", **(OWN | {"on": on})).notes if note.code == "own.costs")
    assert said in note


def test_buying_never_pays_where_rent_is_below_the_electricity():
    made = asked("train", **OWN, price=0.5)
    assert "break_even_s" not in made.figures
    assert "own.never" in codes(made)


def test_at_the_crossing_both_have_cost_the_same():
    made = asked("train", **OWN)
    parts = {name: float(term.value) for name, term in made.figures["break_even_s"].args}
    at = value(made, "break_even_s")
    assert parts["rent"] * at == pytest.approx(parts["bought"] + parts["running"] * at)


def test_values_of_terms_reach_the_cost_of_owning():
    dear = asked("train", **OWN, set={"own.electricity": "0.5 USD/kWh"})
    assert value(dear, "cost_usd") > value(asked("train", **OWN), "cost_usd")


def test_machines_that_are_bought_are_compared():
    made = compared(
        "train", {"model": "llama-3.1-8b", "tokens": "10B", "own": "300k"}, ["dgx-h100", "dgx-a100-640gb", "dgx-h200"], advise=False
    )
    costs = {on: value(one, "cost_usd") for on, one in made.items()}
    alone = asked("train", on="dgx-h100", tokens="10B", own="300k")
    assert costs["dgx-h100"] == pytest.approx(value(alone, "cost_usd"))
    assert len(set(costs.values())) == 3


# Prices of an API


def test_the_kinds_of_token_add_up_to_a_request():
    for load in ({}, {"concurrency": 64}, {"rate": 3.0}, {"rate": 3.0, "cached_share": 0.5}):
        made = serve(**load, api_price="0.10/0.40/0.05")
        share = load.get("cached_share", 0.0)
        fresh, cached = 2000 * (1 - share), 2000 * share
        each = fresh * value(made, "input_cost_usd_per_million")
        each += 300 * value(made, "output_cost_usd_per_million")
        each += cached * value(made, "cached_cost_usd_per_million") if share else 0.0
        assert each / 1e3 == pytest.approx(value(made, "cost_usd_per_thousand_requests"))
        assert value(made, "api_cost_usd_per_thousand_requests") == pytest.approx((fresh * 0.1 + cached * 0.05 + 300 * 0.4) / 1e3)


def test_at_the_break_even_both_cost_the_same_in_a_month():
    made = serve(rate=3.0, api_price="0.60/2.40")
    requests = value(made, "break_even_tokens_per_month") / 2300
    assert requests / 1000 * value(made, "api_cost_usd_per_thousand_requests") == pytest.approx(value(made, "cost_usd_per_month"))
    each = value(made, "api_cost_usd_per_thousand_requests") / 1000
    assert value(made, "api_cost_usd_per_month") == pytest.approx(3 * YEAR / 12 * each)


@pytest.mark.parametrize(("prices", "text"), [("5/20", "these machines are cheaper"), ("0.001/0.002", "however full")])
def test_the_note_says_which_is_cheaper(prices: str, text: str):
    made = serve(rate=3.0, api_price=prices)
    assert text in next(note.text for note in made.notes if note.code == "api.cheaper")


def test_without_a_price_of_the_machines_nothing_is_compared():
    made = asked("serve", on="apple-m3-max-40c", api_price="0.1/0.4")
    assert "api_cost_usd_per_month" not in made.figures
    assert "api.idle" in codes(made)


# Carbon


def test_carbon_is_energy_by_the_grid():
    made = train(grid="0.35kg/kWh", pue=1.2)
    assert value(made, "co2e_kg") == pytest.approx(value(made, "energy_joules") / 3.6e6 * 0.35)
    assert value(made, "energy_joules") == pytest.approx(1.2 / 1.15 * value(train(), "energy_joules"))
    one = serve(grid="350 g/kWh")
    assert value(one, "co2e_kg_per_million_tokens") == pytest.approx(value(one, "energy_joules_per_token") / 3.6 * 0.35)


def test_grids_on_record_have_a_source_and_a_year():
    for name, grams in (("france", 56.039), ("FRA", 56.039), ("us-central1", 412.72), ("United States", 369.473)):
        term = train(grid=name).find("site.grid")
        assert term is not None
        assert float(term.value) * 3.6e9 == pytest.approx(grams)
        assert term.source.url.startswith("https://")
        assert "202" in term.source.note


def test_without_a_grid_there_is_no_carbon():
    assert not any("co2e" in key for key in train().figures)


# What is wrong


@pytest.mark.parametrize(
    ("given", "kind", "text"),
    [
        ({"own_years": 5}, UsageError, "--own-years means nothing without --own"),
        ({"electricity": "0.1 USD/kWh"}, UsageError, "--electricity means nothing without --own"),
        ({"spot_wait": "1h", "price_kind": "spot"}, UsageError, "--spot-wait means nothing without --spot-life"),
        ({"spot_life": "1h"}, UsageError, "not that of spot instances"),
        ({"grid": "0.35"}, UsageError, "has no unit"),
        ({"grid": "3 GB"}, UsageError, "kg/J is wanted"),
        ({"grid": "-1kg/kWh"}, UsageError, "takes no carbon out"),
        ({"grid": "frnace"}, UnknownError, "no grid of that name"),
        ({"pue": 0.9}, UsageError, "a site draws no less than its computers"),
        ({"own": "-1"}, UsageError, "--own"),  # 0 says that it is paid already: tests/planner/test_spending.py
        ({"credits": "-5"}, UsageError, "--credits"),
    ],
)
def test_what_is_refused(given: dict[str, object], kind: type[GpuplanError], text: str):
    with pytest.raises(kind, match=text):
        train(**given)


@pytest.mark.parametrize("text", ["1", "1/2/3/4", "a/b", "1/0", "-1/2", "1/nan"])
def test_prices_of_an_api_that_are_none(text: str):
    with pytest.raises(UsageError, match="--api-price"):
        serve(api_price=text)


def test_no_figure_is_infinite():
    for made in (train(own="300k", on="4xdgx-h100"), serve(rate=1e-6, api_price="0.1/0.4"), train(credits="1e15")):
        assert all(math.isfinite(float(term.value)) for term in made.figures.values())
