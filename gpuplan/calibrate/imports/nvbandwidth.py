"""How fast did nvbandwidth find the copies between host and device? From its text or its JSON (`--format json`).

A test case gives a matrix: rows are the host's memory nodes, columns the devices, in GB/s (10^9). Of each device the best row
counts, which is the memory beside it; of the devices the median. What kernels copy (`_sm`) and what flows both ways at once
is left out: estimates ask for one direction of the copy engine. Format: https://github.com/NVIDIA/nvbandwidth
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from typing import Any

from gpuplan.calibrate.imports.parsed import ImportHints, ParsedFile, fault, json_of

CASES = {"host_to_device_memcpy_ce": "host_to_device", "device_to_host_memcpy_ce": "device_to_host"}
WHAT = "the output of nvbandwidth, as text or with --format json"


def parse(text: str, name: str, given: ImportHints) -> ParsedFile:
    """The rates of copies in both directions.

    Raises:
        UsageError: no test case that counts, or a matrix that cannot be read.
    """
    if text.lstrip().startswith("{"):
        matrices, devices, software = _of_json(json_of(text, name, WHAT), name)
    else:
        matrices, devices, software = _of_text(text, name)
    rates = {CASES[case]: _rate(matrix) for case, matrix in matrices.items() if case in CASES and _cells(matrix)}
    left_out = tuple(f"{name}: {case} has no parameter of its own" for case in matrices if case not in CASES)
    if not rates:
        raise fault(name, 0, f"it holds no result of {' or '.join(CASES)}", f"give {WHAT}")
    return ParsedFile(rates=rates, devices=devices, software=software, left_out=left_out)


def _of_json(data: Any, name: str) -> tuple[dict[str, list[list[float | None]]], tuple[str, ...], str]:
    inner = data.get("nvbandwidth") if isinstance(data, dict) else None
    if not isinstance(inner, dict) or not isinstance(inner.get("testcases"), list):
        raise fault(name, 0, "it has no `nvbandwidth` with `testcases`", f"give {WHAT}")
    matrices: dict[str, list[list[float | None]]] = {}
    for case in inner["testcases"]:
        matrix = case.get("bandwidth_matrix") if isinstance(case, dict) else None
        if isinstance(matrix, list):
            matrices[str(case.get("name"))] = [[_cell(cell) for cell in row] for row in matrix]
    devices = tuple(str(one).partition(": ")[2].partition(" (")[0] or str(one) for one in inner.get("GPU Device List", []))
    return matrices, devices, f"nvbandwidth {inner.get('Version', inner.get('version', ''))}".strip()


def _of_text(text: str, name: str) -> tuple[dict[str, list[list[float | None]]], tuple[str, ...], str]:
    matrices: dict[str, list[list[float | None]]] = {}
    devices: dict[str, None] = {}
    software, case, columns = "nvbandwidth", "", 0
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split()
        if found := re.match(r"\s*nvbandwidth Version:\s*(\S+)", line):
            software = f"nvbandwidth {found[1]}"
        elif found := re.match(r"\s*Device \d+: (.+?)(?: \([0-9a-fA-F:.]+\))?\s*$", line):
            devices[found[1]] = None
        elif found := re.match(r"\s*[Rr]unning (\w+?)\.?\s*$", line):
            case, columns = found[1], 0
        elif case and words and all(word.isdigit() for word in words) and not columns:
            columns = len(words)
        elif columns and words and words[0].isdigit():
            cells = words[1:]
            if len(cells) != columns or any(_cell(cell) is None and cell != "N/A" for cell in cells):
                raise fault(name, number, f"the row does not hold {columns} rates", f"give {WHAT}, unchanged")
            matrices.setdefault(case, []).append([_cell(cell) for cell in cells])
        elif words[:1] == ["SUM"]:
            case, columns = "", 0
    return matrices, tuple(devices), software


def _cell(text: Any) -> float | None:
    try:
        return float(text)
    except (TypeError, ValueError):
        return None


def _cells(matrix: Sequence[Sequence[float | None]]) -> list[float]:
    """The best rate of each device."""
    columns = [[row[at] for row in matrix if at < len(row)] for at in range(max(map(len, matrix), default=0))]
    return [max(told) for column in columns if (told := [cell for cell in column if cell])]


def _rate(matrix: Sequence[Sequence[float | None]]) -> float:
    return statistics.median(_cells(matrix)) * 1e9
