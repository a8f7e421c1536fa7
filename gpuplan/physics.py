"""What can be true of hardware and of answers? The bounds that spec files, measurements, imports and estimates are all held to."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterator
from math import inf, isfinite

from gpuplan.record import Record

CLOCKS = 1.02
"""How far above a peak a measured rate may lie: peaks are printed for one clock, and parts run up to 2 % beside it."""


class Window(Record):
    """The values that a quantity can have, in base units: from `low` to `high`, both possible unless `low` is `beyond`.

    `says` is what the quantity is and where it lies, as a phrase that follows "is no" in a message.
    """

    says: str
    low: float = 0.0
    high: float = inf
    beyond: bool = False
    """Whether `low` itself is no longer possible."""

    def holds(self, value: float) -> bool:
        """Whether a number lies inside; one that is not finite does not.

        >>> SHARE.holds(0.5), SHARE.holds(0.0), SHARE.holds(89.87), SHARE.holds(float("nan"))
        (True, False, False, False)
        """
        return isfinite(value) and (self.low < value if self.beyond else self.low <= value) and value <= self.high

    def keeps(self, low: float, high: float) -> tuple[float, float]:
        """The part of a range that lies inside, for the bounds of a fit.

        >>> SHARE.keeps(0.05, 1.3), START.keeps(0.0, 5e-4)
        ((0.05, 1.0), (1e-07, 0.0005))
        """
        return max(low, self.low), min(high, self.high)


SHARE = Window("share of what the hardware can do: it lies above 0 and is 1 at most", 0.0, 1.0, beyond=True)
"""An efficiency: the rate that was reached over the peak of the datasheet."""
PART = Window("part of a whole: it lies between 0 and 1", 0.0, 1.0)
"""What can be all of something or nothing of it."""
ADDED = Window("share of a link's rate: it lies above 0 and is 2 at most, where switches add", 0.0, 2.0, beyond=True)
"""Of all-reduces alone, whose bandwidth is counted as if every rank sent its data twice: with switches that add it goes up once."""
START = Window("time to start a kernel: that takes between 0.1 us and 1 ms", 1e-7, 1e-3)
LATENCY = Window("latency of a link: that is between 0.1 us and 1 ms", 1e-7, 1e-3)
OVER = Window("oversubscription: it lies between 1 and 100", 1.0, 100.0)
PUE = Window("power usage effectiveness: it lies between 1 and 10", 1.0, 10.0)
EXTRA = Window("time that is added to one kernel: that is 10 ms at most", 0.0, 1e-2)
SETTLES = Window("time in which a clock settles: that is 1 s at most", 0.0, 1.0)
OPERATIONS = Window("number of operations for one value: there are 256 at most", 0.0, 256.0)
PER_ELEMENT = Window("time of one element: that is 0.1 us at most", 0.0, 1e-7)
PER_TILE = Window("time of one tile or group: that is 0.1 ms at most", 0.0, 1e-4)
CACHED = Window("rate of a cache over that of memory: it lies between 0.1 and 20", 0.1, 20.0)
REACHED = Window("share of a cache that stays: it lies between 0 and 2", 0.0, 2.0)
SLOWER = Window("share by which arithmetic takes longer: it lies between 0 and 4", 0.0, 4.0)
MORE = Window("multiple of the work: it lies between 0 and 20", 0.0, 20.0)
WAVES = Window("number of tiles that a wave loses: it lies between 0 and 100", 0.0, 100.0)
DEPTH = Window("length of a contraction that still loses much: it lies between 0 and 4,096", 0.0, 4096.0)
PIECE = Window("piece of a contraction: it has between 1 and 1,048,576 elements", 1.0, 2.0**20)
TILE = Window("side of a tile: it lies between 1 and 2,048", 1.0, 2048.0)
TOKENS = Window("number of tokens: it lies between 1 and 1,048,576", 1.0, 2.0**20)
RANKS = Window("number of ranks: it lies between 1 and 1,048,576", 1.0, 2.0**20)
ELEMENT = Window("size of what one element takes: it is 64 B at most", 0.0, 64.0)
MESSAGE = Window("size of a message: it lies between 1 B and 64 MiB", 1.0, 2.0**26)
CACHE = Window("size of a cache: it is 1 GiB at most", 0.0, 2.0**30)
RESIDUAL = Window("ratio of measured to predicted: it lies between 0.02 and 50", 0.02, 50.0)
BACKWARD = Window(
    "efficiency of a backward pass over that of the forward pass: it lies above 0 and is 2 at most", 0.0, 2.0, beyond=True
)
ERROR = Window("relative error: it lies between 0 and 100", 0.0, 100.0)
WIDER = Window("factor by which a range grows: it lies between 1 and 10", 1.0, 10.0)
UNITS = Window("number of compute units: it lies between 1 and 100,000", 1.0, 1e5)


def above(rate: float, peak: float) -> bool:
    """Whether a measured rate lies above a peak by more than clocks explain, so that one of both is wrong.

    >>> above(800e12, 989e12), above(1000e12, 989e12), above(45e12, 450e9)
    (False, False, True)
    """
    return not rate <= CLOCKS * peak


OF_PEAK = frozenset({"mfu", "mfu_causal", "hfu", "mbu"})
"""Figures that say which share of a peak is reached: no doubt about kernels or engines carries them above 1."""
SHARES = OF_PEAK | {
    "effective_training_share", "rollout_share", "generators_idle_share", "trainers_idle_share", "kv_used_share", "kv_peak_share",
    "busy_share",
}  # fmt: skip
"""Figures that are parts of a whole."""
BY_CONVENTION = frozenset({"mfu", "hfu"})
"""Shares of a peak that count every pair of query and key (PaLM, appendix B), also those that a causal mask hides: where long
sequences are mostly attention they pass 1, and what cannot is the same with hidden pairs left out (`mfu_causal`)."""
ALL_PAIRS = 2.0
"""How many times as many pairs there are as a causal mask leaves, at most."""
SIGNED = frozenset({"headroom_bytes", "kv_pool_bytes"})
"""Figures that may be below zero: what is missing."""
ROUNDING = 1e-9


def most_of(figure: str, among: Container[str] = ()) -> float:
    """The most that a figure which is a part of a whole may be, `among` the figures of its answer.

    >>> most_of("mfu"), most_of("mfu", {"mfu", "mfu_causal"}), most_of("mfu_causal", {"mfu", "mfu_causal"})
    (1.0, 2.0, 1.0)
    """
    return ALL_PAIRS if figure in BY_CONVENTION and "mfu_causal" in among else 1.0


def bounding(figures: Collection[str]) -> Iterator[str]:
    """The figures among those of an answer that no doubt about kernels or engines carries above 1."""
    return (key for key in figures if key in OF_PEAK and most_of(key, figures) == 1.0)


def impossible(figure: str, value: float, most: float = 1.0) -> str:
    """Why a figure of an answer, by its JSON key, cannot have this value; nothing where it can. `most`: what a share may reach.

    >>> impossible("mfu", 1.77), impossible("step_time_s", float("inf")), impossible("peak_memory_bytes", -1.0)
    ('177 % is more than there is', 'it is not finite', 'it is below zero')
    >>> impossible("mfu", 0.4), impossible("headroom_bytes", -1.0)
    ('', '')
    """
    if not isfinite(value):
        return "it is not finite"
    if value < 0 and figure not in SIGNED:
        return "it is below zero"
    if figure in SHARES and value > most * (1 + ROUNDING):
        return f"{100 * value:.4g} % is more than there is"
    return ""
