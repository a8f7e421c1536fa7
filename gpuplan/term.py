"""A number that remembers how it was made: sources, terms, formulas, and what follows from the graph they form."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, reduce
from operator import add
from typing import Any, ClassVar, Generic, Literal, ParamSpec, TypeAlias, get_args

from gpuplan.num import Num, is_array, maximum
from gpuplan.record import Slotted, replace

P = ParamSpec("P")
Kind = Literal[
    "datasheet", "docs", "model-card", "paper", "measured", "fitted", "price", "engine", "user", "chosen", "assumed", "derived",
    "definition",
]  # fmt: skip

_set = object.__setattr__


class Source(Slotted):
    """Where a number or a formula comes from: how it is known, what says so, and when someone looked.

    `kind` is one of `datasheet docs model-card paper measured fitted price engine user chosen assumed derived definition`;
    `section` is the place inside the source; `checked` an ISO date; `note` what is odd about it. Of a fit of our own (`fitted`
    makes one) the title names the data and the section the range in which it holds.
    """

    __slots__ = _fields = ("kind", "title", "url", "section", "checked", "note")
    kind: Kind
    title: str
    url: str
    section: str
    checked: str
    note: str

    def __init__(self, kind: Kind, title: str, url: str = "", section: str = "", checked: str = "", note: str = "") -> None:
        _set(self, "kind", kind)
        _set(self, "title", title)
        _set(self, "url", url)
        _set(self, "section", section)
        _set(self, "checked", checked)
        _set(self, "note", note)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Source) and self.__getstate__() == other.__getstate__()

    def __hash__(self) -> int:
        return hash(self.__getstate__())

    def __repr__(self) -> str:
        return f"Source({', '.join(f'{name}={getattr(self, name)!r}' for name in self._fields)})"


def fitted(data: str, holds: str, *, url: str = "", note: str = "") -> Source:
    """The source of a value or of the shape of a formula that is our own fit.

    `data` names what it was fitted to, `holds` the range that the data span; `note` may say who describes the effect: it is cited
    for that alone.
    """
    return Source("fitted", data, url, f"holds for {holds}", note=note)


DEFINITION = Source("definition", "by definition")
USER = Source("user", "given by the user")
NOT_ON_RECORD = Source("assumed", "source not on record")
"""Of a value that names no source: it stands in a file, and nothing says who printed it."""


class WiringError(TypeError):
    """A term was wired into a formula that wants another unit or another parameter: a bug in gpuplan."""


class _Open:
    """A term while it is made: plain attributes are set in a third of the time that setting those of immutable records takes."""

    __slots__ = ("args", "formula", "name", "source", "spread", "unit", "value")
    name: str
    value: Num
    unit: str
    source: Source
    formula: Formula[...] | None
    args: tuple[tuple[str, Term], ...]
    spread: tuple[Num, Num] | None


class Term(_Open, Slotted):
    """A named value in base units, with its source, the formula and the terms that it was made from.

    `spread` is the (low, high) of an uncertain leaf: the interval that holds 80 % of the measured residuals (p10-p90)
    when its source is measured, otherwise a stated assumption.
    """

    __slots__ = ()
    _fields: ClassVar[tuple[str, ...]] = ("name", "value", "unit", "source", "formula", "args", "spread")

    def __init__(
        self,
        name: str,
        value: Num,
        unit: str,
        source: Source,
        formula: Formula[...] | None = None,
        args: tuple[tuple[str, Term], ...] = (),
        spread: tuple[Num, Num] | None = None,
    ) -> None:
        _set(self, "__class__", _Open)  # A term while it is made, as formulas make theirs.
        self.name = name
        self.value = value
        self.unit = unit
        self.source = source
        self.formula = formula
        self.args = args
        self.spread = spread
        self.__class__ = Term

    def __repr__(self) -> str:
        """Name, value and unit; the graph below is shared, so writing it out would take exponentially long."""
        return f"Term({self.name} = {self.value} {self.unit})"

    def walk(self) -> Iterator[Term]:
        """Every term of the graph once, parents first."""
        return walk_of((self,))

    def find(self, name: str) -> Term | None:
        """The term of that name in this graph, if any."""
        return next((term for term in self.walk() if term.name == name), None)

    def rebuilt(self, swap: Callable[[Term], Term | None], done: dict[int, Term] | None = None) -> Term:
        """The same graph with some terms replaced and everything above them recomputed; the rest is shared.

        `done` may be passed to share the work between several roots.
        """
        return _rebuilt(self, swap, {} if done is None else done)

    def given(self, pins: Mapping[str, Num], done: dict[int, Term] | None = None) -> Term:
        """What if these terms had these values? Every term above them is recomputed."""

        def swap(term: Term) -> Term | None:
            if term.name not in pins:
                return None
            return Term(term.name, pins[term.name], term.unit, Source("user", f"--set {term.name}"))

        return self.rebuilt(swap, done)

    def at(self, index: int | tuple[int, ...], done: dict[int, Term] | None = None) -> Term:
        """One candidate of a grid, as a graph of plain floats with the full explanation.

        A tuple has a place for each dimension of an open mesh; what does not vary along one is the same at every place of it.
        A number counts the candidates that this term tells apart, those of the last dimension first.
        """
        shape: tuple[int, ...] = getattr(self.value, "shape", ())
        places = index if isinstance(index, tuple) else _unravelled(index, shape) or (index,)

        def pick(term: Term) -> Term | None:
            if isinstance(term, Stacked):
                return term.one(places[0])
            if term.args or not is_array(term.value):
                return None
            own: tuple[int, ...] = term.value.shape
            here = tuple(0 if length == 1 else place for place, length in zip(places[len(places) - len(own) :], own, strict=True))
            return replace(term, value=float(term.value[here]))

        return self.rebuilt(pick, done)


def walk_of(roots: Sequence[Term]) -> Iterator[Term]:
    """Every term of the graphs below some terms once, those of the first before those of the next, parents first."""
    seen: set[int] = set()
    todo = list(reversed(roots))
    while todo:
        term = todo.pop()
        if id(term) not in seen:
            seen.add(id(term))
            yield term
            todo += [part for _, part in term.args[::-1]]


class Stacked(Term):
    """A leaf with a value for each of several machines; `one` gives each machine's own term, with its source and its graph.

    The value is an array along the first dimension, or one number where all machines have the same.
    """

    __slots__ = ("one",)
    _fields: ClassVar[tuple[str, ...]] = (*Term._fields, "one")
    one: Callable[[int], Term]

    def __init__(self, *args: Any, one: Callable[[int], Term], **kwargs: Any) -> None:
        made = Term(*args, **kwargs)
        for name in Term._fields:
            _set(self, name, getattr(made, name))
        _set(self, "one", one)


def _rebuilt(term: Term, swap: Callable[[Term], Term | None], done: dict[int, Term]) -> Term:
    # No inner function that calls itself: it would keep all terms, with their arrays, until the garbage is collected.
    made = done.get(id(term))
    if made is not None:
        return made
    made = swap(term)
    if made is None:
        made = term
        if term.formula is not None:
            args = tuple((key, _rebuilt(part, swap, done)) for key, part in term.args)
            if any(new is not old for (_, new), (_, old) in zip(args, term.args, strict=True)):
                values = {key: part.value for key, part in args}
                try:
                    value = term.formula.fn(**values)
                except (ArithmeticError, ValueError) as error:
                    raise _not_computed(term.name, values, error) from error
                made = replace(term, value=value, args=args)
    done[id(term)] = made
    return made


def _unravelled(index: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The place along each dimension of an element that is counted through all of them."""
    places: list[int] = []
    for length in reversed(shape):
        index, place = divmod(index, length)
        places.append(place)
    return tuple(reversed(places))


Parts: TypeAlias = Mapping[str, Term]
"""Terms that sum to another, each by what it is of it."""


class Formula(Slotted, Generic[P]):
    """A pure function of numbers that can also be applied to terms."""

    __slots__ = _fields = ("fn", "name", "source", "unit", "units")
    fn: Callable[P, Num]
    name: str
    source: Source
    unit: str
    units: Mapping[str, str]

    def __init__(self, fn: Callable[P, Num], name: str, source: Source, unit: str, units: Mapping[str, str]) -> None:
        _set(self, "fn", fn)
        _set(self, "name", name)
        _set(self, "source", source)
        _set(self, "unit", unit)
        _set(self, "units", units)

    def __repr__(self) -> str:
        return f"Formula({self.name})"

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Num:
        """The value for plain numbers."""
        return self.fn(*args, **kwargs)

    def term(self, name: str, /, **args: Term) -> Term:
        """The term that this formula makes of other terms, after their units were checked."""
        units, parts = self.units, tuple(args.items())
        if len(parts) != len(units):
            raise self._miswired(name, args)
        values: dict[str, Any] = args  # The dictionary of this call, filled anew: no other line of an answer runs as often.
        for key, part in parts:
            if part.unit != units.get(key):
                raise self._miswired(name, dict(parts))
            values[key] = part.value
        fn: Callable[..., Num] = self.fn
        made = _Open()  # As `_derived` does, without a call of it.
        try:
            made.value = fn(**values)
        except (ArithmeticError, ValueError) as error:
            raise _not_computed(name, values, error) from error
        made.name = name
        made.unit = self.unit
        made.source = self.source
        made.formula = self
        made.args = parts
        made.spread = None
        made.__class__ = Term
        return made  # type: ignore[return-value]

    def _miswired(self, name: str, args: Mapping[str, Term]) -> WiringError:
        """What is wrong with terms that this formula cannot take."""
        if args.keys() != self.units.keys():
            return WiringError(f"{name}: {self.name} wants {sorted(self.units)}, got {sorted(args)}")
        key, part = next((key, part) for key, part in args.items() if part.unit != self.units[key])
        return WiringError(f"{name}: {self.name}({key}=…) wants {self.units[key]}, but `{part.name}` is in {part.unit}")


def _derived(
    name: str, value: Num, unit: str, source: Source, formula: Formula[...], args: tuple[tuple[str, Term], ...]
) -> Term:  # fmt: skip
    """A term that a formula makes; an answer has some thousands of them, and a search some hundred thousands."""
    made = _Open()
    made.name = name
    made.value = value
    made.unit = unit
    made.source = source
    made.formula = formula
    made.args = args
    made.spread = None
    made.__class__ = Term
    return made  # type: ignore[return-value]


def _not_computed(name: str, values: Mapping[str, Num], error: Exception) -> ArithmeticError:
    """What is said, naming the term, where a formula makes nothing of some values."""
    given = ", ".join(f"{key} = {value}" for key, value in values.items())
    return ArithmeticError(f"`{name}` cannot be computed of {given}: {error}")


FORMULAS: dict[str, Formula[...]] = {}


def formula(source: Source) -> Callable[[Callable[P, Num]], Formula[P]]:
    """Register a pure function as a formula; the units come from its annotations, which are names of `gpuplan.num` (`Bytes`)."""

    def wrap(fn: Callable[P, Num]) -> Formula[P]:
        units = _units_of(fn)
        made = Formula(fn, fn.__name__, source, units.pop("return"), units)
        if FORMULAS.setdefault(made.name, made) is not made:
            raise WiringError(f"two formulas named `{made.name}`")
        return made

    return wrap


def _units_of(fn: Callable[..., Any]) -> dict[str, str]:
    # Every query registers hundreds of formulas: names are looked up, since `get_type_hints` would compile each one.
    scope = fn.__globals__
    units = {}
    for key, hint in fn.__annotations__.items():
        named = scope.get(hint) if isinstance(hint, str) else hint
        if not get_args(named):
            raise WiringError(
                f"{fn.__name__}: `{key}` is annotated `{hint}`: write a name with a unit, such as `Bytes` of gpuplan.num"
            )
        units[key] = get_args(named)[-1]
    return units


def numbered(parts: Iterable[tuple[str, Term]]) -> dict[str, Term]:
    """Terms by what they are called, each of them: another that is called the same is numbered."""
    named: dict[str, Term] = {}
    for called, part in parts:
        name, number = called, 2
        while name in named:
            name, number = f"{called} ({number})", number + 1
        named[name] = part
    return named


def _fold(op: Callable[[Num, Num], Num], word: str) -> Callable[..., Term]:
    source = Source("definition", word)

    def fn(**values: Num) -> Num:
        return reduce(op, values.values())

    @lru_cache(4096)
    def of(unit: str, names: tuple[str, ...]) -> Formula[...]:
        return Formula(fn, word, source, unit, dict.fromkeys(names, unit))

    def apply(name: str, parts: Mapping[str, Term] | Iterable[Term], /, *, begun: Term | None = None) -> Term:
        named = parts if type(parts) is dict or isinstance(parts, Mapping) else numbered((part.name, part) for part in parts)
        args = tuple(named.items())
        unit = args[0][1].unit if args else ""
        values: list[Num] = []
        for _, part in args:
            if part.unit != unit:
                values.clear()
                break
            values.append(part.value)
        if not values:
            units = sorted({part.unit for part in named.values()})
            raise WiringError(f"{name}: cannot {word} {', '.join(units) or 'nothing'}")
        if begun is not None:
            done = [part for _, part in begun.args]
            first = [part for _, part in args[: len(done)]]
            if begun.formula is None or begun.formula.name != word or [*map(id, done)] != [*map(id, first)]:
                raise WiringError(f"{name}: `{begun.name}` is no {word} of its first parts")
            values[: len(done)] = [begun.value]
        return _derived(name, reduce(op, values), unit, source, of(unit, tuple(named)), args)

    return apply


total = _fold(add, "sum")
"""`total(name, {key: term, …})` or `total(name, [term, …])`: the sum of terms in one unit.

`begun`, the sum of the first of them, saves adding those up again, and the result is the same to the last bit.
"""
greatest = _fold(maximum, "max")
"""`greatest(name, {key: term, …})`: the largest of terms in one unit."""
