"""What does the answer to a load with a promise look like: the best fleets on one screen, and how they were found?"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from gpuplan.estimate.planned import Candidate, Planned
from gpuplan.render.text import Look, noted, shown, span, wrap

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


def as_text(found: Planned, look: Look) -> str:
    """The answer on one screen."""
    from gpuplan.render.spec import stacked

    made = [*wrap(_headline(found, look), look.width, "", "  "), *_relax(found), ""]
    rows = found.best or found.nearest
    if rows:
        made += [stacked(HEADS, [_row(one) for one in rows], ALIGNED, look).rstrip("\n"), ""]
    for number, one in enumerate(found.best, 1):
        if one.beats:
            made += wrap(f"{number}  {one.offering.target}: {one.beats}", look.width, "", "   ")
    if found.binds:
        made += ["", *wrap(f"What binds: {found.binds}.", look.width, "", "  ")]
    for flip in found.flips:
        made += wrap(f"What turns it: where {flip.what}, {flip.instead} is best.", look.width, "", "  ")
    made += ["", *wrap(_looked(found), look.width, "", "  ")]
    if rows:
        made += ["", *wrap(f"All of one unit: {_command(found, rows[0])}", look.width, "", "  ")]
    said = [*_offers(rows), *(noted(note) for note in found.notes)]
    if said:
        made += ["", "Notes", *(line for text in said for line in wrap(text, look.width, "  - ", "    "))]
    return "\n".join(made) + "\n"


def as_markdown(found: Planned) -> str:
    """The same as a table of Markdown."""
    from gpuplan.render.markdown import grid

    rows = found.best or found.nearest
    said = [one.beats for one in found.best if one.beats]
    lines = [_headline(found, Look()), *_relax(found), "", grid(HEADS, [_row(one) for one in rows], ALIGNED)]
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
    whole = {
        "model": found.model, "least": found.least, "load": found.asked.get("load"),
        "limits": [{"figure": one.figure, "most": one.most, "said": one.said} for one in found.limits],
        "best": records(found.best), "binds": found.binds,
        "flips": [{"what": one.what, "at": one.at, "instead": one.instead} for one in found.flips],
        "relax": [
            {"figure": one.limit.figure, "most": one.limit.most, "needs": one.needs, "on": one.offering} for one in found.relax
        ],
        "nearest": records(found.nearest),
        "looked": {name: getattr(found.looked, name) for name in found.looked.field_names()},
        "notes": [note.text for note in found.notes],
    }  # fmt: skip
    return json.dumps(whole, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def as_csv(found: Planned) -> str:
    """The fleets, one row each."""
    from gpuplan.render.csv import records_csv

    return records_csv(records(found.best or found.nearest))


TOLD = (
    "cost_usd_per_month", "cost_usd_per_million_output_tokens", "fleet_power_watts", "ttft_s", "tpot_s", "e2e_s", "utilization",
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
        for key in TOLD:
            record[key] = one.figures.get(key)
            low, high = estimate.ranges[key] if key in estimate.figures else (None, None)
            record |= {f"{key}_low": low, f"{key}_high": high}
        record["unit"] = estimate.question.get("on")
        record["plan"] = {name: estimate.question[name] for name in PLAN if name in estimate.question}
        record["beats"] = one.beats or None
        made.append(record)
    return made


def _headline(found: Planned, look: Look) -> str:
    limits = ", ".join(one.said for one in found.limits)
    promise = f" under {limits}" if limits else ""
    if not found.best:
        return f"{look.bad('NOTHING')} serves {found.asked.get('load')}{promise}"
    first = found.best[0]
    figure = shown(found.least, first.figures[found.least], UNITS[found.least])
    what = f"{first.offering.target} has the least {SAID[found.least]} for {found.asked.get('load')}{promise}"
    return f"{look.good('BEST')}  {what}: {figure}"


def _relax(found: Planned) -> list[str]:
    made = []
    for one in found.relax:
        need = shown(one.limit.figure, one.needs, UNITS.get(one.limit.figure, "s"))
        made.append(f"  {one.limit.said} would have to be {need} at least ({one.needs / one.limit.most:.2g} x), on {one.offering}")
    return made


def _row(one: Candidate) -> list[str]:
    figures, ranges = one.figures, one.estimate.ranges
    price = one.offering.price

    def figure(key: str, unit: str) -> str:
        return shown(key, figures[key], unit) if key in figures else "unknown"

    def ends(key: str) -> str:
        return " – ".join(span(key, ranges[key], "s", figures[key])) if key in figures else ""

    return [
        one.offering.target, figure("cost_usd_per_month", "USD"), figure("ttft_s", "s"), figure("tpot_s", "s"),
        one.estimate.question.get("weights", ""), one.fleet, "" if price is None else shown("price", float(price.value), "USD/s"),
        figure("cost_usd_per_million_output_tokens", "USD"), figure("fleet_power_watts", "W"), ends("ttft_s"), ends("tpot_s"),
    ]  # fmt: skip


def _command(found: Planned, one: Candidate) -> str:
    question = one.estimate.question
    names = ("prompt", "output", "rate", "concurrency", "weights", "tp", "pp", "dp")
    given = " ".join(
        f"--{name} {question[name]}" for name in names if name in question and not (name == "pp" and question[name] == "1")
    )
    return f"gpuplan serve {found.model} --on {question['on']} {given}"


def _looked(found: Planned) -> str:
    one = found.looked
    refused = f", {one.refused:,} lack data" if one.refused else ""
    return (
        f"Looked at {one.candidates:,} machines in formats of weights: {one.bounded:,} ruled out by bounds, {one.estimated:,}"
        f" estimated with {one.plans:,} divisions{refused}."
    )


def _offers(rows: Sequence[Candidate]) -> Iterator[str]:
    for one in rows:
        if one.offering.offer:
            yield f"{one.offering.target}: {one.offering.offer}"
