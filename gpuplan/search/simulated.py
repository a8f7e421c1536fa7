"""Which requests does a question ask to be simulated: those of its load, drawn at random, or those of a trace?"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from pathlib import Path

from gpuplan.errors import Problem, UsageError
from gpuplan.estimate.pins import PACE
from gpuplan.estimate.result import Estimate
from gpuplan.estimate.serving import ServingModel
from gpuplan.load.answer import simulated_answer
from gpuplan.load.requests import Lengths, Requests, at_once, at_rate, burst, closed, of_set, open_loop
from gpuplan.load.service import Service, names_below
from gpuplan.load.simulate import Reading, simulate
from gpuplan.load.trace import Trace, read_trace
from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.plan.load import Load
from gpuplan.record import Record
from gpuplan.search.api_price import told_anew
from gpuplan.search.library import Library
from gpuplan.search.load import load_of

MOST = 3_000_000
"""Requests of one simulation: some minutes."""
OF_RATE = 5000
"""Requests that are simulated of a rate, where nobody says how many."""
ROUNDS = 20
"""Requests of each user that are simulated where nobody says how many, half of them before the steady state is told."""
FEW = 400
NOT_BESIDE_A_TRACE = ("prompt", "output", "prompt_spread", "output_spread")
"""A trace says them; where a question says how requests come, it is asked for their lengths alone."""
COMES = ("concurrency", "rate", "arrival")


def answer_simulated(ask: ServeAsk, library: Library) -> Estimate:
    """The answer to a serving question whose load is simulated; errors as `answer_serving`, or a trace that cannot be read."""
    from gpuplan.search.serving import answer_of, settled

    asked, trace = with_trace(ask)
    one = settled(asked, library)
    answer = answer_of(asked, one)
    if one.plan.load is None:
        what = "--simulate: no load comes"
        raise UsageError(Problem("load.nothing", what, "add --concurrency, --rate, --trace, or --arrival burst with --requests"))
    if not answer.verdict.fits and not answer.verdict.overloaded:
        return _traced(answer, trace)
    model = ServingModel.of(one.subject, one.plan)
    drawn = requests_of(asked, trace, model, alone=lengths_alone(ask))
    model = with_pace(model, answer)
    check_pins(answer, {"": model})
    service = Service.of(model, longest=drawn.longest, longest_prompt=drawn.longest_prompt)
    return told(ask, answer, drawn, service, trace)


def told(
    ask: ServeAsk, answer: Estimate, drawn: Drawn, service: Service, trace: Trace | None, reading: Reading | None = None
) -> Estimate:
    """An answer whose requests are simulated.

    Raises:
        UsageError: none of them has room.
    """
    seed, requests = ask.seed or 0, drawn.requests
    made = simulate(
        requests, service, reading=reading, router=ask.router or "round-robin", steady_from=drawn.steady_from, seed=seed
    )  # fmt: skip
    if not made.requests:
        what = f"none of the {len(requests):,} requests has room: the longest has {drawn.longest:,} tokens"
        raise UsageError(Problem("load.too-long", what, "use more accelerators, or shorter requests"))
    made_of = simulated_answer(answer, made, seed=seed, ends=trace is not None and not lengths_alone(ask))
    return told_anew(ask, _traced(made_of, trace))


class Drawn(Record, kw_only=True):
    """The requests of a load, and the first of those whose times are told."""

    requests: Requests
    steady_from: int

    @property
    def longest(self) -> int:
        """Tokens of the longest one."""
        return int((self.requests.prompt + self.requests.output).max())

    @property
    def longest_prompt(self) -> int:
        """Tokens of the longest prompt."""
        return int(self.requests.prompt.max())


def with_trace(ask: ServeAsk) -> tuple[ServeAsk, Trace | None]:
    """The question whose steady state is that of its trace, and the trace; as it is where there is none."""
    if ask.overlap_batches is None:
        ask = ask.replaced(overlap_batches=False)  # A choice that is left open is made of what can be simulated.
    if ask.trace is None:
        return ask, None
    trace = trace_of(ask)
    return of_trace(ask, trace.requests), trace


def requests_of(ask: ServeAsk, trace: Trace | None, model: ServingModel, *, alone: bool = False) -> Drawn:
    """The requests of a trace, or those of a load, drawn at random; `alone`: those of a load with the lengths of a trace.

    Raises:
        UsageError: more than can be simulated.
    """
    load = load_of(ask)
    if load is None:
        raise TypeError("a question without a load was asked for its requests")
    if trace is not None:
        made = _of_rows(ask, load, trace.requests, timed=not alone)
        return Drawn(requests=made.replaced(prefixes=_prefixes(load) if load.cached_share else 0), steady_from=0)
    return _drawn(ask, load, float(model.prompt().value), float(model.plan.output), ask.seed or 0)


def with_pace(model: ServingModel, answer: Estimate, at: str = "") -> ServingModel:
    """A model with the user's own values of terms, and the pace that follows from times and rates among them.

    Names of terms of workers that read prompts begin with `at`.
    """
    given = model.subject.pins
    if not given:
        return model
    paced = {name: answer.find(f"{at}{name}") for name in PACE["serve"]}
    values = {name: float(term.value) for name, term in paced.items() if term is not None}
    own = {name.removeprefix(at): value for name, value in given.items() if not at or name.startswith(at)}
    subject = model.subject.replaced(pins={**own, **values})
    return model.replaced(subject=subject, leaves=subject.leaves())


def check_pins(answer: Estimate, models: Mapping[str, ServingModel]) -> None:
    """Refuse values of terms that times of the steady state are made of, and the steps of a simulation are not.

    Raises:
        UsageError: all of them together.
    """
    names: set[str] = set()
    wrong = []
    for at, model in models.items():
        if not model.subject.pins:
            return
        names |= {f"{at}{name}" for name in names_below(model)}
    times = [answer.figures[key] for key in ("ttft_s", "tpot_s", "e2e_s", "tokens_per_s") if key in answer.figures]
    for name in next(iter(models.values())).subject.pins:
        result = name in answer.figures or any(term.name == name for term in answer.figures.values())
        if name not in names and not result and any(term.find(name) is not None for term in times):
            what = f"--set {name}: a part of the steady state, which the steps of a simulation are not made of"
            hint = "give what it is made of (`--explain` without --simulate shows that), or leave --simulate out"
            wrong.append(Problem("load.pins", what, hint))
    if wrong:
        raise UsageError(*wrong)


def _traced(answer: Estimate, trace: Trace | None) -> Estimate:
    """The answer with what is to be said of its trace."""
    if trace is None:
        return answer
    return answer.replaced(notes=(*trace.notes, *answer.notes))


def trace_of(ask: ServeAsk) -> Trace:
    """The trace that a question names.

    Raises:
        UsageError: it says the load in another way too, or the trace cannot be read.
    """
    beside = [f"--{name.replace('_', '-')}" for name in NOT_BESIDE_A_TRACE if getattr(ask, name) is not None]
    if beside:
        what = f"--trace and {', '.join(beside)}: the trace says how long requests are"
        raise UsageError(Problem("load.trace", what, "leave one of them out"))
    alone = lengths_alone(ask)
    if not alone and (extra := [f"--{name}" for name in ("requests", "burstiness") if getattr(ask, name) is not None]):
        what = f"--trace and {', '.join(extra)}: the trace says when requests come, and how many"
        raise UsageError(Problem("load.trace", what, "leave one of them out, or say how they come with --rate or --concurrency"))
    return read_trace(Path(str(ask.trace)), cached_share=ask.cached_share, timed=not alone)


def lengths_alone(ask: ServeAsk) -> bool:
    """Whether a trace is asked for the lengths of its requests alone: the question says how they come."""
    return any(getattr(ask, name) is not None for name in COMES)


def of_trace(ask: ServeAsk, requests: Requests) -> ServeAsk:
    """The question whose steady state is that of a trace: its mean rate, mean lengths and their spread."""
    count, span = len(requests), requests.span
    prompt, output = requests.prompt, requests.output
    spreads = {
        name: float(lengths.std() / lengths.mean()) or None
        for name, lengths in (("prompt_spread", prompt), ("output_spread", output))
    }
    cached = min(float(requests.cached.sum() / prompt.sum()), 0.999) or None
    # What a trace itself says of caches are the beginnings of each request's own.
    own = count if cached and ask.cached_share is None and ask.cached_prefixes is None else ask.cached_prefixes
    comes: dict[str, object] = {"rate": (count - 1) / span} if span > 0 else {"arrival": "burst", "requests": count}
    if lengths_alone(ask):
        comes = {} if ask.rate is not None or ask.requests is not None else {"requests": count}
    return ask.replaced(
        prompt=round(float(prompt.mean())), output=max(round(float(output.mean())), 1),
        context=ask.context or int((prompt + output).max()), cached_share=cached,
        cached_prefixes=own if cached else None, **spreads, **comes,
    )  # fmt: skip


def _of_rows(ask: ServeAsk, load: Load, some: Requests, *, timed: bool) -> Requests:
    """The requests of a trace as they came, or with its lengths as the load says that they come; errors as `requests_of`."""
    if timed:
        return some
    made = of_set(some, _limited(ask.requests or len(some)))
    if load.rate is not None:
        return at_rate(made, float(load.rate), burstiness=ask.burstiness or 1.0, seed=ask.seed or 0)
    if load.arrival == "burst":
        return at_once(made)
    return made.replaced(users=0 if load.concurrency is None else int(float(load.concurrency)))


def _limited(count: int) -> int:
    """So many requests; errors as `requests_of`."""
    if count > MOST:
        what = f"{count:,} requests are more than the {MOST:,} that are simulated"
        raise UsageError(Problem("load.too-many", what, "simulate fewer with --requests"))
    return count


def _drawn(ask: ServeAsk, load: Load, prompt_tokens: float, output_tokens: float, seed: int) -> Drawn:
    """The requests of a load, drawn at random; errors as `requests_of`."""
    prompt, output = (
        Lengths.lognormal(mean, cv=spread) if spread else Lengths(mean=mean)
        for mean, spread in ((prompt_tokens, load.prompt_spread), (output_tokens, load.output_spread))
    )
    users = 0 if load.concurrency is None else int(float(load.concurrency))
    count = ask.requests if ask.requests is not None else OF_RATE if load.rate is not None else max(ROUNDS * users, FEW)
    _limited(count)
    steady_from = 0 if ask.requests is not None else ceil(count / (10 if load.rate is not None else 2))
    shared = load.cached_share
    if load.rate is not None:
        even = ask.burstiness or 1.0
        made = open_loop(float(load.rate), count, prompt, output, burstiness=even, cached_share=shared, seed=seed)
    elif load.arrival == "burst":
        made, steady_from = burst(count, prompt, output, cached_share=shared, seed=seed), 0
    else:
        made = closed(users, count, prompt, output, cached_share=shared, seed=seed)
    return Drawn(requests=made.replaced(prefixes=_prefixes(load) if shared else 0), steady_from=steady_from)


def _prefixes(load: Load) -> int:
    """Different beginnings of prompts: as many as the load says, or the one that all have."""
    return 1 if load.cached_prefixes is None else max(round(load.cached_prefixes), 1)
