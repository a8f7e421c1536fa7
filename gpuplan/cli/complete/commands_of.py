"""Which commands are there, with which options and arguments, and what does each of these take?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from typer import Context

from gpuplan.cli.commands import root
from gpuplan.cli.complete.scripts import SHELLS
from gpuplan.cli.specs import SHOWN
from gpuplan.plan.ask import ASKS
from gpuplan.plan.ask_goal import GOALS
from gpuplan.plan.option import Entry, by_key
from gpuplan.plan.what_runs import WhatRunsAsk

_BY_FLAG = {
    "--on": "places", "--prefill-on": "places", "--engine": "engines", "--rollout-engine": "engines", "--draft": "models",
    "--reward-model": "models", "--critic": "models", "--model": "models", "--cloud": "providers", "--provider": "providers",
    "--accelerator": "accelerators", "--system": "systems", "--vendor": "vendors", "--license": "", "--region": "",
}  # fmt: skip
"""The names that an option takes."""
_BY_METAVAR = {"FILE": "files", "PATH": "files", "FILE|DIR": "files", "DIR": "folders", "MODEL": "models"}
_ARGUMENTS = {
    "explain": "explained", "calc": "formulas", "compare": "compared", "specs show": "specs", "specs compare": "accelerators",
    "specs roofline": "accelerators", "prices list": "priced", "calibrate show": "measured",
}  # fmt: skip
"""The names that a command's first argument takes, where its metavar does not say so."""
_WORDS = {"specs list": SHOWN, "completion": SHELLS}
"""The words that a command's argument takes."""
_ONE = ("calc", "specs list")
"""Commands whose first argument alone is a name."""


def commands() -> dict[str, Any]:
    """Every command by its words (the top one is an empty text): what it says, its parts, options and arguments."""
    return dict(_walked(root(), ""))


def _walked(command: Any, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    parts = list(command.list_commands(None)) if hasattr(command, "list_commands") else []
    words = _words_of(path)
    options: dict[str, Any] = {}
    arguments: list[dict[str, Any]] = []
    for param in command.get_params(Context(command, info_name=command.name)):
        if getattr(param, "hidden", False):
            continue
        if param.param_type_name == "argument":
            arguments.append(_argument(path, param))
            continue
        flags = [*param.opts, *param.secondary_opts]
        entry = words.get(param.name)
        one = {
            "flags": flags,
            "about": _brief(param.help or ("Show this page and stop" if "--help" in flags else "")),
            "takes": not param.is_flag,
            "many": bool(param.multiple),
            "list": (entry is not None and entry.kind == "words") or param.metavar == "NAME,NAME",
            "kind": "" if param.is_flag else _BY_FLAG.get(param.opts[0], _BY_METAVAR.get(param.metavar or "", "")),
            "words": list(entry.words) if entry is not None else [],
        }
        options |= dict.fromkeys(flags, one)
    about = _brief((command.help or "").strip().split("\n\n")[0].replace("\n", " "))
    yield path, {"about": about, "commands": parts, "options": options, "arguments": arguments}
    for name in parts:
        yield from _walked(command.get_command(None, name), f"{path} {name}".strip())


def _words_of(path: str) -> Mapping[str, Entry]:
    """The table of options that a command is made of, by their names in Python."""
    if path in GOALS:  # A goal is asked together with the task that it plans.
        task = "serve" if path in ("plan serve", "plan carries") else "train"
        return {**by_key(ASKS[task]), **by_key(GOALS[path])}
    if path == "what-runs":
        return by_key(WhatRunsAsk)
    return by_key(ASKS[path]) if path in ASKS else {}


def _argument(path: str, param: Any) -> dict[str, Any]:
    bare = (param.metavar or "").strip("[]").removesuffix(" …")
    kind = _ARGUMENTS.get(path, _BY_METAVAR.get(bare, ""))
    many = param.nargs == -1 and path not in _ONE
    return {"kind": kind, "words": list(_WORDS.get(path, ())), "many": many, "list": False}


def _brief(text: str) -> str:
    """So much of a help text as stands beside a word: its first clause, on one line."""
    line = " ".join(text.split())
    first = line.split("; ")[0].split(". ")[0].rstrip(".")
    return first if len(first) <= 70 else f"{first[:69].rsplit(' ', 1)[0]}…"
