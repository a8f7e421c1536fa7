"""`gpuplan calc`: what does one formula give for these values, and which value gives a wanted result?"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Exit, Option, Typer

from gpuplan.cli.help import Command
from gpuplan.errors import InfeasibleError, Problem, UsageError, did_you_mean
from gpuplan.record import Record

if TYPE_CHECKING:
    from gpuplan.solve import Solution
    from gpuplan.term import Formula

app = Typer(add_completion=False, rich_markup_mode=None)

RESULT = "result"
"""The name that stands for what the formula gives."""
UNKNOWN = "?"


class Asked(Record):
    """The values that were typed, in base units; `unknown` is solved for when there is one, and then `result` is given."""

    values: Mapping[str, float]
    unknown: str = ""
    result: float = 0.0


@app.command(cls=Command)
def calc(
    *,
    words: Annotated[
        list[str] | None,
        Argument(metavar="FORMULA NAME=VALUE …", help="A formula and its values with units; or `list`, and words to look for"),
    ] = None,
    json: Annotated[bool, Option("--json", help="JSON instead of text")] = False,
) -> None:
    """What does a formula give for these values, or which value of one gives a wanted result?

    Every formula that estimates are made of, and the worked examples of the field. Values have their unit (`3.35 TB/s`,
    `2 B`, `300 W`); counts and shares stand alone (`8k`, `70B`, `40%`). With `result=VALUE`, the one name that is left out or
    written `NAME=?` is solved for. Alone, or with `list TEXT`, it lists formulas.

    Examples:
      gpuplan calc mfu model_flop=3.3PFLOP seconds=1 s chips=8 peak_flop_per_s=989TFLOP/s
      gpuplan calc six_nd_flop params=70B result=6.3e24FLOP
      gpuplan calc stage_layers layers=61 'pp=?' result=4
      gpuplan calc list checkpoint
    """
    from gpuplan.formulas import every_formula

    formulas = every_formula()
    if not words or words[0] == "list":
        sys.stdout.write(_listing(formulas, " ".join(words[1:] if words else []), json))
        raise Exit(0)
    made = _named(words[0], formulas)
    asked = read(made, words[1:])
    if asked.unknown:
        _solved(made, asked, json)
    else:
        _evaluated(made, asked, json)
    raise Exit(0)


def _evaluated(made: Formula[...], asked: Asked, json: bool) -> None:
    from gpuplan.render.formula import calculation_json, calculation_text
    from gpuplan.render.text import look_of

    result = value_of(made, asked.values)
    if json:
        sys.stdout.write(calculation_json(made, asked.values, result))
    else:
        sys.stdout.write(calculation_text(made, asked.values, result, look_of(sys.stdout)))


def _solved(made: Formula[...], asked: Asked, json: bool) -> None:
    from gpuplan.formula_text import parameter_kind
    from gpuplan.render.formula import quantity, solution_json, solution_text
    from gpuplan.render.text import look_of
    from gpuplan.solve import solve

    found = solve(made, asked.unknown, asked.result, asked.values)
    if not found:
        seen = [one for exponent in (-6, -3, 0, 3, 6, 12) if (one := _tried(made, asked, 10.0**exponent)) is not None]
        span = f"from 1e-6 to 1e12 it gives {quantity(min(seen), made.unit)} to {quantity(max(seen), made.unit)}" if seen else ""
        text = f"no `{asked.unknown}` of zero or above makes {made.name} {quantity(asked.result, made.unit)}"
        raise InfeasibleError(Problem("calc.no-solution", text, span))
    whole = [_whole(made, asked, one) if parameter_kind(made, asked.unknown) == "Count" else {} for one in found]
    if json:
        sys.stdout.write(solution_json(made, asked.values, asked.unknown, asked.result, found, whole))
    else:
        sys.stdout.write(solution_text(made, asked.values, asked.unknown, asked.result, found, whole, look_of(sys.stdout)))


def _whole(made: Formula[...], asked: Asked, one: Solution) -> dict[float, float]:
    """Whole numbers at or around a solution and what each gives: the first and last of a range, the neighbours of a fraction."""
    inside = math.ceil(one.low) <= one.high
    last = one.low if math.isinf(one.high) else one.high
    numbers = (math.ceil(one.low), math.floor(last)) if inside else (math.floor(one.low), math.ceil(one.low))
    return {
        float(number): value
        for number in dict.fromkeys(numbers)
        if (value := _tried(made, asked, float(number))) is not None
    }  # fmt: skip


def _tried(made: Formula[...], asked: Asked, value: float) -> float | None:
    try:
        return value_of(made, {**asked.values, asked.unknown: value})
    except UsageError:
        return None


def value_of(made: Formula[...], values: Mapping[str, float]) -> float:
    """What a formula gives for numbers.

    Raises:
        UsageError: it has no finite value there.
    """
    try:
        found: Any = made.fn(**values)
    except (ZeroDivisionError, OverflowError, ValueError) as error:
        raise UsageError(Problem("calc.no-value", f"{made.name} has no value there: {error}", _page(made))) from None
    if isinstance(found, complex) or not math.isfinite(found):
        raise UsageError(Problem("calc.no-value", f"{made.name} has no finite value there", _page(made)))
    return float(found)


def read(made: Formula[...], words: Sequence[str]) -> Asked:
    """The values that `NAME=VALUE` words give a formula.

    Raises:
        UsageError: words that are no such pair, names that the formula does not have, values in wrong units, names left out.
    """
    values: dict[str, float] = {}
    unknown: list[str] = []
    problems: list[Problem] = []
    units = {**made.units, RESULT: made.unit}
    seen: set[str] = set()
    for word in _joined(words, units):
        name, equals, text = word.partition("=")
        if not equals:
            problems.append(Problem("calc.word", f"`{word}` is not NAME=VALUE", _page(made)))
        elif name not in units:
            hint = did_you_mean(name, units) or f"it has {', '.join(made.units)}"
            problems.append(Problem("calc.no-parameter", f"{made.name} has no parameter `{name}`", hint))
        elif name in seen:
            problems.append(Problem("calc.twice", f"`{name}` is given twice"))
        elif text.strip() in ("", UNKNOWN):
            unknown.append(name)
        else:
            _take(values, problems, name, text, units[name])
        seen.add(name)
    if problems:
        raise UsageError(*problems)
    return _complete(made, values, unknown, [name for name in made.units if name not in seen])


def _complete(made: Formula[...], values: dict[str, float], unknown: list[str], missing: list[str]) -> Asked:
    """The same values with the unknown told apart from what was forgotten.

    Raises:
        UsageError: names left out, several unknowns, or nothing to solve for.
    """
    wanted = values.pop(RESULT, None)
    if wanted is not None and not unknown and len(missing) == 1:
        unknown, missing = missing, []
    unknown = [name for name in unknown if name != RESULT]
    if missing:
        listed = ", ".join(f"{name} [{made.units[name]}]" for name in missing)
        raise UsageError(Problem("calc.missing", f"{made.name} lacks {listed}", _page(made)))
    if len(unknown) > 1:
        raise UsageError(
            Problem("calc.unknowns", f"{' and '.join(unknown)} cannot both be solved for", "give a value to all but one")
        )
    if unknown and wanted is None:
        raise UsageError(Problem("calc.no-result", f"solving for `{unknown[0]}` wants the result", f"add `{RESULT}=VALUE`"))
    if not unknown and wanted is not None:
        hint = "leave one name out, or write it as NAME=?"
        raise UsageError(Problem("calc.nothing-open", f"{made.name} and all that it is made of are given", hint))
    return Asked(values, unknown[0] if unknown else "", wanted or 0.0)


def _joined(words: Sequence[str], names: Mapping[str, str]) -> list[str]:
    """Words with a unit that stood apart (`seconds=1 s` without quotes) joined to its number."""
    made: list[str] = []
    for word in words:
        before = made[-1].partition("=")[2].strip() if made else ""
        if "=" not in word and before and before[-1].isdigit():
            made[-1] += f" {word}"
        else:
            made.append(word)
    return made


def _take(values: dict[str, float], problems: list[Problem], name: str, text: str, unit: str) -> None:
    """Read one value in the unit of its parameter; what is wrong with it joins the problems."""
    from gpuplan.units import UnitError, parse, parse_count

    try:
        if unit == "1" and "%" not in text:
            values[name] = parse_count(text.strip())
        else:
            values[name] = parse(text, unit).value
    except UnitError as error:
        problems.append(Problem("calc.value", f"{name}: {error}"))


def _named(name: str, formulas: Mapping[str, Formula[...]]) -> Formula[...]:
    """The formula of that name.

    Raises:
        UsageError: there is none.
    """
    if name not in formulas:
        hint = did_you_mean(name, formulas) or "`gpuplan calc list TEXT` looks for words in their meanings"
        raise UsageError(Problem("calc.no-formula", f"no formula is called `{name}`", hint))
    return formulas[name]


def _page(made: Formula[...]) -> str:
    return f"`gpuplan explain {made.name}` shows its names, units and an example"


def _listing(formulas: Mapping[str, Formula[...]], text: str, json: bool) -> str:
    """The formulas whose name or meaning has all the words.

    Raises:
        UsageError: none has.
    """
    from gpuplan.cli.help import rows, width
    from gpuplan.formula_text import formula_meaning
    from gpuplan.render.formula import listing_json

    looked = text.lower().split()
    found = {
        name: made
        for name, made in sorted(formulas.items())
        if all(word in f"{name} {formula_meaning(made)}".lower() for word in looked)
    }  # fmt: skip
    if not found:
        raise UsageError(
            Problem("calc.nothing-listed", f"no formula has `{text}` in its name or meaning", did_you_mean(text, formulas))
        )
    if json:
        return listing_json(found)
    return rows([(name, f"[{made.unit}] {formula_meaning(made)}") for name, made in found.items()], width()) + "\n"
