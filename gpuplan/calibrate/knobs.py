"""Which parameters has each kind of kernel, which of them are fitted, from where and within which bounds?"""

from __future__ import annotations

from collections.abc import Mapping

from gpuplan.physics import ADDED, SHARE, START
from gpuplan.record import Record

EDGE = 1e-3
"""A parameter that lies within this share of its range of an end lies at it."""


class Knob(Record):
    """A parameter to fit: where it starts and where it may go."""

    start: float
    low: float
    high: float
    unit: str = "1"
    whole: bool = False
    """Whether the upper end is one that kernels do have: all of something."""

    def at_bound(self, value: float) -> str:
        """What is to be said of a value at an end of what a fit may choose; nothing inside, or where the end is natural.

        A lower end of 0 is natural: the kernel loses nothing by that mechanism.

        >>> Knob(0.8, 0.05, 1.0).at_bound(1.0), Knob(0.2, 0, 1, whole=True).at_bound(1.0), Knob(0.2, 0, 1).at_bound(0.0)
        ('at 1, the most that it can be', '', '')
        """
        edge = EDGE * (self.high - self.low)
        if value >= self.high - edge and not self.whole:
            return f"at {self.high:g}, the most that it can be"
        if value <= self.low + edge * 1e-3 and self.low > 0:
            return f"at {self.low:g}, the least that it can be"
        return ""


def _share(start: float, low: float = 0.05) -> Knob:
    return Knob(start, *SHARE.keeps(low, 1.0))


def _part(start: float) -> Knob:
    return Knob(start, 0, 1, whole=True)


def _start(start: float) -> Knob:
    return Knob(start, *START.keeps(0.0, 5e-4), "s")


MATMUL_KNOBS = {
    "efficiency": _share(0.8), "memory_efficiency": _share(0.8), "start": _start(4e-6),
    "unhidden": _part(0.2), "tail": Knob(0.1, 0, 20), "throttle": Knob(0.1, 0, 3), "settle": Knob(1e-3, 1e-5, 2e-2, "s"),
    "short_depth": Knob(80, 0, 1280), "walk": Knob(2e-10, 0, 5e-8, "s"), "fine": Knob(0.1, 0, 2), "whole": _part(0.4),
}  # fmt: skip
MATMUL_FIXED = {"tile_m": Knob(64, 1, 1), "tile_n": Knob(128, 1, 1)}
SPLIT = {"split": Knob(2000, 64, 65536)}
"""Of tables alone, which hold contractions long enough to tell."""
REPLAYED = {"reach": Knob(0.5, 0.02, 2), "near": Knob(2, 1, 8)}
"""Of tables alone, which time a kernel again and again on the same weights."""
ZEROED = {"zeroed": Knob(1, 0, 8)}
"""Of experts: passes over the rows that other ranks' experts have."""
ISSUE = {"issue": Knob(1e-4, *START.keeps(1e-6, 1e-3), "s")}
"""Of tables that were timed without a graph."""
TABLE_KNOBS = {**MATMUL_KNOBS, **SPLIT, **REPLAYED}
QUANTISE = {"quantise": Knob(4, 0, 50, "B"), "quantise_row": Knob(1e-9, 0, 1e-7, "s")}
QUANTISE_APART = {**QUANTISE, "quantise_start": _start(8e-6)}
"""Of tables that time the kernels that quantise by themselves too."""
PREFILL_KNOBS = {
    "efficiency": _share(0.8), "memory_efficiency": _share(0.8), "start": _start(1e-5),
    "unhidden": _part(0.3), "tail": Knob(0.5, 0, 10), "throttle": Knob(0.1, 0, 3), "settle": Knob(3e-3, 1e-5, 2e-2, "s"),
    "short_depth": Knob(60, 0, 1280), "per_tile": Knob(1e-6, 0, 1e-4, "s"), "cached": Knob(5e6, 0, 9.9e7, "B"),
    "append": Knob(2, 0, 20), "per_token": Knob(1e-10, 0, 1e-7, "s"),
}  # fmt: skip
PREFILL_FIXED = {"rows": Knob(64, 1, 1)}
DECODE_KNOBS = {
    "efficiency": _share(0.2, 0.001), "memory_efficiency": _share(0.9), "start": _start(1e-5),
    "per_group": Knob(1e-8, 1e-11, 1e-6, "s"), "unhidden": Knob(0.5, 0, 1), "ramp": Knob(2e-6, 1e-9, 1e-3, "s"),
    "walk": Knob(2e-10, 0, 3e-8, "s"), "reach": Knob(0.8, 0.1, 2), "near": Knob(2, 0.3, 8),
}  # fmt: skip
DECODE_FIXED = {"rows": Knob(64, 1, 1), "page": Knob(16, 1, 1)}
APART = {"packs": Knob(1, 1, 1)}
"""Heads that read the keys that they share each for itself."""
MASKS = {"masks": Knob(1, 1, 1)}
"""Keys outside a window that are computed all the same."""
ARRAY = {"array": Knob(1, 1, 1)}
"""Head dimensions in whole multiples of so many."""
STREAM_KNOBS = {"efficiency": Knob(0.8, 0.05, 0.92), "launch": _start(2e-6)}
"""More than 92 % of the datasheet is the cache serving what the kernel before left there, which a whole step does not find."""
COLLECTIVE_KNOBS = {
    "pair": _share(0.6, 0.005), "full": _share(0.8, 0.005), "start": _start(8e-6),
    "per_doubling": Knob(4e-6, 0, 5e-4, "s"), "ramp": Knob(5e-6, 0, 5e-3, "s"),
    "bulk": Knob(5e-6, 0, 2e-3, "s"), "switch": Knob(5e5, 2e3, 4e6, "B"),
}  # fmt: skip
ALL_REDUCE_KNOBS = {**COLLECTIVE_KNOBS, "full": Knob(0.8, *ADDED.keeps(0.005, 1.2))}
"""With switches that add, what a ring sends twice goes up once."""
HOST_KNOBS = {"efficiency": _share(0.8, 0.01), "launch": _start(1e-5)}
SWITCHES = (1.5e4, 5e4, 1.5e5, 1.5e6)
"""Shares of a message from which the fit of the change of protocol starts too: it may end in valleys of its own."""


def collective_knobs(kind: str) -> dict[str, Knob]:
    """The parameters of a kind of collective."""
    return ALL_REDUCE_KNOBS if kind == "all_reduce" else COLLECTIVE_KNOBS


def units_of(*tables: Mapping[str, Knob]) -> dict[str, str]:
    """The unit of each parameter of some tables."""
    return {key: knob.unit for table in tables for key, knob in table.items()}
