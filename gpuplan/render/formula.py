"""What does one formula say (its text, units, meaning, example and source), and what does it give for some values?"""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping, Sequence
from typing import Any

from gpuplan.formula_text import formula_meaning, formula_text
from gpuplan.render.text import LARGE, Look, columns, wrap
from gpuplan.solve import Solution
from gpuplan.term import Formula
from gpuplan.units import human

DIGITS = 6
"""Significant digits of a calculated value: more than an estimate deserves, since here the user knows the inputs."""


def formula_page(formula: Formula[...], look: Look) -> str:
    """A formula with its parameters, its docstring, its example and its source."""
    lines = [f"{look.bold(formula.name)}  [{formula.unit}]"]
    lines += wrap(formula_text(formula), look.width, "  = ", "    ")
    lines += ["", *columns([[name, f"[{unit}]"] for name, unit in formula.units.items()], "ll"), ""]
    for block in (inspect.getdoc(formula.fn) or "").split("\n\n"):
        code = block.lstrip().startswith(">>>")
        lines += [f"  {line}" for line in block.splitlines()] if code else wrap(" ".join(block.split()), look.width, "  ")
        lines.append("")
    return "\n".join([*lines, *_cited(formula, look)]) + "\n"


def _cited(formula: Formula[...], look: Look) -> list[str]:
    """Where a formula comes from, and what it is for where no estimate uses it."""
    source, lines = formula.source, []
    if is_reference(formula):
        lines += wrap("A worked example of the field: no estimate uses it, `gpuplan calc` does.", look.width, "  ")
    kind = "" if source.title.startswith("by definition") else source.kind
    facts = [kind, source.title, source.section, f"checked {source.checked}" if source.checked else "", source.note]
    lines += wrap(", ".join(fact for fact in facts if fact), look.width, "  ")
    return lines + ([f"  {source.url}"] if source.url else [])


def is_reference(formula: Formula[...]) -> bool:
    """Whether a formula is only for `gpuplan calc`: one of those in `gpuplan.formulas.reference`."""
    return formula.fn.__module__.startswith("gpuplan.formulas.reference.")


def quantity(value: float, unit: str) -> str:
    """A calculated value with its unit, without zeros at its end.

    >>> quantity(989.4e12, "FLOP/s"), quantity(0.46200, "1"), quantity(1e9, "B"), quantity(70e9, "1"), quantity(6.3e24, "FLOP")
    ('989.4 TFLOP/s', '0.462', '953.674 MiB', '70 billion', '6.3e+24 FLOP')
    """
    if abs(value) >= 1e21:
        return f"{value:.{DIGITS}g} {unit}".removesuffix(" 1")
    number, space, suffix = human(value, unit, DIGITS).partition(" ")
    number = number.rstrip("0").rstrip(".") if "." in number and "e" not in number else number
    return f"{number}{space}{LARGE.get(suffix, suffix) if unit == '1' else suffix}"


def calculation_text(formula: Formula[...], values: Mapping[str, float], result: float, look: Look) -> str:
    """What a formula gives, how, and what it means."""
    return "\n".join([look.bold(f"{formula.name} = {quantity(result, formula.unit)}"), *_working(formula, values, look)]) + "\n"


def solution_text(
    formula: Formula[...], values: Mapping[str, float], unknown: str, result: float, found: Sequence[Solution],
    whole: Sequence[Mapping[float, float]], look: Look,
) -> str:  # fmt: skip
    """Which values of one parameter give a result, and what whole numbers give where it is a count."""
    unit = formula.units[unknown]
    lines = []
    for one, numbers in zip(found, whole, strict=True):
        lines.append(look.bold(_found(unknown, unit, one, formula)))
        if one.low != one.high or list(numbers) != [one.low]:
            lines += [f"  {unknown} = {number:,.0f} gives {quantity(value, formula.unit)}" for number, value in numbers.items()]
    lines.append(f"  for {formula.name} = {quantity(result, formula.unit)}")
    return "\n".join([*lines, *_working(formula, values, look)]) + "\n"


def _found(unknown: str, unit: str, one: Solution, formula: Formula[...]) -> str:
    if one.jump is not None:
        below, above = (quantity(value, formula.unit) for value in one.jump)
        return f"no {unknown} gives it exactly: below {quantity(one.low, unit)} it is {below}, above {above}"
    if one.low == one.high:
        return f"{unknown} = {quantity(one.low, unit)}"
    if one.high == float("inf"):
        return f"{unknown} = {quantity(one.low, unit)} or more"
    return f"{unknown} = {quantity(one.low, unit)} to {quantity(one.high, unit)}"


def _working(formula: Formula[...], values: Mapping[str, float], look: Look) -> list[str]:
    """The text of a formula, the same with values, its meaning and its source."""
    lines = wrap(formula_text(formula), look.width, "  = ", "    ")
    if values:
        lines += wrap(formula_text(formula, {key: quantity(value, formula.units[key]) for key, value in values.items()}),
                      look.width, "  = ", "    ")  # fmt: skip
    return [*lines, "", *wrap(f"{formula_meaning(formula)}.", look.width, "  "), "", *_cited(formula, look)]


def calculation_json(formula: Formula[...], values: Mapping[str, float], result: float) -> str:
    """What a formula gives, as JSON in base units."""
    return _json({**_described(formula, values), "value": result})


def solution_json(
    formula: Formula[...], values: Mapping[str, float], unknown: str, result: float, found: Sequence[Solution],
    whole: Sequence[Mapping[float, float]],
) -> str:  # fmt: skip
    """Which values of one parameter give a result, as JSON in base units; a range without end has no `high`."""
    solutions = [
        {
            "low": one.low, "high": None if one.high == float("inf") else one.high, "jumps_from_to": one.jump,
            "whole_numbers": [{"value": number, "gives": value} for number, value in numbers.items()],
        }
        for one, numbers in zip(found, whole, strict=True)
    ]  # fmt: skip
    solved = {"name": unknown, "unit": formula.units[unknown], "solutions": solutions}
    return _json({**_described(formula, values), "value": result, "solved": solved})


def listing_json(formulas: Mapping[str, Formula[...]]) -> str:
    """Names, units and meanings of formulas as JSON."""
    return _json([
        {"formula": made.name, "unit": made.unit, "parameters": dict(made.units), "meaning": formula_meaning(made)}
        for made in formulas.values()
    ])  # fmt: skip


def _described(formula: Formula[...], values: Mapping[str, float]) -> dict[str, Any]:
    source = formula.source
    return {
        "formula": formula.name,
        "unit": formula.unit,
        "text": formula_text(formula),
        "meaning": formula_meaning(formula),
        "inputs": {key: {"value": value, "unit": formula.units[key]} for key, value in values.items()},
        "source": {"kind": source.kind, "title": source.title, "url": source.url, "section": source.section},
    }


def _json(data: Any) -> str:
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"
