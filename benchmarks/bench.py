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
    from gpuplan.search.grid import Candidates

REFERENCE = "import typer, pydantic, yaml"
FIT = ("fit", "llama-3.1-8b", "--on", "h100")
HELP = ("--help",)
LIST = ("specs", "list")
FIT_TARGET, HELP_TARGET, LIST_TARGET, GRID_TARGET = 1.6, 1.5, 2.0, 200_000.0
"""At most so many times the reference; at least so many plans a second."""
GRID_PLANS = 100_000


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured figure and its target; `value` is None where it could not be measured, and `why` says so."""

    name: str
    value: float | None
    target: float
    at_most: bool
    text: str
    why: str = ""

    @property
    def held(self) -> bool:
        """Whether the target is reached; what could not be measured is not."""
        return self.value is not None and (self.value <= self.target if self.at_most else self.value >= self.target)

    def line(self) -> str:
        """The figure as one line of the report."""
        sign = "<=" if self.at_most else ">="
        mark = "ok  " if self.held else "MISS"
        found = self.text if self.value is not None else f"not measured ({self.why})"
        return f"{mark} {self.name}: {found}; target {sign} {self.target:,g}"


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


def grid(plans: int) -> Figure:
    """Plans a second of a training grid with memory, time and cost, on one core."""
    name = f"training grid of {plans:,} plans"
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    from gpuplan.errors import GpuplanError

    try:
        evaluate, chunks = grid_call(plans)
        evaluate(chunks[0])
    except (ImportError, LookupError, GpuplanError) as error:
        return Figure(name, None, GRID_TARGET, False, "", str(error).partition("\n")[0])
    start = time.perf_counter()
    done = sum(evaluate(chunk) for chunk in chunks)
    took = time.perf_counter() - start
    return Figure(name, done / took, GRID_TARGET, False, f"{done / took:,.0f} plans a second ({done:,} in {took:.2f} s)")


def grid_call(plans: int) -> tuple[Callable[[Candidates], int], list[Candidates]]:
    """What evaluates a chunk of the search's candidates, and as many of those as are wanted.

    The search scores a chunk by memory and time alone; here the run's cost is asked for as well.

    Raises:
        ImportError, GpuplanError: a part of gpuplan or of its data is not there.
    """
    import numpy

    from gpuplan.estimate.long_run import Run
    from gpuplan.estimate.training import training_figures
    from gpuplan.search.grid import CHUNK, Space, candidates
    from gpuplan.search.shape import shape_of

    subject = question()
    space = Space(
        degrees={
            "tp": [1, 2, 4, 8], "pp": [1, 2, 4, 8, 16], "cp": [1, 2, 4, 8], "ep": [1], "vpp": [1, 2, 5],
            "micro_batch": [1, 2, 4, 8],
        },
        seq_len=8192, global_batch=2048, zero_stages=(1,), recomputes=("none",), precision="bf16", optimizer="adamw",
        sequence_parallel=True, ranks=subject.hw.count,
    )  # fmt: skip
    legal = next(candidates(space, shape_of(subject.arch, space.ranks)))
    every = legal.part(numpy.arange(plans) % len(legal))

    def evaluate(chunk: Candidates) -> int:
        figures = training_figures(subject, chunk.plan(space), run=Run(tokens=1e12)).figures
        for key in ("step_time_s", "peak_memory_bytes", "cost_usd"):
            if numpy.shape(figures[key].value) != (len(chunk),):
                raise LookupError(f"{key} does not hold one value for each plan")
        return len(chunk)

    return evaluate, [every.part(slice(start, start + CHUNK)) for start in range(0, plans, CHUNK)]


def question() -> Subject:
    """Llama 3.1 70B on 1,024 H100 with Megatron-LM, at an invented price."""
    from gpuplan.plan.ask import TrainAsk
    from gpuplan.search.library import Library

    ask = TrainAsk(model="llama-3.1-70b", on="128xdgx-h100", price=1.0)
    return Library.of(ask).look_up(ask, "train").subject


def main() -> int:
    """Measure, report, and say with the exit code whether `--check` was kept."""
    parser = argparse.ArgumentParser(description="How fast is gpuplan on this machine?")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--smoke", action="store_true", help="a short run that only reports")
    mode.add_argument("--check", action="store_true", help="exit 1 when a figure misses its target")
    parser.add_argument("--rounds", type=int, default=15, help="rounds of the process timings (15)")
    given = parser.parse_args()
    rounds, plans = (3, GRID_PLANS // 5) if given.smoke else (max(given.rounds, 1), GRID_PLANS)
    figures = [*processes(rounds), *questions(rounds), grid(plans)]
    for figure in figures:
        print(figure.line())
    return int(given.check and not all(figure.held for figure in figures))


if __name__ == "__main__":
    sys.exit(main())
