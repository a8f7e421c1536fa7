"""What is said of what a fleet carries: the most of each thing, and how it is divided for that."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuplan.errors import Note
from gpuplan.estimate.planned import Limit
from gpuplan.estimate.result import Estimate
from gpuplan.record import Record


class Most(Record, eq=False, kw_only=True):
    """The most of something that a fleet carries of a model, in base units, with the division that does so.

    `figure` ends in its unit: `rate_per_s`, `requests_in_flight`, `context_tokens` or `params`.
    """

    figure: str
    value: float
    model: str
    weights: str
    replicas: str
    """How many of them, each divided how."""
    asked: Mapping[str, Any]
    """The options of `gpuplan serve` that divide it so."""
    bound: str = ""
    """What keeps it from being more, in words."""
    estimate: Estimate | None = None
    """The whole answer of that division with so much of it, where it is a load."""


class Carried(Record, eq=False, kw_only=True):
    """What a fleet carries under what is promised; nothing in `most`: not even one request of the model."""

    on: str
    model: str
    limits: tuple[Limit, ...]
    most: tuple[Most, ...]
    per_user: float
    """Requests a second of one who uses it, by which people are counted."""
    looked: int
    """Divisions that were looked at."""
    notes: tuple[Note, ...] = ()
    page: str = "carried"
    """What draws it."""

    @property
    def reached(self) -> bool:
        """Whether it carries anything."""
        return bool(self.most)
