"""How fast is gpuplan, as ratios and rates of one run on this machine?

    python benchmarks/bench.py            measure and report
    python benchmarks/bench.py --smoke    a short run that only reports
    python benchmarks/bench.py --check    exit 1 when a figure misses its target

Whole processes are timed in turns with the reference, so that a slow moment of the machine hits both; medians are compared.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

# One core: set before numpy is imported anywhere below.
os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    from gpuplan.estimate.subject import Subject
    from gpuplan.plan.train import TrainPlan

REFERENCE = "import typer, pydantic, yaml"
FIT = ("fit", "llama-3.1-8b", "--on", "h100")
HELP = ("--help",)
FIT_TARGET, HELP_TARGET, GRID_TARGET = 1.8, 1.5, 200_000.0
"""At most so many times the reference; at least so many plans a second."""
GRID_PLANS = 100_000
CHUNK = 8_192
"""Plans of one call: the arrays of a chunk stay in the cache."""


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


def medians(commands: Mapping[str, Sequence[str]], rounds: int) -> dict[str, float]:
    """Median seconds of whole processes, run in turns after one unmeasured round that fills the file cache.

    Raises:
        SystemExit: a command fails.
    """
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    with tempfile.TemporaryDirectory() as empty:
        env = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
        for turn in range(rounds + 1):
            for name, command in commands.items():
                start = time.perf_counter()
                done = subprocess.run(
                    command, cwd=empty, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False
                )
                took = time.perf_counter() - start
                if done.returncode != 0:
                    sys.exit(f"`{' '.join(command)}` ended with {done.returncode}:\n{done.stderr}")
                if turn:
                    seconds[name].append(took)
    return {name: statistics.median(took) for name, took in seconds.items()}


def processes(rounds: int) -> list[Figure]:
    """How many times longer than importing typer, pydantic and yaml `fit` and `--help` take."""
    program = shutil.which("gpuplan", path=str(Path(sys.executable).parent)) or shutil.which("gpuplan")
    if program is None:
        sys.exit("gpuplan is not installed beside this Python: run `pip install .`")
    reference = "reference"
    took = medians({reference: (sys.executable, "-c", REFERENCE), "fit": (program, *FIT), "help": (program, *HELP)}, rounds)
    figures = []
    for name, words, target in (("fit", FIT, FIT_TARGET), ("help", HELP, HELP_TARGET)):
        ratio = took[name] / took[reference]
        text = f"{ratio:.2f} x ({took[name] * 1e3:.0f} ms over {took[reference] * 1e3:.0f} ms)"
        figures.append(Figure(f"gpuplan {' '.join(words)}", ratio, target, True, text))
    return figures


def grid(plans: int) -> Figure:
    """Plans a second of a training grid with memory, time and cost, on one core."""
    name = f"training grid of {plans:,} plans"
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    try:
        evaluate = grid_call()
    except (ImportError, LookupError) as error:
        return Figure(name, None, GRID_TARGET, False, "", str(error))
    chunks = list(candidates(plans))
    evaluate(chunks[0])
    start = time.perf_counter()
    done = sum(evaluate(chunk) for chunk in chunks)
    took = time.perf_counter() - start
    return Figure(name, done / took, GRID_TARGET, False, f"{done / took:,.0f} plans a second ({done:,} in {took:.2f} s)")


def grid_call() -> Callable[[TrainPlan], int]:
    """What evaluates a chunk of plans and says how many there were.

    Until the search has a function for a chunk, this is the estimator that the search calls, with memory, time and cost.

    Raises:
        ImportError, LookupError: a part of gpuplan or of its data is not there.
    """
    from gpuplan.estimate.training import training_figures

    subject = question()

    def evaluate(plan: TrainPlan) -> int:
        figures = training_figures(subject, plan, 1e12).figures
        for key in ("step_time_s", "peak_memory_bytes", *(key for key in figures if "cost" in key)):
            if not len(figures[key].value) == len(plan.micro_batch):  # type: ignore[arg-type]
                raise LookupError(f"{key} does not hold one value for each plan")
        return len(plan.micro_batch)  # type: ignore[arg-type]

    return evaluate


def question() -> Subject:
    """Llama 3.1 70B on 1,024 H100 with Megatron-LM, at an invented price."""
    from gpuplan.errors import GpuplanError
    from gpuplan.estimate.subject import Subject
    from gpuplan.machine.hardware import Hardware
    from gpuplan.models.catalog import find
    from gpuplan.specs.catalog import Catalog
    from gpuplan.specs.engine import Engine
    from gpuplan.specs.target import parse_target
    from gpuplan.term import Source, Term

    try:
        catalog = Catalog.open(env={})
        card = find("llama-3.1-70b")
        return Subject(
            model_name=card.id,
            arch=card.architecture,
            counts=card.count(),
            card=card.source,
            hw=Hardware.of(parse_target("128xdgx-h100", catalog), catalog=catalog),
            engine=catalog.load(Engine, "megatron-lm"),
            price=Term("hw.price", 1e-3, "USD/s", Source("assumed", "a price to multiply with")),
        )
    except GpuplanError as error:
        raise LookupError(str(error).partition("\n")[0]) from error


def candidates(plans: int) -> Iterator[TrainPlan]:
    """So many plans for 1,024 accelerators in chunks: degrees and batches drawn with a fixed seed."""
    import numpy

    from gpuplan.plan.parallelism import Parallelism
    from gpuplan.plan.train import TrainPlan

    draw = numpy.random.default_rng(0)

    def power(most: int, size: int) -> NDArray[numpy.float64]:
        return numpy.exp2(draw.integers(0, most + 1, size).astype(numpy.float64))

    for start in range(0, plans, CHUNK):
        size = min(CHUNK, plans - start)
        tp, pp, cp = power(3, size), power(3, size), power(1, size)
        micro_batch, batches = power(3, size), power(4, size)
        dp = 1024.0 / (tp * pp * cp)
        parallel = Parallelism(tp=tp, pp=pp, cp=cp, dp=dp, ep=numpy.ones(size), vpp=numpy.ones(size))
        yield TrainPlan(
            parallel=parallel,
            seq_len=4096.0 * power(2, size),
            micro_batch=micro_batch,
            global_batch=micro_batch * dp * batches,
            recompute="selective",
        )


def main() -> int:
    """Measure, report, and say with the exit code whether `--check` was kept."""
    parser = argparse.ArgumentParser(description="How fast is gpuplan on this machine?")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--smoke", action="store_true", help="a short run that only reports")
    mode.add_argument("--check", action="store_true", help="exit 1 when a figure misses its target")
    parser.add_argument("--rounds", type=int, default=15, help="rounds of the process timings (15)")
    given = parser.parse_args()
    rounds, plans = (3, 2 * CHUNK) if given.smoke else (max(given.rounds, 1), GRID_PLANS)
    figures = [*processes(rounds), grid(plans)]
    for figure in figures:
        print(figure.line())
    return int(given.check and not all(figure.held for figure in figures))


if __name__ == "__main__":
    sys.exit(main())
