"""The fit of ranges: least wide that hold their share, seen rows and others apart; and what three runs of one's own bring."""

from __future__ import annotations

import numpy as np
import pytest

from gpuplan.accuracy.rows import Row
from gpuplan.formulas.basic import product
from gpuplan.ranges import intervals, swings
from gpuplan.term import Source, Term
from tools.fit_ranges import (
    KINDS,
    MOST,
    NARROW,
    SHARE,
    UNIT,
    Points,
    Range,
    Tried,
    are_few,
    at_least,
    ends_of,
    fit,
    joined,
    left_out,
)
from tools.fit_serving import Graph
from tools.own_points import Asked, Figure, compared
from tools.priced_rows import Estimated

DECODE = KINDS[0]
USER = Source("user", "a test")


def points(count: int = 400, spread: float = 0.15, others: float = 0.05, sources: tuple[str, ...] = ("a", "b")) -> Points:
    order = np.arange(count)
    return Points(
        metric=np.array(["tpot"] * count), seen=order % 3 > 0, source=np.array(sources)[order % len(sources)],
        shown=np.array(["e"] * count),
        off=np.random.default_rng(7).normal(0.0, spread, count), others=np.full((count, 2), others), own=np.ones((count, 2)),
    )  # fmt: skip


def test_ranges_hold_their_share_and_are_least_wide() -> None:
    made = points()
    found = fit(made, DECODE)
    held = made.held(*found)
    assert held[made.seen].mean() >= SHARE
    assert held[~made.seen].mean() >= SHARE
    assert SHARE <= held.mean() < SHARE + 0.05, "no wider than it must be"
    assert made.held(*Range(0.6 * found.low, 0.6 * found.high)).mean() < SHARE


def test_ranges_become_no_wider_than_helps_anybody() -> None:
    wide = points(spread=0.8)
    found = fit(wide, DECODE)
    assert np.median(np.exp(wide.wide(*found))) <= DECODE.widest
    assert wide.held(*found).mean() < SHARE
    assert fit(points(others=1.0), DECODE) == Range(NARROW, NARROW), "nothing that the factor could give is left"


def test_a_part_that_no_ends_hold_leaves_the_others_theirs() -> None:
    """A benchmark far off everything held the other rows at what the least wide pair happened to hold of them."""
    near, far = points(), points(count=40, sources=("c",))
    far = far._replace(shown=np.array(["far"] * 40), off=np.where(np.arange(40) % 4 == 0, 0.0, 5.0))
    both = joined([near, far])
    found = fit(both, DECODE)
    assert near.held(*found).mean() >= SHARE - 0.02
    assert np.median(np.exp(both.wide(*found))) <= DECODE.widest


def test_a_source_that_differs_is_left_out_by_the_others() -> None:
    near, far = points(), points(count=40, sources=("c",))
    both = joined([near, far._replace(off=far.off + 0.6)])
    held = left_out(both, DECODE, Tried.of(both))
    assert held[:400].mean() > 0.85
    assert held[400:].mean() < 0.4


def test_engines_of_few_rows_keep_ends_that_hold() -> None:
    few = points(count=20)
    assert are_few(few)
    assert are_few(points(sources=("one",)))
    assert not are_few(points())
    now, shared = Range(1.0, 0.01), Range(0.2, 0.3)
    assert at_least(now, shared, few) == Range(1.0, 0.3)
    holds = Range(1.0, 1.0)
    assert at_least(holds, shared, few) == holds
    assert ends_of(2.0, Range(MOST * np.log(UNIT), 0.0))[1] == 2.0


def test_swings_are_what_ranges_are_made_of() -> None:
    doubt = Term("a", np.array([2.0, 4.0]), "1", USER, spread=(np.array([1.0, 2.0]), np.array([4.0, 8.0])))
    sure = Term("b", 3.0, "1", USER)
    whole = product.term("c", a=doubt, b=sure)
    names, sizes = swings({"c": whole})
    assert names == ("a",)
    assert sizes["c"][0] == pytest.approx(np.log([[0.5, 0.5], [2.0, 2.0]]))
    low, high = intervals({"c": whole})["c"]
    assert np.asarray(high) / np.asarray(low) == pytest.approx([4.0, 4.0])


def row(name: str, users: int) -> Row:
    return Row(
        id=name, set="s", task="inference", model={"id": "m"}, hardware={"accelerator": "h100"}, engine="vllm",
        run={"concurrency": users, "input_len": 100}, measured={},
    )  # fmt: skip


def test_three_runs_of_a_group_tell_the_others() -> None:
    """A machine that is 1.3 times as slow as counted, for users from 1 to 64."""
    factor = Term("engine.decode_residual", 1.0, "1", USER, spread=(0.8, 1.2))
    prompts = Term("engine.prefill_residual", 1.0, "1", USER, spread=(0.8, 1.2))
    asked = []
    for at in range(8):
        step = Term("step", 0.01 * (1 + at), "1", USER)
        estimated = Estimated(product.term("itl", a=step, b=factor), None, 1.3 * 0.01 * (1 + at))
        figures = {"tpot": Figure(Graph(estimated.root, [factor.name, prompts.name]), estimated)}
        asked.append(Asked(row(f"r{at}", 2**at), figures, {"decode": (1.0, 0.8, 1.2), "prefill": (1.0, 0.8, 1.2)}))
    (found,) = compared(("m", "h100", "vllm"), asked)
    assert found.metric == "tpot"
    assert len(found.after) == len(asked) - 3
    assert found.before == pytest.approx([1 - 1 / 1.3] * 5)
    assert max(found.after) < 0.005
