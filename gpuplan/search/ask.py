"""The three questions, answered: the one entry that every command and the Python API call."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, TypeVar

from gpuplan.errors import GpuplanError, ImpossibleError, Problem, UnknownError, UsageError, did_you_mean
from gpuplan.estimate.result import REPORT, Change, Choice, Estimate
from gpuplan.plan.ask import ASKS, TrainAsk
from gpuplan.plan.ask_serving import FitAsk, ServeAsk
from gpuplan.plan.common import Common
from gpuplan.plan.disaggregated import disaggregated
from gpuplan.plan.option import entries, grouped
from gpuplan.plan.read import pins, question
from gpuplan.search.idle_money import with_idle_money
from gpuplan.search.library import Library
from gpuplan.specs.catalog import Catalog
from gpuplan.specs.engine_era import split_name
from gpuplan.units import UnitError, example, within

Question = TypeVar("Question", bound=Common)


def answered(task: str, given: Mapping[str, Any], *, advise: bool = True, keep: bool = False) -> Estimate:
    """The answer to the question that the options of a task ask, by their names in Python; see `gpuplan.plan.read.question`.

    Without `advise`, no changes that would help are looked for. With `keep`, what is read stays in the library of the process,
    which must last longer than this question to be worth it.

    Raises:
        GpuplanError: whatever is wrong with the question or unknown to the data.
    """
    asked = question(ASKS[task], given)
    made = estimated(asked, advise=advise, library=Library.shared(asked.specs, calibrated=bool(asked.calibrated)) if keep else None)
    check_units(made, given.get("set"))
    return made


def of_each(asks: Mapping[str, Common], library: Library, *, advise: bool = False) -> dict[str, Estimate | GpuplanError]:
    """The answer or the error of each machine; `asks` has one question for each, alike but for `on`."""
    if not advise and all(at_once(ask) for ask in asks.values()):
        from gpuplan.search.on_targets import on_targets

        found = on_targets(asks, library)
        told = {place: with_idle_money(asks[place], one) for place, one in found.estimates().items()}
        made: dict[str, Estimate | GpuplanError] = {**found.refused, **told}
        return {place: made[place] for place in asks}
    made = {}
    for place, ask in asks.items():
        try:
            made[place] = estimated(ask, advise=advise, library=library)
        except GpuplanError as error:
            made[place] = error
    return made


def at_once(ask: Common) -> bool:
    """Whether the figures of many machines can be had together: of training by tokens, and of serving.

    Raises:
        UsageError: options that mean nothing in such a question.
    """
    if isinstance(ask, TrainAsk) and ask.rl is None and not by_samples(ask):
        _only_with_rl(ask)
        return True
    if not isinstance(ask, ServeAsk) or ask.host_memory is not None or ask.host_bandwidth is not None:
        return False  # Each machine leaves another part of a model to its host.
    return not (ask.is_simulated or disaggregated(ask) or _makes_pictures(ask))


def _makes_pictures(ask: Common) -> bool:
    """Whether a question is about a diffusion model."""
    from gpuplan.models.catalog import CARDS
    from gpuplan.models.diffusion.glance import diffusion_path

    if (CARDS / f"{ask.model.lower()}.yaml").is_file():
        return False
    return diffusion_path(ask.model, [folder / "models" for folder in Catalog.open(ask.specs).folders[1:]]) is not None


def estimated(ask: Common, *, advise: bool = True, library: Library | None = None) -> Estimate:
    """The answer to a question of any task; parameters and errors as `answered`."""
    if isinstance(ask, FitAsk):
        return fit(ask, advise=advise, library=library)
    if isinstance(ask, TrainAsk):
        return _launched(ask, with_idle_money(ask, train(ask, advise=advise, library=library)))
    if isinstance(ask, ServeAsk):
        return _launched(ask, with_idle_money(ask, serve(ask, advise=advise, library=library)))
    raise TypeError(f"{type(ask).__name__} is no question")


def _launched(ask: TrainAsk | ServeAsk, made: Estimate) -> Estimate:
    """The answer, which has the launch that is asked for.

    Raises:
        UnknownError: it fits, and what starts such a plan is not on file.
    """
    if ask.emit is None or made.launch or not made.verdict.fits:
        return made
    what = "--emit: what starts such a plan is not on file (several workers, unlike accelerators, models by samples, rl, pictures)"
    raise UnknownError(Problem("emit.unknown", what, "leave --emit out"))


def check_units(made: Estimate, given: Any) -> None:
    """Refuse values of `--set` in another unit than their term's.

    Raises:
        UsageError: all of them together.
    """
    problems = []
    for name, value, unit in pins(given or ()):
        term = made.find(name)
        if term is None:
            hint = did_you_mean(name, made.names()) or "`--explain` shows the terms"
            problems.append(Problem("usage.set", f"--set {name}: the estimate has no such term", hint))
        elif unit not in ("", term.unit):
            what = f"--set {name}: the value is in {unit or '1'}, but the term is in {term.unit}"
            problems.append(Problem("usage.set", what, f"write for example `--set {name}='{example(term.unit)}'`"))
        else:
            try:
                within(value, term.unit, value)
            except UnitError as error:
                problems.append(Problem("usage.set", f"--set {name}: {error}"))
    if problems:
        raise UsageError(*problems)


def fit(ask: FitAsk, *, advise: bool = True, library: Library | None = None) -> Estimate:
    """Does it fit, what binds, and what would change the answer?

    Raises:
        GpuplanError: what is wrong with the question or unknown to the data.
    """
    _only_of_task(ask)
    if ask.task == "train":
        from gpuplan.search.no_pictures import refuse_pictures

        refuse_pictures(ask)
        common = {name: getattr(ask, name) for name in TrainAsk.field_names() if hasattr(ask, name)}
        asked = TrainAsk(**common | {"seq_len": ask.context, "global_batch": ask.batch})
        made = train(asked, options=_shared_with_training(), advise=advise, library=library)
        return made.replaced(advice=lambda: tuple(map(_as_fit, made.changes)))
    if _makes_pictures(ask):
        return _pictures(ask, advise, library)
    from gpuplan.search.no_pictures import refuse_pictures
    from gpuplan.search.serving import answer_fit

    refuse_pictures(ask)
    made = _advised(ask, answer_fit, "max_sequences", None, advise, library)
    if made.verdict.fits or not advise:
        return made
    return made.replaced(advice=lambda: _with_host(ask, made, Library.of(ask) if library is None else library))


def _with_host(ask: FitAsk, made: Estimate, library: Library) -> tuple[Change, ...]:
    """What makes a model fit for serving; one user of a card may have a part of it in the host's memory, which `serve` asks."""
    from gpuplan.search.changes import MOST, Relief, fitting_changes
    from gpuplan.search.serving import answer_serving
    from gpuplan.search.serving_engine import LAYERED, of_one_user

    changes, named, other = made.changes, made.question["engine"], of_one_user(ask, library.target(ask.on))
    relief = Relief.of(library.engine(split_name(named)[0])[0])._replace(weights=(), kv_cache=())
    if not (layered := LAYERED & {*relief.hosted}):
        relief = relief._replace(alone=None if other == named else other)
    if not (layered or relief.alone) or any("engine" in one.flags for one in changes):
        return changes
    shared = {name: getattr(ask, name) for name in ServeAsk.field_names() if hasattr(ask, name)}
    served = ServeAsk(**shared | {"context": int(made.question["context"]), "batch": ask.batch or 1})
    options = {"engine", *(name.replace("_", "-") for name in LAYERED)}
    hosted = fitting_changes(served, lambda one: answer_serving(one, library), options, relief=relief)
    return (*changes[:1], *(one.replaced(command="serve") for one in hosted[:1]), *changes[1:])[:MOST]


def _shared_with_training() -> frozenset[str]:
    """Options of a training question that `fit` has too, under its own name or another."""
    own = {one.flag[2:] for name, one in entries(FitAsk).items() if name in TrainAsk.field_names()}
    return frozenset(own | {"seq-len", "global-batch"})


def train(
    ask: TrainAsk, *, options: Collection[str] | None = None, advise: bool = True, library: Library | None = None
) -> Estimate:
    """How fast, how long, how dear is a training run? Changes that help are told in `options`; None: in all.

    Raises:
        GpuplanError: what is wrong with the question or unknown to the data.
    """
    if by_samples(ask):
        from gpuplan.search.samples import answer_samples

        return _advised(ask, answer_samples, "samples_per_s", options, advise, library)
    if ask.rl is not None:
        from gpuplan.search.rl import answer_rl

        return _advised(ask, answer_rl, "tokens_per_s", options, advise, library)
    _only_with_rl(ask)
    from gpuplan.search.changes import WORTH
    from gpuplan.search.trail import Trail
    from gpuplan.search.training import answer_training

    trail = Trail()

    def changed(other: TrainAsk, read: Library) -> Estimate:
        return answer_training(other, read, trail=trail.after(WORTH))

    first, rough = partial(answer_training, trail=trail), partial(answer_training, roughly=True)
    return _advised(ask, first, "tokens_per_s", options, advise, library, rough, changed=changed)


def by_samples(ask: TrainAsk) -> bool:
    """Whether the model is given by its samples: described in the question, or of a card of that kind."""
    if any(getattr(ask, name) is not None for name in grouped(TrainAsk, "described")):
        return True
    from gpuplan.models.catalog import CARDS

    if (CARDS / f"{ask.model.lower()}.yaml").is_file():
        return False
    from gpuplan.models.generic import generic_path

    return generic_path(ask.model, [folder / "models" for folder in Catalog.open(ask.specs).folders[1:]]) is not None


def serve(ask: ServeAsk, *, advise: bool = True, library: Library | None = None) -> Estimate:
    """How fast is serving, how many sequences fit, and what does a token cost?

    Raises:
        GpuplanError: what is wrong with the question or unknown to the data.
    """
    if _makes_pictures(ask):
        return _pictures(ask, advise, library)
    from gpuplan.search.no_pictures import refuse_pictures
    from gpuplan.search.serving import answer_serving

    refuse_pictures(ask)
    read = Library.of(ask) if library is None else library
    ask, placed = _spilled(ask, read)
    made = _advised(ask, answer_serving, "tokens_per_s", None, advise and not ask.is_simulated, read)
    return made if placed is None else made.replaced(chosen=(*made.chosen, placed))


def _spilled(ask: ServeAsk, library: Library) -> tuple[ServeAsk, Choice | None]:
    """The question with a part of the model in the memory of the host, where that is told of and needed; errors as `serve`."""
    if ask.host_memory is None and ask.host_bandwidth is None and not ask.commanded:
        return ask, None
    from gpuplan.search.spill import spilled

    return spilled(ask, library)


def _pictures(ask: ServeAsk | FitAsk, advise: bool, library: Library | None) -> Estimate:
    """The answer about a diffusion model, which looks for changes of its own."""
    from gpuplan.search.diffusion import answer_diffusion

    read = Library.of(ask) if library is None else library
    return _advised(ask, partial(answer_diffusion, advise=advise), "", None, False, read)


def _of_pins(given: Mapping[str, float], problem: Problem) -> Problem:
    """What is impossible as a fault of the user's values of terms, which physics need not allow."""
    said = ", ".join(f"{name} = {value:g}" for name, value in given.items())
    return Problem("set.impossible", f"--set: nothing comes of {said} ({problem.message})", "use other values")


def _as_fit(change: Change) -> Change:
    """A change of a training question in the options of `fit`."""
    names = {"seq-len": "context", "global-batch": "batch"}
    return Change({names.get(flag, flag): value for flag, value in change.flags.items()}, change.effect)


def _only_of_task(ask: FitAsk) -> None:
    """Refuse values that belong to the other task, rather than leave them out of the answer.

    Raises:
        UsageError: all of them together.
    """
    other = grouped(FitAsk, "train" if ask.task == "serve" else "serve")
    hint = "add --task train" if ask.task == "serve" else "use --precision and --optimizer, or leave --task out"
    wrong = [entries(FitAsk)[name].flag for name in other if getattr(ask, name) is not None]
    if wrong:
        raise UsageError(*(Problem("fit.other-task", f"{flag} means nothing to `fit --task {ask.task}`", hint) for flag in wrong))


def _only_with_rl(ask: TrainAsk) -> None:
    """Refuse options of reinforcement learning without `--rl`.

    Raises:
        UsageError: all of them together.
    """
    flags = [entries(TrainAsk)[name].flag for name in grouped(TrainAsk, "rl") if getattr(ask, name) is not None]
    if flags:
        hint = "add --rl grpo or --rl ppo, or leave it out"
        raise UsageError(Problem("rl.no-method", f"{', '.join(flags)}: of reinforcement learning", hint))


def _advised(
    ask: Question,
    answer: Callable[[Question, Library], Estimate],
    figure: str,
    options: Collection[str] | None,
    advise: bool,
    library: Library | None,
    roughly: Callable[[Question, Library], Estimate] | None = None,
    *,
    changed: Callable[[Question, Library], Estimate] | None = None,
) -> Estimate:
    """The answer, which looks for the three smallest changes that help once they are read: towards fitting, or more of a figure.

    `roughly` is a faster answer that says as well whether something fits, `changed` one that says as well whether something that
    differs little from the question is better.
    """
    read = Library.of(ask) if library is None else library
    advise = advise and getattr(ask, "emit", None) is None  # A launch stands alone.

    def again(changed: Question, by: Callable[[Question, Library], Estimate] = answer) -> Estimate:
        try:
            made = by(changed, read)
            if changed.pins:
                _ = made.ranges  # whose ends values of terms may carry beyond what is possible
            return made
        except (ImpossibleError, ArithmeticError) as error:
            problems = error.problems if isinstance(error, ImpossibleError) else [Problem("bug.impossible", str(error), REPORT)]
            if not changed.pins:
                raise ImpossibleError(*problems) from error
            raise UsageError(*(_of_pins(changed.pins, problem) for problem in problems)) from None

    made = again(ask)
    if not advise:
        return made
    # Changes are of the checkpoint that was answered for, also where it has gone when they are looked for.
    read = read.as_read(ask.model)

    def advice() -> tuple[Change, ...]:
        from gpuplan.search.changes import Relief, better_changes, fitting_changes
        from gpuplan.search.serving_engine import of_one_user

        named = made.question.get("engine") if isinstance(ask, (ServeAsk, FitAsk)) else None
        relief = Relief() if named is None else Relief.of(read.engine(split_name(named)[0])[0])
        if made.verdict.fits:
            return better_changes(ask, made, partial(again, by=changed or answer), figure, options, relief=relief)
        if isinstance(ask, (ServeAsk, FitAsk)) and (other := of_one_user(ask, read.target(ask.on))) != named:
            relief = relief._replace(alone=other)
        rough = None if roughly is None else partial(again, by=roughly)
        return fitting_changes(ask, again, options, roughly=rough, relief=relief, overloaded=made.verdict.overloaded)

    return made.replaced(advice=advice)
