"""How fast are simulations of a load and readers of traces: a day of a million requests, and how both grow with their number?"""

from __future__ import annotations

import csv
import tempfile
import time
import tracemalloc
from pathlib import Path
from typing import Any, TypeAlias

Found: TypeAlias = tuple[str, float, float, bool, str]
"""Name, value, target, whether it is at most that, and what to say."""

DAY = 86_400.0
MILLION = 1_000_000
DAY_TARGET, GROWTH_TARGET, READING_TARGET, ROW_TARGET = 60.0, 1.4, 20.0, 300.0
"""At most so many seconds for a day of a million requests, times the time of a request for ten times as many of them, times what
Python's own reader takes of a file, and bytes of memory for each row of a trace."""


def measured(*, short: bool) -> list[Found]:
    """Every figure."""
    return [*simulations(short=short), *readers(short=short)]


def simulations(*, short: bool) -> list[Found]:
    """Parts of a day of a million requests on a fleet: lengths as of a chat, at random through the day."""
    few, many = (MILLION // 250, MILLION // 25) if short else (MILLION // 100, MILLION // 10)
    service = fleet()
    simulated(service, few)
    once, tenfold = (simulated(service, count) for count in (few, many))
    growth = (tenfold / many) / (once / few)
    whole = tenfold / many * MILLION
    return [
        ("a day of a million requests", whole, DAY_TARGET, True, f"{whole:.0f} s ({many:,} of them in {tenfold:.2f} s)"),
        ("ten times the requests", growth, GROWTH_TARGET, True, f"{growth:.2f} x the time of each"),
    ]


def fleet() -> Any:
    """A replica of Llama 3.1 8B on an H100, as vLLM runs it."""
    from gpuplan.estimate.serving import ServingModel
    from gpuplan.load.service import Service
    from gpuplan.plan.ask_serving import ServeAsk
    from gpuplan.search.library import Library
    from gpuplan.search.serving import settled

    ask = ServeAsk(model="llama-3.1-8b", on="h100", tp=1, prompt=1000, output=250, rate=1.0)
    one = settled(ask, Library.of(ask))
    return Service.of(ServingModel.of(one.subject, one.plan), longest=32768, longest_prompt=16384)


def simulated(service: Any, count: int) -> float:
    """Processor seconds of so many requests, at the rate of a million a day."""
    from gpuplan.load.requests import Lengths, open_loop
    from gpuplan.load.simulate import simulate

    prompt, output = Lengths.lognormal(1000, cv=1.0), Lengths.lognormal(250, cv=1.0)
    asked = open_loop(MILLION / DAY, count, prompt, output)
    asked = asked.replaced(prompt=asked.prompt.clip(max=16384), output=asked.output.clip(max=16384))
    start = time.process_time()
    made = simulate(asked, service.replaced(replicas=4))
    took = time.process_time() - start
    if made.requests != count or not made.keeps_up:
        raise SystemExit("the simulated fleet does not keep up")
    return took


def readers(*, short: bool) -> list[Found]:
    """A trace in the columns of Azure's, against Python's own reader of the same file."""
    from gpuplan.load.trace import read_trace

    rows = 50_000 if short else 500_000
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.csv"
        with path.open("w") as file:
            file.write("TIMESTAMP,ContextTokens,GeneratedTokens\n")
            for at in range(rows):
                when = f"2023-11-16 {at // 36_000 % 24:02d}:{at // 600 % 60:02d}:{at // 10 % 60:02d}.{at % 10}799600"
                file.write(f"{when},{at % 4000 + 1},{at % 300 + 1}\n")
        start = time.process_time()
        read_trace(path)
        took = time.process_time() - start
        start = time.process_time()
        with path.open(newline="") as file:
            for _ in csv.reader(file):
                pass
        plain = time.process_time() - start
        tracemalloc.start()
        read_trace(path)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    seconds = took / rows * MILLION
    return [
        ("a trace", took / plain, READING_TARGET, True, f"{took / plain:.1f} x Python's reader ({seconds:.1f} s a million rows)"),
        ("memory of a trace", peak / rows, ROW_TARGET, True, f"{peak / rows:.0f} bytes a row"),
    ]
