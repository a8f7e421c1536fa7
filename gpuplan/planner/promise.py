"""What is promised of a request: the longest that its first token, each token after it and its end may take."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from gpuplan.errors import Problem, UsageError
from gpuplan.record import Record

_PERCENTILE = re.compile(r"_p(\d+)_s$")
NAMES = ("ttft", "tpot", "e2e")


class Promise(Record, kw_only=True):
    """Times in seconds that are kept in the mean, or by so many in a hundred requests; None: of that nothing is promised."""

    ttft: float | None = None
    """To the first token."""
    tpot: float | None = None
    """Of each token after the first."""
    e2e: float | None = None
    """To the last token."""
    percent: float | None = None
    """How many requests in a hundred keep it; None: it is kept in the mean."""
    reads: bool = False
    """Whether it is of a model that only reads, whose requests have no tokens but are read whole: `e2e` is all there is of them."""

    @property
    def limits(self) -> dict[str, float]:
        """The times that are promised, by the keys of the figures that they hold for."""
        given = {name: getattr(self, name) for name in NAMES}
        return {self.key(name): value for name, value in given.items() if value is not None}

    def key(self, name: str) -> str:
        """The figure that a promised time is of."""
        if self.reads:
            return "latency_s"
        return f"{name}_s" if self.percent is None else f"{name}_p{self.percent:g}_s"

    def word(self, key: str) -> str:
        """What a promised time is called, by its figure.

        >>> Promise().word("ttft_p99_s"), Promise(reads=True).word("latency_s")
        ('TTFT', 'the time of a request')
        """
        return "the time of a request" if self.reads else key.partition("_")[0].upper()

    def told(self, figures: Mapping[str, Any]) -> dict[str, Any]:
        """The values of the figures that something is promised of.

        Raises:
            UsageError: they are not told of such a part of the requests.
        """
        missing = [key for key in self.limits if key not in figures]
        if missing:
            known = sorted({found[1] for key in figures if (found := _PERCENTILE.search(key))})
            hint = f"promise it of {', '.join(known)} in a hundred" if known else "leave --p out: it is kept in the mean"
            raise UsageError(Problem("plan.percent", f"{', '.join(missing)}: no estimate tells that", hint))
        return {key: figures[key].value for key in self.limits}
