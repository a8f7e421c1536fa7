"""Is anything in these spec files wrong: against their schema, each other, or physics?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path

from gpuplan.check.cards import load_lined_card
from gpuplan.check.checked_files import Finding, LoadedCard, LoadedFile, SpecLibrary
from gpuplan.check.family_table import ModelFamilies
from gpuplan.check.held import held_to_rules
from gpuplan.check.names import root
from gpuplan.check.product_table import Products
from gpuplan.check.publishers import Publishers
from gpuplan.check.rules import RULES, Severity, covers
from gpuplan.check.silicon import Silicon
from gpuplan.check.sources import MAX_AGE
from gpuplan.errors import Problem, SpecError
from gpuplan.files.progress import steps
from gpuplan.files.read import exists, is_folder
from gpuplan.models.catalog import CARDS
from gpuplan.models.generic import GENERIC
from gpuplan.record import Record
from gpuplan.specs.base import SpecFile, load_lined
from gpuplan.specs.cards_of_memory import CardsOfMemory
from gpuplan.specs.catalog import KINDS, Catalog, schema_of, shipped_folder
from gpuplan.specs.kinds_of_parts import KindsOfParts
from gpuplan.specs.providers import Providers
from gpuplan.specs.regions import Regions

_RULES_FOLDER = "rules"
_RULES_FILES: dict[str, type[SpecFile]] = {
    "silicon": Silicon,
    "products": Products,
    "models": ModelFamilies,
    "publishers": Publishers,
    "providers": Providers,
    "regions": Regions,
    "kinds_of_parts": KindsOfParts,
    "cards_of_memory": CardsOfMemory,
}
"""The files that others are held to, which are checked like all others."""
_VAGUE = (
    "spec.price-series", "spec.price-kind", "spec.price-date", "spec.instance-network", "spec.instance-size", "spec.instance-link",
    "spec.system-level", "spec.system-host", "spec.system-form", "spec.cluster-rate", "spec.mig", "spec.product", "model.family",
    "spec.outside-accept", "spec.misquoted",
)  # fmt: skip
"""Rules that say that something does not fit, each vaguer than the one before: where another says what it is, that is enough."""


class Examination(Record):
    """What an examination found, in the order of files and lines, and how many files it read."""

    findings: tuple[Finding, ...]
    files: int

    def count(self, severity: Severity) -> int:
        """How many findings are errors, or warnings."""
        return sum(one.severity == severity for one in self.findings)


def check(paths: Sequence[Path] = ()) -> list[Finding]:
    """Everything that is wrong with spec files or folders of them; nothing given means all that is shipped.

    Names that a file refers to may be in the files given or in the shipped ones.
    """
    return list(examine(paths).findings)


def examine(
    paths: Sequence[Path] = (),
    *,
    behind: Sequence[Path] = (),
    select: Sequence[str] = (),
    ignore: Sequence[str] = (),
    max_age: int = MAX_AGE,
    today: date | None = None,
) -> Examination:
    """What is wrong with spec files or folders of them, as far as the rules are selected and not ignored.

    `behind` are folders, besides the shipped one, where names may lead that the files refer to. `select` and `ignore` are
    codes, with or without `spec.`, or a group of codes before a dot (`yaml`). `max_age` is in days.
    """
    given = list(paths) or [shipped_folder(), CARDS, GENERIC]
    findings: list[Finding] = []
    loaded: list[LoadedFile] = []
    models: list[LoadedCard] = []
    count = 0
    for path in steps(list(_files(given, findings)), "spec files read"):
        count += 1
        try:
            kind = _kind_of(path)
            cls = _rules_of(path) if kind == _RULES_FOLDER else schema_of(kind)
            if cls is None:
                models.append(load_lined_card(path))
            else:
                loaded.append(LoadedFile(kind, path, *load_lined(cls, path)))
        except SpecError as error:
            findings += [_finding(problem) for problem in error.problems]
    folders = dict.fromkeys([shipped_folder(), *behind, *(root(one) for one in loaded)])
    findings += held_to_rules(SpecLibrary(Catalog(list(folders)), loaded, today or date.today(), max_age), models)
    kept = [one for one in findings if not select or any(covers(word, one.code) for word in select)]
    clearest: dict[str, int] = {}
    for one in kept:
        clearest[one.where] = min(_vagueness(one), clearest.get(one.where, len(_VAGUE)))
    # A rule that is ignored takes with it what others say of the same line.
    kept = [one for one in kept if _vagueness(one) == clearest[one.where] and not any(covers(word, one.code) for word in ignore)]
    return Examination(tuple(sorted(dict.fromkeys(kept), key=lambda found: (found.file, found.line, found.code))), count)


def _vagueness(one: Finding) -> int:
    return _VAGUE.index(one.code) + 1 if one.code in _VAGUE else 0


def _finding(problem: Problem) -> Finding:
    return Finding(problem.code, "error", problem.message, problem.hint, problem.where)


def _files(given: Sequence[Path], findings: list[Finding]) -> Iterator[Path]:
    for path in given:
        if is_folder(path):
            found = [one for one in sorted(path.rglob("*.yaml")) if not (_kind_or_none(one) is None and one.parent != path)]
            if not found:
                hint = f"a specs folder has {', '.join(KINDS)} in it"
                findings.append(Finding("spec.empty-folder", "error", "the folder holds no YAML file", hint, str(path)))
            yield from found
        elif exists(path):
            yield path  # a pipe, say, which the reader refuses
        else:
            findings.append(Finding("spec.no-file", "error", "there is no such file or folder", where=str(path)))


def _kind_or_none(path: Path) -> str | None:
    if path.parent.name == _RULES_FOLDER and path.stem in _RULES_FILES:
        return _RULES_FOLDER
    return next((part for part in reversed(path.absolute().parts[-3:-1]) if part in KINDS), None)


def _rules_of(path: Path) -> type[SpecFile]:
    return _RULES_FILES[path.stem]


def _kind_of(path: Path) -> str:
    kind = _kind_or_none(path)
    if kind is None:
        hint = f"put it below one of {', '.join(f'{name}/' for name in KINDS)}"
        raise SpecError(Problem("spec.unsorted-file", "the file is in no folder of a kind", hint, f"{path}:1"))
    return kind


__all__ = ["MAX_AGE", "RULES", "Examination", "Finding", "check", "examine"]
