"""What does the parser make of the words of a command line, and what is wrong with those that it refuses?

It is imported where `gpuplan.cli.plain_words` cannot tell the meaning: for help, for every other command, for anything wrong.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

from typer import Abort, BadParameter

from gpuplan.cli.command_names import COMMANDS
from gpuplan.cli.commands import root
from gpuplan.errors import Exit, Problem, UsageError, did_you_mean
from gpuplan.plan.ask import ASKS

_UsageBase: Any = BadParameter.__base__
"""The parser's base of all usage errors. typer exports only this child, and lends the rest from different places by version."""
INTERRUPTED = 130
"""What newer typer makes of a Ctrl-C: 128 + SIGINT, as shells report it."""


def parsed(words: Sequence[str], typed: Sequence[str]) -> Any:
    """What the command of these words returns once it has run; `typed` are the words before they were put in order.

    Raises:
        KeyboardInterrupt: it was interrupted.
        GpuplanError: what the parser refuses, or what the command says of a question.
    """
    try:
        result = root().main(list(words), prog_name="gpuplan", standalone_mode=False)
    except Abort:
        raise KeyboardInterrupt from None
    except _UsageBase as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            print(error.ctx.get_help())
            return int(Exit.OK)
        raise UsageError(usage_problem(error, list(typed))) from None
    if result == INTERRUPTED:
        raise KeyboardInterrupt
    return result


def usage_problem(error: Any, words: list[str]) -> Problem:
    """What is wrong with the words that the parser refused, and what was probably meant."""
    kind, ctx = type(error).__name__, getattr(error, "ctx", None)
    named = f"gpuplan {words[0]}" if words and words[0] in COMMANDS else "gpuplan"
    page = f"`{ctx.command_path if ctx is not None else named} --help` shows what it takes"
    if kind == "NoSuchOption":
        known = [flag for param in ctx.command.get_params(ctx) for flag in (*param.opts, *param.secondary_opts)] if ctx else []
        from gpuplan.plan.other_words import meant

        keys = [flag.lstrip("-").replace("-", "_") for flag in known]
        task = ctx.command_path.removeprefix("gpuplan").strip() if ctx is not None else ""
        hint = meant(error.option_name, keys, task) or did_you_mean(error.option_name, known) or page
        return Problem("usage.no-such-option", f"no option `{error.option_name}`", hint)
    if kind == "BadOptionUsage":
        return Problem("usage.wrong", _sentence(error.format_message()), _takes(error.option_name, words) or page)
    param = getattr(error, "param", None)
    if kind == "MissingParameter" and param is not None:
        name = param.metavar if param.param_type_name == "argument" else param.opts[0]
        if name == "MODEL" and "--params" in words:
            page = "a model of no card wants a name of yours: `gpuplan train mynet --params …`"
        elif ctx is not None and param.param_type_name == "argument" and len(parts := _arguments(ctx)) > 1:
            page = f"it is written `{ctx.command_path} {' '.join(parts)}`; {page}"
        return Problem("usage.missing", f"{name} is missing", page)
    if ctx is not None and hasattr(ctx.command, "list_commands"):
        names = ctx.command.list_commands(ctx)
        wrong = next((word for word in words if not word.startswith("-") and word not in (*names, *ctx.command_path.split())), "")
        return Problem(
            "usage.no-such-command",
            f"no command `{wrong}`",
            did_you_mean(wrong, names) or _among(names, ctx.command_path) or _meant(words) or page,
        )
    if kind == "UsageError" and words and words[0] in ASKS and (command := _meant(words)):
        return Problem("usage.wrong", _sentence(error.format_message()), command)
    return Problem("usage.wrong", _sentence(error.format_message()), page)


def _takes(flag: str, words: Sequence[str]) -> str:
    """What an option takes by the help of the command that words begin with; "" where that has no such option."""
    command: Any = root()
    path = ["gpuplan"]
    for word in words:
        inner = command.get_command(None, word) if hasattr(command, "get_command") else None
        if inner is None:
            break
        command = inner
        path.append(word)
    param = next((one for one in command.params if flag in (*one.opts, *one.secondary_opts)), None)
    shows = f"`{' '.join(path)} --help` shows"
    said = "" if param is None else _sentence(" ".join((getattr(param, "help", None) or "").split()).partition(";")[0])
    if param is None or not said:
        return f"{shows} what it takes"
    return f"it is written `{flag} {param.metavar or 'VALUE'}`: {said}; {shows} more"


def _arguments(ctx: Any) -> list[str]:
    """The arguments of a command without options, in their order, as its help writes them."""
    return [one.metavar for one in ctx.command.params if one.param_type_name == "argument" and one.metavar]


def _among(names: Sequence[str], path: str) -> str:
    """The commands of a group (`gpuplan prices import`) that another word stands in place of; "" of gpuplan itself."""
    return f"what comes behind `{path}` is one of {', '.join(names)}" if " " in path else ""


def _meant(words: Sequence[str]) -> str:
    """The command that words may be about which no command knows; "" where there is nothing to go by."""
    from gpuplan.cli.in_words.command import meant

    hint = meant(" ".join(words) if len(words) == 1 else shlex.join(words)).hint
    if not hint and len(" ".join(words).split()) > 2:
        hint = 'name a model and what it runs on, such as `gpuplan "does qwen3 32b fit on an rtx 4090"`'
    return f"{hint}; `gpuplan --help` shows what else there is" if hint else ""


def _sentence(text: str) -> str:
    text = text.strip().rstrip(".")
    return text[:1].lower() + text[1:]
