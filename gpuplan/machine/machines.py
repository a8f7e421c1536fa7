"""Several machines priced as one: what differs between them is an array, and what formulas are chosen by tells them apart."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from gpuplan.errors import UnknownError
from gpuplan.machine.hardware import Hardware
from gpuplan.num import Apart, Num
from gpuplan.specs.fabric import Level
from gpuplan.term import Stacked, Term
from gpuplan.work import Dtype

T = TypeVar("T")


class Refused(Exception):
    """What machines cannot be asked, with the error of each."""

    def __init__(self, errors: Sequence[UnknownError]) -> None:
        super().__init__(str(errors[0]))
        self.errors = tuple(errors)


class Machines(Hardware, eq=False):
    """Several machines along the first dimension of arrays.

    Whatever is asked of it has one answer for all of them, or an array with one value for each. Where it can have neither (a
    term that some lack, another topology) it raises `Apart`, and the machines must be asked in smaller groups. Terms are
    stacked when they are first read, so that only what an estimate reads tells machines apart.
    """

    members: tuple[Hardware, ...]
    behind: int
    """Dimensions behind that of the machines, along which plans differ."""
    stacks: dict[Hashable, Term | None]
    """What was stacked, by what it is."""
    leaves: dict[str, Term | None]
    """The values of leaves that are made anew at each call."""
    answers: dict[str, Any]
    """What was asked of all."""

    def __init__(self, members: Sequence[Hardware], behind: int = 0) -> None:
        self.__dict__.update(members=tuple(members), behind=behind, stacks={}, leaves={}, answers={})

    def replaced(self, **changes: Any) -> Machines:
        """The same with some fields of each machine changed."""
        return self.mapped(lambda one: one.replaced(**changes))

    def mapped(self, of: Callable[[Hardware], Hardware]) -> Machines:
        """Each machine otherwise."""
        return Machines([of(one) for one in self.members], self.behind)

    def adding(self) -> Hardware:
        """Those whose switches add, all of them; errors as of each."""
        return self.mapped(lambda one: one.adding())

    def under_load(self) -> Hardware:
        """Each machine with its clock settled."""
        return self.mapped(lambda one: one.under_load())

    def peak(self, dtype: Dtype) -> Term:
        """The dense rate of each machine.

        Raises:
            Refused: none of them has one; the errors are those of each.
            Apart: some of them lack it.
        """
        return self.peaks.get(dtype) or self._refused(lambda one: one.peak(dtype))

    def parameter(self, name: str) -> Term:
        """A parameter of each machine; errors as `peak`."""
        return self.parameters.get(name) or self._refused(lambda one: one.parameter(name))

    def _refused(self, of: Callable[[Hardware], Term]) -> Term:
        errors = []
        for one in self.members:
            try:
                of(one)
            except UnknownError as error:
                errors.append(error.with_traceback(None))
        raise Refused(errors)

    def asked(self, key: str, of: Callable[[Hardware], T]) -> T:
        """What something says of all machines; they are asked once for each key.

        Raises:
            Apart: it does not say the same of all.
        """
        if key not in self.answers:
            self.answers[key] = _one([of(one) for one in self.members])
        found: T = self.answers[key]
        return found

    def termed(self, key: str, of: Callable[[Hardware], Term | None]) -> Term | None:
        """A leaf that is made for each machine, new at each call; its values are looked up once for each key.

        Raises:
            Apart: there is none for some of them only.
        """
        if key not in self.leaves:
            made = _all([of(one) for one in self.members])
            self.leaves[key] = None if made is None else together(made, self.behind)
        found, first = self.leaves[key], of(self.members[0])
        if found is None or first is None:
            return None

        def one(index: int) -> Term:
            term = of(self.members[index])
            assert term is not None
            return term

        return Stacked(first.name, found.value, first.unit, first.source, spread=found.spread, one=one)

    def stacked(self, name: Hashable, of: Callable[[Hardware], Term | None]) -> Term | None:
        """A term that each machine has, or none; the same one at each call.

        Raises:
            Apart: some of them lack it.
        """
        if name not in self.stacks:
            made = _all([of(one) for one in self.members])
            self.stacks[name] = None if made is None else self._stack(made)
        return self.stacks[name]

    def _stack(self, terms: Sequence[Term]) -> Term:
        first = terms[0]
        if all(term is first for term in terms):
            return first
        # One doubt stays one, under whichever names it is read.
        same = tuple(map(id, terms))
        found = self.stacks.get(same) if first.spread is not None else None
        if found is not None:
            return found
        made = self.stacks[same] = together(terms, self.behind)
        return made

    def _field(self, name: str) -> Any:
        """A field of `Hardware` for all machines."""
        if name in ("peaks", "parameters"):
            return _Stacks(self, name)
        if name == "levels":
            names = self.asked("levels", lambda one: tuple(level.name for level in one.levels))
            return tuple(_StackedLevel(self, place) for place in range(len(names)))
        return self.read(name, lambda one: getattr(one, name))

    def read(self, what: str, of: Callable[[Hardware], Any]) -> Any:
        """What is read of each machine: terms along the axis, or the one answer of all."""
        if any(isinstance(of(one), Term) for one in self.members):
            return self.stacked(what, of)
        return self.asked(what, of)


def together(terms: Sequence[Term], behind: int = 0) -> Stacked:
    """Terms of several machines as one leaf, with so many dimensions behind that of the machines."""
    first, spread = terms[0], None
    if any(term.spread is not None for term in terms):
        # A leaf that is certain on one machine ends there where it is.
        ends = [term.spread or (term.value, term.value) for term in terms]
        spread = arranged([low for low, _ in ends], behind), arranged([high for _, high in ends], behind)
    value = arranged([term.value for term in terms], behind)
    return Stacked(first.name, value, first.unit, first.source, spread=spread, one=terms.__getitem__)


def arranged(values: Sequence[Num], behind: int = 0) -> Num:
    """Values along the first dimension, that of the machines; one number where all are the same, which keeps all above small."""
    if all(value == values[0] for value in values):
        return values[0]
    import numpy as np

    return np.array(values, dtype=np.float64).reshape(-1, *(1,) * behind)


class _Stacks(Mapping[str, Term]):
    """The terms that machines keep under names, stacked when they are read."""

    def __init__(self, machines: Machines, which: str) -> None:
        self.machines, self.which = machines, which

    def __getitem__(self, name: str) -> Term:
        found = self.machines.stacked((self.which, name), lambda one: getattr(one, self.which).get(name))
        if found is None:
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(getattr(self.machines.members[0], self.which))

    def __len__(self) -> int:
        return len(getattr(self.machines.members[0], self.which))


class _StackedLevel(Level, eq=False, kw_only=True):
    """One level of the fabric of several machines."""

    machines: Machines
    place: int

    def __init__(self, machines: Machines, place: int) -> None:
        self.__dict__.update(machines=machines, place=place)

    def _field(self, name: str) -> Any:
        """A field of `Level` for all machines."""
        return self.machines.read(f"levels.{self.place}.{name}", lambda one: getattr(one.levels[self.place], name))


class _WhenRead:
    """A field that is made of all machines when it is first read."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, owner: Machines | _StackedLevel, _: object = None) -> Any:
        made = owner.__dict__[self.name] = owner._field(self.name)
        return made


for _kind, _parent in ((Machines, Hardware), (_StackedLevel, Level)):
    for _name in _parent.field_names():
        setattr(_kind, _name, _WhenRead(_name))


def _one(answers: Sequence[T]) -> T:
    """The answer that all give.

    Raises:
        Apart: they do not.
    """
    first = answers[0]
    if all(answer is first or answer == first for answer in answers):
        return first
    kinds: list[T] = []
    told = []
    for answer in answers:
        if answer not in kinds:
            kinds.append(answer)
        told.append(kinds.index(answer))
    raise Apart(told)


def _all(terms: Sequence[Term | None]) -> list[Term] | None:
    """The terms where all have one, None where none has.

    Raises:
        Apart: some have.
    """
    made = [term for term in terms if term is not None]
    if made and len(made) < len(terms):
        raise Apart([term is None for term in terms])
    return made or None
