"""Immutable records whose class costs next to nothing to define.

`dataclasses` compiles code for every class, about half a millisecond each: with a hundred classes that is a third of the time
that a simple question may take, and importing it takes another twentieth. A `Record` looks the same to type checkers and to
callers, and keeps its fields in `__dict__`; a `Slotted`, of which there are thousands, writes its own `__init__` instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self, TypeVar, dataclass_transform, get_origin

T = TypeVar("T")


class _Factory:
    """Marks a field whose default is made anew for each record."""

    __slots__ = ("make",)

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make


def field(*, default_factory: Callable[[], T]) -> T:
    """A field whose default is made by a function, for each record anew."""
    return _Factory(default_factory)  # type: ignore[return-value]


def _of_class(annotation: Any) -> bool:
    """Whether an annotation, which may be unread text, is of the class and not of its records."""
    return "ClassVar" in annotation if isinstance(annotation, str) else get_origin(annotation) is ClassVar or annotation is ClassVar


@dataclass_transform(frozen_default=True, eq_default=True, field_specifiers=(field,))
class Record:
    """Base of immutable records: annotated names are fields, class attributes their defaults; inherited fields come first.

    With `kw_only=True` in the class line the record takes keywords only. `__post_init__` runs last, when there is one.
    """

    _fields: ClassVar[tuple[str, ...]] = ()
    _known: ClassVar[frozenset[str]] = frozenset()
    """The names of the fields, to look a name up."""
    _defaults: ClassVar[dict[str, Any]] = {}
    """The values of fields that may be left out; those that are made anew for each record are not among them."""
    _keyword_only: ClassVar[bool] = False
    _checked: ClassVar[bool] = False
    """Whether the class does something once its fields are set."""

    def __init_subclass__(cls, *, kw_only: bool = False, eq: bool = True) -> None:
        """Collect the fields of the class; annotations stay unread text."""
        super().__init_subclass__()
        own = [name for name, kind in cls.__annotations__.items() if not _of_class(kind)]
        inherited = tuple(dict.fromkeys(name for base in cls.__bases__ for name in getattr(base, "_fields", ())))
        cls._fields = (*inherited, *(name for name in own if name not in inherited))
        cls._known = frozenset(cls._fields)
        cls._keyword_only = kw_only or cls._keyword_only
        had = {name: getattr(cls, name) for name in cls._fields if hasattr(cls, name)}
        cls._defaults = {name: default for name, default in had.items() if type(default) is not _Factory}
        cls._checked = cls.__post_init__ is not Record.__post_init__
        if not eq:
            cls.__eq__ = object.__eq__  # type: ignore[method-assign]
            cls.__hash__ = object.__hash__  # type: ignore[method-assign]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        cls = type(self)
        values = self.__dict__
        values.update(cls._defaults)
        if args:
            if cls._keyword_only or len(args) > len(cls._fields):
                raise TypeError(f"{cls.__name__} takes {'keywords only' if cls._keyword_only else f'{len(cls._fields)} values'}")
            values.update(zip(cls._fields, args, strict=False))
        if kwargs:
            if not cls._known.issuperset(kwargs) or (args and not kwargs.keys().isdisjoint(cls._fields[: len(args)])):
                name = next(name for name in kwargs if name not in cls._known or name in cls._fields[: len(args)])
                raise TypeError(f"{cls.__name__} got {'twice' if name in cls._known else 'an unknown field'}: {name!r}")
            values.update(kwargs)
        if len(values) < len(cls._fields):
            self._fill()
        if cls._checked:
            self.__post_init__()

    def __post_init__(self) -> None:
        """What a record does once its fields are set, such as checking them; nothing by default."""

    def _fill(self) -> None:
        cls, values = type(self), self.__dict__
        for name in cls._fields:
            if name not in values:
                default = getattr(cls, name, None)
                if type(default) is not _Factory:
                    raise TypeError(f"{cls.__name__} needs {name!r}")
                values[name] = default.make()

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable: `{name}` cannot be set")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable: `{name}` cannot be deleted")

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._values() == other._values()

    def __hash__(self) -> int:
        values = self._values()
        try:
            return hash((type(self), values))
        except TypeError:  # a mapping among them
            return hash((type(self), _frozen(values)))

    def __repr__(self) -> str:
        inside = ", ".join(f"{name}={value!r}" for name, value in zip(self._fields, self._values(), strict=True))
        return f"{type(self).__name__}({inside})"

    def _values(self) -> tuple[Any, ...]:
        return tuple(self.__dict__[name] for name in self._fields)

    @classmethod
    def field_names(cls) -> tuple[str, ...]:
        """The names of the fields in order."""
        return cls._fields

    def replaced(self, **changes: Any) -> Self:
        """The same record with some fields changed.

        >>> class Point(Record):
        ...     x: int
        ...     y: int = 0
        >>> Point(1).replaced(y=2)
        Point(x=1, y=2)
        """
        cls, old = type(self), self.__dict__
        if not cls._known.issuperset(changes):
            raise TypeError(f"{cls.__name__} got an unknown field: {next(name for name in changes if name not in cls._known)!r}")
        made = cls.__new__(cls)
        values = made.__dict__
        for name in cls._fields:  # What was worked out from the fields and kept beside them is of the old ones.
            values[name] = old[name]
        values.update(changes)
        if cls._checked:
            made.__post_init__()
        return made


class Slotted:
    """Base of immutable records with slots: `_fields` names them, and `__init__` is the class's own, with `object.__setattr__`."""

    __slots__ = ()
    _fields: ClassVar[tuple[str, ...]] = ()

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable: `{name}` cannot be set")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"{type(self).__name__} is immutable: `{name}` cannot be deleted")

    def __getstate__(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in self._fields)

    def __setstate__(self, values: tuple[Any, ...]) -> None:
        for name, value in zip(self._fields, values, strict=True):
            object.__setattr__(self, name, value)


S = TypeVar("S", bound=Slotted)


def replace(record: S, **changes: Any) -> S:
    """The same slotted record with some fields changed."""
    return type(record)(**{name: getattr(record, name) for name in record._fields} | changes)


def _frozen(value: object) -> object:
    """What a value is hashed as: a mapping as its items, whatever their order."""
    if isinstance(value, Mapping):
        return frozenset((name, _frozen(one)) for name, one in value.items())
    return tuple(map(_frozen, value)) if isinstance(value, tuple) else value
