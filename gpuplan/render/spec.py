"""What does a spec file say, as a page; what do many say, as a list; and how do chips differ, side by side?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from gpuplan.render.text import Look, columns, wrap
from gpuplan.specs.accelerator import Accelerator
from gpuplan.specs.base import SourceEntry, SpecFile
from gpuplan.specs.quantity import Sourced, SourcedText
from gpuplan.units import human

_MAIN = {
    "memory.capacity": "memory", "memory.capacity_reported": "memory as the driver reports it", "memory.bandwidth": "bandwidth",
    "compute_dense.fp64": "fp64", "compute_dense.fp32": "fp32", "compute_dense.tf32": "tf32, dense",
    "compute_dense.bf16": "bf16, dense", "compute_dense.fp16": "fp16, dense", "compute_dense.fp8": "fp8, dense",
    "compute_dense.int8": "int8, dense", "compute_dense.fp4": "fp4, dense", "l2": "L2 cache", "power": "power limit",
    "scale_up.bandwidth_per_direction": "scale-up, one way", "scale_up.domain": "scale-up domain",
    "pcie.bandwidth_per_direction": "PCIe, one way",
}  # fmt: skip
"""What a side-by-side of accelerators shows, by the path in the file."""
_COMMON = {"format", "id", "name", "aliases", "sources", "notes"}


def spec_page(spec: SpecFile, path: Path, look: Look) -> str:
    """Everything that a spec file says: values as printed, with the number of their source, and the sources."""
    sources = {key: at for at, key in enumerate(spec.sources, 1)}
    first = next(iter(spec.sources))
    lines = [f"{look.bold(spec.id)}  {spec.name}"]
    if spec.aliases:
        lines += wrap(", ".join(spec.aliases), look.width, "  also called ", "    ")
    facts = _facts(spec)
    if facts:
        lines += wrap(", ".join(facts), look.width, "  ")
    rows = []
    remarks = []
    for key, value in spec.values():
        rows.append([key, value.text, f"[{sources[value.source or first]}]"])
        remarks.append(value.note)
    lines += ["", *_noted(columns(rows, "lll"), remarks, look), ""]
    for note in spec.notes:
        lines += wrap(note, look.width, "  - ", "    ")
    lines += [""] if spec.notes else []
    size = len(str(len(sources))) + 2
    for key, at in sources.items():
        entry = spec.sources[key]
        mark = f"  {f'[{at}]':>{size}} "
        lines += wrap(source_text(entry), look.width, mark)
        lines += [f"{' ' * len(mark)}{entry.url}"] if entry.url else []
    lines += ["", *wrap(f"from {path}", look.width, "  ", "    ")]
    return "\n".join(lines) + "\n"


def source_text(entry: SourceEntry) -> str:
    """How a source is known, what it is called, and when someone looked."""
    return ", ".join(fact for fact in (entry.kind, entry.title, entry.section, f"checked {entry.checked}", entry.note) if fact)


def _facts(spec: SpecFile) -> list[str]:
    """The plain fields of a spec, such as its vendor and its date."""
    made = []
    for key in spec.field_names():
        value = getattr(spec, key)
        if key not in _COMMON and isinstance(value, (str, int)) and value != "":
            made.append(f"{key.replace('_', ' ')} {value}")
    return made


def _noted(lines: Sequence[str], remarks: Sequence[str], look: Look) -> list[str]:
    """Each line with its remark behind it where there is room, otherwise below it."""
    made = []
    left = max((len(line) for line in lines), default=0) + 2
    for line, remark in zip(lines, remarks, strict=True):
        if not remark:
            made.append(line)
        elif left + len(remark) <= look.width:
            made.append(f"{line:<{left}}{look.dim(remark)}")
        else:
            made += [line, *(look.dim(more) for more in wrap(remark, look.width, "      "))]
    return made


def listing(heads: Sequence[str], rows: Sequence[Sequence[str]], aligned: str, look: Look) -> tuple[str, list[str]]:
    """A list with a head in as many columns as the width holds, and the heads of those that had no room."""
    keep = len(heads)
    while True:
        lines = columns([row[:keep] for row in [heads, *rows]], aligned[:keep], indent="")
        if keep == 2 or all(len(line) <= look.width for line in lines):
            return "\n".join([look.bold(lines[0]), *lines[1:]]) + "\n", list(heads[keep:])
        keep -= 1


def accelerator_row(spec: Accelerator) -> list[str]:
    """One line of the list of accelerators, as the sources print it."""
    rates = spec.compute_dense
    return [
        spec.id, spec.memory.capacity.text, spec.memory.bandwidth.text, _text(rates.bf16 or rates.fp16), _text(rates.fp8),
        _text(spec.power), spec.released, spec.name,
    ]  # fmt: skip


def accelerator_record(spec: Accelerator) -> dict[str, object]:
    """The same in base units for JSON and CSV; what is not known is null."""
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


def _text(value: Sourced | None) -> str:
    return value.text if value is not None else ""


def _number(value: Sourced | None) -> float | None:
    return value.value if value is not None else None
