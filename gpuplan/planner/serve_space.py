"""Which machines, formats of weights and divisions into replicas may keep a promise, and how many of them does a load need?"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from math import inf
from typing import Any, cast

import numpy as np

from gpuplan.errors import GpuplanError
from gpuplan.estimate.subject import Subject
from gpuplan.machine.machines import Machines, Refused
from gpuplan.num import Apart
from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.plan.serve import ServePlan
from gpuplan.planner.promise import Promise
from gpuplan.planner.under_promise import Numbers, Truths, UnderPromise
from gpuplan.record import Record
from gpuplan.search.library import Found, Library
from gpuplan.search.requests import requested
from gpuplan.search.serving import looked_up, wanted
from gpuplan.search.serving_space import Judges, Want, serving_space
from gpuplan.search.space import Space

AXES = ("pp", "tp")


class Site(Record, eq=False, kw_only=True):
    """A question about one unit of a machine in one format of weights, with what it names read."""

    key: Hashable
    """What its caller knows it by."""
    ask: ServeAsk
    found: Found
    want: Want
    alone: bool
    """Whether replicas can be had one by one; otherwise only all that the unit is divided into."""

    @property
    def ranks(self) -> int:
        """Accelerators of the unit."""
        return self.found.target.count


class Fleet(Record, kw_only=True):
    """The fewest replicas of a division of a site that keep a load with the promise."""

    tp: int
    pp: int
    dp: int
    """Replicas on one unit."""
    parts: int
    """Replicas where these are had one by one, units where not."""
    accelerators: int
    surely: bool
    """Whether the high end of what it holds fits too."""


class Divided(Record, eq=False, kw_only=True):
    """What every division of the sites of a group comes to: the first dimension is that of the sites."""

    sites: tuple[Site, ...]
    tp: Numbers
    pp: Numbers
    parts: Numbers
    """As of `Fleet`; infinity where a division is not legal, does not fit, or breaks the promise even when idle."""
    sure: Truths
    legal: int
    """How many divisions are there to look at."""
    idle: Mapping[str, Numbers]
    """The times that are promised, of a replica that is next to idle; infinity where it does not fit."""

    def fleets(self, at: int) -> Iterator[Fleet]:
        """The divisions of a site that keep the promise."""
        site = self.sites[at]
        some = np.isfinite(self.parts[at])
        some = some & self.sure[at] if (some & self.sure[at]).any() else some
        for pp, tp in zip(*np.nonzero(some), strict=True):
            each = int(self.tp[0, tp] * self.pp[pp, 0])
            parts = int(self.parts[at, pp, tp])
            yield Fleet(
                tp=int(self.tp[0, tp]), pp=int(self.pp[pp, 0]), dp=site.ranks // each, parts=parts,
                accelerators=parts * (each if site.alone else site.ranks), surely=bool(self.sure[at, pp, tp]),
            )  # fmt: skip


def site_of(key: Hashable, ask: ServeAsk, library: Library, *, alone: bool) -> Site:
    """A question about one unit, read; errors as `answer_serving`."""
    found = looked_up(ask, library)
    want, _ = wanted(ask, found, requested(ask, found))
    return Site(key=key, ask=ask, found=found, want=want.replaced(batch=None), alone=alone)


def divided(sites: Sequence[Site], promise: Promise, amount: float) -> tuple[list[Divided], dict[Hashable, GpuplanError]]:
    """What the divisions of sites come to under a load of so many requests a second, or users; and the error of each that has one.

    Sites that differ in their machine alone are estimated together.
    """
    groups: dict[Hashable, list[Site]] = {}
    for site in sites:
        groups.setdefault((id(site.found.subject.arch), id(site.found.subject.engine), site.ranks, site.alone, site.want), []).append(site)
    made: list[Divided] = []
    refused: dict[Hashable, GpuplanError] = {}
    todo = [tuple(group) for group in groups.values()]
    while todo:
        here = todo.pop()
        try:
            made.append(_together(here, promise, amount))
        except Apart as apart:
            if len(here) == 1:
                raise
            kinds = dict.fromkeys(apart.kinds)
            todo += [tuple(one for one, own in zip(here, apart.kinds, strict=True) if own == kind) for kind in kinds]
        except (GpuplanError, Refused) as error:
            if len(here) > 1:
                todo += [(one,) for one in here]
            elif isinstance(error, GpuplanError):
                refused[here[0].key] = error.with_traceback(None)
            else:
                refused[here[0].key] = error.errors[0]
    return made, refused


def _together(sites: Sequence[Site], promise: Promise, amount: float) -> Divided:
    """The divisions of sites that share their formulas; errors as `UnderPromise.of`, or `Apart` where they do not."""
    first = sites[0]
    subject = first.found.subject
    if len(sites) > 1:
        subject = subject.replaced(hw=Machines([one.found.subject.hw for one in sites], len(AXES) + 1))
    space = serving_space(first.want, first.found.subject)
    plan, pp, tp = _mesh(space)
    shape = (len(sites), pp.size, tp.size)
    judges = Judges(first.want, subject)
    with np.errstate(all="ignore"):
        legal = np.broadcast_to(np.asarray(space.legal(plan), dtype=np.bool_), (1, pp.size, tp.size, 1))[..., 0]
        plan = judges.plan(plan)
        fits, rank, _ = judges.held(plan)
        fits, rank = (np.broadcast_to(np.asarray(one), (*shape, 1))[..., 0] for one in (fits, rank))
        fits = fits & legal
        under = UnderPromise.of(subject, plan, promise, shape)
        grain = np.broadcast_to(np.asarray(plan.parallel.dp), (*shape, 1))[..., 0] if first.alone else 1.0
        if fits.any():
            dealt = under.dealt(amount, grain, fits)
            parts, idle = dealt.parts, {key: np.where(fits, value, inf) for key, value in dealt.idle.items()}
        else:
            parts, idle = np.full(shape, inf), {key: np.full(shape, inf) for key in promise.limits}
    return Divided(
        sites=tuple(sites), tp=tp[..., 0], pp=pp[..., 0], parts=parts, sure=fits & (rank <= -2.0), legal=int(legal.sum()) * len(sites),
        idle=idle,
    )  # fmt: skip


def _mesh(space: Space[ServePlan]) -> tuple[ServePlan, Numbers, Numbers]:
    """All divisions of a space as one plan of arrays, with a last dimension of loads."""
    values = dict[str, Any](space.axes)
    pp = np.asarray(values.pop("pp"), dtype=np.float64).reshape(-1, 1, 1)
    tp = np.asarray(values.pop("tp"), dtype=np.float64).reshape(1, -1, 1)
    rest = {name: float(one[0]) for name, one in values.items()}
    return space.of({}, {**rest, "pp": pp, "tp": tp}), pp, tp


def weights_of(site: Site) -> str:
    """The format of the weights of a site."""
    return cast("str", site.want.types.weights)


def subject_of(site: Site) -> Subject:
    """What a site is about."""
    return site.found.subject
