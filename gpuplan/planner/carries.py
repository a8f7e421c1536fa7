"""What does a given fleet carry: the highest rate, the most requests in flight, the longest context, the largest model?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import inf
from typing import Any

import numpy as np

from gpuplan.errors import GpuplanError, Note, Problem, UsageError
from gpuplan.estimate.carried import Carried, Most
from gpuplan.models.card import ModelCard
from gpuplan.models.catalog import cards
from gpuplan.plan.ask_goal import PlanCarriesAsk
from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.planner.carries_percentiles import NEAR, highest
from gpuplan.planner.promise import Promise
from gpuplan.planner.serve import tried
from gpuplan.planner.serve_answer import formats, limits_of, lowest
from gpuplan.planner.serve_bounds import requests_of
from gpuplan.planner.serve_load import PER_USER, promised, refuse_two_stacks
from gpuplan.planner.serve_percentiles import refuse_percent
from gpuplan.planner.serve_space import Group, grouped, site_of
from gpuplan.planner.under_promise import IDLE
from gpuplan.search.library import Library
from gpuplan.search.serving import answer_serving
from gpuplan.search.serving_judges import Judges
from gpuplan.search.what_runs import kind_of, obtainable
from gpuplan.units import human

ANY = "any"
"""In place of a model: the largest ones that are carried."""
BEST = 5
"""Models that are shown."""
STEPS = 64
"""Contexts that are looked at between the longest power of two that fits and the next."""
SPARED = 0.999
"""What is told of the highest load: the search ends a little below where the promise breaks."""


def carries(goal: PlanCarriesAsk, run: ServeAsk, library: Library) -> Carried:
    """What the fleet that `run.on` names carries of its model, or which models where that is `any`.

    Raises:
        GpuplanError: the question is wrong, or what is needed is not known.
    """
    for flag, given in (("--rate", run.rate), ("--concurrency", run.concurrency), ("--trace", run.trace)):
        if given is not None and not (flag == "--rate" and run.model == ANY):
            raise UsageError(Problem("plan.carries", f"{flag}: how much comes is what is asked", f"leave {flag} out"))
    if run.model != ANY:
        refuse_two_stacks(run, library.card(run.model))
    reads = run.model != ANY and not library.card(run.model).architecture.generates
    promise, notes = promised(goal, reads=reads)
    if promise.percent is not None:
        refuse_percent(promise.percent)
        if run.model == ANY:
            what = f"--p {promise.percent:g}: of the models that a fleet carries the mean is told"
            raise UsageError(Problem("plan.percent", what, "name a model, or leave --p out"))
        if run.overlap_batches is None:
            run = run.replaced(overlap_batches=False)  # What is simulated is looked for among what can be.
    per_user = PER_USER if goal.requests_per_user is None else goal.requests_per_user
    limits = limits_of(promise)
    if run.model == ANY:
        most, looked = _models(goal, run, promise, library)
    else:
        most, looked = _of_model(goal, run, promise, library)
        notes = (*notes, *(() if most else _why_not(goal, run, promise, library)))
    return Carried(
        on=run.on, model=run.model, limits=limits, most=tuple(most), per_user=per_user, looked=looked,
        notes=(*notes, *_notes(library, run)),
    )  # fmt: skip


def _notes(library: Library, run: ServeAsk) -> tuple[Note, ...]:
    return library.target(run.on, apart=True).notes


def _groups(goal: PlanCarriesAsk, run: ServeAsk, promise: Promise, library: Library) -> Iterator[Group]:
    """The divisions of a fleet in every format that may be tried; errors as `answer_serving` where nothing can be estimated for."""
    none: GpuplanError | None = None
    some = False
    for weights in formats(goal.lowest_bits or lowest(library.card(run.model)), run, library):
        try:
            site = site_of(weights, run.replaced(weights=weights), library, alone=False)
        except GpuplanError as error:
            none = error
            continue
        if not tried(weights, run, site.found.subject.hw.peaks):
            continue
        groups, refused = grouped([site], promise.replaced(percent=None), every=True)
        none = next(iter(refused.values()), none)
        some = some or bool(groups)
        yield from (group for group in groups if group.fits.size)
    if not some and none is not None:
        raise none


def _of_model(goal: PlanCarriesAsk, run: ServeAsk, promise: Promise, library: Library) -> tuple[list[Most], int]:
    """The most of everything of one model."""
    made: list[Most] = []
    at_rate = list(_groups(goal, run.replaced(rate=1.0), promise, library))
    looked = sum(group.legal for group in at_rate)
    for figure, groups in (
        ("rate_per_s", at_rate), ("requests_in_flight", _groups(goal, run.replaced(concurrency=1), promise, library)),
    ):  # fmt: skip
        if promise.percent is None:
            every = (_highest(figure, group) for group in groups)
            best = max(every, key=lambda one: 0.0 if one is None else one.value, default=None)
        else:
            found = highest(figure, list(groups), run, promise, library)
            best = None if found is None else _most(figure, found[0].group, found[0].at, found[1])
        if best is not None:
            made.append(_answered(best, run, promise, library))
    if not made:
        return [], looked
    longest = max((_longest(group) for group in at_rate), key=lambda one: 0.0 if one is None else one.value, default=None)
    return [*made, *([longest] if longest is not None else [])], looked


def _why_not(goal: PlanCarriesAsk, run: ServeAsk, promise: Promise, library: Library) -> Iterator[Note]:
    """Why not even one request is carried."""
    groups = [group for group in _groups(goal, run.replaced(rate=1.0), promise, library) if group.fits.any()]
    if not groups:
        told = "`gpuplan fit` tells what it takes"
        if goal.lowest_bits is None and run.weights is None:
            told = f"--lowest-bits 4 tries 4-bit weights too; {told}"
        yield Note("plan.too-large", f"{run.model} does not fit in any format that is tried", told)
        return
    slow = False
    for key, most in promise.replaced(percent=None).limits.items():
        least = min(
            float(np.where(group.fits, group.under.times(IDLE * group.under.most[..., None])[key][..., 0], inf).min())
            for group in groups
        )
        slow = slow or least > most
        if least > most:
            what = f"{promise.word(key)} is {human(least, 's')} at least, even for one request alone"
            yield Note("plan.too-slow", what, f"{human(most, 's')} is promised")
    if not slow and promise.percent is not None:
        yield Note(
            "plan.too-slow", f"it is kept in the mean, but by no load for {promise.percent:g} in 100", "--p says for how many"
        )


def _highest(figure: str, group: Group) -> Most | None:
    """The division of a group that keeps the highest load, of those that surely fit where some do; None: none keeps any."""
    fits = group.sure if group.sure.any() else group.fits
    if not fits.any():
        return None
    loads = np.where(fits, group.under.highest(), 0.0)[0]
    if figure == "requests_in_flight":
        loads = np.floor(loads + 1e-6)
    at = np.unravel_index(int(loads.argmax()), loads.shape)
    return _most(figure, group, at, float(loads[at])) if loads[at] > 0 else None


def _most(figure: str, group: Group, at: Sequence[Any], value: float) -> Most:
    site = group.sites[0]
    division = group.division((0, *at))
    return Most(
        figure=figure, value=value, model=site.found.card.id, weights=site.want.types.weights,
        replicas=f"{division.dp:,} x {division.words()}", asked=division.asked(experts=bool(site.found.card.architecture.moes)),
    )  # fmt: skip


def _answered(one: Most, run: ServeAsk, promise: Promise, library: Library) -> Most:
    """A load with the whole answer of it, and what a little more would break."""

    def asked(value: float) -> ServeAsk:
        load = {"rate": value} if one.figure == "rate_per_s" else {"concurrency": max(int(value), 1)}
        fixed = run.replaced(**one.asked, **load, simulate=True if promise.percent is not None else None)
        own = library.card(run.model).quantised.get(one.weights) is None and run.weights is None
        return fixed if own and one.weights == _own(run, library) else fixed.replaced(weights=one.weights)

    spared = SPARED if promise.percent is None else 1 - 1 / NEAR
    made = answer_serving(asked(one.value), library)
    more = answer_serving(asked(max(one.value / spared, one.value + (one.figure != "rate_per_s"))), library)
    return one.replaced(
        estimate=made, bound=_bound(more.verdict.overloaded, {key: one.value for key, one in more.figures.items()}, promise)
    )


def _own(run: ServeAsk, library: Library) -> str:
    """The format of the checkpoint as it is published."""
    return str(site_of(None, run.replaced(rate=1.0), library, alone=False).want.types.weights)


def _bound(overloaded: bool, figures: Mapping[str, Any], promise: Promise) -> str:
    """Which promise a little more would break, or that more would come than is kept."""
    if overloaded:
        return "more is not kept, whatever is promised"
    used = {key: float(figures[key]) / most for key, most in promise.limits.items() if key in figures}
    if not used:
        return ""
    key = max(used, key=lambda one: used[one])
    if used[key] < 1 - 0.02 and promise.percent is not None:
        return "more is not kept in the mean"
    if used[key] < 1 - 0.02:
        return "more have no place in the caches, or in what the engine runs"
    return f"{promise.word(key)} is {human(promise.limits[key], 's')} then"


def _longest(group: Group) -> Most | None:
    """The longest context that one sequence may have, at most what the model was made for."""
    site = group.sites[0]
    limit = float(site.found.card.architecture.max_context or inf)
    judges = Judges(site.want.replaced(load=None, batch=1), site.found.subject)
    one = group.plan.replaced(load=None, batch=1.0, queues=False)

    def fitting(contexts: Any) -> Any:
        with np.errstate(all="ignore"):
            fits, _, _ = judges.held(one.replaced(context=contexts))
        return np.broadcast_to(np.asarray(fits), (*group.fits.shape, contexts.size))

    best: float = 0.0
    chosen: tuple[Any, ...] = ()
    start = float(site.want.context)
    doublings, steps = np.unique(np.minimum(start * 2.0 ** np.arange(24), limit)), 1 + np.arange(STEPS) / STEPS
    for _ in range(2):
        contexts = doublings if best == 0.0 else np.unique(np.minimum(np.floor(best * steps), limit))
        longest = np.where(fitting(contexts), contexts, 0.0).max(axis=-1)[0]
        if longest.max() > best:
            place = np.unravel_index(int(longest.argmax()), longest.shape)
            best, chosen = float(longest[place]), tuple(place)
    if best == 0.0:
        return None
    bound = "of one sequence: all that the model was made for" if best >= limit else "of one sequence: longer ones have no room"
    if best >= doublings[-1] and best < limit:
        bound = "of one sequence, and longer ones: what it keeps does not grow with them"
    return _most("context_tokens", group, chosen, best).replaced(bound=bound)


def _models(goal: PlanCarriesAsk, run: ServeAsk, promise: Promise, library: Library) -> tuple[list[Most], int]:
    """The largest models that the fleet carries: that keep the promise next to idle, or at the rate that is asked for."""
    target = library.target(run.on, apart=True)
    memory = target.accelerator.memory.capacity.value * target.count * target.share
    made: list[Most] = []
    looked = 0
    for card in sorted(_servable(library), key=_params, reverse=True):
        asked = run.replaced(model=card.id, rate=run.rate or 1.0)
        if all(
            requests_of(card, asked, weights).held > memory for weights in formats(goal.lowest_bits or lowest(card), asked, library)
        ):
            continue
        try:
            found = [
                one for group in _groups(goal, asked, promise, library) for one in (_carried(group, run.rate),) if one is not None
            ]
        except GpuplanError:
            continue
        looked += 1
        if found:
            made.append(max(found, key=lambda one: (one.weights == found[0].weights, one.value)).replaced(value=_params(card)))
        if len(made) >= (goal.best or BEST):
            break
    return made, looked


def _carried(group: Group, rate: float | None) -> Most | None:
    """A division of the fewest ranks that keeps the promise."""
    fits = group.sure if group.sure.any() else group.fits
    if not fits.any():
        return None
    amounts = np.full_like(group.under.most, rate) if rate is not None else IDLE * group.under.most
    kept = (fits & group.under.keeps(amounts[..., None])[..., 0])[0]
    if not kept.any():
        return None
    ranks = np.where(kept, group.ranks[0], inf)
    at = np.unravel_index(int(ranks.argmin()), ranks.shape)
    return _most("params", group, at, 0.0)


def _servable(library: Library) -> Iterator[ModelCard]:
    """The cards of text models whose weights can be had."""
    return (card for card in cards(library.own_cards()) if kind_of(card) == "text" and obtainable(card))


def _params(card: ModelCard) -> float:
    return float(card.count().params_total.value)
