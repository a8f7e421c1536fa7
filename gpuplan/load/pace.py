"""How long do the steps of a replica take: of one rank, of ranks that wait for each other, and with drafts before each of them?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

from gpuplan.load.scheduler import Work
from gpuplan.load.step_lines import Series, StepLines

Works: TypeAlias = Sequence[Work | None]
"""What each rank does; None: nothing."""


class Pace(Protocol):
    """The time of steps."""

    def step(self, works: Works) -> float:
        """Seconds of a step in which prompts are read, by one rank at least."""

    def most(self, works: Works, steps: int) -> int:
        """Of so many decode steps those whose time `seconds` tells."""

    def seconds(self, works: Works, steps: int) -> float:
        """Seconds of so many decode steps of batches that stay as they are."""

    def until(self, works: Works, seconds: float, most: int) -> int:
        """The least number of such steps that takes at least so long, or `most`."""


class OneRank:
    """The pace of a replica with one scheduler."""

    def __init__(self, lines: StepLines, encode: float = 0.0) -> None:
        """`encode` are seconds in which the images of a request are encoded before its prompt is read."""
        self.lines, self.encode = lines, encode

    def step(self, works: Works) -> float:
        """Seconds of a step with prompts."""
        work = works[0]
        assert work is not None
        return self.encode * work.starts + self.lines.step(
            work.tokens, work.keys / work.tokens, work.prompts, work.rows, work.context
        )

    def most(self, works: Works, steps: int) -> int:
        """Of so many decode steps those that `seconds` tells."""
        return steps

    def seconds(self, works: Works, steps: int) -> float:
        """Seconds of so many decode steps."""
        work = works[0]
        assert work is not None
        return self.lines.run(work.rows, work.context, steps)

    def until(self, works: Works, seconds: float, most: int) -> int:
        """The least number of decode steps that takes so long."""
        work = works[0]
        assert work is not None
        return self.lines.steps_until(work.rows, work.context, seconds, most)


class Ranks:
    """The pace of ranks of attention that share experts: all passes are aligned, and the slowest rank sets the time of each.

    Experts see the tokens of all ranks; everything else each rank has for itself.
    """

    def __init__(self, lines: StepLines, encode: float = 0.0) -> None:
        self.lines, self.encode = lines, encode

    def step(self, works: Works) -> float:
        """Seconds of a step with prompts."""
        lines = self.lines
        busy, encode, all_tokens, read, sequences = 0.0, 0.0, 0, 0, 0
        for work in works:
            if work is not None:
                keys = work.keys / work.tokens if work.tokens else 0.0
                busy = max(busy, lines.busy(work.tokens, keys, work.prompts, work.rows, work.context))
                encode = max(encode, self.encode * work.starts)
                all_tokens += lines.pass_of(work.tokens, work.rows)
                read += work.tokens
                sequences = max(sequences, work.rows + work.prompts)
        return encode + lines.whole(busy + lines.experts(all_tokens), read, max(all_tokens, 1), sequences)

    def most(self, works: Works, steps: int) -> int:
        """Steps in which one rank is the slowest: contexts of many sequences grow faster together than those of few."""
        lead = self._slowest(works, 0)
        while steps > 1 and self._slowest(works, steps - 1) is not lead:
            steps = (steps + 1) // 2
        return steps

    def seconds(self, works: Works, steps: int) -> float:
        """Seconds of so many decode steps."""
        return self._series(works).sum(steps)

    def until(self, works: Works, seconds: float, most: int) -> int:
        """The least number of decode steps that takes so long."""
        return self._series(works).until(seconds, most)

    def _series(self, works: Works) -> Series:
        lines = self.lines
        lead = self._slowest(works, 0)
        others = lines.experts(sum(lines.pass_of(0, work.rows) for work in works if work is not None))
        return lines.series(lead.rows, lead.context, others, max(work.rows for work in works if work is not None))

    def _slowest(self, works: Works, after: int) -> Work:
        """The rank whose step is the longest after so many of them."""
        lines, best, found = self.lines, -1.0, None
        for work in works:
            if work is not None:
                busy = lines.busy(0, 0.0, 0, work.rows, work.context + after * lines.growth)
                if busy > best:
                    best, found = busy, work
        assert found is not None
        return found


class Drafting:
    """The pace of steps before which tokens are drafted, and in which the drafter reads prompts too."""

    def __init__(self, whole: Pace, drafter: Pace, drafts: int, beside: float, projection: Sequence[float]) -> None:
        """`beside` are seconds of a pass of the drafter that the model's own pass has already; `projection` by sequences."""
        self.whole, self.drafter, self.drafts, self.beside, self.projection = whole, drafter, drafts, beside, projection

    def step(self, works: Works) -> float:
        """Seconds of a step with prompts."""
        found = self.whole.step(works)
        reads = [None if one is None or not one.tokens else one._replace(rows=0, context=0.0) for one in works]
        found += self.drafter.step(reads) + self._around(max(one.prompts for one in reads if one is not None))
        rows = [None if one is None or not one.rows else one._replace(tokens=0, prompts=0, starts=0, steps=1) for one in works]
        if any(rows):
            found += self._drafted(rows, 1)
        return found

    def most(self, works: Works, steps: int) -> int:
        """Of so many decode steps those that `seconds` tells."""
        return self.drafter.most(works, self.whole.most(works, steps))

    def seconds(self, works: Works, steps: int) -> float:
        """Seconds of so many decode steps."""
        return self.whole.seconds(works, steps) + self._drafted(works, steps)

    def until(self, works: Works, seconds: float, most: int) -> int:
        """The least number of decode steps that takes so long."""
        low, high = 1, most
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self.seconds(works, middle) >= seconds else (middle + 1, high)
        return low

    def _drafted(self, works: Works, steps: int) -> float:
        around = self._around(max(one.rows for one in works if one is not None))
        return self.drafts * (self.drafter.seconds(works, steps) + steps * around)

    def _around(self, sequences: int) -> float:
        return self.projection[min(sequences, len(self.projection) - 1)] - self.beside
