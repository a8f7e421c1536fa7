"""A plan is the best that there is: no bound is above an estimate, and asking about every machine finds no better one."""

from __future__ import annotations

from math import exp, factorial, inf
from typing import Any

import pytest

from gpuplan.errors import GpuplanError, InfeasibleError, UnknownError, UsageError
from gpuplan.estimate.planned import Planned
from gpuplan.models.catalog import find
from gpuplan.plan.ask import TrainAsk
from gpuplan.plan.ask_goal import PlanFinetuneAsk, PlanTrainAsk
from gpuplan.planner.bounds import fastest
from gpuplan.planner.prospects import FIGURES, Search
from gpuplan.planner.survey import Reach, Survey, Wanted
from gpuplan.planner.train import plan_finetune, plan_train
from gpuplan.planner.where import Machine, ladder, places
from gpuplan.render.planned import as_text
from gpuplan.render.text import Look
from gpuplan.search.library import Library
from gpuplan.search.on_targets import on_targets
from gpuplan.specs.usual_training import UsualTraining
from gpuplan.units import human
from tests.sweeps import marked, thinned
from tools.published_plans import RUNS, Published, place

MODEL, TOKENS = "llama-3.1-8b", 1e11
NAMES = "aws:p5.48xlarge,aws:p4d.24xlarge,coreweave:l40s,gcp:v6e-8"
TOLD_APART = 1.03
"""As near as the full search itself goes for a plainer plan."""


@pytest.fixture(scope="module")
def library() -> Library:
    """The shipped files, read once."""
    return Library.shared()


def asked(**goal: Any) -> PlanTrainAsk:
    """A goal about a few machines."""
    values: dict[str, Any] = {"on": NAMES, "max_count": 8} | goal
    return PlanTrainAsk(**values)


def run_of(**given: Any) -> TrainAsk:
    """A run of a small model."""
    values: dict[str, Any] = {"model": MODEL, "on": "any", "tokens": TOKENS} | given
    return TrainAsk(**values)


def searched(goal: PlanTrainAsk, library: Library, run: TrainAsk) -> Search:
    """A search that went through."""
    found = places(goal, run, library, priced=goal.least == "cost", training=True)
    search = Search(goal, run, library, find(run.model), found.machines, Survey(library), run.tokens or 0.0)
    search.go()
    return search


def every_estimate(search: Search, run: TrainAsk, library: Library) -> dict[str, dict[str, float]]:
    """What `gpuplan train` says of every machine with every count, by brute force."""
    targets = {machine.target(count): count for machine in search.machines for count in machine.counts(search.goal)}
    made = on_targets({on: run.replaced(on=on) for on in targets}, library)
    figures = made.figures()
    for machine in search.machines:
        for count in machine.counts(search.goal):
            own = figures.get(machine.target(count))
            if own is not None:
                own["accelerators"] = float(count)
                if machine.price is not None:
                    own["cost_usd"] = own["wall_time_s"] * count * machine.price
    return {on: one for on, one in figures.items() if one["peak_memory_bytes"] <= one["memory_capacity_bytes"]}


@pytest.fixture(scope="module")
def brute(library: Library) -> dict[str, dict[str, float]]:
    """Every machine of the small catalog, asked about in full."""
    return every_estimate(searched(asked(), library, run_of()), run_of(), library)


@pytest.mark.parametrize("least", ["cost", "time", marked("energy"), marked("gpus")])
def test_no_bound_throws_a_winner_away(least: str, library: Library, brute: dict[str, dict[str, float]]) -> None:
    search = searched(asked(minimize=least), library, run_of())
    figure, seen = FIGURES[least], {one.target for one in search.seen}
    values = {on: one[figure] for on, one in brute.items() if figure in one}
    best = search.best()
    assert best[0].figures[figure] <= TOLD_APART * min(values.values())
    away = [on for on in values if on not in seen and on not in search.survey.refused]
    worst = best[-1].figures[figure]
    assert len(best) == search.shown
    assert all(values[on] >= worst / TOLD_APART for on in away), away


@pytest.mark.parametrize("deadline", [2.0, 20.0])
def test_limits_bound_only_what_breaks_them(deadline: float, library: Library, brute: dict[str, dict[str, float]]) -> None:
    search = searched(asked(deadline=deadline * 86400), library, run_of())
    able = {on: one["cost_usd"] for on, one in brute.items() if one["wall_time_s"] <= deadline * 86400}
    best = search.best()
    assert bool(best) == bool(able)
    assert all(one.figures["wall_time_s"] <= deadline * 86400 for one in best)
    if able:
        assert best[0].figures["cost_usd"] <= TOLD_APART * min(able.values())


@pytest.mark.parametrize(
    ("goal", "counts"), [({"deadline": 20 * 86400.0}, (5, 6, 7)), ({"deadline": 20 * 86400.0, "minimize": "gpus"}, (5, 6, 7))]
)
def test_no_count_between_two_of_the_ladder_is_better(goal: dict[str, Any], counts: tuple[int, ...], library: Library) -> None:
    """Of four instances nothing keeps the deadline, and eight are more than it takes."""
    on, run = "aws:p5.48xlarge", run_of(tokens=4e11)
    best = searched(asked(on=on, max_count=64, **goal), library, run).best()[0]
    figure = FIGURES[goal.get("minimize", "cost")]
    made = on_targets({f"{count}x{on}": run.replaced(on=f"{count}x{on}") for count in counts}, library).estimates()
    for count, one in zip(counts, made.values(), strict=True):
        seconds = float(one.figures["wall_time_s"].value)
        spent = {"accelerators": 8.0 * count, "cost_usd": float(one.figures["cost_usd"].value)}[figure]
        assert seconds > goal["deadline"] or best.figures[figure] <= 1.01 * spent, count
    assert best.offering.count < 64


def test_counts_that_just_miss_a_limit_leave_those_that_keep_it_their_turn(library: Library) -> None:
    """Of a dozen offers each has a count that misses it by a tenth, which stands before those that keep it."""
    goal = PlanFinetuneAsk(on="h100", minimize="gpus", deadline=687.0, max_count=256)
    best = plan_finetune(goal, TrainAsk(model="llama-3.1-8b", on="any", lora=16), library).best
    assert [one.offering.count for one in best] == [26, 32, 32]


def test_three_cards_do_it_where_two_do_not(library: Library) -> None:
    goal = PlanFinetuneAsk(on="rtx-4090", minimize="gpus")
    best = plan_finetune(goal, TrainAsk(model="llama-3.1-70b", on="any", lora=16, qlora=True), library).best
    assert best[0].offering.count == 3


@pytest.mark.parametrize(
    ("model", "count", "given"),
    [
        ("llama-3.1-70b", 64, {}), marked((MODEL, 8, {"precision": "fp8"})), (MODEL, 1, {"lora": 16}),
        marked(("mixtral-8x7b", 64, {})),
    ],
)  # fmt: skip
def test_no_estimate_is_below_its_bounds(model: str, count: int, given: dict[str, Any], library: Library) -> None:
    run = run_of(model=model, **given)
    goal = PlanTrainAsk(count=count, minimize="time", best=100, cloud="aws,azure,lambda")
    search = searched(goal, library, run)
    looked = 0
    for one in search.seen:
        if one.rank < 0:
            looked += 1
            assert one.sharp
            assert one.least_seconds <= one.seconds, one.target
            assert one.least_seconds >= search.work.flop / (one.count * fastest(one.machine.chip, search.work)) * (1 - 1e-12)
    assert looked > 8


def test_states_in_the_memory_of_hosts_are_planned_on_instances_and_systems(library: Library) -> None:
    goal = asked(on="aws:p5.48xlarge,lambda:gpu_8x_h100_sxm5,dgx-h100", minimize="time")
    made = plan_train(goal, run_of(offload=("optimizer",)), library)
    assert {one.offering.target for one in made.best} <= {"aws:p5.48xlarge", "lambda:gpu_8x_h100_sxm5", "dgx-h100"}
    assert made.best[0].estimate.question["offload"] == "optimizer"


def test_what_is_found_is_what_train_says(library: Library) -> None:
    found = plan_train(asked(), run_of(), library)
    first = found.best[0]
    alone = on_targets({first.offering.target: run_of(on=first.offering.target)}, library).estimates()[first.offering.target]
    assert {key: float(term.value) for key, term in alone.figures.items()} == {
        key: value for key, value in first.figures.items() if key != "accelerators"
    }
    assert found.looked.bounded + found.looked.estimated + found.looked.refused <= found.looked.candidates
    assert all(one.beats for one in found.best[:-1])


@pytest.mark.parametrize("goal", thinned([{}, {"minimize": "time", "deadline": 90 * 86400.0}], every=2))
def test_what_cannot_win_any_more_is_left_out_without_a_change(
    goal: dict[str, Any], library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    wide = asked(on=f"{NAMES},azure:Standard_ND96isr_MI300X_v5", max_count=48, best=2, **goal)
    found = plan_train(wide, run_of(), library)
    monkeypatch.setattr(Search, "_to_beat", lambda search: inf)
    whole = plan_train(wide, run_of(), library)
    assert [one.offering.target for one in found.best] == [one.offering.target for one in whole.best]
    assert found.looked.plans < whole.looked.plans


def test_an_offer_without_a_network_is_not_multiplied(library: Library) -> None:
    found = plan_train(asked(on="crusoe:h100-sxm-80gb", max_count=64), run_of(model="llama-3.2-1b"), library)
    assert [one.offering.count for one in found.best] == [1]


def test_what_nothing_joins_in_a_larger_number_is_still_looked_at_in_a_smaller(library: Library) -> None:
    survey, run = Survey(library), run_of(model="gpt2", tokens=1e9)
    for count in (2, 1):
        on = "runpod:rtx-4090" if count == 1 else "2xrunpod:rtx-4090"
        found = survey.reach({on: Wanted("runpod:rtx-4090", count, run.replaced(on=on))})
        assert list(found) == ([on] if count == 1 else [])
    assert list(survey.refused) == ["2xrunpod:rtx-4090"]


def test_of_machines_that_differ_in_their_price_alone_one_is_looked_at(library: Library) -> None:
    run = run_of(precision="bf16")

    def asked_of(*names: str) -> dict[str, Wanted]:
        return {on: Wanted(on, 8, run.replaced(on=on)) for on in names}

    names = ("lambda:gpu_8x_h100_sxm5", "runpod:8x_H100-SXM_SECURE", "lambda:gpu_8x_a100_80gb_sxm4")
    together, alone = Survey(library), {on: Survey(library) for on in names}
    found = together.reach(asked_of(*names))
    assert found == {on: one.reach(asked_of(on))[on] for on, one in alone.items()}
    assert together.plans == alone[names[0]].plans + alone[names[2]].plans


def relaxed(library: Library, **goal: Any) -> Planned:
    return plan_train(asked(**goal), run_of(), library)


def test_what_nothing_meets_says_what_would_have_to_give(library: Library) -> None:
    found = relaxed(library, deadline=86400.0, budget=50.0)
    assert not found.best
    assert {one.limit.figure for one in found.relax} == {"wall_time_s", "cost_usd"}
    assert all(one.needs > one.limit.most for one in found.relax)
    by_figure = {one.limit.figure: one for one in found.relax}
    again = relaxed(library, **({} if by_figure["cost_usd"].alone else {"deadline": 86400.0}))
    assert again.best[0].figures["cost_usd"] <= by_figure["cost_usd"].needs * TOLD_APART


def test_what_the_coarse_look_takes_for_broken_is_kept_where_the_full_search_keeps_it(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = (
        plan_train(asked(on="aws:p5.48xlarge", count=64, max_count=64, minimize="time"), run_of(), library)
        .best[0]
        .figures["wall_time_s"]
    )
    monkeypatch.setattr(Reach, "seconds", property(lambda one: 2 * one.__dict__["seconds"]), raising=False)
    found = plan_train(asked(on="aws:p5.48xlarge", count=64, max_count=64, deadline=plain * 1.01), run_of(), library)
    assert not found.relax
    assert found.best[0].figures["wall_time_s"] == plain


def test_spare_nodes_stand_in_for_those_in_repair(library: Library) -> None:
    goal = asked(on="aws:p5.48xlarge", count=1024, max_count=1024, repair=86400.0)
    found = plan_train(goal, run_of(mtbf=1024 * 86400.0 / 2), library)  # Two interruptions a day: two nodes are out in the mean.
    said = next(note.text for note in found.notes if note.code == "plan.spares")
    assert "2 of 128 nodes are out in the mean, and 6 spare ones (48 accelerators)" in said
    chances = [exp(-2) * 2**at / factorial(at) for at in range(7)]
    assert sum(chances[:6]) < 0.99 <= sum(chances)
    cost = 48 * float(found.best[0].offering.price.value) * found.best[0].figures["wall_time_s"]  # type: ignore[union-attr]
    assert human(cost, "USD") in said
    never = plan_train(goal.replaced(repair=1e9), run_of(mtbf=1024 * 86400.0 / 2), library)
    assert any("no spares make up for that" in note.text for note in never.notes)


@pytest.mark.parametrize(
    ("goal", "given", "error", "said"),
    [
        ({"any": True}, {}, UsageError, "--any is everything"),
        ({"on": "h100", "filter": "vendor=amd"}, {}, UsageError, "leaves nothing of --on h100"),
        ({"on": None, "filter": "memory>=40TiB"}, {}, UsageError, "no accelerator of the catalog is so"),
        ({"on": None, "filter": "id=inferentia2"}, {}, UsageError, "nothing trains on"),
        ({"on": None, "cloud": "awz"}, {}, UnknownError, "no provider is called `awz`"),
        ({"count": 7}, {}, UsageError, "no machine that is allowed comes in such a number"),
        ({"count": 64}, {}, UsageError, "--count 64 is more than --max-count 8"),
        ({"on": "rtx-3090-ti", "minimize": "cost"}, {"price_kind": "reserved_3yr"}, UnknownError, "no reserved 3yr price"),
        ({}, {"max_price_age": 1}, UnknownError, "older than --max-price-age 1 day,"),
        ({"on": "t4", "max_count": 1}, {"model": "llama-3.1-405b"}, InfeasibleError, "fits on none of"),
        ({"on": "t4", "count": 1}, {"model": "llama-3.1-405b"}, InfeasibleError, "fits on none of(?s:.*)leave --count out"),
        ({"on": None, "budget": 1e6}, {"price": 1 / 3600}, UsageError, "--price is that of one machine"),
    ],
)  # fmt: skip
def test_what_cannot_be_answered_says_why(
    goal: dict[str, Any], given: dict[str, Any], error: type[GpuplanError], said: str, library: Library
) -> None:  # fmt: skip
    with pytest.raises(error, match=said):
        plan_train(asked(**goal), run_of(**given), library)


def test_fine_tuning_in_words(library: Library) -> None:
    found = plan_finetune(PlanFinetuneAsk(on="2xrtx-3090"), TrainAsk(model="qwen3-32b", on="any"), library)
    assert found.best[0].offering.target == "2xrtx-3090"
    assert found.least == "wall_time_s"
    assert "--lora 16 --qlora" in found.command
    said = " ".join(note.text for note in found.notes)
    assert "52,000 samples, 3 times" in said
    assert "frozen in 4 bits" in said


def test_what_fits_narrowly_is_said_with_what_surely_fits(library: Library) -> None:
    """Adapters of 70 billion weights of 16 bits on one card of 180 GB leave little room: who rents it hears so."""
    goal = PlanFinetuneAsk(on="1xb200,8xh100", minimize="gpus")
    run = TrainAsk(model="llama-3.1-70b", on="", lora=16, tokens=5e7, seq_len=1024)
    found = plan_finetune(goal, run, library)
    assert found.best[0].offering.target == "1xb200"
    assert found.best[0].estimate.verdict.narrowly
    note = next(note for note in found.notes if note.code == "plan.narrowly")
    assert "may need up to" in note.text
    assert note.hint == "8xh100 surely fits: 8 accelerators"
    memory, capacity = (found.best[0].figures[name] for name in ("peak_memory_bytes", "memory_capacity_bytes"))
    assert memory < 0.95 * capacity, "where nothing surely fits, room counts"


@pytest.mark.parametrize(
    ("on", "goal", "least", "first", "note"),
    [
        ("2xrtx-3090", {}, "wall_time_s", "2xrtx-3090", "plan.own"),
        ("1xrtx-4090", {}, "wall_time_s", "1xrtx-4090", "plan.own"),
        ("1xrtx-4090", {"minimize": "cost"}, "cost_usd", "1xrtx-4090", ""),
        ("rtx-3060-12gb", {}, "accelerators", "rtx-3060-12gb", "plan.fastest"),
        ("rtx-3090", {}, "cost_usd", "genesis-cloud:rtx-3090", "plan.offers"),
    ],
)
def test_what_one_has_is_told_by_time(
    on: str, goal: dict[str, Any], least: str, first: str, note: str, library: Library
) -> None:  # fmt: skip
    run = TrainAsk(model="gpt2", on="any", lora=8, samples=1000.0)
    made = plan_finetune(PlanFinetuneAsk(on=on, **goal), run, library)
    assert (made.least, made.best[0].offering.target) == (least, first)
    assert [one.code for one in made.notes if one.code in ("plan.own", "plan.fastest", "plan.offers")] == ([note] if note else [])
    page = as_text(made, Look(80))
    assert ("does it in" in page) == (least == "wall_time_s")
    assert "unknown" not in page


def test_what_only_serves_trains_nothing_unless_named(library: Library) -> None:
    run = run_of(model="gpt2", tokens=1e9)
    everywhere = places(asked(on=None, cloud="aws"), run, library, priced=True, training=True)
    assert "inferentia2" not in {one.accelerator for one in everywhere.machines}
    assert any("made for inference alone: inferentia1, inferentia2" in note.text for note in everywhere.notes)
    serving = places(asked(on=None, cloud="aws"), run, library, priced=True, training=False)
    assert "inferentia2" in {one.accelerator for one in serving.machines}
    named = plan_train(asked(on="aws:inf2.xlarge", max_count=1), run, library)
    assert named.best[0].offering.accelerator == "inferentia2"
    notes = [note.text for note in named.best[0].estimate.notes if note.code == "hardware.serves-only"]
    assert "for inference on Inf2" in notes[0]


def test_the_counts_are_a_ladder(library: Library) -> None:
    assert list(ladder(100)) == [1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96]
    one = places(asked(on="aws:p5.48xlarge"), run_of(), library, priced=True, training=True).machines[0]
    assert isinstance(one, Machine)
    assert [one.target(count) for count in one.counts(asked())] == [
        "aws:p5.48xlarge",
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_published_divisions_are_among_the_best(run: Published) -> None:
    made = place(run)
    assert made.share <= 0.05
    assert made.low <= run.days <= made.high


def test_a_price_without_a_day_wins_nothing_unless_named(library: Library) -> None:
    everywhere = places(asked(on=None), run_of(), library, priced=True, training=True)
    assert all(one.dated for one in everywhere.machines)
    assert any(note.code == "plan.undated" and "have no day" in note.text for note in everywhere.notes)
    named = places(asked(on=None, cloud="cudo"), run_of(), library, priced=True, training=True)
    assert named.machines
    assert not any(one.dated for one in named.machines)
    assert any(not one.dated for one in places(asked(on=None), run_of(), library, priced=False, training=True).machines)


def test_a_machine_that_is_counted_is_not_told_to_allow_more(library: Library) -> None:
    with pytest.raises(InfeasibleError, match="does not fit on the one machine") as found:
        plan_train(asked(on="8xt4"), run_of(model="llama-3.1-405b"), library)
    assert (found.value.problems[0].hint or "").startswith("name more or larger ones with --on")
    with pytest.raises(InfeasibleError) as open_count:
        plan_train(asked(on="t4", max_count=1), run_of(model="llama-3.1-405b"), library)
    assert (open_count.value.problems[0].hint or "").startswith("allow more with --max-count")


def test_a_run_of_which_no_time_is_said_is_one_that_somebody_would_wait_for(library: Library) -> None:
    """One accelerator alone is the cheapest, for years: what is done within the longest run on record is answered."""
    free: dict[str, Any] = {"on": "dataoorts:orion-h200-sxm-141gb,lambda:gpu_8x_b200_sxm6", "budget": 1e6}
    found = plan_train(asked(**free), run_of(tokens=1e12), library)
    longest = library.catalog.load(UsualTraining, "training").pretraining.longest.value
    assert found.best[0].figures["wall_time_s"] <= longest
    assert "the longest run on record" in as_text(found, Look(width=200))
    cheapest = plan_train(asked(**free, minimize="cost"), run_of(tokens=1e12), library).best[0]
    assert cheapest.figures["wall_time_s"] > longest
    note = next(note for note in found.notes if note.code == "plan.in-time")
    assert f"{cheapest.offering.target}, for {human(cheapest.figures['cost_usd'], 'USD')}" in note.text
    late = plan_train(asked(max_count=8, on="aws:p4d.24xlarge"), run_of(tokens=1e13), library)
    assert late.best[0].figures["wall_time_s"] > longest
    assert any("nothing that is allowed does it within 118 days" in note.text for note in late.notes)
