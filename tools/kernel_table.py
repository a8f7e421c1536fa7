"""How far are the kernels that estimates count with from every published one? Errors by chip, engine, kernel and type.

    python tools/kernel_table.py FOLDER [--only PART ...] [--by COLUMN ...] [--rows N] [--write]

FOLDER holds tables as the package `aiconfigurator-core` has them in its `systems/data`: <system>/<family>/<backend>/<version>/
<table>_perf.parquet, latency in milliseconds. Of every table the newest version counts, of those that hold half as many rows as
any. Each row is priced as `gpuplan serve --engine` prices its kernels, and one that cannot be priced is a miss. `--only` takes the
tables whose path has every PART (`--only h100 vllm gemm`), `--by` tells rows apart by further columns, `--rows` takes so many rows
of a table, evenly spread. `--write` puts the figures into benchmarks/kernel-table.yaml, from which `python tools/readme.py` makes
the tables of README.md and docs/accuracy-kernels.md. Needs numpy and pyarrow (the extra `tables`).
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from kernel_items import TABLES, Kernel
from kernel_pages import FILE, as_yaml, printed

from gpuplan.errors import GpuplanError, Problem, UnknownError, UsageError, did_you_mean, install
from gpuplan.machine.hardware import Hardware
from gpuplan.ranges import time_ends
from gpuplan.search.library import Library

SYSTEMS = {
    "a100_sxm": "dgx-a100-640gb", "h100_sxm": "dgx-h100", "h200_sxm": "dgx-h200", "b200_sxm": "dgx-b200", "b300_sxm": "dgx-b300",
    "gb200": "gb200-nvl72", "gb300": "gb300-nvl72", "l40s": "l40s-8-staged", "rtx_pro_6000_server": "rtx-pro-6000-server-8",
    "b60": "arc-pro-b60-8",
}  # fmt: skip
"""What `--on` calls the systems of the tables."""
ENGINES = {"trtllm": "tensorrt-llm", "vllm": "vllm", "sglang": "sglang"}
LIBRARIES = {"nccl": "NCCL", "oneccl": "oneCCL"}
"""Tables of a library, which all engines call alike."""
SERVES = "vllm"


class Table(NamedTuple):
    """One file of rows."""

    path: Path
    system: str
    backend: str
    version: str
    name: str


class Judged(NamedTuple):
    """Rows of one cell of the table: estimated over measured (infinite where nothing was priced), and whether in the range."""

    ratio: np.ndarray
    inside: np.ndarray


Cell = tuple[str, str, str, str]
"""Chip, engine, kernel and type."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table, and write it where that is asked; 2 where the folder or a package is missing."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="+", default=[], metavar="PART")
    parser.add_argument("--by", nargs="+", default=[], metavar="COLUMN")
    parser.add_argument("--rows", type=int, default=0, metavar="N")
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args(arguments)
    try:
        if asked.write and (asked.only or asked.by or asked.rows):
            raise UsageError(Problem("usage.part", "--write puts the whole table on record", "leave --only, --by and --rows out"))
        tables = newest(asked.folder, asked.only)
        data = judged_tables(tables, by=asked.by, most=asked.rows)
    except GpuplanError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    if asked.write:
        made = {"package": package(asked.folder), "judged": datetime.now(UTC).date().isoformat()}
        FILE.write_text(as_yaml({**made, **data}), encoding="utf-8")
    print(printed(data))
    return 0


def newest(folder: Path, only: Sequence[str] = ()) -> list[Table]:
    """The tables of a folder, each in the version that counts.

    Raises:
        UsageError: there are none, or nothing is installed that reads them.
    """
    found: dict[tuple[str, ...], list[Table]] = {}
    for path in sorted(folder.glob("**/*_perf.parquet")):
        if len(path.relative_to(folder).parts) < 5:
            continue
        system, _, backend, version, file = path.parts[-5:]
        if all(part in "/".join(path.parts[-5:]) for part in only):
            table = Table(path, system, backend, version, file.removesuffix("_perf.parquet"))
            found.setdefault((system, backend, table.name), []).append(table)
    if not found:
        hint = "name the folder `systems/data` of the package aiconfigurator-core"
        raise UsageError(Problem("kernel-table.none", f"no <system>/<family>/<backend>/<version>/*.parquet in {folder}", hint))
    counts = {table: _rows_in(table) for tables in found.values() for table in tables}
    full = [[table for table in tables if 2 * counts[table] >= max(map(counts.__getitem__, tables))] for tables in found.values()]
    return [max(tables, key=lambda table: _version(table.version)) for tables in full]


def judged_tables(tables: Sequence[Table], *, by: Sequence[str] = (), most: int = 0) -> dict[str, Any]:
    """The figures of all tables: `kernels`, a line for each cell, and `uncovered`, rows that gpuplan has no kernel for."""
    library = Library.shared()
    cells: dict[Cell, list[Judged]] = {}
    versions: dict[Cell, set[str]] = {}
    uncovered: dict[str, int] = {}
    for table in tables:
        kernel = TABLES.get(table.name)
        if kernel is None or table.system not in SYSTEMS:
            uncovered[table.name] = uncovered.get(table.name, 0) + _rows_in(table)
            continue
        engine = library.engine(ENGINES.get(table.backend, SERVES))[0]
        # Rows are timed by themselves, so that no kernel before them quantises their input; which type that has each row says.
        hw = library.machine(SYSTEMS[table.system], engine.replaced(fused_quantisation=(), eight_bit_inputs=("mxfp4",)))
        who = LIBRARIES.get(table.name, engine.id)
        for types, columns in groups(read(table, kernel, by, most), kernel, by):
            label = " ".join([kernel.label(types), *(f"{key}={types[key]}" for key in by)])
            cell = (hw.accelerator, who, kernel.name, label)
            cells.setdefault(cell, []).append(judged(kernel, {**types, **columns}, hw))
            versions.setdefault(cell, set()).add(table.version)
    lines = [line(cell, parts, " ".join(sorted(versions[cell]))) for cell, parts in sorted(cells.items())]
    return {"kernels": lines, "uncovered": dict(sorted(uncovered.items()))}


def read(table: Table, kernel: Kernel, by: Sequence[str], most: int) -> dict[str, np.ndarray]:
    """The columns of a table that count, texts as texts; a column of numbers that it lacks is zero."""
    names = [*kernel.types, *kernel.numbers, *by, "latency"]
    whole = _parquet().read_table(table.path)
    step = max(whole.num_rows // most, 1) if most else 1
    picked = whole.take(np.arange(0, whole.num_rows, step))
    columns = {name: picked[name].to_numpy() if name in picked.column_names else np.zeros(picked.num_rows) for name in names}
    for name in (*kernel.types, *by):
        if name not in picked.column_names:
            where = f"{table.system} {table.backend} {table.version}"
            hint = did_you_mean(name, picked.column_names) or f"it has {', '.join(picked.column_names)}"
            raise UsageError(Problem("kernel-table.column", f"{table.name} has no column `{name}`", hint, where))
    return columns


def groups(
    columns: Mapping[str, np.ndarray], kernel: Kernel, by: Sequence[str] = ()
) -> Iterator[tuple[dict[str, str], dict[str, Any]]]:
    """The rows of each type: the texts that they have in common, and their columns of numbers with `seconds`.

    A type comes in parts, where its rows have several head dimensions, or some of them a window (`window_size`).
    """
    keys = (*kernel.types, *by, *kernel.apart)
    texts = {key: np.asarray(columns[key]).astype(str) for key in (*kernel.types, *by)}
    texts |= {key: np.asarray(made(columns)).astype(str) for key, made in kernel.apart.items()}
    seconds = np.asarray(columns["latency"], dtype=float) * 1e-3
    kept = np.isfinite(seconds) & (seconds > 0)
    # An estimate asks about one model at a time: one head dimension, and a window or none.
    one_of = {key: np.asarray(columns[key], dtype=float) for key in ("head_dim",) if key in kernel.numbers}
    windowed = np.asarray(columns["window_size"], dtype=float) > 0 if "window_size" in kernel.numbers else np.zeros(len(seconds))
    columns_apart = [*texts.values(), *(values.astype(str) for values in one_of.values()), windowed.astype(str)]
    joined = np.array(["\t".join(row) for row in zip(*columns_apart, strict=True)])
    for one in np.unique(joined[kept]):
        mask = kept & (joined == one)
        numbers: dict[str, Any] = {key: np.asarray(columns[key], dtype=float)[mask] for key in kernel.numbers}
        numbers |= {key: float(values[mask][0]) for key, values in one_of.items()}
        if not windowed[mask][0]:
            numbers.pop("window_size", None)
        yield dict(zip(keys, str(one).split("\t")[: len(keys)], strict=True)), {**numbers, "seconds": seconds[mask]}


def judged(kernel: Kernel, columns: Mapping[str, Any], hw: Hardware) -> Judged:
    """Rows of one type against what serving on this hardware would count for them."""
    seconds = columns["seconds"]
    try:
        term = kernel.price(columns, hw)
    except UnknownError:
        return Judged(np.full(len(seconds), np.inf), np.zeros(len(seconds), dtype=bool))
    low, high = time_ends(term)
    return Judged(np.broadcast_to(term.value, seconds.shape) / seconds, (low <= seconds) & (seconds <= high))


def line(cell: Cell, parts: Sequence[Judged], version: str) -> dict[str, Any]:
    """The figures of one cell: rows, those that were priced, and errors over all of them, in which a miss is an infinite error."""
    ratio = np.concatenate([part.ratio for part in parts])
    inside = np.concatenate([part.inside for part in parts])
    priced = np.isfinite(ratio)
    error = np.abs(ratio - 1.0)
    return {
        **dict(zip(("chip", "engine", "kernel", "type"), cell, strict=True)), "version": version, "rows": len(ratio),
        "covered": float(priced.mean()), "median": _quantile(error, 0.5), "p90": _quantile(error, 0.9),
        "bias": float(np.median(ratio[priced]) - 1.0) if priced.any() else None, "inside": float(inside.mean()),
    }  # fmt: skip


def package(folder: Path) -> str:
    """The name and version of the package that the tables came in, by its metadata beside it; otherwise `unknown`."""
    for parent in folder.resolve().parents:
        for place in sorted(parent.glob("aiconfigurator_core-*.dist-info")):
            return f"aiconfigurator-core {place.name.removesuffix('.dist-info').rpartition('-')[2]}"
    return "unknown"


def _quantile(errors: np.ndarray, share: float) -> float | None:
    found = float(np.quantile(errors, share, method="inverted_cdf"))
    return found if np.isfinite(found) else None


def _rows_in(table: Table) -> int:
    return int(_parquet().read_metadata(table.path).num_rows)


def _version(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text))


def _parquet() -> Any:
    try:
        from pyarrow import parquet
    except ImportError:
        raise UsageError(Problem("kernel-table.no-parquet", "reading parquet tables needs pyarrow", install("tables"))) from None
    return parquet


if __name__ == "__main__":
    raise SystemExit(main())
