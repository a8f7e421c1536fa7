"""What does the answer to a goal look like: the best machines on one screen, what each beats the next by, and how it was found?"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from gpuplan.estimate.planned import Candidate, Flip, Planned, Point
from gpuplan.render.planned_pieces import beaten, plain_of, said_of
from gpuplan.render.room import ALWAYS, Piece, headed, screen_of
from gpuplan.render.spoken import one_line
from gpuplan.render.text import UNADORNED, Look, noted, shown, span, times, wrap
from gpuplan.units import so_many

UNITS = {"cost_usd": "USD", "wall_time_s": "s", "energy_joules": "J", "accelerators": "1"}
SAID = {"cost_usd": "cost", "wall_time_s": "time", "energy_joules": "energy", "accelerators": "accelerators"}
HEADS = ("on", "each", "cost", "time", "low – high", "energy", "MFU", "plan")
ALIGNED = "lrrrrrrl"
_UNKNOWN = "unknown"


def as_text(found: Planned, look: Look, *, full: bool = False) -> str:
    """The answer on one screen, or in full."""
    head = [*wrap(headline(found, look), look.width, "", "  ")]
    head += [line for text in relaxed(found) for line in wrap(text, look.width, "  ", "    ")]
    rows = found.best or found.nearest
    listed = _listed(rows, look) if rows else []
    flips = [wrap(_flip(one), look.width, "  - ", "    ") for one in found.flips]
    return screen_of(
        [
            [Piece(ALWAYS, head)],
            [Piece(ALWAYS, listed)],
            beaten(found, look),
            [Piece(1, wrap(f"What binds: {found.binds}.", look.width, "", "  ") if found.binds else [])],
            [Piece(6, wrap(_looked(found), look.width, "", "  "))],
            headed("What would turn it", [(3, flips[0]), *((4, lines) for lines in flips[1:])] if flips else []),
            [Piece(ALWAYS, list(_front(found.front, look)) if found.front else [])],
            [Piece(1, wrap(f"All of the first: {found.command}", look.width, "", "  ") if rows and found.command else [])],
            headed("Notes", said_of(rows, found, look)),
        ],
        full=full,
    )


def _listed(rows: Sequence[Candidate], look: Look) -> list[str]:
    """The table of machines, without the columns that have nothing to say of any of them; notes say why."""
    from gpuplan.render.spec import stacked

    cells = [_row(one) for one in rows]
    kept = [at for at in range(len(HEADS)) if any(row[at] not in ("", _UNKNOWN) for row in cells)]
    heads, aligned = [HEADS[at] for at in kept], "".join(ALIGNED[at] for at in kept)
    return stacked(heads, [[row[at] for at in kept] for row in cells], aligned, look).rstrip("\n").splitlines()


def as_plain(found: Planned, *, full: bool = False) -> str:
    """The answer as `label: value` lines for a screen reader."""
    first, gives = headline(found), relaxed(found)
    table = [_row(one) for one in found.best or found.nearest]
    more = [f"would have to give: {text}" for text in gives]
    more += [f"what would turn it: {_flip(one)}" for one in found.flips]
    for at, one in enumerate(found.front, 1):
        cost, time = shown("cost_usd", one.usd, "USD"), shown("wall_time_s", one.seconds, "s")
        more.append(f"beaten by none in both cost and time {at}: {one.target}, {cost}, {time}")
    return plain_of(found, first, HEADS, table, more, _looked(found), full=full)


def as_brief(found: Planned) -> str:
    """The answer in one line: the verdict, and the first machine's time and plan or what would have to give."""
    first, gives = headline(found), relaxed(found)
    cells = dict(zip(HEADS, _row(found.best[0]), strict=True)) if found.best else {}
    told = [key for key in _BRIEFLY if cells.get(key) and key != SAID[found.least]]
    return one_line(first, [*gives, *(f"{key} {cells[key]}" for key in told)])


_BRIEFLY = ("cost", "time", "MFU", "plan")
"""What one line tells of the first machine."""


def as_markdown(found: Planned) -> str:
    """The same as a table of Markdown."""
    from gpuplan.render.markdown import grid

    rows = found.best or found.nearest
    said = [one.beats for one in found.best if one.beats]
    lines = [headline(found), *(f"  {text}" for text in relaxed(found)), "", grid(HEADS, [_row(one) for one in rows], ALIGNED)]
    lines += [f"{number}. {text}" for number, text in enumerate(said, 1)]
    lines += ["", _looked(found), "", *(f"- {noted(note)}" for note in found.notes)]
    return "\n".join(lines) + "\n"


def as_json(found: Planned) -> str:
    """All of it as numbers in base units."""
    return json.dumps(document(found), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def document(found: Planned) -> dict[str, Any]:
    """The same as plain data."""
    return {
        "model": found.model, "least": found.least,
        "limits": [{"figure": one.figure, "most": one.most, "said": one.said} for one in found.limits],
        "best": records(found.best), "binds": found.binds,
        "relax": [
            {"figure": one.limit.figure, "most": one.limit.most, "needs": one.needs, "on": one.offering} for one in found.relax
        ],
        "nearest": records(found.nearest),
        "flips": [{"what": one.what, "at": one.at, "then": one.instead, "within_range": one.within} for one in found.flips],
        "command": found.command,
        "front": [{"on": one.target, "wall_time_s": one.seconds, "cost_usd": one.usd} for one in found.front],
        "looked": {name: getattr(found.looked, name) for name in found.looked.field_names()},
        "notes": [note.text for note in found.notes],
    }  # fmt: skip


def as_csv(found: Planned) -> str:
    """The machines, one row each."""
    from gpuplan.render.csv import records_csv

    return records_csv(records(found.best or found.nearest))


def records(found: Sequence[Candidate]) -> list[dict[str, object]]:
    """Each machine with its figures in base units, their ranges and its plan."""
    made: list[dict[str, object]] = []
    for one in found:
        offering, estimate = one.offering, one.estimate
        record: dict[str, object] = {
            "on": offering.target, "accelerator": offering.accelerator, "accelerators": offering.count, "kind": offering.kind,
            "price_usd_per_s": None if offering.price is None else float(offering.price.value), "offer": offering.offer or None,
            "fits": estimate.verdict.words, "keeps_limits": not one.broken,
        }  # fmt: skip
        for key in ("wall_time_s", "cost_usd", "energy_joules", "tokens_per_s", "mfu", "peak_memory_bytes"):
            record[key] = one.figures.get(key)
            low, high = estimate.ranges[key] if key in estimate.figures else (None, None)
            record |= {f"{key}_low": low, f"{key}_high": high}
        record["plan"] = {name: estimate.question[name] for name in PLAN if name in estimate.question}
        record["beats"] = one.beats or None
        made.append(record)
    return made


PLAN = ("tp", "pp", "dp", "cp", "ep", "vpp", "micro_batch", "global_batch", "zero_stage", "recompute",
        "rollout_gpus", "rollout_tp", "rollout_dp", "staleness", "idle")  # fmt: skip


def headline(found: Planned, look: Look = UNADORNED) -> str:
    """The first line: what is best, or that nothing meets the goal."""
    limits = " within " + " and ".join(one.said for one in found.limits) if found.limits else ""
    if found.best:
        first = found.best[0]
        figure = _figure(first, found.least)
        what = f"{first.offering.target} has the least {SAID[found.least]}{limits}: {figure}"
        if found.looked.candidates == 1 and found.least == "wall_time_s":
            what = f"{first.offering.target} does it{limits} in {figure}"
        return f"{look.good('BEST')}  {what}"
    return f"{look.bad('NOTHING')} meets the goal{limits}"


def relaxed(found: Planned) -> list[str]:
    """What would have to give where nothing meets the goal, and by how much."""
    lines = []
    for one in found.relax:
        need = shown(one.limit.figure, one.needs, UNITS[one.limit.figure])
        lines.append(f"{one.limit.said} would have to be {need} ({times(one.needs / one.limit.most)}), on {one.offering}")
    return lines


def _figure(one: Candidate, key: str) -> str:
    if key not in one.estimate.figures:
        return shown(key, one.figures[key], UNITS[key])
    value = one.figures[key]
    low, high = span(key, one.estimate.ranges[key], UNITS[key], value)
    return f"{shown(key, value, UNITS[key])} ({low} – {high})"


def _row(one: Candidate) -> list[str]:
    figures, question = one.figures, one.estimate.question
    low, high = span("wall_time_s", one.estimate.ranges["wall_time_s"], "s", figures["wall_time_s"])
    price = one.offering.price
    plan = " ".join(
        f"{name.upper()}{question[name]}"
        for name in ("tp", "pp", "dp", "cp", "ep")
        if question.get(name, "1") != "1" or name == "dp"
    )
    if "rollout_gpus" in question:
        plan += f", {question['rollout_gpus']} generate"
    return [
        one.offering.target, "" if price is None else shown("price", float(price.value), "USD/s"),
        shown("cost_usd", figures["cost_usd"], "USD") if "cost_usd" in figures else _UNKNOWN,
        shown("wall_time_s", figures["wall_time_s"], "s"), f"{low} – {high}",
        shown("energy_joules", figures["energy_joules"], "J") if "energy_joules" in figures else _UNKNOWN,
        shown("mfu", figures["mfu"], "1") if "mfu" in figures else "", plan,
    ]  # fmt: skip


def _looked(found: Planned) -> str:
    one = found.looked
    refused = f", {one.refused:,} lack data" if one.refused else ""
    return (
        f"Looked at {so_many(one.candidates, 'machine')} with a count: {one.bounded:,} ruled out by bounds,"
        f" {one.estimated:,} estimated with {so_many(one.plans, 'plan')}{refused}."
    )


def _flip(one: Flip) -> str:
    """What turns the decision, and what happens then."""
    what = one.instead if one.instead.endswith(" is broken") else f"{one.instead} wins"
    return f"{one.what}: {what}"


def _front(front: Sequence[Point], look: Look) -> Iterator[str]:
    """The front drawn, and its points."""
    from gpuplan.render.front import MARKS, drawn
    from gpuplan.render.spec import stacked

    yield "What no other machine beats in both cost and time (by the coarse look)"
    yield from drawn(front, min(look.width, 100))
    cells = [
        [mark, one.target, shown("cost_usd", one.usd, "USD"), shown("wall_time_s", one.seconds, "s")]
        for mark, one in zip(MARKS, front, strict=False)
    ]
    yield stacked(("", "on", "cost", "time"), cells, "llrr", look).rstrip("\n")
