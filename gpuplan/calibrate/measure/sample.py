"""What came of one probe: the seconds of a launch, how they scatter, and whether anything was wrong meanwhile?"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from gpuplan.calibrate.device import Probe, Reading
from gpuplan.record import Record

STEADY = 0.10
"""Widest interquartile range, as a share of the median, of samples that count as steady."""


class Sample(Record, kw_only=True):
    """The measured seconds of one probe; with `marks` it is reported and left out of every fit."""

    probe: Probe
    seconds: float
    """Of one launch: the median of the samples."""
    low: float
    """25th percentile."""
    high: float
    """75th percentile."""
    samples: int
    launches: int
    """Back to back, in each sample."""
    marks: tuple[str, ...] = ()
    """What was wrong, retries included: `thermal`, `unsteady`, `drift`, `busy`, `ecc` …"""
    retries: int = 0
    reading: Reading | None = None
    """The state of the device right after the last sample."""

    @property
    def spread(self) -> float:
        """The interquartile range as a share of the median."""
        return (self.high - self.low) / self.seconds


class Skipped(Record, kw_only=True):
    """A probe that was not measured, and why."""

    probe: Probe
    why: str


def plain(record: Record) -> dict[str, Any]:
    """A record as plain data for JSON, without what stands at its default."""
    cls = type(record)
    made: dict[str, Any] = {}
    for name in cls._fields:
        value = getattr(record, name)
        if value is None or (isinstance(value, (tuple, Mapping)) and not value):
            continue
        made[name] = (
            plain(value) if isinstance(value, Record) else dict(value) if isinstance(value, Mapping)
            else list(value) if isinstance(value, tuple) else value
        )  # fmt: skip
    return made


def probe_of(data: Mapping[str, Any]) -> Probe:
    """The probe that plain data describes."""
    return Probe(**data)


def sample_of(data: Mapping[str, Any]) -> Sample:
    """The sample that plain data describes."""
    reading = data.get("reading")
    more = {**reading, "throttle": tuple(reading.get("throttle", ()))} if reading is not None else None
    return Sample(
        **{
            **data,
            "probe": probe_of(data["probe"]),
            "marks": tuple(data.get("marks", ())),
            "reading": None if more is None else Reading(**more),
        }
    )


def quartiles(figures: Sequence[float]) -> tuple[float, float, float]:
    """25th percentile, median and 75th percentile.

    >>> quartiles([5.0, 1.0, 2.0, 4.0, 3.0])
    (2.0, 3.0, 4.0)
    """
    if len(figures) < 2:
        return figures[0], figures[0], figures[0]
    low, middle, high = statistics.quantiles(figures, n=4, method="inclusive")
    return low, middle, high


def faster(figures: Sequence[float]) -> list[float]:
    """The faster half, and no fewer than three.

    >>> faster([5.0, 1.0, 2.0, 4.0, 3.0])
    [1.0, 2.0, 3.0]
    """
    return sorted(figures)[: max(3, (len(figures) + 1) // 2)]


def spread(figures: Sequence[float]) -> float:
    """The interquartile range as a share of the median."""
    low, middle, high = quartiles(figures)
    return (high - low) / middle
