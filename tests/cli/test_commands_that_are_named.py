"""Every command that a message, a help page or a page of docs/ tells somebody to type exists, with the options that stand there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from gpuplan.cli.complete.commands_of import commands
from gpuplan.plan.ask import ASKS

ROOT = Path(__file__).parents[2]
QUOTED = re.compile(r"`(gpuplan [a-z][^`]*)`")
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")
OF_A_QUESTION = ("explain", "compare")
"""Commands that take the options of the question that follows."""
FILLED = "…"
"""What stands where a message puts something in."""


def _strings(tree: ast.AST) -> Iterator[str]:
    """The texts of a module, those with something put in too."""
    inside: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            inside |= {id(part) for part in node.values}
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else FILLED for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            yield node.value


def _texts() -> Iterator[tuple[str, str]]:
    for path in sorted((ROOT / "gpuplan").rglob("*.py")):
        for text in _strings(ast.parse(path.read_text(encoding="utf-8"))):
            yield path.name, text
    words = yaml.safe_load((ROOT / "gpuplan/plan/other_words.yaml").read_text(encoding="utf-8"))
    for entry in words["entries"]:
        yield "other_words.yaml", entry.get("say", "").replace("{task}", FILLED)
    for path in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]:
        yield path.name, path.read_text(encoding="utf-8")


@cache
def named() -> tuple[tuple[str, str], ...]:
    return tuple(
        sorted({(where, " ".join(found.split())) for where, text in _texts() for found in QUOTED.findall(text.replace("\n", " "))})
    )


@cache
def known_commands() -> dict[str, Any]:
    """Every command with its options, walked through once for all lines."""
    return commands()


def wrong(line: str) -> str:
    """What is wrong about a command that is named; nothing where nothing is."""
    known = known_commands()
    words = line.split()[1:]
    path = ""
    while words and re.fullmatch(r"[a-z][a-z-]*,?", words[0]) and (deeper := f"{path} {words[0].rstrip(',')}".strip()) in known:
        path, words = deeper, words[1:]
    if not path and words and FILLED not in words[0]:
        return f"no command `{words[0]}`"
    if not path:
        return ""
    below = [one for one in known if one.startswith(f"{path} ")] if words[:1] == [FILLED] else []
    asked = [word for word in words if word in ASKS] or list(ASKS) if path in OF_A_QUESTION else []
    flags = {flag for one in (path, *below, *asked) for option in known[one]["options"].values() for flag in option["flags"]}
    missing = [flag for flag in FLAG.findall(" ".join(words)) if flag not in flags]
    return f"{path} has no {', '.join(missing)}" if missing else ""


def test_there_are_many() -> None:
    assert len(named()) > 200
    assert wrong("gpuplan specs list instances --filter provider=aws")
    assert not wrong("gpuplan specs list instances --accelerator h100")


def test_each_command_that_is_named_can_be_typed() -> None:
    assert not [(where, line, why) for where, line in named() if (why := wrong(line))]
