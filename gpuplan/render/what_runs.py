"""What does the list of models that run on a machine look like: a line for each, in text, JSON, CSV and Markdown?"""

from __future__ import annotations

import json
from collections.abc import Sequence

from gpuplan.estimate.runnable import Runs, WhatRuns
from gpuplan.plan.what_runs import WhatRunsAsk
from gpuplan.render.room import MOST_LINES
from gpuplan.render.spoken import cells, lines, one_line
from gpuplan.render.text import Look, noted, shown, wrap
from gpuplan.units import human, so_many

HEADS = ("model", "weights", "memory", "tokens/s", "low – high", "context", "params", "active", "on the host")
ALIGNED = "llrrlrrrl"
PARTLY = 0.9
"""Below this share of its parameters that a token meets, the active ones are told."""
MOST, LEAST = 12, 5
"""Models that are shown unless more are asked for: so many, or as many as a screen holds, but not fewer than the least."""
NARROWLY = " !"
"""Marks memory whose high end is beyond the budget."""


def as_text(found: WhatRuns, ask: WhatRunsAsk, look: Look) -> str:
    """The list, what was left out, and what to know about the machine: one screen, unless `--limit` says how many."""
    rows = _shown(found, ask)
    lines = _page(found, rows, look)
    while ask.limit is None and len(lines) > MOST_LINES and len(rows) > LEAST:
        rows = rows[:-1]
        lines = _page(found, rows, look)
    return "\n".join(lines) + "\n"


def _page(found: WhatRuns, rows: Sequence[Runs], look: Look) -> list[str]:
    from gpuplan.render.spec import stacked

    made = [look.bold(headline(found))]
    if rows:
        told = [_row(one) for one in rows]
        kept = [at for at in range(len(HEADS)) if any(row[at] for row in told)]
        cells = [[row[at] for at in kept] for row in told]
        table = stacked([HEADS[at] for at in kept], cells, "".join(ALIGNED[at] for at in kept), look)
        made += ["", *table.rstrip("\n").split("\n")]
    if rows and rows[0].command:
        made += ["", *wrap(f"The first is started by: {rows[0].command}", look.width, "", "  ")]
    said = _said(found, rows)
    if said:
        made += ["", "Notes", *(line for text in said for line in wrap(text, look.width, "  - ", "    "))]
    return made


def as_plain(found: WhatRuns, ask: WhatRunsAsk) -> str:
    """The list as `label: value` lines for a screen reader."""
    rows = _shown(found, ask)
    said = [f"answer: {headline(found)}"]
    for at, one in enumerate(rows, 1):
        said += cells(f"model {at}", HEADS, [cell.removesuffix(NARROWLY) for cell in _row(one)])
        said += (
            [f"model {at}, memory: it fits narrowly, as it may need more than there is"] if one.estimate.verdict.narrowly else []
        )
    said += [f"model 1, started by: {rows[0].command}"] if rows and rows[0].command else []
    return lines([*said, *(f"note: {text}" for text in _said(found, rows) if not text.startswith(NARROWLY.strip()))])


def as_brief(found: WhatRuns, ask: WhatRunsAsk) -> str:
    """The list in one line: how many run, and the first of them."""
    told = []
    for one in _shown(found, ask)[:1]:
        row = dict(zip(HEADS, _row(one), strict=True))
        told = [f"first {row['model']} in {row['weights']}: memory {row['memory']}, {row['tokens/s']} tokens/s"]
        told[0] += f", context {row['context']}" if row["context"] else ""
    return one_line(headline(found), told)


def headline(found: WhatRuns) -> str:
    """How many models run where."""
    what = "model runs" if len(found.runs) == 1 else "models run"
    return f"{len(found.runs)} {what} on {found.on} with {found.engine} for one user"


def as_markdown(found: WhatRuns, ask: WhatRunsAsk) -> str:
    """The same as a table of Markdown."""
    from gpuplan.render.markdown import grid

    rows = _shown(found, ask)
    notes = "\n".join(f"- {text}" for text in _said(found, rows))
    return f"{grid(HEADS, [_row(one) for one in rows], ALIGNED)}\n{notes}\n"


def document(found: WhatRuns) -> dict[str, object]:
    """All of them as plain data, in base units."""
    return {
        "on": found.on, "engine": found.engine, "models": records(found), "left_out": dict(found.left_out),
        "notes": [note.text for note in found.notes],
    }  # fmt: skip


def as_json(found: WhatRuns) -> str:
    """All of them for programs."""
    return json.dumps(document(found), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def as_csv(found: WhatRuns) -> str:
    """The same, one row a model and type of weights."""
    from gpuplan.render.csv import records_csv

    return records_csv(records(found))


def records(found: WhatRuns) -> list[dict[str, object]]:
    """Each model that runs, in base units."""
    made: list[dict[str, object]] = []
    for one in found.runs:
        low, high = one.estimate.ranges[one.speed_key]
        memory = one.estimate.figures["peak_memory_bytes"]
        least, most = one.estimate.ranges["peak_memory_bytes"]
        made.append({
            "model": one.card.id, "kind": one.kind, "license": None if one.card.license is None else one.card.license.name,
            "params_total": one.params, "params_active": one.active,
            "weights": one.estimate.question["weights"], "fits": one.estimate.verdict.words, "memory_bytes": float(memory.value),
            "memory_bytes_low": float(least), "memory_bytes_high": float(most),
            "memory_budget_bytes": float(one.estimate.figures["memory_budget_bytes"].value), "tokens_per_s": one.speed,
            "tokens_per_s_low": float(low), "tokens_per_s_high": float(high), "longest_context": one.longest,
            "tp": int(one.estimate.question["tp"]), "pp": int(one.estimate.question["pp"]),
            "gpu_layers": one.placed.get("gpu_layers"), "host_experts": one.placed.get("host_experts"), "command": one.command,
        })  # fmt: skip
    return made


def left_out(found: WhatRuns) -> str:
    """How many models were left out, and why."""
    return ", ".join(f"{count} {why}" for why, count in found.left_out.items())


def _shown(found: WhatRuns, ask: WhatRunsAsk) -> Sequence[Runs]:
    return found.runs[: ask.limit or MOST]


def _row(one: Runs) -> list[str]:
    low, high = (shown("tokens_per_s", end, "1/s") for end in one.estimate.ranges[one.speed_key])
    memory = human(float(one.estimate.figures["peak_memory_bytes"].value), "B")
    return [
        one.card.id, one.estimate.question["weights"], memory + (NARROWLY if one.estimate.verdict.narrowly else ""),
        shown("tokens_per_s", one.speed, "1/s"), f"{low} – {high}", "" if one.longest is None else f"{one.longest:,}",
        human(one.params, "1"), human(one.active, "1") if one.active < PARTLY * one.params else "", _there(one),
    ]  # fmt: skip


def _there(one: Runs) -> str:
    """What of a model lies in the memory of the host."""
    if "host_experts" in one.placed:
        return f"experts of {so_many(one.placed['host_experts'], 'layer')}"
    layers = one.placed.get("gpu_layers")
    return "" if layers is None else f"all but {layers} of {so_many(one.card.architecture.depth, 'layer')}"


def _said(found: WhatRuns, rows: Sequence[Runs]) -> list[str]:
    left = left_out(found)
    made = [f"left out: {left}"] if left else []
    if len(rows) < len(found.runs):
        made.insert(0, f"{len(found.runs) - len(rows)} more run: --limit shows them")
    if any(one.estimate.verdict.narrowly for one in rows):
        made.append(f"{NARROWLY.strip()}: it fits narrowly, as it may need more than there is")
    return [*made, *(noted(note) for note in found.notes)]
