"""Which question does `gpuplan serve` ask with an engine's own arguments, or with a whole command that starts an engine?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpuplan.errors import Note, Problem, UsageError
from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.plan.launch.arguments import Heard
from gpuplan.plan.launch.sets import Options, options
from gpuplan.plan.launch.shell import commands
from gpuplan.plan.launch.started import Started, started
from gpuplan.plan.option import by_key
from gpuplan.plan.read import ENGINES_OWN, read
from gpuplan.specs.arguments import EngineArguments
from gpuplan.specs.catalog import Catalog, key
from gpuplan.specs.engine_era import split_name
from gpuplan.units import brief

HIDDEN = ("spread_experts", "as_model", "as_engine", "commanded", "placed", "heard")
"""What such words say beyond what an option can."""


def commanded(given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a question whose engine's own words are read: as they were typed, with what the words say beside them.

    Raises:
        UsageError: words that cannot be read, or that contradict other options; all of it together.
        UnknownError: no such engine.
    """
    texts = {name: given.get(name) for name in ENGINES_OWN}
    for name, text in texts.items():
        if text is not None and not isinstance(text, str):
            raise UsageError(Problem("usage.value", f"--{name.replace('_', '-')} {brief(repr(text))}: a text is wanted"))
    if texts["command"] is not None and texts["engine_args"] is not None:
        hint = "put the arguments into the command"
        raise UsageError(Problem("command.both", "--command and --engine-args say the same thing in two ways", hint))
    catalog = Catalog.open(_folders(given))
    tables = [catalog.load(EngineArguments, ident) for ident in catalog.paths("arguments")]
    if texts["command"] is not None:
        run, whole = _of_command(_text(str(texts["command"])), tables, given, catalog), True
    else:
        run, whole = _of_arguments(str(texts["engine_args"]), tables, given, catalog), False
    heard = _heard(run)
    if whole:
        for name, text in run.table.unsaid.items():
            if name not in by_key(ServeAsk):
                heard.sets.setdefault(name, (text, f"{run.table.name} without --{name}"))
    made = options(heard.sets, lora=run.table.lora, tags=run.table.tags)
    said = {name: value for name, value in given.items() if name not in ENGINES_OWN}
    return _merged(said, made, heard, run, whole=whole)


def _text(given: str) -> str:
    """The command itself, from a file (`@start.sh`) or from standard input (`-`) too.

    Raises:
        UsageError: a file that cannot be read.
    """
    if given.strip() == "-":
        from gpuplan.files.stream import typed

        return typed()
    if given.startswith("@"):
        from gpuplan.files.read import text_of

        return text_of(Path(given[1:]), code="command")
    return given


def _folders(given: Mapping[str, Any]) -> tuple[Path, ...]:
    folders = given.get("specs") or ()
    every: Sequence[Any] = (folders,) if isinstance(folders, (str, Path)) else tuple(folders)
    return tuple(Path(one) for one in every)


def _of_command(text: str, tables: Sequence[EngineArguments], given: Mapping[str, Any], catalog: Catalog) -> Started:
    """The engine that a command starts.

    Raises:
        UsageError: it starts none, or another than `--engine` names.
    """
    run = started(text, tables)
    named = given.get("engine")
    if named:
        name, release = split_name(str(named))
        if _engine(name, catalog) != run.table.engine:
            what = f"--engine {brief(name)}, but the command starts {run.table.name}"
            raise UsageError(Problem("command.engine", what, "leave --engine out, or name the engine of the command"))
        if release and run.release and release != run.release:
            what = f"--engine {brief(str(named))}, but the command's container holds {run.table.name} {run.release}"
            raise UsageError(Problem("command.engine", what, "leave one of them out"))
        run = run.replaced(release=release or run.release)
    return run


def _of_arguments(text: str, tables: Sequence[EngineArguments], given: Mapping[str, Any], catalog: Catalog) -> Started:
    """The arguments of the engine that `--engine` names.

    Raises:
        UsageError: none is named, or its arguments are not on file, or they are a whole command.
    """
    named = given.get("engine")
    if not named:
        hint = f"add --engine, such as `--engine {tables[0].id}`, or give the whole command as --command"
        raise UsageError(Problem("command.whose", "--engine-args: of which engine?", hint))
    name, release = split_name(str(named))
    engine = _engine(name, catalog)
    fitting = [one for one in tables if one.id == key(name)] or [one for one in tables if one.id == engine]
    fitting = fitting or [one for one in tables if one.engine == engine]
    if not fitting:
        known = ", ".join(sorted({one.id for one in tables}))
        raise UsageError(Problem("command.no-table", f"the arguments of {name} are not on file", f"on file are those of {known}"))
    words = [word for one in commands(text.replace("\n", " ")) for word in one.words]
    environment = {name: value for one in commands(text) for name, value in one.environment.items()}
    if words and not words[0].startswith("-") and "=" not in words[0]:
        hint = "give a whole command as --command, and only its arguments as --engine-args"
        raise UsageError(Problem("command.words", f"--engine-args begins with `{brief(words[0])}`, which is no argument", hint))
    return Started(fitting[0], tuple(words), environment, False, release or "")


def _engine(name: str, catalog: Catalog) -> str:
    """The id of the engine that a name means; errors as `Catalog.find`."""
    return catalog.find("engines", name).id


def _heard(run: Started) -> Heard:
    """What the words of a command say.

    Raises:
        UsageError: everything that is wrong with them.
    """
    heard = Heard(run.table, run.release)
    heard.words(run.words, model=run.model_first)
    if "file" in heard.sets:
        heard.file(heard.sets.pop("file")[0], wins=run.table.file == "overwrites")
    heard.environment(run.environment)
    if heard.problems:
        raise UsageError(*heard.problems)
    return heard


def _merged(said: dict[str, Any], made: Options, heard: Heard, run: Started, *, whole: bool) -> dict[str, Any]:
    """The options that were typed with those of the engine's words beside them.

    Raises:
        UsageError: two that say different things.
    """
    known, merged, notes = by_key(ServeAsk), dict(said), list(made.notes)
    problems: list[Problem] = []
    for name, value in made.given.items():
        before = said.get(name)
        if before is None or name not in known:
            merged[name] = value
        elif name == "model":
            if before != value:
                notes.append(Note("command.model", f"the model is {before}, as you say; the command names `{brief(value)}`"))
        elif read(known[name], before) != read(known[name], value):
            what = f"{known[name].flag} {before} and {made.by[name]} {value} of {run.table.name} say different things"
            problems.append(Problem("command.contradiction", what, "leave one of them out"))
    if problems:
        raise UsageError(*problems)
    if merged.get("engine") is None:
        merged["engine"] = f"{run.table.id if _is_alias(run) else run.table.engine}{'@' + run.release if run.release else ''}"
    if whole:
        for name, value in run.table.unsaid.items():
            if value == "model":
                merged["as_model"] = merged.get(name) is None or None
            elif merged.get(name) is None and name in known:
                merged[name] = value
    if not merged.get("model"):
        hint = "name it: `gpuplan serve MODEL --on … --command …`" if whole else ""
        raise UsageError(Problem("usage.missing", "MODEL is missing: the engine's words name none", hint))
    merged["commanded"] = said.get("model") is None or None
    merged["placed"] = _placed(heard, run) or None
    merged["as_engine"] = True
    merged["heard"] = (*notes, *_notes(heard, run))
    return merged


def _placed(heard: Heard, run: Started) -> bool:
    """Whether the words say of the layers that all of them lie on the accelerators, which sets no option (`-ngl 99`)."""
    flags = run.table.flags()
    return any(word in flags and flags[word].sets == "gpu_layers" for word in heard.silent)


def _is_alias(run: Started) -> bool:
    return run.table.id != run.table.engine


def _notes(heard: Heard, run: Started) -> list[Note]:
    """What is to be said of arguments that set nothing."""
    name, notes = run.table.name, list[Note]()
    if heard.unknown:
        for words, hint in heard.unknown.items():
            notes.append(Note("command.unknown", f"`{brief(words)}` is no argument of {name} that is known, and is left out", hint))
    if heard.twice:
        notes += [Note("command.twice", f"{both}: the last one counts, as {name} has it") for both in heard.twice]
    reasons: dict[str, list[str]] = {}
    for argument, why in heard.later.items():
        reasons.setdefault(why, []).append(argument)
    for why, arguments in reasons.items():
        notes.append(Note("command.not-counted", f"understood, not counted yet: {', '.join(arguments)} ({why})"))
    if heard.silent:
        quiet = ", ".join(dict.fromkeys(heard.silent))
        notes.append(Note("command.no-effect", f"no effect on the estimate: {quiet}"))
    return notes
