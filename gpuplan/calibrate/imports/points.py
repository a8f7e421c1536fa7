"""Which points lie beside a measured file, so that later imports and plots have them? `<id>.points.jsonl`, one a line."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from gpuplan.calibrate.device import Probe
from gpuplan.calibrate.measure.sample import Sample, plain, probe_of
from gpuplan.errors import Problem, UsageError
from gpuplan.files.json_text import parse
from gpuplan.files.read import TABLE_BYTES, text_if_there
from gpuplan.record import Record


class KeptPoint(Record, kw_only=True):
    """One timed kernel with where it comes from."""

    probe: Probe
    seconds: float
    kind: str
    """The kind of import."""
    file: str
    date: str
    line: int = 0
    """Where it stands in the file; 0: it has no line of its own."""

    def key(self) -> tuple[str, str, str]:
        """What a new point must share to take the place of this one."""
        return self.kind, self.file, self.probe.key()

    def sample(self) -> Sample:
        """As the fits take it."""
        return Sample(probe=self.probe, seconds=self.seconds, low=self.seconds, high=self.seconds, samples=1, launches=1)


def place(measured: Path) -> Path:
    """The file of points beside a measured file.

    >>> str(place(Path("measured/h100.yaml")))
    'measured/h100.points.jsonl'
    """
    return measured.with_suffix(".points.jsonl")


def load(path: Path) -> list[KeptPoint]:
    """The points of a file; none where there is no file.

    Raises:
        UsageError: it cannot be read, or a line is no point.
    """
    text = text_if_there(path, most=TABLE_BYTES, code="import") or ""
    made: list[KeptPoint] = []
    for number, line in enumerate(text.splitlines(), start=1):
        try:
            data = parse(line)
            made.append(KeptPoint(**{**data, "probe": probe_of(data["probe"])}))
        except (ValueError, TypeError, KeyError) as error:
            hint = "take the line out, or move the file away and import again"
            raise UsageError(Problem("import.no-points", f"the line is no point: {error}", hint, f"{path}:{number}")) from None
    return made


def text(points: Iterable[KeptPoint]) -> str:
    """The points as the lines of a file, the last of each kind, file and probe."""
    last = {point.key(): point for point in points}
    return "".join(json.dumps(plain(point), separators=(",", ":")) + "\n" for point in last.values())
