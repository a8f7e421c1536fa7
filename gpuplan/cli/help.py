"""What does `--help` print? Sections under plain headings, 80 columns, no colour needed, and fast: rich is not imported."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from importlib import import_module
from typing import Any

from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from gpuplan.errors import Problem, UsageError
from gpuplan.render.text import columns_of_terminal, pairs, wrap


def width() -> int:
    """The columns that help may use: those of the terminal, at most 100."""
    return max(40, min(columns_of_terminal(), 100))


def prose(text: str, columns: int) -> str:
    """Paragraphs wrapped to the width; paragraphs with an indented line (examples) stay as they are."""
    blocks = []
    for block in text.strip().split("\n\n"):
        lines = block.splitlines()
        fixed = any(line.startswith(" ") for line in lines)
        blocks.append(block.rstrip() if fixed else "\n".join(wrap(" ".join(lines), columns)))
    return "\n\n".join(blocks)


def rows(about: Iterable[tuple[str, str]], columns: int) -> str:
    """Two aligned columns, the second wrapped; a long first column pushes its text to the next line."""
    return "\n".join(pairs(about, columns, 24))


def command_help(usage: str, text: str, params: Iterable[Any]) -> str:
    """The help of one command: usage, what it answers with examples, then its options under their headings."""
    columns = width()
    panels: dict[str, list[tuple[str, str]]] = {}
    last: list[tuple[str, str]] = []
    for param in params:
        if getattr(param, "hidden", False):
            continue
        heading = getattr(param, "rich_help_panel", None)
        if param.param_type_name == "argument":
            heading = heading or "Arguments"
        (panels.setdefault(heading, []) if heading else last).append((_name(param), _about(param)))
    sections = [f"Usage: {usage}", prose(text, columns)]
    sections += [f"{heading}:\n{rows(about, columns)}" for heading, about in panels.items()]
    if last:
        sections.append(f"Other:\n{rows(last, columns)}")
    return "\n\n".join(sections) + "\n"


def group_help(usage: str, text: str, commands: Mapping[str, str], params: Iterable[Any], footer: str = "") -> str:
    """The help of a group: usage, what it is for with examples, the commands, and the group's own options."""
    columns = width()
    options = [(_name(param), _about(param)) for param in params if not getattr(param, "hidden", False)]
    sections = [f"Usage: {usage}", prose(text, columns), f"Commands:\n{rows(commands.items(), columns)}"]
    sections.append(f"Options:\n{rows(options, columns)}")
    if footer:
        sections.append(prose(footer, columns))
    return "\n\n".join(sections) + "\n"


def _about(param: Any) -> str:
    return "Show this page and stop" if "--help" in param.opts else param.help or ""


def _name(param: Any) -> str:
    if param.param_type_name == "argument":
        return param.metavar if param.required or param.metavar.startswith("[") else f"[{param.metavar}]"
    # The parser keeps the names of --help in a set: by length, they stand in the same order on every call.
    flags = ", ".join(sorted(param.opts, key=len) if "--help" in param.opts else param.opts)
    if param.secondary_opts:
        flags += f" / {', '.join(param.secondary_opts)}"
    return f"{flags}{'' if param.metavar.startswith('[=') else ' '}{param.metavar}" if param.metavar else flags


def _usage(command: Any, path: str) -> str:
    from gpuplan.plan.option import RUN

    pieces = [_name(param) for param in command.params if param.param_type_name == "argument"]
    # Where it says what the question runs on, it must be given; elsewhere it narrows what is looked at.
    on = (param for param in command.params if "--on" in param.opts)
    pieces += [_name(param) if param.rich_help_panel == RUN else f"[{_name(param)}]" for param in on]
    return " ".join([path, *pieces, "[options]"])


class _AsTyped:
    """What takes the place of typer's conversion: a value stays the text, list of texts or switch that was typed."""

    def coerce(self, value: Any, **_: Any) -> Any:
        return list(value) if isinstance(value, tuple) else value


def as_typed(params: list[Any]) -> list[Any]:
    """The same parameters, told to leave their values alone.

    Newer typer builds a pydantic validator for every option, which takes longer than all that `fit` computes. Options of
    gpuplan are texts and switches, and `gpuplan.plan.read` reads them, so there is nothing to convert.
    """
    for param in params:
        if hasattr(param, "_runtime_param"):
            param._runtime_param = _AsTyped()
    return params


def only_once(command: Any, ctx: Any, words: list[str]) -> None:
    """Refuse an option that takes one value and is given twice, of which the parser would keep the last.

    Raises:
        UsageError: all such options together.
    """
    if ctx.resilient_parsing:  # A shell asks for words that could come next.
        return
    seen = command.make_parser(ctx).parse_args(args=list(words))[2]
    single = [param for param in seen if param.param_type_name == "option" and not param.multiple and not param.is_eager]
    twice = {param.name: param for at, param in enumerate(single) if param in single[:at]}.values()
    if twice:
        raise UsageError(*(Problem("usage.twice", f"{_flags(param)} is given twice", _once(param)) for param in twice))


def _flags(param: Any) -> str:
    return "/".join((*param.opts, *param.secondary_opts))


def _once(param: Any) -> str:
    if "--on" in param.opts:
        return "`gpuplan compare` puts a question to several machines"
    return "give it once" if param.is_flag else "it takes one value: leave the others out"


@cache
def made_once(module: str, name: str) -> Any:
    """The command that is the `app` of a module of this package, under its name; made once: it may have two hundred options."""
    made = get_command(import_module(f"gpuplan.cli.{module}").app)
    made.name = name
    return made


class Command(TyperCommand):
    """A command whose help is printed by this module, whose values stay as typed, and whose options are given once."""

    def get_params(self, ctx: Any) -> list[Any]:
        """The parameters and the help option."""
        return as_typed(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words into the context; errors as `only_once`."""
        only_once(self, ctx, args)
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help page."""
        formatter.write(command_help(_usage(self, ctx.command_path), self.help or "", self.get_params(ctx)))


class Group(TyperGroup):
    """A group of commands whose help is printed by this module."""

    def get_params(self, ctx: Any) -> list[Any]:
        """The parameters and the help option."""
        return as_typed(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the words into the context; errors as `only_once`."""
        only_once(self, ctx, args)
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help page."""
        commands = {name: short(self.commands[name].help or "") for name in self.list_commands(ctx)}
        usage = f"{ctx.command_path} COMMAND [options]"
        formatter.write(group_help(usage, self.help or "", commands, self.get_params(ctx)))

    def list_commands(self, ctx: Any) -> list[str]:
        """The commands in the order in which they were written."""
        return list(self.commands)


def short(text: str) -> str:
    """The first paragraph of a help text on one line."""
    return " ".join(text.strip().split("\n\n")[0].split())
