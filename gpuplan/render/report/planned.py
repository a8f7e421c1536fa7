"""What stands on the report of a plan, of what a fleet carries, and of what runs on a machine?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpuplan.estimate.carried import Carried
from gpuplan.estimate.planned import Candidate, Planned
from gpuplan.estimate.result import Estimate
from gpuplan.estimate.runnable import WhatRuns
from gpuplan.render import carried, planned, planned_serving
from gpuplan.render.report.answer import ends_of, foot, pictures, tables
from gpuplan.render.report.charts import bars, front
from gpuplan.render.report.page import Block, Code, Report, Table, Texts, Tile
from gpuplan.render.report.working import anchor_of
from gpuplan.render.text import known, label, noted, shown, times
from gpuplan.units import so_many

_TRAIN = ("cost_usd", "wall_time_s", "energy_joules", "mfu", "tokens_per_s", "peak_memory_bytes")
_SERVE = ("cost_usd_per_month", "cost_usd_per_million_output_tokens", "fleet_power_watts", "peak_memory_bytes")
_DEGREES = ("weights", "tp", "pp", "dp", "cp", "ep", "micro_batch", "recompute")
_SPEEDS = 24
"""Models whose speed is drawn; where more run, their table is folded."""
_UNITS = {**planned.UNITS, **planned_serving.UNITS}


def of_planned(found: Planned) -> Report:
    """The report of the machines that reach a goal, or of what would have to give."""
    limits = " and ".join(one.said for one in found.limits)
    within = f" within {limits}" if limits else ""
    said = {**planned.SAID, **planned_serving.SAID}[found.least]
    load = found.asked.get("load")
    rows = found.best or found.nearest
    if found.best:
        first = found.best[0]
        headline = (
            f"{first.offering.target} has the least {said}{f' for {load}' if load else ''}{within}: {_value(first, found.least)}"
        )
    else:
        headline = f"nothing meets the goal{f' of {load}' if load else ''}{within}"
    blocks: list[Block] = []
    if found.relax:
        items = [
            f"{one.limit.said} would have to be {shown(one.limit.figure, one.needs, _UNITS.get(one.limit.figure, 's'))}"
            f" ({times(one.needs / one.limit.most)}), on {one.offering}" for one in found.relax
        ]  # fmt: skip
        blocks.append(Texts(title="What would have to give", items=items))
    keys = _keys(found, rows)
    if rows:
        title = "The best machines" if found.best else "What comes nearest"
        blocks.append(Table(title=title, head=("on", "accelerators", *map(label, keys), "each", "plan"),
                            rows=[_row(one, keys) for one in rows], aligned="lr" + "r" * len(keys) + "rl"))  # fmt: skip
        beats = [f"{one.offering.target}: {one.beats}" for one in found.best if one.beats]
        if beats:
            blocks.append(Texts(title="What each beats the next by", items=beats))
    if found.front:
        blocks.append(front(found.front, tokens=found.task == "serve"))
        cells = [(one.target, shown("cost_usd", one.usd, "USD"), shown("time_s", one.seconds, "s")) for one in found.front]
        blocks.append(Table(title="The points of the picture", head=("on", "cost", "time"), rows=cells, aligned="lrr", folded=True))
    if found.flips:
        turned = [f"{one.what}: {one.instead if one.instead.startswith('--') else f'{one.instead} wins'}" for one in found.flips]
        blocks.append(Texts(title="What would turn it", items=turned))
    if rows:
        blocks += _first(rows[0].estimate, f"{rows[0].offering.target}: ")
    if found.command:
        blocks.append(Code(title="All of the first", text=found.command))
    offers = [f"{one.offering.target}: {one.offering.offer}" for one in rows if one.offering.offer]
    if offers:
        blocks.append(Texts(title="Offers", items=offers))
    looked = found.looked
    told = (
        f"{so_many(looked.candidates, 'machine', ' with a count was', ' with a count were')} looked at:"
        f" {looked.bounded:,} ruled out by bounds, {looked.estimated:,} estimated with {so_many(looked.plans, 'plan')}"
    ) + (f", {looked.refused:,} lack data" if looked.refused else "")
    blocks.append(Texts(title="Notes", items=[told, *(noted(note) for note in found.notes)]))
    return Report(
        title=f"{found.model}: which machine", word="BEST" if found.best else "NOTHING", tone="good" if found.best else "bad",
        headline=headline, binds=found.binds, asked=[(label(one.figure), one.said) for one in found.limits],
        tiles=[_tile(rows[0], key) for key in keys[:6]] if rows else (), blocks=blocks,
        assumed=any(not known(term) for one in rows[:1] for term in one.estimate.figures.values()),
    )  # fmt: skip


def of_carried(found: Carried) -> Report:
    """The report of what a fleet carries."""
    promise = ", ".join(one.said for one in found.limits)
    what = "the models" if found.model == "any" else found.model
    rows = [
        (
            one.model if one.figure == "params" else carried.SAID[one.figure],
            carried.amount(one),
            one.weights,
            one.replicas,
            one.bound,
        )
        for one in found.most
    ]
    blocks: list[Block] = []
    if rows:
        head = ("what", "most", "weights", "division", "what holds it there")
        blocks.append(Table(title="What it carries", head=head, rows=rows, aligned="lrlll"))
    first = next((one for one in found.most if one.estimate is not None), None)
    if first is not None and first.estimate is not None:
        blocks += _first(first.estimate, f"{first.model} at its {carried.SAID[first.figure]}: ")
    blocks.append(Texts(title="Notes", items=[f"{found.looked:,} were looked at", *(noted(note) for note in found.notes)]))
    return Report(
        title=f"{what} on {found.on}", word="CARRIES" if found.reached else "NOTHING", tone="good" if found.reached else "bad",
        headline=f"{what} on {found.on}{f' under {promise}' if promise else ''}",
        asked=[(label(one.figure), one.said) for one in found.limits],
        tiles=[Tile(row[0], row[1]) for row in rows[:6]], blocks=blocks,
        assumed=first is not None and first.estimate is not None and not all(map(known, first.estimate.figures.values())),
    )  # fmt: skip


def of_what_runs(found: WhatRuns) -> Report:
    """The report of the models that run on a machine."""
    count = len(found.runs)
    rows = [
        (
            one.card.id, one.estimate.question["weights"], _of(one.estimate, "peak_memory_bytes"), _of(one.estimate, one.speed_key),
            ends_of(one.estimate, one.speed_key), "" if one.longest is None else f"{one.longest:,}",
            shown("params", one.params, "1"),
        )
        for one in found.runs
    ]  # fmt: skip
    blocks: list[Block] = []
    if rows:
        speeds = {f"{one.card.id} {one.estimate.question['weights']}": one.estimate for one in found.runs[:_SPEEDS]}
        key = found.runs[0].speed_key
        blocks.append(bars(speeds, key))
        head = ("model", "weights", "memory", "tokens/s", "low – high", "longest context", "parameters")
        blocks.append(Table(title="Every model that runs", head=head, rows=rows, aligned="llrrrrr", folded=len(rows) > _SPEEDS))
        blocks += _first(found.runs[0].estimate, f"{found.runs[0].card.id}: ")
    left = [f"{number} left out: {why}" for why, number in found.left_out.items()]
    if left or found.notes:
        blocks.append(Texts(title="Notes", items=[*left, *(noted(note) for note in found.notes)]))
    return Report(
        title=f"What runs on {found.on}", word=f"{count:,}", tone="good" if count else "bad",
        headline=f"{'model runs' if count == 1 else 'models run'} on {found.on} with {found.engine} for one user", blocks=blocks,
        assumed=any(not known(term) for one in found.runs[:1] for term in one.estimate.figures.values()),
    )  # fmt: skip


def _first(made: Estimate, whose: str) -> Iterator[Block]:
    """Pictures, figures and working of the first of several answers, under its name."""
    for block in (*pictures(made), *tables(made), *foot(made)):
        yield block.replaced(title=f"{whose}{block.title[:1].lower()}{block.title[1:]}", folded=not hasattr(block, "marks"))


def _keys(found: Planned, rows: Sequence[Candidate]) -> list[str]:
    wanted = [*_TRAIN] if found.task == "train" else [*_SERVE[:1], found.asked["ttft"], found.asked["tpot"], *_SERVE[1:]]
    return [
        key for key in dict.fromkeys([found.least, *wanted]) if key != "accelerators" and any(key in one.figures for one in rows)
    ]


def _value(one: Candidate, key: str) -> str:
    if key not in one.figures:
        return "unknown"
    unit = one.estimate.figures[key].unit if key in one.estimate.figures else _UNITS[key]
    return shown(key, one.figures[key], unit)


def _row(one: Candidate, keys: Sequence[str]) -> list[str]:
    question, price = one.estimate.question, one.offering.price
    plan = " ".join(f"{label(name)} {question[name]}" for name in _DEGREES if question.get(name, "1") not in ("1", "none"))
    return [
        one.offering.target, f"{one.offering.count:,}", *(_value(one, key) for key in keys),
        "unknown" if price is None else shown("price", float(price.value), "USD/s"), f"{one.fleet} {plan}".strip(),
    ]  # fmt: skip


def _tile(one: Candidate, key: str) -> Tile:
    term = one.estimate.figures.get(key)
    if term is None:
        return Tile(label(key), _value(one, key))
    return Tile(label(key), _value(one, key), ends_of(one.estimate, key), not known(term), anchor_of("w", key))


def _of(made: Estimate, key: str) -> str:
    term = made.figures[key]
    return shown(key, float(term.value), term.unit)
