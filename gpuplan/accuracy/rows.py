"""Which measured runs do files hold, which of them are doubtful, and which did a fit use?

A file is a YAML or JSON list, or JSON lines, of rows: `id`, `task`, `source`, `model`, `hardware`, `run`, `measured`, and for
training `kind` and `framework`, for inference `engine`. Everything that a row leaves out is None; keys that nobody knows are kept
and not looked at.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias

from gpuplan.errors import Problem, UsageError
from gpuplan.record import Record

Task: TypeAlias = Literal["training", "inference"]
SUFFIXES = (".yaml", ".yml", ".json", ".jsonl")
PARTS = ("model", "hardware", "run", "measured")
FITTED_IN_THREE = 3
"""Of three groups of model and accelerator, two were there to be fitted to; the third is held back from every fit."""


class Row(Record, kw_only=True):
    """One measured run. `set` is the name of its file."""

    id: str
    set: str
    task: Task
    model: Mapping[str, Any]
    hardware: Mapping[str, Any]
    run: Mapping[str, Any]
    measured: Mapping[str, Any]
    kind: str = "pretrain"
    engine: str = ""
    """The framework or engine, as the row names it."""
    flag: str = ""
    """Why the row is doubtful; such rows are skipped."""

    @property
    def group(self) -> tuple[str, str]:
        """Model and accelerator: what is held back together."""
        return str(self.model.get("name") or self.model.get("id")), str(self.hardware.get("accelerator"))

    @property
    def fitted(self) -> bool:
        """Whether a fit of engine profiles may have seen the row's group; the rule that `tools/fit_engines.py` keeps as well."""
        return zlib.crc32("|".join(self.group).encode()) % FITTED_IN_THREE != 0


class Skip(Exception):
    """A row that cannot be compared, and why."""


def of_many_lengths(row: Row) -> bool:
    """Whether a row's sequences are of many lengths, so that only the longest, and the memory that it takes, are known."""
    return any(word in str(row.run.get("seq_len_kind") or "") for word in ("average", "longest"))


def packaged() -> Path:
    """The folder with the published runs that came with gpuplan."""
    return Path(__file__).parent / "runs"


def read_rows(paths: Iterable[Path]) -> list[Row]:
    """The rows of files, and of all files in folders, each id once.

    Raises:
        UsageError: a file is missing or is no list of rows; all of them together.
    """
    rows: dict[str, Row] = {}
    problems: list[Problem] = []
    for path in paths:
        files = sorted(one for one in path.rglob("*") if one.suffix in SUFFIXES) if path.is_dir() else [path]
        if path.is_dir() and not files:
            problems.append(
                Problem("accuracy.no-runs", f"{path} holds no .yaml, .json or .jsonl file", "name a file of measured runs")
            )
        for file in files:
            try:
                for number, data in enumerate(_list(file), start=1):
                    row = _row(data, file, number)
                    rows.setdefault(row.id, row)
            except UsageError as error:
                problems += error.problems
    if problems:
        raise UsageError(*problems)
    return list(rows.values())


def _list(file: Path) -> Iterator[Any]:
    hint = "a file of measured runs is a list of rows; the README says what a row holds"
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(Problem("accuracy.unreadable", f"cannot read {file}: {error}", "name a file of measured runs")) from None
    try:
        if file.suffix == ".jsonl":
            yield from (json.loads(line) for line in text.splitlines() if line.strip())
            return
        if file.suffix == ".json":
            data = json.loads(text)
        else:
            import yaml

            data = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except ValueError as error:
        raise UsageError(Problem("accuracy.not-rows", f"{file} is no JSON: {error}", hint)) from None
    except Exception as error:
        if type(error).__module__.partition(".")[0] != "yaml":
            raise
        first = str(error).replace("\n", " ")[:160]
        raise UsageError(Problem("accuracy.not-rows", f"{file} is no YAML: {first}", hint)) from None
    if isinstance(data, Mapping) and isinstance(data.get("rows"), list):
        data = data["rows"]
    if data is not None and not isinstance(data, list):
        raise UsageError(Problem("accuracy.not-rows", f"{file} holds no list", hint))
    yield from data or ()


def _row(data: Any, file: Path, number: int) -> Row:
    hint = "a row has id, model, hardware, run and measured"
    if not isinstance(data, Mapping):
        raise UsageError(Problem("accuracy.not-rows", f"{file}: entry {number} is no row", hint))
    wrong = [part for part in PARTS if not isinstance(data.get(part), Mapping)]
    if wrong:
        raise UsageError(Problem("accuracy.not-rows", f"{file}: row {data.get('id', number)} has no {', '.join(wrong)}", hint))
    named = data.get("engine") or data.get("framework") or ""
    training = data.get("task", "training") == "training"
    return Row(
        id=str(data.get("id") or f"{file.stem}-{number}"), set=file.stem, task="training" if training else "inference",
        **{part: data[part] for part in PARTS}, kind=str(data.get("kind") or "pretrain"), engine=str(named).lower(),
        flag=str(data.get("flag") or ""),
    )  # fmt: skip
