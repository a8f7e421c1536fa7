"""Where does every segment, bar and point of a picture lie, in per cent of its width and height?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from gpuplan.estimate.planned import Point
from gpuplan.estimate.result import Breakdown, Estimate
from gpuplan.render.report.page import Bar, Bars, Dot, Front, Mark, Part, Stack, Tick
from gpuplan.render.text import known, label, percent, short_names, shown, span
from gpuplan.render.words import part_name
from gpuplan.term import Term
from gpuplan.units import human

COLOURS = 12
"""Colours of parts, after which they begin anew."""
_MARKS = ("memory_budget_bytes", "memory_capacity_bytes")
_TICKS = 5
_OPEN = 1.5
"""How far a picture goes, in multiples of what is expected, where its high end has no bound."""
_NOTHING = 1e-9
"""Below this share of a picture a part is what rounding left."""


def stack(estimate: Estimate, one: Breakdown) -> Stack:
    """A breakdown as a bar; memory stands against what there is of it, a time against the high end of its range."""
    total = float(one.total.value)
    low, high = estimate.range_of(one.total)
    marks: Mapping[str, Term] = {}
    if one.total.unit == "B":
        marks = {key: estimate.figures[key] for key in _MARKS if key in estimate.figures}
    reach = high if math.isfinite(high) else _OPEN * total
    whole = max([total, reach, *(float(term.value) for term in marks.values())]) or 1.0
    parts, left = [], 0.0
    terms = [part for part in one.parts if abs(float(part.value)) > _NOTHING * whole] or list(one.parts)
    for number, (name, term) in enumerate(zip(short_names([part.name for part in terms]), terms, strict=True)):
        wide = 100 * float(term.value) / whole
        called = label(name) if "." in name else part_name(name)
        text, share = shown(term.name, float(term.value), term.unit), percent(float(term.value), total)
        parts.append(Part(called, text, share, left, wide, number % COLOURS, not known(term)))
        left += wide
    return Stack(
        title=one.title[:1].upper() + one.title[1:], total=shown(one.total.name, total, one.total.unit),
        ends=" – ".join(span(one.total.name, (low, high), one.total.unit, total)) if low != high else "",
        parts=parts, low=100 * max(low, 0.0) / whole, high=100 * reach / whole,
        marks=[Mark(label(key), shown(key, float(term.value), term.unit), 100 * float(term.value) / whole)
               for key, term in marks.items()],
    )  # fmt: skip


def bars(estimates: Mapping[str, Estimate], key: str, *, greater: bool | None = None) -> Bars:
    """A figure of several answers; those that do not have it are left out. `greater` is better, or less is; None: nothing is."""
    have = {name: one for name, one in estimates.items() if key in one.figures}
    ends_of = (end for one in have.values() for end in (one.ranges[key][1], float(one.figures[key].value)) if math.isfinite(end))
    whole = max(ends_of, default=0.0) or 1.0
    values = [float(one.figures[key].value) for one in have.values() if one.verdict.fits]
    best = math.nan if greater is None or len(values) < 2 else max(values) if greater else min(values)
    made = []
    for name, one in have.items():
        term, (low, high) = one.figures[key], one.ranges[key]
        value = float(term.value)
        ends = " – ".join(span(key, (low, high), term.unit, value)) if low != high else ""
        text = shown(key, value, term.unit) + ("" if one.verdict.fits else f", {one.verdict.words}")
        at, left, right = (100 * min(max(0.0, number) / whole, 1.0) for number in (value, low, high))
        fits = one.verdict.fits
        made.append(Bar(name, text, ends, at, left, right, best=value == best and fits, fits=fits))
    title = label(key)
    return Bars(title=f"{title[:1].upper()}{title[1:]}", bars=made)


def front(points: Sequence[Point], *, tokens: bool = False) -> Front:
    """Cost against time, both by powers of ten; of `tokens`, prices are of a million of them and times of one."""
    x_low, x_high = _ends([one.seconds for one in points])
    y_low, y_high = _ends([one.usd for one in points])
    dots = [
        Dot(
            100 * (math.log10(one.seconds) - x_low) / (x_high - x_low), 100 * (y_high - math.log10(one.usd)) / (y_high - y_low),
            (one.target, f"cost {human(one.usd, 'USD')}", f"time {human(one.seconds, 's')}"),
        )
        for one in sorted(points, key=lambda one: one.seconds)
    ]  # fmt: skip
    steps = [at / (_TICKS - 1) for at in range(_TICKS)]
    return Front(
        title="What no other machine beats in both cost and time",
        across="time of each output token" if tokens else "time",
        up="USD of a million output tokens" if tokens else "USD",
        dots=dots,
        x_ticks=[Tick(100 * at, human(10 ** (x_low + at * (x_high - x_low)), "s", 2)) for at in steps],
        y_ticks=[Tick(100 * at, human(_two(10 ** (y_high + at * (y_low - y_high))), "1", 2)) for at in steps],
    )


def _two(value: float) -> float:
    """A number for a scale, of which two digits are read."""
    return float(f"{value:.2g}")


def _ends(values: Sequence[float]) -> tuple[float, float]:
    """Least and greatest as powers of ten, with room at both sides."""
    low, high = math.log10(min(values)), math.log10(max(values))
    room = max(0.06 * (high - low), 0.02)
    return low - room, high + room
