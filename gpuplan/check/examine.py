"""Is anything in these spec files wrong: against their schema, each other, or physics?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path

from gpuplan.check.checked_files import Finding, LoadedFile, SpecLibrary
from gpuplan.check.clusters import clusters, ports
from gpuplan.check.links import links
from gpuplan.check.measured import measured
from gpuplan.check.memory import memory
from gpuplan.check.names import names, root
from gpuplan.check.prices import PriceGroup, price_groups, prices
from gpuplan.check.rates import rates
from gpuplan.check.rules import RULES, Severity, covers
from gpuplan.check.sources import MAX_AGE, sources
from gpuplan.check.systems import instances, systems
from gpuplan.errors import Problem, SpecError
from gpuplan.files.read import exists, is_folder
from gpuplan.record import Record
from gpuplan.specs.accelerator import Accelerator
from gpuplan.specs.base import load_lined
from gpuplan.specs.catalog import KINDS, Catalog, schema_of, shipped_folder
from gpuplan.specs.cluster import Cluster
from gpuplan.specs.instance import InstanceFamily
from gpuplan.specs.measured import Measured
from gpuplan.specs.price import PriceList
from gpuplan.specs.system import System


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
    given = list(paths) or [shipped_folder()]
    findings: list[Finding] = []
    loaded: list[LoadedFile] = []
    count = 0
    for path in _files(given, findings):
        count += 1
        try:
            kind = _kind_of(path)
            cls = schema_of(kind)
            if cls is not None:
                loaded.append(LoadedFile(kind, path, *load_lined(cls, path)))
        except SpecError as error:
            findings += [_finding(problem) for problem in error.problems]
    folders = dict.fromkeys([shipped_folder(), *behind, *(root(one) for one in loaded)])
    library = SpecLibrary(Catalog(list(folders)), loaded, today or date.today(), max_age)
    findings += names(library)
    known = price_groups(library) if any(one.kind == "prices" for one in loaded) else {}
    for one in loaded:
        findings += _of_one(one, library, known)
    kept = [one for one in findings if _wanted(one.code, select, ignore)]
    # A value outside its own range is mostly that because something else is wrong with it, which says more.
    told = {one.where for one in kept if one.code != "spec.outside-accept"}
    kept = [one for one in kept if one.code != "spec.outside-accept" or one.where not in told]
    return Examination(tuple(sorted(dict.fromkeys(kept), key=lambda found: (found.file, found.line, found.code))), count)


def _of_one(one: LoadedFile, library: SpecLibrary, known: Mapping[tuple[str, str], PriceGroup]) -> Iterator[Finding]:
    yield from sources(one, library)
    if isinstance(one.spec, Accelerator):
        found, wrong = rates(one, one.spec, library)
        yield from found
        yield from memory(one, one.spec, wrong)
        yield from links(one, one.spec, library)
    elif isinstance(one.spec, System):
        yield from systems(one, one.spec, library)
        yield from ports(one, one.spec, library)
    elif isinstance(one.spec, Cluster):
        yield from clusters(one, one.spec, library)
    elif isinstance(one.spec, InstanceFamily):
        yield from instances(one, one.spec, library)
    elif isinstance(one.spec, Measured):
        yield from measured(one, one.spec, library)
    elif isinstance(one.spec, PriceList):
        yield from prices(one, one.spec, library, known)


def _wanted(code: str, select: Sequence[str], ignore: Sequence[str]) -> bool:
    if select and not any(covers(word, code) for word in select):
        return False
    return not any(covers(word, code) for word in ignore)


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
    return next((part for part in reversed(path.absolute().parts[-3:-1]) if part in KINDS), None)


def _kind_of(path: Path) -> str:
    kind = _kind_or_none(path)
    if kind is None:
        hint = f"put it below one of {', '.join(f'{name}/' for name in KINDS)}"
        raise SpecError(Problem("spec.unsorted-file", "the file is in no folder of a kind", hint, f"{path}:1"))
    return kind


__all__ = ["MAX_AGE", "RULES", "Examination", "Finding", "check", "examine"]
