"""Does every formula keep the contract: a source, units, a doctest, one expression, right dimensions, scalar equal to array?"""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import math
import pkgutil
import random
import re
import textwrap
from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
import pint
import pytest

import gpuplan.formulas
from gpuplan.formula_text import formula_meaning, formula_text
from gpuplan.num import Bytes, Num, maximum
from gpuplan.term import DEFINITION, FORMULAS, Formula, WiringError, formula
from tests.sweeps import each

for module in pkgutil.walk_packages(gpuplan.formulas.__path__, "gpuplan.formulas."):
    importlib.import_module(module.name)
ALL = [made for made in FORMULAS.values() if made.fn.__module__.startswith("gpuplan.formulas.")]

# FLOP and counts are plain numbers; what is left has dimensions of its own, so that a byte never passes for a second.
DIMENSIONS: Any = pint.UnitRegistry(None)
for definition in ("s = [time]", "B = [data]", "USD = [money]", "J = [energy]", "W = J / s", "Hz = 1 / s", "kg = [mass]"):
    DIMENSIONS.define(definition)
LITERALS = {"1": "dimensionless", "FLOP": "dimensionless", "FLOP/s": "1 / s", "FLOP/B": "1 / B"}
ALLOWED_CALLS = {"maximum", "minimum", "ceil", "floor", "ceil_div", "sqrt", "log2", "exp", "where"}
ALLOWED_NODES = (
    ast.BinOp, ast.UnaryOp, ast.USub, ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Pow, ast.Compare, ast.Lt, ast.LtE,
    ast.Gt, ast.GtE, ast.Eq, ast.NotEq, ast.Call, ast.Name, ast.Load, ast.Constant, ast.keyword,
)  # fmt: skip


every_formula = each("made", ALL)


@every_formula
def test_source_can_be_checked(made: Formula[...]) -> None:
    assert made.source.title
    assert made.source.kind in ("definition", "assumed", "fitted") or made.source.url.startswith("https://")


OWN = re.compile(r"\bfitted\b|\bresidual\b|\bthrottle|\bramp\b|\btail\b|\bunhidden\b|\bpace\b|\bcontention\b|\bstraggle\b")
"""Words for what only measurements of ours can say, in the meaning of a formula or the names of its parameters."""


@every_formula
def test_a_fit_is_signed_as_one(made: Formula[...]) -> None:
    if made.source.kind == "fitted":
        assert len(made.source.title) > 20, "the data are named"
        assert re.match(r"holds for .{10}", made.source.section), "the range is named"
    meaning = formula_meaning(made)
    assert made.source.kind != "paper" or not OWN.search(f"{meaning} {' '.join(made.units)}"), "no paper contains our own fit"


@every_formula
def test_units_on_everything(made: Formula[...]) -> None:
    parameters = list(inspect.signature(made.fn).parameters)
    assert parameters
    assert list(made.units) == parameters
    for unit in (*made.units.values(), made.unit):
        DIMENSIONS.parse_units(LITERALS.get(unit, unit))


@every_formula
def test_body_is_a_docstring_and_one_expression(made: Formula[...]) -> None:
    tree = ast.parse(textwrap.dedent(inspect.getsource(made.fn)))
    (function,) = (node for node in tree.body if isinstance(node, ast.FunctionDef))
    doc, returned = function.body
    assert isinstance(doc, ast.Expr)
    assert isinstance(returned, ast.Return)
    assert returned.value is not None
    for node in ast.walk(returned.value):
        assert isinstance(node, ALLOWED_NODES), ast.dump(node)
        if isinstance(node, ast.Call):
            assert isinstance(node.func, ast.Name)
            assert node.func.id in ALLOWED_CALLS | FORMULAS.keys()


@every_formula
def test_text_renders(made: Formula[...]) -> None:
    assert formula_text(made)


def test_an_annotation_without_a_unit_is_refused_by_name() -> None:
    def written_out(*, size: Annotated[Num, "B"]) -> Bytes:
        return size

    def plain(*, size: Bytes) -> float:
        return float(size)

    for made, what in ((written_out, "`size` is annotated"), (plain, "`return` is annotated `float`")):
        with pytest.raises(WiringError, match=f"{made.__name__}: {what}.*such as `Bytes`"):
            formula(DEFINITION)(made)


SAME_TEXT = {
    frozenset({"array_dim", "tiled_queries", "decode_keys"}),  # whole tiles of a systolic array, of queries, of pages
    frozenset({"rank_experts", "expert_rows", "decode_rows", "waves", "gather_ranks", "users_of_reader"}),  # a share, at least one
    frozenset({"difference", "active_params"}),
    frozenset({"replica_share", "stage_layers", "whole_pieces"}),  # of requests, of layers, and of anything else
    frozenset({"broadcast_wire", "switched_all_reduce_wire"}),  # of a ring of copies, and of switches that add
    frozenset({"smaller", "windowed_tokens", "in_flight_zb_h1"}),
    frozenset({"mfu", "hfu"}),  # of model FLOP, and of all
    frozenset({"memory_seconds", "wire_seconds"}),  # of a memory, and of a link
    frozenset({"one_shot_wire", "uncounted_bytes"}),
    frozenset({"mla_query_params", "lora_params"}),
    frozenset({"sharded_params", "decode_tp_limit"}),
}
"""Formulas with the same text that say different things. This list may only shrink."""


def test_no_two_formulas_say_the_same() -> None:
    """Beyond plain products and quotients, which count different things."""
    texts: dict[tuple[str, ...], set[str]] = {}
    for made in ALL:
        text = formula_text(made)
        if any(sign in text for sign in ("+", "−", "(", "^")):
            order = sorted(made.units, key=lambda name, text=text: re.search(rf"\b{name}\b", text).start())  # type: ignore[union-attr]
            for at, name in enumerate(order):
                text = re.sub(rf"\b{name}\b", f"<{at}>", text)
            texts.setdefault((made.unit, text, *(made.units[name] for name in order)), set()).add(made.name)
    assert {frozenset(names) for names in texts.values() if len(names) > 1} == SAME_TEXT


class _Checker(doctest.OutputChecker):
    """Compares numbers to the precision that the doctest prints, as pytest's NUMBER option does."""

    number = re.compile(r"[-+]?\d+\.?\d*(?:[eE][-+]?\d+)?")

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        wants, gots = self.number.findall(want), self.number.findall(got)
        if len(wants) != len(gots) or self.number.sub("#", want).split() != self.number.sub("#", got).split():
            return False
        return all(abs(float(w) - float(g)) <= _last_digit(w) for w, g in zip(wants, gots, strict=True))


def _last_digit(text: str) -> float:
    mantissa, _, exponent = text.lower().partition("e")
    if not exponent and "." not in mantissa:
        return 0.0
    return float(10.0 ** (int(exponent or 0) - len(mantissa.partition(".")[2])))


@every_formula
def test_doctest(made: Formula[...]) -> None:
    # pytest's own doctest run does not see formulas: to it they are objects, not functions
    found = doctest.DocTestParser().get_doctest(made.fn.__doc__ or "", dict(made.fn.__globals__), made.name, None, 0)
    assert any(made.name in example.source for example in found.examples)
    lines: list[str] = []
    result = doctest.DocTestRunner(checker=_Checker(), verbose=False).run(found, out=lines.append)
    assert result.failed == 0, "".join(lines)


def _draws(made: Formula[...], count: int) -> list[dict[str, float]]:
    """Random positive inputs for which the formula has a real value."""
    dice = random.Random(made.name)
    good: list[dict[str, float]] = []
    for _ in range(2000):
        values = {key: math.exp(dice.uniform(-2.5, 2.5)) for key in made.units}
        try:
            result: Any = made(**values)
        except (ZeroDivisionError, ValueError, OverflowError):
            continue
        if not isinstance(result, complex) and math.isfinite(result):
            good.append(values)
            if len(good) == count:
                return good
    raise AssertionError(f"no valid inputs found for {made.name}")


def _right_dimensions(made: Formula[...]) -> bool:
    """Whether quantities with the declared units give the declared unit, and the same number."""
    (values,) = _draws(made, 1)
    quantities: dict[str, Any] = {
        key: DIMENSIONS.Quantity(value, LITERALS.get(made.units[key], made.units[key])) for key, value in values.items()
    }
    try:
        result = DIMENSIONS.Quantity(made(**quantities))
    except pint.DimensionalityError:
        return False
    unit = DIMENSIONS.parse_units(LITERALS.get(made.unit, made.unit))
    base = result.to_base_units().magnitude
    return bool(result.check(unit.dimensionality)) and bool(base == pytest.approx(made(**values), rel=1e-12))


@every_formula
def test_dimensions(made: Formula[...]) -> None:
    assert _right_dimensions(made)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda size, bandwidth: size * bandwidth,
        lambda size, bandwidth: size + bandwidth,
        lambda size, bandwidth: maximum(size, 2 * bandwidth),
        lambda size, bandwidth: size / bandwidth + 1,
    ],
)
def test_wrong_dimensions_are_seen(wrong: Callable[..., Num]) -> None:
    assert not _right_dimensions(Formula(wrong, "wrong", DEFINITION, "s", {"size": "B", "bandwidth": "B/s"}))


@every_formula
def test_scalar_equals_array(made: Formula[...]) -> None:
    draws = _draws(made, 3)
    arrays: dict[str, Any] = {key: np.array([draw[key] for draw in draws]) for key in made.units}
    assert np.broadcast_to(made(**arrays), 3) == pytest.approx([made(**draw) for draw in draws], rel=1e-12)
