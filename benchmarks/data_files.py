"""How fast are spec files checked and price catalogs imported, as multiples of reading the same files and nothing else?

python benchmarks/data_files.py            measure and report
python benchmarks/data_files.py --check    exit 1 when a figure misses its target
"""

from __future__ import annotations

import argparse
import csv
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench import Figure

ROUNDS = 3
CHECK_TARGET, IMPORT_TARGET = 4.0, 10.0
"""At most so many times the time of reading."""
ROWS = 50_000
HEAD = "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,GpuInfo,Price,SpotPrice,Region,AvailabilityZone,Arch"
HOST = "m5.large,,,2,8,,0.096,0.03,{region},{zone},x86_64"
GPU = "p5.48xlarge,H100,8.0,192.0,2048.0,\"{{'Gpus': []}}\",55.04,18.1,{region},{zone},x86_64"


def seconds(work: Callable[[], object]) -> float:
    """Processor time of one call."""
    began = time.process_time()
    work()
    return time.process_time() - began


def compared(name: str, work: Callable[[], object], reading: Callable[[], object], target: float) -> Figure:
    """The median ratio of work to reading, which take turns."""
    pairs = [(seconds(work), seconds(reading)) for _ in range(ROUNDS)]
    ratio = statistics.median(one / other for one, other in pairs)
    took, read = (statistics.median(column) for column in zip(*pairs, strict=True))
    return Figure(name, ratio, target, True, f"{ratio:.1f} x reading them ({took:.2f} s over {read:.2f} s)")


def checked() -> Figure:
    """`gpuplan specs check` on all that is shipped, beside parsing it."""
    from gpuplan.check.examine import check
    from gpuplan.models.catalog import CARDS
    from gpuplan.specs.catalog import KINDS, shipped_folder
    from gpuplan.strict_yaml import load_yaml

    # Model cards are checked with the rest, and lie elsewhere.
    folders = [*(shipped_folder() / kind for kind in KINDS if kind != "models"), CARDS]
    paths = [path for folder in folders for path in folder.rglob("*.yaml")]
    return compared("checking the shipped specs", check, lambda: [load_yaml(path) for path in paths], CHECK_TARGET)


def imported() -> Figure:
    """An import of a catalog of 50,000 rows, a fifth of them of GPUs, beside reading its rows."""
    from gpuplan.prices.importer import ImportRequest, import_skypilot
    from gpuplan.specs.catalog import Catalog

    catalog = Catalog.open(env={})
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "aws-vms.csv"
        rows = [
            (GPU if at % 5 == 0 else HOST).format(zone=f"use1-az{at}", region=f"us-east-{at // 5 % 20}") for at in range(ROWS)
        ]  # fmt: skip
        path.write_text("\n".join([HEAD, *rows]) + "\n", encoding="utf-8")

        def read() -> int:
            with path.open(newline="", encoding="utf-8") as file:
                return sum(1 for _ in csv.DictReader(file))

        def ours() -> None:
            made = import_skypilot(path, Path(name) / "own", catalog, ImportRequest(date="2026-11-21", dry=True))
            if len(made.gathered[0].offers) != 40:
                sys.exit(f"the import took {len(made.gathered[0].offers)} offers, not 40")

        return compared(f"importing {ROWS:,} rows of prices", ours, read, IMPORT_TARGET)


def main() -> int:
    """Measure, report, and say with the exit code whether `--check` was kept."""
    parser = argparse.ArgumentParser(description="How fast are data files checked and imported?")
    parser.add_argument("--check", action="store_true", help="exit 1 when a figure misses its target")
    given = parser.parse_args()
    figures = [checked(), imported()]
    for figure in figures:
        print(figure.line())
    return int(given.check and not all(figure.held for figure in figures))


if __name__ == "__main__":
    sys.exit(main())
