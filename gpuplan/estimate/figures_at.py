"""What do the figures of many serving plans say of each of them, as numbers with a low and a high?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gpuplan.estimate.result import Estimate, Verdict
from gpuplan.estimate.serving_figures import ServingFigures
from gpuplan.physics import SHARES, SIGNED, bounding
from gpuplan.ranges import intervals
from gpuplan.record import Record
from gpuplan.term import Source, Term

_PRICED = Source("derived", "as the whole estimate has it, whose terms were made for many plans at once")


class Priced(Record, kw_only=True, eq=False):
    """The figures of plans that were priced at once, with their ends: an array each, or one number for all."""

    made: ServingFigures
    ranges: Mapping[str, tuple[Any, Any]]

    @classmethod
    def of(cls, made: ServingFigures) -> Priced:
        """The figures with the low and high of each, as an estimate of one plan has them."""
        bounds = {f"bound.{key}": term for key, term in made.bounds.items()}
        floors = {f"floor.{key}": term for key, term in made.floors.items()}
        found = intervals({**made.figures, **bounds, **floors}, [*bounds, *bounding(made.figures)])
        ranges = {}
        for key in made.figures:
            low, high = found[key]
            if key in made.floors:
                low = np.maximum(low, np.minimum(found[f"floor.{key}"][0], made.figures[key].value))
            ranges[key] = low if key in SIGNED else np.maximum(low, 0.0), np.minimum(high, 1.0) if key in SHARES else high
        return cls(made=made, ranges=ranges)

    def at(self, index: int, question: Mapping[str, str]) -> Estimate:
        """The answer for one plan: figures with their ranges, and whether it fits; without what they are made of.

        Raises:
            ImpossibleError: physics rules a figure out.
        """

        def one(value: Any) -> float:
            return float(value[index]) if np.ndim(value) else float(value)

        figures = {
            key: Term(term.name, one(term.value), term.unit, _PRICED, spread=(one(low), one(high)))
            for key, term in self.made.figures.items()
            for low, high in (self.ranges[key],)
        }
        bounds = {key: Term(term.name, one(term.value), term.unit, _PRICED) for key, term in self.made.bounds.items()}
        fits = bool(figures["peak_memory_bytes"].value <= figures["memory_budget_bytes"].value)
        verdict = Verdict(fits, "fits" if fits else "does not fit", self.made.memory.needed.name)
        return Estimate("serve", question, verdict, figures, (), bounds=bounds)
