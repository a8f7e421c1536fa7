"""The console entry: words in, exit code out; every error becomes a message, and none a traceback."""

from __future__ import annotations

import gc
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import TextIOWrapper
from typing import Any

from typer import Abort, BadParameter

from gpuplan.cli.argv import normal
from gpuplan.cli.commands import COMMANDS, root
from gpuplan.cli.complete.request import COMPLETE, reply
from gpuplan.cli.typed import remember
from gpuplan.errors import Exit, GpuplanError, Problem, did_you_mean
from gpuplan.files.stream import fill_closed, standard

INTERRUPTED = 130
"""What shells report for a process that Ctrl-C ended: 128 + SIGINT."""
BUG = int(Exit.BUG)
"""gpuplan itself went wrong. None of the other documented codes may say this."""

_UsageBase: Any = BadParameter.__base__
"""The parser's base of all usage errors. typer exports only this child, and lends the rest from different places by version."""


def main() -> None:
    """Run the command line and end the process with its exit code.

    A question is answered in a tenth of a second, of which collecting garbage and taking the interpreter apart would be a
    seventh (measured with `fit llama-3.1-8b --on h100`, 2026-11-21).
    """
    if COMPLETE in os.environ:
        os._exit(reply(os.environ))
    gc.disable()
    fill_closed()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that has no `–` shows a question mark, not an error
    os._exit(run(sys.argv[1:]))


def run(words: Sequence[str]) -> int:
    """The exit code of one call; everything is printed before it returns.

    A reader that has gone (head, less) changes nothing about the code: that is its right. An answer that got lost otherwise is
    an error.
    """
    remember(words)
    with standard() as (out, err):
        code = _answer(words)
        out.flush()
        if out.lost:
            hint = "is the disk full, or standard output closed? nothing was answered"
            complain([Problem("output.lost", f"cannot write to standard output: {out.lost}", hint)])
            code = int(Exit.USAGE)
        err.flush()
        return code


@contextmanager
def _watched(words: Sequence[str]) -> Iterator[None]:
    """Show how far long work is, where a person looks at standard error and sees signs; a screen reader would read each of them."""
    stream = getattr(sys.stderr, "stream", None)
    if stream is None or not sys.stderr.isatty() or os.environ.get("TERM") == "dumb" or "--plain" in words:
        yield
        return
    from gpuplan.files.progress import watching
    from gpuplan.render.progress import Bars

    bars = Bars(stream)
    try:
        with watching(bars):
            yield
    finally:
        bars.stop()


def _answer(words: Sequence[str]) -> int:
    try:
        with _watched(words):  # What is said of an error below stands on a line of its own.
            result = root().main(normal(words, COMMANDS), prog_name="gpuplan", standalone_mode=False)
        if result == INTERRUPTED:  # Newer typer makes a code of it.
            raise KeyboardInterrupt
    except GpuplanError as error:
        complain(error.problems)
        return int(error.exit_code)
    except _UsageBase as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            print(error.ctx.get_help())
            return int(Exit.OK)
        complain([usage_problem(error, list(words))])
        return int(Exit.USAGE)
    except (KeyboardInterrupt, Abort):
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    except Exception as error:
        if isinstance(error, OSError) and error.filename is not None:
            # What a name or a folder of the user's does not allow: too long, a loop of links, no permission.
            complain([Problem("file.unusable", f"cannot use `{error.filename}`: {error.strerror}")])
            return int(Exit.USAGE)
        # The one place that catches everything: a bug must end in one message, and its traceback only on demand.
        if os.environ.get("GPUPLAN_DEBUG") == "1":
            raise
        complain([bug(error)])
        return BUG
    return result if isinstance(result, int) else int(Exit.OK)


def complain(problems: Sequence[Problem]) -> None:
    """Write problems to standard error, each with its place and its hint."""
    for problem in problems:
        place = f"{_short(problem.where)}: " if problem.where else ""
        print(f"error: {place}{_QUOTED.sub(_cut, problem.message)}", file=sys.stderr)
        if problem.hint:
            print(f"  hint: {_QUOTED.sub(_cut, problem.hint)}", file=sys.stderr)


_LONGEST = 200
"""So many characters of a word of the user's are repeated; nobody reads more."""
_QUOTED = re.compile(r"`([^`]*)`")


def _cut(found: re.Match[str]) -> str:
    return f"`{_short(found[1])}`" if len(found[1]) > _LONGEST or "\n" in found[1] else found[0]


def _short(word: str) -> str:
    """A word on one line, or its two ends where it is very long."""
    word = word.replace("\n", "\\n")
    if len(word) <= _LONGEST:
        return word
    return f"{word[: _LONGEST // 2]}…{word[-_LONGEST // 4 :]} ({len(word):,} characters)"


def usage_problem(error: Any, words: list[str]) -> Problem:
    """What is wrong with the words that the parser refused, and what was probably meant."""
    kind, ctx = type(error).__name__, getattr(error, "ctx", None)
    named = f"gpuplan {words[0]}" if words and words[0] in COMMANDS else "gpuplan"
    page = f"`{ctx.command_path if ctx is not None else named} --help` shows what it takes"
    if kind == "NoSuchOption":
        known = [flag for param in ctx.command.get_params(ctx) for flag in (*param.opts, *param.secondary_opts)] if ctx else []
        from gpuplan.plan.ask import ASKS
        from gpuplan.plan.ask_goal import GOALS
        from gpuplan.plan.read import elsewhere

        key = error.option_name.lstrip("-").replace("-", "_")
        asked = ASKS.get(words[0]) if words else None
        hint = elsewhere(key, asked or GOALS.get(" ".join(words[:2]))) or did_you_mean(error.option_name, known) or page
        return Problem("usage.no-such-option", f"no option `{error.option_name}`", hint)
    param = getattr(error, "param", None)
    if kind == "MissingParameter" and param is not None:
        name = param.metavar if param.param_type_name == "argument" else param.opts[0]
        if name == "MODEL" and "--params" in words:
            page = "a model of no card wants a name of yours: `gpuplan train mynet --params …`"
        return Problem("usage.missing", f"{name} is missing", page)
    if ctx is not None and hasattr(ctx.command, "list_commands"):
        names = ctx.command.list_commands(ctx)
        wrong = next((word for word in words if not word.startswith("-") and word not in (*names, *ctx.command_path.split())), "")
        return Problem("usage.no-such-command", f"no command `{wrong}`", did_you_mean(wrong, names) or page)
    return Problem("usage.wrong", _sentence(error.format_message()), page)


def _sentence(text: str) -> str:
    text = text.strip().rstrip(".")
    return text[:1].lower() + text[1:]


def bug(error: BaseException) -> Problem:
    """What to say when gpuplan itself is wrong."""
    from gpuplan import __version__

    what = f"{type(error).__name__}: {error}".strip().rstrip(":").splitlines()[0]
    hint = "please report the command and what `gpuplan doctor` prints; GPUPLAN_DEBUG=1 shows where it broke"
    return Problem("bug", f"gpuplan {__version__} has a bug: {what}", hint)


if __name__ == "__main__":
    main()
