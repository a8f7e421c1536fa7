"""The reference pages that are made of the code: every formula with its source and its worked example, and every JSON Schema."""

from __future__ import annotations

import inspect
import json
import os
import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

from gpuplan.formula_text import formula_text
from gpuplan.formulas import every_formula
from gpuplan.render.formula import is_reference
from gpuplan.term import Formula, Source

FORMULAS_HEAD = """# The formulas

<!-- Made by `python tools/options.py` of gpuplan/formulas/: do not edit. -->

All {count} formulas that estimates are made of, with what they mean, their units, a worked example and where each comes from. The
text of a formula is printed from the code that runs, its units are checked, and its example is run by the tests. `gpuplan explain
NAME` prints the same, `gpuplan calc NAME a=1 b=2` works one out with your values, and `--explain` of an answer shows which of them
made a figure. `fitted` is what was fitted to measurements by gpuplan itself, and says to which; `definition` needs no source.
"""
SCHEMAS_HEAD = """# The JSON Schemas

<!-- Made by `python tools/options.py` of the schemas of the code: do not edit. -->

Each kind of file, question and answer has a JSON Schema (2020-12), made of the code that reads or writes it.
`gpuplan specs schema KIND` prints one and `gpuplan specs schema --write DIR` writes them all; those of spec files stand beside the
data in `hardware_specs/schema/`, where the first line of each file names its own for editors. Questions have the options of
[the table](options.md); a quantity is a text with its unit (`80 GiB`), as its source prints it.
"""
COMMANDS_HEAD = """# The commands

<!-- Made by `python tools/options.py` of the commands: do not edit. -->

What `gpuplan COMMAND --help` prints, for every command. What may be asked in `fit`, `train`, `serve`, `plan` and `what-runs` stands
in [the table of options](options.md).
"""
QUESTIONS = ("fit", "train", "serve", "what-runs", "plan train", "plan finetune", "plan rl", "plan serve", "plan carries")
COLUMNS = "100"
KINDS = {"measured": "measurement", "fitted": "fitted by gpuplan"}


def formulas_page() -> str:
    """Every formula, under what its module is about."""
    by_module: dict[str, list[Formula[...]]] = {}
    for one in every_formula().values():
        if one.fn.__module__.startswith("gpuplan.formulas."):  # and no formula of a test
            by_module.setdefault(one.fn.__module__, []).append(one)
    parts = [FORMULAS_HEAD.format(count=sum(map(len, by_module.values())))]
    for module in sorted(by_module, key=lambda name: (".reference." in name, name)):
        parts.append(f"## {_title(module)}\n\n{_lead(module)}\n")
        parts += [_formula(one) for one in sorted(by_module[module], key=lambda one: one.name)]
    return "\n".join(parts)


def _title(module: str) -> str:
    name = module.removeprefix("gpuplan.formulas.")
    words = name.removeprefix("reference.").replace("_", " ").capitalize()
    return f"Examples of the field: {words.lower()}" if name.startswith("reference.") else words


def _lead(module: str) -> str:
    return _plain(" ".join((import_module(module).__doc__ or "").split()))


def _formula(made: Formula[...]) -> str:
    prose, example = _doc(made)
    units = ", ".join(f"`{name}` [{unit}]" for name, unit in made.units.items())
    lines = [f"### {made.name}", "", f"`{made.name} = {formula_text(made)}` [{made.unit}]", "", *prose]
    if units:
        lines += [f"With {units}.", ""]
    if example:
        lines += ["```pycon", *example, "```", ""]
    used = "No estimate uses it, `gpuplan calc` does. " if is_reference(made) else ""
    return "\n".join([*lines, f"{used}Source: {_source(made.source)}", ""])


def _doc(made: Formula[...]) -> tuple[list[str], list[str]]:
    """The paragraphs of a docstring, and its example."""
    prose: list[str] = []
    example: list[str] = []
    for block in (inspect.getdoc(made.fn) or "").split("\n\n"):
        if block.lstrip().startswith(">>>"):
            example += block.splitlines()
        else:
            prose += [_plain(" ".join(block.split())), ""]
    return prose, example


def _source(source: Source) -> str:
    if source.kind == "definition" and not source.url:
        return "by definition."
    title = _plain(source.title)
    named = f"[{title}]({source.url})" if source.url else title
    facts = [source.section, f"checked {source.checked}" if source.checked else "", source.note]
    return ", ".join([f"{KINDS.get(source.kind, source.kind)}, {named}", *(_plain(fact) for fact in facts if fact)]) + "."


def _plain(text: str) -> str:
    """A text in which nothing is taken for Markdown but what stands in backquotes."""
    pieces = re.split(r"(`[^`]*`)", text)
    return "".join(one if one.startswith("`") else re.sub(r"([*<|\[\]])", r"\\\1", one) for one in pieces)


def schemas_page() -> str:
    """Every schema with its keys, what each takes and what it means."""
    parts = [SCHEMAS_HEAD]
    for name, made in _schemas().items():
        if name.startswith("question-"):
            what = f"What may be asked of `gpuplan {name.removeprefix('question-')}` in a file: {len(made['properties'])} options."
            parts.append(f"## {name}\n\n{what}\n")
            continue
        about = _plain(" ".join(str(made.get("description", made.get("title", ""))).split()))
        rows = [f"| `{key}` | {_takes(one)} | {_meaning(one)} |" for key, one in made.get("properties", {}).items()]
        must = ", ".join(f"`{key}`" for key in made.get("required", ()))
        table = ["| key | takes | meaning |", "|---|---|---|", *rows]
        parts.append("\n".join([f"## {name}", "", about, "", *([f"Required: {must}.", ""] if must else []), *table, ""]))
    return "\n".join(parts)


def _schemas() -> Mapping[str, dict[str, Any]]:
    from gpuplan.cli.specs_schema import schemas

    return {name.removesuffix(".schema.json"): json.loads(text) for name, text in sorted(schemas().items())}


def _takes(one: Mapping[str, Any]) -> str:
    """What a key takes, in a few words."""
    return " or ".join(dict.fromkeys(_kinds(one))) or "anything"


def _kinds(one: Mapping[str, Any]) -> Iterator[str]:
    for part in (*one.get("anyOf", ()), *one.get("oneOf", ()), *one.get("allOf", ())):
        yield from _kinds(part)
    if "$ref" in one:
        yield one["$ref"].rpartition("/")[2]
    elif "const" in one:
        yield f"`{one['const']}`"
    elif "enum" in one:
        words = [f"`{word}`" for word in one["enum"]]
        yield ", ".join(words if len(words) <= 6 else [*words[:5], f"… ({len(words)})"])
    elif one.get("type") == "array":
        yield f"list of {_takes(one.get('items', {}))}"
    elif "type" in one:
        kind = one["type"]
        yield " or ".join(kind) if isinstance(kind, list) else str(kind)


def _meaning(one: Mapping[str, Any]) -> str:
    return _plain(" ".join(str(one.get("description", "")).split()))


def commands_page() -> str:
    """The help of every command."""
    from typer import Context

    from gpuplan.cli.commands import root
    from gpuplan.cli.help import made_once

    made_once.cache_clear()  # A command keeps the words for help of the context that first asked it, which may be another's.
    parts = [COMMANDS_HEAD]

    def add(command: Any, words: tuple[str, ...], above: Any) -> None:
        made = Context(command, info_name=words[-1] if words else "gpuplan", parent=above, **command.context_settings)
        path = " ".join(words)
        text = command.get_help(made).rstrip().replace("--help, -h", "-h, --help")  # The parser holds these two in a set.
        if path in QUESTIONS:  # Of their options, those of the question have a page of their own.
            head, *panels = re.split(r"\n\n(?=[A-Z][^\n]*:\n  )(?!Examples:)", text)
            text = "\n\n".join([head, *(one for one in panels if one.startswith(("Arguments:", "Data:", "Output:", "Other:")))])
        parts.append(f"## gpuplan{' ' if path else ''}{path}\n\n```text\n{text}\n```\n")
        for name in command.list_commands(made) if hasattr(command, "list_commands") else ():
            add(command.get_command(made, name), (*words, name), made)

    before = os.environ.get("COLUMNS")
    os.environ["COLUMNS"] = COLUMNS
    try:
        add(root(), (), None)
    finally:
        os.environ.pop("COLUMNS") if before is None else os.environ.update(COLUMNS=before)
    return "\n".join(parts)
