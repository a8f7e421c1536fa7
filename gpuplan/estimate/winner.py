"""Which of several answers to one question is best: the fastest, the cheapest, the one with most room; and is that sure?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpuplan.estimate.result import Estimate
from gpuplan.formulas.cost import usd_per_s_of_all
from gpuplan.record import Record
from gpuplan.term import Term

FASTEST = ("tokens_per_s", "samples_per_s", "images_per_s", "clips_per_s")
CHEAPEST = (
    "cost_usd", "cost_usd_per_million_output_tokens", "cost_usd_per_million_tokens", "cost_usd_per_thousand_images",
    "cost_usd_per_thousand_clips",
)  # fmt: skip
ROOMIEST = ("headroom_bytes",)
QUICKEST = ("e2e_p99_s", "e2e_s", "latency_s")
TIED = 0.005
"""As near as two answers must be for neither to be ahead: it would not show in three digits."""


class Winner(Record):
    """The best answer by one figure: `word` says in what, `times` how far ahead of the next it is."""

    word: str
    key: str
    name: str
    next: str
    times: float
    sure: bool
    """Whether the ranges of the two do not overlap."""
    level: tuple[str, ...] = ()
    """All answers that the best is not ahead of, itself among them."""

    @property
    def tied(self) -> bool:
        """Whether the best is not ahead of the next at all."""
        return self.times < 1 + TIED


def winners(answers: Mapping[str, Estimate]) -> tuple[Winner, ...]:
    """The best of the answers that fit, by speed and by cost, or by room where neither is asked about; none of one alone."""
    fit = {name: one for name, one in answers.items() if one.verdict.fits}
    speed = list(_best(fit, "fastest", FASTEST, more=True))
    if any(one.tied for one in speed):  # All carry the load that is asked about: how long a request takes tells them apart.
        speed += _best(fit, "quickest", QUICKEST, more=False)
    found = [*speed, *_best(fit, "cheapest", CHEAPEST, more=False)]
    return tuple(found or _best(fit, "most room", ROOMIEST, more=True))


def price_of(answer: Estimate) -> Term | None:
    """The price of one accelerator that the cost of an answer rests on; None where it tells no cost."""
    cost = next((answer.figures[key] for key in CHEAPEST if key in answer.figures), None)
    rates = (term for term in cost.walk() if term.unit == "USD/s") if cost is not None else iter(())
    return next((term for term in rates if term.formula is not usd_per_s_of_all), None)


def _best(fit: Mapping[str, Estimate], word: str, keys: tuple[str, ...], *, more: bool) -> Iterator[Winner]:
    key = next((key for key in keys if all(key in one.figures for one in fit.values())), None)
    if key is None or len(fit) < 2:
        return
    order = sorted(fit, key=lambda name: float(fit[name].figures[key].value), reverse=more)
    first, second = (fit[name] for name in order[:2])
    best = float(first.figures[key].value)
    (low, high), (other_low, other_high) = first.ranges[key], second.ranges[key]
    sure = low > other_high if more else high < other_low
    ahead = {name: _times(best, float(fit[name].figures[key].value), more=more) for name in order}
    level = tuple(name for name, times in ahead.items() if times < 1 + TIED)
    yield Winner(word, key, order[0], order[1], ahead[order[1]], sure, level)


def _times(best: float, other: float, *, more: bool) -> float:
    """How many times as good one value is as another, of which more is better or less is."""
    large, small = (best, other) if more else (other, best)
    return large / small if small > 0 else 1.0
