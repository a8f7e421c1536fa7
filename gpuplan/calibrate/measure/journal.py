"""How is every measured probe kept at once, so that an interrupted calibration goes on where it was?

An append-only file with one JSON object a line: a header that says what is measured, the `plan` of all probes, then `begin` and
`sample` or `skipped` for each of them, `hung` where the watchdog gave up, and `done` behind the last. What was measured is
with the system before the next probe, and on the disk a second later. A torn last line is what a crash leaves behind, and is no
error.
"""

from __future__ import annotations

import json
import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

from gpuplan.calibrate.device import Identity
from gpuplan.calibrate.measure.probe_list import Planned
from gpuplan.calibrate.measure.sample import Sample, Skipped, plain, probe_of, sample_of
from gpuplan.errors import Problem, UsageError
from gpuplan.files.home import home
from gpuplan.files.json_text import parse
from gpuplan.files.read import TABLE_BYTES, bytes_of, exists, text_of
from gpuplan.files.write import append, emptied, open_for_appending, try_lock
from gpuplan.record import Record, field

FORMAT = 1
WAIT = "wait for its end, or stop it: two at once would disturb each other"
SYNC_S = 1.0
"""How long measured kernels may wait for the disk, which would cost more than many of them take."""
DEATHS = 2
"""A probe in which the process died so often without a word is not tried again."""


class JournalContents(Record, kw_only=True):
    """What a journal holds."""

    header: Mapping[str, Any] = field(default_factory=dict)
    samples: Mapping[str, Sample] = field(default_factory=dict)
    """The last sample of each probe, by its key."""
    skipped: Mapping[str, Skipped] = field(default_factory=dict)
    hung: tuple[str, ...] = ()
    """Keys of probes in which a kernel hung or the process died repeatedly."""
    plan: tuple[Planned, ...] = ()
    """All probes that were to be measured, in their order."""
    done: bool = False
    """Whether the calibration ran to its end."""


def header(identity: Identity, version: str, grid: str, kinds: Sequence[str]) -> dict[str, Any]:
    """What a journal belongs to: the device, its software, gpuplan's version and the set of probes."""
    return {"format": FORMAT, "gpuplan": version, "grid": grid, "kinds": list(kinds), "device": plain(identity)}


def default_place(env: Mapping[str, str], ident: str) -> Path:
    """Where the journal of a device is kept: in `~/.cache/gpuplan/calibrate`, or where XDG_CACHE_HOME says.

    >>> str(default_place({"HOME": "/me"}, "h100-sxm-80gb"))
    '/me/.cache/gpuplan/calibrate/h100-sxm-80gb.jsonl'
    """
    cache = Path(env.get("XDG_CACHE_HOME") or home(env) / ".cache")
    return cache / "gpuplan" / "calibrate" / f"{ident}.jsonl"


def load(path: Path) -> JournalContents | None:
    """What the journal in a file holds, or None where there is no file or no whole header in it.

    Raises:
        UsageError: the file cannot be read.
    """
    if not exists(path):
        return None
    text = text_of(path, most=TABLE_BYTES, code="calibrate", errors="replace")
    entries = [entry for line in text.splitlines() if (entry := _entry(line)) is not None]
    if not entries or not isinstance(entries[0].get("header"), dict):
        return None
    try:
        return _kept(entries)
    except (KeyError, TypeError, ValueError, AttributeError):
        return JournalContents()  # Whole lines that nobody here wrote: of another version, or edited.


def _kept(entries: Sequence[Mapping[str, Any]]) -> JournalContents:
    """What the lines say, the first of which is the header."""
    samples: dict[str, Sample] = {}
    skipped: dict[str, Skipped] = {}
    begun: Counter[str] = Counter()
    hung: list[str] = []
    plan: tuple[Planned, ...] = ()
    for entry in entries[1:]:
        if "sample" in entry:
            sample = sample_of(entry["sample"])
            if not 0 < sample.seconds < float("inf"):
                raise ValueError(sample.seconds)
            samples[sample.probe.key()] = sample
            begun.pop(sample.probe.key(), None)
        elif "skipped" in entry:
            one = Skipped(probe=probe_of(entry["skipped"]["probe"]), why=entry["skipped"]["why"])
            skipped[one.probe.key()] = one
            begun.pop(one.probe.key(), None)
        elif "hung" in entry:
            hung.append(entry["hung"])
        elif "plan" in entry:
            plan = tuple(Planned(probe=probe_of(one["probe"]), launch=one["launch"], cost=one["cost"]) for one in entry["plan"])
        elif "begin" in entry:
            begun[entry["begin"]] += 1
        elif "stopped" in entry:
            begun.pop(entry["stopped"], None)
    hung += [key for key, count in begun.items() if count >= DEATHS and key not in hung]
    return JournalContents(
        header=entries[0]["header"], samples=samples, skipped=skipped, hung=tuple(hung), plan=plan, done="done" in entries[-1]
    )  # fmt: skip


def _entry(line: str) -> dict[str, Any] | None:
    """One line, or None where it was torn."""
    try:
        made = parse(line)
    except ValueError:
        return None
    return made if isinstance(made, dict) else None


class Journal:
    """An open journal; also the watchdog's thread may write to it."""

    def __init__(self, path: Path, head: Mapping[str, Any], *, resume: bool) -> None:
        """Open a journal for writing, folders included.

        Raises:
            UsageError: it cannot be written, or another process is writing it.
        """
        self.path = path
        self._lock = Lock()
        self._synced = float("-inf")
        try:
            torn = resume and exists(path) and not bytes_of(path, most=TABLE_BYTES, code="calibrate").endswith(b"\n")
            self._file = open_for_appending(path)
            if not try_lock(self._file):
                os.close(self._file)
                raise UsageError(
                    Problem("calibrate.under-way", f"another `gpuplan calibrate` measures here: it writes {path}", WAIT)
                )
            if not resume:
                emptied(self._file)
        except OSError as error:
            raise self._unwritable(error) from None
        if torn:
            self._put(b"\n")
        if not resume:
            self.add(header=dict(head))

    def add(self, **entry: Any) -> None:
        """Append one line; those of measured kernels wait for the disk once in `SYNC_S`, what decides how to go on at once.

        A killed process loses nothing either way: what was written is with the system.

        Raises:
            UsageError: the disk is full, or the file cannot be written any more.
        """
        with self._lock:
            # Only a crash of the whole machine would lose what the system has not written yet: a second's kernels are no such loss.
            late = time.monotonic() - self._synced > SYNC_S
            wait = "begin" not in entry and (late or not entry.keys() <= {"sample", "skipped"})
            self._put(json.dumps(entry, separators=(",", ":")).encode() + b"\n", wait=wait)
            self._synced = time.monotonic() if wait else self._synced

    def close(self) -> None:
        """Close the file, which stays."""
        os.close(self._file)

    def _put(self, line: bytes, *, wait: bool = True) -> None:
        try:
            append(self._file, line, wait=wait)
        except OSError as error:
            raise self._unwritable(error) from None

    def _unwritable(self, error: OSError) -> UsageError:
        hint = "what is in it stays; make room, or name another place with --out, and call the same command again"
        return UsageError(Problem("calibrate.no-journal", f"cannot write the journal {self.path}: {error.strerror}", hint))
