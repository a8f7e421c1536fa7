"""What may stand in a data file? Records whose annotations are its schema, and the reader that follows them.

Every file is read and checked in one pass, and all that is wrong with it is said together. pydantic could do the same, but
importing it and building its models would take longer than everything else that a simple question needs; it makes the JSON
Schemas (`gpuplan.schema_json`).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise
from types import UnionType
from typing import Annotated, Any, Literal, Protocol, Self, TypeAlias, TypeVar, Union, dataclass_transform, get_args, get_origin

from gpuplan.errors import Problem, SpecError, did_you_mean
from gpuplan.record import Record, field
from gpuplan.strict_yaml import LineMap, Path_


class Fault(Exception):
    """Something wrong with a value or a record: a code, a message, a hint, and the place below where it was found."""

    def __init__(self, code: str, message: str, hint: str = "", at: Path_ = ()) -> None:
        super().__init__(message)
        self.code, self.message, self.hint, self.at = code, message, hint, at


@dataclass_transform(frozen_default=True, eq_default=True, kw_only_default=True, field_specifiers=(field,))
class Schema(Record, kw_only=True):
    """A mapping inside a data file: no unknown keys, no conversions; sequences are tuples.

    Annotations say what a key may hold; attribute docstrings are the documentation of the keys. Annotations are read when a
    file has the key: text, int, bool, `Literal`, tuples, dicts, other schemas, unions of schemas that `kind` tells apart, all
    of these or `None`; and `Annotated` with `Pattern`, `Limits`, or anything that has a `read` of its own.
    """

    def faults(self) -> Iterator[Fault]:
        """What is wrong between the fields, once each of them is right by itself."""
        return iter(())

    def settled(self) -> Self:
        """The same record once all of it was read, where what one key says goes for others."""
        return self

    def plain(self) -> dict[str, Any]:
        """The fields as plain data for JSON, defaults included."""
        return {name: plain(getattr(self, name)) for name in self.field_names()}

    def stated(self) -> dict[str, Any]:
        """The fields that a file must state: those without a default, or not at it."""
        cls = type(self)
        values = {name: getattr(self, name) for name in self.field_names()}
        return {name: value for name, value in values.items() if required(cls, name) or value != default_of(cls, name)}


class Pattern(Record):
    """A text must match this regular expression."""

    regex: str
    says: str = ""
    """What a person would call it, for a hint."""


DAY = (
    r"(?:20\d\d-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|02-(?:0[1-9]|1\d|2[0-8]))"
    r"|20(?:[02468][048]|[13579][26])-02-29)"
)
"""A day of the calendar of this century: `2026-02-31` is none."""


class Limits(Record):
    """A whole number, or the length of a list or mapping, is no less and no more than this."""

    least: int = 0
    most: int | None = None


PositiveInt: TypeAlias = Annotated[int, Limits(1)]
NonNegativeInt: TypeAlias = Annotated[int, Limits(0)]


class Mark(Protocol):
    """What can stand in `Annotated` to read a value in its own way."""

    def read(self, given: Any) -> Any:
        """The value that an entry means, or a `Fault`."""

    def json_schema(self) -> dict[str, Any]:
        """What the generated JSON Schema says of it."""


S = TypeVar("S", bound=Schema)
BAD: Any = object()
"""What a reader returns in place of a value when it has reported a problem."""
TO_FILL_IN = "?"
"""What a draft (`gpuplan specs probe`) writes in place of a value that only a human can look up."""


_OF_VALUES = {"wrong-type", "unknown-value", "bad-format", "invalid"}


class Report:
    """Collects what is wrong with a file."""

    def __init__(self, lines: LineMap, family: str, value_code: str) -> None:
        self.lines, self.family, self.value_code = lines, family, value_code
        self.problems: list[Problem] = []

    def bad(self, at: Path_, word: str, message: str, hint: str = "") -> Any:
        """Report a problem with the value at a place; its key stands before the message. Returns `BAD`."""
        key = ".".join(map(str, at))
        told = message if not key or f"`{key}`" in message else f"{key}: {message}"
        code = word if "." in word else self.value_code if word in _OF_VALUES else f"{self.family}.{word}"
        self.problems.append(Problem(code or f"{self.family}.{word}", told, hint, self.lines.where(at)))
        return BAD

    def odd(self, at: Path_, given: Any, what: str, hint: str = "") -> Any:
        """Report a value of the wrong type."""
        shown = "nothing" if given is None else f"`{given}`" if isinstance(given, (str, int, float)) else "this"
        return self.bad(at, "wrong-type", f"{shown} is not {what}", hint or f"write {what}")


def open_question(given: Any) -> bool:
    """Whether a draft left this value for a human to fill in, as `"?"` or `{value: "?", …}`.

    >>> open_question("?"), open_question({"value": "?"}), open_question("80 GiB")
    (True, True, False)
    """
    return given == TO_FILL_IN or (type(given) is dict and given.get("value") == TO_FILL_IN)


def _fill_in(at: Path_, about: str, report: Report, *, needed: bool = True) -> Any:
    advice = "write what the source prints" if needed else "write what the source prints, or take the line out"
    return report.bad(
        at, "fill-in", f"fill this in: `{'.'.join(map(str, at))}`", f"it says: {about.rstrip('.')} ({advice})" if about else advice
    )


Read: TypeAlias = Callable[[Any, Path_, Report], Any]


def read(cls: type[S], data: Mapping[str, Any], lines: LineMap, family: str = "spec", *, value_code: str = "") -> S:
    """The record that plain data means; `lines` says where its keys stand.

    Codes of problems begin with `family`; `value_code` is one code for all that can be wrong with a single value.

    >>> class Point(Schema):
    ...     x: int
    ...     label: str = ""
    >>> read(Point, {"x": 1}, LineMap("a.yaml"))
    Point(x=1, label='')
    >>> read(Point, {"y": "1"}, LineMap("a.yaml"))
    Traceback (most recent call last):
    gpuplan.errors.SpecError: a.yaml:1: `x` is missing
    a.yaml:1: `y` is not a key gpuplan knows
      hint: known here are x, label

    Raises:
        SpecError: everything that is wrong, together.
    """
    report = Report(lines, family, value_code)
    made = _record(cls)(data, (), report)
    if report.problems:
        raise SpecError(*report.problems)
    return made  # type: ignore[no-any-return]


def plain(value: Any) -> Any:
    """A value of a schema as plain data for JSON."""
    if isinstance(value, Schema):
        return value.plain()
    if isinstance(value, Mapping):
        return {key: plain(one) for key, one in value.items()}
    if isinstance(value, tuple):
        return [plain(one) for one in value]
    return value.printed() if hasattr(value, "printed") else value


def required(cls: type[Schema], name: str) -> bool:
    """Whether a file must have the key, because the field has no default."""
    return not hasattr(cls, name)


def default_of(cls: type[Schema], name: str) -> Any:
    """The default of a field that has one."""
    default = getattr(cls, name)
    return default.make() if hasattr(default, "make") else default


def annotation(cls: type[Schema], name: str) -> Any:
    """What a field's annotation means, evaluated in the module of the class that has it."""
    owner = next(one for one in cls.__mro__ if issubclass(one, Record) and name in one.__annotations__)
    return _evaluated(owner.__module__, owner.__annotations__[name])


def _kinds_of(args: tuple[Any, ...]) -> dict[str, type[Schema]]:
    """For a union of schemas: which word in `kind` means which of them."""
    return {kind: one for one in args for kind in get_args(annotation(one, "kind"))}


def docs(cls: type[Schema]) -> dict[str, str]:
    """What the attribute docstrings of a schema, and of those it extends, say about each key."""
    import ast
    import inspect
    import textwrap

    texts: dict[str, str] = {}
    for owner in reversed(cls.__mro__):
        if not issubclass(owner, Schema):
            continue
        try:
            source = inspect.getsource(owner)
        except OSError:  # a class without a source file (typed at a prompt, or frozen) has no docstrings to offer
            continue
        tree = ast.parse(textwrap.dedent(source)).body[0]
        for line, after in pairwise(tree.body if isinstance(tree, ast.ClassDef) else []):
            if not (isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name) and isinstance(after, ast.Expr)):
                continue
            if isinstance(after.value, ast.Constant) and isinstance(after.value.value, str):
                texts[line.target.id] = " ".join(after.value.value.split())
    return texts


_EVALUATED: dict[tuple[str, str], Any] = {}
_READERS: dict[Any, Read] = {}
_RECORDS: dict[type[Schema], Read] = {}


def _evaluated(module: str, text: Any) -> Any:
    if not isinstance(text, str):
        return text
    if (module, text) not in _EVALUATED:
        _EVALUATED[module, text] = eval(text, vars(sys.modules[module]))  # annotations of our own classes
    return _EVALUATED[module, text]


def _reader(kind: Any) -> Read:
    """What reads a value of some annotation."""
    made = _READERS.get(kind)
    if made is None:
        made = _READERS[kind] = _made_reader(kind)
    return made


def _made_reader(kind: Any) -> Read:
    args, origin = get_args(kind), get_origin(kind)
    if isinstance(kind, type) and issubclass(kind, Schema):
        return _record(kind)
    if kind in _PLAIN:
        return _simple(kind, *_PLAIN[kind])
    if origin is Annotated:
        return _marked(args[0], args[1:])
    if origin is Literal:
        return _choice(args)
    if origin is tuple:
        return _items(_reader(args[0]))
    if origin is dict:
        return _entries(_reader(args[0]), _reader(args[1]))
    if origin in (Union, UnionType):
        inner = tuple(one for one in args if one is not type(None))
        some = _reader(inner[0]) if len(inner) == 1 else _one_of(_kinds_of(inner))
        return _optional(some) if len(inner) < len(args) else some
    raise TypeError(f"a data file cannot hold {kind}")


_PLAIN: dict[Any, tuple[str, str]] = {
    str: ("text", "write it in quotes"), int: ("a whole number", ""), bool: ("true or false", ""),
}  # fmt: skip


def _simple(kind: type, what: str, hint: str) -> Read:
    def go(given: Any, at: Path_, report: Report) -> Any:
        return given if type(given) is kind else report.odd(at, given, what, hint)

    return go


def _optional(some: Read) -> Read:
    def go(given: Any, at: Path_, report: Report) -> Any:
        return None if given is None else some(given, at, report)

    return go


def _choice(allowed: tuple[Any, ...]) -> Read:
    shown = [repr(one) for one in allowed]
    every = " or ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)
    known = {(type(one), one) for one in allowed}

    def go(given: Any, at: Path_, report: Report) -> Any:
        if isinstance(given, (str, int)) and (type(given), given) in known:
            return given
        words = [one for one in allowed if isinstance(one, str)]
        same = [one for one in words if isinstance(given, str) and one.casefold() == given.strip().casefold()]
        hint = (did_you_mean(same[0] if same else given, same or words) if isinstance(given, str) else "") or f"write {every}"
        return report.bad(at, "unknown-value", f"`{given}` is not allowed here", hint)

    return go


def _items(one: Read) -> Read:
    def go(given: Any, at: Path_, report: Report) -> Any:
        if not isinstance(given, (tuple, list)):
            return report.odd(at, given, "a list", "write `[…]`")
        made = tuple([one(item, (*at, place), report) for place, item in enumerate(given)])
        return made if _whole(made) else BAD

    return go


def _entries(key: Read, one: Read) -> Read:
    def go(given: Any, at: Path_, report: Report) -> Any:
        if not isinstance(given, Mapping):
            return report.odd(at, given, "a mapping", "write `key: value`")
        made = {
            key(name, (*at, name), report): _fill_in((*at, name), "", report)
            if open_question(item)
            else one(item, (*at, name), report)
            for name, item in given.items()
        }
        return made if _whole(made) and _whole(made.values()) else BAD

    return go


def _marked(kind: Any, marks: tuple[Any, ...]) -> Read:
    own: Mark | None = next((mark for mark in marks if hasattr(mark, "read")), None)
    if own is not None:
        return _by_mark(own)
    inner = _reader(kind)
    for mark in marks:
        inner = _matching(inner, mark) if isinstance(mark, Pattern) else _limited(inner, mark)
    return inner


def _by_mark(mark: Mark) -> Read:
    def go(given: Any, at: Path_, report: Report) -> Any:
        try:
            return mark.read(given)
        except Fault as fault:
            return report.bad((*at, *fault.at), fault.code, fault.message, fault.hint)

    return go


def _matching(inner: Read, mark: Pattern) -> Read:
    regex = re.compile(mark.regex, re.ASCII)

    def go(given: Any, at: Path_, report: Report) -> Any:
        made = inner(given, at, report)
        if made is not BAD and regex.fullmatch(made) is None:
            small = re.sub(r"[\s/]+", "-", made.strip().lower())
            hint = f"write it as `{small}`" if regex.fullmatch(small) else mark.says or f"it must match {mark.regex}"
            return report.bad(at, "bad-format", f"`{given}` is not written as it must be", hint)
        return made

    return go


def _limited(inner: Read, mark: Limits) -> Read:
    def go(given: Any, at: Path_, report: Report) -> Any:
        made = inner(given, at, report)
        if made is BAD:
            return BAD
        size, of = (made, f"`{given}`") if isinstance(made, int) else (len(made), f"a number of {len(made)} entries")
        if size < mark.least:
            return report.bad(at, "invalid", f"{of} is less than {mark.least}")
        if mark.most is not None and size > mark.most:
            return report.bad(at, "invalid", f"{of} is more than {mark.most}")
        return made

    return go


def _one_of(kinds: dict[str, type[Schema]]) -> Read:
    readers = {kind: _record(cls) for kind, cls in kinds.items()}

    def go(given: Any, at: Path_, report: Report) -> Any:
        if not isinstance(given, Mapping):
            return report.odd(at, given, "a mapping", "write `key: value`")
        kind = given.get("kind")
        if not isinstance(kind, str) or kind not in readers:
            what = "`kind` is missing" if kind is None else f"the kind `{kind}` is not known"
            near = did_you_mean(kind, readers) if isinstance(kind, str) else ""
            return report.bad(at, "unknown-value", what, near or f"write `kind:` with one of {', '.join(readers)}")
        return readers[kind](given, at, report)

    return go


def _record(cls: type[Schema]) -> Read:
    made = _RECORDS.get(cls)
    if made is None:
        made = _RECORDS[cls] = _made_record(cls)
    return made


def _made_record(cls: type[Schema]) -> Read:
    names = cls.field_names()
    checked, settles = cls.faults is not Schema.faults, cls.settled is not Schema.settled
    readers: dict[str, Read] = {}  # filled as files have the keys: most have few of them

    def go(given: Any, at: Path_, report: Report) -> Any:
        if not isinstance(given, Mapping):
            return report.odd(at, given, "a mapping", "write `key: value`")
        values: dict[str, Any] = {}
        for name in names:
            if name in given:
                if open_question(given[name]):
                    values[name] = _fill_in((*at, name), docs(cls).get(name, ""), report, needed=required(cls, name))
                    continue
                if name not in readers:
                    readers[name] = _reader(annotation(cls, name))
                values[name] = readers[name](given[name], (*at, name), report)
            elif required(cls, name):
                values[name] = _missing(cls, (*at, name), report)
        if len(given) > len(values) or not given.keys() <= values.keys():
            _extra(names, given, at, report)
            return BAD
        if not _whole(values.values()):
            return BAD
        record = cls(**values).settled() if settles else cls(**values)
        if checked:
            for fault in record.faults():
                report.bad((*at, *fault.at), fault.code, fault.message, fault.hint)
        return record

    return go


def _whole(values: Iterable[Any]) -> bool:
    for value in values:  # noqa: SIM110, which takes twice as long, for every mapping of every file
        if value is BAD:
            return False
    return True


def _missing(cls: type[Schema], at: Path_, report: Report) -> Any:
    about = docs(cls).get(str(at[-1]), "")
    return report.bad(at, "missing-key", f"`{'.'.join(map(str, at))}` is missing", f"it says: {about}" if about else "")


def commas(key: str) -> str:
    """What to say of a key that is the rest of a number with a comma, as in `{price: 26,40 EUR/h}`; "" of others.

    >>> commas("40 EUR/h"), commas("40"), commas("region")
    ('a number has no commas between its digits', 'a number has no commas between its digits', '')
    """
    return "a number has no commas between its digits" if re.fullmatch(r"\d{1,3}(?: .*)?", key) else ""


def _extra(names: tuple[str, ...], given: Mapping[Any, Any], at: Path_, report: Report) -> None:
    for key in given:
        if key not in names:
            here = (*at, key)
            hint = commas(str(key)) or did_you_mean(str(key), names) or f"known here are {', '.join(names)}"
            report.bad(here, "unknown-key", f"`{'.'.join(map(str, here))}` is not a key gpuplan knows", hint)


__all__ = [
    "Fault",
    "Limits",
    "Mark",
    "NonNegativeInt",
    "Pattern",
    "PositiveInt",
    "Schema",
    "commas",
    "docs",
    "field",
    "plain",
    "read",
]
