"""Would fewer accelerators keep the promise if some only read prompts and the others only write answers?

Of each fleet that was found both kinds of workers are divided anew, every division of one with every division of the other, through
the steady state that `gpuplan serve --prefill-on` tells. Workers are added to the kind whose promise is broken, until it is kept or
as many accelerators are taken as by replicas that do both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from math import inf

from gpuplan.errors import GpuplanError, Note, Problem, UsageError
from gpuplan.estimate.planned import Candidate
from gpuplan.estimate.result import Estimate
from gpuplan.formulas.basic import product as times
from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.planner.promise import Promise
from gpuplan.planner.serve import Served, Wanted
from gpuplan.planner.serve_fleet import spent
from gpuplan.record import Record
from gpuplan.search.disaggregated import paired
from gpuplan.search.library import Library
from gpuplan.term import USER, Source, Term, total

LOOKED = 3
"""Fleets that workers of two kinds are looked for on the machines of: each pair of divisions is an estimate of its own."""
FASTER = ("ttft_s", "e2e_s")
"""Times that more workers which read prompts make shorter; the other ones want more that write."""


class Worker(Record):
    """What one worker runs on, its accelerators, and how it divides a model without experts; None: as is fastest."""

    on: str
    accelerators: int
    tp: int | None


class Pooled(Record, eq=False, kw_only=True):
    """Workers of two kinds that keep a promise: the question that tells so, its answer, and how many there are of each."""

    ask: ServeAsk
    answer: Estimate
    reads: int
    read: Worker
    writes: int
    write: Worker
    spare: int
    """Workers of each kind that may be lost."""
    served: Served
    """The fleet of replicas that it was looked for beside."""

    @property
    def accelerators(self) -> int:
        """All of them, with the spare ones."""
        return (self.reads + self.spare) * self.read.accelerators + (self.writes + self.spare) * self.write.accelerators

    def words(self) -> str:
        """How it is divided, in words."""
        question = self.answer.question
        more = f" + {self.spare} spare of each" if self.spare else ""
        return f"{_kind(self.reads, question, 'prefill_')} read, {_kind(self.writes, question, '')} write{more}"


def refuse(promise: Promise, rate: float | None, form: str | None) -> None:
    """Refuse what is not told of workers of two kinds.

    Raises:
        UsageError: a promise of a part of the requests, users in place of a rate, or what starts them.
    """
    if form is not None:
        what = "--emit starts replicas that do both, and not what --pools finds"
        raise UsageError(Problem("plan.pools", what, "leave one of them out"))
    if promise.percent is not None:
        raise UsageError(Problem("plan.pools", "--pools: of workers of two kinds the mean is told", "leave --p out"))
    if rate is None:
        raise UsageError(Problem("plan.pools", "--pools: workers of two kinds are asked for a rate", "give --rate or --users"))


def pooled(served: Sequence[Served], promise: Promise, want: Wanted, library: Library) -> Iterator[Pooled]:
    """For the first of some fleets the workers of two kinds on the same machines that take fewer accelerators, if there are any."""
    experts = bool(library.card(want.run.model).architecture.moes)
    for one in _joined(served):
        best: Pooled | None = None
        for read, write in product(_workers(one, experts=experts), repeat=2):
            most = one.fleet.accelerators if best is None else best.accelerators
            best = _fewest(one, read, write, promise, want, library, most) or best
        if best is not None:
            yield best


def _joined(served: Sequence[Served]) -> list[Served]:
    """The first fleets of machines that caches can travel between, and of which fewer can be had."""
    some = (one for one in served if not one.option.machine.fixed)
    return [one for one in some if one.option.machine.kind == "own" or one.option.machine.network > 0][:LOOKED]


def _workers(served: Served, *, experts: bool) -> list[Worker]:
    """What a worker may be: of single accelerators any power of two of a node, of others all that they have, divided otherwise."""
    machine, units = served.option.machine, served.option.units
    whole = units * machine.each
    sizes = [1 << at for at in range(whole.bit_length()) if whole % (1 << at) == 0]
    if served.option.alone:
        return [Worker(machine.target(size), size, None if experts else size) for size in sizes]
    return [Worker(served.option.target, whole, tp) for tp in ([None] if experts else sizes)]


def _fewest(
    served: Served, read: Worker, write: Worker, promise: Promise, want: Wanted, library: Library, most: int
) -> Pooled | None:  # fmt: skip
    """The fewest workers of two shapes that keep the promise with fewer accelerators than the most; None: there are none."""
    asked = want.loaded(want.amount).replaced(
        on=write.on, prefill_on=read.on, tp=write.tp, prefill_tp=read.tp, weights=served.option.weights
    )
    while True:
        try:
            answer = paired(asked, library).answer
        except GpuplanError:
            return None  # It does not fit, or nothing is known that joins it.
        reads, writes = (int(float(answer.figures[f"{name}_workers"].value)) for name in ("prefill", "decode"))
        made = Pooled(ask=asked, answer=answer, reads=reads, read=read, writes=writes, write=write, spare=want.spare, served=served)
        if made.accelerators >= most or not answer.verdict.fits:
            return None
        broken = [key for key, value in promise.told(answer.figures).items() if float(value) > promise.limits[key]]
        asked = asked.replaced(prefill_workers=reads, decode_workers=writes)
        if not broken:
            return made.replaced(ask=asked)
        more_read = any(key in FASTER for key in broken)
        asked = asked.replaced(prefill_workers=reads + more_read, decode_workers=writes + (not more_read or len(broken) > 1))


def beside(
    served: Sequence[Served], best: Sequence[Candidate], least: str, promise: Promise, want: Wanted, library: Library
) -> tuple[list[Candidate], Pooled | None, Note]:  # fmt: skip
    """Fleets with workers of two kinds among them, the best first; those that are best of all, if they are; and what was found."""
    places = {one.option.key: at for at, one in enumerate(served)}
    found = list(pooled(served, promise, want, library))
    made = [(candidate_of(one, best[places[one.served.option.key]]), one) for one in found]
    every: list[tuple[Candidate, Pooled | None]] = sorted(
        [*made, *((one, None) for one in best)], key=lambda one: one[0].figures.get(least, inf)
    )
    names = ", ".join(one.option.machine.name for one in _joined(served))
    if not names:
        text = "workers of two kinds were not looked for: no network between the machines that are shown is on record"
    else:
        text = f"workers of two kinds were looked for on {names}: they take fewer accelerators than replicas that do both"
        text += " where they are shown" if found else " on none of them"
        text = text if found else text.replace("they take fewer", "they take no fewer").replace(" on none of them", "")
    return [one for one, _ in every], every[0][1], Note("plan.pools", text)


def candidate_of(one: Pooled, beside: Candidate) -> Candidate:
    """Workers of two kinds as an answer of their own, on the machines of a fleet of replicas that do both."""
    spare, how = Term("plan.spare", float(one.spare), "1", USER), Source("chosen", "the fewest that keep the load with the promise")
    parts: dict[str, Term] = {}
    for name, number, worker in (("prefill", one.reads, one.read), ("decode", one.writes, one.write)):
        workers = total(f"fleet.{name}_with_spare", {"needed": Term(f"fleet.{name}", float(number), "1", how), "spare": spare})
        each = Term(f"fleet.accelerators_of_{name}", float(worker.accelerators), "1", Source("chosen", "accelerators of a worker"))
        parts[name] = times.term(f"fleet.{name}_accelerators", a=workers, b=each)
    figures = spent(total("fleet.accelerators", parts), beside.offering.price, beside.estimate.find("hw.power"))
    answer = one.answer.replaced(figures={**figures, **one.answer.figures})
    machine = one.served.option.machine
    units = one.accelerators // machine.each
    offering = beside.offering.replaced(count=one.accelerators, target=f"{units}x{machine.name}")
    return Candidate(offering, answer, {key: float(term.value) for key, term in answer.figures.items()}, fleet=one.words())


def binds_of(one: Pooled, promise: Promise) -> str:
    """What is nearest to its limit."""
    figures = {key: float(term.value) for key, term in one.answer.figures.items()}
    used = [f"{key.partition('_')[0].upper()} {figures[key] / most:.0%}" for key, most in promise.limits.items()]
    busy = ", ".join(f"workers that {word} are busy {figures[f'{name}_utilization']:.0%} of the time" for name, word in KINDS)
    return f"used of the promise: {', '.join(used)}; {busy}"


KINDS = (("prefill", "read"), ("decode", "write"))


def _kind(number: int, question: Mapping[str, str], at: str) -> str:
    """Workers of a kind in words."""
    degrees = " ".join(f"{name.replace('attention_', '').upper()} {question[f'{at}{name}']}"
                       for name in ("tp", "pp", "attention_dp", "ep") if f"{at}{name}" in question)  # fmt: skip
    replicas = question.get(f"{at}dp", "1")
    return f"{number} x {degrees}" if replicas == "1" else f"{number} x {replicas} x {degrees}"
