"""One name stands for one quantity: what is made again under a name is what was made, or is refused."""

from __future__ import annotations

import pytest

from gpuplan.term import USER, Term, WiringError
from gpuplan.workload.context import Leaves


def degree(value: float) -> Term:
    return Term("plan.tp", value, "1", USER)


def test_a_leaf_is_made_once() -> None:
    leaf = Leaves(USER)
    assert leaf("dense.mixer.heads", 32) is leaf("dense.mixer.heads", 32)
    ways = degree(4.0)
    shared = leaf.split("dense.mixer.rank_heads", leaf("dense.mixer.heads", 32), ways)
    assert shared is leaf.split("dense.mixer.rank_heads", leaf("dense.mixer.heads", 32), ways)
    assert shared.value == 8.0


def test_a_leaf_of_another_number_is_refused() -> None:
    leaf = Leaves(USER)
    leaf("dense.mixer.heads", 32)
    with pytest.raises(WiringError, match=r"`model.dense.mixer.heads` is 32 and 16"):
        leaf("dense.mixer.heads", 16)


@pytest.mark.parametrize("made", ["split", "times", "least"])
def test_a_quantity_of_other_terms_is_refused_where_it_differs(made: str) -> None:
    leaf = Leaves(USER)
    heads = leaf("dense.mixer.heads", 32)
    first = getattr(leaf, made)("rank", heads, degree(4.0))
    assert getattr(leaf, made)("rank", heads, degree(4.0)) is first
    with pytest.raises(WiringError, match="`rank` is made twice"):
        getattr(leaf, made)("rank", heads, degree(2.0))
