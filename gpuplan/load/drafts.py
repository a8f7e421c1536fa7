"""How many steps does an answer take whose tokens are drafted, and how long do the drafts of a step take?"""

from __future__ import annotations

from array import array

import numpy as np
from numpy.typing import NDArray

from gpuplan.estimate.drafting import Drafter
from gpuplan.estimate.pins import with_values
from gpuplan.load.pace import Drafting, Pace
from gpuplan.load.step_times import EACH_UP_TO
from gpuplan.record import Record
from gpuplan.term import DEFINITION, Term

AT_ONCE = 4_000_000
"""Draws at a time."""
SURE = 0.999999
"""A rate of acceptance that counts as all."""


class Drafts(Record, kw_only=True):
    """What the steps of a replica draft, and how much of it is accepted."""

    number: int
    acceptance: float
    expected: float
    """Tokens of a step in the mean."""

    @classmethod
    def of(cls, drafter: Drafter) -> Drafts:
        """The drafts of a plan, with the user's own values of terms."""
        expected = with_values(drafter.expected, drafter.model.subject.pins)
        return cls(
            number=round(float(drafter.number.value)), acceptance=float(dict(expected.args)["acceptance"].value),
            expected=float(expected.value),
        )  # fmt: skip


def steps_of(output: NDArray[np.int64], drafts: Drafts, seed: int) -> array[int]:
    """Decode steps from the first token of each answer to its last: in each, drafts count up to the first that is refused.

    A draft whose predecessors were accepted is accepted with the same probability, whatever it is (Leviathan et al. 2022,
    https://arxiv.org/abs/2211.17192, section 3.1), so that the number of a step is a geometric one that ends with the drafts.
    """
    some = np.random.default_rng((seed, 1))
    left = np.maximum(np.asarray(output, dtype=np.int64) - 1, 0)
    steps = np.zeros(len(left), dtype=np.int64)
    order = np.argsort(left, kind="stable")
    start = 0
    while start < len(order):
        # Answers of about one length at a time: all of them get as many draws as the longest may need, and more if they did not do.
        longest = int(left[order[min(start + 1, len(order) - 1)]]) or 1
        count = max(min(AT_ONCE // longest, len(order) - start), 1)
        part = order[start : start + count]
        start += count
        while len(part):
            most = int(np.ceil(left[part].max() / drafts.expected * 1.2)) + 8
            for rows in np.array_split(part, -(-len(part) * most // AT_ONCE)):
                made = np.cumsum(_accepted((len(rows), most), drafts, some) + 1, axis=1)
                enough = made < left[rows][:, None]
                steps[rows] += np.minimum(enough.sum(axis=1) + 1, most) * (left[rows] > 0)
                left[rows] -= np.where(enough[:, -1], made[:, -1], left[rows])
            part = part[left[part] > 0]
    return array("q", steps.tolist())


def _accepted(shape: tuple[int, int], drafts: Drafts, some: np.random.Generator) -> NDArray[np.int64]:
    if drafts.acceptance >= SURE:
        return np.full(shape, drafts.number, dtype=np.int64)
    if drafts.acceptance <= 0:
        return np.zeros(shape, dtype=np.int64)
    found: NDArray[np.int64] = np.minimum(some.geometric(1 - drafts.acceptance, shape) - 1, drafts.number)
    return found


def drafting_pace(whole: Pace, own: Pace, drafter: Drafter, number: int, most: int, host: float) -> Drafting:
    """The pace of steps with drafts; `host` are seconds of the host in each pass that one of a layer behind the model has not."""
    alone = drafter.drafting.alone
    rows = np.arange(1, min(max(most, 2), EACH_UP_TO) + 1, dtype=float)
    projection = [0.0, *(0.0 * rows).tolist()]
    if not alone:
        made = with_values(drafter.projection(Term("load.rows", rows, "1", DEFINITION), "step"), drafter.model.subject.pins)
        projection = [0.0, *np.broadcast_to(np.asarray(made.value, dtype=float), rows.shape).tolist()]
    return Drafting(whole, own, number, 0.0 if alone else host, projection)
