"""What changed between two folders of spec files, value by value: not which lines, but which figures, words and sources?"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

from gpuplan.errors import Problem, SpecError
from gpuplan.record import Record
from gpuplan.specs.catalog import KINDS
from gpuplan.strict_yaml import parse_yaml, read_text
from gpuplan.units import UnitError, parse

Category: TypeAlias = Literal["value", "words", "source", "note", "spelling"]
"""`value`: a figure; `words`: any other field; `source`: who says so; `note`: remarks and ranges; `spelling`: an equal figure."""


class ValueChange(Record):
    """One thing that is otherwise; `old` and `new` are as printed, None where there is none.

    `old_value` and `new_value` are in base units (`unit`), where both are figures of the same kind; `ratio` is new over old.
    """

    category: Category
    kind: str
    file: str
    path: str
    old: str | None
    new: str | None
    unit: str = ""
    old_value: float | None = None
    new_value: float | None = None

    @property
    def ratio(self) -> float | None:
        """New over old, where both are figures and the old one is not zero."""
        return self.new_value / self.old_value if self.new_value is not None and self.old_value else None


class Diff(Record):
    """Everything that changed; `added` and `removed` are (kind, file); `unreadable` are problems of files on either side."""

    changes: tuple[ValueChange, ...]
    added: tuple[tuple[str, str], ...]
    removed: tuple[tuple[str, str], ...]
    unreadable: tuple[Problem, ...]
    same: int

    def __bool__(self) -> bool:
        """Whether anything at all is otherwise."""
        return bool(self.changes or self.added or self.removed or self.unreadable)

    def files(self) -> list[tuple[str, str]]:
        """Every (kind, file) whose figures or words changed, most changed figures first, or that was added or removed."""
        counts: dict[tuple[str, str], int] = {}
        for one in self.changes:
            if one.category in ("value", "words"):
                counts[one.kind, one.file] = counts.get((one.kind, one.file), 0) + (one.category == "value")
        changed = sorted(counts, key=lambda file: -counts[file])
        return [*changed, *self.added, *self.removed]


def compare(base: Path, head: Path) -> Diff:
    """What changed from one spec folder to another."""
    changes: list[ValueChange] = []
    added: list[tuple[str, str]] = []
    removed: list[tuple[str, str]] = []
    unreadable: list[Problem] = []
    same = 0
    for kind in KINDS:
        old, new = _files(base, kind), _files(head, kind)
        added += [(kind, name) for name in new if name not in old]
        removed += [(kind, name) for name in old if name not in new]
        for name in sorted(old.keys() & new.keys()):
            try:
                texts = read_text(old[name]), read_text(new[name])
                if texts[0] != texts[1]:
                    data = [parse_yaml(text, f"{kind}/{name}.yaml")[0] for text in texts]
                    found = list(_changes(kind, name, *data))
                    changes += found
                    same += not found
                else:
                    same += 1
            except SpecError as error:
                unreadable += error.problems
    return Diff(tuple(changes), tuple(added), tuple(removed), tuple(unreadable), same)


def _files(folder: Path, kind: str) -> dict[str, Path]:
    root = folder / kind
    paths = sorted(root.rglob("*.yaml")) if root.is_dir() else []
    return {path.relative_to(root).with_suffix("").as_posix(): path for path in paths}


def _changes(kind: str, file: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[ValueChange]:
    before, after = dict(_leaves(old, "")), dict(_leaves(new, ""))
    whole: dict[tuple[str, bool], list[Any]] = {}
    for path in dict.fromkeys([*before, *after]):
        a, b = before.get(path), after.get(path)
        if a == b or isinstance(a or b, _Whole):
            continue
        gone = _outermost(path, before if b is None else after, after if b is None else before) if a is None or b is None else ""
        if gone:
            whole.setdefault((gone, b is None), []).append((path, b if a is None else a))
        else:
            yield from _change(kind, file, path, a, b)
    for (path, is_gone), leaves in whole.items():
        figures = any(_figure(value) is not None for _, value in leaves)
        category: Category = "source" if path.startswith("sources.") else "value" if figures else "words"
        text = _summary(leaves)
        yield ValueChange(category, kind, file, path, text if is_gone else None, None if is_gone else text)


class _Whole(Record):
    """Marks the path of a mapping or of an item of a list."""


def _outermost(path: str, there: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """The outermost mapping or item around a path that the other side has not at all; nothing where it has all of them."""
    inside = [one for one, value in there.items() if isinstance(value, _Whole) and path.startswith((f"{one}.", f"{one}["))]
    return next((one for one in sorted(inside, key=len) if one not in other), "")


def _summary(leaves: Sequence[tuple[str, Any]]) -> str:
    """An item that came or went in a few words."""
    for last in ("price", "title"):
        for path, value in leaves:
            if path.endswith(f".{last}"):
                return str(_printed(value))
    return str(_printed(leaves[0][1])) if len(leaves) == 1 else f"{len(leaves)} values"


def _leaves(data: Any, at: str) -> Iterator[tuple[str, Any]]:
    """Every value with its path; a figure with its source and note is one, and so is a list of words."""
    if isinstance(data, Mapping) and "value" not in data:
        if at:
            yield at, _Whole()
        for key, item in data.items():
            yield from _leaves(item, f"{at}.{key}" if at else str(key))
    elif isinstance(data, tuple) and data and all(isinstance(item, Mapping) for item in data):
        seen: dict[str, int] = {}
        for item in data:
            name = _item_name(item)
            seen[name] = seen.get(name, 0) + 1
            yield from _leaves(item, f"{at}[{name}{f' #{seen[name]}' if seen[name] > 1 else ''}]")
    else:
        yield at, data


_NAMED_BY = ("name", "instance", "collective", "region", "kind", "per", "ranks", "algorithm")


def _item_name(item: Mapping[str, Any]) -> str:
    """What tells an item of a list from its neighbours, whatever its place."""
    if "name" in item:
        return str(item["name"])
    return " ".join(str(item[key]) for key in _NAMED_BY if item.get(key) not in (None, "")) or "item"


def _change(kind: str, file: str, path: str, a: Any, b: Any) -> Iterator[ValueChange]:
    old, new = _printed(a), _printed(b)
    if path.startswith("sources.") or path.rpartition(".")[2] == "source":
        yield ValueChange("source", kind, file, path, old, new)
        return
    if path.rpartition(".")[2] in ("note", "notes"):
        yield ValueChange("note", kind, file, path, old, new)
        return
    if old != new:
        x, y = _figure(a), _figure(b)
        if x is not None and y is not None and x[1] == y[1]:
            category: Category = "spelling" if math.isclose(x[0], y[0], rel_tol=1e-9) else "value"
            yield ValueChange(category, kind, file, path, old, new, x[1], x[0], y[0])
        else:
            figure = (x is not None or y is not None) and (x is None or y is None)
            yield ValueChange("value" if figure else "words", kind, file, path, old, new, (x or y or (0, ""))[1] if figure else "",
                         x[0] if figure and x else None, y[0] if figure and y else None)  # fmt: skip
    for part, category in (("source", "source"), ("note", "note"), ("accept", "note")):
        was, now = _part(a, part), _part(b, part)
        if was != now and a is not None and b is not None:
            yield ValueChange(category, kind, file, f"{path}.{part}", was, now)


def _part(value: Any, part: str) -> str | None:
    return _printed(value.get(part)) if isinstance(value, Mapping) else None


def _printed(value: Any) -> str | None:
    if isinstance(value, Mapping):
        value = value.get("value")
    if value is None:
        return None
    if isinstance(value, tuple):
        return ", ".join(str(_printed(item)) for item in value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _figure(value: Any) -> tuple[float, str] | None:
    """A value in base units and its unit, or None where it is a word."""
    if isinstance(value, Mapping):
        value = value.get("value")
    if isinstance(value, bool) or value is None or isinstance(value, tuple):
        return None
    if isinstance(value, (int, float)):
        return float(value), "1"
    try:
        found = parse(str(value))
    except UnitError:
        return None
    # A bare number in quotes is a version or a date.
    return None if found.unit == "1" and "%" not in str(value) else (found.value, found.unit)


class ChangedSubject(Record):
    """Something that questions can be asked of: a chip, a system or an instance, by the name that `--on` takes."""

    on: str
    kind: str
    file: str


def subjects(diff: Diff, head: Path, most: int) -> tuple[list[ChangedSubject], int]:
    """What the reference questions are asked of: what changed most, accelerators first; and how many more there are.

    Measured parameters stand for their accelerator, prices and instance families for their changed instances.
    """
    order = {"accelerators": 0, "measured": 1, "systems": 2, "prices": 3, "instances": 4}
    removed = set(diff.removed)
    files = [file for file in diff.files() if file[0] in order and file not in removed]
    made: dict[str, ChangedSubject] = {}
    for kind, file in sorted(files, key=lambda file: order[file[0]]):
        for on in _names(diff, kind, file, head):
            made.setdefault(on, ChangedSubject(on, kind, file))
    every = list(made.values())
    return every[:most], max(0, len(every) - most)


def _names(diff: Diff, kind: str, file: str, head: Path) -> Sequence[str]:
    name = file.rpartition("/")[2]
    if kind in ("accelerators", "systems"):
        return [name]
    if kind == "measured":
        return [name] if any(path.stem == name for path in (head / "accelerators").rglob(f"{name}.yaml")) else []
    provider = name if kind == "prices" else file.partition("/")[0]
    inside = [one.path.partition("[")[2].partition("]")[0] for one in diff.changes
              if (one.kind, one.file) == (kind, file) and one.category == "value" and "[" in one.path]  # fmt: skip
    return [f"{provider}:{one.split(' ')[0]}" for one in dict.fromkeys(inside)]
