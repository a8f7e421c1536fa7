"""Which machine, how many of them and which plan train or fine-tune a model under a goal?

Everything that is allowed is bounded at once (`bounds`), looked at in the order of the bounds with one coarse mesh of plans
(`survey`), until nothing that is left could still be among the best; and the best are then asked about as `gpuplan train` is.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from gpuplan.errors import InfeasibleError, Note, UnknownError
from gpuplan.estimate.planned import Candidate, Planned, Relax
from gpuplan.formulas.training import compute_optimal_tokens
from gpuplan.plan.ask import TrainAsk
from gpuplan.plan.ask_goal import PlanFinetuneAsk, PlanTrainAsk
from gpuplan.planner.command import command_of
from gpuplan.planner.crew import Crew
from gpuplan.planner.flips import flips_of
from gpuplan.planner.in_time import in_time
from gpuplan.planner.prospects import Search
from gpuplan.planner.refusals import refusals
from gpuplan.planner.relax import relaxed
from gpuplan.planner.spending import spending
from gpuplan.planner.survey import Survey
from gpuplan.planner.where import Places, places
from gpuplan.planner.why import SOONER, binds_of, said_to_beat
from gpuplan.search.library import Library
from gpuplan.search.sample_supply import samples_seen
from gpuplan.search.training_notes import NARROW
from gpuplan.search.usual import of_adapters
from gpuplan.specs.target import is_counted
from gpuplan.specs.usual_training import UsualTraining
from gpuplan.units import human, so_many

if TYPE_CHECKING:
    from gpuplan.models.card import ModelCard

SAMPLES, EPOCHS = 52_000.0, 3.0
"""Of a fine-tuning run of which nothing is said: those of Stanford Alpaca (R. Taori and others, README, 2023: 52K instructions,
3 epochs of LLaMA-7B, https://github.com/tatsu-lab/stanford_alpaca)."""


def plan_train(goal: PlanTrainAsk, run: TrainAsk, library: Library) -> Planned:
    """The best machines, counts and plans for a run under a goal; `run` is the question of one machine, whatever it says of `on`.

    Raises:
        GpuplanError: the question is wrong, or what is needed is not known.
    """
    card = library.card(run.model)
    run, notes = _with_tokens(run, card)
    return _planned(goal, run, library, card, notes)


def plan_finetune(goal: PlanFinetuneAsk, run: TrainAsk, library: Library) -> Planned:
    """The same for fine-tuning: adapters unless the question says otherwise, with frozen weights in 4 bits where 16 fit nowhere.

    Raises:
        GpuplanError: the question is wrong, or what is needed is not known.
    """
    card = library.card(run.model)
    run, notes = _as_fine_tuning(goal, run, library)
    adapted = not goal.full and not of_adapters(run)
    if not adapted:
        return _planned(goal, run, library, card, notes)
    rank = int(library.catalog.load(UsualTraining, "training").adapters.rank.value)
    plain = Note(
        "plan.adapters", f"adapters of rank {rank} are trained, as most do", "--full trains all weights, --lora says the rank"
    )
    try:
        found = _planned(goal, run.replaced(lora=rank), library, card, (*notes, plain))
    except InfeasibleError:
        found = None
    if found is not None and found.best:
        return found
    narrow = "the weights in 16 bits fit nowhere that meets the goal: they are frozen in 4 bits (QLoRA)"
    again = (*notes, plain, Note("plan.qlora", narrow, "name another machine, or --full"))
    made = _planned(goal, run.replaced(lora=rank, qlora=True), library, card, again)
    return made if made.best or found is None else found


def _planned(goal: PlanTrainAsk, run: TrainAsk, library: Library, card: ModelCard, notes: tuple[Note, ...]) -> Planned:
    """The answer to a goal about a run of which the length is known."""
    with Crew(goal.jobs or 1, run) as crew:
        return _by_crew(goal, run, library, card, notes, crew)


def _by_crew(
    goal: PlanTrainAsk, run: TrainAsk, library: Library, card: ModelCard, notes: tuple[Note, ...], crew: Crew
) -> Planned:  # fmt: skip
    goal, found, more = placed_or_fastest(goal, run, library)
    survey, tokens = Survey(library, crew), tokens_of(run)

    def searched(asked: PlanTrainAsk) -> Search:
        search = Search(asked, run, library, card, found.machines, survey, tokens)
        search.go()
        return search

    search, best, told = in_time(goal, searched, library)
    more = (*told, *more)
    relax: tuple[Relax, ...] = ()
    nearest: tuple[Candidate, ...] = ()
    if not best:
        if (wrong := search.nothing()) is not None:
            raise wrong
        relax, nearest = relaxed(goal, search.limits, lambda asked: searched(asked).best())
        if not relax:
            raise search.too_large()
        # The full search of what is nearest may keep a limit that the coarse look took to be broken.
        kept = [one for one in nearest if all(not limit.broken_by(one.figures.get(limit.figure, inf)) for limit in search.limits)]
        if kept:
            best, relax, nearest = sorted(kept, key=lambda one: one.figures[search.least]), (), ()
    if goal.repair is not None and (best or nearest):
        from gpuplan.planner.spares import spares

        more = (*more, *spares((best or nearest)[0], goal.repair, library))
    if best or nearest:
        more = (*more, *spending((best or nearest)[0]))
        more = (*more, *(note for note in (best or nearest)[0].estimate.notes if note.code == NARROW))
    if best and best[0].estimate.verdict.narrowly:
        surer = next((one for one in best if not one.estimate.verdict.narrowly), None) or search.surely()
        more = (*more, _narrowly(best[0], surer, search.least))
    return Planned(
        model=run.model, least=search.least, limits=search.limits, best=said_to_beat(best, search.least, SOONER),
        binds=binds_of(best[0], search.limits) if best else "", looked=search.looked,
        front=search.front() if goal.front and best else (), flips=flips_of(best, search.least, search.limits, run.tokens),
        relax=relax, nearest=nearest, command=command_of(run, (best or nearest)[0].offering.target),
        notes=(*notes, *more, *found.notes, *refusals(survey.refused)),
    )  # fmt: skip


def _narrowly(best: Candidate, surer: Candidate | None, least: str) -> Note:
    """That the best may need more memory than it has, and what surely has enough."""
    headline = best.estimate.verdict.headline.removeprefix("fits narrowly: ")
    text = f"{best.offering.target} fits narrowly: {headline}"
    if surer is None:
        return Note("plan.narrowly", text, "nothing that was looked at and meets the goal surely fits")
    unit = surer.estimate.figures[least].unit if least in surer.estimate.figures else ""
    figure = human(surer.figures[least], unit) if unit else so_many(surer.figures[least], "accelerator")
    return Note("plan.narrowly", text, f"{surer.offering.target} surely fits: {figure}")


def placed_or_fastest(goal: PlanTrainAsk, run: TrainAsk, library: Library) -> tuple[PlanTrainAsk, Places, tuple[Note, ...]]:
    """Where to look; where nobody asks for money and no price is on record, what takes least time, or the fewest that fine-tune.

    A machine that is named with its count is one that somebody has: how long it takes is what is asked.

    Raises:
        UnknownError: a price is needed and none is on record.
    """
    needed = goal.budget is not None or goal.minimize == "cost" or bool(goal.front) or run.asks_for_price()
    if not needed and goal.minimize is None and goal.on is not None:
        found = places(goal, run, library, priced=False, training=True)
        given = all(one.fixed and one.kind == "own" for one in found.machines)
        if given and (len(found.machines) == 1 or any(one.price is None for one in found.machines)):
            paid = "its cost is what owning it costs" if run.own is not None else "its cost is that of renting it"
            text = f"a machine named with its count is taken as yours: how long it takes counts, and {paid}"
            told = Note("plan.own", text, "--minimize cost looks for the cheapest, --price says what yours costs")
            return goal.replaced(minimize="time"), found, (told,)
    try:
        found = places(goal, run, library, priced=goal.least == "cost" or needed, training=True)
        return goal, found, _offers_alone(goal, run, found)
    except UnknownError as error:
        if needed or goal.minimize is not None or error.problems[0].code != "plan.no-price":
            raise
        fewest = isinstance(goal, PlanFinetuneAsk)
        what = "the fewest that do it are best" if fewest else "what takes least time is best"
        hint = "give a price with --price, or say how many you have: `--on 2x…`" if fewest else "give a price with --price"
        told = Note("plan.fastest", f"{error.problems[0].message}: {what}", hint)
        goal = goal.replaced(minimize="gpus" if fewest else "time")
        return goal, places(goal, run, library, priced=False, training=True), (told,)


def _offers_alone(goal: PlanTrainAsk, run: TrainAsk, found: Places) -> tuple[Note, ...]:
    """What to say to somebody who may have the accelerator that is named without a count: offers alone are compared."""
    names = [one.strip() for one in (goal.on or "").split(",") if one.strip()]
    bare = next((one for one in names if ":" not in one and "@" not in one and not is_counted(one)), None)
    if not isinstance(goal, PlanFinetuneAsk) or bare is None or run.price is not None:
        return ()
    if any(one.kind == "own" for one in found.machines):
        return ()
    return (Note("plan.offers", f"what is rented is compared; if you have {bare}, say how many: `--on 1x{bare}`"),)


def tokens_of(run: TrainAsk) -> float:
    """Tokens that the run trains on at least."""
    seen = samples_seen(run)
    return run.tokens or 0.0 if seen is None else seen * (run.documents or run.seq_len or 1)


def _with_tokens(run: TrainAsk, card: ModelCard) -> tuple[TrainAsk, tuple[Note, ...]]:
    """The question with a length of the run: 20 tokens for each parameter where it names none."""
    if run.tokens is not None or run.samples is not None:
        return run, ()
    tokens = float(compute_optimal_tokens(params=float(card.count().params_total.value)))
    text = f"{human(tokens, '1')} tokens are taken, 20 for each parameter, as is compute-optimal (Hoffmann et al. 2022)"
    return run.replaced(tokens=tokens), (Note("plan.tokens", text, "say how many with --tokens"),)


def _as_fine_tuning(goal: PlanFinetuneAsk, run: TrainAsk, library: Library) -> tuple[TrainAsk, tuple[Note, ...]]:
    """The question with what most take where it says nothing: how many samples, how often, and how long each is."""
    notes: list[Note] = []
    if run.seq_len is None:
        known = library.catalog.load(UsualTraining, "training").adapters.seq_len
        run = run.replaced(seq_len=int(known.value))
        notes.append(
            Note("plan.length", f"samples of {known.text} tokens are taken, the default of TRL", "--seq-len says how long")
        )
    if run.tokens is None and run.samples is None:
        run = run.replaced(samples=SAMPLES, epochs=run.epochs or EPOCHS)
        text = f"{SAMPLES:,.0f} samples, {run.epochs:g} times, are taken, as Stanford Alpaca was trained"
        notes.append(Note("plan.samples", text, "say how many with --samples and --epochs"))
    return run, tuple(notes)
