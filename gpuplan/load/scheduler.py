"""What does the next step of a rank hold: which prompts are read, who decodes for how long, and who is sent back?"""

from __future__ import annotations

from array import array
from collections import deque
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from gpuplan.load.cache import MeanPages, Pages
from gpuplan.load.rules import Rules
from gpuplan.record import Record


class Fates(Record, eq=False, kw_only=True):
    """What becomes of requests: one value for each, seconds; requests that cannot be served keep NaN."""

    entered: array[float]
    """When it reached the queue of a replica."""
    admitted: array[float]
    """When its first prompt token began to be read, or it had a place where its prompt was read elsewhere."""
    first: array[float]
    """When its first token was made."""
    finished: array[float]
    preempted: array[int]
    """How often it was sent back."""

    @classmethod
    def of(cls, count: int) -> Fates:
        """Of so many requests, of which nothing is known yet."""
        nothing = array("d", [float("nan")]) * count
        return cls(
            entered=nothing[:], admitted=nothing[:], first=nothing[:], finished=nothing[:], preempted=array("q", [0]) * count
        )  # fmt: skip


class Asked(Record, eq=False, kw_only=True):
    """What requests want of a scheduler, one value for each."""

    prompt: array[int]
    output: array[int]
    cached: array[int]
    steps: array[int] | None = None
    """Decode steps from the first token to the last, where drafts are verified and a step makes several; None: one each."""
    growth: float = 1.0
    """Tokens of a step in the mean."""
    shared: array[int] | None = None
    """Pages of prompts that lie in the caches once for all requests that have them, and that none takes; None: there are none."""
    given: bool = False
    """Prompts were read elsewhere: their caches come with the request, and the first token is made."""


class Work(NamedTuple):
    """What comes next: one step with prompts, or decode steps without any."""

    tokens: int
    """Of prompts; 0: there are none."""
    keys: float
    """That these see together."""
    prompts: int
    starts: int
    """Of these, the prompts of which nothing was read before."""
    rows: int
    """Sequences that decode, beside the prompts or alone."""
    context: float
    """Their mean."""
    steps: int
    """Decode steps that may follow each other until anything changes; 1 with prompts, 0 where nobody decodes beside them."""
    ended: list[tuple[int, int]]
    """Requests whose prompts end with the step, and their length."""


class Scheduler:
    """The queue, the batch and the caches of one rank; it knows the order of things, and leaves the time to who runs it."""

    def __init__(self, rules: Rules, fates: Fates, asked: Asked) -> None:
        self.rules, self.fates, self.asked = rules, fates, asked
        self.prompt, self.output, self.cached = asked.prompt, asked.output, asked.cached
        self.growth = asked.growth
        self.cache = Pages(rules) if asked.steps is None else MeanPages(rules, asked.growth)
        self.waiting: deque[int] = deque()
        self.unseen: deque[int] = deque()
        """Requests that came since it last looked."""
        self._looked = 0
        """Decode steps when it did."""
        self.reading: deque[tuple[int, int]] = deque()
        """Requests whose prompt is read in part, and how many of its tokens are."""
        self.decoding: list[tuple[int, int]] = []
        """A heap of the decode step at whose end a request is finished, and the request."""
        self.running = 0
        self.outstanding = 0
        self.steps = 0
        """Decode steps so far."""
        self._base = 0.0
        """Tokens in the caches of decoding sequences, less what each of them gained by the decode steps so far."""
        self._entry: dict[int, float] = {}
        """What each of them counts for in that, where it cannot be told from its length."""
        self.used: float = 0
        self._order: list[int] = []
        """Requests in the order in which they were admitted, finished ones among them."""
        self._inside: set[int] = set()
        self._made: dict[int, int] = {}
        """Tokens that requests had made when they were sent back."""
        self._reads_nothing = True
        """Whether what it does now has no prompts."""
        self._stall, self._stalled = 0.0, 0
        self.busy = self.row_seconds = self.page_seconds = 0.0
        self.peak: float = 0
        self.gaps = array("d")
        self.gap_tokens = array("q")
        """Seconds of the steps between tokens, and the tokens that came after such a gap."""

    def enter(self, request: int, now: float) -> bool:
        """A request joins the queue; whether it may begin before what runs now would end by itself."""
        self.fates.entered[request] = now
        alone = not self.waiting
        (self.waiting if self.rules.looks == 1 else self.unseen).append(request)
        return self.rules.looks > 1 or (alone and self.running < self.rules.sequences)

    def until_look(self, steps: int) -> int:
        """The least number of decode steps, no fewer than these, after which it looks at new requests."""
        looks = self.rules.looks
        if looks == 1 or not (self.decoding or self.reading or self.waiting):
            return steps
        before = self.steps - self._looked
        return -(-(before + steps) // looks) * looks - before

    def look(self) -> None:
        """Take in what came, where it is time to."""
        looks, since = self.rules.looks, self.steps - self._looked
        if looks == 1:
            return
        idle = not (self.decoding or self.reading or self.waiting)
        if idle or not self._reads_nothing:
            self._looked = self.steps
        else:
            self._looked += since // looks * looks
            if since < looks or since % looks:
                return
        self.waiting.extend(self.unseen)
        self.unseen.clear()

    @property
    def wants(self) -> bool:
        """Whether a request waits that has a place, and room in the caches."""
        if not self.waiting or self.running >= self.rules.sequences:
            return False
        first = self.waiting[0]
        return self.used + self._room(first, self.prompt[first] + self._made.get(first, 0)) <= self.rules.pages

    def waiting_tokens(self) -> int:
        """Tokens of the prompts that wait, up to those of a pass."""
        found = 0
        for request in self.waiting:
            found += self.prompt[request] - self.cached[request]
            if found >= self.rules.tokens:
                break
        return found

    def next(self, now: float, *, admits: bool = True) -> Work | None:
        """What comes next, without requests that were not begun where none is admitted; None: there is nothing to do."""
        rules, cache = self.rules, self.cache
        pressed = not admits
        while True:
            while rules.mixes and self.decoding and cache.begun(len(self.decoding), self.steps, 1) > rules.pages - self.used:
                self._send_back()
                pressed = True
            # Who was just sent back does not come in again before the others have gone on.
            beside = len(self.decoding) if rules.mixes else 0
            tokens, keys, ended, prompts, starts = self._read(beside, now, admits=not pressed)
            rows = len(self.decoding)
            beside = rows if rules.mixes else 0
            context = (self._base + rows * (self.growth * self.steps + 1)) / rows if rows else 0.0
            self._reads_nothing = not tokens
            if tokens:
                return Work(tokens, keys, prompts, starts, beside, context, 1 if beside else 0, ended)
            if not rows:
                return None
            steps = cache.lasts(rows, self.steps, rules.pages - self.used, self.decoding[0][0] - self.steps)
            if self.unseen:
                steps = min(steps, rules.looks - (self.steps - self._looked))
            if steps:
                return Work(0, 0.0, 0, 0, rows, context, steps, [])
            self._send_back()
            pressed = True

    def done(self, work: Work, steps: int, span: float, now: float) -> list[int]:
        """So many decode steps of it are done, with its prompts; the requests that are finished."""
        fates, rows = self.fates, work.rows if steps else 0
        self.busy += span
        self.row_seconds += span * self.running
        finished: list[int] = []
        if work.tokens and not work.rows and self.decoding:
            self._stall += span
            self._stalled = max(self._stalled, len(self.decoding))
        if rows:
            self.used += self.cache.begun(rows, self.steps, steps)
            self.peak = max(self.peak, self.used)
            if self._stalled:
                self.gaps.append(span / steps + self._stall)
                self.gap_tokens.append(min(self._stalled, rows))
            more = steps * rows - min(self._stalled, rows)
            if more > 0:
                self.gaps.append(span / steps)
                self.gap_tokens.append(more)
            self._stall, self._stalled = 0.0, 0
            self.steps += steps
            heap = self.decoding
            while heap and heap[0][0] <= self.steps:
                finished.append(heappop(heap)[1])
            for request in finished:
                self._leave(request, self.prompt[request] + self.output[request] - 1)
        self.page_seconds += span * self.used
        for request, length in work.ended:
            if fates.first[request] != fates.first[request]:
                fates.first[request] = now
            if self._decode(request, length):
                finished.append(request)
        for request in finished:
            fates.finished[request] = now
        self.outstanding -= len(finished)
        return finished

    def _decode(self, request: int, length: int) -> bool:
        """A request whose prompt is read, with so many tokens in its caches, decodes, or has all of its tokens: whether it has."""
        whole = self.output[request]
        left = whole - (length - self.prompt[request] + 1)
        if not left:
            self._release(request, self._room(request, length))
            return True
        drawn = self.asked.steps
        steps = left if drawn is None else max(-(-drawn[request] * left // (whole - 1)), 1)
        heappush(self.decoding, (self.steps + steps, request))
        start = length - self.growth * self.steps
        self._base += start
        if drawn is not None:
            self._entry[request] = start
        self.cache.enters(length, self.steps)
        self.used += self._held(request, length) - self._room(request, length)
        return False

    def _room(self, request: int, length: int) -> int:
        """Pages of a request that has not decoded yet."""
        whole = self.rules.room(self.prompt[request] + self.output[request] if self.rules.reserves_output else length)
        return whole - (self.asked.shared[request] if self.asked.shared is not None else 0)

    def _held(self, request: int, length: int) -> float:
        """Pages of a request of so many tokens that decodes."""
        whole = self.cache.held(length, self.prompt[request] + self.output[request])
        return whole - (self.asked.shared[request] if self.asked.shared is not None else 0)

    def _read(self, rows: int, now: float, *, admits: bool) -> tuple[int, float, list[tuple[int, int]], int, int]:
        """Prompts of the next step: their tokens, the keys that these see together, those that end with it, how many, how many new.

        Requests whose prompts were read elsewhere get their places, and decode from the next step on.
        """
        rules = self.rules
        left, tokens, keys, prompts, starts = rules.tokens - rows * rules.verified, 0, 0.0, 0, 0
        # Those that decode beside them begin their pages first.
        pages = rules.pages - (self.cache.begun(rows, self.steps, 1) if rows else 0)
        ended: list[tuple[int, int]] = []
        while left > 0 and self.reading:
            request, done = self.reading.popleft()
            length = self.prompt[request] + self._made.get(request, 0)
            some = min(length - done, left)
            tokens, keys, prompts, left = tokens + some, keys + some * (done + (some + 1) / 2), prompts + 1, left - some
            if done + some == length:
                ended.append((request, length))
            else:
                self.reading.appendleft((request, done + some))
        while admits and left > 0 and self.waiting and self.running < rules.sequences:
            request = self.waiting[0]
            made = self._made.get(request, 0) if self._made else 0
            comes = self.asked.given and not made
            length, done = self.prompt[request] + made, self.cached[request]
            if not comes and not rules.cuts and length - done > left and tokens:
                break
            room = self._room(request, length)
            if self.used + room > pages:
                break
            self.waiting.popleft()
            self.used += room
            self.running += 1
            self._order.append(request)
            self._inside.add(request)
            if not made:
                self.fates.admitted[request] = now
            if comes:
                self._decode(request, length)
                continue
            some = min(length - done, left) if rules.cuts else length - done
            tokens, keys, prompts, left = tokens + some, keys + some * (done + (some + 1) / 2), prompts + 1, left - some
            starts += 1
            if done + some == length:
                ended.append((request, length))
            else:
                self.reading.append((request, done + some))
        self.peak = max(self.peak, self.used)
        return tokens, keys, ended, prompts, starts

    def _leave(self, request: int, length: int) -> None:
        """A decoding sequence of so many tokens is no longer one."""
        self._base -= length - self.steps if self.asked.steps is None else self._entry.pop(request)
        self.cache.leaves(length, self.steps)
        self._release(request, self._held(request, length))

    def _release(self, request: int, pages: float) -> None:
        self.used -= pages
        self.running -= 1
        self._inside.discard(request)
        self._made.pop(request, None)

    def _send_back(self) -> None:
        """The sequence that was admitted last gives its room back, and waits before all others; what it made is read again."""
        while self._order[-1] not in self._inside:
            self._order.pop()
        request = self._order.pop()
        place = next((at for at, (_, one) in enumerate(self.decoding) if one == request), None)
        if place is None:
            self.reading.remove(next(one for one in self.reading if one[0] == request))
            made = self._made.get(request, 0)
            self._release(request, self._room(request, self.prompt[request] + made))
        else:
            ends, _ = self.decoding[place]
            self.decoding[place] = self.decoding[-1]
            self.decoding.pop()
            heapify(self.decoding)
            made = self.output[request] - self._left(request, ends - self.steps)
            self._leave(request, self.prompt[request] + made - 1)
        if made:
            self._made[request] = made
        self.fates.preempted[request] += 1
        self.waiting.appendleft(request)

    def _left(self, request: int, steps: int) -> int:
        """Tokens that a request makes in the steps that it has left."""
        drawn = self.asked.steps
        if drawn is None:
            return steps
        return min(max(-(-steps * (self.output[request] - 1) // drawn[request]), 1), self.output[request] - 1)
