"""Over how many units of a machine may a replica be spread?

Over as many as hold its weights; and over more where these fill much of them, as caches then have room for more on each unit, or
where ranks of attention share experts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil

from gpuplan.errors import GpuplanError
from gpuplan.planner.where import Machine, outdone
from gpuplan.search.library import Library

NODE = (8, 4, 2, 1)
"""Accelerators of a node, where these are had one by one: the most of these that are known to be joined."""
MOST_UNITS = 8
"""Units that one replica is spread over at most."""
WIDEST = 320
"""Accelerators of a replica whose ranks of attention share experts, at most: so many decode in DeepSeek-V3's own deployment
(https://arxiv.org/abs/2412.19437, 3.4.2)."""
HELD = 0.9
"""The part of memory that weights may take where a replica stays on one unit: caches and activations want some of it too."""
MUCH = (0.25, 0.5)
"""Weights that fill more of a unit than this are spread over two, and over four. On N units weights that fill F of one leave caches
1 - F/N of each: below it twice as many have no more than a sixth more room each, and eight never more than that beyond four."""


class Units:
    """The numbers of units of one question; `shares`: whether ranks of attention can share the model's experts."""

    def __init__(self, machines: Sequence[Machine], library: Library, *, shares: bool) -> None:
        self.library, self.shares = library, shares
        self.larger = outdone(machines)
        self.nodes: dict[str, int] = {}

    def least(self, machine: Machine, held: float) -> tuple[int, ...]:
        """One, or where that does not hold so many bytes of weights as many as do, and some more."""
        node, full = self._node(machine), self._full(machine, held)
        if machine.fixed or full <= 1:
            return (node,)
        return tuple(node * units for units in _spread(full))

    def wider(self, machine: Machine, held: float, least: Sequence[int], *, far: bool = False) -> Iterator[int]:
        """More than hold the weights, where that may be better; not where the same provider has them in larger instances.

        `far`: whatever the weights fill, as caches of one request may want more than they leave.
        """
        if machine.fixed or not least:
            return
        full, units = self._full(machine, held), 2 * max(least)
        most = MOST_UNITS * min(least) if self.shares or far else 1
        if full <= 1:
            most = max(most, min(least) * 2 ** sum(full * HELD > part for part in MUCH))
        while units <= most and units * machine.each <= WIDEST:
            if not self.larger(machine, units * machine.each):
                yield units
            units *= 2

    def _full(self, machine: Machine, held: float) -> float:
        """How many units so many bytes of weights fill."""
        memory = machine.chip.memory
        return 0.0 if memory is None else held / (self._node(machine) * machine.each * memory * HELD)

    def _node(self, machine: Machine) -> int:
        """The accelerators of the largest node of single ones; of what comes in units, one of them."""
        if machine.fixed or machine.kind != "own" or machine.each != 1:
            return 1
        if machine.name not in self.nodes:
            self.nodes[machine.name] = next(size for size in NODE if size == 1 or self._joined(machine, size))
        return self.nodes[machine.name]

    def _joined(self, machine: Machine, size: int) -> bool:
        """Whether it is known what joins so many accelerators."""
        try:
            self.library.target(machine.target(size))
        except GpuplanError:
            return False
        return True


def _spread(number: float) -> list[int]:
    """Over how many units a replica may be spread that fills so many: the fewest that hold it, the next power of two, twice that.

    >>> _spread(1.2), _spread(2.8), _spread(4.0), _spread(9.0)
    ([2, 4], [3, 4, 8], [4, 8], [])
    """
    least = ceil(number)
    double = 1 << max(least - 1, 0).bit_length()
    return sorted({one for one in (least, double, 2 * double) if one <= MOST_UNITS})
