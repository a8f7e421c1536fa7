"""How far are other calculators from the measured training runs, and gpuplan on the same rows?

    python benchmarks/rivals.py --calculon DIR --llm-analysis DIR --simumax DIR --megatron DIR [--md | --json] [--runs PATH]
    python benchmarks/rivals.py --aiconfigurator DIR --runs PATH [--md | --json]
    python benchmarks/rivals.py --from FILE [--md]

Each folder is a checkout of that project (github.com/calculon-ai/calculon, cli99/llm-analysis, MooreThreads/SimuMax and
NVIDIA/Megatron-LM); those not given are left out. Each tool runs in a process of its own with `--python` (this one), which must
have what the tool imports: numpy, psutil, pandas, sympy, tabulate, graphviz, tqdm, matplotlib and fire serve all four. SimuMax
takes minutes for all rows, the others seconds. How each is set, and why, stands at the top of its adapter in benchmarks/rivals.
Rows and measurements are those of `gpuplan accuracy --task training`; both sides are told the same plan. aiconfigurator
(`pip install --target DIR aiconfigurator`) is asked for serving runs instead, which you name with `--runs`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ADAPTERS = Path(__file__).parent / "rivals"
sys.path.append(str(ADAPTERS))

from jobs import asked, job_of  # noqa: E402

from gpuplan.accuracy.compare import Point, training_points  # noqa: E402
from gpuplan.accuracy.inference import inference_points  # noqa: E402
from gpuplan.accuracy.report import errors  # noqa: E402
from gpuplan.accuracy.rows import Row, Skip  # noqa: E402
from gpuplan.cli.accuracy_run import wanted_rows  # noqa: E402
from gpuplan.errors import GpuplanError  # noqa: E402
from gpuplan.plan.ask import TrainAsk  # noqa: E402
from gpuplan.search.library import Library  # noqa: E402

TOOLS = {
    "calculon": "with_calculon.py", "llm-analysis": "with_llm_analysis.py", "simumax": "with_simumax.py",
    "megatron": "with_megatron.py", "aiconfigurator": "with_aiconfigurator.py",
}  # fmt: skip
SERVING = ("aiconfigurator",)
"""Tools that are asked for serving runs, the others for training runs."""
METRICS = {"throughput": "throughput", "memory": "peak memory", "ttft": "time to first token", "tpot": "time per output token"}
SHOWN = ("median_ape", "mean_ape", "p90_ape", "bias")
KEPT = ("reserved", "device-used")
"""Kinds of measured memory that hold what an allocator keeps beside tensors."""
PREFACE = """\
`python benchmarks/rivals.py --calculon DIR --llm-analysis DIR --simumax DIR --megatron DIR --md` on {date}; {rows} measured runs.

Median, mean and 90th percentile are of the absolute error, estimated over measured less one; the bias is the median error with
its sign. gpuplan's columns are its own errors on the very rows of that line. Its engine profiles were fitted to two thirds of
the groups of model and accelerator; for throughput, a line of each tool leaves these rows out. What its profiles hold in memory
was set with all published peaks in sight. The last line of each tool has the rows that it can be told without bending anything;
what was bent on the others, and how each tool was set, stands below and in `benchmarks/rivals/`.

The rivals count tensors (SimuMax also what the allocator keeps), gpuplan what the measurement saw: where the use of the whole
device was measured, that includes the context and communication buffers, 2 to 3 GiB on these runs.
"""
SERVING_PREFACE = """\
`python benchmarks/rivals.py --aiconfigurator DIR --runs PATH --md` on {date}; {rows} measured runs.

Median, mean and 90th percentile are of the absolute error, estimated over measured less one; the bias is the median error with its
sign. gpuplan's columns are its own errors on the very rows of that line.
"""
WIDE = 73
"""Characters of a reason in the table for a terminal."""
LEFT_OUT = 6
"""How many reasons are listed for each tool."""


@dataclass(frozen=True)
class Asked:
    """A row that gpuplan answered: the job that rivals get, gpuplan's points, and its tokens/s an accelerator where it trains."""

    row: Row
    job: Mapping[str, Any]
    points: tuple[Point, ...]
    tokens_per_s: float


@dataclass(frozen=True)
class Pair:
    """One measurement with a rival's estimate and gpuplan's; `bent` says what the rival could not be told."""

    rival: Point
    own: Point
    bent: tuple[str, ...]


@dataclass(frozen=True)
class Side:
    """One tool: its measurements by metric, and why it has none of the other rows."""

    name: str
    version: str
    pairs: Mapping[str, Sequence[Pair]]
    skipped: Mapping[str, Counter[str]]


def main(argv: Sequence[str] | None = None) -> int:
    """Ask gpuplan and every rival whose folder is given, and print how far each is off."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0], allow_abbrev=False)
    for tool in TOOLS:
        parser.add_argument(f"--{tool}", metavar="DIR", type=Path, help=f"the folder of {tool}")
    parser.add_argument("--python", default=sys.executable, metavar="FILE", help="the Python that the rivals run in")
    parser.add_argument("--runs", action="append", metavar="PATH", help="measured runs, instead of the published ones")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--md", action="store_true", help="Markdown")
    form.add_argument("--json", action="store_true", help="JSON with every row, errors as fractions")
    parser.add_argument("--from", dest="earlier", metavar="FILE", type=Path, help="print what an earlier --json wrote; ask nobody")
    given = parser.parse_args(argv)
    if given.earlier is not None:
        try:
            earlier = json.loads(given.earlier.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            parser.error(f"--from {given.earlier} is no file that --json wrote: {error}")
        show(earlier, given)
        return 0
    folders = {tool: folder for tool in TOOLS if (folder := getattr(given, tool.replace("-", "_"))) is not None}
    if not folders:
        parser.error(f"name the folder of at least one rival: {', '.join(f'--{tool}' for tool in TOOLS)}")
    serving = [tool for tool in folders if tool in SERVING]
    if serving and len(serving) < len(folders):
        parser.error(f"--{serving[0]} is asked for serving runs, the others for training runs: ask one kind at a time")
    missing = [str(folder) for folder in folders.values() if not folder.is_dir()]
    if missing:
        parser.error(f"no such folder: {', '.join(missing)}")
    try:
        rows = wanted_rows(given.runs, "inference" if serving else "training")
    except GpuplanError as error:
        parser.error("; ".join(problem.message for problem in error.problems))
    if not rows:
        parser.error("no such runs: name files of them with --runs (no serving runs come with gpuplan)")
    ready, skipped = ask_gpuplan(rows)
    sides = [side for tool, folder in folders.items() for side in ask_rival(tool, folder, given.python, ready)]
    show(report(sides, skipped, len(rows), bool(serving)), given)
    return 0


def show(made: Mapping[str, Any], given: argparse.Namespace) -> None:
    """Print a report in the form that was asked for."""
    said = json.dumps(made, indent=1) if given.json else markdown(made) if given.md else text(made)
    try:
        print(said, flush=True)
    except BrokenPipeError:
        # The reader (head, less) has gone: the interpreter must not complain when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def ask_gpuplan(rows: Sequence[Row]) -> tuple[list[Asked], Counter[str]]:
    """Every row that gpuplan can answer and rivals can be told, and why the others are left out."""
    library = Library.of(TrainAsk(model="", on=""))
    ready: list[Asked] = []
    skipped: Counter[str] = Counter()
    for row in rows:
        try:
            ask, made = asked(row, library)
            if row.measured.get("out_of_memory"):
                raise Skip("ran out of memory: nothing was measured")
            points = tuple(training_points(row, made) if row.task == "training" else inference_points(row, made))
            tokens: Any = made.figures["tokens_per_s_per_accelerator"].value if row.task == "training" else 1.0
            ready.append(Asked(row, job_of(row, ask, made, library), points, float(tokens)))
        except Skip as skip:
            skipped[str(skip)] += 1
        except GpuplanError as error:
            skipped[error.problems[0].message] += 1
    return ready, skipped


def ask_rival(tool: str, folder: Path, python: str, ready: Sequence[Asked]) -> list[Side]:
    """What one tool says of all rows: a side for each of its figures.

    Raises:
        SystemExit: the adapter itself fails.
    """
    command = [python, str(ADAPTERS / TOOLS[tool]), str(folder)]
    parts = os.cpu_count() or 1

    def part(at: int) -> dict[str, Any]:
        jobs = json.dumps([one.job for one in ready[at::parts]])
        done = subprocess.run(command, input=jobs, capture_output=True, text=True, check=False)
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise SystemExit(f"{tool}: {last}\n(is {folder} its checkout, and does {python} have what it imports?)")
        found: dict[str, Any] = json.loads(done.stdout)["answers"]
        return found

    with ThreadPoolExecutor(parts) as pool:
        answers = {name: answer for found in pool.map(part, range(parts)) for name, answer in found.items()}
    names = dict.fromkeys(name for answer in answers.values() for name in answer.get("tools", ())) or {tool: None}
    return [side_of(name, version_of(folder), answers, ready) for name in names]


def side_of(name: str, version: str, answers: Mapping[str, Any], ready: Sequence[Asked]) -> Side:
    """One tool's answers beside the measurements."""
    pairs: dict[str, list[Pair]] = {metric: [] for metric in METRICS}
    skipped: dict[str, Counter[str]] = {metric: Counter() for metric in METRICS}
    for one in ready:
        answer = answers[one.row.id]
        said = answer.get("tools", {}).get(name, {})
        for point in one.points:
            value = estimated(point, said, one)
            if value is None:
                skipped[point.metric][answer.get("skip") or said.get("no_memory") or "it has no such figure"] += 1
                continue
            rival = point.replaced(low=value, expected=value, high=value)
            bent = [*answer.get("bent", ()), *(answer.get("bent_memory", ()) if point.metric == "memory" else ())]
            bent += [f"the run does not say its {key}" for key in one.job["plan"]["left_open"]]
            pairs[point.metric].append(Pair(rival, point, tuple(bent)))
    return Side(name, version, pairs, skipped)


def estimated(point: Point, said: Mapping[str, Any], one: Asked) -> float | None:
    """A rival's figure in the unit and convention of a measurement.

    The speed of training goes through tokens: where FLOPs were measured, they are counted for both as the row's convention counts
    them. A tool with a figure for what the allocator keeps is taken by it where that was measured.
    """
    if point.metric == "memory":
        kept = str(point.row.measured.get("peak_memory_kind") or "unknown") in KEPT
        value = said.get("reserved_bytes") if kept else None
        return value if value is not None else said.get("memory_bytes")
    if point.row.task == "inference":
        # Of an answer of one token there is no time per token: tools say 0.
        return said.get("tokens_per_s" if point.metric == "throughput" else f"{point.metric}_s") or None
    if not said.get("step_s"):
        return None
    plan = one.job["plan"]
    tokens = plan["global_batch"] * plan["seq_len"] / said["step_s"] / one.job["machine"]["count"]
    return float(tokens) * point.expected / one.tokens_per_s


def version_of(folder: Path) -> str:
    """The commit of a checkout and its date, or that nobody says."""
    git = ["git", "-C", str(folder), "log", "-1", "--format=%h of %cs"]
    done = subprocess.run(git, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 and (folder / ".git").exists() else "version not known"


def report(sides: Sequence[Side], skipped: Counter[str], rows: int, serving: bool) -> dict[str, Any]:
    """Everything as plain data; errors are fractions."""
    return {
        "date": datetime.now(UTC).date().isoformat(), "rows": rows, "task": "serving" if serving else "training",
        "left_out_for_all": dict(skipped.most_common()),
        "tools": [
            {
                "tool": side.name, "version": side.version,
                "metrics": {metric: groups(metric, side.pairs[metric]) for metric in METRICS},
                "skipped": {metric: dict(side.skipped[metric].most_common()) for metric in METRICS},
                "bent": dict(Counter(note for pairs in side.pairs.values() for pair in pairs for note in pair.bent).most_common()),
                "rows": [plain(pair) for pairs in side.pairs.values() for pair in pairs],
            }
            for side in sides
        ],
    }  # fmt: skip


def groups(metric: str, pairs: Sequence[Pair]) -> dict[str, Any]:
    """The errors of both sides over all rows, those that no fit of gpuplan saw, and those that the tool can state exactly.

    Of memory, all rows were in sight when gpuplan's profiles were set; nothing was fitted to serving runs.
    """
    chosen = {"all": pairs}
    if metric == "throughput" and all(pair.own.row.task == "training" for pair in pairs):
        chosen["no_gpuplan_fit_saw"] = [pair for pair in pairs if not pair.own.row.fitted]
    chosen["stated_exactly"] = [pair for pair in pairs if not pair.bent]
    return {
        name: {"tool": errors([pair.rival for pair in some]), "gpuplan": errors([pair.own for pair in some])}
        for name, some in chosen.items()
    }


def plain(pair: Pair) -> dict[str, Any]:
    """One row of the JSON."""
    own = pair.own
    return {
        "id": own.row.id, "source": own.row.set, "metric": own.metric, "measured": own.measured, "tool": pair.rival.expected,
        "gpuplan": own.expected, "gpuplan_low": own.low, "gpuplan_high": own.high, "fitted": own.row.fitted,
        "bent": list(pair.bent),
    }  # fmt: skip


NAMES = {
    "all": "all rows it takes", "no_gpuplan_fit_saw": "of them, rows no gpuplan fit saw",
    "stated_exactly": "rows it states exactly",
}  # fmt: skip


def lines(made: Mapping[str, Any], metric: str) -> list[tuple[str, str, int, Mapping[str, Any], Mapping[str, Any]]]:
    """Tool, group, rows, and the errors of both sides, for each group that has rows."""
    return [
        (one["tool"], NAMES[name], group["tool"]["rows"], group["tool"], group["gpuplan"])
        for one in made["tools"]
        for name, group in one["metrics"][metric].items()
        if group["tool"]["rows"]
    ]


def percents(found: Mapping[str, Any]) -> list[str]:
    """Median, mean and 90th percentile of the absolute error, and the median error with its sign."""
    return [f"{found[key] * 100:+.1f}%" if key == "bias" else f"{found[key] * 100:.1f}%" for key in SHOWN]


def text(made: Mapping[str, Any]) -> str:
    """The report for a terminal, 80 columns."""
    out: list[str] = []
    for metric, title in METRICS.items():
        if not lines(made, metric):
            continue
        out += [f"{title}: error against measured runs", f"{'':41}{'rows':>5}{'median':>8}{'mean':>8}{'p90':>9}{'bias':>9}"]
        last = ""
        for tool, group, rows, theirs, ours in lines(made, metric):
            if tool != last:
                out.append(tool)
                last = tool
            for name, found in ((f"  {group}", theirs), ("    gpuplan", ours)):
                cells = percents(found)
                out.append(f"{name:<41}{rows:>5}{cells[0]:>8}{cells[1]:>8}{cells[2]:>9}{cells[3]:>9}")
        out.append("")
    out += ["median, mean and p90 of the absolute error; bias is the median error", ""]
    for heading, counted in reasons(made):
        out += [heading, *(f"{count:>5}  {why if len(why) <= WIDE else why[: WIDE - 1] + '…'}" for why, count in counted), ""]
    return "\n".join(out).rstrip()


def markdown(made: Mapping[str, Any]) -> str:
    """The report as a page."""
    preface = (PREFACE if made["task"] == "training" else SERVING_PREFACE).format(date=made["date"], rows=made["rows"])
    out = [f"# Other calculators on the same measured {made['task']} runs", "", preface]
    out += [f"- {name}: {version}" for name, version in {one["tool"]: one["version"] for one in made["tools"]}.items()]
    for metric, title in METRICS.items():
        if not lines(made, metric):
            continue
        out += ["", f"## {title.capitalize()}", ""]
        head = ["tool", "rows", "number", "median", "mean", "p90", "bias", "gpuplan median", "mean", "p90", "bias"]
        out += [f"| {' | '.join(head)} |", f"|---|---|{'--:|' * 9}"]
        for tool, group, rows, theirs, ours in lines(made, metric):
            out.append(f"| {' | '.join([tool, group, str(rows), *percents(theirs), *percents(ours)])} |")
    out += ["", "## What they were not asked, or told otherwise"]
    for heading, counted in reasons(made):
        out += ["", f"{heading}:", "", *(f"- {count}: {why}" for why, count in counted)]
    return "\n".join(out)


def reasons(made: Mapping[str, Any]) -> list[tuple[str, list[tuple[str, int]]]]:
    """What was left out or bent, most frequent first, under a heading."""
    found = [("Rows left out for all", made["left_out_for_all"])]
    for one in made["tools"]:
        for metric, title in METRICS.items():
            if one["metrics"][metric]["all"]["tool"]["rows"]:
                found.append((f"{one['tool']}: no {title}", one["skipped"][metric]))
        found.append((f"{one['tool']}: told otherwise than it ran", one["bent"]))
    return [(heading, shortened(counted)) for heading, counted in found if counted]


def shortened(counted: Mapping[str, int]) -> list[tuple[str, int]]:
    """The most frequent reasons, and the rest together."""
    ranked = sorted(counted.items(), key=lambda one: -one[1])
    rest = ranked[LEFT_OUT:]
    return ranked[:LEFT_OUT] + ([("for other reasons (--json lists them)", sum(count for _, count in rest))] if rest else [])


if __name__ == "__main__":
    sys.exit(main())
