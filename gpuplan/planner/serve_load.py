"""Which load is a fleet for: a rate, users in flight, people who ask now and then, or the busiest minutes of a trace?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuplan.errors import Note, Problem, UsageError
from gpuplan.plan.ask_goal import PlanServeAsk, Promised
from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.planner.promise import Promise
from gpuplan.record import Record
from gpuplan.units import so_many

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from gpuplan.models.card import ModelCard

PER_USER = 1 / 60
"""Requests a second of one user who is there: a question a minute. The usual answer of 256 tokens is 192 words, which take 48 s to
read at 238 words a minute (M. Brysbaert, How many words do we read per minute?, Journal of Memory and Language 109, 2019)."""
TTFT, TPOT = 2.0, 0.2
RULES = "MLPerf Inference's Llama 2 70B, conversational (https://github.com/mlcommons/inference_policies/blob/master/inference_rules.adoc)"
"""What is promised where nobody says: tokens come as fast as people read."""
READ = 0.13
READ_RULES = (
    "MLPerf Inference's BERT until 4.1"
    " (https://github.com/mlcommons/inference_policies/blob/f892cf0cde9accd922a81c96baeb5dcbb0c23d36/inference_rules.adoc)"
)
"""The same of a model that only reads."""
WINDOW = 300.0
"""Seconds of a trace over which its rate is told: about as fast as fleets grow, as weights must be read first."""
LOADS = "--rate, --concurrency, --users or --trace"


class Loaded(Record, eq=False, kw_only=True):
    """The question of a machine with the lengths of its requests, how many come, and what is to be said of it."""

    run: ServeAsk
    rate: float | None
    users: float | None
    """Requests in flight at all times, where no rate is given."""
    notes: tuple[Note, ...] = ()
    rates: NDArray[np.float64] | None = None
    """Requests a second of each window of a trace."""
    mean: float | None = None
    """Requests a second in the mean, where the user says so beside the peak."""

    @property
    def usual(self) -> float | None:
        """Requests a second in the mean: as is said, of the trace, or of a load that is always the same."""
        if self.mean is not None:
            return self.mean
        return self.rate if self.rates is None or not self.rates.size else float(self.rates.mean())


def loaded(goal: PlanServeAsk, run: ServeAsk) -> Loaded:
    """The load that a question asks for.

    Raises:
        UsageError: none, more than one, or a trace that cannot be read.
    """
    given = {"--rate": run.rate, "--concurrency": run.concurrency, "--users": goal.users, "--trace": run.trace}
    named = [flag for flag, value in given.items() if value is not None]
    if len(named) != 1:
        what = f"{' and '.join(named)}: each of them says how much comes" if named else "how much comes? Nothing says so"
        raise UsageError(Problem("plan.load", what, "leave one of them out" if named else f"add {LOADS}"))
    if goal.mean_rate is not None and (run.rate is None or goal.mean_rate > run.rate):
        what = "--mean-rate is that of a load whose peak --rate says"
        raise UsageError(Problem("plan.load", what, f"add a --rate of {goal.mean_rate:g}/s or more"))
    if goal.requests_per_user is not None and goal.users is None:
        raise UsageError(Problem("plan.load", "--requests-per-user: of which users?", "add --users"))
    plain = run.replaced(rate=None, concurrency=None, trace=None)
    if run.trace is not None:
        return _of_trace(run)
    if goal.users is not None:
        each = PER_USER if goal.requests_per_user is None else goal.requests_per_user
        notes: tuple[Note, ...] = ()
        if goal.requests_per_user is None:
            often = f"{goal.users * each:.3g} requests a second"
            text = f"each of the {so_many(goal.users, 'user')} is taken to ask once a minute: {often}"
            notes = (Note("plan.users", text, "say how often with --requests-per-user"),)
        return Loaded(run=plain, rate=goal.users * each, users=None, notes=notes)
    users = None if run.concurrency is None else float(run.concurrency)
    return Loaded(run=plain, rate=run.rate, users=users, mean=goal.mean_rate)


def promised(goal: Promised, *, reads: bool = False) -> tuple[Promise, tuple[Note, ...]]:
    """What is promised, and what is to be said where nobody says; `reads`: the model makes no tokens.

    Raises:
        UsageError: something is promised of what there is none of.
    """
    if reads:
        return _of_reader(goal)
    if goal.ttft is goal.tpot is goal.e2e is None:
        text = f"a first token within {TTFT:g} s and each other within {1000 * TPOT:g} ms is taken as promised, as by {RULES}"
        return Promise(ttft=TTFT, tpot=TPOT, percent=goal.p), (
            Note("plan.promise", text, "promise otherwise with --ttft, --tpot, --e2e"),
        )
    return Promise(ttft=goal.ttft, tpot=goal.tpot, e2e=goal.e2e, percent=goal.p), ()


def _of_reader(goal: Promised) -> tuple[Promise, tuple[Note, ...]]:
    """The same of a model that only reads, of whose requests the whole is promised, in the mean."""
    problems = []
    times = [f"--{name}" for name in ("ttft", "tpot") if getattr(goal, name) is not None]
    if times:
        what = f"{' and '.join(times)}: a model that only reads makes no tokens"
        problems.append(Problem("plan.reads", what, "promise the time of a whole request with --e2e"))
    if goal.p is not None:
        what = f"--p {goal.p:g}: of a model that only reads the mean is told"
        problems.append(Problem("plan.percent", what, "leave --p out"))
    if problems:
        raise UsageError(*problems)
    if goal.e2e is not None:
        return Promise(e2e=goal.e2e, reads=True), ()
    text = f"a mean time of {1000 * READ:g} ms is taken as promised, that in which 99 in 100 are answered by {READ_RULES}"
    return Promise(e2e=READ, reads=True), (Note("plan.promise", text, "promise otherwise with --e2e"),)


def refuse_two_stacks(run: ServeAsk, card: ModelCard) -> None:
    """Refuse a model that reads with one stack and writes with another, of which no load is modelled.

    Raises:
        UsageError: it has two stacks.
    """
    if not card.architecture.two_stacks:
        return
    where = f"compare serve {card.id} --on l4,l40s,h100" if run.on == "any" else f"serve {card.id} --on {run.on}"
    what = f"{card.id} reads with an encoder and writes with a decoder: what comes of a stream of requests to one is not modelled"
    told = "how fast a whole batch is read and written"
    if card.architecture.frame_ms is not None or card.architecture.source_tokens:
        told = "how many seconds of sound are written down in a second"
    raise UsageError(Problem("plan.two-stacks", what, f"`gpuplan {where}` says {told}"))


def refuse_of_reader(goal: PlanServeAsk, run: ServeAsk) -> None:
    """Refuse what is not looked for of a model that only reads.

    Raises:
        UsageError: all of it together.
    """
    told = {"--pools": goal.pools, "--front": goal.front, "--trace": run.trace, "--output": run.output}
    named = [flag for flag, given in told.items() if given]
    if named:
        what = f"{' and '.join(named)}: not of a model that only reads, whose requests have no tokens that are made"
        hint = "say how much comes with --rate or --users, and how long texts are with --prompt"
        raise UsageError(Problem("plan.reads", what, hint if run.trace else f"leave {' and '.join(named)} out"))


def _of_trace(run: ServeAsk) -> Loaded:
    """The busiest window of a trace, with the lengths of all its requests."""
    import numpy as np

    from gpuplan.search.simulated import of_trace, trace_of

    trace = trace_of(run)
    requests = trace.requests
    asked = of_trace(run, requests)
    times = np.asarray(requests.arrival, dtype=np.float64)
    times = times - times[0]
    span = max(float(times[-1]), 1e-9)
    windows = max(int(np.ceil(span / WINDOW)), 1)
    width = span / windows if windows == 1 else WINDOW
    counts = np.bincount(np.minimum((times / width).astype(np.int64), windows - 1), minlength=windows)
    rates = counts / width
    peak, mean = float(rates.max()), len(requests) / span
    text = (
        f"the trace has {so_many(len(requests), 'request')} over {span / 3600:.3g} h, {mean:.3g} a second in the mean"
        f" and {peak:.3g} in its"
        f" busiest {width / 60:.3g} minutes, which the fleet is for"
    )
    plain = asked.replaced(rate=None, concurrency=None, trace=None, arrival=None, requests=None)
    return Loaded(run=plain, rate=peak, users=None, notes=(*trace.notes, Note("plan.trace", text)), rates=rates)
