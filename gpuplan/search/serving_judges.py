"""What makes one division of a serving question better than another?"""

from __future__ import annotations

from typing import Any

from gpuplan.estimate.reading import most_read, served_figures
from gpuplan.estimate.serving import ServingModel
from gpuplan.estimate.serving_memory import ServingMemory, at_least
from gpuplan.estimate.subject import Subject
from gpuplan.estimate.under_load import under_load, when_full
from gpuplan.num import floor, maximum, minimum, where
from gpuplan.plan.serve import ServePlan
from gpuplan.ranges import high_end, time_ends
from gpuplan.record import Record, field
from gpuplan.search.best import Best, Judged, best_of
from gpuplan.search.serving_space import Want
from gpuplan.search.space import Part, Space
from gpuplan.term import Term

SURELY, FITS = -2.0, -1.0
"""How surely a division fits, the less the surer: also at the high end of the memory's range, or in its middle."""
FEW = 16
"""So many divisions are sooner looked at one by one than numpy is imported: most are dismissed by their memory."""
AS_FAST = 0.995
"""Of divisions within half a percent of the fastest the one with the fewest stages is taken, which answers sooner."""
AS_PLAIN = 0.98
"""Where replicas may share experts, of divisions within so much of the fastest the one with the fewest means of it is taken: an
estimate does not tell them apart, and each of them is one more thing to set up."""
TILE = 16
"""Rows of the smallest tiles that matrix units multiply."""
SURER = 1.25
"""A division that surely fits is taken unless one that fits in the middle of its range is faster by more than this: whoever has two
cards for a model that just fits divides it as is fastest, and hears that it fits narrowly."""
KEPT = 1.25
"""A division that keeps the rate also at the low end of what it can keep is taken unless one that may not keep it, whose requests
then wait without bound, is expected to answer sooner by more than this."""


def filled(plan: ServePlan, subject: Subject) -> ServePlan:
    """The plan with as many sequences as the caches of a replica hold and the engine runs, divided by its batch so far.

    A part of them is whole tiles of kernels, which a few sequences more would leave mostly empty.
    """
    memory = ServingModel.of(subject, plan).memory()
    most, limit = memory.max_sequences, memory.limit.value
    whole = limit if most is None else minimum(most.value, limit)
    some = floor(whole / plan.batch)
    tiled = where((plan.batch > 1) & (some >= TILE), floor(some / TILE) * TILE, some)
    return plan.replaced(batch=maximum(tiled, 1.0))


class Seen(Record, eq=False):
    """What was found of some divisions that fit: whether they keep a rate, and last the value that should be small."""

    part: Part[ServePlan]
    keys: tuple[Any, ...]
    plainly: Any
    """That value without credit."""


class Judges(Record, eq=False):
    """What prefers one division to another; of equals the smaller replica is taken, and of those the one of fewer stages."""

    want: Want
    subject: Subject
    seen: list[Seen] = field(default_factory=list)
    """What was found of the divisions that fit, in pieces, so that they can be compared otherwise without another estimate."""
    alone: bool = False
    """Whether there is but one division: then nothing is compared, and but for what fits all is estimated with its answer."""
    decodes: bool = False
    """Whether only answers are written, to prompts that are read elsewhere: then decode steps alone are compared."""

    def plan(self, plan: ServePlan) -> ServePlan:
        """A division with its batch."""
        return filled(plan, self.subject) if self.want.batch is None else plan

    def smallest(self, part: Part[ServePlan]) -> Judged[ServePlan]:
        """What prefers the fewest accelerators a replica that surely fit, then that fit, or else the least memory."""
        p = part.plan.parallel
        fits, rank, memory = self.held(self.plan(part.plan))
        return Judged(part, part.count(fits), (rank, where(fits, p.tp * p.pp, memory.needed.value), *_size(part)))

    def fastest(self, part: Part[ServePlan]) -> Judged[ServePlan]:
        """What prefers the most tokens a second of those that fit, with credit where they surely do, or else the least memory.

        The time of those that do not fit is not estimated.
        """
        if self.alone:
            memory = ServingModel.of(self.subject, self.plan(part.plan)).memory()
            fits = memory.needed.value <= memory.budget.value
            return Judged(part, part.count(fits), (where(fits, -1.0, 0.0), memory.needed.value, *_size(part)))
        fits, rank, memory = self.held(self.plan(part.plan))
        fitting = part.count(fits)
        if not fitting:
            return Judged(part, 0, (rank, memory.needed.value, *_size(part)))
        own = part.where(fits)
        if own is not part:
            _, rank, _ = self.held(self.plan(own.plan))
        return self._seen(own, fitting, (FITS,), -self._speed(own), credit(rank))

    def keeping(self, part: Part[ServePlan]) -> Judged[ServePlan]:
        """What prefers, of divisions that fit, those that keep the rate, by the time of a request; or else the highest rate.

        Divisions that do not keep it have no time of a request. Those that surely fit, and that surely keep it, have credit.
        """
        fits, rank, memory = self.held(self.plan(part.plan))
        fitting = part.count(fits)
        if not fitting:
            return Judged(part, 0, (rank, 0.0, memory.needed.value, *_size(part)))
        part = part.where(fits)
        rate = self._most(part)
        keeps = rate > self._rate()
        if not part.count(keeps):
            _, rank, _ = self.held(self.plan(part.plan))
            return self._seen(part, fitting, (FITS, 1.0 + 0.0 * rate), -rate, credit(rank))
        part = part.where(keeps)
        _, rank, _ = self.held(self.plan(part.plan))
        most, time = self._kept(part)
        surely = self.alone or time_ends(most)[0] > self._rate()
        return self._seen(part, fitting, (FITS, 0.0 * time), time, 1.0 / credit(rank) / where(surely, KEPT, 1.0))

    def _most(self, part: Part[ServePlan]) -> Any:
        """The highest rate of some divisions."""
        plan = self.plan(part.plan)
        if not self.subject.arch.generates:
            return most_read(self.subject, plan).value
        model = ServingModel.of(self.subject, plan)
        return when_full(model, model.memory()).most.value

    def _kept(self, part: Part[ServePlan]) -> tuple[Term, Any]:
        """The highest rate of some divisions that keep the one asked for, and the time of a request."""
        plan = self.plan(part.plan)
        if not self.subject.arch.generates:
            made = served_figures(self.subject, plan).figures
            return made["highest_rate_per_s"], made["latency_s"].value
        model = ServingModel.of(self.subject, plan)
        memory, load = model.memory(), plan.load
        if load is None:
            raise TypeError("only a rate can be kept")
        full = when_full(model, memory)
        return full.most, under_load(model, memory, load, full).figures["e2e_s"].value

    def _seen(self, part: Part[ServePlan], fitting: int, before: tuple[Any, ...], value: Any, credited: Any) -> Judged[ServePlan]:
        """The judgement of some divisions, which is kept: what goes before a value that should be small, and its credit."""
        keys = (*before, value * credited)
        self.seen.append(Seen(part, keys, value))
        return Judged(part, fitting, (*keys, *_size(part)))

    def _behind(self, own: float) -> float:
        """How much faster the fastest that fits is than a plan of that value, where that was taken as surer; or else 1."""
        keys = [self._first(one) for one in self.seen]
        least = min(value for before, value in keys if before == min(before for before, _ in keys))
        times = least / own if own < 0 else own / least
        return times if times * self._near_enough() > 1 else 1.0

    def _near_enough(self) -> float:
        """The share of the fastest's speed that plainer divisions may have."""
        return AS_PLAIN if self.want.opens(self.subject) else AS_FAST

    @staticmethod
    def _first(one: Seen) -> tuple[tuple[float, ...], float]:
        """What comes before the value of the best of some divisions, and the least value of those that are alike in it."""
        found = one.part.least((*one.keys[:-1], one.plainly))[0]
        return tuple(found[:-1]), found[-1]

    def _rate(self) -> float:
        load = self.want.load
        return 0.0 if load is None or load.rate is None else float(load.rate)

    def plainest(self, space: Space[ServePlan], found: Best[ServePlan]) -> Best[ServePlan]:
        """The plainest of those that were looked at which are nearly as good as the best that was found."""
        if not found.fits or found.fitting < 2 or not self.seen:
            return found
        *sure, least = found.keys[: len(self.seen[0].keys)]
        chosen = best_of(space, (self._near(one, tuple(sure), least) for one in self.seen), found.looked_at)
        if chosen is None:
            return found
        *_, plainly, _, _ = chosen.keys  # before the size
        return chosen.replaced(fits=True, fitting=found.fitting, behind=self._behind(plainly))

    def _near(self, one: Seen, sure: tuple[float, ...], least: float) -> Judged[ServePlan]:
        """What prefers the plainest of those that can hardly be told from the one of the least value, then the fastest of them."""
        *ranks, value = one.keys
        fast = self._near_enough()
        near = value <= (least * fast if least < 0 else least / fast)
        for own, rank in zip(ranks, sure, strict=True):
            near = near & (own <= rank)
        plan = one.part.plan
        beside = _beside(plan) + 0.0 * value
        plain = (beside, plan.parallel.pp + 0.0 * value)
        return Judged(one.part, 0, (where(near, 0.0, 1.0), *plain, value, one.plainly, *_size(one.part)))

    def _speed(self, part: Part[ServePlan]) -> Any:
        plan = self.plan(part.plan)
        figures = served_figures(self.subject, plan).figures
        return plan.batch * plan.parallel.dp / figures["itl_s"].value if self.decodes else figures["tokens_per_s"].value

    def held(self, plan: ServePlan) -> tuple[Any, Any, ServingMemory]:
        """Which divisions, with their batch, fit, how surely (the less the surer), and what they hold."""
        return held(self.subject, plan)


def credit(rank: Any) -> Any:
    """By how much divisions count as faster than they are, by how surely they fit as `held` has it."""
    return where(rank <= SURELY, SURER, 1.0)


def held(subject: Subject, plan: ServePlan) -> tuple[Any, Any, ServingMemory]:
    """Which divisions, with their batch, fit, how surely (the less the surer), and what they hold."""
    memory = ServingModel.of(subject, plan).memory()
    fits = memory.needed.value <= memory.budget.value
    sure = high_end(at_least(memory.needed)) <= memory.budget.value
    return fits, where(sure & fits, SURELY, where(fits, FITS, 0.0)), memory


def _beside(plan: ServePlan) -> Any:
    """How many means of sharing experts a division has."""
    p = plan.parallel
    means = (p.attention_dp > 1, p.ep > 1, p.decode_cp > 1, p.redundant_experts > 0)
    one = [where(holds, 1.0, 0.0) for holds in means]
    return sum(one) + float(plan.expert_exchange is not None) + float(bool(plan.settings.overlap_batches))


def _size(part: Part[ServePlan]) -> tuple[Any, Any]:
    """Accelerators and stages of a replica."""
    p = part.plan.parallel
    return p.tp * p.attention_dp * p.pp, p.pp
