"""How much does a fleet carry for so many in a hundred requests, and not only in their mean? Simulations tell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from gpuplan.errors import GpuplanError
from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.planner.promise import Promise
from gpuplan.planner.serve_percentiles import Rehearsals
from gpuplan.planner.serve_space import Group
from gpuplan.record import Record
from gpuplan.search.library import Library

NEAR = 64
"""So finely is a rate told, beside which simulations differ by chance."""


class Divided(Record, eq=False, kw_only=True):
    """A division of a fleet, and the highest load that it keeps in the mean."""

    group: Group
    at: tuple[Any, ...]
    most: float

    @property
    def asked(self) -> Mapping[str, Any]:
        """The options that divide it so, in its format of weights."""
        site = self.group.sites[0]
        division = self.group.division((0, *self.at))
        return {**division.asked(experts=bool(site.found.card.architecture.moes)), "weights": site.ask.weights}


def highest(
    figure: str, groups: Sequence[Group], run: ServeAsk, promise: Promise, library: Library
) -> tuple[Divided, float] | None:  # fmt: skip
    """The division that keeps the highest load for the percentile, and that load; None: none keeps any.

    No load is kept for so many in a hundred that is not kept in the mean: divisions are tried from the one that keeps most in the
    mean on, until none that is left keeps more even so.
    """
    rehearsals = Rehearsals(library)
    best: tuple[Divided, float] | None = None
    for one in sorted(_divisions(groups), key=lambda each: -each.most):
        most = 0.0 if best is None else best[1]
        if one.most <= _next(figure, most):
            break
        found = _most(figure, one, most, run, promise, rehearsals)
        if found > most:
            best = one, found
    return best


def _divisions(groups: Sequence[Group]) -> Iterator[Divided]:
    for group in groups:
        fits = group.sure if group.sure.any() else group.fits
        if not fits.any():
            continue
        loads = np.where(fits, group.under.highest(), 0.0)[0]
        for at in np.argwhere(loads > 0):
            place = tuple(int(part) for part in at)
            yield Divided(group=group, at=place, most=float(loads[place]))


def _most(figure: str, one: Divided, least: float, run: ServeAsk, promise: Promise, rehearsals: Rehearsals) -> float:
    """The highest load that a division keeps, where it is more than `least`; else that."""

    def kept(load: float) -> bool:
        named = {"rate": load} if figure == "rate_per_s" else {"concurrency": int(load)}
        found = rehearsals.kept(run.replaced(**one.asked, **named, simulate=True), promise)
        if isinstance(found, GpuplanError):
            raise found
        return found

    low, high = least, one.most
    if figure == "rate_per_s":
        if low and not kept(low * (1 + 1 / NEAR)):
            return least
        while high - low > high / NEAR:
            middle = (low + high) / 2
            low, high = (middle, high) if kept(middle) else (low, middle)
            if high < one.most / NEAR**2:  # Next to nothing comes, and it is not kept.
                break
        return low
    if not kept(low + 1):
        return least
    low, high = low + 1, float(int(high + 1e-6)) + 1
    while high - low > max(1.0, high // NEAR):
        middle = float(int((low + high) / 2))
        low, high = (middle, high) if kept(middle) else (low, middle)
    return low


def _next(figure: str, load: float) -> float:
    """What a division must keep more than in the mean to be tried after one that keeps a load."""
    return load * (1 + 1 / NEAR) if figure == "rate_per_s" else load
