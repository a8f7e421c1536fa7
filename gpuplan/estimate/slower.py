"""Why is one answer slower, dearer or fuller than another? The two graphs of terms, walked part by part and input by input."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpuplan.estimate.result import Estimate
from gpuplan.estimate.winner import CHEAPEST, FASTEST, ROOMIEST, price_of
from gpuplan.record import Record
from gpuplan.term import Source, Term

_WHAT_IF = Source("user", "what if")
_SMALLEST = 0.005
"""A part or an input that moves less than this share of the best answer's time explains nothing."""
_MOST_INPUTS = 24
"""So many inputs that differ are tried, those that differ most; each try works the answer out again."""
_ALL_OF_TIME = 3
"""A sum of at least so many times is the time of a step or of a phase, not a detail of a kernel."""
_NOT_ASKED = ("user", "chosen", "definition")


class Part(Record):
    """A part of both answers: what it takes in each, in `unit`, and the difference as a share of the whole of the best."""

    name: str
    own: float
    best: float
    unit: str
    share: float


class Input(Record):
    """A leaf that differs: its two values, and how many times as good the answer gets with the value of the best alone."""

    name: str
    own: float
    best: float
    unit: str
    times: float


class Behind(Record, kw_only=True):
    """How far an answer is behind the best one by a figure, and why.

    `times` is how many times as much the answer takes (time of a token or a sample, money, memory) as the best. `parts` are the
    largest differences first; with what was left out as too small they sum to `times` - 1 of the best.
    """

    figure: str
    best: str
    times: float
    parts: tuple[Part, ...]
    inputs: tuple[Input, ...]


class Dearer(Record, kw_only=True):
    """How far an answer is behind the cheapest one, as a product: of what the machine costs an hour, and of how long it takes."""

    best: str
    times: float
    price_times: float
    time_times: float


def behind(name: str, own: Estimate, best: Estimate, *, tried: int = _MOST_INPUTS) -> Behind | None:
    """Why an answer is behind `best`, which is called `name`: by speed, or by memory where neither tells a speed.

    `tried` bounds how many inputs are tried. None where no figure of both can be set side by side.
    """
    key = next((key for key in FASTEST if key in own.figures and key in best.figures), None)
    if key is not None:
        return _slower(name, key, own.figures[key], best.figures[key], tried)
    if all(one in answer.figures for one in ("peak_memory_bytes", *ROOMIEST) for answer in (own, best)):
        return _fuller(name, own, best)
    return None


def dearer(name: str, own: Estimate, best: Estimate) -> Dearer | None:
    """Why an answer costs more than `best`, which is called `name`; None where one of them tells no cost."""
    key = next((key for key in CHEAPEST if key in own.figures and key in best.figures), None)
    if key is None:
        return None
    costs = [float(one.figures[key].value) for one in (own, best)]
    prices = [_fleet(one) for one in (own, best)]
    if not all(costs) or prices[0] is None or prices[1] is None:
        return None
    times, price = costs[0] / costs[1], prices[0] / prices[1]
    return Dearer(best=name, times=times, price_times=price, time_times=times / price)


def _fleet(answer: Estimate) -> float | None:
    """What all machines of an answer cost a second; of one accelerator where no more is told. None: it tells no price."""
    key = next(key for key in CHEAPEST if key in answer.figures)
    rates = [float(term.value) for term in answer.figures[key].walk() if term.name == "fleet.price"]
    each = price_of(answer)
    return rates[0] if rates else None if each is None else float(each.value)


def _slower(name: str, key: str, own: Term, best: Term, tried: int) -> Behind | None:
    values = float(own.value), float(best.value)
    if not all(value > 0 for value in values):
        return None
    whole = 1 / values[1]
    parts = _compared(dict(_parts(own)), dict(_parts(best)), "s", whole)
    inputs = _inputs(own, best, tried)
    return Behind(figure=key, best=name, times=values[1] / values[0], parts=parts, inputs=inputs)


def _compared(own: Mapping[str, float], best: Mapping[str, float], unit: str, whole: float) -> tuple[Part, ...]:
    names = dict.fromkeys((*own, *best))
    parts = [Part(one, a := own.get(one, 0.0), b := best.get(one, 0.0), unit, (a - b) / whole) for one in names]
    return tuple(sorted((one for one in parts if abs(one.share) >= _SMALLEST), key=lambda one: -abs(one.share)))


def _parts(rate: Term) -> Iterator[tuple[str, float]]:
    """What each part of a step or phase takes of the time of one token or sample, of which `rate` come in a second.

    How much a second of a step or phase counts is worked out by halving it: exact where the time is a sum of them, however often
    each counts. Its parts count as much: some of them, such as waiting for another stage, rest on the others.
    """
    whole = left = 1 / float(rate.value)
    sums = [(counted, parts) for counted, parts in _sums(rate) if float(counted.value) > 0]
    for total, made_of in sums:
        phase = total.name.rpartition(".")[0].replace("batch_prefill", "prefill") + "." if len(sums) > 1 else ""
        halved = Term(total.name, float(total.value) / 2, total.unit, _WHAT_IF)
        changed = rate.rebuilt(lambda one, total=total, halved=halved: halved if one is total else None)  # type: ignore[misc]
        weight = 2 * (whole - 1 / float(changed.value)) / float(total.value)
        left -= weight * float(total.value)
        for part, term in made_of.args:
            yield f"{phase}{part}", weight * float(term.value)
    yield "the rest", left


def _sums(root: Term) -> Iterator[tuple[Term, Term]]:
    """The outermost sums of times below a term, each once, as what counts and what it is made of: a step, a prefill, a decode step.

    Of stages of a pipeline the slowest one counts: it is what the greatest of their sums is made of, under no stage's name, so that
    plans with other stages, or none, stand beside it.
    """
    seen: set[int] = set()
    todo = [root]
    while todo:
        term = todo.pop()
        if id(term) in seen:
            continue
        seen.add(id(term))
        stages = [part for _, part in term.args] if term.formula is not None and term.formula.name == "max" else []
        if _is_sum(term):
            yield term, term
        elif stages and all(map(_is_sum, stages)):
            yield term, max(stages, key=lambda one: float(one.value))
        else:
            todo.extend(part for _, part in reversed(term.args))


def _is_sum(term: Term) -> bool:
    return term.formula is not None and term.formula.name == "sum" and term.unit == "s" and len(term.args) >= _ALL_OF_TIME


def _leaves(root: Term) -> dict[str, Term]:
    """The leaves of a graph by name, but for those that the question named and those of which there are several."""
    found: dict[str, Term | None] = {}
    for term in root.walk():
        if term.formula is None and term.source.kind not in _NOT_ASKED:
            same = found.get(term.name, term)
            found[term.name] = term if same is not None and float(same.value) == float(term.value) else None
    return {name: term for name, term in found.items() if term is not None}


def _inputs(own: Term, best: Term, tried: int) -> tuple[Input, ...]:
    """The inputs of which the value of the best alone would move the answer, those that move it most first."""
    mine, theirs = _leaves(own), _leaves(best)
    both = [(mine[name], theirs[name]) for name in mine if name in theirs and mine[name].unit == theirs[name].unit]
    unlike = [(a, b) for a, b in both if float(a.value) > 0 and float(b.value) > 0 and float(a.value) != float(b.value)]
    unlike.sort(key=lambda pair: -abs(_ratio(*pair)))
    made = []
    for a, b in unlike[:tried]:
        try:
            times = float(own.given({a.name: b.value}).value) / float(own.value)
        except ArithmeticError:  # a value of another machine may not go with the rest of this one
            continue
        if abs(times - 1) >= _SMALLEST:
            made.append(Input(a.name, float(a.value), float(b.value), a.unit, times))
    return tuple(sorted(made, key=lambda one: -max(one.times, 1 / one.times if one.times else 1.0)))


def _ratio(a: Term, b: Term) -> float:
    from math import log

    return log(float(a.value) / float(b.value))


def _fuller(name: str, own: Estimate, best: Estimate) -> Behind:
    """Which parts of memory differ, and by how much of the best one's."""
    mine, theirs = (float(one.figures["peak_memory_bytes"].value) for one in (own, best))

    def parts(answer: Estimate) -> dict[str, float]:
        memory = [one for one in answer.breakdowns if one.total.unit == "B"]
        return {key: float(part.value) for key, part in memory[-1].named.items()} if memory else {}

    found = _compared(parts(own), parts(best), "B", theirs)
    has, had = (float(one.figures["memory_capacity_bytes"].value) for one in (own, best))
    room = () if has == had else (Input("memory_capacity_bytes", has, had, "B", 1.0),)
    return Behind(figure=ROOMIEST[0], best=name, times=mine / theirs if theirs else 1.0, parts=found, inputs=room)
