"""What does this YAML file say, and on which line? Strict: whatever YAML would guess at is refused with what to write instead."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from math import isfinite
from pathlib import Path
from typing import Any

import yaml
from yaml.events import AliasEvent, MappingEndEvent, MappingStartEvent, ScalarEvent, SequenceEndEvent, StreamEndEvent

from gpuplan.errors import Problem, SpecError, UsageError
from gpuplan.files.read import text_of
from gpuplan.files.stream import UNSEEN
from gpuplan.record import Record, field

_Safe: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""Only its events are used, which it makes one after the other, however deeply they nest: `_Builder` makes data of them."""

_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?[0-9]+\.[0-9]+(?:[eE][-+]?[0-9]+)?")
_LEADING_ZERO = re.compile(r"[-+]?0[0-9]")
_NULL = {"", "~", "null"}
_BOOL = {"true": True, "false": False}
_TRAPS = (
    (re.compile(r"(?:yes|no|on|off|y|n|true|false)", re.I), "is true or false to YAML", "true, false, or the word in quotes"),
    (re.compile(r"null", re.I), "is nothing to YAML", "null, or the word in quotes"),
    (re.compile(r"[-+]?0[0-9_]+(?:\.[0-9]*)?|0o[0-7]+"), "is an octal number to YAML", "it without the leading 0, or in quotes"),
    (re.compile(r"[-+]?0[xb][0-9a-fA-F_]+"), "is a hexadecimal or binary number to YAML", "the decimal number, or in quotes"),
    (re.compile(r"[-+]?[0-9]+(?::[0-5]?[0-9])+(?:\.[0-9]*)?"), "is a number in base 60 to YAML", "the value in quotes"),
    (re.compile(r"[-+]?[0-9][0-9_]*_[0-9_]*(?:\.[0-9_]*)?"), "is a number to only some YAML readers", "the digits without `_`"),
    (re.compile(r"[-+]?\.(?:inf|nan)", re.I), "is no finite number", "a number, or leave the key out"),
    (re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+\.)(?:[eE][-+]?[0-9]+)?"), "is read in several ways", "it as 0.5 or 5.0"),
    (re.compile(r"<<|="), "has a meaning of its own in YAML", "it in quotes"),
)  # fmt: skip

_SUSPECT = re.compile(r"[-+.0-9<=]|(?:y|yes|n|no|on|off|true|false|null)$", re.I)
"""How every text begins that is not plainly a word."""
_TAGS = {f"tag:yaml.org,2002:{name}" for name in ("null", "bool", "int", "float", "str", "timestamp", "value", "merge")}
_DEEPEST = 50
"""No file nests deeper; a reader that follows deeper ones would end the process."""
_TOO_DEEP = "the file is nested too deeply", f"no file nests deeper than {_DEEPEST} levels"
_MOST_VALUES = 1_000_000
"""The most values of a file: each takes some 400 bytes with its line."""
_MOST_DIGITS = 40

Path_ = tuple[str | int, ...]


class LineMap(Record):
    """Where each key and item of a file stands: path inside the data to line number."""

    file: str
    lines: Mapping[Path_, int] = field(default_factory=dict)

    def line(self, path: Iterable[str | int] = ()) -> int:
        """The line (from 1) of a key or item; where it does not exist, of the nearest thing around it.

        >>> LineMap("a.yaml", {("memory",): 7, ("memory", "capacity"): 8}).line(("memory", "bandwidth"))
        7
        """
        known: Path_ = ()
        for part in path:
            if (*known, part) in self.lines:
                known = (*known, part)
        return self.lines.get(known, 1)

    def where(self, path: Iterable[str | int] = ()) -> str:
        """The place as `file:line`."""
        return f"{self.file}:{self.line(path)}"


def load_yaml(path: Path) -> tuple[dict[str, Any], LineMap]:
    """The mapping that a file holds and the line of each of its keys; sequences come as tuples, dates as text.

    Raises:
        SpecError: the file cannot be read, is empty, is cut short, holds a key twice, an anchor, a value that YAML
            reads otherwise than it looks (`010`, `1:30`, `no`), or something other than a mapping. All of them together.
    """
    return parse_yaml(read_text(path), str(path))


def read_text(path: Path) -> str:
    """The text of a file.

    Raises:
        SpecError: it does not exist, is no regular file, is larger than any spec file, or is not UTF-8.
    """
    try:
        return text_of(path, code="yaml")
    except UsageError as error:
        raise SpecError(*error.problems) from None


def parse_yaml(text: str, file: str) -> tuple[dict[str, Any], LineMap]:
    r"""The same as `load_yaml` for text at hand; `file` is the name that problems carry.

    >>> data, lines = parse_yaml("id: t4\nmemory: {capacity: 16 GB}\n", "t4.yaml")
    >>> data, lines.where(("memory", "capacity"))
    ({'id': 't4', 'memory': {'capacity': '16 GB'}}, 't4.yaml:2')
    """
    builder = _Builder(file, loose=False)
    data = _built(builder, text)
    if data is None:
        raise SpecError(Problem("yaml.empty", "the file is empty", "write at least `format: 1` and `id: …`", f"{file}:1"))
    if not isinstance(data, dict):
        what = "the file does not hold `key: value` lines at its top"
        raise SpecError(Problem("yaml.not-a-mapping", what, where=f"{file}:{builder.top}"))
    return data, LineMap(file, builder.lines)


def parse_any(text: str, file: str) -> Any:
    """What a YAML text of another program holds, as JSON would: mappings, lists, a single value or None.

    `&x` and `*x`, with which programs say what stands twice, are read; each counts as what it stands for.

    Raises:
        SpecError: as `load_yaml`, but for these.
    """
    return _built(_Builder(file, loose=True), text)


def _built(builder: _Builder, text: str) -> Any:
    """What a text holds.

    Raises:
        SpecError: it is no YAML, or holds what is not allowed.
    """
    file = builder.file
    reader = None
    try:
        reader = _Safe(text)
        builder.next = reader.get_event
        data = builder.document()
    except yaml.MarkedYAMLError as error:
        raise SpecError(_syntax(error, file)) from None
    except yaml.YAMLError as error:
        raise SpecError(Problem("yaml.syntax", f"not valid YAML: {_one_line(str(error))}", where=f"{file}:1")) from None
    finally:
        if reader is not None:
            reader.dispose()
    if builder.problems:
        raise SpecError(*builder.problems)
    return data


def _syntax(error: yaml.MarkedYAMLError, file: str) -> Problem:
    mark = error.problem_mark or error.context_mark
    line = mark.line + 1 if mark else 1
    what = _one_line(" ".join(part for part in (error.context, error.problem) if part))
    if "undefined alias" in what:
        return _anchor(f"{file}:{line}")
    if "nesting depth" in what:  # newer parsers have a limit of their own, which is higher
        return Problem("yaml.too-deep", *_TOO_DEEP, f"{file}:{line}")
    hint = "is the file cut short, or a bracket, a quote or the indentation wrong?"
    return Problem("yaml.syntax", f"not valid YAML: {what}", hint, f"{file}:{line}")


def _anchor(where: str) -> Problem:
    return Problem("yaml.anchor", "anchors and aliases (`&x`, `*x`) are not allowed", "write the values out", where)


def _one_line(text: str) -> str:
    return " ".join(text.split())


class _Builder:
    """Makes plain data of the parser's events, noting lines and collecting every problem."""

    next: Callable[[], Any]

    def __init__(self, file: str, *, loose: bool) -> None:
        self.file, self.loose = file, loose
        self.top = 1
        """The line on which the data begins."""
        self.known: dict[str, tuple[Any, int]] = {}
        """What anchors stand for, and how many values that is."""
        self.lines: dict[Path_, int] = {}
        self.problems: list[Problem] = []
        self.values = 0

    def bad(self, code: str, event: Any, message: str, hint: str = "") -> None:
        self.problems.append(Problem(code, message, hint, f"{self.file}:{_line(event)}"))

    def document(self) -> Any:
        """The value of the only document; None where there is none."""
        self.next()
        event: Any = self.next()
        if type(event) is StreamEndEvent:
            return None
        event = self.next()
        self.top = _line(event)
        data = self.build(event, ())
        self.next()
        event = self.next()
        if type(event) is not StreamEndEvent:
            self.bad("yaml.syntax", event, "not valid YAML: expected a single document, but found another", "split the file")
        return data

    def build(self, event: Any, path: Path_) -> Any:
        self.values += 1
        if self.values > _MOST_VALUES:
            raise self.stop("yaml.too-many", event, f"the file holds more than {_MOST_VALUES:,} values", "split it")
        if event.anchor is None:
            return self.scalar(event) if type(event) is ScalarEvent else self.plain(event, path)
        if not self.loose:
            self.anchored(event)
        if type(event) is AliasEvent:
            if event.anchor not in self.known:
                self.anchored(event)
            value, count = self.known.get(event.anchor, (None, 0))
            self.values += count
            return value
        before = self.values
        value = self.plain(event, path)
        self.known[event.anchor] = value, self.values - before
        return value

    def plain(self, event: Any, path: Path_) -> Any:
        """The value that an event begins, whatever it is called."""
        kind = type(event)
        if kind is ScalarEvent:
            return self.scalar(event)
        if len(path) >= _DEEPEST:
            raise self.stop("yaml.too-deep", event, *_TOO_DEEP)
        if kind is MappingStartEvent:
            return self.mapping(path)
        items: list[Any] = []
        while type(event := self.next()) is not SequenceEndEvent:
            here = (*path, len(items))
            self.lines[here] = _line(event)
            items.append(self.build(event, here))
        return items if self.loose else tuple(items)

    def mapping(self, path: Path_) -> dict[str, Any]:
        data: dict[str, Any] = {}
        while type(event := self.next()) is not MappingEndEvent:
            if type(event) is not ScalarEvent:
                self.bad("yaml.key", event, "a key is a list or a mapping", "keys are words")
                self.build(event, (*path, "?"))
                self.build(self.next(), (*path, "?"))
                continue
            key = event.value
            value = self.next()
            here = (*path, key)
            if key == "<<" and not event.style:
                self.bad("yaml.anchor", event, "merge keys (`<<`) are not allowed", "write the values out")
            elif key == "" or (key in _NULL and not event.style):
                self.bad("yaml.key", event, f"`{key}` is no key", "keys are words")
            elif key in data:
                first = self.lines[here]
                self.bad("yaml.duplicate-key", event, f"`{key}` stands twice, first on line {first}", "keep one of them")
            else:
                if not key.isprintable():
                    self.unseen(event)
                self.lines[here] = _line(event)
                data[key] = self.build(value, here)
                continue
            self.build(value, (*path, "?"))
        return data

    def scalar(self, event: Any) -> Any:
        text: str = event.value
        if event.tag is not None and event.tag not in _TAGS:
            self.bad("yaml.tag", event, f"tags such as `{event.tag}` are not allowed", "write a plain value")
        if not text.isprintable():
            self.unseen(event)
        if event.style:
            return text
        value = _unquoted(text)
        if isinstance(value, _Trap):
            shown = text if len(text) <= _MOST_DIGITS else f"{text[:12]}…"
            self.bad("yaml.trap", event, f"`{shown}` {value.reading}", f"write {value.instead}")
            return None
        return value

    def anchored(self, event: Any) -> None:
        if all(problem.code != "yaml.anchor" for problem in self.problems):
            self.problems.append(_anchor(f"{self.file}:{_line(event)}"))

    def unseen(self, event: Any) -> None:
        found = UNSEEN.search(event.value)
        if found:
            what = f"the text holds the character U+{ord(found[0]):04X}, which no screen shows"
            self.bad("yaml.unseen-character", event, what, "take it out")

    def stop(self, code: str, event: Any, message: str, hint: str) -> SpecError:
        """What ends the reading: the file is no file of anyone's."""
        self.bad(code, event, message, hint)
        return SpecError(*self.problems)


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1


class _Trap(Record):
    """How YAML reads a text otherwise than it looks, and what to write."""

    reading: str
    instead: str


_TOO_LONG = _Trap("is longer than any number", f"at most {_MOST_DIGITS} digits")
_INFINITE = _Trap("is larger than any number", "a finite number")


@lru_cache(4096)
def _unquoted(text: str) -> Any:
    """What a text without quotes is; the same days, kinds and units stand in a file again and again."""
    if text in _NULL:
        return None
    if text in _BOOL:
        return _BOOL[text]
    if not _SUSPECT.match(text):
        return text
    if _INT.fullmatch(text):
        return int(text) if len(text) <= _MOST_DIGITS else _TOO_LONG
    if _FLOAT.fullmatch(text) and not _LEADING_ZERO.match(text):
        return value if isfinite(value := float(text)) else _INFINITE
    if len(text) < 40:
        for trap, reading, instead in _TRAPS:
            if trap.fullmatch(text):
                return _Trap(reading, instead)
    return text


def is_plain_text(text: str) -> bool:
    """Whether a word without quotes is read as this very text: no number, no truth value, nothing that YAML guesses at.

    >>> [is_plain_text(one) for one in ("80 GiB", "2026-11-21", "no", "64", "1:30", "")]
    [True, True, False, False, False, False]
    """
    return isinstance(value := _unquoted(text), str) and value == text
