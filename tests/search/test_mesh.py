"""A space is cut into pieces that hold every legal candidate once, however large it is."""

from __future__ import annotations

import tracemalloc
from itertools import islice
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuplan.plan.parallelism import Rule
from gpuplan.plan.train import TrainPlan
from gpuplan.search import mesh
from gpuplan.search.mesh import Block, divided, parts
from gpuplan.search.space import Space
from gpuplan.term import DEFINITION, Term, total
from tests.estimate.subjects import train_plan
from tests.sweeps import thinned

LENGTHS = st.lists(st.integers(1, 7), min_size=1, max_size=4)


@given(lengths=LENGTHS, most=st.integers(1, 60))
def test_pieces_of_a_block_hold_each_candidate_once_and_in_order(lengths: list[int], most: int) -> None:
    numbers = np.arange(int(np.prod(lengths))).reshape(lengths)
    block = Block(tuple("abcd"[: len(lengths)]), *(tuple(np.arange(float(n)) for n in lengths),), tuple(map(np.arange, lengths)))
    found = [numbers[cut] for cut in block.pieces(most)]
    assert all(one.size <= most for one in found)
    assert np.concatenate([one.ravel() for one in found]).tolist() == list(range(numbers.size))


@given(lengths=LENGTHS, apart=st.integers(0, 20), chunk=st.integers(1, 60), data=st.data())
def test_dividing_loses_and_repeats_no_legal_candidate(lengths: list[int], apart: int, chunk: int, data: st.DataObject) -> None:
    size = int(np.prod(lengths))
    legal = np.array(data.draw(st.lists(st.booleans(), min_size=size, max_size=size))).reshape(lengths)
    axes = {name: range(length) for name, length in zip("abcd", lengths, strict=False)}
    whole = Block.whole(axes)
    turned = legal.transpose([list(axes).index(name) for name in whole.names])
    found: list[tuple[int, ...]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mesh, "APART", apart)
        patch.setattr(mesh, "CHUNK", chunk)
        for block, here in divided(whole, turned):
            assert block.shape == here.shape
            assert block.size <= chunk
            assert all(here.any(axis=tuple(one for one in range(here.ndim) if one != at)).all() for at in range(here.ndim))
            places = block.listed(here)
            found += zip(*(places[name].tolist() for name in axes), strict=True)
    assert sorted(found) == [tuple(place) for place in np.argwhere(legal).tolist()]


def test_values_that_are_legal_alike_stay_together() -> None:
    legal = np.ones((4, 6, 50), dtype=bool)
    legal[:, 0, 10:] = False  # the first value of the second axis allows few of the third
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mesh, "APART", 10)
        shapes = [block.shape for block, _ in divided(Block.whole({"a": range(4), "b": range(6), "c": range(50)}), legal)]
    assert sorted(shapes) == [(4, 1, 10), (4, 5, 50)]


def space(size: int, share: int) -> Space[TrainPlan]:
    """A space of `size` cubed candidates, of which one in `share` is legal."""
    values = list(range(1, size + 1))

    def rules(plan: TrainPlan) -> list[Rule]:
        number: Any = plan.parallel.tp + 3 * plan.parallel.pp + 7 * plan.micro_batch
        return [Rule(number % share == 0, pytest.fail)]

    return Space(plan=train_plan(), axes={"tp": values, "pp": values, "micro_batch": values}, rules=rules)


@pytest.mark.parametrize(("share", "listed"), [(1, False), (5, False), (50, True)])
def test_sparse_meshes_are_listed(share: int, listed: bool) -> None:
    found = list(parts(space(40, share)))
    assert {part.block is None for part in found} == {listed}
    assert sum(part.count(True) for part in found) == pytest.approx(40**3 / share, rel=0.02)
    assert all(part.legal.size <= (mesh.LISTED if listed else mesh.CHUNK) for part in found)


@pytest.mark.parametrize("share", thinned([1, 50], every=2))
def test_memory_is_bounded_whatever_the_size_of_the_space(share: int) -> None:
    """Of eight billion candidates the first pieces take what those of a small space take."""

    def most(size: int) -> int:
        tracemalloc.start()
        try:
            for part in islice(parts(space(size, share)), 40):
                part.count(part.plan.micro_batch > 0)
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert most(2000) < 1.5 * most(150) < 200 * 2**20


def test_a_term_of_a_mesh_is_explained_at_every_place() -> None:
    def leaf(name: str, values: Any) -> Term:
        return Term(name, values, "s", DEFINITION)

    a, b = np.array([1.0, 2.0, 4.0]).reshape(3, 1), np.array([10.0, 20.0])
    parts_of_it = {"a": leaf("a", a), "b": leaf("b", b.reshape(1, 2)), "c": leaf("c", 100.0)}
    sums = total("sum", parts_of_it)
    for flat, (row, column) in enumerate(np.ndindex(3, 2)):
        for index in (flat, (row, column)):
            one = sums.at(index)
            assert one.value == a[row, 0] + b[column] + 100
            assert [part.value for _, part in one.args] == [a[row, 0], b[column], 100]
    inner = total("inner", {"a": parts_of_it["a"]})  # It tells three candidates apart, and is the same along the second dimension.
    assert [inner.at(at).value for at in range(3)] == [1, 2, 4]
    assert inner.at((2, 1)).value == 4
    assert parts_of_it["c"].at((2, 1)).value == parts_of_it["c"].at(5).value == 100
