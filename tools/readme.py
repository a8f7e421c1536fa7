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
        kinds = {f"matmul {dtype}": one.fit for dtype, one in spec.matmul.items()}
        if spec.attention is not None:
            kinds |= {f"prefill {dtype}": one.fit for dtype, one in spec.attention.prefill.items()}
            kinds |= {f"decode {dtype}": one.fit for dtype, one in spec.attention.decode.items()}
        if spec.collective is not None:
            kinds |= {"all-reduce (NCCL)": spec.collective.all_reduce.fit, "all-gather (NCCL)": spec.collective.all_gather.fit}
        for kind, fit in kinds.items():
            if fit is not None:
                flat = "" if fit.flat_median_ape is None else f"{fit.flat_median_ape.value:.1%}"
                errors = f"{fit.median_ape.value:.1%} | {fit.p90_ape.value:.1%} | {flat}"
                rows.append(f"| {ident} | {kind} | {fit.rows_held_back.value:,.0f} | {errors} |")
    return "\n".join(rows) + "\n"


def runs() -> str:
    """Errors of training estimates on the published runs, by source: those whose group a fit may have seen, and those held back."""
    sys.path.insert(0, str(ROOT))
    from gpuplan.accuracy.judge import judge
    from gpuplan.accuracy.report import report
    from gpuplan.cli.judging import answers, wanted_rows

    made = report(judge(wanted_rows(None, "training"), answers()))
    rows = [
        "| source | what | rows | median error | mean | p90 | bias | in range | held back: median of rows |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for metric in ("throughput", "memory"):
        for group in (*made["groups"], {"key": "**all**", **made["metrics"]}):
            got = group[metric]
            if not got["rows"]:
                continue
            held = got["held_back"]
            shares = " | ".join(f"{got[name]:.1%}" for name in ("median_ape", "mean_ape", "p90_ape"))
            kept = f"{held['median_ape']:.1%} of {held['rows']}" if held["rows"] else ""
            end = f"{got['bias']:+.1%} | {got['inside_range']:.0%} | {kept}"
            rows.append(f"| {group['key']} | {metric} | {got['rows']} | {shares} | {end} |")
    fits = made["metrics"]["fits"]
    said = f"Of {fits['ran']} runs that ran, {fits['ran_said_fits']:.1%} are said to fit"
    if fits["oom"]:
        said += f"; of {fits['oom']} that ran out of memory, {fits['oom_said_not']:.0%} are said not to"
    return (
        "\n".join(rows)
        + f"\n\n{said}. {len(made['skipped'])} of {len(made['skipped']) + fits['ran'] + fits['oom']} rows were skipped.\n"
    )


TABLES = {"kernels": kernels, "runs": runs}

if __name__ == "__main__":
    raise SystemExit(main())
