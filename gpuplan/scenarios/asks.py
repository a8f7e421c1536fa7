"""Which questions may a file ask, and which options does each have?"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from gpuplan.plan.ask import ASKS
from gpuplan.plan.option import WISHED, Entry, Option, by_key
from gpuplan.plan.what_runs import WhatRunsAsk
from gpuplan.planner.ask import PLANNINGS, options

WHAT_RUNS = "what-runs"
QUESTIONS = (*ASKS, *PLANNINGS, WHAT_RUNS)
"""What `ask` may be: a command with its words."""
_NOT_TOLD = ("emit", "limit")
"""Options that only change what is written, of which a result has nothing."""
_TEXT = Entry("text", Option("Texts that must occur in a name of the model", WISHED, "TEXT"), "texts")
"""The words of `gpuplan what-runs`, which are no option there."""


@lru_cache(maxsize=len(QUESTIONS))
def options_of(ask: str) -> Mapping[str, Entry]:
    """The options of a question by their names in Python.

    >>> "deadline" in options_of("plan train"), "deadline" in options_of("train")
    (True, False)
    """
    if ask in ASKS:
        return by_key(ASKS[ask])
    if ask == WHAT_RUNS:
        return {_TEXT.key: _TEXT, **{key: one for key, one in by_key(WhatRunsAsk).items() if key not in _NOT_TOLD}}
    return {one.key: one for one in options(ask) if one.key not in _NOT_TOLD}
