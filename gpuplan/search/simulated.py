"""Which requests does a question ask to be simulated: those of its load, drawn at random, or those of a trace?"""

from __future__ import annotations

from math import ceil
from pathlib import Path

from gpuplan.errors import Problem, UsageError
from gpuplan.estimate.result import Estimate
from gpuplan.estimate.serving import ServingModel
from gpuplan.load.answer import simulated_answer
from gpuplan.load.requests import Lengths, Requests, burst, closed, open_loop
from gpuplan.load.service import Service
from gpuplan.load.simulate import simulate
from gpuplan.load.trace import Trace, read_trace
from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.plan.load import Load
from gpuplan.plan.serve import ServePlan
from gpuplan.search.api_price import told_anew
from gpuplan.search.library import Library

MOST = 3_000_000
"""Requests of one simulation: some minutes."""
OF_RATE = 5000
"""Requests that are simulated of a rate, where nobody says how many."""
ROUNDS = 20
"""Requests of each user that are simulated where nobody says how many, half of them before the steady state is told."""
FEW = 400
NOT_BESIDE_A_TRACE = (
    "concurrency", "rate", "arrival", "requests", "prompt", "output", "prompt_spread", "output_spread", "burstiness",
)  # fmt: skip


def answer_simulated(ask: ServeAsk, library: Library) -> Estimate:
    """The answer to a serving question whose load is simulated; errors as `answer_serving`, or a trace that cannot be read."""
    from gpuplan.search.serving import answer_of, settled

    if ask.pins:
        what = "--set and a simulation: steps are simulated as they are estimated"
        raise UsageError(Problem("load.pins", what, "leave --set out, or the simulation"))
    trace = None if ask.trace is None else trace_of(ask)
    asked = ask if trace is None else of_trace(ask, trace.requests)
    one = settled(asked, library)
    answer = answer_of(asked, one)
    if trace is not None:
        answer = answer.replaced(notes=(*trace.notes, *answer.notes))
    load = one.plan.load
    if load is None:
        what = "--simulate: no load comes"
        raise UsageError(Problem("load.nothing", what, "add --concurrency, --rate, --trace, or --arrival burst with --requests"))
    if not answer.verdict.fits and not answer.verdict.overloaded:
        return answer
    seed = ask.seed or 0
    requests, steady_from = _drawn(ask, load, one.plan, seed) if trace is None else (trace.requests, 0)
    model = ServingModel.of(one.subject, one.plan)
    longest = int((requests.prompt + requests.output).max())
    service = Service.of(model, longest=longest, longest_prompt=int(requests.prompt.max()))
    made = simulate(
        requests, service.lines, service.rules, replicas=int(float(one.plan.parallel.dp)), router=ask.router or "round-robin",
        host=service.host, token_host=service.token_host, steady_from=steady_from,
    )  # fmt: skip
    if not made.requests:
        what = f"none of the {len(requests):,} requests has room: the longest has {longest:,} tokens"
        raise UsageError(Problem("load.too-long", what, "use more accelerators, or shorter requests"))
    return told_anew(ask, simulated_answer(answer, made, seed=seed, ends=trace is not None))


def trace_of(ask: ServeAsk) -> Trace:
    """The trace that a question names.

    Raises:
        UsageError: it says the load in another way too, or the trace cannot be read.
    """
    beside = [f"--{name.replace('_', '-')}" for name in NOT_BESIDE_A_TRACE if getattr(ask, name) is not None]
    if beside:
        what = f"--trace and {', '.join(beside)}: the trace says when requests come and how long they are"
        raise UsageError(Problem("load.trace", what, "leave one of them out"))
    return read_trace(Path(str(ask.trace)), cached_share=ask.cached_share)


def of_trace(ask: ServeAsk, requests: Requests) -> ServeAsk:
    """The question whose steady state is that of a trace: its mean rate, mean lengths and their spread."""
    count, span = len(requests), requests.span
    prompt, output = requests.prompt, requests.output
    spreads = {
        name: float(lengths.std() / lengths.mean()) or None
        for name, lengths in (("prompt_spread", prompt), ("output_spread", output))
    }
    cached = min(float(requests.cached.sum() / prompt.sum()), 0.999) or None
    comes = {"rate": (count - 1) / span} if span > 0 else {"arrival": "burst", "requests": count}
    return ask.replaced(
        prompt=round(float(prompt.mean())), output=max(round(float(output.mean())), 1),
        context=ask.context or int((prompt + output).max()), cached_share=cached, **spreads, **comes,
    )  # fmt: skip


def _drawn(ask: ServeAsk, load: Load, plan: ServePlan, seed: int) -> tuple[Requests, int]:
    """The requests of a load, drawn at random, and the first of those whose times are told.

    Raises:
        UsageError: more than can be simulated.
    """
    prompt, output = (
        Lengths.lognormal(float(mean), cv=spread) if spread else Lengths(mean=float(mean))
        for mean, spread in ((plan.prompt, load.prompt_spread), (plan.output, load.output_spread))
    )
    users = 0 if load.concurrency is None else int(float(load.concurrency))
    count = ask.requests if ask.requests is not None else OF_RATE if load.rate is not None else max(ROUNDS * users, FEW)
    if count > MOST:
        what = f"{count:,} requests are more than the {MOST:,} that are simulated"
        raise UsageError(Problem("load.too-many", what, "simulate fewer with --requests"))
    steady_from = 0 if ask.requests is not None else ceil(count / (10 if load.rate is not None else 2))
    shared = load.cached_share
    if load.rate is not None:
        even = ask.burstiness or 1.0
        return open_loop(load.rate, count, prompt, output, burstiness=even, cached_share=shared, seed=seed), steady_from
    if load.arrival == "burst":
        return burst(count, prompt, output, cached_share=shared, seed=seed), 0
    return closed(users, count, prompt, output, cached_share=shared, seed=seed), steady_from
