"""In which pieces is a space of plans looked at, so that terms stay small, little is illegal, and memory is bounded?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import product
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuplan.files.progress import steps
from gpuplan.num import Num
from gpuplan.record import Record
from gpuplan.search.space import Index, P, Part, Space

MASKED = 2**20
"""Candidates whose legality is looked at together; what is looked at beyond the chunk that is estimated is bounded by this."""
CHUNK = 2**17
"""Candidates of an open mesh that are estimated together: enough for the fixed work of an estimate, few enough for the caches."""
APART = 2**15
"""Candidates of an open mesh that are estimated in the time of the fixed work of an estimate: what another piece must save."""
LISTED = 2**13
"""Candidates of a list that are estimated together: every term has one value for each of them."""
SPARSE = 8
"""So many candidates of an open mesh are estimated in the time of one of a list: below that share of legal ones they are listed."""

Places = NDArray[np.intp]
Mask = NDArray[np.bool_]


class Block(Record, eq=False):
    """Some values of each axis; every combination of them is a candidate, the last axis running fastest."""

    names: tuple[str, ...]
    values: tuple[NDArray[np.float64], ...]
    places: tuple[Places, ...]
    """Where they stand on the axes of the whole space."""

    @classmethod
    def whole(cls, axes: Mapping[str, Sequence[float]]) -> Block:
        """All values of all axes, the longest axis last: arrays are read along it without a break."""
        longest = max(axes, key=lambda name: len(axes[name]))
        names = (*(name for name in axes if name != longest), longest)
        values = tuple(np.array(axes[name], dtype=np.float64) for name in names)
        return cls(names, values, tuple(np.arange(len(one)) for one in values))

    @property
    def shape(self) -> tuple[int, ...]:
        """How many values each axis has."""
        return tuple(len(one) for one in self.values)

    @property
    def size(self) -> int:
        """How many candidates there are."""
        return prod(self.shape)

    def open(self) -> dict[str, Num]:
        """Each axis along a dimension of its own; a plain number where it has one value, which makes every term smaller."""
        along = zip(self.names, self.values, opened(self.values), strict=True)
        return {name: float(values[0]) if len(values) == 1 else turned for name, values, turned in along}

    def listed(self, legal: Mask) -> dict[str, Places]:
        """The places of the legal candidates along each axis."""
        return {name: one[at] for name, one, at in zip(self.names, self.places, np.nonzero(legal), strict=True)}

    def cut(self, kept: Sequence[Any]) -> Block:
        """Some values of each axis, by slices or indexes."""
        return Block(
            self.names,
            tuple(one[keep] for one, keep in zip(self.values, kept, strict=True)),
            tuple(one[keep] for one, keep in zip(self.places, kept, strict=True)),
        )

    def pieces(self, most: int) -> Iterator[tuple[slice, ...]]:
        """Cuts into blocks of at most so many candidates, in the order of the candidates."""
        shape = self.shape
        axis = next((at for at in range(len(shape)) if prod(shape[at:]) <= most), len(shape))
        if axis == 0:
            yield tuple(slice(None) for _ in shape)
            return
        step = max(most // prod(shape[axis:]), 1)
        for leading in product(*(range(length) for length in shape[: axis - 1])):
            for start in range(0, shape[axis - 1], step):
                ones = tuple(slice(place, place + 1) for place in leading)
                yield (*ones, slice(start, start + step), *(slice(None) for _ in shape[axis:]))

    def trimmed(self, legal: Mask) -> tuple[Block, Mask]:
        """Without the values that no legal candidate has."""
        kept = [
            np.flatnonzero(legal.any(axis=tuple(other for other in range(legal.ndim) if other != at))) for at in range(legal.ndim)
        ]
        if all(len(keep) == length for keep, length in zip(kept, legal.shape, strict=True)):
            return self, legal
        return self.cut(kept), legal[np.ix_(*kept)]


def opened(axes: Sequence[NDArray[Any]]) -> tuple[NDArray[Any], ...]:
    """Each array along a dimension of its own."""
    return tuple(one.reshape([-1 if at == own else 1 for at in range(len(axes))]) for own, one in enumerate(axes))


class Many(Part[P], eq=False):
    """Some candidates of a space as one plan of arrays: an open mesh with a mask of the legal ones, or a list of legal ones."""

    space: Space[P]
    case: Mapping[str, Any]
    block: Block | None
    """The values of the axes; None: a list, of which `columns` has the place of each candidate on each axis."""
    columns: Mapping[str, Places]
    legal: Mask

    @classmethod
    def mesh(cls, space: Space[P], number: int, case: Mapping[str, Any], block: Block, legal: Mask) -> Many[P]:
        """The candidates of a block."""
        return cls(space.of(case, block.open()), (number,), space, case, block, {}, legal)

    @classmethod
    def listed(cls, space: Space[P], number: int, case: Mapping[str, Any], columns: Mapping[str, Places]) -> Many[P]:
        """Legal candidates by their places."""
        values = {
            name: float(values[0]) if len(values) == 1 else np.array(values, dtype=np.float64)[columns[name]]
            for name, values in space.axes.items()
        }
        return cls(space.of(case, values), (number,), space, case, None, columns, np.ones(_length(columns), dtype=np.bool_))

    @property
    def shape(self) -> tuple[int, ...]:
        """The dimensions of figures that differ between them."""
        return self.legal.shape

    def full(self, value: Any) -> NDArray[Any]:
        """A figure with one value for each candidate."""
        return np.broadcast_to(np.asarray(value), self.legal.shape)

    def quietly(self) -> AbstractContextManager[object]:
        """The context to estimate them in: illegal candidates of a mesh may divide by nothing, and nobody reads what comes out."""
        return np.errstate(all="ignore")

    def count(self, holds: Any) -> int:
        """For how many legal candidates something holds."""
        return int(np.count_nonzero(self.legal & holds))

    def where(self, holds: Any) -> Many[P]:
        """The candidates for which it holds, of which there must be one."""
        legal, (number,) = self.legal & holds, self.index
        if self.block is None:
            return Many.listed(self.space, number, self.case, {name: one[legal] for name, one in self.columns.items()})
        return _made(self.space, number, self.case, *self.block.trimmed(legal))

    def least(self, keys: Sequence[Any]) -> tuple[tuple[float, ...], Index]:
        """The smallest keys of a legal candidate, the earlier ones first, and its place; of equals the first."""
        alive = np.flatnonzero(self.legal)
        found = []
        for key in keys:
            values = self.full(key).ravel()[alive] if np.ndim(key) else np.full(len(alive), key, dtype=np.float64)
            least = values.min()
            alive = alive[values == least]
            found.append(float(least))
        places = list(self.places(alive).values())
        first = int(np.lexsort(places[::-1])[0])
        return tuple(found), (*self.index, *(int(one[first]) for one in places))

    def places(self, flat: NDArray[np.intp]) -> dict[str, Places]:
        """Where some candidates stand on the axes of the space."""
        if self.block is None:
            return {name: self.columns[name][flat] for name in self.space.axes}
        inside = np.unravel_index(flat, self.legal.shape)
        at = {name: one[own] for name, one, own in zip(self.block.names, self.block.places, inside, strict=True)}
        return {name: at[name] for name in self.space.axes}

    def put(self, whole: NDArray[Any], value: Any) -> None:
        """Write a figure of the legal candidates into an array of the whole space: cases first, then the axes."""
        (number,), found = self.index, self.full(value)
        own = whole[number]
        if self.block is None:
            own[tuple(self.columns[name] for name in self.space.axes)] = found
            return
        names = list(self.space.axes)
        own = own.transpose([names.index(name) for name in self.block.names])
        at = np.ix_(*self.block.places)
        own[at] = np.where(self.legal, found, own[at])


def _made(space: Space[P], number: int, case: Mapping[str, Any], block: Block, legal: Mask) -> Many[P]:
    """The candidates of a block as a mesh, or as a list where few of them are legal."""
    if legal.size > SPARSE * np.count_nonzero(legal):
        return Many.listed(space, number, case, block.listed(legal))
    return Many.mesh(space, number, case, block, legal)


def parts(space: Space[P]) -> Iterator[Many[P]]:
    """All legal candidates of a space in pieces: open meshes, or lists where few of a mesh are legal."""
    whole = Block.whole(space.axes)
    for number, case in enumerate(steps([*space.every_case()], "kinds of plans")):
        rest: list[Mapping[str, Places]] = []
        for cut in whole.pieces(MASKED):
            block = whole.cut(cut)
            for piece, legal in divided(block, legality(space, case, block)):
                if legal.size <= SPARSE * np.count_nonzero(legal):
                    yield Many.mesh(space, number, case, piece, legal)
                else:
                    rest.append(piece.listed(legal))
            if sum(_length(one) for one in rest) >= LISTED:
                *full, last = _lists(rest)
                for columns in full:
                    yield Many.listed(space, number, case, columns)
                rest = [last]
        for columns in _lists(rest) if rest else ():
            yield Many.listed(space, number, case, columns)


def some(space: Space[P], most: int) -> list[Index]:
    """The places of as many legal candidates of a space, or of all where there are fewer."""
    whole, found = Block.whole(space.axes), list[Index]()
    for number, case in enumerate(space.every_case()):
        for cut in whole.pieces(MASKED):
            block = whole.cut(cut)
            legal = legality(space, case, block)
            first = np.unravel_index(np.flatnonzero(legal)[: most - len(found)], legal.shape)
            at = {name: one[own] for name, one, own in zip(block.names, block.places, first, strict=True)}
            found += [(number, *one) for one in zip(*(at[name].tolist() for name in space.axes), strict=True)]
            if len(found) == most:
                return found
    return found


def divided(block: Block, legal: Mask) -> Iterator[tuple[Block, Mask]]:
    """Pieces of a block that are estimated together, with as little in them that is not legal as is worth pieces of its own."""
    left = [(block, legal)]
    while left:
        block, legal = left.pop()
        if not legal.any():
            continue
        block, legal = block.trimmed(legal)
        cuts = _alike(legal) if legal.size - np.count_nonzero(legal) > APART else []
        if not cuts and block.size > CHUNK:
            cuts = [tuple(np.arange(n)[own] for n, own in zip(block.shape, cut, strict=True)) for cut in block.pieces(CHUNK)]
        if not cuts:
            yield block, legal
        left += [(block.cut(cut), legal[np.ix_(*cut)]) for cut in reversed(cuts)]


def _alike(legal: Mask) -> list[tuple[Places, ...]]:
    """Cuts along one axis into values that are legal with the same values of the others, where that saves most; else none."""
    every = range(legal.ndim)
    partners: dict[tuple[int, int], NDArray[Any]] = {}
    for own in every:
        for other in range(own + 1, legal.ndim):
            found: NDArray[Any] = np.any(legal, axis=tuple(one for one in every if one not in (own, other)))
            partners[own, other], partners[other, own] = found, found.T
    best: list[tuple[Places, ...]] = []
    least = legal.size
    for own in every:
        seen = [partners[own, other] for other in every if other != own]
        kinds: dict[bytes, list[int]] = {}
        for place in range(legal.shape[own]):
            kinds.setdefault(b"".join(one[place].tobytes() for one in seen), []).append(place)
        sizes = [len(places) * prod(int(one[places[0]].sum()) for one in seen) for places in kinds.values()]
        cost = sum(sizes) + APART * (len(kinds) - 1)
        if cost < least:
            least = cost
            best = [
                tuple(np.array(places) if at == own else np.arange(legal.shape[at]) for at in every) for places in kinds.values()
            ]
    return best


def legality(space: Space[P], case: Mapping[str, Any], block: Block) -> Mask:
    """Which candidates of a block are in the space."""
    return np.broadcast_to(np.asarray(space.legal(space.of(case, block.open())), dtype=np.bool_), block.shape)


def _length(columns: Mapping[str, Places]) -> int:
    """How many candidates a list has."""
    return len(next(iter(columns.values())))


def _lists(found: Sequence[Mapping[str, Places]]) -> list[Mapping[str, Places]]:
    """The candidates in lists that are estimated together."""
    columns = {name: np.concatenate([one[name] for one in found]) for name in found[0]}
    return [{name: one[start : start + LISTED] for name, one in columns.items()} for start in range(0, _length(columns), LISTED)]
