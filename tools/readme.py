"""Keep README.md true: run its commands and rewrite what they print, and rebuild its tables from the data files.

`python tools/readme.py` rewrites, `python tools/readme.py --check` exits with 1 when something is out of date.
In a `console` block every `$ gpuplan …` line is followed by what it prints; a last line `…` cuts the rest off.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
BLOCK = re.compile(r"```console\n(.*?)```", re.S)
TABLE = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", re.S)


def main() -> int:
    """Rewrite or check; the number of the exit code says whether the file was true."""
    before = README.read_text(encoding="utf-8")
    after = BLOCK.sub(lambda found: f"```console\n{_block(found[1])}```", before)
    after = TABLE.sub(lambda found: f"{found[1]}{TABLES[found[2]]()}{found[3]}", after)
    if after == before:
        return 0
    if "--check" in sys.argv:
        print("README.md is out of date: run `python tools/readme.py`", file=sys.stderr)
        return 1
    README.write_text(after, encoding="utf-8")
    return 0


def _block(text: str) -> str:
    """The same commands with what they print today."""
    made: list[str] = []
    for part in re.split(r"^(?=\$ )", text, flags=re.M):
        if not part.startswith("$ gpuplan"):
            made.append(part)
            continue
        command, _, shown = part.partition("\n")
        printed = _run(command[2:]).rstrip("\n").splitlines()
        lines = shown.rstrip("\n").splitlines()
        if lines and lines[-1] == "…":
            keep = len(lines) - 1
            printed = [*printed[:keep], "…"]
        made.append("\n".join([command, *printed]) + "\n")
    return "".join(made)


def _run(command: str) -> str:
    env = {**os.environ, "COLUMNS": "80", "NO_COLOR": "1"}
    words = [sys.executable, "-m", "gpuplan.cli.main", *shlex.split(command)[1:]]
    return subprocess.run(words, capture_output=True, text=True, env=env, cwd=ROOT, check=False).stdout


def kernels() -> str:
    """Held-back errors of the machine model, from the measured files."""
    sys.path.insert(0, str(ROOT))
    from gpuplan.specs.catalog import Catalog
    from gpuplan.specs.measured import Measured

    catalog = Catalog.open(env={})
    rows = ["| chip | kernel | rows held back | median error | p90 | flat roofline, median |", "|---|---|---:|---:|---:|---:|"]
    for ident in ("h100-sxm-80gb", "h200-sxm-141gb", "a100-sxm-80gb", "l40s", "b200-sxm-180gb"):
        spec = catalog.load(Measured, ident)
        kinds = {f"matmul {dtype}": one.fit for dtype, one in (spec.matmul or {}).items()}
        for kind, fit in kinds.items():
            if fit is not None and fit.flat_median_ape is not None:
                errors = (f"{one.value:.1%}" for one in (fit.median_ape, fit.p90_ape, fit.flat_median_ape))
                rows.append(f"| {ident} | {kind} | {fit.rows_held_back.value:,.0f} | {' | '.join(errors)} |")
    return "\n".join(rows) + "\n"


TABLES = {"kernels": kernels}

if __name__ == "__main__":
    raise SystemExit(main())
