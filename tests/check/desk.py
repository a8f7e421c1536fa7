"""Does the check find a planted fault? All shipped files are read once; a fault then costs one file and what refers to it."""

from __future__ import annotations

from datetime import date
from pathlib import Path

from gpuplan.check.cards import as_card
from gpuplan.check.checked_files import Finding, LoadedCard, LoadedFile, SpecLibrary
from gpuplan.check.held import held_to_rules
from gpuplan.errors import SpecError
from gpuplan.models.catalog import CARDS
from gpuplan.models.generic import GENERIC
from gpuplan.specs.base import as_spec
from gpuplan.specs.catalog import KINDS, Catalog, schema_of, shipped_folder
from tests.check.plant import Fault, Planter

TODAY = date(2026, 12, 1)


def kind_of(path: Path) -> str:
    """The kind of a shipped file."""
    return next((part for part in reversed(path.parts[:-1]) if part in KINDS), "rules")


class Desk:
    """The shipped files, in place: a fault is planted in one of them, and nothing else says what stood there."""

    def __init__(self) -> None:
        shipped = shipped_folder()
        paths = [path for kind in KINDS if (shipped / kind).is_dir() for path in sorted((shipped / kind).rglob("*.yaml"))]
        paths += [*sorted(CARDS.glob("*.yaml")), *sorted(GENERIC.glob("*.yaml"))]
        self.texts = {path: path.read_text(encoding="utf-8") for path in paths}
        self.files = {path: self._read(path, text) for path, text in self.texts.items()}
        self.catalog = Catalog([shipped])
        self.users: dict[tuple[str, str], list[Path]] = {}
        for path, one in self.files.items():
            for named in _named(one):
                self.users.setdefault(named, []).append(path)

        library = SpecLibrary(self.catalog, [one for one in self.files.values() if isinstance(one, LoadedFile)], TODAY, 365)
        self.before = set(held_to_rules(library, [one for one in self.files.values() if isinstance(one, LoadedCard)]))

    def planter(self) -> Planter:
        """Plants faults in these files."""
        return Planter(self.texts, kind_of)

    def _read(self, path: Path, text: str) -> LoadedFile | LoadedCard:
        cls = schema_of(kind_of(path))
        return as_card(path, text) if cls is None else LoadedFile(kind_of(path), path, *as_spec(cls, path, text))

    def found(self, fault: Fault) -> list[Finding]:
        """What is found with the fault in its place, on that file or on those that refer to it."""
        try:
            one = self._read(fault.path, fault.text)
        except SpecError as error:
            return [Finding(problem.code, "error", problem.message, problem.hint, problem.where) for problem in error.problems]
        found = self._examined(fault.path, one, [one])
        if not found:
            found = self._examined(
                fault.path, one, [one, *(self.files[path] for path in self._around(fault.path) if path != fault.path)]
            )
        return found

    def found_in_copy(self, fault: Fault) -> list[Finding]:
        """What is found when a folder of one's own holds a copy of that file alone, with the fault in it."""
        kind = kind_of(fault.path)
        place = Path("/nowhere/specs") / (
            f"models/{fault.path.name}" if kind == "models" else fault.path.relative_to(shipped_folder())
        )
        try:
            one = self._read(place, fault.text)
        except SpecError as error:
            return [Finding(problem.code, "error", problem.message, problem.hint, problem.where) for problem in error.problems]
        return self._examined(place, one, [one])

    def _examined(self, path: Path, one: LoadedFile | LoadedCard, told: list[LoadedFile | LoadedCard]) -> list[Finding]:
        specs = [each for each in told if isinstance(each, LoadedFile)]
        cards = [each for each in told if isinstance(each, LoadedCard)]
        library = SpecLibrary(self.catalog, specs, TODAY, 365)
        if isinstance(one, LoadedFile):
            library.put(one)
        return [finding for finding in held_to_rules(library, cards) if finding not in self.before]

    def _around(self, path: Path) -> list[Path]:
        """The files of its kind, among which names are unique, and those that name it."""
        beside = [other for other in self.files if kind_of(other) == kind_of(path)]
        return [*beside, *self.users.get((kind_of(path), path.stem), ())]


def _named(one: LoadedFile | LoadedCard) -> set[tuple[str, str]]:
    """The kinds and ids that a file names."""
    if isinstance(one, LoadedCard):
        return set()
    spec = one.spec
    found = {("accelerators", getattr(spec, "accelerator", "")), ("systems", getattr(spec, "system", ""))}
    for shape in getattr(spec, "instances", ()):
        found |= {("accelerators", shape.accelerator), ("systems", shape.system or "")}
    return {pair for pair in found if pair[1]}
