"""What does this YAML file say, and on which line? Strict: whatever YAML would guess at is refused with what to write instead."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from gpuplan.errors import Problem, SpecError
from gpuplan.record import Record, field

_Safe: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Loader(_Safe):  # type: ignore[misc]
    """The parser without its guesses at types, which take a third of its time and are not used: `_Builder` reads scalars."""

    def resolve(self, kind: Any, value: Any, implicit: Any) -> str:
        """Every value is text until it is looked at."""
        return "tag:yaml.org,2002:str"

    def descend_resolver(self, current_node: Any, current_index: Any) -> None:
        """There is nothing to resolve by path."""

    def ascend_resolver(self) -> None:
        """There is nothing to resolve by path."""


_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?[0-9]+\.[0-9]+(?:[eE][-+]?[0-9]+)?")
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
_DEEPEST = 200
_STACKED = re.compile(r"(?:[-?:][ \t]+){200}")

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
        SpecError: it does not exist, is no readable file, or is not UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        bad = Problem("yaml.not-utf8", f"the file is not UTF-8 text: byte {error.start} is wrong", "save it as UTF-8", f"{path}:1")
        raise SpecError(bad) from None
    except OSError as error:
        raise SpecError(Problem("yaml.unreadable", f"cannot read the file: {error.strerror or error}", where=str(path))) from None


def parse_yaml(text: str, file: str) -> tuple[dict[str, Any], LineMap]:
    r"""The same as `load_yaml` for text at hand; `file` is the name that problems carry.

    >>> data, lines = parse_yaml("id: t4\nmemory: {capacity: 16 GB}\n", "t4.yaml")
    >>> data, lines.where(("memory", "capacity"))
    ({'id': 't4', 'memory': {'capacity': '16 GB'}}, 't4.yaml:2')
    """
    reader = None
    builder = _Builder(file)
    try:
        _not_too_deep(text)
        reader = Loader(text)
        node = reader.get_single_node()
        data = builder.build(node, ()) if isinstance(node, yaml.MappingNode) else {}
    except yaml.MarkedYAMLError as error:
        raise SpecError(_syntax(error, file)) from None
    except yaml.YAMLError as error:
        raise SpecError(Problem("yaml.syntax", f"not valid YAML: {_one_line(str(error))}", where=f"{file}:1")) from None
    except RecursionError:
        raise SpecError(Problem("yaml.too-deep", "the file is nested too deeply", where=f"{file}:1")) from None
    finally:
        if reader is not None:
            reader.dispose()
    if node is None:
        raise SpecError(Problem("yaml.empty", "the file is empty", "write at least `format: 1` and `id: …`", f"{file}:1"))
    if not isinstance(node, yaml.MappingNode):
        line = node.start_mark.line + 1
        raise SpecError(
            Problem("yaml.not-a-mapping", "the file does not hold `key: value` lines at its top", where=f"{file}:{line}")
        )
    if builder.problems:
        raise SpecError(*builder.problems)
    return data, LineMap(file, builder.lines)


def _not_too_deep(text: str) -> None:
    """Refuse what nests far deeper than any spec file: the C parser recurses, and would end the process."""
    depth = deepest = 0
    if text.count("[") + text.count("{") > _DEEPEST:
        for bracket in re.finditer(r"[][{}]", text):
            depth += 1 if bracket[0] in "[{" else -1
            deepest = max(deepest, depth)
    if deepest > _DEEPEST or _STACKED.search(text):
        raise RecursionError


def _syntax(error: yaml.MarkedYAMLError, file: str) -> Problem:
    mark = error.problem_mark or error.context_mark
    line = mark.line + 1 if mark else 1
    what = _one_line(" ".join(part for part in (error.context, error.problem) if part))
    if "undefined alias" in what:
        return _anchor(f"{file}:{line}")
    hint = "is the file cut short, or a bracket, a quote or the indentation wrong?"
    return Problem("yaml.syntax", f"not valid YAML: {what}", hint, f"{file}:{line}")


def _anchor(where: str) -> Problem:
    return Problem("yaml.anchor", "anchors and aliases (`&x`, `*x`) are not allowed", "write the values out", where)


def _one_line(text: str) -> str:
    return " ".join(text.split())


class _Builder:
    """Makes plain data of composed nodes, noting lines and collecting every problem."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.lines: dict[Path_, int] = {}
        self.problems: list[Problem] = []
        self.seen: set[int] = set()

    def bad(self, code: str, node: Any, message: str, hint: str = "") -> None:
        self.problems.append(Problem(code, message, hint, f"{self.file}:{node.start_mark.line + 1}"))

    def build(self, node: Any, path: Path_) -> Any:
        if id(node) in self.seen:
            self.problems.append(_anchor(f"{self.file}:{node.start_mark.line + 1}"))
            return None
        self.seen.add(id(node))
        if isinstance(node, yaml.MappingNode):
            return self.mapping(node, path)
        if isinstance(node, yaml.SequenceNode):
            items = []
            for at, item in enumerate(node.value):
                self.lines[(*path, at)] = item.start_mark.line + 1
                items.append(self.build(item, (*path, at)))
            return tuple(items)
        return self.scalar(node)

    def mapping(self, node: Any, path: Path_) -> dict[str, Any]:
        data: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                self.bad("yaml.key", key_node, "a key is a list or a mapping", "keys are words")
                continue
            key = key_node.value
            if key == "<<" and not key_node.style:
                self.bad("yaml.anchor", key_node, "merge keys (`<<`) are not allowed", "write the values out")
                continue
            if key == "" or (key in _NULL and not key_node.style):
                self.bad("yaml.key", key_node, f"`{key}` is no key", "keys are words")
                continue
            here = (*path, key)
            if key in data:
                first = self.lines[here]
                self.bad("yaml.duplicate-key", key_node, f"`{key}` stands twice, first on line {first}", "keep one of them")
                continue
            self.lines[here] = key_node.start_mark.line + 1
            data[key] = self.build(value_node, here)
        return data

    def scalar(self, node: Any) -> Any:
        text: str = node.value
        if node.tag not in _TAGS:
            self.bad("yaml.tag", node, f"tags such as `{node.tag}` are not allowed", "write a plain value")
        if node.style:
            return text
        value = _unquoted(text)
        if isinstance(value, _Trap):
            self.bad("yaml.trap", node, f"`{text}` {value.reading}", f"write {value.instead}")
            return None
        return value


class _Trap(Record):
    """How YAML reads a text otherwise than it looks, and what to write."""

    reading: str
    instead: str


def _unquoted(text: str) -> Any:
    """What a text without quotes is."""
    if text in _NULL:
        return None
    if text in _BOOL:
        return _BOOL[text]
    if not _SUSPECT.match(text):
        return text
    if _INT.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text) and not re.match(r"[-+]?0[0-9]", text):
        return float(text)
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
