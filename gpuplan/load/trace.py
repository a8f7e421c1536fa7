"""Which requests did a server get: a trace of when each came, how long its prompt was, and how long its answer?"""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from gpuplan.errors import Note, Problem, UsageError
from gpuplan.files.csv_text import rows_of
from gpuplan.files.json_text import JsonError, parse
from gpuplan.files.read import TRACE_BYTES, unpacked_text
from gpuplan.load.requests import Requests, shared_part
from gpuplan.record import Record

MOST_ROWS = 3_000_000
"""The most requests of one trace: some 100 bytes each."""
NAMED = 5
"""Bad rows that are named one by one."""
MOST_TOKENS = 100_000_000
"""More than any prompt or answer has."""
HASHED_TOKENS = 512
"""Tokens of a block of which a trace names the hash (Mooncake's traces)."""
TIMES = ("timestamp", "arrivaltime", "arrivedat", "arrivals", "arrival", "time", "starttime", "requesttime")
"""The usual names of columns, in lower case without what is no letter or digit; times in milliseconds end in `ms`."""
PROMPTS = (
    "contexttokens", "prompttokens", "requesttokens", "inputtokens", "inputlength", "promptlength", "promptlen", "inputlen",
    "numprefilltokens", "prefilltokens", "prompt", "input", "isl",
)  # fmt: skip
OUTPUTS = (
    "generatedtokens", "outputtokens", "responsetokens", "completiontokens", "outputlength", "outputlen", "numdecodetokens",
    "decodetokens", "responselength", "output", "response", "osl",
)  # fmt: skip
CACHED = ("cachedtokens", "prefixtokens", "sharedtokens", "cachedprompttokens")
_PLAIN = re.compile(r"[^a-z0-9]")
_START = datetime(1970, 1, 1, tzinfo=UTC)


class Trace(Record, eq=False, kw_only=True):
    """The requests of a trace in the order of their times, and what is to be said of it."""

    requests: Requests
    notes: tuple[Note, ...] = ()


def read_trace(path: Path, *, cached_share: float | None = None, timed: bool = True) -> Trace:
    """A trace in CSV with a row of names, or in JSON Lines; either may be packed with gzip.

    The public Azure traces of 2023 and 2024 (`TIMESTAMP,ContextTokens,GeneratedTokens`), BurstGPT (`Timestamp`, `Request tokens`,
    `Response tokens`) and Mooncake (`timestamp` in milliseconds, `input_length`, `output_length`, `hash_ids`) are read as they are.
    Times are seconds, milliseconds where the column says so, or dates. Rows that say no time or no whole number of tokens from 1
    on are left out, counted, and the first of them named. `cached_share` of every prompt is in a cache of prefixes; None: what the
    trace says, from its own column or from blocks that came before. Not `timed`: a set of lengths will do, whose rows say no time.

    Raises:
        UsageError: the file cannot be read, has no columns of times, prompts and outputs, or no good row.
    """
    text = unpacked_text(path, most=TRACE_BYTES, code="trace")
    where = str(path)
    rows = _Rows(where, timed=timed)
    if text.lstrip()[:1] == "{":
        _read_json(text, rows)
    else:
        _read_csv(text, rows)
    return rows.trace(cached_share)


class _Rows:
    """The good rows of a trace so far, and the bad ones."""

    def __init__(self, where: str, *, timed: bool) -> None:
        self.where, self.timed = where, timed
        self.times, self.prompts, self.outputs, self.cached = array("d"), array("q"), array("q"), array("q")
        self.bad = 0
        self.named: list[str] = []
        self.knows_cached = False

    def add(self, line: int, time: Callable[[], float], prompt: Any, output: Any, cached: Any) -> None:
        """A row, if it is a good one."""
        try:
            at, read, made, known = time(), _tokens(prompt), _tokens(output), 0 if cached is None else _tokens(cached, least=0)
        except (ValueError, TypeError, OverflowError) as error:
            self.skip(line, str(error))
            return
        if len(self.times) == MOST_ROWS:
            what = f"the trace holds more than {MOST_ROWS:,} requests"
            raise UsageError(Problem("trace.too-many", what, "give a part of it", f"{self.where}:{line}"))
        self.times.append(at)
        self.prompts.append(read)
        self.outputs.append(made)
        self.cached.append(min(known, read - 1))

    def skip(self, line: int, why: str) -> None:
        """A bad row."""
        self.bad += 1
        if len(self.named) < NAMED:
            self.named.append(f"line {line}: {why}")

    def trace(self, cached_share: float | None) -> Trace:
        """All rows as requests.

        Raises:
            UsageError: there are none.
        """
        good = len(self.times)
        said = "; ".join(self.named) + (f"; and {self.bad - len(self.named):,} more" if self.bad > len(self.named) else "")
        if not good:
            what = "the trace has no request" if not self.bad else f"no row of the trace is a request ({said})"
            raise UsageError(Problem("trace.empty", what, "give rows of a time, prompt tokens and output tokens", self.where))
        times, prompts = np.frombuffer(self.times), np.frombuffer(self.prompts, dtype=np.int64)
        order = np.argsort(times, kind="stable")
        notes = []
        if self.bad:
            notes.append(Note("trace.bad-rows", f"{self.bad:,} of {good + self.bad:,} rows of {self.where} are left out ({said})"))
        if self.timed and np.any(np.diff(times) < 0):
            notes.append(Note("trace.sorted", f"the rows of {self.where} are not in the order of their times: they were sorted"))
        cached = np.frombuffer(self.cached, dtype=np.int64) if cached_share is None else shared_part(prompts, cached_share)
        made = Requests(
            prompt=prompts[order], output=np.frombuffer(self.outputs, dtype=np.int64)[order], cached=cached[order],
            arrival=times[order] - times[order[0]],
        )  # fmt: skip
        return Trace(requests=made, notes=tuple(notes))


def _read_csv(text: str, rows: _Rows) -> None:
    lines = rows_of(_lines(text), rows.where, code="trace", most=MOST_ROWS + 1)
    line, names = next(lines, (0, None))
    if names is None:
        return
    time, prompt, output, cached = _columns(names, rows.where, line, timed=rows.timed)
    scale = 1e-3 if time is not None and _plain(names[time]).endswith("ms") else 1.0
    last = max(time or 0, prompt, output)
    for at, cells in lines:
        if len(cells) <= last:
            rows.skip(at, f"{len(cells)} of {len(names)} columns")
            continue
        known = cells[cached] if cached is not None and cached < len(cells) else None
        rows.add(at, _timer(cells[time], scale) if time is not None else _never, cells[prompt], cells[output], known)


def _read_json(text: str, rows: _Rows) -> None:
    seen: set[Any] = set()
    for line, whole in enumerate(_lines(text), start=1):
        if not whole.strip():
            continue
        try:
            held = parse(whole)
        except JsonError:
            held = None
        if not isinstance(held, dict):
            rows.skip(line, "no JSON object")
            continue
        names = list(held)
        found = [_find(names, some) for some in (TIMES, PROMPTS, OUTPUTS, CACHED)]
        wanted = dict(zip(("time", "prompt tokens", "output tokens"), found, strict=False))
        missing = next((what for what, at in wanted.items() if at is None and (rows.timed or what != "time")), None)
        if missing is not None:
            rows.skip(line, f"no {missing}")
            continue
        values = [None if at is None else held[names[at]] for at in found]
        hashes = held.get("hash_ids")
        scale = 1e-3 if isinstance(hashes, list) or _plain(names[found[0] or 0]).endswith("ms") else 1.0
        known = values[3]
        if known is None and isinstance(hashes, list):
            new = next((place for place, one in enumerate(hashes) if _hashable(one) not in seen), len(hashes))
            seen.update(_hashable(one) for one in hashes[new:])
            known = new * HASHED_TOKENS
        rows.add(line, _timer(values[0], scale) if found[0] is not None and rows.timed else _never, values[1], values[2], known)


def _columns(names: Sequence[str], where: str, line: int, *, timed: bool) -> tuple[int | None, int, int, int | None]:
    found = [_find(names, some) for some in (TIMES if timed else (), PROMPTS, OUTPUTS, CACHED)]
    time, prompt, output, cached = found
    if (time is not None or not timed) and prompt is not None and output is not None:
        return time, prompt, output, cached
    words = ("the time", "prompt tokens", "output tokens") if timed else ("", "prompt tokens", "output tokens")
    wanted = [what for what, at in zip(words, found, strict=False) if at is None and what]
    what = f"no column of {' or '.join(wanted)} among {', '.join(f'`{one[:40]}`' for one in names[:12])}"
    hint = "name the columns in the first row: timestamp,prompt_tokens,output_tokens"
    hint += "; or say how requests come, such as with --rate" if timed else ""
    raise UsageError(Problem("trace.columns", what, hint, f"{where}:{line}"))


def _find(names: Sequence[str], usual: Sequence[str]) -> int | None:
    """The column whose name is the most usual one."""
    plain = [_plain(one) for one in names]
    return next((plain.index(form) for one in usual for form in (one, f"{one}ms", f"{one}s") if form in plain), None)


def _plain(name: str) -> str:
    return _PLAIN.sub("", name.lower())


def _tokens(value: Any, *, least: int = 1) -> int:
    if isinstance(value, bool):
        raise ValueError(f"`{value}` is no number of tokens")
    try:
        found = float(value)
    except ValueError:
        raise ValueError(f"`{str(value)[:40]}` is no number of tokens") from None
    if not found.is_integer() or not least <= found <= MOST_TOKENS:
        raise ValueError(f"`{str(value)[:40]}` is no number of tokens from {least} on")
    return int(found)


def _never() -> float:
    """The time of a row that says none."""
    return 0.0


def _timer(value: Any, scale: float) -> Callable[[], float]:
    return lambda: _seconds(value, scale)


def _seconds(value: Any, scale: float) -> float:
    """A number of seconds, or a date, which is one of UTC where it does not say otherwise."""
    try:
        found = float(value)
    except ValueError:
        try:
            date = datetime.fromisoformat(str(value).strip())
        except ValueError:
            raise ValueError(f"`{str(value)[:40]}` is no time") from None
        return ((date if date.tzinfo else date.replace(tzinfo=UTC)) - _START).total_seconds()
    if not math.isfinite(found) or isinstance(value, bool):
        raise ValueError(f"`{str(value)[:40]}` is no time")
    return found * scale


def _hashable(value: Any) -> Any:
    return value if isinstance(value, (int, str)) else str(value)


def _lines(text: str) -> Iterator[str]:
    """The lines of a text one by one: a list of all of them would take as much memory again."""
    start = 0
    while start < len(text):
        end = text.find("\n", start) + 1 or len(text)
        yield text[start:end]
        start = end
