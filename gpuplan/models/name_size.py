"""How many parameters does the name of a model say that it has?"""

from __future__ import annotations

import re
from functools import lru_cache
from math import log
from typing import NamedTuple

_SIZE = re.compile(r"(?<![a-z0-9.])(\d{1,4}(?:\.\d+)?)([bm])(?![a-z0-9]|-\d+e(?![a-z0-9]))")
"""`27b`, `1.7b`, `350m`: how many parameters a name says; not `17b-16e`, which is what a token uses of 16 experts."""
_ACTIVE = re.compile(r"-a(\d{1,3}(?:\.\d+)?)b(?![a-z0-9])")
"""`-a3b`: how many of them a token uses."""


class Size(NamedTuple):
    """Parameters in billions, and those that a token uses; None: the name does not say that it is a mixture."""

    total: float
    active: float | None = None

    def away(self, other: Size) -> float:
        """How far another size is away: the logarithms of the ratios, of all parameters and of those in use."""
        active = (self.active or self.total), (other.active or other.total)
        either = self.active is not None or other.active is not None
        return abs(log(self.total / other.total)) + (abs(log(active[0] / active[1])) if either else 0.0)


@lru_cache(4096)
def size_in(name: str) -> Size | None:
    """The size that a name says; None: it says none.

    >>> size_in("Qwen/Qwen3.5-122B-A10B"), size_in("smollm2-360m"), size_in("falcon-h1-1.5b-deep"), size_in("gpt2")
    (Size(total=122.0, active=10.0), Size(total=0.36, active=None), Size(total=1.5, active=None), None)
    >>> size_in("facebook/m2m100_418M"), size_in("stablelm-2-1_6b"), size_in("llama-4-scout-17b-16e")
    (Size(total=0.418, active=None), Size(total=1.6, active=None), None)
    """
    tail = re.sub(r"(?<=\d)_(?=\d(?!\d))", ".", name.rpartition("/")[2].lower()).replace("_", "-")
    found = _SIZE.search(tail)
    if found is None or not float(found[1]):
        return None
    active = _ACTIVE.search(tail)
    return Size(float(found[1]) * (1e-3 if found[2] == "m" else 1.0), None if active is None else float(active[1]) or None)
