"""In which pieces is a space of plans looked at, so that terms stay small, little is illegal, and memory is bounded?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import product
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gpuplan.num import Num
from gpuplan.record import Record
from gpuplan.search.space import Index, P, Part, Space

MASKED = 2**20
"""Candidates whose legality is looked at together; what is looked at beyond the chunk that is estimated is bounded by this."""
CHUNK = 2**16
"""Candidates of an open mesh that are estimated together: enough for the fixed work of an estimate, few enough for the caches."""
LISTED = 2**13
"""Candidates of a list that are estimated together: every term has one value for each of them."""
SPARSE = 8
"""So many candidates of an open mesh are estimated in the time of one of a list: below that share of legal ones they are listed."""

Places = NDArray[np.intp]
Mask = NDArray[np.bool_]


class Block(Record, eq=False):
    """Some values of each axis; every combination of them is a candidate, the last axis running fastest."""

    values: tuple[NDArray[np.float64], ...]
    places: tuple[Places, ...]
    """Where they stand on the axes of the whole space."""

    @classmethod
    def whole(cls, axes: Sequence[Sequence[float]]) -> Block:
        """All values of all axes."""
        return cls(tuple(np.array(one, dtype=np.float64) for one in axes), tuple(np.arange(len(one)) for one in axes))

    @property
    def shape(self) -> tuple[int, ...]:
        """How many values each axis has."""
        return tuple(len(one) for one in self.values)

    @property
    def size(self) -> int:
        """How many candidates there are."""
        return prod(self.shape)

    def open(self) -> tuple[Num, ...]:
        """Each axis along a dimension of its own; a plain number where it has one value, which makes every term smaller."""
        return tuple(float(one[0]) if len(one) == 1 else along for one, along in zip(self.values, opened(self.values), strict=True))

    def cut(self, kept: Sequence[Any]) -> Block:
        """Some values of each axis, by slices or indexes."""
        return Block(
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
    block: Block | None
    """The values of the axes; None: a list, of which `columns` has the place of each candidate on each axis."""
    columns: tuple[Places, ...]
    legal: Mask

    @classmethod
    def mesh(cls, space: Space[P], case: int, chosen: Mapping[str, Any], block: Block, legal: Mask) -> Many[P]:
        """The candidates of a block."""
        plan = space.of(chosen, dict(zip(space.axes, block.open(), strict=True)))
        return cls(plan, (case,), space, block, (), legal)

    @classmethod
    def listed(cls, space: Space[P], case: int, chosen: Mapping[str, Any], columns: tuple[Places, ...]) -> Many[P]:
        """Legal candidates by their places."""
        values = [
            float(values[0]) if len(values) == 1 else np.array(values, dtype=np.float64)[own]
            for values, own in zip(space.axes.values(), columns, strict=True)
        ]
        plan = space.of(chosen, dict(zip(space.axes, values, strict=True)))
        return cls(plan, (case,), space, None, columns, np.ones(len(columns[0]), dtype=np.bool_))

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
        legal = self.legal & holds
        (case,) = self.index
        chosen = next(one for number, one in enumerate(self.space.every_case()) if number == case)
        if self.block is None:
            return Many.listed(self.space, case, chosen, tuple(one[legal] for one in self.columns))
        block, legal = self.block.trimmed(legal)
        if legal.size > SPARSE * np.count_nonzero(legal):
            return Many.listed(self.space, case, chosen, _places(block, legal))
        return Many.mesh(self.space, case, chosen, block, legal)

    def least(self, keys: Sequence[Any]) -> tuple[tuple[float, ...], Index]:
        """The smallest keys of a legal candidate, the earlier ones first, and its place."""
        alive = np.flatnonzero(self.legal)
        found = []
        for key in keys:
            values = self.full(key).ravel()[alive] if np.ndim(key) else np.full(len(alive), key, dtype=np.float64)
            least = values.min()
            alive = alive[values == least]
            found.append(float(least))
        return tuple(found), (*self.index, *self.place(int(alive[0])))

    def put(self, whole: NDArray[Any], value: Any) -> None:
        """Write a figure of the legal candidates into an array of the whole space: cases first, then the axes."""
        (case,), found = self.index, self.full(value)
        own = whole[case]
        if self.block is None:
            own[self.columns] = found
        else:
            at = np.ix_(*self.block.places)
            own[at] = np.where(self.legal, found, own[at])

    def place(self, flat: int) -> Index:
        """Where a candidate stands on the axes."""
        if self.block is None:
            return tuple(int(one[flat]) for one in self.columns)
        inside = np.unravel_index(flat, self.legal.shape)
        return tuple(int(one[at]) for one, at in zip(self.block.places, inside, strict=True))


def _places(block: Block, legal: Mask) -> tuple[Places, ...]:
    """The places of the legal candidates of a block, in order."""
    return tuple(one[at] for one, at in zip(block.places, np.nonzero(legal), strict=True))


def parts(space: Space[P]) -> Iterator[Many[P]]:
    """All legal candidates of a space in pieces: open meshes, or lists where few of a mesh are legal."""
    whole = Block.whole(list(space.axes.values()))
    for case, chosen in enumerate(space.every_case()):
        rest: list[tuple[Places, ...]] = []
        for cut in whole.pieces(MASKED):
            block = whole.cut(cut)
            legal = legality(space, chosen, block)
            if not legal.any():
                continue
            block, legal = block.trimmed(legal)
            for inside in block.pieces(CHUNK):
                here = legal[inside]
                number = np.count_nonzero(here)
                if number == 0:
                    continue
                piece, here = block.cut(inside).trimmed(here)
                if here.size <= SPARSE * number:
                    yield Many.mesh(space, case, chosen, piece, here)
                else:
                    rest.append(_places(piece, here))
            if sum(len(one[0]) for one in rest) >= LISTED:
                *full, last = _lists(rest)
                for one in full:
                    yield Many.listed(space, case, chosen, one)
                rest = [last]
        if rest:
            for one in _lists(rest):
                yield Many.listed(space, case, chosen, one)


def legality(space: Space[P], case: Mapping[str, Any], block: Block) -> Mask:
    """Which candidates of a block are in the space."""
    plan = space.of(case, dict(zip(space.axes, block.open(), strict=True)))
    return np.broadcast_to(np.asarray(space.legal(plan), dtype=np.bool_), block.shape)


def _lists(found: Sequence[tuple[Places, ...]]) -> list[tuple[Places, ...]]:
    """The candidates in lists that are estimated together."""
    columns = [np.concatenate(column) for column in zip(*found, strict=True)]
    return [tuple(one[start : start + LISTED] for one in columns) for start in range(0, len(columns[0]), LISTED)]
