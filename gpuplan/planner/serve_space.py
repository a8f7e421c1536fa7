"""Which machines, formats of weights and divisions into replicas may keep a promise, and how many of them does a load need?"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from math import ceil, inf
from typing import Any

import numpy as np

from gpuplan.errors import GpuplanError
from gpuplan.estimate.subject import Subject
from gpuplan.machine.machines import Machines, Refused
from gpuplan.num import Apart
from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.plan.serve import ServePlan
from gpuplan.planner.division import Division
from gpuplan.planner.promise import Promise
from gpuplan.planner.under_promise import Numbers, Truths, UnderPromise
from gpuplan.record import Record
from gpuplan.search.library import Found, Library
from gpuplan.search.requests import requested
from gpuplan.search.serving import looked_up, wanted
from gpuplan.search.serving_judges import Judges
from gpuplan.search.serving_space import Want, serving_space
from gpuplan.search.space import Space

NEARLY_FULL = 0.8
"""Below this part of what a fleet keeps at most, the high end of what a request takes leaves it some."""


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

    division: Division
    parts: int
    """Replicas where these are had one by one, units where not."""
    accelerators: int
    surely: bool
    """Whether the high end of what it holds fits too."""
    used: tuple[float, float]
    """The part of what is promised that its times take, and of what it keeps at most that the load takes."""

    @property
    def fullness(self) -> tuple[int, ...]:
        """The same in tenths, of the second where it is near full: there queues grow without end if steps take a little longer."""
        promise, most = self.used
        return ceil(10 * promise), ceil(10 * max(most, NEARLY_FULL))


class Group(Record, eq=False, kw_only=True):
    """Sites that share their formulas: the first dimension of arrays is theirs, the second that of divisions that fit."""

    sites: tuple[Site, ...]
    case: Mapping[str, Any]
    listed: Mapping[str, Numbers]
    """What is chosen of each axis, by division."""
    plan: ServePlan
    fits: Truths
    sure: Truths
    legal: int
    """How many divisions were looked at, of all sites: those that keep the rules."""
    under: UnderPromise
    ranks: Numbers
    """Accelerators of a replica."""
    grain: Numbers
    """How many of the parts that a load is dealt to the replicas of a unit are."""

    def accelerators(self, parts: Numbers) -> Numbers:
        """How many accelerators so many parts are."""
        first = self.sites[0]
        return parts * (self.ranks if first.alone else float(first.ranks))

    def division(self, place: Sequence[Any]) -> Division:
        """The division at a place, that of its site first."""

        def number(value: Any) -> int:
            return int(np.broadcast_to(np.asarray(value), (*self.fits.shape, 1))[(*place, 0)])

        return Division.of(self.plan, number, striped="decode_cp" in _space(self.sites[0]).axes)

    def least(self, amount: float) -> Numbers:
        """The fewest accelerators of each site that keep a load, whatever is promised; infinity where nothing fits."""
        if not self.fits.any():
            return np.full(len(self.sites), inf)
        least: Numbers = self.fewest(amount).reshape(len(self.sites), -1).min(axis=1)
        return least

    def fewest(self, amount: float) -> Numbers:
        """The fewest accelerators of each division that keep a load, whatever is promised; infinity where it does not fit."""
        with np.errstate(all="ignore"):
            parts = np.maximum(np.ceil(amount * self.grain / self.under.most), 1.0)
            return np.where(self.fits, self.accelerators(parts), inf)

    def within(self, amount: float, most: Numbers) -> Group:
        """The same without divisions that take more accelerators for a load than the most of any site, whatever is promised."""
        if not self.fits.any() or np.isinf(most).all():
            return self
        fewest = self.fewest(amount)
        kept: Truths = np.any(self.fits & (fewest <= most[:, None]), axis=0)
        return self if 2 * kept.sum() > kept.size or not kept.any() else self._of(kept)

    def _of(self, kept: Truths) -> Group:
        """Some of the divisions."""
        listed = {name: values[kept] for name, values in self.listed.items()}
        return _listed(self.sites, self.case, listed, self.under.promise, (self.fits[:, kept], self.sure[:, kept]), self.legal)

    def dealt(self, amount: float) -> Divided:
        """The fewest replicas of each division that keep a load with the promise."""
        if not self.fits.any():
            none = np.full(self.fits.shape, inf)
            return Divided(group=self, parts=none, idle=dict.fromkeys(self.under.promise.limits, none), used=(none, none))
        dealt = self.under.dealt(amount, self.grain, self.fits)
        parts = np.where(self.fits, dealt.parts, inf)
        idle = {key: np.where(self.fits, value, inf) for key, value in dealt.idle.items()}
        with np.errstate(all="ignore"):
            limits = self.under.promise.limits
            taken = np.maximum.reduce([np.zeros(self.fits.shape), *(dealt.times[key] / limits[key] for key in limits)])
            busy = amount * self.grain / (parts * self.under.most)
        return Divided(group=self, parts=parts, idle=idle, used=(taken, busy))


class Divided(Record, eq=False, kw_only=True):
    """What every division of the sites of a group comes to."""

    group: Group
    parts: Numbers
    """As of `Fleet`; infinity where a division is not legal, does not fit, or breaks the promise even when idle."""
    idle: Mapping[str, Numbers]
    """The times that are promised, of a replica that is next to idle; infinity where it does not fit."""
    used: tuple[Numbers, Numbers]
    """As of `Fleet`; of no meaning where `parts` are infinite."""

    def fleets(self, at: int) -> Iterator[Fleet]:
        """The divisions of a site that keep the promise: those that surely fit, or where there is none, those that fit."""
        sure = self.group.sure[at]
        some = np.isfinite(self.parts[at])
        some = some & sure if (some & sure).any() else some
        count = self.group.accelerators(self.parts)[at]
        for place in zip(*np.nonzero(some), strict=True):
            yield Fleet(
                division=self.group.division((at, *place)), parts=int(self.parts[(at, *place)]), accelerators=int(count[place]),
                surely=bool(sure[place]), used=(float(self.used[0][(at, *place)]), float(self.used[1][(at, *place)])),
            )  # fmt: skip


def site_of(key: Hashable, ask: ServeAsk, library: Library, *, alone: bool) -> Site:
    """A question about one unit, read; errors as `answer_serving`."""
    found = looked_up(ask, library)
    want, _ = wanted(ask, found, requested(ask, found))
    return Site(key=key, ask=ask, found=found, want=want.replaced(batch=None), alone=alone)


def grouped(
    sites: Sequence[Site], promise: Promise, *, every: bool = False
) -> tuple[list[Group], dict[Hashable, GpuplanError]]:  # fmt: skip
    """Sites by what they share, ready to be asked about loads; and the error of each that nothing can be estimated for.

    `every` division is kept that keeps the rules, whether it fits or not.
    """
    groups: dict[Hashable, list[Site]] = {}
    wants: list[Want] = []
    for site in sites:
        subject = site.found.subject
        if site.want not in wants:
            wants.append(site.want)
        # Machines that certainly need different formulas are not tried together.
        hw = subject.hw
        kind = (
            tuple((level.topology, level.in_network_reduction) for level in hw.levels),
            frozenset(hw.parameters),
            frozenset(hw.peaks),
        )
        key = id(subject.arch), id(subject.engine), site.ranks, hw.joined, site.alone, wants.index(site.want), kind
        groups.setdefault(key, []).append(site)
    made: list[Group] = []
    refused: dict[Hashable, GpuplanError] = {}
    todo = [(tuple(group), case) for group in groups.values() for case in _space(group[0]).every_case()]
    while todo:
        here, case = todo.pop()
        try:
            made.append(_together(here, case, promise, every=every))
        except Apart as apart:
            if len(here) == 1:
                raise
            kinds = dict.fromkeys(apart.kinds)
            todo += [(tuple(one for one, own in zip(here, apart.kinds, strict=True) if own == kind), case) for kind in kinds]
        except (GpuplanError, Refused) as error:
            if len(here) > 1:
                todo += [((one,), case) for one in here]
            elif isinstance(error, GpuplanError):
                refused[here[0].key] = error.with_traceback(None)
            else:
                refused[here[0].key] = error.errors[0]
    return made, refused


def _space(site: Site) -> Space[ServePlan]:
    """The divisions of a site."""
    return serving_space(site.want, site.found.subject)


def _together(sites: Sequence[Site], case: Mapping[str, Any], promise: Promise, *, every: bool) -> Group:
    """The divisions of sites that share their formulas; errors as `UnderPromise.of`, or `Apart` where they do not.

    Memory is asked of an open mesh of all of them, and times under loads of a list of those that fit on one of the sites; of
    `every` one that keeps the rules where something else is asked of them too.
    """
    first = sites[0]
    space = _space(first)
    legal, fits, rank = _held(sites, space, case, _mesh(space.axes))
    kept = np.nonzero((legal if every else legal & fits).any(axis=0))
    listed = {
        name: np.asarray(values, dtype=np.float64)[at][:, None] for (name, values), at in zip(space.axes.items(), kept, strict=True)
    }
    places: Any = (slice(None), *kept)
    fits = (fits & legal)[places]
    return _listed(sites, case, listed, promise, (fits, fits & (rank[places] <= -2.0)), int(legal.sum()))


def _listed(
    sites: Sequence[Site], case: Mapping[str, Any], listed: Mapping[str, Numbers], promise: Promise, held: tuple[Truths, Truths],
    legal: int,
) -> Group:  # fmt: skip
    """Divisions of sites one after the other, ready to be asked about loads; `held`: which fit, and which do so surely."""
    first, space, (fits, sure) = sites[0], _space(sites[0]), held
    shape = fits.shape
    subject, judges = _asked(sites, 2)
    with np.errstate(all="ignore"):
        plan = judges.plan(space.of(case, listed))
        under = UnderPromise.of(subject, plan, promise, shape)
        if fits.any():
            _ = under.most  # What keeps sites from being estimated, or from being estimated together, shows here.
        p = plan.parallel
        ranks, replicas = (
            np.broadcast_to(np.asarray(one, dtype=np.float64), (*shape, 1))[..., 0]
            for one in (p.tp * p.pp * p.attention_dp, p.dp / p.attention_dp)
        )
    return Group(
        sites=tuple(sites), case=case, listed=listed, plan=plan, fits=fits, sure=sure, legal=legal, under=under, ranks=ranks,
        grain=replicas if first.alone else np.ones(shape),
    )  # fmt: skip


def _asked(sites: Sequence[Site], behind: int) -> tuple[Subject, Judges]:
    """What sites are about, several of them along a dimension before `behind` others, and what judges their plans."""
    subject = sites[0].found.subject
    if len(sites) > 1:
        subject = subject.replaced(hw=Machines([one.found.subject.hw for one in sites], behind))
    return subject, Judges(sites[0].want, subject)


def _held(
    sites: Sequence[Site], space: Space[ServePlan], case: Mapping[str, Any], values: Mapping[str, Any]
) -> tuple[Truths, Truths, Numbers]:  # fmt: skip
    """Which plans keep the rules, which fit, and how safely, on each of some sites."""
    shape = (len(sites), *(len(values) for values in space.axes.values()))

    def each(value: Any) -> Any:
        return np.broadcast_to(np.asarray(value), (*shape, 1))[..., 0]

    _, judges = _asked(sites, len(space.axes) + 1)
    with np.errstate(all="ignore"):
        plan = space.of(case, values)
        legal = each(space.legal(plan))
        fits, rank, _ = judges.held(judges.plan(plan))
    return legal, each(fits), each(rank)


def _mesh(axes: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    """Each axis along a dimension of its own, before that of loads."""
    count = len(axes)
    return {
        name: np.asarray(values, dtype=np.float64).reshape([-1 if at == own else 1 for at in range(count)] + [1])
        for own, (name, values) in enumerate(axes.items())
    }
