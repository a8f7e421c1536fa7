"""How does a fleet do under a load: every request through the steps of its replica, in the order in which things happen?"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush

import numpy as np
from numpy.typing import NDArray

from gpuplan.files.progress import over, tell
from gpuplan.load.drafts import steps_of
from gpuplan.load.prefixes import with_shared
from gpuplan.load.replica import NEVER, Replica
from gpuplan.load.requests import Numbers, Rates, Requests, rates_of
from gpuplan.load.rules import Rules
from gpuplan.load.scheduler import Asked, Fates, Scheduler
from gpuplan.load.service import Service
from gpuplan.plan.words import Router
from gpuplan.record import Record

Floats = NDArray[np.float64]
_WORK = "requests of a simulation"
"""What a terminal calls the work while it lasts."""
PLACES = 200
"""Moments at which the length of the queue is told."""
BACKLOG = 0.03
"""The share of all requests that waits when the last one comes, above which a fleet does not keep up."""


class Spread(Record, kw_only=True):
    """The middle and the ends of a figure over all requests or tokens."""

    mean: float
    p50: float
    p90: float
    p95: float
    p99: float


class Simulated(Record, eq=False, kw_only=True):
    """What came of a load, in seconds, tokens and shares; times are those that a client sees."""

    replicas: int
    """Of each the ranks of attention with requests of their own."""
    requests: int
    refused: int
    """Requests that are longer than a whole cache."""
    ttft: Spread | None
    """None: nothing was served; so with the others."""
    tpot: Spread | None
    itl: Spread | None
    end_to_end: Spread | None
    span: float
    """From the first request to the last answer."""
    requests_per_s: float
    input_tokens_per_s: float
    output_tokens_per_s: float
    unanswered: float
    """Requests of the whole fleet that wait for their first token, in the mean of the time."""
    batch: float
    """Sequences that a replica has in work, in the mean of the time."""
    utilisation: float
    """The share of the time in which replicas work, or those that write answers."""
    reading: float | None
    """The same of workers that read prompts alone; None: there are none."""
    cache: float
    """The share of the caches that is taken, in the mean of the time; `peak_cache` at most."""
    peak_cache: float
    preemptions: int
    rates: Rates | None
    """At which they came; None: as others ended, or at once."""
    keeps_up: bool
    """Whether the queue does not grow from the beginning to the end of the load."""
    queue_times: Floats
    queue: Floats
    """Requests of the whole fleet that wait at these times, after the first of them came."""
    sent: Floats
    first: Floats
    finished: Floats
    """By request, seconds; NaN of those that were refused."""


class Reading(Record, eq=False, kw_only=True):
    """Workers that read prompts alone, and the links over which the caches go to those that write answers."""

    service: Service
    transfer: float
    """Seconds of a transfer whatever its size; `token_transfer` of each token of a prompt besides."""
    token_transfer: float

    def arrives(self, tokens: int, began: float, now: float, free: float) -> float:
        """When the caches of a prompt that was read until `now` are all there, over a link that is `free` from then on.

        Those of a chunk are sent when it is read, while the next one is.
        """
        chunks = -(-tokens // max(self.service.rules.tokens, 1))
        whole = self.transfer + self.token_transfer * tokens
        return max(max(free, began + (now - began) / chunks) + whole, now + whole / chunks)


def simulate(
    requests: Requests, service: Service, *, reading: Reading | None = None, router: Router = "round-robin", steady_from: int = 0,
    seed: int = 0,
) -> Simulated:  # fmt: skip
    """The load through the replicas of a service; those of `reading` read its prompts, where there are others for them.

    Times are told of the requests from `steady_from` on: those before fill the replicas. `seed` draws which drafts are accepted.
    Each replica goes from one change of its batch to the next: between them, decode steps are summed in closed form.
    """
    fleet = Fleet.of(requests, service, reading=reading, router=router, seed=seed)
    fleet.run()
    made = fleet.answer(steady_from)
    return made if fleet.shared is None else _with_beginnings(made, requests.prefixes, fleet.left)


def _with_beginnings(made: Simulated, prefixes: int, left: float) -> Simulated:
    """What came of a load beside whose sequences the beginnings of prompts lie in the caches: those of what runs are held too."""
    met = min(made.batch / prefixes, 1.0)
    return made.replaced(cache=made.cache * left + met * (1 - left), peak_cache=made.peak_cache * left + (1 - left))


class _Pool:
    """Replicas of one kind behind a router."""

    def __init__(self, service: Service, asked: Asked, router: Router, first: int) -> None:
        self.service, self.router, self.first = service, router, first
        self.fates = Fates.of(len(asked.prompt))
        self.units = [
            Replica(service.pace, [Scheduler(service.rules, self.fates, asked) for _ in range(service.ranks)], service.waits)
            for _ in range(service.replicas)
        ]
        self.desks = [one for unit in self.units for one in unit.ranks]
        self.desk_of = array("q", [0]) * len(asked.prompt)
        self.prompt = asked.prompt
        self._free = [0.0] * len(self.units)
        """When the process that reads requests is done with the last one."""
        self._turn = self._ended = 0
        self._loads = [(0, at) for at in range(len(self.desks))]

    def route(self, request: int, now: float) -> tuple[float, int]:
        """When a request reaches the queue of a replica, and the number of that one."""
        at = self._desk()
        self.desk_of[request] = at
        self.desks[at].outstanding += 1
        unit = at // self.service.ranks
        if self.service.token_host:
            now = self._free[unit] = max(self._free[unit], now) + self.prompt[request] * self.service.token_host
        if self.service.ahead:
            now += self.service.ahead * self.units[unit].step_seconds
        return now, self.first + unit

    def enter(self, request: int, now: float) -> None:
        """A request joins the queue of its rank."""
        at = self.desk_of[request]
        self.units[at // self.service.ranks].enter(request, now, at % self.service.ranks)

    def ended(self, requests: Sequence[int]) -> None:
        """What the router is told of replicas that are done with these, and whoever watches."""
        self._ended += len(requests)
        if self._ended * 50 // len(self.prompt) != (self._ended - len(requests)) * 50 // len(self.prompt):
            tell(_WORK, self._ended, len(self.prompt))
        if self.router == "least-loaded":
            for at in {self.desk_of[one] for one in requests}:
                heappush(self._loads, (self.desks[at].outstanding, at))

    def _desk(self) -> int:
        if self.router == "round-robin" or len(self.desks) == 1:
            at = self._turn
            self._turn = (at + 1) % len(self.desks)
            return at
        loads = self._loads
        while loads[0][0] != self.desks[loads[0][1]].outstanding:
            heappop(loads)
        at = loads[0][1]
        # What is said of a replica is no longer true once the request is there.
        heappush(loads, (self.desks[at].outstanding + 1, at))
        if len(loads) > 64 * len(self.desks):
            loads[:] = [(one.outstanding + (place == at), place) for place, one in enumerate(self.desks)]
            heapify(loads)
        return at

    def shares(self, span: float) -> tuple[float, float, float, float]:
        """Sequences in work of a rank, and the shares of the time and of the caches that are taken, the last at most."""
        over, pages = span * len(self.desks) or 1.0, max(self.service.rules.pages, 1)
        return (
            sum(one.row_seconds for one in self.desks) / over, sum(one.busy for one in self.desks) / over,
            sum(one.page_seconds for one in self.desks) / (over * pages), max(one.peak for one in self.desks) / pages,
        )  # fmt: skip


class Fleet:
    """Replicas behind routers, and requests on their way to them."""

    @classmethod
    def of(
        cls, requests: Requests, service: Service, *, reading: Reading | None = None, router: Router = "round-robin", seed: int = 0
    ) -> Fleet:  # fmt: skip
        """The fleet before the first request; `seed` draws which drafts are accepted."""
        if reading is not None:
            return cls(requests, service, reading, router, seed, None)
        rules, shared = with_shared(requests, service.rules)
        made = cls(requests, service.replaced(rules=rules), None, router, seed, shared)
        made.left = rules.pages / max(service.rules.pages, 1)
        return made

    def __init__(
        self, requests: Requests, service: Service, reading: Reading | None, router: Router, seed: int, shared: Numbers | None
    ) -> None:  # fmt: skip
        self.requests, self.reading, self.shared = requests, reading, shared
        self.left = 1.0
        """The part of the caches that is not taken by beginnings of prompts that all share."""
        count = len(requests)
        prompt, output, cached = (
            array("q", np.ascontiguousarray(one, dtype=np.int64).tobytes())
            for one in (requests.prompt, requests.output, requests.cached)
        )
        self.output = output
        drafts = service.drafts
        whole = Asked(
            prompt=prompt, output=output, cached=cached, given=reading is not None,
            steps=None if drafts is None else steps_of(requests.output, drafts, seed),
            growth=1.0 if drafts is None else drafts.expected,
            shared=None if shared is None else array("q", shared.tolist()),
        )  # fmt: skip
        spared = 0 if shared is None else shared * service.rules.page_tokens
        self.served = _has_room(service.rules, requests.prompt + requests.output - spared)
        self.pools = [_Pool(service, whole, router, 0)]
        if reading is not None:
            alone = Asked(prompt=prompt, output=array("q", [1]) * count, cached=cached)
            self.served &= _has_room(reading.service.rules, requests.prompt + 1)
            self.pools.insert(0, _Pool(reading.service, alone, router, len(self.pools[0].units)))
        self.writing = self.pools[-1]
        self._links = [0.0] * len(self.pools[0].desks)
        """When the link of a rank that reads prompts is free."""
        self._there = array("d", [float("nan")]) * count
        """When the caches of a request are with the worker that writes its answer, where another one read its prompt."""
        self.sent = array("d", [float("nan")]) * count

    def run(self, enough: Callable[[Sequence[int]], bool] | None = None) -> bool:
        """Every event in the order of time; of a request and the end of a step at one moment, the request comes first.

        Ends before the last one where `enough` says so of requests that are just answered; whether it went on to the last.
        """
        try:
            return self._run(enough)
        finally:
            over(_WORK)  # Else the answer would stand behind the bar, on its line.

    def told(self, steady_from: int) -> tuple[NDArray[np.bool_], Floats, Floats, Floats]:
        """Which requests from this one on are answered, and when each of all was sent, had its first token and its last."""
        asked, fates, writing = self.requests, self.pools[0].fates, self.writing
        first, finished = np.array(fates.first), np.array(writing.fates.finished)
        if self.reading is not None:
            # Its worker tells the first token, when it has a place and the caches are there.
            there = np.array(self._there)
            first = np.where(asked.output > 1, np.array(writing.fates.admitted), there)
            finished = np.where(asked.output > 1, finished, first)
        at = np.isfinite(finished)
        begins = steady_from if steady_from < int(at.sum()) else 0
        return at & (np.arange(len(asked)) >= begins), np.array(self.sent), first, finished

    def _run(self, enough: Callable[[Sequence[int]], bool] | None) -> bool:
        coming, left = self._coming()
        host, sent = self.pools[0].service.host, self.sent
        events: list[tuple[float, int, int]] = []
        units = [unit for pool in sorted(self.pools, key=lambda one: one.first) for unit in pool.units]
        pools = [pool for pool in sorted(self.pools, key=lambda one: one.first) for _ in pool.units]
        while coming or events:
            if coming and (not events or coming[0][0] <= events[0][0]):
                now, request = coming.popleft()
                then, at = self.pools[0].route(request, now)
                version = -1 - request
                if then > now:
                    heappush(events, (then, at, version))
                    continue
            else:
                now, at, version = heappop(events)
                if at < 0:
                    at, waited = self._taken_over(-1 - version, now)
                    if waited > 0.0:
                        heappush(events, (now + waited, at, version))
                        continue
            one = units[at]
            if version < 0:
                before = one.version
                pools[at].enter(-1 - version, now)
                if one.version != before:
                    heappush(events, (one.until, at, one.version))
                continue
            if version != one.version:
                continue
            done = one.turn()
            if one.until != NEVER:
                heappush(events, (one.until, at, one.version))
            if not done:
                continue
            pools[at].ended(done)
            if enough is not None and pools[at] is self.writing and enough(done):
                return False
            for request in done:
                if pools[at] is not self.writing and (then := self._hand_over(request, now)) and self.output[request] > 1:
                    heappush(events, (then, -1, -1 - request))
                elif left:
                    following = left.popleft()
                    sent[following] = now
                    coming.append((now + host, following))
        return True

    def _hand_over(self, request: int, now: float) -> float:
        """When the caches of a prompt are with the worker that writes its answer."""
        assert self.reading is not None
        pool = self.pools[0]
        link = pool.desk_of[request]
        tokens = pool.prompt[request]
        then = self.reading.arrives(tokens, pool.fates.admitted[request], now, self._links[link])
        self._links[link] = self._there[request] = then
        return then

    def _coming(self) -> tuple[deque[tuple[float, int]], deque[int]]:
        """Requests in the order in which they come, with the time, and those that come as others end."""
        order = np.flatnonzero(self.served).tolist()
        opened, host = self.requests.arrival, self.pools[0].service.host
        left: deque[int] = deque()
        if opened is None:
            users = min(max(self.requests.users, 1), len(order))
            coming = deque((host, request) for request in order[:users])
            left.extend(order[users:])
        else:
            coming = deque(zip((opened[order] + host).tolist(), order, strict=True))
        for at, request in coming:
            self.sent[request] = at - host
        return coming, left

    def _taken_over(self, request: int, now: float) -> tuple[int, float]:
        """The number of the worker that writes an answer, and how long its engine lets the request wait for its steps."""
        pool = self.writing
        _, at = pool.route(request, now)
        return at, pool.service.hand_over * pool.units[at - pool.first].step_seconds

    def answer(self, steady_from: int) -> Simulated:
        """What came of it."""
        asked, fates, writing = self.requests, self.pools[0].fates, self.writing
        entered, admitted = np.array(fates.entered), np.array(fates.admitted)
        told, sent, first, finished = self.told(steady_from)
        at = np.isfinite(finished)
        served = int(at.sum())
        start = float(sent[at].min()) if served else 0.0
        span = float(finished[at].max()) - start if served else 0.0
        long = told & (asked.output > 1)
        gaps, counts = array("d"), array("q")
        for one in writing.desks:
            gaps.extend(one.gaps)
            counts.extend(one.gap_tokens)
        drafts = writing.service.drafts
        times = np.linspace(0.0, span, PLACES)
        queue = (
            np.searchsorted(np.sort(entered[at]), times + start, side="right")
            - np.searchsorted(np.sort(admitted[at]), times + start, side="right")
        ).astype(float)
        batch, busy, cache, peak = writing.shares(span)

        def rate(amount: float) -> float:
            return amount / span if span else 0.0

        return Simulated(
            replicas=len(writing.desks), requests=served, refused=len(asked) - served, span=span,
            ttft=_spread(first[told] - sent[told]), end_to_end=_spread(finished[told] - sent[told]),
            tpot=_spread((finished[long] - first[long]) / (asked.output[long] - 1)),
            itl=_weighted(np.array(gaps) / (1.0 if drafts is None else drafts.expected), np.array(counts)),
            requests_per_s=rate(served), input_tokens_per_s=rate(float(asked.prompt[at].sum())),
            output_tokens_per_s=rate(float(asked.output[at].sum())),
            unanswered=float((first[at] - sent[at]).sum()) / (span or 1.0),
            batch=batch, utilisation=busy, cache=cache, peak_cache=min(peak, 1.0),
            reading=None if self.reading is None else self.pools[0].shares(span)[1],
            rates=rates_of(asked), preemptions=sum(sum(one.fates.preempted) for one in self.pools),
            keeps_up=self._keeps_up(times + start, queue, sent[at]),
            queue_times=times, queue=queue, sent=sent, first=first, finished=finished,
        )  # fmt: skip

    def _keeps_up(self, times: Floats, queue: Floats, sent: Floats) -> bool:
        """Whether what waits when the last request comes is little, or was more before."""
        if self.requests.arrival is None or len(sent) < 2 or sent.max() == sent.min():
            return True
        coming = queue[times <= sent.max()]
        last = coming[-max(len(coming) // 10, 1) :].mean()
        before = coming[len(coming) // 4 : len(coming) // 2].mean() if len(coming) > 4 else 0.0
        return bool(last <= BACKLOG * len(sent) or last <= 1.5 * before)


def _has_room(rules: Rules, whole: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether requests of so many tokens are no longer than a whole cache."""
    pages = -(-whole // rules.page_tokens) if rules.page_tokens else 0
    return np.asarray(rules.fixed_pages + pages <= rules.pages) & np.ones(len(whole), dtype=bool)


def _spread(values: Floats) -> Spread | None:
    if not len(values):
        return None
    p50, p90, p95, p99 = (float(one) for one in np.percentile(values, (50, 90, 95, 99)))
    return Spread(mean=float(values.mean()), p50=p50, p90=p90, p95=p95, p99=p99)


def _weighted(values: Floats, counts: NDArray[np.int64]) -> Spread | None:
    """The spread of values that each stand for several."""
    if not len(values):
        return None
    order = np.argsort(values)
    values, up_to = values[order], np.cumsum(counts[order])
    p50, p90, p95, p99 = (float(values[np.searchsorted(up_to, share * up_to[-1])]) for share in (0.5, 0.9, 0.95, 0.99))
    return Spread(mean=float(np.dot(values, counts[order]) / up_to[-1]), p50=p50, p90=p90, p95=p95, p99=p99)
