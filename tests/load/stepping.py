"""A replica stepped one step at a time, each sequence by itself: slow, and plain enough to be read against the rules."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuplan.load.requests import Requests
from gpuplan.load.rules import Rules
from gpuplan.load.step_lines import StepLines


@dataclass(eq=False)
class Sequence:
    name: int
    prompt: int
    output: int
    read: int
    """Tokens whose keys and values are in the cache."""
    made: int = 0
    decodes: bool = False
    goal: int = 0
    """Tokens to be read before it decodes."""


def pages(rules: Rules, one: Sequence) -> int:
    tokens = one.prompt + one.output if rules.reserves_output else (one.read if one.decodes else one.goal)
    return rules.room(tokens)


def stepped(asked: Requests, lines: StepLines, rules: Rules, host: float = 0.0) -> tuple[np.ndarray, np.ndarray, int, int]:
    """First and last token of each request, how often any was sent back, and the most pages that were taken."""
    count = len(asked)
    first, last = np.full(count, np.nan), np.full(count, np.nan)
    if asked.arrival is None:
        coming = [(host, name) for name in range(min(asked.users, count))]
        later = list(range(min(asked.users, count), count))
    else:
        coming, later = [(float(asked.arrival[name]) + host, name) for name in range(count)], []
    waiting: list[Sequence] = []
    inside: list[Sequence] = []
    now, sent_back, peak = 0.0, 0, 0
    since, looking = 0, True
    while coming or waiting or inside:
        if not waiting and not inside:
            now = max(now, coming[0][0])
            looking = True
        looking = looking or since >= rules.looks
        since = 0 if looking else since
        while looking and coming and coming[0][0] <= now:
            _, name = coming.pop(0)
            waiting.append(Sequence(name, int(asked.prompt[name]), int(asked.output[name]), int(asked.cached[name])))

        def used() -> int:
            return sum(pages(rules, one) for one in inside)

        def next_pages() -> int:
            rows = [] if rules.reserves_output else [one.read for one in inside if one.decodes]
            return used() + sum(rules.room(read + 1) - rules.room(read) for read in rows)

        def give_back() -> None:
            one = inside.pop()
            one.decodes, one.read = False, int(asked.cached[one.name])
            waiting.insert(0, one)

        pressed = False
        while True:
            while rules.mixes and any(one.decodes for one in inside) and next_pages() > rules.pages:
                give_back()
                sent_back, pressed = sent_back + 1, True
            rows = [one for one in inside if one.decodes]
            left = rules.tokens - (len(rows) if rules.mixes else 0)
            chunks: list[tuple[Sequence, int]] = []
            for one in inside:
                if not one.decodes and left > 0:
                    some = min(one.goal - one.read, left)
                    chunks.append((one, some))
                    left -= some
            while not pressed and waiting and left > 0 and len(inside) < rules.sequences:
                one = waiting[0]
                one.goal = one.prompt + one.made
                need = one.goal - one.read
                if not rules.cuts and need > left and chunks:
                    break
                if (next_pages() if rules.mixes else used()) + pages(rules, one) > rules.pages:
                    break
                inside.append(waiting.pop(0))
                some = min(need, left) if rules.cuts else need
                chunks.append((one, some))
                left -= some
            if chunks or next_pages() <= rules.pages:
                break
            give_back()
            sent_back, pressed = sent_back + 1, True
        if chunks and not rules.mixes:
            rows = []
        tokens = sum(some for _, some in chunks)
        keys = sum(some * (one.read + (some + 1) / 2) for one, some in chunks)
        context = sum(one.read + 1 for one in rows) / len(rows) if rows else 0.0
        peak = max(peak, used())
        looking = bool(chunks) or rules.looks == 1
        since += 1
        now += lines.step(tokens, keys / tokens if tokens else 0.0, len(chunks), len(rows), context)
        ended = []
        for one in rows:
            one.read += 1
            one.made += 1
        for one, some in chunks:
            one.read += some
            if one.read == one.goal:
                one.decodes = True
                one.made += 1
                if np.isnan(first[one.name]):
                    first[one.name] = now
        peak = max(peak, used())
        for one in list(inside):
            if one.decodes and one.made == one.output:
                inside.remove(one)
                last[one.name] = now
                ended.append(one)
        for _ in ended:
            if later:
                coming.append((now + host, later.pop(0)))
    return first, last, sent_back, peak
