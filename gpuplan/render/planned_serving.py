"""What does the answer to a load with a promise look like: the best fleets on one screen, and how they were found?"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from math import inf
from typing import Any

from gpuplan.estimate.planned import Candidate, Planned
from gpuplan.render.planned_pieces import beaten, plain_of, said_of
from gpuplan.render.room import ALWAYS, Piece, headed, screen_of
from gpuplan.render.spoken import one_line
from gpuplan.render.text import UNADORNED, Look, noted, shown, span, times, wrap
from gpuplan.units import so_many

MOST_POINTS = 12
"""Points of a front that are drawn."""
UNITS = {"cost_usd_per_month": "USD", "accelerators": "1", "fleet_power_watts": "W"}
SAID = {"cost_usd_per_month": "cost a month", "accelerators": "accelerators", "fleet_power_watts": "power"}
HEADS = (
    "on",
    "USD/month",
    "TTFT",
    "TPOT",
    "weights",
    "replicas",
    "each",
    "USD/M output",
    "power",
    "TTFT low – high",
    "TPOT low – high",
)
ALIGNED = "lrrrllrrrll"
READ_HEADS = ("on", "USD/month", "latency", "weights", "replicas", "each", "USD/M tokens", "power", "latency low – high")
READ_ALIGNED = "lrrllrrrl"
"""The same of a model that only reads."""


MACHINES = 3
"""So many stand on one screen whatever else there is to say."""


def as_text(found: Planned, look: Look, *, full: bool = False) -> str:
    """The answer on one screen, or in full."""
    from gpuplan.render.spec import stacked

    rows = found.best or found.nearest
    listed = (
        stacked(_heads(found), [_row(one, found) for one in rows], _aligned(found), look).rstrip("\n").splitlines() if rows else []
    )
    gives = [line for text in relaxed(found) for line in wrap(text, look.width, "  ", "    ")]
    flips = [f"What turns it: where {flip.what}, {flip.instead} is best." for flip in found.flips]
    return screen_of(
        [
            [Piece(ALWAYS, [*wrap(headline(found, look), look.width, "", "  "), *gives])],
            _listed(listed),
            beaten(found, look),
            [
                Piece(1, wrap(f"What binds: {found.binds}.", look.width, "", "  ") if found.binds else []),
                *(Piece(3, wrap(text, look.width, "", "  ")) for text in flips),
            ],
            [Piece(2, list(_front(found, look)) if found.front else [])],
            [Piece(6, wrap(_looked(found), look.width, "", "  "))],
            [Piece(1, wrap(f"All of one unit: {found.command}", look.width, "", "  ") if found.command else [])],
            headed("Notes", said_of(rows, found, look)),
        ],
        full=full,
    )


def as_plain(found: Planned, *, full: bool = False) -> str:
    """The answer as `label: value` lines for a screen reader."""
    table = [_row(one, found) for one in found.best or found.nearest]
    more = [f"would have to give: {text}" for text in relaxed(found)]
    more += [f"what turns it: where {flip.what}, {flip.instead} is best" for flip in found.flips]
    for at, one in enumerate(found.front, 1):
        cost, time = shown("cost_usd", one.usd, "USD"), shown("tpot_s", one.seconds, "s")
        more.append(f"beaten by none in both price and time of an output token {at}: {one.target}, {cost} a million, {time} each")
    return plain_of(found, headline(found), _heads(found), table, more, _looked(found), full=full)


def as_brief(found: Planned) -> str:
    """The answer in one line: the verdict, and the first fleet or what would have to give."""
    heads = READ_HEADS if _reads(found) else HEADS
    said = dict(zip(heads, _row(found.best[0], found), strict=True)) if found.best else {}
    named = dict(zip(heads, _heads(found), strict=True))
    return one_line(headline(found), [*relaxed(found), *(f"{named[key]} {said[key]}" for key in _BRIEFLY if said.get(key))])


_BRIEFLY = ("TTFT", "TPOT", "latency", "weights", "replicas")
"""What one line tells of the first fleet."""


def as_markdown(found: Planned) -> str:
    """The same as a table of Markdown."""
    from gpuplan.render.markdown import grid

    rows = found.best or found.nearest
    said = [one.beats for one in found.best if one.beats]
    lines = [headline(found), *relaxed(found), "", grid(_heads(found), [_row(one, found) for one in rows], _aligned(found))]
    lines += [f"{number}. {text}" for number, text in enumerate(said, 1)]
    lines += [
        "",
        f"What binds: {found.binds}." if found.binds else "",
        _looked(found),
        "",
        *(f"- {noted(note)}" for note in found.notes),
    ]
    return "\n".join(lines) + "\n"


def as_json(found: Planned) -> str:
    """All of it as numbers in base units."""
    return json.dumps(document(found), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def document(found: Planned) -> dict[str, Any]:
    """The same as plain data."""
    return {
        "model": found.model, "least": found.least, "load": found.asked.get("load"),
        "limits": [{"figure": one.figure, "most": one.most, "said": one.said} for one in found.limits],
        "best": records(found.best), "binds": found.binds,
        "flips": [{"what": one.what, "at": one.at, "instead": one.instead} for one in found.flips],
        "relax": [
            {"figure": one.limit.figure, "most": one.limit.most, "needs": one.needs, "on": one.offering} for one in found.relax
        ],
        "nearest": records(found.nearest), "command": found.command,
        "front": [{"on": one.target, "tpot_s": one.seconds, "cost_usd_per_million_output_tokens": one.usd} for one in found.front],
        "looked": {name: getattr(found.looked, name) for name in found.looked.field_names()},
        "notes": [note.text for note in found.notes],
    }  # fmt: skip


def as_csv(found: Planned) -> str:
    """The fleets, one row each."""
    from gpuplan.render.csv import records_csv

    return records_csv(records(found.best or found.nearest))


TOLD = (
    "cost_usd_per_month", "cost_usd_per_million_output_tokens", "fleet_power_watts", "ttft_s", "tpot_s", "e2e_s", "utilization",
)  # fmt: skip
READ_TOLD = (
    "cost_usd_per_month", "cost_usd_per_million_tokens", "fleet_power_watts", "latency_s", "sequences_per_s", "utilization",
)  # fmt: skip
PLAN = ("weights", "kv_cache", "tp", "pp", "dp", "ep")


def records(found: Sequence[Candidate]) -> list[dict[str, object]]:
    """Each fleet with its figures in base units, their ranges and its plan."""
    made: list[dict[str, object]] = []
    for one in found:
        offering, estimate = one.offering, one.estimate
        record: dict[str, object] = {
            "on": offering.target, "accelerator": offering.accelerator, "accelerators": offering.count, "kind": offering.kind,
            "price_usd_per_s": None if offering.price is None else float(offering.price.value), "offer": offering.offer or None,
            "replicas": one.fleet, "keeps_limits": not one.broken,
        }  # fmt: skip
        told = READ_TOLD if "latency_s" in estimate.figures else TOLD
        for key in (*told, *(key for key in estimate.figures if key.startswith(("ttft_p", "tpot_p", "e2e_p")))):
            record[key] = one.figures.get(key)
            low, high = estimate.ranges[key] if key in estimate.figures else (None, None)
            record |= {f"{key}_low": low, f"{key}_high": None if high == inf else high}
        record["unit"] = estimate.question.get("on")
        record["plan"] = {name: estimate.question[name] for name in PLAN if name in estimate.question}
        record["beats"] = one.beats or None
        made.append(record)
    return made


def headline(found: Planned, look: Look = UNADORNED) -> str:
    """The first line: what is best, or that nothing is."""
    limits = ", ".join(one.said for one in found.limits)
    promise = f" under {limits}" if limits else ""
    if not found.best:
        return f"{look.bad('NOTHING')} serves {found.asked.get('load')}{promise}"
    first = found.best[0]
    figure = shown(found.least, first.figures[found.least], UNITS[found.least])
    what = f"{first.offering.target} has the least {SAID[found.least]} for {found.asked.get('load')}{promise}"
    return f"{look.good('BEST')}  {what}: {figure}"


def _listed(lines: Sequence[str]) -> list[Piece]:
    """The table in pieces: the first machines always, the others where what is said of the first leaves them room."""
    starts = [at for at, line in enumerate(lines) if not line.startswith(" ")]
    rest = starts[1 + MACHINES :]  # The head is one of them.
    if not rest:
        return [Piece(ALWAYS, list(lines))]
    pieces = [Piece(ALWAYS, list(lines[: rest[0]]))]
    return [*pieces, *(Piece(3, list(lines[at:end])) for at, end in zip(rest, [*rest[1:], len(lines)], strict=True))]


def relaxed(found: Planned) -> list[str]:
    """What would have to give where nothing keeps the promise, and by how much."""
    made = []
    for one in found.relax:
        need = shown(one.limit.figure, one.needs, UNITS.get(one.limit.figure, "s"))
        made.append(f"{one.limit.said} would have to be {need} at least ({times(one.needs / one.limit.most)}), on {one.offering}")
    return made


def _heads(found: Planned) -> list[str]:
    """The heads of the table, with the part of the requests that times are of."""
    if _reads(found):
        return list(READ_HEADS)
    of = found.asked["ttft"].split("_")[1]
    return [f"{head[:4]} {of}{head[4:]}" if head[:4] in ("TTFT", "TPOT") and of != "s" else head for head in HEADS]


def _reads(found: Planned) -> bool:
    """Whether the model makes no tokens."""
    return "reads" in found.asked


def _aligned(found: Planned) -> str:
    return READ_ALIGNED if _reads(found) else ALIGNED


def _row(one: Candidate, found: Planned) -> list[str]:
    first, token = found.asked["ttft"], found.asked["tpot"]
    figures, ranges = one.figures, one.estimate.ranges
    price = one.offering.price

    def figure(key: str, unit: str) -> str:
        return shown(key, figures[key], unit) if key in figures else "unknown"

    def ends(key: str) -> str:
        return " – ".join(span(key, ranges[key], "s", figures[key])) if key in figures else ""

    each = "" if price is None else shown("price", float(price.value), "USD/s")
    if _reads(found):
        return [
            one.offering.target, figure("cost_usd_per_month", "USD"), figure("latency_s", "s"),
            one.estimate.question.get("weights", ""), one.fleet, each, figure("cost_usd_per_million_tokens", "USD"),
            figure("fleet_power_watts", "W"), ends("latency_s"),
        ]  # fmt: skip
    return [
        one.offering.target, figure("cost_usd_per_month", "USD"), figure(first, "s"), figure(token, "s"),
        one.estimate.question.get("weights", ""), one.fleet, each,
        figure("cost_usd_per_million_output_tokens", "USD"), figure("fleet_power_watts", "W"), ends(first), ends(token),
    ]  # fmt: skip


def _front(found: Planned, look: Look) -> Iterator[str]:
    """The front drawn, and the ends of what each machine has of it."""
    from gpuplan.render.front import MARKS, drawn

    some = [found.front[round(at * (len(found.front) - 1) / (MOST_POINTS - 1))] for at in range(MOST_POINTS)]
    points = list(dict.fromkeys(some))
    yield from wrap("Price of a million output tokens over the time of each, by what no other machine beats in both:", look.width)
    yield from drawn(points, min(look.width, 100))
    for mark, one in zip(MARKS, points, strict=False):
        yield f"  {mark}  {shown('cost_usd', one.usd, 'USD'):>11}  {shown('tpot_s', one.seconds, 's'):>8}  {one.target}"


def _looked(found: Planned) -> str:
    one = found.looked
    refused = f", {one.refused:,} lack data" if one.refused else ""
    return (
        f"Looked at {so_many(one.candidates, 'machine')} with a format of weights each: {one.bounded:,} ruled out by bounds,"
        f" {one.estimated:,} estimated with {so_many(one.plans, 'division')}{refused}."
    )
