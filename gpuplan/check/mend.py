"""Which findings can be mended without looking anything up, and what is the file then?

A missing `format`, an id that is not the name of the file, a source that nothing names, a unit as others write it (`989 TFLOPS`),
a word in other letters (`High`): no value changes by it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from gpuplan.check.checked_files import Finding
from gpuplan.files.read import text_of
from gpuplan.files.write import write
from gpuplan.specs.catalog import key
from gpuplan.units import UNITS

Lines = list[str]


def mend(findings: Iterable[Finding]) -> list[Finding]:
    """Mend what can be, each file whole or not at all; the findings that were, which a new look no longer has.

    Raises:
        UsageError: a file cannot be written.
    """
    by_file: dict[str, list[Finding]] = {}
    for one in findings:
        if _MENDED.get(one.code) is not None:
            by_file.setdefault(one.file, []).append(one)
    done: list[Finding] = []
    for name, several in by_file.items():
        path = Path(name)
        lines = text_of(path).splitlines(keepends=True)
        mended = [one for one in sorted(several, key=lambda one: -one.line) if _MENDED[one.code](lines, one, path)]
        if mended:
            write(path, "".join(lines))
        done += reversed(mended)
    return done


def _format(lines: Lines, finding: Finding, path: Path) -> bool:
    """Say the version of the format, in the first line that is no comment."""
    if "`format` is missing" not in finding.message:
        return False
    at = next((at for at, line in enumerate(lines) if line.strip() and not line.startswith("#")), len(lines))
    lines.insert(at, "format: 1\n")
    return True


def _id(lines: Lines, finding: Finding, path: Path) -> bool:
    """Call it as its file is called."""
    at = finding.line - 1
    found = re.match(r"id:[ ]*[^\s#]+", lines[at]) if at < len(lines) else None
    if found is None:
        return False
    lines[at] = f"id: {path.stem}{lines[at][found.end() :]}"
    return True


def _source(lines: Lines, finding: Finding, path: Path) -> bool:
    """Take a source out, in one line or in a block of its own; one among others in a line stays."""
    at = finding.line - 1
    found = re.match(r"([ ]+)([\w.-]+):", lines[at]) if at < len(lines) else None
    if found is None or f"`{found[2]}`" not in finding.message:
        return False
    indent, end = len(found[1]), at + 1
    while end < len(lines) and (not lines[end].strip() or len(lines[end]) - len(lines[end].lstrip(" ")) > indent):
        end += 1
    del lines[at:end]
    return True


def _unit(lines: Lines, finding: Finding, path: Path) -> bool:
    """Write a unit as gpuplan does, where the hint names that one."""
    at = finding.line - 1
    paid = re.match(r"(?:.* in|[^`]*) `([^`]+)` is not a (?:number|unit)", finding.message)
    right_price = re.fullmatch(r"write it as `([\d.,]+) USD/h`", finding.hint)
    if paid is not None and right_price is not None and at < len(lines) and right_price[1] in paid[1] and paid[1] in lines[at]:
        lines[at] = lines[at].replace(paid[1], f"{right_price[1]} USD/h", 1)
        return True
    said = re.match(r".*`([^`]+)` in `([^`]+)` is not a unit", finding.message)
    meant = re.fullmatch(r"write (\S+)", finding.hint)
    if said is not None and "network" in finding.message and said[1].endswith("bps"):  # `Gbps` of a network are bits, `GBps` bytes
        meant = re.match(r"write (\S+bit/s) or ", finding.hint)
    if said is None or meant is None or meant[1] not in UNITS or at >= len(lines) or said[2] not in lines[at]:
        return False
    right = said[2].strip().removesuffix(said[1]).rstrip()
    lines[at] = lines[at].replace(said[2], f"{right} {meant[1]}", 1)
    return True


def _word(lines: Lines, finding: Finding, path: Path) -> bool:
    """Write a word in the letters that it has here; another word is no matter of spelling."""
    said = re.match(r".*`([^`]+)` is not allowed here", finding.message)
    meant = re.fullmatch(r"did you mean `([^`]+)`\?", finding.hint)
    at = finding.line - 1
    if said is None or meant is None or key(said[1]) != key(meant[1]) or at >= len(lines) or said[1] not in lines[at]:
        return False
    lines[at] = lines[at].replace(said[1], meant[1], 1)
    return True


def _small(lines: Lines, finding: Finding, path: Path) -> bool:
    """Write a name as ids are written, or a date as dates are: `H100 SXM` is `h100-sxm`, and `Nov 2026` is `2026-11`."""
    said = re.match(r".*: `([^`]+)` is not (?:written as it must be|a date)", finding.message)
    meant = re.fullmatch(r"write it as `([^`]+)`", finding.hint)
    at = finding.line - 1
    if said is None or meant is None or at >= len(lines) or said[1] not in lines[at]:
        return False
    lines[at] = lines[at].replace(said[1], meant[1], 1)
    return True


def _reference(lines: Lines, finding: Finding, path: Path) -> bool:
    """Write the id of what is named by another of its names."""
    said = re.match(r".*`([^`]+)` is not the id of", finding.message)
    meant = re.fullmatch(r"its id is `([^`]+)`", finding.hint)
    at = finding.line - 1
    if said is None or meant is None or at >= len(lines) or said[1] not in lines[at]:
        return False
    before, _, after = lines[at].rpartition(said[1])
    lines[at] = f"{before}{meant[1]}{after}"
    return True


_MENDED: Mapping[str, Callable[[Lines, Finding, Path], bool]] = {
    "spec.missing-key": _format, "model.missing-key": _format, "spec.id-not-file-name": _id, "model.id-not-file-name": _id,
    "spec.orphan-source": _source, "spec.bad-unit": _unit, "spec.bad-format": _small, "spec.unknown-value": _word,
    "spec.unknown-reference": _reference, "model.unknown-value": _word,
}  # fmt: skip
