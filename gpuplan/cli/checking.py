"""Are the spec files of some folders right? One count and one list of problems for `specs check` and `doctor`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gpuplan.errors import GpuplanError, Problem


def check_places(places: Sequence[Path]) -> tuple[int, list[Problem]]:
    """How many files were looked at, and everything that is wrong with them; no place means the shipped data."""
    from gpuplan.specs.catalog import shipped_folder

    count = 0
    problems: list[Problem] = []
    for place in places or [shipped_folder()]:
        if not place.exists():
            problems.append(Problem("spec.no-file", f"`{place}` does not exist"))
            continue
        files = [place] if place.is_file() else sorted(place.rglob("*.yaml"))
        if not files:
            hint = "put a YAML file below accelerators/, systems/, instances/, prices/, measured/ or engines/"
            problems.append(Problem("spec.empty-folder", f"the folder `{place}` holds no YAML file", hint))
        for path in files:
            count += 1
            try:
                _load(path)
            except GpuplanError as error:
                problems += error.problems
    return count, problems


def _load(path: Path) -> None:
    from gpuplan.errors import SpecError
    from gpuplan.specs.base import load_spec
    from gpuplan.specs.catalog import KINDS, schema_of

    kind = next((part for part in reversed(path.resolve().parent.parts) if part in KINDS), None)
    cls = schema_of(kind) if kind is not None else None
    if kind is None:
        hint = f"put it below one of {', '.join(f'{one}/' for one in KINDS)}"
        raise SpecError(Problem("spec.unsorted-file", "no folder above says what kind of spec this is", hint, str(path)))
    if cls is not None:
        load_spec(cls, path)
