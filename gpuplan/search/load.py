"""Which load does a question ask for, and what is to be said of what comes of it?"""

from __future__ import annotations

from math import floor

from gpuplan.errors import Note, Problem, UsageError
from gpuplan.estimate.result import Estimate, Verdict
from gpuplan.estimate.serving_figures import ServingFigures
from gpuplan.estimate.under_load import UnderLoad
from gpuplan.models.architecture import Architecture
from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.plan.load import Load
from gpuplan.plan.serve import ServePlan
from gpuplan.plan.words import Arrival
from gpuplan.units import human

NAMES = (
    "concurrency", "rate", "arrival", "requests", "cached_share", "cached_prefixes", "prompt_spread", "output_spread", "simulate",
    "trace", "burstiness", "router", "seed",
)  # fmt: skip
"""The options of a load."""
SIMULATED = ("burstiness", "router", "seed")
"""What only a simulation draws or does."""
WHAT_COMES = "--concurrency, --rate, or --arrival burst with --requests"


def load_of(ask: ServeAsk) -> Load | None:
    """The load that a question asks for; None: none.

    Raises:
        UsageError: options that contradict each other, or that mean nothing without another; all of them together.
    """
    given = {name: getattr(ask, name) for name in NAMES if getattr(ask, name) is not None}
    if not given:
        return None
    problems = list(_problems(ask, given))
    if problems:
        raise UsageError(*problems)
    arrival: Arrival = ask.arrival or ("poisson" if ask.rate is not None else "closed")
    concurrency = ask.requests if arrival == "burst" else ask.concurrency
    if concurrency is not None and ask.requests is not None:
        concurrency = min(concurrency, ask.requests)
    return Load(
        arrival=arrival, concurrency=None if concurrency is None else float(concurrency), rate=ask.rate,
        requests=None if ask.requests is None else float(ask.requests), cached_share=ask.cached_share or 0.0,
        cached_prefixes=None if ask.cached_prefixes is None else float(ask.cached_prefixes),
        prompt_spread=ask.prompt_spread or 0.0, output_spread=ask.output_spread or 0.0,
        evenness_said=ask.output_spread is not None,
    )  # fmt: skip


def _problems(ask: ServeAsk, given: dict[str, object]) -> list[Problem]:
    """What is wrong with the options of a load."""
    found: list[Problem] = []

    def wrong(code: str, message: str, hint: str) -> None:
        found.append(Problem(f"load.{code}", message, hint))

    alone = [f"--{name}" for name in SIMULATED if getattr(ask, name) is not None]
    if alone and not (ask.simulate or ask.trace):
        wrong("simulated", f"{', '.join(alone)}: nothing is simulated", "add --simulate")
    if ask.burstiness is not None and ask.rate is None:
        wrong("burstiness", "--burstiness: requests come as others end, not at a rate", "use it with --rate")
    if ask.cached_prefixes is not None and ask.cached_share is None and ask.trace is None:
        wrong("prefixes", "--cached-prefixes: nothing of the prompts is in a cache", "add --cached-share")
    if ask.batch is not None:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        wrong("batch", f"--batch and {flags}: the load says how many run at once", "leave --batch out, or the load")
    if ask.concurrency is not None and ask.rate is not None:
        hint = "leave one of them out; --max-sequences limits what runs at once"
        wrong("twice", "--concurrency and --rate: requests come either as others end, or at a rate", hint)
    if ask.arrival == "burst":
        if ask.requests is None:
            wrong("burst", "--arrival burst: how many come at once?", "add --requests")
        if ask.concurrency is not None or ask.rate is not None:
            wrong("burst", "--arrival burst: all --requests come at once", "leave --concurrency and --rate out")
    elif ask.concurrency is None and ask.rate is None:
        wrong("nothing", f"{', '.join(f'--{name}'.replace('_', '-') for name in given)}: nothing comes", f"add {WHAT_COMES}")
    if ask.arrival == "closed" and ask.rate is not None:
        wrong("closed", "--arrival closed: requests come as others end, at no rate of their own", "use --concurrency")
    if ask.arrival == "poisson" and ask.concurrency is not None:
        wrong("poisson", "--arrival poisson: how many come a second?", "use --rate in place of --concurrency")
    return found


def refuse_load_of_reader(ask: ServeAsk, arch: Architecture) -> None:
    """Refuse what is not modelled of the load of a model that only reads.

    Raises:
        UsageError: more than a rate or how many are in flight is asked for.
    """
    more = [name for name in NAMES if name not in ("rate", "concurrency", "arrival") and getattr(ask, name) is not None]
    if arch.generates or not (more or ask.arrival == "burst"):
        return
    flags = ", ".join(f"--{name.replace('_', '-')}" for name in more) or "--arrival burst"
    what = f"{flags}: of a model that only reads, requests at a rate or so many in flight are modelled"
    raise UsageError(Problem("load.reads", what, "ask with --rate or --concurrency alone"))


def refuse_workers_of_reader(arch: Architecture) -> None:
    """Refuse workers that write what others read, of a model that only reads.

    Raises:
        UsageError: the model writes nothing.
    """
    if not arch.generates:
        what = "a model that only reads has no workers of two kinds: it writes no answers"
        raise UsageError(
            Problem("disaggregated.reads", what, "leave --prefill-… and --decode-… out; --dp says how many replicas read")
        )


def notes_of_reader(load: Load, made: ServingFigures) -> list[Note]:
    """What a reader must know of the times of a model that only reads, where there are any."""
    if "latency_s" not in made.figures:
        return []
    if load.rate is None:
        text = "latency_s is of users who ask again at once: while one half of them is read, the other half waits"
    else:
        text = "latency_s is the mean of requests that come at random (Poisson) and are read together where several wait"
    return [Note("load.steady", text)]


TOLD = {"ttft": "to the first token", "tpot": "of a token", "itl": "between two tokens", "e2e": "of a whole request"}
"""Times whose percentiles are told, in words."""


def percentile_notes(made: ServingFigures) -> list[Note]:
    """Which percentiles the steady state does not tell, because no bound of their error is known."""
    if made.loaded is None:
        return []
    known = {name: [part for part in PARTS if f"{name}_{part}_s" in made.figures] for name in TOLD}
    if not any(known.values()):
        text = "percentiles of such a load are not told without a simulation: how far off they were is not known"
        return [Note("load.percentiles", text, "add --simulate")]
    left = [f"{', '.join(part for part in PARTS if part not in known[name])} of the time {words}" for name, words in TOLD.items()
            if len(known[name]) < len(PARTS)]  # fmt: skip
    return [Note("load.percentiles", f"not told without a simulation: {'; '.join(left)}", "add --simulate")] if left else []


def of_load(answer: Estimate, plan: ServePlan, made: ServingFigures) -> Estimate:
    """The answer about a load, as far as it is doubtful, and with what breaks first where more requests come than are kept."""
    told = made.loaded is not None or "utilization" in made.figures
    return overloaded(narrowly(answer) if told else answer, plan, made)


def narrowly(answer: Estimate) -> Estimate:
    """An answer about a load as far as it is doubtful: if it fits, and of a rate if it is kept, else times have no high end."""
    if answer.verdict.narrowly:
        text = "times and rates are those if it fits: without room for a request the engine does not start"
        answer = answer.replaced(notes=(*answer.notes, Note("load.if-fits", text)))
    if "utilization" not in answer.figures:
        return answer  # no rate, or a run that ends: whatever waits in it is bounded
    answer = answer.replaced(filled=("utilization",))
    if answer.surely_bounded() or not any(answer.no_bound(key) for key in ("ttft_s", "latency_s")):
        return answer
    low, _ = answer.ranges["highest_rate_per_s"]
    text = f"it may not keep up: as little as {rate_text(low)} may be all that is kept, and then requests wait without bound"
    return answer.replaced(notes=(*answer.notes, Note("load.narrowly", text)))


PARTS = ("p50", "p90", "p95", "p99")
MOST_OF = 0.5
"""The share of a first token from which on a wait that hangs on what nobody said is told."""


def load_notes(load: Load, made: ServingFigures) -> list[Note]:
    """What a reader must know of the figures of a load."""
    most = made.figures.get("highest_rate_per_s")
    if made.loaded is None:
        return [Note("load.over", "the queue grows without end: no time to the first token is told", "")]
    notes = []
    if most is not None and load.requests is not None:
        text = f"ttft_s and the like are means over all {load.requests:g} requests of a run that begins and ends with none"
    elif most is not None:
        text = "ttft_s and the like are means of the steady state, of requests that come at random (Poisson)"
    elif load.requests is None:
        text = "ttft_s and the like are means of the steady state; a run whose first requests come at once is told by --requests"
    else:
        text = (
            f"ttft_s is the mean over all {load.requests:g} requests, the first of which come at once; the rest is the steady state"
        )
    notes.append(Note("load.steady", text))
    if load.arrival == "closed" and not load.evenness_said and _wait_for_each_other(made.loaded):
        text = "first tokens are of answers of one length, whose users wait for each other: --output-spread says if they are"
        notes.append(Note("load.together", text, "0: all of one length; 0.3 and more: lengths differ"))
    waiting = float(made.loaded.parts["place"].value)
    if load.concurrency is not None and waiting > 0:
        notes.append(Note("load.waits", f"more are in flight than there are places: a request waits {human(waiting, 's')} for one"))
    return notes


def _wait_for_each_other(loaded: UnderLoad) -> bool:
    """Whether most of a closed loop's time to the first token is the wait for prompts that come together."""
    wait = loaded.parts.get("other_prompts")
    apart = None if wait is None else dict(wait.args).get("apart")
    return wait is not None and apart is not None and float(wait.value) - float(apart.value) > MOST_OF * float(loaded.first.value)


def overloaded(answer: Estimate, plan: ServePlan, made: ServingFigures) -> Estimate:
    """The answer where more requests come than the plan keeps: what breaks first, and how many replicas would keep it.

    A run of so many requests ends all the same, and its times are told beside.
    """
    if not answer.verdict.fits or plan.load is None or plan.load.rate is None:
        return answer
    most = float(answer.figures["highest_rate_per_s"].value)
    if most > plan.load.rate and (made.loaded is not None or "latency_s" in answer.figures):
        return answer
    p = plan.parallel
    replicas = float(p.dp / p.attention_dp)
    needed = floor(plan.load.rate * replicas / most) + 1
    each = float(p.tp * p.pp * p.attention_dp)
    what, binding = _breaks_first(answer, made, float(p.attention_dp))
    line = (
        f"does not keep up: {rate_text(float(plan.load.rate))} come and {rate_text(most)} are kept at most by"
        f" {replicas:g} replica{'s' if replicas != 1 else ''}, {what}; {needed:,} replicas keep it,"
        f" {needed * each:,.0f} accelerators"
    )
    return answer.replaced(verdict=Verdict(False, line, binding, overloaded=True))


def _breaks_first(answer: Estimate, made: ServingFigures, ranks: float) -> tuple[str, str]:
    """What is full of a replica of so many ranks of attention, and the term that says so."""
    passes = answer.find("load.in_pass")
    if made.decode is None and passes is not None and made.whole is not None:
        count = float(passes.value)
        return f"whose passes read {count:,.3g} sequence{'' if count == 1 else 's'} each", made.whole.seconds.name
    room = answer.find("load.places")
    limit = float(made.memory.limit.value)
    if room is not None and float(room.value) < limit:
        return f"whose caches hold {float(room.value) * ranks:,.0f} sequences each", room.name
    return f"each of which runs {limit * ranks:,.0f} sequences at once as the engine is set", made.memory.limit.name


def rate_text(rate: float) -> str:
    """A rate of requests in words: a second, or a minute where they are few.

    >>> rate_text(12.34), rate_text(1e9), rate_text(0.001), rate_text(1)
    ('12.3 requests/s', '1,000,000,000 requests/s', '0.06 requests/min', '1 request/s')
    """
    slow = rate < 0.1
    value = rate * 60 if slow else rate
    told = f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
    return f"{told} request{'' if told == '1' else 's'}/{'min' if slow else 's'}"
