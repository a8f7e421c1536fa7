"""How do the figures of `tools/kernel_table.py` stand in a file, on a terminal, in README.md and in docs/accuracy-kernels.md?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import yaml

ROOT = Path(__file__).parent.parent
FILE = ROOT / "benchmarks" / "kernel-table.yaml"
HEAD = """# Errors of the kernels that estimates count with, on all rows of published tables: made by
# `python tools/kernel_table.py FOLDER --write`. Shares of one; `covered` are the rows that can be priced, and a row that cannot is
# a miss; `inside` are those within the printed range. `null`: so many rows are missed that there is no figure.
"""
LIBRARIES = ("NCCL", "oneCCL")
ENGINES = ("vllm", "sglang", "tensorrt-llm", *LIBRARIES)
KERNELS = (
    "matmul", "prefill", "decode", "experts", "MLA prefill", "MLA decode", "MLA products", "encoder", "own all-reduce",
    "collectives",
)  # fmt: skip
Line = Mapping[str, Any]


def as_yaml(data: Mapping[str, Any]) -> str:
    """The file, a line for each cell."""
    lines = [f"package: {data['package']}", f'judged: "{data["judged"]}"', "kernels:"]
    lines += [f"  - {{{', '.join(f'{key}: {_cell(value)}' for key, value in one.items())}}}" for one in data["kernels"]]
    lines += ["uncovered:", *(f"  {name}: {rows}" for name, rows in data["uncovered"].items())]
    return HEAD + "\n".join(lines) + "\n"


def printed(data: Mapping[str, Any]) -> str:
    """The figures in columns, for a terminal."""
    lines = [
        f"{'chip':30} {'engine':13} {'kernel':15} {'type':28} {'rows':>8} {'cov':>5} {'med':>6} {'p90':>6} {'bias':>7} {'in':>5}"
    ]
    for one in data["kernels"]:
        shares = [f"{_percent(one[key]):>{width}}" for key, width in (("covered", 5), ("median", 6), ("p90", 6), ("bias", 7))]
        shares.append(f"{_percent(one['inside']):>5}")
        lines.append(f"{one['chip']:30} {one['engine']:13} {one['kernel']:15} {one['type']:28} {one['rows']:8} {' '.join(shares)}")
    return "\n".join([*lines, *(f"no kernel: {name} {rows}" for name, rows in data["uncovered"].items())])


def full(data: Mapping[str, Any]) -> str:
    """Every cell as a table in Markdown, by kernel, and the tables that no kernel stands for."""
    rows = [
        "| kernel | chip | engine | type | rows | covered | median | p90 | bias | inside |",
        "|---|---|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for one in sorted(data["kernels"], key=_place):
        shares = " | ".join(_percent(one[key]) for key in ("covered", "median", "p90", "bias", "inside"))
        rows.append(f"| {one['kernel']} | {one['chip']} | {one['engine']} | {one['type']} | {one['rows']:,} | {shares} |")
    without = ", ".join(f"{name} {count:,}" for name, count in data["uncovered"].items())
    total = sum(data["uncovered"].values())
    return (
        "\n".join(rows)
        + f"\n\n{_origin(data)} Not covered, as no kernel of gpuplan's stands for the rows ({total:,}): {without}.\n"
    )


def compact(data: Mapping[str, Any]) -> str:
    """A line for each kernel and a column for each engine: its middle cell, and its worst with what it is; libraries below."""
    engines = [name for name in ENGINES if any(one["engine"] == name for one in data["kernels"])]
    own = [name for name in engines if name not in LIBRARIES]
    rows = [f"| kernel | {' | '.join(own)} |", "|---|" + "---|" * len(own)]
    for kernel in KERNELS:
        cells = [_cells(data, kernel, name) for name in own]
        if any(cells):
            rows.append(f"| {kernel} | {' | '.join(map(_summary, cells))} |")
    libraries = [f"{name} {_summary(_cells(data, 'collectives', name))}" for name in engines if name in LIBRARIES]
    counted = sum(one["rows"] for one in data["kernels"])
    priced = sum(one["rows"] * one["covered"] for one in data["kernels"])
    missing = sum(data["uncovered"].values())
    said = f"Of {counted + missing:,} rows {priced / (counted + missing):.0%} can be priced."
    return "\n".join(rows) + "\n\n" + " ".join([*(f"{one}." for one in libraries), _origin(data), said]) + "\n"


def _cells(data: Mapping[str, Any], kernel: str, engine: str) -> list[Line]:
    return [one for one in data["kernels"] if one["kernel"] == kernel and one["engine"] == engine]


def _summary(cells: Sequence[Line]) -> str:
    """Medians over types and chips of the median and of the 90th percentile, and the cell with the largest median."""
    if not cells:
        return ""
    worst = max(cells, key=lambda one: (_or_infinite(one["median"]), _or_infinite(one["p90"])))
    middle = [median(_or_infinite(one[key]) for one in cells) for key in ("median", "p90")]
    return f"{_pair(middle)}; worst {_pair([worst['median'], worst['p90']])} ({_short(worst['chip'])}, {worst['type']})"


def _short(chip: str) -> str:
    """As much of a name as tells which chip it is.

    >>> _short("h100-sxm-80gb"), _short("rtx-pro-6000-blackwell-server")
    ('h100', 'rtx-pro-6000')
    """
    words = chip.split("-")
    last = next(at for at, word in enumerate(words) if any(map(str.isdigit, word)))
    return "-".join(words[: last + 1])


def recorded() -> dict[str, Any]:
    """The figures on record."""
    found: dict[str, Any] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    return found


def _pair(values: Iterable[float | None]) -> str:
    return " / ".join("none" if value is None or value == float("inf") else f"{100 * value:.0f}" for value in values)


def _origin(data: Mapping[str, Any]) -> str:
    return f"All rows of the newest tables of {data['package']}, judged {data['judged']}."


def _place(one: Line) -> tuple[int, str, int, str]:
    return KERNELS.index(one["kernel"]), one["chip"], ENGINES.index(one["engine"]), one["type"]


def _or_infinite(value: float | None) -> float:
    return float("inf") if value is None else value


def _percent(value: float | None) -> str:
    return "none" if value is None else f"{100 * value:.0f}%"


def _cell(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, float):
        return f"{value:.3f}"
    return str(value) if isinstance(value, int) else f'"{value}"'
