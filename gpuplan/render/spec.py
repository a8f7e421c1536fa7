"""What do many spec files say, as a list, how do chips differ, side by side, and what does a file say as plain data?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpuplan.render.text import Look, columns, wrap
from gpuplan.specs.accelerator import Accelerator
from gpuplan.specs.base import SourceEntry, SpecFile
from gpuplan.specs.quantity import Sourced, SourcedText
from gpuplan.term import Source
from gpuplan.units import human

_MAIN = {
    "memory.capacity": "memory", "memory.capacity_reported": "memory by its driver", "memory.bandwidth": "bandwidth",
    "compute_dense.fp64": "fp64", "compute_dense.fp32": "fp32", "compute_dense.tf32": "tf32, dense",
    "compute_dense.bf16": "bf16, dense", "compute_dense.fp16": "fp16, dense", "compute_dense.fp8": "fp8, dense",
    "compute_dense.int8": "int8, dense", "compute_dense.fp4": "fp4, dense", "l2": "L2 cache", "power": "power limit",
    "scale_up.bandwidth_per_direction": "scale-up, one way", "scale_up.domain": "scale-up domain",
    "pcie.bandwidth_per_direction": "PCIe, one way",
}  # fmt: skip
"""What a side-by-side of accelerators shows, by the path in the file."""


def source_text(entry: SourceEntry | Source) -> str:
    """How a source is known, what it is called, and when someone looked."""
    checked = f"checked {entry.checked}" if entry.checked else ""
    return ", ".join(fact for fact in (entry.kind, entry.title, entry.section, checked, entry.note) if fact)


def listing(heads: Sequence[str], rows: Sequence[Sequence[str]], aligned: str, look: Look) -> tuple[str, list[str]]:
    """A list with a head in as many columns as the width holds, and the heads of those that had no room."""
    keep = len(heads)
    while True:
        lines = columns([row[:keep] for row in [heads, *rows]], aligned[:keep], indent="")
        if keep == 2 or all(len(line) <= look.width for line in lines):
            return "\n".join([look.bold(lines[0]), *lines[1:]]) + "\n", list(heads[keep:])
        keep -= 1


def stacked(heads: Sequence[str], rows: Sequence[Sequence[str]], aligned: str, look: Look) -> str:
    """A list with a head, all of it: the columns that the width does not hold stand below each row, with their heads.

    >>> print(stacked(("name", "USD/h", "source"), [("a", "1.50", "some price list")], "lrl", Look(20)), end="")
    name  USD/h
    a      1.50
        source some
        price list
    """
    shown, hidden = listing(heads, rows, aligned, look)
    if not hidden:
        return shown
    first, *lines = shown.splitlines()
    made = [first]
    for line, row in zip(lines, rows, strict=True):
        rest = [
            cell if cell.startswith(head) else f"{head} {cell}"
            for head, cell in zip(hidden, row[-len(hidden) :], strict=True)
            if cell
        ]
        made += [line, *(look.dim(one) for one in wrap(", ".join(rest), look.width, "    "))] if rest else [line]
    return "\n".join(made) + "\n"


def accelerator_record(spec: Accelerator) -> dict[str, object]:
    """One accelerator in base units for JSON and CSV; what is not known is null."""
    record: dict[str, object] = {"id": spec.id, "name": spec.name, "vendor": spec.vendor, "released": spec.released}
    record |= {"memory_bytes": spec.memory.capacity.value, "memory_reported_bytes": _number(spec.memory.capacity_reported)}
    record |= {"bandwidth_bytes_per_s": spec.memory.bandwidth.value}
    for name in ("fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "int8", "fp4"):
        record[f"{name}_flop_per_s"] = _number(getattr(spec.compute_dense, name))
    return record | {"power_watts": _number(spec.power)}


def chips_table(specs: Sequence[Accelerator]) -> list[tuple[str, list[str]]]:
    """The main datasheet figures of several accelerators, a row each; a blank is not known or not supported."""
    found = [dict(spec.values()) for spec in specs]
    rows = []
    for key, name in _MAIN.items():
        cells = [_printed(values[key]) if key in values else "" for values in found]
        if any(cells):
            rows.append((name, cells))
    return rows


def _printed(value: Sourced | SourcedText) -> str:
    """A value as printed, but no driver's count of single bytes."""
    if isinstance(value, Sourced) and value.unit == "B" and not value.text.endswith(("GB", "GiB")):
        return human(value.value, "B")
    return value.text


def spec_record(spec: SpecFile) -> Mapping[str, object]:
    """A whole spec as plain data, as its file has it."""
    return {key: value for key, value in spec.plain().items() if value not in (None, (), [], {}, "")}


def _number(value: Sourced | None) -> float | None:
    return value.value if value is not None else None
