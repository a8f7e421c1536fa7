"""How full is the fullest rank of experts in the rows of a table, and how many of its experts have work?

The tables name a `distribution`: `balanced` deals tokens out in turn; `power_law_A` draws the tokens of each expert from a
power law of exponent A between 1 and 0.8 times the tokens (between 0.01 and 2 where there are fewer copies of tokens than
experts), scales them to all copies, rounds them, and times the rank that has most
(https://github.com/ai-dynamo/aiconfigurator, collector/helper.py, `_generate_power_law_distribution`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gpuplan.errors import Problem, UsageError

if TYPE_CHECKING:
    from numpy.typing import NDArray

BALANCED = "balanced"
POWER = "power_law_"
HARMONIC = 1e-4
"""Exponents as near to 1 as this have no power of their own: the law is even in the logarithm."""
PLACES = (np.arange(64) + 0.5) / 64
LEAST_OF_BATCH, MOST_OF_BATCH = 0.01, 2.0
REACH = 0.8


class Loads(NamedTuple):
    """Of the fullest rank: copies of tokens that its experts multiply, and how many of them have any."""

    copies: NDArray[np.float64]
    touched: NDArray[np.float64]


def exponent_of(distribution: str, where: str = "") -> float:
    """The exponent of a power law by the name of the distribution; 0 is even.

    Raises:
        UsageError: no such distribution is known.
    """
    if distribution == BALANCED:
        return 0.0
    try:
        return float(distribution.removeprefix(POWER))
    except ValueError:
        hint = f"known are `{BALANCED}` and `{POWER}` with an exponent"
        raise UsageError(Problem("calibrate.bad-cell", f"distribution: `{distribution}` is not known", hint, where)) from None


def fullest_loads(
    *,
    tokens: NDArray[np.float64],
    top_k: NDArray[np.float64],
    experts: NDArray[np.float64],
    ranks: NDArray[np.float64],
    exponents: Sequence[float],
) -> Loads:
    """What the fullest of the ranks has to do, as the tables' rows are made; at least one copy for one expert."""
    power = np.array(exponents)
    all_copies = tokens * top_k
    spread = np.where(all_copies > experts, np.maximum(REACH * tokens, 1 + HARMONIC), MOST_OF_BATCH / LEAST_OF_BATCH)
    bend = np.where(np.abs(power - 1) < HARMONIC, 1 + HARMONIC, power)
    law = ((spread[:, None] ** (1 - bend[:, None]) - 1) * PLACES + 1) ** (1 / (1 - bend[:, None]))
    shares = np.where(power[:, None] == 0, 1.0, law / law.mean(axis=1, keepdims=True))
    held = experts / ranks
    deviation = np.sqrt(((shares**2).mean(axis=1) - 1) / held)
    load = np.minimum(1 + 0.564 * np.log2(ranks) ** 0.8 * deviation, np.minimum(shares[:, -1], ranks))
    load = np.where(power == 0, 1.0, load)
    copies = np.maximum(all_copies / ranks * load, 1.0)
    rounded = (shares * (all_copies / experts * load)[:, None] >= 0.5).mean(axis=1) * held
    touched = np.where(power == 0, np.minimum(experts, all_copies) / ranks, np.minimum(rounded, np.minimum(copies, held)))
    return Loads(copies, np.maximum(touched, 1.0))
