"""Which options of a command line have several values: said again, or parted by commas?"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpuplan.cli.nested_command import parsed_options
from gpuplan.cli.output import Output
from gpuplan.errors import Problem, UsageError
from gpuplan.plan.ask import ASKS
from gpuplan.plan.option import Entry, by_key
from gpuplan.search.variants import PIN, Axis

_PLAIN = re.compile(r"\d+", re.ASCII)


def gathered(task: str, words: Sequence[str]) -> tuple[dict[str, Any], list[Axis]]:
    """The options of a task's command line, and the axes of those that have several values.

    Raises:
        GpuplanError: values that are wrong, or of which nobody can say whether they are one number or several.
    """
    entries = by_key(ASKS[task])
    typed, rest = _typed(task, words)
    values = {key: [one for text in texts for one in parted(entries[key], text)] for key, texts in typed.items()}
    firsts = [word for key, ones in values.items() for word in _words(entries[key], ones[0])]
    given = dict(parsed_options(task, [*firsts, *rest]))
    axes = [Axis.of(task, key, ones) for key, ones in values.items() if len(ones) > 1]
    pins = _pins(given.get("set") or ())
    several = {name: ones for name, ones in pins.items() if len(ones) > 1}
    if several:
        given["set"] = [f"{name}={ones[0]}" for name, ones in pins.items() if name not in several]
        axes += [Axis.of(task, f"{PIN}{name}", ones) for name, ones in several.items()]
    return given, axes


def parted(entry: Entry, text: Any) -> list[Any]:
    """The values that a text means, which commas part unless they belong to the option's own values.

    >>> from gpuplan.plan.ask_serving import ServeAsk
    >>> options = by_key(ServeAsk)
    >>> parted(options["weights"], "bf16,fp8"), parted(options["batch"], "8,16"), parted(options["tensor_split"], "3,1")
    (['bf16', 'fp8'], ['8', '16'], ['3,1'])

    Raises:
        UsageError: it could be one number or several.
    """
    if not isinstance(text, str) or "," not in text or _own_commas(entry) or (entry.positional and Path(text).exists()):
        return [text]
    parts = [one.strip() for one in text.split(",")]
    if "" in parts:
        raise UsageError(Problem("usage.value", f"{entry.flag} {text}: nothing stands between two commas", "take one out"))
    if entry.kind in ("number", "whole") and all(_PLAIN.fullmatch(one) for one in parts):
        grouped = all(len(one) == 3 for one in parts[1:]) and (len(parts) > 2 or any(one.startswith("0") for one in parts[1:]))
        if entry.kind == "number" or grouped:
            again = " ".join(f"{entry.flag} {one}" for one in parts)
            whole = text.replace(",", "") if grouped else text.replace(",", ".")
            hint = f"write `{again}`, or `{entry.flag} {whole}` for one number"
            raise UsageError(Problem("usage.comma", f"{entry.flag} {text} could be one number or several", hint))
    return list(parts)


def _own_commas(entry: Entry) -> bool:
    return entry.kind in ("words", "texts", "switch") or entry.option.reads == "words" or "," in entry.example


def _typed(task: str, words: Sequence[str]) -> tuple[dict[str, list[Any]], list[str]]:
    """The texts of each option that may have several, and the other words, which the command's own parser reads."""
    flags = {flag: one for one in by_key(ASKS[task]).values() if not one.positional for flag in one.flags}
    valued = {flag for one in by_key(Output).values() if one.kind != "switch" for flag in one.flags}
    model = next((one.key for one in by_key(ASKS[task]).values() if one.positional), "model")
    typed: dict[str, list[Any]] = {}
    rest: list[str] = []
    at = 0
    while at < len(words):
        name, joined, value = words[at].partition("=")
        entry = flags.get(name)
        if words[at] == "--":
            typed.setdefault(model, []).extend(words[at + 1 :])
            break
        if entry is not None and entry.kind == "switch" and not joined:
            typed.setdefault(entry.key, []).append(not name.startswith("--no-") or entry.flag.startswith("--no-"))
        elif entry is not None and entry.kind not in ("texts", "switch") and (joined or at + 1 < len(words)):
            typed.setdefault(entry.key, []).append(value if joined else words[at + 1])
            at += not joined
        elif not words[at].startswith("-") or words[at] == "-":
            typed.setdefault(model, []).append(words[at])
        else:
            takes = (name in valued or (entry is not None and entry.kind == "texts")) and not joined
            rest += words[at : at + 1 + takes]
            at += takes
        at += 1
    return typed, rest


def _words(entry: Entry, value: Any) -> list[str]:
    """How the parser of the command is told one value."""
    if entry.positional:
        return [str(value)]
    if entry.kind == "switch":
        return [entry.flags[0] if value else entry.flags[-1]]
    return [f"{entry.flag}={value}"]


def _pins(given: Sequence[str]) -> Mapping[str, list[str]]:
    """The values of each term that `--set` names; what is no TERM=VALUE stays as it is, to be refused where it is read."""
    found: dict[str, list[str]] = {}
    for text in given:
        name, _, value = text.partition("=")
        found.setdefault(name, []).append(value)
    return found
