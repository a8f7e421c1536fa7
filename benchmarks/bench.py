"""How fast is gpuplan, as ratios and rates of one run on this machine?

    python benchmarks/bench.py            measure and report
    python benchmarks/bench.py --smoke    a short run that only reports
    python benchmarks/bench.py --check    exit 1 when a figure misses its target

Whole processes run in turns with the reference, so that a slow moment of the machine hits both. Medians of the processor time
are compared, which other work on the machine moves little; the clock is printed beside it.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

# One core: set before numpy is imported anywhere below.
os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")

if TYPE_CHECKING:
    from gpuplan.estimate.subject import Subject
    from gpuplan.search.space import Space
    from gpuplan.term import Term

REFERENCE = "import typer, pydantic, yaml"
FIT = ("fit", "llama-3.1-8b", "--on", "h100")
HELP = ("--help",)
LIST = ("specs", "list")
FIT_TARGET, HELP_TARGET, LIST_TARGET = 1.6, 1.5, 2.0
"""At most so many times the reference."""
TRAIN_TARGET, LISTED_TARGET, SERVE_TARGET, MEMORY_TARGET = 1_000_000.0, 8.0, 50_000.0, 1.25
"""At least so many training plans a second, so many times those of a list, so many serving plans a second; at most so many times
the memory for ten times the plans."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured figure and its target."""

    name: str
    value: float
    target: float
    at_most: bool
    text: str

    @property
    def held(self) -> bool:
        """Whether the target is reached."""
        return self.value <= self.target if self.at_most else self.value >= self.target

    def line(self) -> str:
        """The figure as one line of the report."""
        sign = "<=" if self.at_most else ">="
        mark = "ok  " if self.held else "MISS"
        return f"{mark} {self.name}: {self.text}; target {sign} {self.target:,g}"


def medians(commands: Mapping[str, Sequence[str]], rounds: int) -> dict[str, tuple[float, float]]:
    """Median seconds of whole processes, of the processor and on the clock, run in turns after one unmeasured round.

    Raises:
        SystemExit: a command fails.
    """
    clock: dict[str, list[float]] = {name: [] for name in commands}
    busy: dict[str, list[float]] = {name: [] for name in commands}
    with tempfile.TemporaryDirectory() as empty:
        env = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
        for turn in range(rounds + 1):
            for name, command in commands.items():
                start, before = time.perf_counter(), processor()
                done = subprocess.run(
                    command, cwd=empty, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False
                )
                took, used = time.perf_counter() - start, processor() - before
                if done.returncode != 0:
                    sys.exit(f"`{' '.join(command)}` ended with {done.returncode}:\n{done.stderr}")
                if turn:
                    clock[name].append(took)
                    busy[name].append(used)
    return {name: (statistics.median(busy[name]), statistics.median(clock[name])) for name in commands}


def processor() -> float:
    """Seconds of processor time that all ended child processes have used, in the finest steps there are."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def processes(rounds: int) -> list[Figure]:
    """How many times longer than importing typer, pydantic and yaml `fit`, `--help` and `specs list` take."""
    program = shutil.which("gpuplan", path=str(Path(sys.executable).parent)) or shutil.which("gpuplan")
    if program is None:
        sys.exit("gpuplan is not installed beside this Python: run `pip install .`")
    reference = "reference"
    asked = {"fit": (FIT, FIT_TARGET), "help": (HELP, HELP_TARGET), "list": (LIST, LIST_TARGET)}
    commands = {name: (program, *words) for name, (words, _) in asked.items()}
    took = medians({reference: (sys.executable, "-c", REFERENCE), **commands}, rounds)
    figures = []
    for name, (words, target) in asked.items():
        (busy, clock), (base, base_clock) = took[name], took[reference]
        ratio = busy / base
        text = f"{ratio:.2f} x ({busy * 1e3:.0f} ms over {base * 1e3:.0f} ms; {clock / base_clock:.2f} x on the clock)"
        figures.append(Figure(f"gpuplan {' '.join(words)}", ratio, target, True, text))
    return figures


QUESTIONS: dict[str, tuple[str, dict[str, Any], float]] = {
    "fit": ("llama-3.1-8b", {"on": "h100"}, 0.1),
    "serve": ("llama-3.1-70b", {"on": "4xh100", "prompt": 2000, "output": 300}, 0.25),
    "train": ("llama-3.1-8b", {"on": "8xh100", "tokens": 1e12}, 0.25),
}
"""Questions to the Python API without advice, and how many times the reference they may take once files are read."""


def questions(rounds: int) -> list[Figure]:
    """How long the Python API takes in a warm process, as a part of importing typer, pydantic and yaml."""
    import gpuplan

    base, _ = medians({"reference": (sys.executable, "-c", REFERENCE)}, rounds)["reference"]
    figures = []
    for task, (model, options, target) in QUESTIONS.items():
        ask: Callable[..., object] = getattr(gpuplan, task)
        took = []
        for _ in range(5 * rounds + 1):
            start = time.process_time()
            ask(model, advise=False, **options)
            took.append(time.process_time() - start)
        busy = statistics.median(took[1:])
        text = f"{busy / base:.3f} x ({busy * 1e3:.1f} ms over {base * 1e3:.0f} ms)"
        figures.append(Figure(f"gpuplan.{task}(…, advise=False), warm", busy / base, target, True, text))
    return figures


def searches(*, short: bool) -> list[Figure]:
    """Plans a second of large spaces on one core, those of a list of the same plans, and the memory that they take."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    rounds = 1 if short else 5
    train, estimate = training_space(batches=16 if short else 64, lengths=4), training_estimate()
    rate, text = fastest([timed(train, estimate) for _ in range(rounds)], train)
    # All of them legal: the same plans as an open mesh and as a list, in turns, so that a slow moment of the machine hits both.
    legal = all_legal(train)
    turns = [(timed(legal, estimate), timed(legal, estimate, listed=True)) for _ in range(rounds)]
    if any(plans != legal.size for turn in turns for plans, _ in turn):
        sys.exit("the space that should hold legal plans alone does not")
    ratio = statistics.median(slow / fast for (_, fast), (_, slow) in turns)
    as_mesh, as_list = (fastest(list(runs), legal)[0] for runs in zip(*turns, strict=True))
    slower = f"{ratio:.1f} x ({as_mesh:,.0f} and {as_list:,.0f} of the same {legal.size:,} plans a second)"
    serve = serving_space()
    serve_rate, served = fastest([timed(serve, serving_estimate()) for _ in range(rounds)], serve)
    once, tenfold = (traced(training_space(batches=64, lengths=lengths), estimate) for lengths in (4, 40))
    memory = f"{tenfold / once:.2f} x the memory for ten times the plans ({once / 2**20:.0f} and {tenfold / 2**20:.0f} MiB)"
    return [
        Figure("training plans on an open mesh", rate, TRAIN_TARGET, False, text),
        Figure("open mesh against list", ratio, LISTED_TARGET, False, slower),
        Figure("serving plans on an open mesh", serve_rate, SERVE_TARGET, False, served),
        Figure("memory of a search", tenfold / once, MEMORY_TARGET, True, memory),
    ]


def fastest(runs: Sequence[tuple[int, float]], space: Space[Any]) -> tuple[float, str]:
    """Plans a second in the fastest of some runs, and what to say of it."""
    plans, took = min(runs, key=lambda run: run[1])
    return plans / took, f"{plans / took:,.0f} plans a second ({plans:,} legal ones of {space.size:,} in {took:.3f} s)"


def timed(space: Space[Any], estimate: Callable[[Any], Mapping[str, Term]], *, listed: bool = False) -> tuple[int, float]:
    """How many legal plans a space has, and the processor seconds in which they are found and estimated."""
    from gpuplan.search import mesh

    sparse, plans = mesh.SPARSE, 0
    mesh.SPARSE = 0 if listed else sparse  # All legal candidates are listed, each term with one value for each of them.
    try:
        start = time.process_time()
        for part in mesh.parts(space):
            with part.quietly():
                figures = estimate(part.plan)
            plans += part.count(figures["peak_memory_bytes"].value > 0)
        return plans, time.process_time() - start
    finally:
        mesh.SPARSE = sparse


def traced(space: Space[Any], estimate: Callable[[Any], Mapping[str, Term]]) -> int:
    """The most bytes that a search of a space holds at once."""
    import tracemalloc

    tracemalloc.start()
    try:
        timed(space, estimate)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def training_space(*, batches: int, lengths: int) -> Space[Any]:
    """Divisions of 1,024 accelerators for many batches and lengths of sequences."""
    from gpuplan.plan.parallelism import Parallelism
    from gpuplan.plan.train import TrainPlan
    from gpuplan.search import training_space as search
    from gpuplan.search.shape import shape_of

    subject = question("megatron-lm")
    plan = TrainPlan(parallel=Parallelism(), seq_len=8192.0, global_batch=2048.0, micro_batch=1.0)
    axes = {
        "tp": [1, 2, 4, 8], "pp": [1, 2, 4, 8, 16], "cp": [1, 2, 4, 8], "ep": [1], "vpp": [1, 2, 5], "micro_batch": [1, 2, 4, 8],
        "global_batch": [2048 * number for number in range(1, batches + 1)],
        "seq_len": [8192 * number for number in range(1, lengths + 1)],
    }  # fmt: skip
    shape = shape_of(subject.arch, subject.hw.count, subject.engine)
    return search.training_space(plan, axes, {"zero_stage": (1,), "recompute": ("none",)}, shape, dp=None)


def all_legal(space: Space[Any]) -> Space[Any]:
    """The space without the values that make plans illegal: pipelines of one stage, and batches that are not shared evenly."""
    largest = max(space.axes["global_batch"])
    batches = [32768 * number for number in range(1, largest // 2048 + 1)]
    return space.replaced(axes={**space.axes, "pp": [2, 4, 8], "global_batch": batches})


def training_estimate() -> Callable[[Any], Mapping[str, Term]]:
    """Memory, time, and the time and cost of a whole run of training plans."""
    from gpuplan.estimate.long_run import Run
    from gpuplan.estimate.training import training_figures

    subject, run = question("megatron-lm"), Run(tokens=1e12)

    def estimate(plan: Any) -> Mapping[str, Term]:
        figures = training_figures(subject, plan, run).figures
        if not {"step_time_s", "peak_memory_bytes", "cost_usd"} <= set(figures):
            raise LookupError("an estimate lacks memory, time or cost")
        return figures

    return estimate


def serving_space() -> Space[Any]:
    """Divisions, batches and lengths of serving."""
    from gpuplan.plan.parallelism import Parallelism
    from gpuplan.plan.serve import ServePlan, serve_rules
    from gpuplan.search.shape import shape_of
    from gpuplan.search.space import Space

    subject = question("vllm")
    shape = shape_of(subject.arch, subject.hw.count, subject.engine)

    def completed(values: Mapping[str, Any]) -> Mapping[str, Any]:
        return {**values, "dp": subject.hw.count / (values["tp"] * values["pp"]), "context": values["prompt"] + 256.0}

    degrees = Parallelism(zero_stage=0, sequence_parallel=False)
    return Space(
        plan=ServePlan(parallel=degrees, batch=1.0, prompt=1.0, output=256.0, context=1.0),
        axes={
            "tp": [1, 2, 4, 8], "pp": [1, 2, 4, 8], "batch": [4 * number for number in range(1, 65)],
            "prompt": [128 * number for number in range(1, 65)],
        },
        rules=lambda plan: serve_rules(plan, shape, subject.arch.max_context), completed=completed,
    )  # fmt: skip


def serving_estimate() -> Callable[[Any], Mapping[str, Term]]:
    """Memory, prefill and decode time, throughput and cost of serving plans."""
    from gpuplan.estimate.serving_figures import serving_figures

    subject = question("vllm")
    return lambda plan: serving_figures(subject, plan).figures


def question(engine: str) -> Subject:
    """Llama 3.1 70B on 1,024 H100 at an invented price."""
    from gpuplan.plan.ask import TrainAsk
    from gpuplan.search.library import Library

    ask = TrainAsk(model="llama-3.1-70b", on="128xdgx-h100", price=1.0, engine=engine)
    return Library.of(ask).look_up(ask, "train").subject


def targets(rounds: int) -> list[Figure]:
    """One plan on many targets of the catalog, at once and one by one."""
    from on_targets import measured

    return [Figure(*found) for found in measured(rounds)]


def loads(*, short: bool) -> list[Figure]:
    """Simulations of loads, and traces."""
    from loads import measured

    return [Figure(*found) for found in measured(short=short)]


def plans(*, short: bool) -> list[Figure]:
    """The planner over the whole catalog."""
    from plans import measured

    return [Figure(*found) for found in measured(short=short)]


def main() -> int:
    """Measure, report, and say with the exit code whether `--check` was kept."""
    parser = argparse.ArgumentParser(description="How fast is gpuplan on this machine?")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--smoke", action="store_true", help="a short run that only reports")
    mode.add_argument("--check", action="store_true", help="exit 1 when a figure misses its target")
    parser.add_argument("--rounds", type=int, default=15, help="rounds of the process timings (15)")
    given = parser.parse_args()
    rounds = 3 if given.smoke else max(given.rounds, 1)
    figures = [
        *processes(rounds),
        *questions(rounds),
        *searches(short=given.smoke),
        *targets(rounds),
        *loads(short=given.smoke),
        *plans(short=given.smoke),
    ]
    for figure in figures:
        print(figure.line())
    return int(given.check and not all(figure.held for figure in figures))


if __name__ == "__main__":
    sys.exit(main())
