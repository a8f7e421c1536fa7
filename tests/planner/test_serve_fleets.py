"""Are fleets the least that keep a promise, by brute force over single estimates, and do bounds rule out nothing that wins?"""

from __future__ import annotations

from itertools import product
from math import inf
from typing import Any

import numpy as np
import pytest

from gpuplan.estimate.result import Estimate
from gpuplan.plan.ask_goal import PlanCarriesAsk, PlanServeAsk, Where
from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.plan.words import WeightFormat
from gpuplan.planner.carries import carries
from gpuplan.planner.promise import Promise
from gpuplan.planner.serve import ServeSearch, Wanted
from gpuplan.planner.serve_answer import plan_serve
from gpuplan.planner.serve_ask import unit_ask
from gpuplan.planner.serve_bounds import ROOM, requests_of
from gpuplan.planner.serve_space import grouped, site_of
from gpuplan.planner.where import Machine, places
from gpuplan.search.library import Library
from gpuplan.search.serving import answer_serving
from gpuplan.specs.engine import Engine

LIBRARY = Library.shared()
RUN = ServeAsk(model="llama-3.1-8b", on="any", prompt=2000, output=200)
PROMISE = Promise(ttft=0.5, tpot=0.03)
FORMATS: tuple[WeightFormat | None, ...] = (None, "fp8")
NAMES = "lambda:gpu_8x_h100_sxm5,runpod:l40s,aws:g6.12xlarge,mi300x"


def machines(names: str = NAMES, *, priced: bool = False) -> tuple[Machine, ...]:
    return places(Where(on=names), RUN, LIBRARY, priced=priced, training=False).machines


def keeps(made: Estimate, promise: Promise) -> bool:
    return made.verdict.fits and all(float(made.figures[key].value) <= most for key, most in promise.limits.items())


def fewest(want: Wanted, on: str, weights: WeightFormat | None, tp: int, pp: int, dp: int) -> float:
    """The fewest machines with a division by single estimates, one after the other."""
    for units in range(1, 20):
        asked = want.loaded(want.amount / units)
        made = answer_serving(asked.replaced(on=on, weights=weights, tp=tp, pp=pp, dp=dp), LIBRARY)
        if keeps(made, want.promise):
            return units
        if not made.verdict.fits and not made.verdict.overloaded:
            return inf
    return inf


@pytest.mark.parametrize("want", [
    Wanted(run=RUN, promise=PROMISE, rate=8.0, least="gpus"),
    Wanted(run=RUN, promise=Promise(tpot=0.02, ttft=2.0), users=40.0, least="gpus"),
], ids=["rate", "users"])  # fmt: skip
def test_brute_force_finds_no_better_fleet(want: Wanted) -> None:
    found = machines("lambda:gpu_1x_h100_pcie,aws:g6e.12xlarge")
    search = ServeSearch(want, found, LIBRARY, FORMATS)
    search.go(len(found))
    for machine in found:
        ranks, best = machine.each, inf
        for weights, tp, pp in product(FORMATS, (1, 2, 4), (1, 2)):
            if ranks % (tp * pp) == 0:
                best = min(best, ranks * fewest(want, machine.name, weights, tp, pp, ranks // (tp * pp)))
        mine = next((one.fleet.accelerators for one in search.ranked() if one.option.machine is machine), inf)
        assert mine == best, machine.name


@pytest.mark.parametrize(("on", "shared"), [("dgx-b200", True), ("dgx-h200", False)])
def test_ranks_of_attention_that_share_experts_are_looked_at(on: str, shared: bool) -> None:
    """They win where nobody has measured that a step waits for its host: on Hopper it does, by 10 ms or so."""
    run = ServeAsk(model="deepseek-v3", on="any", prompt=4000, output=1000, engine="tensorrt-llm")
    want = Wanted(run=run, promise=Promise(ttft=2.0, tpot=0.04), rate=20.0, least="gpus")
    search = ServeSearch(want, machines(on), LIBRARY, (None,))
    search.go(1)
    (best,) = search.ranked()
    assert (best.fleet.division.attention_dp > 1) is shared
    assert search.estimated + search.bounded == search.candidates == 4  # One, two, four and eight of them for a replica.
    asked = unit_ask(want, best, best.fleet.parts, experts=True)
    assert keeps(answer_serving(asked, LIBRARY), want.promise)
    for forced in ({"tp": 8, "ep": 8}, {"tp": 1, "attention_dp": 8, "ep": 8}, {"tp": 4, "pp": 2}):
        one_less = want.loaded(20.0 / (best.fleet.accelerators / 8 - 1)).replaced(on=on, dp=1, **forced)
        assert not keeps(answer_serving(one_less, LIBRARY), want.promise), forced


@pytest.mark.slow
def test_brute_force_finds_no_better_replica_over_two_nodes() -> None:
    """Every division of sixteen accelerators that share experts, each with so few pairs of nodes that no more of them break it."""
    run = ServeAsk(
        model="qwen3-30b-a3b", on="any", prompt=2000, output=200, pp=1, decode_cp=1, redundant_experts=0, overlap_batches=False,
        expert_exchange="gathered",
    )  # fmt: skip
    want = Wanted(run=run, promise=Promise(ttft=1.0, tpot=0.02), rate=30.0, least="gpus")
    search = ServeSearch(want, machines("dgx-a100-640gb"), LIBRARY, (None,), prunes=False)
    search.go(1)
    mine = {
        (one.fleet.division.tp, one.fleet.division.ep): one.fleet.parts for one in search.divisions if one.option.units == 2
    }  # fmt: skip
    assert all(one.fleet.division.ranks == 16 for one in search.divisions if one.option.wide)
    most = max(mine.values())
    brute: dict[tuple[int, int], int] = {}
    for tp, ep in product((1, 2, 4, 8, 16), (1, 16)):  # The engine spreads experts over all of them or over none.
        asked = {"tp": tp, "dp": 1, "attention_dp": 16 // tp, "ep": ep, "on": "2xdgx-a100-640gb"}
        for units in range(most + 1, 0, -1):
            if not keeps(answer_serving(want.loaded(30.0 / units).replaced(**asked), LIBRARY), want.promise):
                break
            brute[tp, ep] = units
    assert mine == brute


@pytest.mark.parametrize(("run", "units", "load"), [
    ({"model": "llama-3.1-405b", "weights": "bf16", "on": "aws:p4d.24xlarge"}, 3, {"rate": 1.0}),  # Two do not hold it.
    ({"model": "llama-3.1-405b", "weights": "fp8", "on": "aws:p5.48xlarge", "prompt": 122880}, 2, {"users": 8.0}),  # One does.
    ({"model": "llama-3.1-8b", "on": "aws:g6.2xlarge", "prompt": 128000}, 2, {"rate": 0.002}),  # One holds no request.
], ids=["three", "room", "caches"])  # fmt: skip
def test_a_replica_is_spread_over_as_many_units_as_are_best(run: dict[str, Any], units: int, load: dict[str, float]) -> None:
    asked = ServeAsk(**{"output": 1000 if "prompt" in run else 256, **run, "on": "any"})
    want = Wanted(run=asked, promise=Promise(ttft=400.0, tpot=0.2), least="gpus", **load)
    search = ServeSearch(want, machines(run["on"]), LIBRARY, (asked.weights,))
    search.go(1)
    (best,) = search.ranked()
    assert (best.option.units, best.fleet.parts) == (units, 1)
    assert keeps(answer_serving(unit_ask(want, best, 1, experts=False), LIBRARY), want.promise)
    assert search.estimated + search.bounded == search.candidates


def test_a_fleet_keeps_its_promise_with_less_than_it_is_for() -> None:
    """Some estimates keep at a high load what they break at lower ones: a fleet for the peak must keep it at all of them."""
    run = ServeAsk(model="qwen3-30b-a3b", on="any", prompt=2000, output=200)
    want = Wanted(run=run, promise=Promise(ttft=1.0, tpot=0.02), rate=60.0, least="gpus")
    search = ServeSearch(want, machines("dgx-a100-640gb"), LIBRARY, (None,))
    search.go(1)
    (best,) = search.ranked()
    asked = unit_ask(want, best, best.fleet.parts, experts=True)
    for share in (1.0, 0.7, 0.5, 0.3, 0.1):
        assert keeps(answer_serving(asked.replaced(rate=(asked.rate or 0.0) * share), LIBRARY), want.promise), share


@pytest.mark.parametrize("users", [37, 53, 71])
def test_users_come_whole(users: int) -> None:
    run = RUN.replaced(concurrency=users)
    found = plan_serve(PlanServeAsk(on="h100-pcie-80gb,l40s", tpot=0.014, ttft=2.0, minimize="gpus"), run, LIBRARY)
    assert found.best
    assert all(one.figures["tpot_s"] <= 0.014 for one in found.best)


def test_bounds_rule_out_nothing_that_wins() -> None:
    want = Wanted(run=RUN, promise=PROMISE, rate=200.0)
    found = places(Where(cloud="runpod,crusoe,nebius"), RUN, LIBRARY, priced=True, training=False).machines
    some, every = (ServeSearch(want, found, LIBRARY, (None,)) for _ in range(2))
    some.go(3)
    every.go(len(found))
    assert every.estimated > some.estimated
    assert [(one.option.key, one.figure) for one in some.ranked()[:3]] == [
        (one.option.key, one.figure) for one in every.ranked()[:3]
    ]
    assert all(one.option.bound <= one.figure for one in every.found.values())


@pytest.mark.parametrize(("users", "spare"), [(None, 2), (40.0, 1)])
def test_no_fleet_is_below_its_bound(users: float | None, spare: int) -> None:
    want = Wanted(run=RUN, promise=PROMISE, rate=None if users else 60.0, users=users, least="gpus", spare=spare)
    found = machines(f"{NAMES},h100")
    search = ServeSearch(want, found, LIBRARY, FORMATS)
    search.go(len(found))
    kinds = {one.option.alone for one in search.found.values()}
    assert kinds == {True, False}
    assert all(one.option.bound <= one.figure for one in search.found.values())
    assert any(one.option.bound == one.figure for one in search.found.values())


@pytest.mark.parametrize("model", ["deepseek-v3", "kimi-k2-thinking", "gpt-oss-120b"])
def test_bounds_of_a_quantised_checkpoint_are_those_of_its_bytes(model: str) -> None:
    run = ServeAsk(model=model, on="any", prompt=2000, output=200)
    requests = requests_of(LIBRARY.card(model), run, None)
    made = answer_serving(run.replaced(on="8xb300", tp=8, pp=1, dp=1, batch=1), LIBRARY)
    held = 8 * float(found.value) if (found := made.find("memory.weights")) is not None else 0.0
    assert 0.9 * held < requests.held <= held
    (machine,) = machines("8xb300")
    assert 0 < requests.read / (8 * (machine.chip.bandwidth or inf)) < float(made.figures["tpot_s"].value)


def test_a_bound_on_the_promise_rules_out_only_what_breaks_it() -> None:
    promise = Promise(tpot=0.004, ttft=0.1)
    want = Wanted(run=RUN, promise=promise, rate=0.5, least="gpus")
    search = ServeSearch(want, machines(), LIBRARY, (None,))
    left = {one.machine.name for one in search._options(promise)}
    ruled_out = [one for one in search._options(Promise()) if one.machine.name not in left]
    assert ruled_out
    sites = [
        site_of(one.key, want.loaded(0.01).replaced(on=one.target), LIBRARY, alone=one.alone) for one in ruled_out
    ]  # fmt: skip
    for group in grouped(sites, promise)[0]:
        assert np.isinf(group.dealt(0.01).parts).all()


def test_every_engine_has_room_for_prompts_that_the_bound_takes() -> None:
    for ident in LIBRARY.catalog.paths("engines"):
        profile = LIBRARY.catalog.load(Engine, ident).serving
        if profile is None or profile.schedule is None or profile.steps != "mixed":
            continue
        sizes = [(profile.max_batched_tokens, profile.max_sequences)]
        if profile.small_device is not None:
            sizes.append((profile.small_device.max_batched_tokens, profile.small_device.max_sequences))
        if profile.large_device is not None:
            sizes.append((profile.large_device.max_batched_tokens, profile.max_sequences))
        assert all(tokens.value - sequences.value >= ROOM for tokens, sequences in sizes), ident


@pytest.mark.parametrize("load", ["rate", "users"])
def test_the_highest_load_keeps_the_promise_and_a_little_more_breaks_it(load: str) -> None:
    asked = RUN.replaced(on="4xh100", rate=1.0) if load == "rate" else RUN.replaced(on="4xh100", concurrency=8)
    (group,), refused = grouped([site_of("x", asked, LIBRARY, alone=False)], PROMISE)
    assert not refused
    highest = group.under.highest()
    assert (highest[group.fits] > 0).all()
    for scale, expected in ((1.0, True), (1.01, False)):
        kept = group.under.keeps(highest[..., None] * scale)[..., 0]
        assert (kept[group.fits] == expected).all()


def test_a_spare_part_is_beside_those_that_keep_the_promise() -> None:
    plain, spared = (Wanted(run=RUN, promise=PROMISE, rate=20.0, least="gpus", spare=spare) for spare in (0, 1))
    counts = []
    for want in (plain, spared):
        search = ServeSearch(want, machines("l40s"), LIBRARY, (None,))
        search.go(1)
        counts.append(search.ranked()[0].fleet)
    assert counts[1].accelerators == counts[0].accelerators // counts[0].parts * (counts[1].parts + 1)


@pytest.mark.parametrize(("model", "on", "promise"), [
    ("llama-3.1-8b", "8xa100-80gb", {"ttft": 0.5, "tpot": 0.05}),  # Multiplies no FP8, which neither tries.
    ("bge-m3", "4xl40s", {"e2e": 0.2}),  # An index of other weights is another one.
], ids=["no-fp8", "reads"])  # fmt: skip
def test_what_a_fleet_carries_is_what_it_serves(model: str, on: str, promise: dict[str, float]) -> None:
    run = ServeAsk(model=model, on=on, prompt=500)
    found = carries(PlanCarriesAsk(**promise), run, LIBRARY)
    (most,) = (one for one in found.most if one.figure == "rate_per_s")
    goal = PlanServeAsk(on=on, minimize="gpus", **promise)
    for share, served in ((0.99, True), (1.01, False)):
        asked = run.replaced(on="any", rate=most.value * share)
        assert bool(plan_serve(goal, asked, LIBRARY).best) is served


def test_weights_that_are_named_are_served_on_chips_that_do_not_multiply_them() -> None:
    run = ServeAsk(model="llama-3.1-8b", on="any", rate=5.0, weights="fp8")
    (best,) = plan_serve(PlanServeAsk(on="8xa100-80gb", minimize="gpus"), run, LIBRARY).best
    assert best.estimate.question["weights"] == "fp8"
