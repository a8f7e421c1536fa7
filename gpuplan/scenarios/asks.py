"""Which questions may a file ask, and which options does each have?"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from gpuplan.plan.ask import ASKS
from gpuplan.plan.option import Entry, by_key
from gpuplan.planner.ask import PLANNINGS, options

QUESTIONS = (*ASKS, *PLANNINGS)
"""What `ask` may be: a command with its words."""
_NOT_TOLD = ("emit",)
"""Options of a plan that only change what is written, of which a result has nothing."""


@lru_cache(maxsize=len(QUESTIONS))
def options_of(ask: str) -> Mapping[str, Entry]:
    """The options of a question by their names in Python.

    >>> "deadline" in options_of("plan train"), "deadline" in options_of("train")
    (True, False)
    """
    if ask in ASKS:
        return by_key(ASKS[ask])
    return {one.key: one for one in options(ask) if one.key not in _NOT_TOLD}
