"""How far does doubt about leaves carry a figure: its low and high, and how much memory it may come to?"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cached_property
from math import exp, hypot, inf, log
from typing import Any, NamedTuple

from gpuplan.num import Num, log2, maximum, minimum, sqrt
from gpuplan.term import Term


def interval(roots: Mapping[str, Term], shares: Collection[str] = ()) -> dict[str, tuple[float, float]]:
    """The low and high of each root: the swings of all uncertain leaves, one at a time, added in quadrature.

    Leaves are independent kinds of doubt (a kind of kernel, an engine's overhead), so their swings add as variances: of bytes,
    which are sums, as they are; of times, rates and shares as logarithms, so that a rate is as uncertain as its time
    (GUM, JCGM 100:2008, section 5.1.2, https://www.bipm.org/documents/20126/2071204/JCGM_100_2008_E.pdf).

    Roots named in `shares` are parts of what physics allows: where doubt would carry one above 1, every leaf that raises it
    counts less by as much as is too much, for all roots alike. So the fast end of a time is no faster than its work at the peak,
    and tokens per second and cost at that end are those of that time.
    """
    graph = _Graph(roots.values())
    centre = {key: float(root.value) for key, root in roots.items()}
    # What doubles a time halves its rate: their ranges must say the same.
    factors = {key: root.unit != "B" and centre[key] > 0 for key, root in roots.items()}
    leaves = [
        [
            {key: _size(float(value) - centre[key], centre[key], factors[key]) for key, value in end.items()}
            for end in graph.ends(doubt, roots)
        ]
        for doubt in range(len(graph.doubts))
    ]
    for key in shares:
        if factors[key] and centre[key] <= 1:
            _bound(key, -log(centre[key]), leaves, factors)
    made: dict[str, tuple[float, float]] = {}
    for key, middle in centre.items():
        down = up = 0.0
        for ends in leaves:
            swings = [end.get(key, 0.0) for end in ends]
            down, up = hypot(down, min(0.0, *swings)), hypot(up, max(0.0, *swings))
        made[key] = (middle * exp(-down), middle * exp(min(up, _MOST))) if factors[key] else (middle - down, middle + up)
        if key in shares and middle <= 1:
            made[key] = made[key][0], min(made[key][1], 1.0)  # of rounding alone
    return made


def intervals(roots: Mapping[str, Term], shares: Collection[str] = ()) -> dict[str, tuple[Num, Num]]:
    """The same of many candidates, whose values are arrays: every doubt at both its ends in one pass through the terms."""
    import numpy as np

    centre = {key: np.asarray(root.value) for key, root in roots.items()}
    factors = {key: (roots[key].unit != "B") & (middle > 0) for key, middle in centre.items()}
    sizes = dict(swings(roots)[1])
    for key in shares:
        most = -np.log(np.minimum(centre[key], 1.0))
        rises = sizes[key] > 0
        up = np.sqrt((np.maximum(sizes[key], 0.0).max(axis=1) ** 2).sum(axis=0))
        less = np.where(factors[key] & (centre[key] <= 1) & (up > most), most / np.where(up > 0, up, 1.0), 1.0)
        for other, one in sizes.items():
            sizes[other] = np.where(rises & factors[other], one * less, one)
    made: dict[str, tuple[Num, Num]] = {}
    for key, middle in centre.items():
        down = np.sqrt((np.minimum(sizes[key], 0.0).min(axis=1) ** 2).sum(axis=0))
        up = np.sqrt((np.maximum(sizes[key], 0.0).max(axis=1) ** 2).sum(axis=0))
        low = np.where(factors[key], middle * np.exp(-down), middle - down)
        high = np.where(factors[key], middle * np.exp(np.minimum(up, _MOST)), middle + up)
        made[key] = low, np.where(middle <= 1, np.minimum(high, 1.0), high) if key in shares else high
    return made


def swings(roots: Mapping[str, Term]) -> tuple[tuple[str, ...], Mapping[str, Any]]:
    """The names of all doubts, and by how much each end of each moves each root of many candidates: [doubt, end, candidate].

    Of times, rates and shares these are logarithms of factors; of bytes they are bytes.
    """
    import numpy as np

    graph = _Graph(roots.values())
    doubts = graph.doubts
    shape = np.broadcast_shapes(*(np.shape(root.value) for root in roots.values()))
    swung: dict[int, Num] = {}
    for at, leaf in ((at, graph.order[place]) for at, doubt in enumerate(doubts) for place in doubt):
        own = np.shape(leaf.value)
        ends = np.array(np.broadcast_to(np.asarray(leaf.value), (len(doubts), 2, *own)))
        ends[at] = np.stack([np.broadcast_to(np.asarray(end), own) for end in leaf.spread or ()])
        swung[id(leaf)] = ends.reshape(len(doubts), 2, *(1,) * (len(shape) - len(own)), *own)
    for term, rests_on in zip(graph.order, graph.below, strict=True):
        if rests_on and term.formula is not None:
            swung[id(term)] = term.formula.fn(**{key: swung.get(id(part), part.value) for key, part in term.args})
    sizes: dict[str, Any] = {}
    full = (len(doubts), 2, *shape)
    with np.errstate(all="ignore"):
        for key, root in roots.items():
            middle = np.asarray(root.value)
            value = np.broadcast_to(np.asarray(swung.get(id(root), root.value)), full)
            ratio = np.log(np.maximum(value / middle, 0.0))
            sizes[key] = np.array(np.where((root.unit != "B") & (middle > 0), ratio, value - middle))
    return tuple(graph.order[doubt[0]].name for doubt in doubts), sizes


def _bound(share: str, most: float, leaves: list[list[dict[str, float]]], factors: Mapping[str, bool]) -> None:
    """Let the ends that raise a share count less, for all times and rates alike, so that together they raise it by `most`."""
    up = hypot(*(max(0.0, *(end.get(share, 0.0) for end in ends)) for ends in leaves))
    if up <= most:
        return
    for end in (end for ends in leaves for end in ends if end.get(share, 0.0) > 0):
        for key in end:
            if factors[key]:
                end[key] *= most / up


def high_end(root: Term) -> Num:
    """The high of one figure in bytes as `interval` has it, for one candidate or for many.

    Whoever says that memory surely suffices means this: the verdict, the range that is printed, and the search.
    """
    graph = _Graph([root])
    squares: Num = 0.0
    for doubt in range(len(graph.doubts)):
        most: Num = 0.0
        for swung in graph.ends(doubt, {"": root}):
            if "" in swung:
                most = maximum(most, swung[""] - root.value)
        squares = squares + most * most
    return root.value + sqrt(squares)


def time_ends(root: Term) -> tuple[Num, Num]:
    """The low and high of one time or rate as `interval` has them, for one candidate or for many."""
    if getattr(root.value, "ndim", 0):
        return intervals({"": root})[""]
    graph = _Graph([root])
    down: Num = 0.0
    up: Num = 0.0
    for doubt in range(len(graph.doubts)):
        least: Num = 0.0
        most: Num = 0.0
        for swung in graph.ends(doubt, {"": root}):
            if "" in swung:
                size = log2(swung[""] / root.value)
                least, most = minimum(least, size), maximum(most, size)
        down, up = down + least * least, up + most * most
    return root.value / 2.0 ** sqrt(down), root.value * 2.0 ** sqrt(up)


_MOST = 600.0
"""Logarithm of a factor that no range needs, and that no number overflows with."""


def _size(swing: float, centre: float, factor: bool) -> float:
    """A swing as it adds to others: of a time or rate as the logarithm of a factor, of bytes as it is."""
    if not factor:
        return swing
    return log(1 + swing / centre) if swing > -centre else -inf


class _Step(NamedTuple):
    """How a term that rests on a doubt is made anew: where it stands, its formula, and where its parts stand, by key too."""

    place: int
    fn: Callable[..., Num]
    parts: tuple[int, ...]
    args: tuple[tuple[str, int], ...]


class _Graph:
    """Every term below some roots once, parts before what is made of them, and the doubts that each of them rests on."""

    def __init__(self, roots: Iterable[Term]) -> None:
        self.order: list[Term] = []
        self.doubts: list[list[int]] = []
        """Places of uncertain leaves, by their names: those that were made anew for each use are one doubt, and swing together."""
        self.below: list[int] = []
        """Which doubts are below a term, as the bits of a number."""
        self._parts: list[tuple[int, ...]] = []
        """Where the parts of each term stand."""
        self._at: dict[int, int] = {}
        self._named: dict[str, int] = {}
        self._in: list[int] = []
        """The same as `below` with the doubt that a term itself is."""
        for root in roots:
            if id(root) not in self._at:
                self._append(root)
        self._values: list[Num] = [term.value for term in self.order]

    def _append(self, term: Term) -> int:
        """The place of a term that has none yet, which follows those of its parts."""
        at, inside = self._at, self._in
        parts, below = [], 0
        for _, part in term.args:
            place = at.get(id(part))
            if place is None:
                place = self._append(part)
            parts.append(place)
            below |= inside[place]
        place = at[id(term)] = len(self.order)
        self.order.append(term)
        self._parts.append(tuple(parts))
        self.below.append(below)
        if term.spread is not None:
            doubt = self._named.setdefault(term.name, len(self.doubts))
            if doubt == len(self.doubts):
                self.doubts.append([])
            self.doubts[doubt].append(place)
            below |= 1 << doubt
        inside.append(below)
        return place

    @cached_property
    def _above(self) -> list[list[_Step]]:
        """What rests on each doubt."""
        above: list[list[_Step]] = [[] for _ in self.doubts]
        for place, (term, parts, below) in enumerate(zip(self.order, self._parts, self.below, strict=True)):
            if below and term.formula is not None:
                args = tuple([(key, part) for (key, _), part in zip(term.args, parts, strict=True)])
                step = _Step(place, term.formula.fn, parts, args)
                left = below
                while left:
                    lowest = left & -left
                    above[lowest.bit_length() - 1].append(step)
                    left ^= lowest
        return above

    def ends(self, doubt: int, roots: Mapping[str, Term]) -> Iterator[dict[str, Num]]:
        """The roots that an uncertain leaf moves, with the leaf at each of its ends."""
        known = self._values
        values = list(known)
        for end in (0, 1):
            moved: set[int] = set()
            for place in self.doubts[doubt]:
                spread = self.order[place].spread
                if spread is not None:
                    values[place] = spread[end]
                    moved.add(place)
            for place, fn, parts, args in self._above[doubt]:
                if moved.isdisjoint(parts):
                    continue
                value = fn(**{key: values[part] for key, part in args})
                # What is hidden beside something longer moves nothing that rests on it.
                if type(value) is not float or value != known[place]:
                    values[place] = value
                    moved.add(place)
            yield {key: values[at] for key, root in roots.items() if (at := self._at[id(root)]) in moved}
            for place in moved:
                values[place] = known[place]
