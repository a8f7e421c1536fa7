"""When does a replica do what its schedulers say: from one change of a batch to the next?"""

from __future__ import annotations

from collections.abc import Sequence

from gpuplan.load.pace import Pace, Works
from gpuplan.load.scheduler import Scheduler

NEVER = float("inf")


class Replica:
    """The schedulers of one replica in step: one, or the ranks of attention that share experts, which wait for the slowest."""

    def __init__(self, pace: Pace, ranks: Sequence[Scheduler], waits: int = 0) -> None:
        """`waits` are steps for which prompts wait until all ranks have one to read, or those of the only one fill a pass."""
        self.pace, self.ranks, self.waits = pace, ranks, waits
        self._held = 0
        """Steps for which they have."""
        self._holds = False
        self.now = 0.0
        self.until = NEVER
        """When what it does now ends."""
        self.version = 0
        self._works: Works | None = None
        self._steps = 0
        """Of them, steps that are under way."""
        self._started = 0.0

    @property
    def step_seconds(self) -> float:
        """The time of a step of those that it makes now; none where it does nothing."""
        return 0.0 if self._works is None else (self.until - self._started) / self._steps

    def enter(self, request: int, now: float, rank: int) -> None:
        """A request joins the queue of a rank; a run of decode steps ends with the one under way where it can begin then."""
        one = self.ranks[rank]
        may = one.enter(request, now)
        if self._works is None:
            self.now = self.until = now
            self.version += 1
        elif self._steps > 1 and may:
            enough = one.until_look(self.pace.until(self._works, now - self._started, self._steps))
            if enough < self._steps:
                self._steps = enough
                self.until = self._started + self.pace.seconds(self._works, enough)
                self.version += 1

    def turn(self) -> list[int]:
        """What it did is done, and the next thing begins; the requests that are finished."""
        now = self.now = self.until
        done: list[int] = []
        if self._works is not None:
            span = now - self._started
            self._held = self._held + self._steps if self._holds else 0
            for one, work in zip(self.ranks, self._works, strict=True):
                if work is not None:
                    done += one.done(work, min(work.steps, self._steps), span, now)
        for one in self.ranks:
            one.look()
        self._begin(now)
        self.version += 1
        return done

    def _begin(self, now: float) -> None:
        self._holds = self.waits > 0 and self._unequal()
        works = [one.next(now, admits=not self._holds) for one in self.ranks]
        some = [work for work in works if work is not None]
        if not some:
            self.until, self._works = NEVER, None
            return
        if any(work.tokens for work in some):
            steps, span = 1, self.pace.step(works)
        else:
            most = min(work.steps for work in some)
            steps = self.pace.most(works, min(most, self.waits - self._held) if self._holds else most)
            span = self.pace.seconds(works, steps)
        self._works, self._steps, self._started, self.until = works, steps, now, now + span

    def _unequal(self) -> bool:
        """Whether prompts wait for others to be read with them, as they do for a while as long as any sequence decodes."""
        wants = [one.wants for one in self.ranks]
        if not any(wants) or self._held >= self.waits or any(one.reading for one in self.ranks):
            return False
        if not any(one.decoding for one in self.ranks):
            return False
        return not all(wants) if len(wants) > 1 else self.ranks[0].waiting_tokens() < self.ranks[0].rules.tokens
