"""Keep README.md and the pages in docs/ true: run their commands, rewrite what they print, and rebuild tables from the data.

`python tools/readme.py` rewrites, `python tools/readme.py --check` exits with 1 when a page is out of date, and with 4 when a
source or an engine is estimated worse than the budgets in benchmarks/ allow: the published runs are estimated once for both. The
picture of measured runs is drawn anew with the rest, where matplotlib is installed; so are those of terminals and reports
(tools/terminal_picture.py, tools/report_picture.py) whose commands print something else now. `--commands` looks at what commands
print and at the pictures alone, `--runs` at the tables of published runs and at the budgets: together they are all of it.
In a `console` block every `$ gpuplan …` line is followed by what it prints; a last line `…` cuts the rest off.
"""

from __future__ import annotations

import gc
import importlib.util
import math
import os
import re
import shlex
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from functools import cache, lru_cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import report_picture
import terminal_picture
from kernel_pages import compact, full, recorded

os.environ.setdefault("GPUPLAN_TODAY", "2026-11-22")  # the day from which pages count the ages of prices

ROOT = Path(__file__).parent.parent
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
PICTURE = ROOT / "docs" / "training-runs.png"
BLOCK = re.compile(r"```console\n(.*?)```", re.S)
TABLE = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end -->)", re.S)


def main() -> int:
    """Rewrite or check; the exit code says whether all pages were true."""
    checks = "--check" in sys.argv
    commands, runs = (one in sys.argv or {"--commands", "--runs"}.isdisjoint(sys.argv) for one in ("--commands", "--runs"))
    with ProcessPoolExecutor(len(BUDGETS), get_context("spawn")) as pool:
        if runs:
            for task, (_, _, pieces) in BUDGETS.items():
                JUDGED[task] = [pool.submit(judged, task, at) for at in range(pieces)]
        # What commands print needs no published run: it is looked at while those are estimated.
        if commands:
            _keep_printed()
        pictures = max(terminal_picture.main(), report_picture.main()) if commands else 0
        return max(_pages(checks, commands, runs), _budgets() if checks and runs else 0, pictures)


def _keep_printed() -> None:
    """Run the commands of all pages, several beside each other; what they print is kept."""
    every = [command for page in PAGES for block in BLOCK.findall(page.read_text(encoding="utf-8")) for command in _commands(block)]
    with ThreadPoolExecutor(terminal_picture.AT_ONCE) as threads:
        list(threads.map(_run, dict.fromkeys(every)))


def _budgets() -> int:
    """Print the errors on published runs, and say whether a budget is kept."""
    sys.path.insert(0, str(ROOT))
    from gpuplan.cli.accuracy_run import limits_of, over_budget
    from gpuplan.render.accuracy import table

    worst = 0
    for task, (_, budget, _) in BUDGETS.items():
        made = reported(task)
        print(table(made, worst=0, markdown=False))
        worst = max(worst, over_budget(made, limits_of(str(ROOT / "benchmarks" / budget))))
    return worst


def _pages(checks: bool, commands: bool, runs: bool) -> int:
    """Rewrite or check the pages: what commands print and tables of the data, those of published runs, or both."""
    if not checks and runs and importlib.util.find_spec("matplotlib"):
        _run(f"gpuplan accuracy --task training --plot {shlex.quote(str(PICTURE))}")
    stale = []
    for page in PAGES:
        before = page.read_text(encoding="utf-8")
        after = BLOCK.sub(lambda found: f"```console\n{_block(found[1])}```", before) if commands else before
        after = TABLE.sub(lambda found: _table(found, commands, runs), after)
        if after != before and checks:
            stale.append(str(page.relative_to(ROOT)))
        elif after != before:
            page.write_text(after, encoding="utf-8")
    if stale:
        print(f"out of date: {', '.join(stale)}; run `python tools/readme.py`", file=sys.stderr)
    return int(bool(stale))


def _table(found: re.Match[str], commands: bool, runs: bool) -> str:
    """A table anew, where its kind is wanted."""
    head, name, end = found.groups()
    return f"{head}{TABLES[name]()}{end}" if (runs if name in OF_RUNS else commands) else found[0]


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


def _commands(text: str) -> Iterator[str]:
    """The commands of a block."""
    return (line[2:] for line in text.splitlines() if line.startswith("$ gpuplan"))


@lru_cache(None)
def _run(command: str) -> str:
    env = {**os.environ, "COLUMNS": "80", "NO_COLOR": "1"}
    words = [sys.executable, "-m", "gpuplan.cli.main", *shlex.split(command)[1:]]
    return subprocess.run(words, capture_output=True, text=True, env=env, cwd=ROOT, check=False).stdout


CHIPS = ("h100-sxm-80gb", "h200-sxm-141gb", "a100-sxm-80gb", "l40s", "b200-sxm-180gb")
KINDS = {"fp8_block": "fp8 by blocks", "int8_wo": "int8 weights", "int4_wo": "int4 weights"}


def kernels() -> str:
    """Held-back errors of the machine model, from the measured files: a line for each kind of kernel, a column for each chip."""
    sys.path.insert(0, str(ROOT))
    from gpuplan.specs.catalog import Catalog
    from gpuplan.specs.measured import Measured

    catalog = Catalog.open(env={})
    cells: dict[str, dict[str, str]] = {}
    for chip in CHIPS:
        spec = catalog.load(Measured, chip)
        fits = {f"matmul, {KINDS.get(kind, kind)}": one.fit for kind, one in spec.matmul.items()}
        fits |= {f"experts, {KINDS.get(kind, kind)}": one.fit for kind, one in spec.grouped.items()}
        if spec.attention is not None:
            fits |= {f"prefill, {dtype}": one.fit for dtype, one in spec.attention.prefill.items()}
            fits |= {f"decode, {dtype}": one.fit for dtype, one in spec.attention.decode.items()}
        if spec.collective is not None:
            fits |= {f"NCCL {kind}": getattr(spec.collective, kind).fit for kind in ("all_reduce", "all_gather", "all_to_all")}
        for kind, fit in fits.items():
            if fit is None:
                continue
            flat = "" if fit.flat_median_ape is None else f" ({100 * fit.flat_median_ape.value:.0f})"
            cells.setdefault(kind, {})[chip] = f"{100 * fit.median_ape.value:.1f} / {100 * fit.p90_ape.value:.0f}{flat}"
            if fit.far_median_ape is not None:
                cells.setdefault(f"{kind}, from memory", {})[chip] = f"{100 * fit.far_median_ape.value:.1f}"
    order = sorted(cells, key=lambda kind: [kind.startswith(word) for word in ("NCCL", "decode", "prefill", "experts", "matmul")])
    lines = [f"| % | {' | '.join(CHIPS)} |", "|---|" + "---:|" * len(CHIPS)]
    lines += [f"| {kind.replace('_', '-')} | {' | '.join(cells[kind].get(chip, '') for chip in CHIPS)} |" for kind in order]
    return "\n".join(lines) + "\n"


BUDGETS = {"training": ("source", "accuracy-budget.yaml", 2), "inference": ("engine", "serving-budget.yaml", 6)}
"""Tasks, what their rows are grouped by, the file that says what each group is allowed, and how many pieces the rows come in: so
that no processor waits for another."""
JUDGED: dict[str, list[Future[Any]]] = {}
"""What comes of the pieces, which are estimated in processes of their own while the commands of the pages run."""


def judged(task: str, at: int) -> Any:
    """What comes of one piece of the published runs of a task, made without collecting garbage as `gpuplan accuracy` does."""
    gc.disable()
    sys.path.insert(0, str(ROOT))
    from gpuplan.accuracy.judge import judge
    from gpuplan.cli.accuracy_run import wanted_rows

    return judge(_pieces(wanted_rows(None, task), BUDGETS[task][2])[at], _answers())


@cache
def _answers() -> Any:
    """How questions are answered: what one piece of a process reads, the next one knows."""
    from gpuplan.cli.accuracy_run import answers

    return answers()


def _pieces(rows: Sequence[Any], pieces: int) -> list[list[Any]]:
    """Rows in so many pieces of about one size, in their order; those of one file stay together, as many are answered at once."""
    made: list[list[Any]] = [[]]
    for row, after in zip(rows, [*rows[1:], None], strict=True):
        made[-1].append(row)
        if len(made) < pieces and len(made[-1]) >= len(rows) / pieces and after is not None and after.set != row.set:
            made.append([])
    return made + [[] for _ in range(pieces - len(made))]


@cache
def reported(task: str) -> Any:
    """The report of `gpuplan accuracy` on all published runs of a task."""
    sys.path.insert(0, str(ROOT))
    from gpuplan.accuracy.judge import Judged, Judgement
    from gpuplan.accuracy.report import report

    every = [one.result() for one in JUDGED[task]]
    typed, informed = (
        Judged(*(sum((getattr(getattr(one, way), name) for one in every), ()) for name in Judged.field_names()))
        for way in ("typed", "informed")
    )
    return report(Judgement(typed=typed, informed=informed), BUDGETS[task][0])


def _run_rows(made: Any, groups: tuple[Any, ...]) -> list[str]:
    rows = [
        "| source | what | rows | missed | median error | mean | p90 | bias | held | held back | informed: median, mean |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    known = {group["key"]: group for group in made["informed"]["groups"]} | {"**all**": made["informed"]["metrics"]}
    for metric in ("throughput", "memory"):
        for group in (*groups, {"key": "**all**", **made["metrics"]}):
            got, better = group[metric], known[group["key"]][metric]
            if not got["rows"]:
                continue
            held = got["held_back"]
            shares = " | ".join(_percent(got[name]) for name in ("median_ape", "mean_ape", "p90_ape"))
            kept = f"{_percent(held['median_ape'])} of {held['rows']}" if held["rows"] else ""
            informed = f"{_percent(better['median_ape'])}, {_percent(better['mean_ape'])}"
            end = f"{got['bias']:+.1%} | {got['inside_range']:.0%} | {kept} | {informed}"
            rows.append(f"| {group['key']} | {metric} | {got['rows']} | {got['missed']} | {shares} | {end} |")
    return rows


def summary() -> str:
    """Errors of training estimates on all published runs."""
    return "\n".join(_run_rows(reported("training"), ())) + "\n"


def runs() -> str:
    """Errors of training estimates on the published runs, by source: as one types them, and with what else is known of them."""
    made = reported("training")
    fits, skipped = made["metrics"]["fits"], made["skipped"]
    said = f"Of {fits['ran']} runs that ran, {fits['ran_said_fits']:.1%} are said to fit"
    if fits["oom"]:
        said += f"; of {fits['oom']} that ran out of memory, {fits['oom_said_not']:.0%} are said not to"
    missed = sum(one["missed"] for one in skipped)
    whole = len(skipped) + fits["ran"] + fits["oom"]
    end = f"{missed} of {whole} rows have no estimate, and {len(skipped) - missed} more are doubtful."
    return "\n".join(_run_rows(made, tuple(made["groups"]))) + f"\n\n{said}. {end}\n"


SERVED = {
    "throughput": "tokens/s, offline, in batches of a size, or of one stream", "prefill": "speed of prompts",
    "ttft": "time to the first token", "tpot": "time of an output token",
}  # fmt: skip
FEWEST = 5
"""Engines of fewer rows have no line."""


def serving() -> str:
    """Errors of serving estimates on the published runs, by engine."""
    made = reported("inference")
    lines = [
        "| engine | rows | missed | median error | mean | p90 | bias | in the range | high over low | p90 of that | held back |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for metric, title in SERVED.items():
        lines.append(f"| **{title}** | | | | | | | | | | |")
        for group in (*sorted(made["groups"], key=lambda one: one["key"]), {"key": "all", **made["metrics"]}):
            got = group[metric]
            if got["rows"] < FEWEST:
                continue
            held = got["held_back"]
            shares = " | ".join(_percent(got[name]) for name in ("median_ape", "mean_ape", "p90_ape"))
            kept = f"{_percent(held['median_ape'])} of {held['rows']}" if held["rows"] else ""
            wide = f"{got['width']:.2f} | {got['width_p90'] or math.inf:.2f}"
            end = f"{got['bias']:+.1%} | {got['inside_range']:.0%} | {wide} | {kept}"
            lines.append(f"| {group['key']} | {got['rows']} | {got['missed']} | {shares} | {end} |")
    reasons: dict[str, int] = {}
    for one in made["skipped"]:
        reasons[_short(one["reason"])] = reasons.get(_short(one["reason"]), 0) + 1
    said = "; ".join(f"{count} {reason}" for reason, count in sorted(reasons.items(), key=lambda one: -one[1]))
    return "\n".join(lines) + f"\n\nSkipped: {said}.\n"


FEW = 10
"""Groups of fewer rows have no figure."""
FAR = 0.15
"""Medians beyond this stand out."""


def serving_groups() -> str:
    """Median errors of serving estimates by engine and accelerator, and how many rows there are."""
    found: dict[tuple[str, str], dict[str, list[float]]] = {}
    for row in reported("inference")["rows"]:
        group = found.setdefault((row["engine"], row["accelerator"]), {})
        group.setdefault(row["metric"], []).append(abs(row["expected"] / row["measured"] - 1))
    lines = ["| engine | accelerator | tokens/s | prompts | TTFT | TPOT |", "|---|---|---:|---:|---:|---:|"]
    far = all_of = 0
    for (engine, accelerator), group in sorted(found.items()):
        medians = {metric: statistics.median(errors) for metric, errors in group.items() if len(errors) >= FEW}
        if not medians:
            continue
        cells = [_of_rows(medians[metric], len(group[metric])) if metric in medians else "" for metric in SERVED]
        far, all_of = far + sum(got > FAR for got in medians.values()), all_of + len(medians)
        lines.append(f"| {engine} | {accelerator} | {' | '.join(cells)} |")
    return "\n".join(lines) + f"\n\n{far} of {all_of} groups are more than {FAR:.0%} off; rows without an estimate aside.\n"


def _of_rows(median: float, rows: int) -> str:
    """A median error and of how many rows, in bold where it is far off."""
    mark = "**" if median > FAR else ""
    return f"{mark}{median:.1%}{mark} of {rows}"


def _short(reason: str) -> str:
    """A reason for which rows are skipped, without its numbers."""
    return re.sub(r"tp = \d+ does not divide the \d+ attention heads", "whose tp does not divide the heads", reason)


def _percent(value: float | None) -> str:
    return "none" if value is None else f"{value:.1%}"


def kernel_summary() -> str:
    """Errors on every published kernel, by engine and kernel."""
    return compact(recorded())


def every_kernel() -> str:
    """The same, by chip, engine, kernel and type."""
    return full(recorded())


TABLES = {
    "kernels": kernels, "runs": runs, "summary": summary, "serving": serving, "serving_groups": serving_groups,
    "kernel_summary": kernel_summary, "every_kernel": every_kernel,
}  # fmt: skip
OF_RUNS = {"runs", "summary", "serving", "serving_groups"}
"""Those that published runs are estimated for."""

if __name__ == "__main__":
    raise SystemExit(main())
