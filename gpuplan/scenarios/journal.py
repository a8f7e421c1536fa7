"""How is every answered scenario kept at once, so that an interrupted run goes on where it was?

An append-only file with one JSON object a line, each the result of one question under a key that says what was asked, with which
gpuplan, which data files, and on which day: what no longer holds is asked again. A torn last line is what a crash leaves behind,
and is no error.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from gpuplan import __version__
from gpuplan.errors import Problem, UsageError
from gpuplan.files.home import home
from gpuplan.files.json_text import JsonError, parse
from gpuplan.files.read import TABLE_BYTES, exists, is_folder, text_if_there
from gpuplan.files.write import append, emptied, open_for_appending, try_lock, unwritable
from gpuplan.models.catalog import CARDS
from gpuplan.scenarios.file import Case
from gpuplan.scenarios.result import Result
from gpuplan.search.library import stamp_of
from gpuplan.specs.catalog import Catalog
from gpuplan.specs.dates import today

FORMAT = 1


class Journal:
    """The results in a file, by the keys of their questions; new ones are on the disk before the next question is asked."""

    def __init__(self, path: Path, cases: Sequence[Case]) -> None:
        """Read what is there and take the file for this process.

        Raises:
            UsageError: it is no journal, another process writes it, or it cannot be written.
        """
        self.path = path
        self._stamps: dict[tuple[str, ...], str] = {}
        keys = {self.key(case): case for case in cases}
        self.done: dict[str, Result] = {}
        """What needs no asking any more, by key."""
        text = text_if_there(path, most=TABLE_BYTES) or ""
        lines = text.splitlines(keepends=True)
        for number, line in enumerate(lines, 1):
            if not line.endswith("\n") and number == len(lines):
                break  # torn: its question is asked again
            self._line(number, line, keys)
        try:
            self._file = open_for_appending(path)
            if not try_lock(self._file):
                os.close(self._file)
                hint = "wait for its end, or name another file"
                raise UsageError(Problem("journal.taken", "another run writes this journal", hint, str(path)))
            if text and not text.endswith("\n"):
                append(self._file, b"\n")
        except OSError as error:
            raise unwritable(path, error) from None

    def _line(self, number: int, line: str, keys: dict[str, Case]) -> None:
        try:
            held: Any = parse(line) if line.strip() else {"format": FORMAT, "key": ""}
            key = held["key"]
            if held["format"] == FORMAT and key in keys:
                self.done[key] = Result.of({**held["result"], "where": keys[key].where})
        except (JsonError, KeyError, TypeError):
            if number > 1:
                return  # a line that was torn in the middle of an earlier run
            hint = "name a file that `gpuplan run --resume` wrote, or a new one"
            raise UsageError(Problem("journal.none", "this is no journal of scenarios", hint, f"{self.path}:{number}")) from None

    def key(self, case: Case) -> str:
        """What a result holds for: the question, what is required, this gpuplan, the data files as they are, and the day."""
        told = {
            "name": case.name, "ask": case.task, "given": {key: repr(one) for key, one in sorted(case.given.items())},
            "require": [one.text for one in case.require], "gpuplan": __version__, "data": self._stamp(case), "day": str(today()),
        }  # fmt: skip
        return _digest(json.dumps(told, sort_keys=True))

    def _stamp(self, case: Case) -> str:
        """The spec folders, and the files that a question names, as they are now."""
        folders = tuple(str(one) for one in case.given.get("specs") or ())
        if folders not in self._stamps:
            there = [Path(one) for one in folders if is_folder(Path(one))]
            catalog = Catalog.open(there if len(there) == len(folders) else (), calibrated=True)
            self._stamps[folders] = _digest(repr(sorted(stamp_of((*catalog.folders, CARDS)))))
        files = [Path(str(case.given[key])) for key in ("model", "trace") if case.given.get(key) is not None]
        changed = [(one.stat().st_mtime_ns, one.stat().st_size) for one in files if exists(one)]
        inside = [sorted(stamp_of([one])) for one in files if is_folder(one)]
        return self._stamps[folders] + (_digest(repr((changed, inside))) if changed else "")

    @classmethod
    def of_cluster(cls, cases: Sequence[Case], env: Mapping[str, str]) -> Self:
        """The journal of a run on a cluster that names none, below the user's cache: the same for the same questions.

        Raises:
            UsageError: as for any other.
        """
        cache = Path(env.get("XDG_CACHE_HOME") or home(env) / ".cache")
        asked = [(one.name, one.where, sorted((key, repr(value)) for key, value in one.given.items())) for one in cases]
        return cls(cache / "gpuplan" / "runs" / f"{_digest(repr(asked))}.jsonl", cases)

    def keep(self, case: Case, result: Result) -> None:
        """Write a result to the end of the file, and wait until it is on the disk.

        Raises:
            UsageError: the disk is full, say.
        """
        line = {"format": FORMAT, "key": self.key(case), "result": result.plain()}
        try:
            append(self._file, (json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n").encode())
        except OSError as error:
            raise unwritable(self.path, error) from None

    def forget(self) -> None:
        """Let go of what is kept, once all of it was told."""
        emptied(self._file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        os.close(self._file)


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:32]
