"""How do the answers to several questions stand to each other: in which order, how far behind the best, and why?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gpuplan.errors import GpuplanError, Problem, UsageError, did_you_mean
from gpuplan.estimate.result import Estimate
from gpuplan.estimate.slower import Behind, Dearer, behind, dearer
from gpuplan.estimate.winner import CHEAPEST, FASTEST, ROOMIEST
from gpuplan.record import Record

LESS = ("_s", "_usd", "_bytes", "_joules", "_kg", "_tokens", "_token", "_share_idle")
"""How figures end of which less is better; of rates, shares of a peak and room more is."""
MORE = ("headroom_bytes", "kv_pool_bytes", "kv_cache_tokens", "longest_tokens")
"""Figures of which more is better, whatever they end in."""


class Standing(Record, kw_only=True, eq=False):
    """One answer among several, or why there is none. `changed` is what tells its question from the others."""

    name: str
    changed: Mapping[str, str]
    answer: Estimate | None = None
    error: GpuplanError | None = None
    behind: Behind | None = None
    """How far behind the first one, and why; None of the first itself."""
    dearer: Dearer | None = None
    """How much more it costs than the cheapest; None of the cheapest itself, and where a cost is not told."""

    @property
    def fits(self) -> bool:
        """Whether there is an answer, and it fits."""
        return self.answer is not None and self.answer.verdict.fits


def standings(
    answers: Mapping[str, Estimate | GpuplanError], changed: Mapping[str, Mapping[str, str]], by: str | None = None
) -> tuple[Standing, ...]:
    """The answers in order: what fits before what does not, the best first, and at the end those without an answer.

    `by` is the figure that decides; left out, it is speed, or room where no speed is told.

    Raises:
        UsageError: no answer has the figure `by`.
    """
    made = {name: one for name, one in answers.items() if isinstance(one, Estimate)}
    key = _deciding(made.values(), by)
    order = sorted(made, key=lambda name: _rank(made[name], key))
    best = next(iter(order), None)
    cheap = _cheapest(made)
    found = []
    for name in order:
        why = None if best is None or name == best else behind(best, made[name], made[best])
        more = None if cheap is None or name == cheap else dearer(cheap, made[name], made[cheap])
        found.append(Standing(name=name, changed=changed[name], answer=made[name], behind=why, dearer=more))
    refused = [(name, one) for name, one in answers.items() if isinstance(one, GpuplanError)]
    return (*found, *(Standing(name=name, changed=changed[name], error=one) for name, one in refused))


def less_is_better(key: str) -> bool:
    """Whether a smaller figure is the better one.

    >>> [less_is_better(key) for key in ("ttft_s", "tokens_per_s", "cost_usd", "mfu", "headroom_bytes")]
    [True, False, True, False, False]
    """
    return key not in MORE and "_per_s" not in key and (key.endswith(LESS) or "usd" in key)


def _deciding(made: Iterable[Estimate], by: str | None) -> str | None:
    every = list(made)
    keys = list(dict.fromkeys(key for one in every for key in one.figures))
    if by is not None:
        if keys and by not in keys:
            hint = did_you_mean(by, keys) or f"there are {', '.join(keys)}"
            raise UsageError(Problem("compare.by", f"--by {by}: no answer has such a figure", hint))
        return by
    return next((key for key in (*FASTEST, *ROOMIEST) if any(key in one.figures for one in every)), None)


def _rank(answer: Estimate, key: str | None) -> tuple[bool, bool, float]:
    term = answer.figures.get(key) if key is not None else None
    value = 0.0 if term is None or key is None else float(term.value) * (1 if less_is_better(key) else -1)
    return not answer.verdict.fits, term is None, value


def _cheapest(made: Mapping[str, Estimate]) -> str | None:
    costs = {
        name: float(one.figures[key].value)
        for name, one in made.items()
        if one.verdict.fits and (key := next((key for key in CHEAPEST if key in one.figures), None)) is not None
    }
    return min(costs, key=lambda name: costs[name], default=None)
