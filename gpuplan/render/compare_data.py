"""What is the JSON of a comparison, and what are its rows for a spreadsheet?

Adding a key keeps the number in `SCHEMA`; renaming, removing or changing the meaning of one raises it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpuplan import __version__
from gpuplan.estimate.result import Estimate
from gpuplan.estimate.slower import Input, Part
from gpuplan.estimate.standing import Standing
from gpuplan.estimate.winner import price_of, winners
from gpuplan.render.csv import COLUMNS, csv_text, figure_rows
from gpuplan.render.json import document, number
from gpuplan.render.text import known
from gpuplan.units import HOUR

SCHEMA = "gpuplan/comparison/1"


def comparison_document(task: str, order: Sequence[Standing], *, full: bool = False) -> dict[str, Any]:
    """The comparison for programs: winners, the rows in order, and the reasons of each; numbers are in base units.

    `full` adds to each row the whole answer with its derivation, as `--json=full` of its own question has it.
    """
    best = winners({one.name: one.answer for one in order if one.answer is not None})
    return {
        "schema": SCHEMA,
        "gpuplan": __version__,
        "task": task,
        "winner": [
            {"best": one.word, "figure": one.key, "name": one.name, "next": one.next, "times": number(one.times), "sure": one.sure}
            for one in best
        ],
        "rows": [_row(one) | _whole(one, full=full) for one in order],
        "reasons": [made for one in order if (made := _reasons(one))],
    }


def figures_json(answer: Estimate) -> dict[str, Any]:
    """The figures of an answer with their ranges, without the derivation."""
    return {
        key: {
            "value": number(term.value), "low": number(answer.ranges[key][0]), "high": number(answer.ranges[key][1]),
            "unit": term.unit, "assumed": not known(term),
        }
        for key, term in answer.figures.items()
    }  # fmt: skip


def price_json(answer: Estimate) -> dict[str, Any] | None:
    """What one accelerator costs an hour, of whose offer that is, and of which kind and date; None where no price is told."""
    price = price_of(answer)
    if price is None:
        return None
    about = next((dict(note.about) for note in answer.notes if note.about), {"provider": "", "kind": "yours", "date": ""})
    return {"usd_per_accelerator_hour": number(float(price.value) * HOUR), **about}


def _row(one: Standing) -> dict[str, Any]:
    row: dict[str, Any] = {"name": one.name, "changed": dict(one.changed)}
    if one.answer is None:
        problems = () if one.error is None else one.error.problems
        told = [{"code": problem.code, "message": problem.message, "hint": problem.hint} for problem in problems]
        return {**row, "answered": False, "problems": told}
    verdict = one.answer.verdict
    return {
        **row,
        "answered": True,
        "fits": verdict.fits,
        "verdict": verdict.words,
        "headline": verdict.headline,
        "speed_against_first": None if one.behind is None or not one.behind.times else number(1 / one.behind.times),
        "price": price_json(one.answer),
        "question": dict(one.answer.question),
        "figures": figures_json(one.answer),
        "chosen": [{"name": choice.name, "value": choice.value, "reason": choice.reason} for choice in one.answer.chosen],
        "notes": [{"code": note.code, "text": note.text, "hint": note.hint} for note in one.answer.notes],
    }


def _whole(one: Standing, *, full: bool) -> dict[str, Any]:
    return {"estimate": document(one.answer)} if full and one.answer is not None else {}


def _reasons(one: Standing) -> dict[str, Any]:
    made: dict[str, Any] = {}
    if one.behind is not None:
        made["behind"] = {
            "figure": one.behind.figure, "best": one.behind.best, "times": number(one.behind.times),
            "parts": [{**_two(part), "share": number(part.share)} for part in one.behind.parts],
            "inputs": [{**_two(put), "times_alone": number(put.times)} for put in one.behind.inputs],
        }  # fmt: skip
    if one.dearer is not None:
        made["dearer"] = {
            "best": one.dearer.best, "times": number(one.dearer.times), "price_times": number(one.dearer.price_times),
            "time_times": number(one.dearer.time_times),
        }  # fmt: skip
    return {"name": one.name, **made} if made else {}


def _two(one: Part | Input) -> dict[str, Any]:
    """What differs, in the answer itself and in the best one."""
    return {"name": one.name, "own": number(one.own), "best": number(one.best), "unit": one.unit}


def comparison_csv(order: Sequence[Standing]) -> str:
    """One row a figure of each answer, in base units, in order, `estimate` being its name; where there is no answer one says so."""
    rows: list[tuple[object, ...]] = []
    for one in order:
        if one.answer is None:
            why = "; ".join(problem.message for problem in one.error.problems) if one.error is not None else ""
            rows.append((one.name, "no answer", why, "", "", "", "", "", ""))
            continue
        answer = one.answer
        rows += figure_rows(one.name, answer)
        price = price_json(answer)
        if price is not None:
            dollars = price.pop("usd_per_accelerator_hour")
            rows.append((one.name, "price", " ".join(value for value in price.values() if value), dollars, "", "", "USD/h", "", ""))
        if one.behind is not None:
            section = f"behind {one.behind.best}"
            rows += [
                (one.name, section, part.name, part.own - part.best, "", "", part.unit, part.share, "") for part in one.behind.parts
            ]
    return csv_text(COLUMNS, rows)
