"""Does one plan keep what is promised of so many requests in a hundred? Its steps are put into a table once, whatever comes."""

from __future__ import annotations

from collections.abc import Mapping

from gpuplan.estimate.serving import ServingModel
from gpuplan.load.kept import keeps
from gpuplan.load.service import Service
from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.search.library import Library
from gpuplan.search.serving import settled
from gpuplan.search.simulated import requests_of, with_trace


class Rehearsal:
    """A question in which everything is decided but how many requests come a second, with the tables of its steps.

    Values of terms that the user sets are not told from here: `answer_simulated` knows which of them a simulation can take.
    """

    def __init__(self, ask: ServeAsk, library: Library) -> None:
        """Errors as `answer_simulated`."""
        asked, _ = with_trace(ask)
        one = settled(asked, library)
        self.fits = one.fits
        self.model = ServingModel.of(one.subject, one.plan)
        self._services: dict[tuple[int, int], Service] = {}

    def keeps(self, ask: ServeAsk, limits: Mapping[str, float], percent: float) -> bool:
        """Whether the question keeps these times in seconds, as the percentiles of `answer_simulated` tell; errors as that."""
        if not self.fits:
            return False
        asked, _ = with_trace(ask)
        drawn = requests_of(asked, None, self.model)
        key = drawn.longest, drawn.longest_prompt
        if key not in self._services:
            self._services[key] = Service.of(self.model, longest=drawn.longest, longest_prompt=drawn.longest_prompt)
        return keeps(
            drawn.requests, self._services[key], limits, percent, steady_from=drawn.steady_from, seed=ask.seed or 0
        )  # fmt: skip
