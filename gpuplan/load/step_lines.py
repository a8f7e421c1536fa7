"""How long do many equal steps take, and when do they end: the table of step times, read as fast as a simulation needs it?"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from math import ceil, sqrt

import numpy as np

from gpuplan.load.step_times import StepTimes


class Series:
    """Decode steps of batches that stay as they are, whose contexts grow evenly: between places of a table they are a series."""

    def __init__(self, keys: list[float], line: list[float], slopes: list[float], context: float, growth: float) -> None:
        """`line` are seconds of a step by the context in `keys`, `slopes` what these grow by with it."""
        self.keys, self.line, self.slopes, self.context, self.growth = keys, line, slopes, context, growth
        self._last = len(keys) - 2

    def sum(self, steps: int) -> float:
        """Seconds of so many of them."""
        seconds: float = 0.0
        for some, first, growth in self._pieces(steps):
            seconds += some * first + growth * (some * (some - 1) / 2)
        return seconds

    def until(self, seconds: float, most: int) -> int:
        """The least number of them that takes at least so long; `most` where all of these are shorter."""
        done, left = 0, seconds
        for some, first, growth in self._pieces(most):
            whole = some * first + growth * (some * (some - 1) / 2)
            if whole >= left:
                return done + _terms(first, growth, left, some)
            left -= whole
            done += some
        return most

    def _pieces(self, steps: int) -> Iterator[tuple[int, float, float]]:
        """Steps in a row that grow evenly: how many, the first, and what the next one is more."""
        keys, line, slopes, context, each, last = self.keys, self.line, self.slopes, self.context, self.growth, self._last
        at = min(max(bisect_right(keys, context) - 1, 0), last)
        while steps:
            some = steps if at == last else min(steps, max(ceil((keys[at + 1] - context) / each), 1))
            yield some, line[at] + slopes[at] * (context - keys[at]), slopes[at] * each
            steps -= some
            context += some * each
            at = at + 1 if at < last else at


class StepLines:
    """The table of step times in plain numbers: of one step, and in closed form of any number of decode steps of one batch.

    Between two places of the table the time of a decode step grows evenly with the context, so that the steps of a batch that
    stays as it is are an arithmetic series. `stages` of a pipeline share prompts and sequences of a step: each works on a part.
    """

    def __init__(self, times: StepTimes, *, stages: int = 1, pass_tokens: int = 0, growth: float = 1.0) -> None:
        """`pass_tokens` are those of prompts that one stage takes at once, where there are several stages.

        `growth` are the tokens that each sequence gains in a decode step.
        """
        self.times, self.stages, self.pass_tokens, self.growth = times, stages, pass_tokens, growth
        self.verified = times.verified
        self._shared, self._head = times.shared.tolist(), times.head.tolist()
        self._tokens, self._keys, self._chunk = times.chunk_tokens.tolist(), times.chunk_keys.tolist(), times.chunk.tolist()
        self._experts: list[float] | None = None if times.experts is None else times.experts.tolist()
        self._travels: list[float] | None = None if times.travels is None else times.travels.tolist()
        self._context = times.decode_keys.tolist()
        self._last = len(self._context) - 2
        self._own: dict[int, tuple[list[float], list[float]]] = {}
        self._lines: dict[int, tuple[list[float], list[float]]] = {}

    def step(self, tokens: int, keys: float, prompts: int, rows: int, context: float) -> float:
        """Seconds of one step: `tokens` of `prompts`, seeing `keys` in the mean, beside `rows` that decode at a mean context."""
        read, sequences = tokens, rows + prompts
        if self.stages > 1:
            sequences = ceil(rows / self.stages) + ceil(prompts / self.stages)
            read = min(tokens, self.pass_tokens)
        return self.whole(self.busy(tokens, keys, prompts, rows, context), read, self.pass_of(tokens, rows), sequences)

    def busy(self, tokens: int, keys: float, prompts: int, rows: int, context: float) -> float:
        """Seconds of the work of such a step, but for experts that several ranks of attention share."""
        if self.stages > 1:
            rows, prompts = ceil(rows / self.stages), ceil(prompts / self.stages)
            tokens = min(tokens, self.pass_tokens)
        heads, verified = self._head, rows * self.verified
        busy: float = self._shared[tokens + verified] + heads[min(verified + prompts, len(heads) - 1)]
        if rows:
            own, slopes = self._attention(rows)
            at = min(max(bisect_right(self._context, context) - 1, 0), self._last)
            busy += own[at] + slopes[at] * (context - self._context[at])
        if tokens and self._travels is not None:
            busy += self._travels[tokens + verified]
        if tokens:
            i = min(bisect_right(self._tokens, tokens) - 1, len(self._tokens) - 2)
            j = min(max(bisect_right(self._keys, keys) - 1, 0), len(self._keys) - 2)
            low, high = self._chunk[i], self._chunk[i + 1]
            v = (keys - self._keys[j]) / (self._keys[j + 1] - self._keys[j])
            u = (tokens - self._tokens[i]) / (self._tokens[i + 1] - self._tokens[i])
            first = low[j] + (low[j + 1] - low[j]) * v
            busy += first + (high[j] + (high[j + 1] - high[j]) * v - first) * u
        return busy

    def pass_of(self, tokens: int, rows: int) -> int:
        """Tokens of one pass through a stage."""
        if self.stages > 1:
            return min(tokens, self.pass_tokens) + ceil(rows / self.stages) * self.verified
        return tokens + rows * self.verified

    def experts(self, tokens: int) -> float:
        """Seconds of experts that several ranks of attention share, by the tokens of all of them."""
        if self._experts is None:
            return 0.0
        return self._experts[min(tokens, len(self._experts) - 1)]

    def run(self, rows: int, context: float, steps: int) -> float:
        """Seconds of `steps` decode steps of `rows` sequences, the first of them at this mean context."""
        return self._alone(rows, context).sum(steps)

    def steps_until(self, rows: int, context: float, seconds: float, most: int) -> int:
        """The least number of such steps that takes at least so long; `most` where all of these are shorter."""
        return self._alone(rows, context).until(seconds, most)

    def series(self, rows: int, context: float, others: float, sequences: int) -> Series:
        """Decode steps of `rows` sequences beside other work of so long; `sequences` are the most of any rank."""
        rows = ceil(rows / self.stages)
        own, _ = self._attention(rows)
        fixed = others + self._shared[rows * self.verified] + self._head[min(rows * self.verified, len(self._head) - 1)]
        return Series(self._context, *self._whole_line(own, fixed, ceil(sequences / self.stages)), context, self.growth)

    def _alone(self, rows: int, context: float) -> Series:
        rows = ceil(rows / self.stages)
        made = self._lines.get(rows)
        if made is None:
            verified = rows * self.verified
            fixed = self._shared[verified] + self._head[min(verified, len(self._head) - 1)]
            made = self._lines[rows] = self._whole_line(self._attention(rows)[0], fixed, rows)
        return Series(self._context, made[0], made[1], context, self.growth)

    def _whole_line(self, own: list[float], fixed: float, sequences: int) -> tuple[list[float], list[float]]:
        """By context: whole decode steps, and what they grow by."""
        busy = np.asarray(own) + fixed
        whole = self.times.whole(busy, 0.0, float(sequences), float(sequences))
        return whole.tolist(), (np.diff(whole) / np.diff(self.times.decode_keys)).tolist()

    def _attention(self, rows: int) -> tuple[list[float], list[float]]:
        """By context: attention of so many sequences that decode, and what it grows by."""
        made = self._own.get(rows)
        if made is None:
            times = self.times
            i = min(max(int(np.searchsorted(times.decode_rows, rows, side="right")) - 1, 0), len(times.decode_rows) - 2)
            u = (rows - times.decode_rows[i]) / (times.decode_rows[i + 1] - times.decode_rows[i])
            own = times.decode[i] * (1 - u) + times.decode[i + 1] * u
            made = self._own[rows] = own.tolist(), (np.diff(own) / np.diff(times.decode_keys)).tolist()
        return made

    def whole(self, busy: float, read: int, tokens: int, sequences: int) -> float:
        """What `StepTimes.whole` says of one step, in plain numbers."""
        times = self.times
        prompts = times.short_issue if tokens <= times.short_tokens else times.prompt_issue
        least = prompts if read else times.issue
        staged = times.stage_issue + times.stage_sequence * sequences
        least = staged if staged > least else least
        counted = (busy if busy > least else least) + times.host + times.sequence_host * sequences
        if not read:
            return counted * times.decode_residual
        return counted * (times.decode_residual + (times.prefill_residual - times.decode_residual) * read / tokens)


def _terms(first: float, growth: float, least: float, most: int) -> int:
    """How many terms of an arithmetic series sum to `least` or more, of which `most` do."""
    if least <= first:
        return 1
    if abs(growth) * most < 1e-9 * first:
        found = ceil(least / first)
    else:
        half = first - growth / 2
        found = ceil((-half + sqrt(max(half * half + 2 * growth * least, 0.0))) / growth)
    found = min(max(found, 1), most)

    def sum_of(terms: int) -> float:
        return terms * first + growth * (terms * (terms - 1) / 2)

    while found > 1 and sum_of(found - 1) >= least:
        found -= 1
    while found < most and sum_of(found) < least:
        found += 1
    return found
