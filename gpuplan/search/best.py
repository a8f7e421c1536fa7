"""Which plan of a space is best? One search for training, serving, reinforcement learning and models that are given by samples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, Generic

from gpuplan.record import Record
from gpuplan.search.space import Index, P, Part, Space

FEW = 4
"""So many candidates are sooner estimated one by one than numpy is imported."""


class Judged(Record, Generic[P], eq=False):
    """What was found of some candidates."""

    part: Part[P]
    """Those that are left to choose from."""
    fitting: int
    """How many of all fit."""
    keys: tuple[Any, ...]
    """What should be small, the most important first, for each of those left."""


class Best(Record, Generic[P], eq=False):
    """The plan that was chosen, whether it fits, and how many were looked at."""

    plan: P
    fits: bool
    looked_at: int
    fitting: int
    keys: tuple[float, ...] = ()
    """What was made small; nothing where there was nothing to compare."""
    behind: float = 1.0
    """How much longer it is expected to take than the fastest, where a surer plan was taken that can hardly be told from it."""
    narrow: P | None = None
    """A plan that fits, but not surely, and is so much faster than this one, which surely does, that somebody may dare it."""
    times: float = 1.0
    """How many times as fast that one is."""


def best(space: Space[P], judge: Callable[[Part[P]], Judged[P]], *, few: int = FEW) -> Best[P] | None:
    """The plan of the smallest keys, of equals the first; None where no plan is legal.

    Spaces of at most `few` candidates are looked at one by one, in plain numbers.
    """
    looked_at = 0

    def judged() -> Iterator[Judged[P]]:
        nonlocal looked_at
        for part in candidates(space, few):
            looked_at += part.count(True)
            with part.quietly():
                yield judge(part)

    found = best_of(space, judged())
    return None if found is None else found.replaced(looked_at=looked_at)


def best_of(space: Space[P], judged: Iterable[Judged[P]], looked_at: int = 0) -> Best[P] | None:
    """The plan of the smallest keys of what was judged of a space, of equals the first; None where nothing was."""
    chosen: tuple[tuple[float, ...], Index] | None = None
    fitting = 0
    for one in judged:
        fitting += one.fitting
        found = one.part.least(one.keys)
        if chosen is None or found < chosen:
            chosen = found
    if chosen is None:
        return None
    keys, index = chosen
    return Best(space.at(index), fitting > 0, looked_at, fitting, keys)


def some_legal(space: Space[P], most: int, *, few: int = FEW) -> list[P]:
    """As many legal plans of a space, or all where there are fewer: at a glance, without comparing them."""
    if space.size <= few:
        return [plan for _, plan in islice(space.singles(), most)]
    from gpuplan.search.mesh import some

    return [space.at(index) for index in some(space, most)]


def only(space: Space[P], *, few: int = FEW) -> P | None:
    """The one legal plan of a space where there is exactly one, which then needs no comparing."""
    found = some_legal(space, 2, few=few)
    return found[0] if len(found) == 1 else None


def candidates(space: Space[P], few: int = FEW) -> Iterator[Part[P]]:
    """All legal candidates of a space, in the pieces in which they are estimated."""
    if space.size <= few:
        for index, plan in space.singles():
            yield Part(plan, index)
        return
    from gpuplan.search.mesh import parts

    yield from parts(space)
