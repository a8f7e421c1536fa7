"""Does an assertion about an answer hold, such as `fits and cost_usd < 1e5 and ttft_p99_s < 500 ms`?

A small language: Python's own parser makes a tree, of which only what stands here is allowed. Figures go by their JSON keys, in
base units; numbers may have a unit. What an answer does not know makes neither true nor false: the outcome is unknown, unless the
rest decides it.
"""

from __future__ import annotations

import ast
import math
import operator
import re
import warnings
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeAlias

from gpuplan.errors import Problem, UsageError, did_you_mean
from gpuplan.record import Record
from gpuplan.units import UNITS, UnitError, brief, human, number, parse

FLAGS = ("fits", "narrowly")
"""What is true or false of an answer: it fits; it fits, but not at the high end of what may be needed."""
ENDS = ("low", "high")
_LONGEST = 2000
_DEEPEST = 40
_SPELT = sorted((unit for unit in UNITS if unit not in ("", "1")), key=len, reverse=True)
_QUANTITY = re.compile(
    r"(?<![\w.])(\d[\d_]*(?:\.\d+)?(?:[eE][+-]?\d+)?)(?:\s*(" + "|".join(map(re.escape, _SPELT)) + r")(?![\w/])|([kMT])(?!\w))"
)
_COUNTS = {"k": 1e3, "M": 1e6, "T": 1e12}
_COMPARE: Mapping[type[ast.cmpop], Callable[[float, float], bool]] = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
    ast.Eq: operator.eq, ast.NotEq: operator.ne,
}  # fmt: skip
_ARITHMETIC: Mapping[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
}  # fmt: skip
_FUNCTIONS: Mapping[str, Callable[..., float]] = {"min": min, "max": max, "abs": abs}
HINT = "write for example `fits and cost_usd < 1e5 and ttft_s < 500 ms`; docs/scenarios.md has the language"

Truth: TypeAlias = bool | None
"""True, false, or unknown."""


class Known(Record):
    """A figure of an answer in base units, with its range."""

    value: float
    low: float
    high: float
    unit: str


class Facts(Record, kw_only=True):
    """What an answer says: flags, figures, and why it does not have some that other answers have."""

    flags: Mapping[str, bool]
    figures: Mapping[str, Known]
    lacking: Mapping[str, str]
    """Figures that the answer does not have, each with the reason: a comparison with them is unknown."""


class Outcome(Record):
    """Whether an assertion holds; None: unknown. `told` names the figures it rests on, `unknown` those that were wanting."""

    holds: Truth
    told: str
    unknown: tuple[str, ...] = ()


class Assertion(Record):
    """An assertion that was read: its text, the tree, the quantities in it, and the figures that it names."""

    text: str
    tree: Any
    quantities: Mapping[str, tuple[float, str]]
    names: tuple[str, ...]

    @classmethod
    def of(cls, text: str, where: str = "") -> Assertion:
        """The assertion that a text means.

        Raises:
            UsageError: it is none, or holds something that the language does not have.
        """
        if not isinstance(text, str) or not text.strip():
            raise UsageError(Problem("require.empty", "an assertion is wanted", HINT, where))
        if len(text) > _LONGEST:
            raise UsageError(
                Problem("require.long", f"an assertion of {len(text):,} characters: {_LONGEST:,} at most", "part it", where)
            )
        quantities: dict[str, tuple[float, str]] = {}

        def held(found: re.Match[str]) -> str:
            name = f"_{len(quantities)}"
            if found[3]:
                quantities[name] = number(found[1]) * _COUNTS[found[3]], ""
            else:
                made = parse(f"{found[1]} {found[2]}")
                quantities[name] = made.value, made.unit
            return f" {name} "

        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SyntaxWarning)  # of what is refused anyway
                tree = ast.parse(_QUANTITY.sub(held, " ".join(text.split())).strip(), mode="eval").body
        except UnitError as error:
            raise UsageError(Problem("require.number", f"`{brief(text, 80)}`: {error}", HINT, where)) from None
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise UsageError(Problem("require.syntax", f"`{brief(text, 80)}` is no assertion", _advice(text), where)) from None
        reader = _Reader(text, quantities, where)
        if not reader.is_truth(tree, 0):
            raise reader.wrong("this is a number, not true or false", "compare it with something, such as `mfu > 40 %`")
        return cls(text, tree, quantities, tuple(dict.fromkeys(reader.names)))

    def judged(self, facts: Facts) -> Outcome:
        """Whether it holds for an answer.

        Raises:
            UsageError: a figure that no answer has, or one that is compared with something of another unit.
        """
        judge = _Judge(self, facts)
        holds = judge.truth(self.tree)
        told = "; ".join(judge.told)
        return Outcome(holds, told, tuple(dict.fromkeys(judge.unknown)) if holds is None else ())


def _advice(text: str) -> str:
    if "&&" in text or "||" in text or re.search(r"!(?!=)", text):
        return "write `and`, `or` and `not`"
    if re.search(r"(?<![<>=!])=(?!=)", text):
        return "write `==` for equal, or `<=`, `>=`"
    if re.search(r"\d,\d", text):
        return "write numbers without commas, such as 100000 or 1e5"
    near = re.search(r"\d\s*([A-Za-z%][\w/]*)", text)
    if near and near[1] not in UNITS and near[1] not in ("and", "or", "not"):
        try:
            parse(f"1 {near[1]}")
        except UnitError as error:
            return str(error)
    return HINT


class _Reader:
    """Goes over a tree once: only what the language has, truths where truths are wanted, numbers where numbers are."""

    def __init__(self, text: str, quantities: Collection[str], where: str) -> None:
        self.text, self.quantities, self.where = text, quantities, where
        self.names: list[str] = []

    def wrong(self, what: str, hint: str = HINT) -> UsageError:
        return UsageError(Problem("require.syntax", f"`{brief(self.text, 80)}`: {what}", hint, self.where))

    def is_truth(self, node: ast.AST, depth: int) -> bool:
        """Whether a part is true or false rather than a number."""
        if depth > _DEEPEST:
            raise self.wrong("it is nested too deeply", "part it into several assertions")
        below = depth + 1
        if isinstance(node, ast.BoolOp):
            self.want(node.values, below, truth=True)
            return True
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub, ast.UAdd)):
            negated = isinstance(node.op, ast.Not)
            self.want([node.operand], below, truth=negated)
            return negated
        if isinstance(node, ast.Compare) and all(type(one) in _COMPARE for one in node.ops):
            self.want([node.left, *node.comparators], below, truth=False)
            return True
        if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
            self.want([node.left, node.right], below, truth=False)
            return False
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS and not node.keywords:
            if len(node.args) < 1 or (node.func.id == "abs") != (len(node.args) == 1):
                raise self.wrong(f"`{node.func.id}` of {len(node.args)} numbers", "write `min(a, b)`, `max(a, b)` or `abs(a)`")
            self.want(node.args, below, truth=False)
            return False
        return self.leaf(node)

    def leaf(self, node: ast.AST) -> bool:
        """The same of a part that has no parts."""
        if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
            if not isinstance(node.value, bool) and not abs(node.value) < math.inf:
                raise self.wrong("a number is too large")
            return isinstance(node.value, bool)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and not node.value.id.startswith("_"):
            if node.attr not in ENDS or node.value.id in FLAGS:
                raise self.wrong(f"`{node.value.id}.{node.attr}`", "the ends of a figure are `.low` and `.high`")
            self.names.append(node.value.id)
            return False
        if isinstance(node, ast.Name):
            if node.id in self.quantities:
                return False
            if node.id.startswith("_"):
                raise self.wrong(f"`{node.id}` is no figure")
            if node.id in ("true", "false", *FLAGS):
                return True
            self.names.append(node.id)
            return False
        said = f" (`{ast.unparse(node)}`)" if isinstance(node, ast.expr) else ""
        raise self.wrong(f"the language has no {type(node).__name__.lower()}{said}", _advice(self.text))

    def want(self, nodes: Collection[ast.AST], depth: int, *, truth: bool) -> None:
        for node in nodes:
            if self.is_truth(node, depth) != truth:
                said = ast.unparse(node) if isinstance(node, ast.expr) else ""
                for name, held in getattr(self.quantities, "items", dict)():
                    said = re.sub(rf"\b{name}\b", f"{held[0]:g} {held[1]}", said)
                what = "is a number, not true or false" if truth else "is true or false, not a number"
                raise self.wrong(f"`{said}` {what}", "compare numbers, and join comparisons by `and` or `or`")


class _Number(Record):
    """A number in a unit; None where it is not known. The unit "" goes with any."""

    value: float | None
    unit: str


class _Judge:
    """Works a tree out for one answer, with unknown as a third truth (Kleene's logic)."""

    def __init__(self, said: Assertion, facts: Facts) -> None:
        self.said, self.facts = said, facts
        self.told: list[str] = []
        self.unknown: list[str] = []

    def truth(self, node: Any) -> Truth:
        if isinstance(node, ast.BoolOp):
            every = [self.truth(one) for one in node.values]
            decides = isinstance(node.op, ast.Or)
            return decides if decides in every else None if None in every else not decides
        if isinstance(node, ast.UnaryOp):
            inner = self.truth(node.operand)
            return None if inner is None else not inner
        if isinstance(node, ast.Compare):
            numbers = [self.number(one) for one in (node.left, *node.comparators)]
            pairs = zip(node.ops, numbers, numbers[1:], strict=False)
            found = [self.compared(type(op), a, b) for op, a, b in pairs]
            return False if False in found else None if None in found else True
        if isinstance(node, ast.Constant):
            return bool(node.value)
        if node.id in FLAGS:
            value = self.facts.flags.get(node.id)
            self.tell(node.id, "unknown" if value is None else str(value).lower())
            return value
        return bool(node.id == "true")

    def compared(self, op: type[ast.cmpop], a: _Number, b: _Number) -> Truth:
        self.joined(a, b)
        return None if a.value is None or b.value is None else _COMPARE[op](a.value, b.value)

    def number(self, node: Any) -> _Number:
        if isinstance(node, (ast.Call, ast.Constant, ast.Attribute, ast.Name)):
            return self.called(node) if isinstance(node, ast.Call) else self.leaf(node)
        if isinstance(node, ast.UnaryOp):
            inner = self.number(node.operand)
            return inner if inner.value is None or isinstance(node.op, ast.UAdd) else _Number(-inner.value, inner.unit)
        return self.worked_out(node)

    def called(self, node: Any) -> _Number:
        every = [self.number(one) for one in node.args]
        unit = ""
        for one in every:
            unit = self.joined(_Number(0.0, unit), one)
        values = [one.value for one in every if one.value is not None]
        return _Number(_FUNCTIONS[node.func.id](*values) if len(values) == len(every) else None, unit)

    def leaf(self, node: Any) -> _Number:
        inner: Any = getattr(node, "value", None)
        if isinstance(node, ast.Constant):
            return _Number(float(inner), "")
        if isinstance(node, ast.Attribute):
            return self.figure(inner.id, node.attr)
        return _Number(*self.said.quantities[node.id]) if node.id in self.said.quantities else self.figure(node.id, "value")

    def worked_out(self, node: ast.BinOp) -> _Number:
        a, b = self.number(node.left), self.number(node.right)
        if isinstance(node.op, (ast.Add, ast.Sub)):
            unit = self.joined(a, b)
        elif isinstance(node.op, ast.Mult):
            unit = a.unit if b.unit in ("", "1") else b.unit if a.unit in ("", "1") else f"{a.unit}*{b.unit}"
        else:
            unit = a.unit if b.unit in ("", "1") else "1" if a.unit == b.unit else f"{a.unit or 1}/{b.unit}"
        if a.value is None or b.value is None:
            return _Number(None, unit)
        try:
            return _Number(_ARITHMETIC[type(node.op)](a.value, b.value), unit)
        except ZeroDivisionError:
            self.unknown.append("a division by zero")
            return _Number(None, unit)

    def joined(self, a: _Number, b: _Number) -> str:
        """The unit that two numbers have in common; a number without one is in base units.

        Raises:
            UsageError: they have different ones.
        """
        if a.unit and b.unit and a.unit != b.unit:
            what = f"`{brief(self.said.text, 80)}`: {_named(a.unit)} is set against {_named(b.unit)}"
            raise UsageError(Problem("require.unit", what, "both sides must be of one kind; a bare number is in base units"))
        return a.unit or b.unit

    def figure(self, name: str, end: str) -> _Number:
        known = self.facts.figures.get(name)
        if known is None:
            if name not in self.facts.lacking:
                raise self.no_figure(name)
            self.tell(name, "unknown")
            self.unknown.append(f"{name}: {self.facts.lacking[name]}")
            return _Number(None, "")
        value: float = getattr(known, end)
        if not math.isfinite(value):
            self.tell(name, "unknown")
            self.unknown.append(f"{name}: it has no bound")
            return _Number(None, known.unit)
        self.tell(name if end == "value" else f"{name}.{end}", human(value, known.unit, 4))
        return _Number(value, known.unit)

    def no_figure(self, name: str) -> UsageError:
        names = [*self.facts.figures, *FLAGS, *self.facts.lacking]
        near = did_you_mean(name, names)
        hint = near or f"the answer has {', '.join((*FLAGS, *self.facts.figures))}"
        return UsageError(Problem("require.no-figure", f"`{brief(self.said.text, 80)}`: no answer has a figure `{name}`", hint))

    def tell(self, name: str, text: str) -> None:
        said = f"{name} is {text}"
        if said not in self.told:
            self.told.append(said)


def _named(unit: str) -> str:
    return "a plain number" if unit == "1" else f"what is in {unit}"
