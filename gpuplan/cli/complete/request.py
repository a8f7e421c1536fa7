"""What does a shell ask when TAB is pressed, and in which form does it want the answer?

The scripts of `gpuplan.cli.complete.scripts` call gpuplan with `_GPUPLAN_COMPLETE` naming the shell. The words stand in
`_GPUPLAN_WORDS`, one a line and the one at the cursor last; bash, which cuts words at `:` and `=`, hands over the line as
typed in `_GPUPLAN_LINE`. The answer's first line says whether files count too (`files`, `folders` or `words`); then comes one
candidate a line, with what it means behind a tab.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping

COMPLETE = "_GPUPLAN_COMPLETE"
"""The variable with which a shell asks for words."""
WORDS, LINE, BREAKS = "_GPUPLAN_WORDS", "_GPUPLAN_LINE", "_GPUPLAN_BREAKS"
"""The words, or the line as typed with the characters at which the shell cuts words."""


def reply(env: Mapping[str, str]) -> int:
    """Print what could come next; nothing that goes wrong is shown, for it would stand in the middle of what is being typed.

    Returns:
        The exit code: 1 where there is no answer.
    """
    try:
        text = answer(env)
    except Exception:  # A TAB must never end in a traceback across the prompt; GPUPLAN_DEBUG shows it to who looks for it.
        if env.get("GPUPLAN_DEBUG") == "1":
            raise
        return 1
    sys.stdout.write(text)
    sys.stdout.flush()
    return 0


def answer(env: Mapping[str, str]) -> str:
    """What could come next, in the form that the shell's script reads."""
    from gpuplan.cli.complete.index import opened
    from gpuplan.cli.complete.pick import folders_named, picked

    words = typed(env[LINE]) if LINE in env else env.get(WORDS, "").split("\n")
    words = words[1:] or [""]
    found = picked(words, opened(folders_named(words), env))
    cut = _behind_break(words[-1], env.get(BREAKS, "")) if LINE in env else 0
    lines = [found.files, *(f"{word[cut:]}\t{about}" if about else word[cut:] for word, about in found.words)]
    return "\n".join(lines) + "\n"


def typed(line: str) -> list[str]:
    """The words of a line that somebody is still typing; the one at the cursor is last, and may be empty.

    >>> typed("gpuplan fit --on aws:p5"), typed("gpuplan fit "), typed("gpuplan fit 'my mod")
    (['gpuplan', 'fit', '--on', 'aws:p5'], ['gpuplan', 'fit', ''], ['gpuplan', 'fit', 'my mod'])
    """
    from shlex import split

    end = "\x00"
    for close in ("", "'", '"'):
        try:
            words = split(f"{line}{end}{close}")
        except ValueError:  # A quotation is not closed yet.
            continue
        return [*words[:-1], words[-1].removesuffix(end)]
    return [""]


def _behind_break(word: str, breaks: str) -> int:
    """So many characters of a word stand before what the shell takes for the word."""
    return max((word.rfind(one) + 1 for one in breaks if one not in " \t\n'\""), default=0)
