"""The text of a formula, printed from the code that runs, so that it cannot drift from it."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from gpuplan.term import Formula

_OPERATORS: dict[type[ast.AST], tuple[str, int]] = {
    ast.Add: (" + ", 1), ast.Sub: (" − ", 1), ast.Mult: (" · ", 2), ast.Div: (" / ", 2), ast.FloorDiv: (" // ", 2),
    ast.Pow: ("^", 4),
}  # fmt: skip
_COMPARISONS: dict[type[ast.AST], str] = {
    ast.Lt: "<", ast.LtE: "≤", ast.Gt: ">", ast.GtE: "≥", ast.Eq: "=", ast.NotEq: "≠",
}  # fmt: skip
_FUNCTIONS = {"maximum": "max", "minimum": "min", "ceil_div": "ceil_div", "where": "if"}


def formula_text(formula: Formula[...], names: Mapping[str, str] | None = None) -> str:
    """The right-hand side of a formula; `names` replaces parameters, for example by their values."""
    if formula.name == "sum":
        return " + ".join((names or {}).get(key, key) for key in formula.units)
    if formula.name == "max":
        return f"max({', '.join((names or {}).get(key, key) for key in formula.units)})"
    return _text(_expression(formula.fn), dict(names or {}), 0)


def formula_meaning(formula: Formula[...]) -> str:
    """The first sentence of a formula's docstring."""
    first = (inspect.getdoc(formula.fn) or "").split("\n\n")[0]
    return " ".join(first.split()).removesuffix(".")


def parameter_kind(formula: Formula[...], name: str) -> str:
    """The kind of number that a parameter is, as its annotation says it: `Count`, `Ratio`, `Bytes` and so on."""
    return str(formula.fn.__annotations__[name])


@cache
def _expression(fn: Callable[..., Any]) -> ast.expr:
    tree = ast.parse(textwrap.dedent(inspect.getsource(fn)))
    body = next(node for node in tree.body if isinstance(node, ast.FunctionDef)).body
    returned = body[-1]
    if not isinstance(returned, ast.Return) or returned.value is None:
        raise TypeError(f"{fn.__name__} does not end in a return of one expression")
    return returned.value


def _text(node: ast.expr, names: Mapping[str, str], outer: int) -> str:
    match node:
        case ast.Name(id=name):
            return names.get(name, name)
        case ast.Constant(value=value):
            return f"{value:g}" if isinstance(value, float) else str(value)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return f"−{_text(operand, names, 3)}"
        case ast.BinOp(left=left, op=op, right=right):
            sign, level = _OPERATORS[type(op)]
            tighter = level + (1 if isinstance(op, (ast.Sub, ast.Div, ast.FloorDiv, ast.Pow)) else 0)
            text = f"{_text(left, names, level)}{sign}{_text(right, names, tighter)}"
            return f"({text})" if level < outer else text
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return f"{_text(left, names, 0)} {_COMPARISONS[type(op)]} {_text(right, names, 0)}"
        case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords):
            parts = [_text(arg, names, 0) for arg in args] + [_text(word.value, names, 0) for word in keywords]
            return f"{_FUNCTIONS.get(name, name)}({', '.join(parts)})"
        case _:
            raise TypeError(f"a formula may not contain {type(node).__name__}")
