"""What do type checkers and the reference page read of the table of options? Texts that are made here and kept in files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from textwrap import wrap
from typing import Any, get_args

from gpuplan.plan import words
from gpuplan.plan.ask import ASKS
from gpuplan.plan.ask_goal import GOALS
from gpuplan.plan.common import Common
from gpuplan.plan.option import PANELS, Entry, by_key, entries
from gpuplan.plan.what_runs import WhatRunsAsk
from gpuplan.record import Record
from gpuplan.units import HOUR

HEAD = '''"""Which keywords are those of {tasks}? Made by `python tools/options.py` of the table of options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import SupportsFloat, SupportsIndex, TypeAlias, TypedDict

from gpuplan.plan import words

Whole: TypeAlias = float | SupportsIndex | str | None
"""A whole number of Python or numpy, or a text such as `8k`."""
Number: TypeAlias = SupportsFloat | str | None
"""A number of Python or numpy in base units, or a text such as `15T` or `1.6 GB/s`."""
Switch: TypeAlias = bool | None
Text: TypeAlias = str | None
'''


def typed(*tasks: str) -> str:
    """The module of typed keywords of some tasks, one class each; `on` and the model are parameters of the functions themselves."""
    head = HEAD.format(tasks=" and ".join(f"`{task}`" for task in tasks))
    return head + "".join(f"\n\n{_keywords(task, ASKS[task])}" for task in tasks)


def _keywords(task: str, ask: type[Common]) -> str:
    lines = [f"class {task.title()}Options(TypedDict, total=False):", f'    """The options of `gpuplan.{task}` but `on`."""', ""]
    for key, entry in by_key(ask).items():
        if key not in ("model", "on"):
            lines += [f"    {key}: {_type(entry)}", _docstring(entry)]
    return "\n".join(lines) + "\n"


def _type(entry: Entry) -> str:
    if entry.option.reads == "pins":
        return "Mapping[str, SupportsFloat | str] | Sequence[str] | str | None"
    if entry.kind in ("word", "words"):
        name = next(name for name, value in vars(words).items() if entry.words and get_args(value) == entry.words)
        return f"words.{name} | None" if entry.kind == "word" else f"str | Sequence[words.{name}] | None"
    plain = {
        "switch": "Switch",
        "whole": "Whole",
        "number": "Number",
        "text": "Text",
        "texts": "str | Path | Sequence[str | Path] | None",
    }
    return plain[entry.kind]


def _docstring(entry: Entry) -> str:
    text = entry.option.about + ("" if entry.option.about.endswith(".") else ".")
    return "\n".join(wrap(f'"""{text}"""', 128, initial_indent="    ", subsequent_indent="    ", break_on_hyphens=False))


def page() -> str:
    """The reference page: every option with its commands, its type, its values and its meaning, under the headings of the help."""
    parts = [PAGE_HEAD]
    for panel in PANELS:
        rows = list(_rows(panel))
        if rows:
            parts.append(f"## {panel}\n\n{TABLE_HEAD}\n" + "\n".join(rows) + "\n")
    rows = [_row(one, "what-runs") for one in entries(WhatRunsAsk).values()]
    parts.append(f"## gpuplan what-runs\n\n{TABLE_HEAD}\n" + "\n".join(rows) + "\n")
    every = {name: one for ask in GOALS.values() for name, one in entries(ask).items()}
    asked = [_row(one, ", ".join(name for name, ask in GOALS.items() if key in entries(ask))) for key, one in every.items()]
    parts.append(f"## gpuplan plan\n\n{GOAL_HEAD}\n{TABLE_HEAD}\n" + "\n".join(asked) + "\n")
    return "\n".join(parts)


GOAL_HEAD = "What a goal may say ([planner](planner.md)), beside the options of the task above, but for those of the machine.\n"
PAGE_HEAD = """# The options

<!-- Made by `python tools/options.py` of gpuplan/plan/ask.py: do not edit. -->

What `gpuplan fit`, `train` and `serve` can be asked, and at the end `gpuplan what-runs`, on the command line and as keywords of
`gpuplan.fit`, `train`, `serve` and `what_runs` ([Python](python.md)). A text means the same in both. A number in Python is in
base units (seconds, bytes, bytes a second), or what the command line counts (tokens, sequences, days, USD an hour).
`gpuplan COMMAND --help` prints the same by command;
`gpuplan --install-completion` lets the shell complete options, their words, and names.
"""
TABLE_HEAD = "| option | for | Python | takes | meaning |\n|---|---|---|---|---|"


def _rows(panel: str) -> Iterator[str]:
    every = {name: one for ask in ASKS.values() for name, one in entries(ask).items() if one.option.panel == panel}
    for name, one in every.items():
        tasks = ", ".join(task for task, ask in ASKS.items() if name in entries(ask))
        yield _row(one, tasks)


def _row(one: Entry, commands: str) -> str:
    flags = " ".join(f"`{flag}`" for flag in one.flags)
    cells = (flags, commands, f"`{one.key}`", takes(one), one.option.about)
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def takes(entry: Entry) -> str:
    """What an option takes, in words."""
    option = entry.option
    if entry.kind in ("word", "words"):
        several = "of " if entry.kind == "words" else ""
        return several + ", ".join(f"`{word}`" for word in entry.words)
    if option.reads == "price":
        return "USD an hour"
    if option.reads == "day":
        return "a day, `YYYY-MM-DD`"
    if option.reads == "pins":
        return "terms with values"
    if option.reads == "pixels":
        return "pixels of two sides, `WxH`"
    unit = {"s": "a time", "B": "bytes", "B/s": "bytes a second", "FLOP": "FLOP"}.get(option.unit)
    least = "" if option.least is None else f" of at least {option.least:g}"
    plain = {
        "switch": "yes or no",
        "whole": f"a whole number{least}",
        "number": f"a number{least}",
        "text": "a text",
        "texts": "folders",
    }
    return unit or plain[entry.kind]


def schema(task: str) -> dict[str, Any]:
    """The JSON Schema (2020-12) of a question: what the keywords of `gpuplan.fit`, `train` or `serve` may be in a file."""
    ask = ASKS[task]
    asked: dict[str, Any] = {"required": ["model", "on"]}
    if "command" in by_key(ask):
        asked = {"required": ["on"], "anyOf": [{"required": ["model"]}, {"required": ["command"]}]}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"A question to `gpuplan {task}`",
        "type": "object",
        "properties": properties(ask),
        **asked,
        "additionalProperties": False,
    }


def properties(ask: type[Record]) -> dict[str, dict[str, Any]]:
    """The JSON Schema of each option of a question, by its name in Python."""
    return described(by_key(ask))


def described(options: Mapping[str, Entry]) -> dict[str, dict[str, Any]]:
    """The JSON Schema of some options."""
    return {key: {"description": one.option.about, **_schema(one)} for key, one in options.items()}


def _schema(entry: Entry) -> dict[str, Any]:
    text: dict[str, Any] = {"type": "string", "minLength": 1}
    if entry.option.reads == "pins":
        return {"type": "object", "additionalProperties": {"type": ["number", "string"]}}
    if entry.kind == "texts":
        return {"type": "array", "items": text}
    if entry.kind == "switch":
        return {"type": "boolean"}
    if entry.kind == "word":
        return {"enum": list(entry.words)}
    if entry.kind == "words":
        return {"type": "array", "items": {"enum": list(entry.words)}}
    if entry.kind == "text":
        return text
    least = entry.option.least
    limit: dict[str, float]
    limit = {"exclusiveMinimum": 0} if least is None and entry.kind == "number" else {"minimum": 1 if least is None else least}
    # A price is in USD an hour here, as on the command line.
    limit["maximum"] = entry.window[1] * (HOUR if entry.option.reads == "price" else 1)
    return {"anyOf": [{"type": "integer" if entry.kind == "whole" else "number", **limit}, text]}
