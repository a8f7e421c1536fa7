"""The Python API: what do `gpuplan.fit`, `train`, `serve` and `compare` answer, and what can be asked of an answer?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from math import isnan
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, Unpack

from gpuplan.errors import GpuplanError, Note, Problem, UsageError, did_you_mean
from gpuplan.estimate.result import Change, Choice, Estimate
from gpuplan.estimate.winner import Winner, winners
from gpuplan.plan.ask import ASKS
from gpuplan.plan.keywords import FitOptions, TrainOptions
from gpuplan.plan.keywords_serve import ServeOptions
from gpuplan.plan.option import by_key
from gpuplan.plan.read import pins
from gpuplan.record import Record
from gpuplan.search.ask import answered

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gpuplan.estimate.runnable import WhatRuns
    from gpuplan.estimate.standing import Standing
    from gpuplan.render.json import EstimateJson
    from gpuplan.search.sweep import Swept

TaskName: TypeAlias = Literal["fit", "train", "serve"]
Model: TypeAlias = str | PathLike[str]
"""A card's name, a Hugging Face id, an Ollama name, or the path of a config.json, a safetensors or GGUF file, or a folder."""


class Figure(Record):
    """A figure of an answer in base units, with the range that it lies in."""

    value: float
    unit: str
    low: float
    high: float

    def __float__(self) -> float:
        return self.value


def figures_of(estimate: Estimate) -> dict[str, Figure]:
    """The figures of an estimate with their ranges, by name."""
    return {key: Figure(float(one.value), one.unit, *estimate.ranges[key]) for key, one in estimate.figures.items()}


def figure_of(figures: Mapping[str, Figure], name: str) -> Figure:
    """A figure by its name.

    Raises:
        UsageError: there is none of that name; the hint says what is near.
    """
    if name not in figures:
        hint = did_you_mean(name, figures) or f"figures are {', '.join(figures)}"
        raise UsageError(Problem("answer.no-figure", f"the answer has no figure `{name}`", hint))
    return figures[name]


class Asked(Record):
    """A question as it was asked: of which function, with which options, and whether changes that help were wanted."""

    task: str
    options: Mapping[str, Any]
    advise: bool

    def answered(self, **changed: Any) -> Answer:
        """The answer, with some options changed; errors as `gpuplan.train`."""
        asked = Asked(self.task, {**self.options, **changed}, self.advise)
        return Answer(answered(asked.task, asked.options, advise=asked.advise, keep=True), asked)


class Answer:
    """What an estimate says: whether it fits, its figures with their ranges, and how each was made."""

    def __init__(self, estimate: Estimate, asked: Asked) -> None:
        self.estimate = estimate
        """The estimate itself, every number of which is a term."""
        self.asked = asked

    @property
    def task(self) -> str:
        """What was asked: `fit`, `train` or `serve`."""
        return self.estimate.task

    @property
    def fits(self) -> bool:
        """Whether memory is enough."""
        return self.estimate.verdict.fits

    @property
    def narrowly(self) -> bool:
        """Whether it is enough as expected, but not at the high end of what may be needed."""
        return self.estimate.verdict.narrowly

    @property
    def headline(self) -> str:
        """The verdict in one line: how much of the memory is taken, and what binds."""
        return self.estimate.verdict.headline

    @property
    def question(self) -> Mapping[str, str]:
        """What was asked and settled, as text."""
        return self.estimate.question

    @cached_property
    def figures(self) -> Mapping[str, Figure]:
        """The figures by name, which ends in the unit: `step_time_s`, `peak_memory_bytes`, `mfu` and so on."""
        return figures_of(self.estimate)

    @property
    def chosen(self) -> Mapping[str, Choice]:
        """What was left open and gpuplan chose, by name, each with the reason."""
        return {one.name: one for one in self.estimate.chosen}

    @property
    def changes(self) -> tuple[Change, ...]:
        """The smallest changes that make it fit, or make it better; looked for when first read, none without `advise`."""
        return self.estimate.changes

    @property
    def notes(self) -> tuple[Note, ...]:
        """What a reader should know: assumptions, prices, limits."""
        return self.estimate.notes

    def __getitem__(self, figure: str) -> Figure:
        """A figure by its name.

        Raises:
            UsageError: there is none of that name; the hint says what is near.
        """
        return figure_of(self.figures, figure)

    def explain(self, term: str | None = None, *, depth: int | Literal["all"] | None = None, width: int = 100) -> str:
        """The working of a figure or of any term below it, down to its sources; of all figures where none is named.

        `depth` are its levels, or "all"; None: all of them where they are not more than a reader may search through.

        Raises:
            UsageError: no such term, or several that could be meant.
        """
        from gpuplan.render.text import Look
        from gpuplan.render.working import ALL, working

        return working(self.estimate, term, Look(width), ALL if depth == "all" else depth)

    def given(self, values: Mapping[str, Any] | None = None, /, **more: Any) -> Answer:
        """The answer to the same question with values of your own for some terms, as `set` takes them.

        >>> answer = fit("llama-3.1-8b", on="h100")
        >>> answer.given({"hw.memory_capacity": "10 GiB"}).fits
        False

        Raises:
            GpuplanError: no such term, a value in another unit, or one that nothing comes of.
        """
        before = {name: value for name, value, _ in pins(self.asked.options.get("set") or ())}
        return self.asked.answered(set={**before, **(values or {}), **more})

    def to_dict(self) -> EstimateJson:
        """The published document (`gpuplan specs schema estimate`), as `--json=full` prints it."""
        from gpuplan.render.json import document

        return document(self.estimate)

    def __str__(self) -> str:
        from gpuplan.render.screen import screen
        from gpuplan.render.text import Look

        return screen(self.estimate, Look(100))

    def __repr__(self) -> str:
        from gpuplan.render.text import label, shown

        asked = self.question
        main = list(self.estimate.figures.items())[:2]
        figures = ", ".join(f"{label(key)} {shown(key, float(one.value), one.unit)}" for key, one in main)
        return f"<gpuplan {self.task} {asked['model']} on {asked['on']}: {self.estimate.verdict.words}, {figures}>"

    def _repr_html_(self) -> str:
        from gpuplan.render.html import estimate_html

        return estimate_html(self.estimate)


class Comparison(Mapping[str, Answer]):
    """The answers to several questions by what tells them apart, the best first, and why others have none."""

    def __init__(self, task: str, order: Sequence[Standing], asked: Mapping[str, Asked]) -> None:
        self.task = task
        self.order = tuple(order)
        """The answers in order, each with how far it is behind the first and why; at the end those without an answer."""
        self._answers = {one.name: Answer(one.answer, asked[one.name]) for one in order if one.answer is not None}
        self.refused = {one.name: one.error for one in order if one.error is not None}
        """The questions without an answer, each with the error that says why."""

    def __getitem__(self, on: str) -> Answer:
        return self._answers[on]

    def __iter__(self) -> Iterator[str]:
        return iter(self._answers)

    def __len__(self) -> int:
        return len(self._answers)

    @property
    def winners(self) -> tuple[Winner, ...]:
        """The best of those that fit, by speed and by cost, or by room where neither is told; none of one alone."""
        return winners({name: one.estimate for name, one in self.items()})

    def to_dict(self) -> dict[str, Any]:
        """What `gpuplan compare --json` prints: winners, rows in order, and reasons."""
        from gpuplan.render.compare_data import comparison_document

        return comparison_document(self.task, self.order)

    def __str__(self) -> str:
        from gpuplan.render.compare_screen import comparison_screen
        from gpuplan.render.text import Look

        return comparison_screen(self.order, Look(100))

    def __repr__(self) -> str:
        verdicts = [f"{on}: {one.estimate.verdict.words}" for on, one in self.items()]
        return f"<gpuplan comparison {', '.join([*verdicts, *(f'{on}: no answer' for on in self.refused)])}>"

    def _repr_html_(self) -> str:
        from gpuplan.render.html import comparison_html

        return comparison_html({on: one.estimate for on, one in self.items()})


def fit(model: Model, /, *, on: str, advise: bool = True, **options: Unpack[FitOptions]) -> Answer:
    """Does a model fit on accelerators, with how much room, and what would change the answer?

    `options` are those of `gpuplan fit`, with `_` for `-`; a value is a number in base units, or the text that the command line
    takes. Without `advise` an answer has no changes that help; with it they are looked for once they are read.

    >>> fit("llama-3.1-8b", on="h100", context="32k").fits
    True

    Raises:
        UsageError: a name that no option has, or values that are wrong: all of them together.
        UnknownError: a model, a machine or a rate that is not known.
        PlanError: values that cannot be together.
    """
    return _asked("fit", model, on, options, advise=advise).answered()


def train(model: Model, /, *, on: str, advise: bool = True, **options: Unpack[TrainOptions]) -> Answer:
    """How much memory, time, money and energy does a training run take? Options and errors as `fit`.

    >>> answer = train("llama-3.1-8b", on="8xh100", tokens=15e12, advise=False)
    >>> answer.fits, answer.figures["mfu"].unit, sorted(answer.chosen)[:3]
    (True, '1', ['cp', 'dp', 'global_batch'])
    """
    return _asked("train", model, on, options, advise=advise).answered()


def serve(model: Model | None = None, /, *, on: str, advise: bool = True, **options: Unpack[ServeOptions]) -> Answer:
    """How fast are prefill and decode, how many sequences fit at once, what do tokens cost? Options and errors as `fit`.

    The model may be left out where a `command` names it.

    >>> serve("llama-3.1-70b", on="4xh100", prompt=2000, output=300, advise=False)["ttft_s"].unit
    's'
    """
    return _asked("serve", model, on, options, advise=advise).answered()


def compare(
    task: Callable[..., Answer] | TaskName, model: Model | Sequence[Model], /, *, on: str | Sequence[str], advise: bool = False,
    by: str | None = None, **options: Any,
) -> Comparison:  # fmt: skip
    """Several questions side by side: `compare(gpuplan.serve, "llama-3.1-70b", on=["4xh100", "8xl40s"], weights=["bf16", "fp8"])`.

    The model and any option may be a list of values, of which every combination is asked, 400 at most; `set` may have a list for a
    term. The answers are in order, the fastest first, or by the figure `by`. A question that cannot be answered does not hide the
    others: it is among `refused`, with the error.

    Raises:
        GpuplanError: the question is wrong, or there is no answer at all.
    """
    from gpuplan.estimate.standing import standings
    from gpuplan.search.variants import PIN, Axis, answers, variants

    name = name_of(task)
    _ = _asked(name, None, "", options)
    models = fspath(model) if isinstance(model, (str, PathLike)) else [fspath(one) for one in model]
    every = {"model": models, "on": on, **options}
    pins = options.get("set")
    terms = pins if isinstance(pins, Mapping) else {}
    several = {term: values for term, value in terms.items() if (values := _axis(name, term, value)) is not None}
    if several:
        every["set"] = {term: value for term, value in terms.items() if term not in several}
    axes = [Axis.of(name, key, values) for key, value in every.items() if (values := _axis(name, key, value)) is not None]
    axes += [Axis.of(name, f"{PIN}{term}", values) for term, values in several.items()]
    if not axes:
        axes = [Axis.of(name, "on", [on])]
    given = {key: value for key, value in every.items() if key not in (axis.key for axis in axes)}
    asked = variants(given, axes)
    made = answers(name, asked, advise=advise, keep=True)
    if not any(isinstance(one, Estimate) for one in made.values()):
        raise next(one for one in made.values() if isinstance(one, GpuplanError))
    order = standings(made, {one.name: one.changed for one in asked}, by)
    return Comparison(name, order, {one.name: Asked(name, one.given, advise) for one in asked})


def what_runs(*texts: str, on: str, **options: Any) -> WhatRuns:
    """The models of the catalog that run on a machine for one user, as `gpuplan what-runs`; `texts` must occur in their names.

    >>> found = what_runs("llama-3", on="rtx-4090", context="16k")
    >>> found.engine, found.runs[0].longest >= 16384
    ('llama.cpp', True)

    Raises:
        GpuplanError: an option is wrong, or the machine or engine is not known.
    """
    from gpuplan.plan.read import question
    from gpuplan.plan.what_runs import WhatRunsAsk
    from gpuplan.search.library import Library
    from gpuplan.search.what_runs import what_runs as found

    asked = question(WhatRunsAsk, {"on": on, **options})
    return found(asked, Library.shared(asked.specs, calibrated=bool(asked.calibrated)), texts)


class Grid(dict[str, "NDArray[Any]"]):
    """Columns of one length, a row for each combination of values; `pandas.DataFrame(grid)` takes it as it is.

    First come the options: the axes, and what was chosen for each row because it was left open. Then `legal` (whether there is
    such a plan) and `fits`, and the figures in base units, which are NaN where `legal` is false or a plan has no such figure.
    """

    def __init__(self, found: Swept, asked: Asked) -> None:
        order = (*found.axes, *(key for key in found.columns if key not in found.axes))
        options = {key: found.columns[key] for key in order if key not in found.units}
        figures = {key: one for key, one in found.columns.items() if key in found.units}
        columns = {**options, "legal": found.legal, "fits": found.fits, **figures}
        super().__init__({key: one.reshape(-1) for key, one in columns.items()})
        self.axes: Mapping[str, tuple[Any, ...]] = found.axes
        """The values of each axis; the last one runs fastest."""
        self.units: Mapping[str, str] = found.units
        """The base unit of each figure."""
        self.options: tuple[str, ...] = tuple(options)
        """The columns that say what a row is."""
        self._asked = asked

    @property
    def shape(self) -> tuple[int, ...]:
        """How many values each axis has."""
        return tuple(len(one) for one in self.axes.values())

    def array(self, column: str) -> NDArray[Any]:
        """A column with one dimension for each axis.

        Raises:
            UsageError: there is none of that name.
        """
        if column not in self:
            hint = did_you_mean(column, self) or f"there are {', '.join(self)}"
            raise UsageError(Problem("grid.no-column", f"the grid has no column `{column}`", hint))
        return self[column].reshape(self.shape)

    def answer(self, row: int) -> Answer:
        """The answer to the question of a row, with all of its working; errors as `gpuplan.train`."""
        values = {key: self[key][row] for key in self.options}
        left_out = [key for key, value in values.items() if value is None or (isinstance(value, float) and isnan(value))]
        return self._asked.answered(**{key: value for key, value in values.items() if key not in left_out})

    def __repr__(self) -> str:
        axes = " x ".join(f"{len(one)} {key}" for key, one in self.axes.items())
        return f"<gpuplan grid of {axes}: {self['legal'].sum():,} legal, {self['fits'].sum():,} fit, {len(self.units)} figures>"


def grid(
    task: Callable[..., Answer] | TaskName, model: Model | Sequence[Model], /, *, on: str | Sequence[str], **options: Any
) -> Grid:  # fmt: skip
    """The figures of many questions at once: model and options may be sequences or arrays of values, and each makes an axis.

    `grid(gpuplan.train, "llama-3.1-8b", on="8xh100", tp=[1, 2, 4], micro_batch=np.array([1, 2]))` has six rows, each answered as
    its question is alone. Where rows leave nothing to choose (training: `pp`, `vpp` and what else the engine splits,
    `micro_batch`, `global_batch` and `recompute` are given; serving: `tp`, `pp`, `batch` and lengths), degrees, batches, lengths,
    recomputation, ZeRO stage and precision go through one estimate as arrays. Other rows are asked one by one.

    Raises:
        GpuplanError: as `train`; an axis without values; or no combination of which there is a plan.
    """
    from gpuplan.search.sweep import sweep

    name = name_of(task)
    models = fspath(model) if isinstance(model, (str, PathLike)) else [fspath(one) for one in model]
    every = {"model": models, "on": on, **options}
    axes = {key: values for key, value in every.items() if (values := _axis(name, key, value)) is not None}
    given = {key: value for key, value in every.items() if key not in axes}
    if not axes:
        hint = "give one or more of the options several values, such as `tp=[1, 2, 4]`"
        raise UsageError(Problem("grid.no-axis", "no option has several values", hint))
    return Grid(sweep(name, given, axes, keep=True), Asked(name, given, False))


def _axis(task: str, key: str, value: Any) -> list[Any] | None:
    """The values of an option that has several; of options that take several words, those are in a list of lists."""
    entry = by_key(ASKS[task]).get(key)
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        return None
    values = value.tolist() if hasattr(value, "tolist") else list(value)
    if entry is not None and entry.kind in ("words", "texts") and not any(isinstance(one, (list, tuple)) for one in values):
        return None
    return values if isinstance(values, list) else [values]


def name_of(task: Callable[..., Answer] | str) -> str:
    """The name of a task, from one of the functions `fit`, `train` and `serve` or as it is.

    Raises:
        UsageError: it is none of them.
    """
    name = task if isinstance(task, str) else getattr(task, "__name__", repr(task))
    if name not in ASKS or (callable(task) and task is not globals()[name]):
        hint = did_you_mean(name, ASKS) or f"use gpuplan.{', gpuplan.'.join(ASKS)}"
        raise UsageError(Problem("usage.task", f"`{name}` is no task", hint))
    return name


def _asked(task: str, model: Model | None, on: str, options: Mapping[str, Any], *, advise: bool = True) -> Asked:
    twice = [Problem("usage.twice", f"`{name}` is a parameter of its own") for name in ("model",) if name in options]
    if twice:
        raise UsageError(*twice)
    return Asked(task, {"model": None if model is None else fspath(model), "on": on, **options}, advise)


def _spelt(function: Callable[..., Answer]) -> None:
    """Give a function the signature with all of its options, for `help` and for the completion of notebooks."""
    from inspect import Parameter, Signature, signature

    made: Any = function
    own = [one for one in signature(function).parameters.values() if one.kind is not Parameter.VAR_KEYWORD]
    names = [name for name in by_key(ASKS[made.__name__]) if name not in ("model", "on")]
    made.__signature__ = Signature([*own, *(Parameter(name, Parameter.KEYWORD_ONLY, default=None) for name in names)])


for _function in (fit, train, serve):
    _spelt(_function)
