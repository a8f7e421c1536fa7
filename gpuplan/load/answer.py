"""What does a simulated load say, as figures beside those of the steady state?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpuplan.errors import Note
from gpuplan.estimate.result import Estimate, Verdict
from gpuplan.formulas.simulation import simulated_count, simulated_rate, simulated_seconds
from gpuplan.load.simulate import Simulated, Spread
from gpuplan.term import Formula, Source, Term
from gpuplan.units import human

SPREADS = {"ttft": "ttft_s", "tpot": "tpot_s", "itl": "itl_s", "e2e": "e2e_s"}
"""Times that are told with their percentiles, and the figures of the steady state that they are multiples of."""
STEADY = ("load.steady", "load.waits", "load.over", "load.percentiles", "disaggregated.steady")
"""Notes that say something of the steady state alone."""
FORMULAS: Mapping[str, Formula[...]] = {"s": simulated_seconds, "1/s": simulated_rate, "1": simulated_count}


def simulated_answer(answer: Estimate, made: Simulated, *, seed: int, ends: bool = False) -> Estimate:
    """An answer whose figures under load are those of a simulation of it, with the range that the estimate of its steps has.

    A figure that the steady state has too keeps its working and its doubt: it is that one, times what the simulation found it is
    of that. `ends`: there are no other requests than these, so that what is kept in their time is kept.
    """
    source = Source("derived", f"simulation of {made.requests:,} requests, step by step", note=f"seed {seed}")
    figures: dict[str, Term] = {}
    swaps: dict[int, Term] = {}
    for key, value, unit, steady in _found(made, ends=ends):
        base = answer.figures.get(steady)
        if base is None or base.unit != unit or not float(base.value) > 0:
            figures[key] = Term(f"simulated.{key}", value, unit, source)
            continue
        ratio = Term(f"simulated.{key}_ratio", value / float(base.value), "1", source)
        figures[key] = FORMULAS[unit].term(f"simulated.{key}", steady=base, ratio=ratio)
        if key == steady:
            swaps[id(base)] = figures[key]
    done: dict[int, Term] = {}
    rest = {
        key: term.rebuilt(lambda one: swaps.get(id(one)), done)
        for key, term in answer.figures.items()
        if key not in figures and not key.endswith(("_p50_s", "_p90_s", "_p95_s", "_p99_s"))
    }
    notes = [one for one in answer.notes if one.code not in STEADY]
    verdict = _verdict(answer, made, ends=ends)
    return answer.replaced(
        figures={**figures, **rest}, verdict=verdict, notes=(*notes, *_notes(made, over=verdict.overloaded, ends=ends))
    )  # fmt: skip


def _found(made: Simulated, *, ends: bool) -> Iterator[tuple[str, float, str, str]]:
    """Figures by JSON key, their value and unit, and the key of the steady state that they are a multiple of."""
    spreads: dict[str, Spread | None] = {"ttft": made.ttft, "tpot": made.tpot, "itl": made.itl, "e2e": made.end_to_end}
    for name, steady in SPREADS.items():
        spread = spreads[name]
        if spread is not None:
            yield steady, spread.mean, "s", steady
            for part, value in (("p50", spread.p50), ("p90", spread.p90), ("p95", spread.p95), ("p99", spread.p99)):
                yield f"{name}_{part}_s", value, "s", steady
    rates = {
        "requests_per_s": made.requests_per_s, "tokens_per_s": made.output_tokens_per_s,
        "prompt_tokens_per_s": made.input_tokens_per_s,
    }  # fmt: skip
    for key, value in rates.items():
        yield key, value, "1/s", key
    counts = {
        "running_requests": made.batch * made.replicas, "waiting_requests": made.unanswered,
        "kv_used_share": made.cache,
    }  # fmt: skip
    for key, value in counts.items():
        yield key, value, "1", key
    yield "busy_share", made.utilisation, "1", ""
    if made.reading is not None:
        yield "prefill_busy_share", made.reading, "1", ""
    yield "kv_peak_share", made.peak_cache, "1", ""
    yield "preemptions", float(made.preemptions), "1", ""
    yield "refused_requests", float(made.refused), "1", ""
    if made.rates is not None and ends:
        yield "offered_requests_per_s", made.rates.mean, "1/s", ""
        yield "offered_peak_requests_per_s", made.rates.peak, "1/s", ""


def _verdict(answer: Estimate, made: Simulated, *, ends: bool) -> Verdict:
    """The verdict, or that the load is not kept, by what the simulation saw of it."""
    if answer.verdict.overloaded and made.keeps_up and ends:
        text = "fits: all are answered in their time, though they come faster than that is kept at times"
        return Verdict(True, text, answer.verdict.binding)
    if made.keeps_up or not answer.verdict.fits:
        return answer.verdict
    most = float(made.queue.max())
    line = (
        f"does not keep up: the queue grows to {most:,.0f} requests while {len(made.sent):,} come, of which"
        f" {made.requests_per_s:.3g} a second are answered"
    )
    return Verdict(False, line, answer.verdict.binding, overloaded=True)


def _notes(made: Simulated, *, over: bool, ends: bool) -> Iterator[Note]:
    """What a reader must know of a simulation."""
    yield Note("load.simulated", f"{made.requests:,} requests were simulated, over {human(made.span, 's')} of the fleet's time")
    if made.rates is not None and ends:
        words = "minute" if made.rates.window == 60 else "second"
        text = (
            f"{made.rates.mean:.3g} requests came a second in the mean, {made.rates.peak:.3g} in the busiest {words}; figures of"
            " sizes and the highest rate are those of the mean"
        )
        yield Note("load.offered", text)
    if made.refused:
        text = f"{made.refused:,} requests are longer than the caches of a replica hold: they are refused"
        yield Note("load.refused", text, "shorter sequences, more accelerators a replica or a smaller type of cache")
    if made.preemptions:
        text = f"sequences were sent back {made.preemptions:,} times because the caches were full: what they had is read again"
        yield Note("load.preempted", text)
    if over:
        yield Note("load.over", "the queue grows from the beginning to the end: a longer run waits longer")
