"""The console entry: words in, exit code out; every error becomes a message, and none a traceback."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import TextIOWrapper
from typing import Any

from gpuplan.cli.argv import TASKS, normal
from gpuplan.cli.command_names import COMMANDS
from gpuplan.cli.complaint import complain
from gpuplan.cli.complete.request import COMPLETE, reply
from gpuplan.cli.typed import remember
from gpuplan.errors import Exit, GpuplanError, Problem
from gpuplan.files.stream import fill_closed, standard

INTERRUPTED = 130
"""What shells report for a process that Ctrl-C ended: 128 + SIGINT."""
BUG = int(Exit.BUG)
"""gpuplan itself went wrong. None of the other documented codes may say this."""


def main() -> None:
    """Run the command line and end the process with its exit code.

    A question is answered in a tenth of a second, of which collecting garbage and taking the interpreter apart would be a
    seventh (measured with `fit llama-3.1-8b --on h100`, 2026-11-21).
    """
    if COMPLETE in os.environ:
        os._exit(reply(os.environ))
    gc.disable()
    if "calibrate" not in sys.argv:
        # numpy would start a thread for each core as it is imported, and only fits to measurements multiply matrices.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
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
        try:
            code = _answer(words)
            out.flush()
            if out.lost:
                hint = "is the disk full, or standard output closed? nothing was answered"
                complain([Problem("output.lost", f"cannot write to standard output: {out.lost}", hint)])
                code = int(Exit.USAGE)
        except KeyboardInterrupt:  # Also while the answer is written, or an error.
            print("interrupted", file=sys.stderr)
            code = INTERRUPTED
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
            result = _result(words)
    except GpuplanError as error:
        complain(error.problems)
        return int(error.exit_code)
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


def _result(words: Sequence[str]) -> Any:
    """What the words' command returns: without the parser, whose import would take a quarter of the time, where they are plain."""
    if len(words) == 1 and " " in words[0].strip():
        from gpuplan.cli.in_words.command import meant

        asked = meant(words[0])
        if asked.whole:
            print(f"asked as: {asked}", file=sys.stderr)
            if asked.why:
                print(f"note: {asked.why}", file=sys.stderr)
            words = asked.words
    elif len(words) > 1 and " " in words[0].strip() and words[1].startswith("-"):
        from gpuplan.cli.in_words.pasted import answering

        words = answering(words)
    in_order = normal(words, COMMANDS)
    task = in_order[0] if in_order else ""
    if task in TASKS:
        from gpuplan.cli.plain_words import given_by

        given = given_by(task, in_order[1:])
        if given is not None:
            from gpuplan.cli.answer import answer

            return answer(task, given)
    from gpuplan.cli.parser import parsed

    return parsed(in_order, words)


def bug(error: BaseException) -> Problem:
    """What to say when gpuplan itself is wrong."""
    from gpuplan import __version__

    what = f"{type(error).__name__}: {error}".strip().rstrip(":").splitlines()[0]
    hint = "please report the command and what `gpuplan doctor` prints; GPUPLAN_DEBUG=1 shows where it broke"
    return Problem("bug", f"gpuplan {__version__} has a bug: {what}", hint)


if __name__ == "__main__":
    main()
