"""What does it look like what a fleet carries: one line for the most of each thing, with its division and what holds it there?"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from math import inf
from typing import Any

from gpuplan.estimate.carried import Carried, Most
from gpuplan.render.room import ALWAYS, Piece, headed, screen_of
from gpuplan.render.spoken import cells, lines, one_line, verdict_line
from gpuplan.render.text import UNADORNED, Look, noted, shown, span, wrap
from gpuplan.units import so_many

SAID = {
    "rate_per_s": "highest rate", "requests_in_flight": "most requests in flight", "context_tokens": "longest context",
    "params": "model",
}  # fmt: skip
TIMES, READ_TIMES = ("ttft_s", "tpot_s"), ("latency_s",)
HEADS = ("what", "most", "weights", "division", "TTFT", "TPOT", "what holds it there", "TTFT low – high", "TPOT low – high")
ALIGNED = "lrllrrlll"
READ_HEADS = ("what", "most", "weights", "division", "latency", "what holds it there", "latency low – high")
READ_ALIGNED = "lrllrll"
"""The same of a model that only reads."""


def as_text(found: Carried, look: Look, *, full: bool = False) -> str:
    """The answer on one screen, or in full."""
    from gpuplan.render.spec import stacked

    listed = stacked(*_table(found), look).rstrip("\n").splitlines() if found.most else []
    notes = [(2, wrap(noted(note), look.width, "  - ", "    ")) for note in found.notes]
    return screen_of(
        [
            [Piece(ALWAYS, wrap(headline(found, look), look.width, "", "  "))],
            [Piece(ALWAYS, listed)],
            [Piece(1, list(_people(found, look))), Piece(3, wrap(f"Looked at {_looked(found)}.", look.width, "", "  "))],
            headed("Notes", notes),
        ],
        full=full,
    )


def as_plain(found: Carried, *, full: bool = False) -> str:
    """The answer as `label: value` lines for a screen reader; in full with how it was found."""
    said = [verdict_line(headline(found))]
    heads, rows, _ = _table(found)
    for name, most, *rest in rows:
        said += cells(name, heads[1:], [most, *rest])
    said += [f"people: {text}" for text in _people(found, Look(100_000))]
    said += [f"search: looked at {_looked(found)}"] if full else []
    return lines([*said, *(f"note: {noted(note)}" for note in found.notes)])


def as_brief(found: Carried) -> str:
    """The answer in one line: the verdict, and the most of each thing."""
    return one_line(headline(found), [f"{_name(one)} {amount(one)} in {one.weights}" for one in found.most])


def as_markdown(found: Carried) -> str:
    """The same as a table of Markdown."""
    from gpuplan.render.markdown import grid

    lines = [headline(found), "", grid(*_table(found)), ""]
    return "\n".join([*lines, *_people(found, UNADORNED), *(f"- {noted(note)}" for note in found.notes)]) + "\n"


def as_json(found: Carried) -> str:
    """All of it as numbers in base units."""
    return json.dumps(document(found), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def document(found: Carried) -> dict[str, Any]:
    """The same as plain data."""
    return {
        "on": found.on, "model": found.model,
        "limits": [{"figure": one.figure, "most": one.most, "said": one.said} for one in found.limits],
        "most": list(records(found)), "requests_per_s_of_a_user": found.per_user, "looked": found.looked,
        "notes": [note.text for note in found.notes],
    }  # fmt: skip


def as_csv(found: Carried) -> str:
    """One row for each."""
    from gpuplan.render.csv import records_csv

    return records_csv(list(records(found)))


def records(found: Carried) -> Iterator[dict[str, object]]:
    """The most of each thing with its division, and the times of a request with it."""
    for one in found.most:
        record: dict[str, object] = {name: getattr(one, name) for name in ("figure", "value", "model", "weights", "replicas")}
        record["plan"] = {name: value for name, value in one.asked.items() if value is not None}
        for key in _keys(found):
            known = one.estimate is not None and key in one.estimate.figures
            record[key] = float(one.estimate.figures[key].value) if known and one.estimate is not None else None
            low, high = one.estimate.ranges[key] if known and one.estimate is not None else (None, None)
            record |= {f"{key}_low": low, f"{key}_high": None if high == inf else high}
        yield {**record, "bound": one.bound or None}


def headline(found: Carried, look: Look = UNADORNED) -> str:
    """The first line: that it carries the model, or nothing of it."""
    promise = f" under {', '.join(one.said for one in found.limits)}"
    what = "the models" if found.model == "any" else found.model
    if not found.most:
        return f"{look.bad('NOTHING')} of {what} is carried by {found.on}{promise}"
    return f"{look.good('CARRIES')}  {what} on {found.on}{promise}"


def amount(one: Most) -> str:
    """The most of something, as a person reads it."""
    if one.figure == "rate_per_s":
        return f"{one.value:,.3g} requests/s"
    if one.figure == "params":
        return shown("params", one.value, "1")
    return f"{one.value:,.0f}" + (" tokens" if one.figure == "context_tokens" else "")


def _reads(found: Carried) -> bool:
    """Whether the model makes no tokens."""
    return any(one.figure == "latency_s" for one in found.limits)


def _table(found: Carried) -> tuple[Sequence[str], list[list[str]], str]:
    """Heads, rows and how they are aligned."""
    if _reads(found):
        return READ_HEADS, [_row(one, READ_TIMES) for one in found.most], READ_ALIGNED
    part = _part(found)
    heads = [f"{head[:4]} {part}{head[4:]}" if part and head[:4] in ("TTFT", "TPOT") else head for head in HEADS]
    return heads, [_row(one, _keys(found)) for one in found.most], ALIGNED


def _part(found: Carried) -> str:
    """The part of the requests that the promise is of, such as `p99`; empty: it is of their mean."""
    return next((one.figure.split("_")[1] for one in found.limits if "_p" in one.figure), "")


def _keys(found: Carried) -> Sequence[str]:
    """The figures of the times that are told."""
    if _reads(found):
        return READ_TIMES
    part = _part(found)
    return [key.replace("_s", f"_{part}_s") for key in TIMES] if part else TIMES


def _name(one: Most) -> str:
    return one.model if one.figure == "params" else SAID[one.figure]


def _row(one: Most, keys: Sequence[str]) -> list[str]:
    def time(key: str) -> str:
        return (
            ""
            if one.estimate is None or key not in one.estimate.figures
            else shown(key, float(one.estimate.figures[key].value), "s")
        )

    def ends(key: str) -> str:
        if one.estimate is None or key not in one.estimate.figures:
            return ""
        return " – ".join(span(key, one.estimate.ranges[key], "s", float(one.estimate.figures[key].value)))

    said = [_name(one), amount(one), one.weights, one.replicas]
    return [*said, *(time(key) for key in keys), one.bound, *(ends(key) for key in keys)]


def _people(found: Carried, look: Look) -> Iterator[str]:
    """How many people that is who ask now and then."""
    for one in found.most:
        if one.figure == "rate_per_s":
            often = "a request a minute" if found.per_user == 1 / 60 else f"{60 * found.per_user:.3g} requests a minute"
            text = f"{one.value / found.per_user:,.0f} people may use it at the same time, with {often} each."
            yield from wrap(text, look.width, "", "  ")


def _looked(found: Carried) -> str:
    return so_many(found.looked, "model") if found.model == "any" else f"{so_many(found.looked, 'division')} of the fleet"
