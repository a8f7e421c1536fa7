"""Which questions does a file of scenarios ask, and what does it require of the answers? Strict: all that is wrong has its line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from gpuplan.errors import GpuplanError, Problem, SpecError, UsageError, did_you_mean
from gpuplan.plan.option import Entry
from gpuplan.plan.other_words import meant
from gpuplan.plan.read import read
from gpuplan.record import Record
from gpuplan.scenarios.asks import QUESTIONS, options_of
from gpuplan.scenarios.expression import Assertion
from gpuplan.search.variants import Axis, variants
from gpuplan.strict_yaml import LineMap, load_yaml

FORMAT = 1
TOP = ("format", "defaults", "scenarios")
OWN = ("ask", "about", "sweep", "require")
"""The keys of a scenario that are no options of its question."""
_FROM_HERE = ("specs", "trace")
"""Options that name files: from the folder of the file that names them."""
_LONGEST_NAME = 100


class Case(Record):
    """One question of a file: what it is called, its options, and what is required of its answer."""

    name: str
    scenario: str
    task: str
    given: Mapping[str, Any]
    changed: Mapping[str, str]
    require: tuple[Assertion, ...]
    where: str
    """The file and the line on which its scenario begins."""


class ScenarioFile(Record):
    """A file of scenarios that was read: the questions in order."""

    path: str
    cases: tuple[Case, ...]


def read_scenarios(path: Path) -> ScenarioFile:
    """The questions that a file asks; a sweep becomes one for each combination of its values.

    Raises:
        SpecError: the file cannot be read, or anything in it is wrong: all of it together, each with its line.
    """
    data, lines = load_yaml(path)
    reader = _Reader(path, lines)
    reader.top(data)
    if reader.problems:
        raise SpecError(*reader.problems)
    return ScenarioFile(str(path), tuple(reader.cases))


class _Reader:
    """Reads the parts of a file and collects what is wrong with them."""

    def __init__(self, path: Path, lines: LineMap) -> None:
        self.folder, self.lines = path.parent, lines
        self.problems: list[Problem] = []
        self.cases: list[Case] = []
        self.used: set[str] = set()

    def bad(self, at: tuple[str | int, ...], code: str, message: str, hint: str = "") -> None:
        self.problems.append(Problem(f"scenarios.{code}", message, hint, self.lines.where(at)))

    def top(self, data: Mapping[str, Any]) -> None:
        for key in data:
            if key not in TOP:
                hint = did_you_mean(key, TOP) or f"known here are {', '.join(TOP)}; questions stand under `scenarios`"
                self.bad((key,), "unknown-key", f"`{key}` is not a key gpuplan knows", hint)
        if data.get("format") != FORMAT or isinstance(data.get("format"), bool):
            self.bad(("format",), "format", f"`format: {FORMAT}` is missing", f"write `format: {FORMAT}` on the first line")
        defaults, scenarios = data.get("defaults") or {}, data.get("scenarios")
        if not isinstance(defaults, Mapping):
            self.bad(("defaults",), "wrong-type", "`defaults` is not a mapping", "write `option: value` lines below it")
            defaults = {}
        if not isinstance(scenarios, Mapping) or not scenarios:
            hint = "write `scenarios:` with `name: {ask: serve, model: …, on: …}` below it"
            self.bad(("scenarios",), "none", "there are no `scenarios`", hint)
            return
        for name, one in scenarios.items():
            if not isinstance(one, Mapping):
                hint = "write `ask: serve`, `model: …`, `on: …` below it"
                self.bad(("scenarios", name), "wrong-type", f"the scenario `{name}` is not a mapping", hint)
            elif len(name) > _LONGEST_NAME or not name.isprintable():
                self.bad(("scenarios", name), "name", "a name of more than 100 characters, or with unseen ones", "shorten it")
            else:
                self.scenario(name, one, defaults)
        for key in defaults:
            if key not in self.used:
                hint = did_you_mean(_key(key), self.options()) or "it is an option of no question of the file"
                self.bad(("defaults", key), "unknown-key", f"`defaults.{key}` is taken by no scenario", hint)

    def options(self) -> list[str]:
        return sorted({*OWN, *(key for ask in QUESTIONS for key in options_of(ask))})

    def scenario(self, name: str, own: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
        at = ("scenarios", name)
        task = own.get("ask", defaults.get("ask"))
        self.used.update(("ask",) if "ask" in defaults else ())
        if task not in QUESTIONS:
            what = f"`{name}` has no `ask`" if task is None else f"`{name}`: gpuplan has no question `{task}`"
            near = did_you_mean(task, QUESTIONS) if isinstance(task, str) else ""
            self.bad((*at, "ask"), "ask", what, near or f"write `ask:` with one of {', '.join(QUESTIONS)}")
            self.used.update(defaults)
            return
        before = len(self.problems)
        options = options_of(task)
        given = dict(self.given(at, own, options, task, own))
        shared = {key: one for key, one in defaults.items() if _key(key) in options or key in OWN}
        self.used.update(shared)
        given = dict(self.given(("defaults",), shared, options, task, own)) | given
        given = {key: value for key, value in given.items() if value is not None}
        axes = list(self.axes(at, own, defaults, options, task))
        swept = {axis.key for axis in axes}
        for key in swept & {_key(key) for key in own}:
            self.bad((*at, "sweep"), "twice", f"`{key}` stands beside the sweep and in it", "leave it out beside the sweep")
        require = tuple(self.required(at, own)) + tuple(self.required(("defaults",), defaults))
        for key in ("model", "on"):
            unnamed = key == "model" and given.get("command") is not None
            wanted = key in options and (key == "model" or options[key].required)  # A plan needs no `on`.
            if wanted and key not in given and key not in swept and not unnamed:
                self.bad(at, "missing-key", f"`{name}` has no `{key}`", f"write `{key}:` there, in `defaults` or in its `sweep`")
        if len(self.problems) > before:
            return
        given = {key: value for key, value in given.items() if key not in swept}
        try:
            every = variants(given, axes) if axes else None
        except GpuplanError as error:
            for problem in error.problems:
                self.bad((*at, "sweep"), "sweep", problem.message, problem.hint)
            return
        where = self.lines.where(at)
        if every is None:
            self.cases.append(Case(name, name, task, given, {}, require, where))
        else:
            self.cases += [Case(f"{name}: {one.name}", name, task, one.given, one.changed, require, where) for one in every]

    def given(
        self, at: tuple[str | int, ...], part: Mapping[str, Any], options: Mapping[str, Entry], task: str, own: Mapping[str, Any]
    ) -> Iterator[tuple[str, Any]]:
        """The options of a part of the file, each checked by itself; None takes a default away."""
        for key, value in part.items():
            if key in OWN:
                continue
            entry = options.get(_key(key))
            if entry is None:
                hint = (
                    meant(key, options, task)
                    or did_you_mean(_key(key), (*OWN, *options))
                    or f"`gpuplan {task} --help` shows what there is"
                )
                self.bad((*at, key), "unknown-key", f"`{key}` is no option of `{task}`", hint)
            elif value is None:
                yield entry.key, None
            elif (value := self.read((*at, key), entry, value)) is not None:
                yield entry.key, value

    def axes(
        self,
        at: tuple[str | int, ...],
        own: Mapping[str, Any],
        defaults: Mapping[str, Any],
        options: Mapping[str, Entry],
        task: str,
    ) -> Iterator[Axis]:
        """The axes of a scenario's sweep, or of that of the defaults where it has none."""
        place, sweep = ((*at, "sweep"), own["sweep"]) if "sweep" in own else (("defaults", "sweep"), defaults.get("sweep"))
        if sweep is None:
            return
        if not isinstance(sweep, Mapping):
            self.bad(place, "wrong-type", "`sweep` is not a mapping", "write `sweep: {on: [h100, h200]}`")
            return
        for key, values in sweep.items():
            entry = options.get(_key(key))
            if entry is None:
                hint = did_you_mean(_key(key), options) or f"`gpuplan {task} --help` shows what there is"
                self.bad((*place, key), "unknown-key", f"`{key}` is no option of `{task}`", hint)
                continue
            if not isinstance(values, Sequence) or isinstance(values, str):
                self.bad((*place, key), "wrong-type", f"`sweep.{key}` is not a list", f"write `{key}: [{values}, …]`")
                continue
            found = [self.read((*place, key, index), entry, value) for index, value in enumerate(values)]
            if all(value is not None for value in found):
                try:
                    yield Axis.along(entry, entry.key, found)
                except GpuplanError as error:
                    for problem in error.problems:
                        self.bad((*place, key), "sweep", problem.message, problem.hint)

    def read(self, at: tuple[str | int, ...], entry: Entry, value: Any) -> Any:
        """A value as the question takes it; None where it is wrong."""
        if entry.key in _FROM_HERE or (entry.key == "model" and isinstance(value, str) and value.startswith(("./", "../"))):
            value = self.from_here(value)
        try:
            if entry.option.reads == "pins":
                value = {str(term): one for term, one in value.items()} if isinstance(value, Mapping) else value
            read(entry, value)
        except GpuplanError as error:
            self.problems += [Problem(one.code, one.message, one.hint, self.lines.where(at)) for one in error.problems]
            return None
        except (TypeError, ValueError, AttributeError):
            self.bad(at, "wrong-type", f"`{entry.key}` is not written as it must be", f"it takes a value such as `{entry.example}`")
            return None
        return list(value) if isinstance(value, tuple) else value

    def from_here(self, value: Any) -> Any:
        if isinstance(value, tuple):
            return [self.from_here(one) for one in value]
        return str(self.folder / value) if isinstance(value, str) else value

    def required(self, at: tuple[str | int, ...], part: Mapping[str, Any]) -> Iterator[Assertion]:
        """The assertions of a part: one, or a list of them."""
        value = part.get("require")
        if value is None:
            return
        texts = value if isinstance(value, tuple) else (value,)
        for index, text in enumerate(texts):
            place = (*at, "require", index) if isinstance(value, tuple) else (*at, "require")
            try:
                yield Assertion.of(str(text).lower() if isinstance(text, bool) else text, self.lines.where(place))
            except UsageError as error:
                self.problems += error.problems


def _key(key: str) -> str:
    """An option by its name in Python; `--` in front and dashes are forgiven."""
    return key.removeprefix("--").replace("-", "_")
