"""Which realistic faults can one plant in a data file: the slips that people make, in every field where they make them?

A fault changes one scalar of a file that is shipped. What is planted follows from the place and from the value there: a number
is doubled, halved, ten times as large, has two digits exchanged, is read in the wrong unit, or is a sibling's; a word is another
one that the place allows. Nothing here knows a rule of the check.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import yaml

_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
Keys = tuple[str | int, ...]


class Fault(NamedTuple):
    """One slip: the class it belongs to, where it stands, what it is called, and what of the file it replaces with what.

    There are so many that each keeping the text of its file would take gigabytes.
    """

    group: str
    path: Path
    at: Keys
    slip: str
    old: str
    new: str
    whole: str
    """The text of the file without it."""
    start: int = 0
    end: int = 0
    written: str = ""

    @property
    def text(self) -> str:
        """The text of the file with it."""
        return f"{self.whole[: self.start]}{self.written}{self.whole[self.end :]}"

    def __str__(self) -> str:
        return f"{self.group}: {self.path.name} {'.'.join(map(str, self.at))}: {self.old} -> {self.new} ({self.slip})"


class Leaf(NamedTuple):
    """A scalar of a file: its keys, its text, and where that begins and ends."""

    at: Keys
    text: str
    start: int
    end: int


def leaves(text: str) -> list[Leaf]:
    """Every scalar value of a YAML text."""
    found: list[Leaf] = []

    def walk(node: Any, at: Keys) -> None:
        if isinstance(node, yaml.MappingNode):
            for key, value in node.value:
                walk(value, (*at, key.value))
        elif isinstance(node, yaml.SequenceNode):
            for place, value in enumerate(node.value):
                walk(value, (*at, place))
        else:
            found.append(Leaf(at, node.value, node.start_mark.index, node.end_mark.index))

    walk(yaml.compose(text, Loader=_Loader), ())
    return found


_NUMBER = re.compile(r"(\d+(?:\.\d+)?)(?: ?([A-Za-z/]+))?$")
_UNITS = {
    "GiB": "GB", "MiB": "MB", "GB": "GiB", "TB/s": "GB/s", "GB/s": "TB/s", "TFLOP/s": "GFLOP/s", "TOP/s": "GOP/s",
    "Gbit/s": "GB/s", "kW": "W", "MHz": "GHz", "us": "ms", "ms": "us",
}  # fmt: skip
"""The unit that people write in place of another."""


def _shown(value: float) -> str:
    return f"{value:.6g}" if value < 1e6 else f"{value:.0f}"


def _exchanged(digits: str) -> str | None:
    """A number with two neighbouring digits exchanged, where that makes it differ by a tenth or more."""
    for place in range(len(digits) - 1):
        one, other = digits[place], digits[place + 1]
        if one != other and one.isdigit() and other.isdigit() and (other != "0" or place):
            made = digits[:place] + other + one + digits[place + 2 :]
            if abs(float(made) / float(digits) - 1) >= 0.1:
                return made
    return None


def number_slips(text: str, *, siblings: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    """What a number with a unit may become by mistake."""
    found = _NUMBER.match(text)
    if found is None or float(found[1]) == 0:
        return
    value, unit = float(found[1]), found[2]
    tail = text[len(found[1]) :]
    for name, factor in (("twice", 2.0), ("half", 0.5), ("ten times", 10.0)):
        made = value * factor
        if made == int(made) or "." in found[1] or unit:
            yield name, _shown(made) + tail
    swapped = _exchanged(found[1])
    if swapped is not None:
        yield "digits exchanged", swapped + tail
    if unit in _UNITS:
        yield "unit", f"{found[1]} {_UNITS[unit]}"
    for other in siblings:
        yield "a sibling's", other


def apart(one: str, other: str) -> bool:
    """Whether two numbers differ by a tenth or more."""
    a, b = _NUMBER.match(one), _NUMBER.match(other)
    return bool(a and b and a[2] == b[2] and float(b[1]) and abs(float(a[1]) / float(b[1]) - 1) >= 0.1)


class Field(NamedTuple):
    """Places of one kind of file, by a pattern over their dotted keys: their class, and what people get wrong there."""

    kind: str
    pattern: str
    group: str
    slips: str
    """`number`, `word`, `flag`, `date`, `drop` or `name`, several with spaces between."""


FIELDS = tuple(
    Field(row["kind"], row["keys"], row["group"], row["slips"])
    for row in yaml.load((Path(__file__).parent / "fields.yaml").read_text(encoding="utf-8"), Loader=_Loader)
)
_COMPILED = [(field, re.compile(field.pattern)) for field in FIELDS]


@cache
def _field_of(kind: str, dotted: str) -> Field | None:
    """The class of a place in files of a kind: many files have the same places."""
    return next((field for field, form in _COMPILED if field.kind in (kind, "any") and form.fullmatch(dotted)), None)


class Planter:
    """Plants faults in the files of some folders; `kind_of` says the kind of a file."""

    def __init__(self, files: dict[Path, str], kind_of: Callable[[Path], str]) -> None:
        self.files = files
        self.kind_of = kind_of
        self.leaves = {path: leaves(text) for path, text in files.items()}
        self.own = {path: {leaf.text for leaf in found} for path, found in self.leaves.items()}
        self.ordered: dict[tuple[str, str, str], list[str]] = {}
        self.all_ordered: dict[tuple[str, str], list[str]] = {}
        self.values: dict[tuple[str, str], dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
        for path, found in self.leaves.items():
            for leaf in found:
                self.values[kind_of(path), _place(leaf.at)][_kin(path)].add(leaf.text)

    def faults(self, seed: int, per_leaf: int = 1) -> Iterator[Fault]:
        """Some slips in every field of every file, the same for the same seed."""
        for path in sorted(self.files):
            draw = random.Random(f"{seed} {path.name}")
            kind = self.kind_of(path)
            for leaf in self.leaves[path]:
                dotted = ".".join(map(str, leaf.at))
                field = _field_of(kind, dotted)
                if field is None or (kind == "models" and field.slips == "key"):  # their `source` is a sentence
                    continue
                slips = list(self._slips(field, kind, path, leaf))
                for name, new in draw.sample(slips, min(per_leaf, len(slips))):
                    yield self._planted(field.group, path, leaf, name, new)

    def _planted(self, group: str, path: Path, leaf: Leaf, name: str, new: str) -> Fault:
        text = self.files[path]
        if name == "left out":
            from_ = max(leaf.start - 200, 0)  # a key is shorter
            begin = re.search(r",? ?[\w]+: ?$", text[from_ : leaf.start])
            start = from_ + begin.start() if begin is not None else leaf.start
            return Fault(group, path, leaf.at, name, leaf.text, "", text, start, leaf.end)
        quoted = text[leaf.start : leaf.start + 1]
        written = f"{quoted}{new.strip(quoted)}{quoted}" if quoted in "\"'" else new
        return Fault(group, path, leaf.at, name, leaf.text, new, text, leaf.start, leaf.end, written)

    def _near(self, kind: str, place: str, kin: str) -> list[str]:
        """What stands at a place in files that one may confuse, in order."""
        at = (kind, place, kin)
        if at not in self.ordered:
            self.ordered[at] = sorted(self.values[kind, place][kin])
        return self.ordered[at]

    def _every(self, kind: str, place: str) -> list[str]:
        """What stands at a place in all files of a kind, in order."""
        if (kind, place) not in self.all_ordered:
            self.all_ordered[kind, place] = sorted({value for values in self.values[kind, place].values() for value in values})
        return self.all_ordered[kind, place]

    def _slips(self, field: Field, kind: str, path: Path, leaf: Leaf) -> Iterator[tuple[str, str]]:
        near = self._near(kind, _place(leaf.at), _kin(path))

        def others() -> Iterator[str]:
            return (value for value in near if value != leaf.text)  # There may be thousands: a few of the first are taken.

        for slip in field.slips.split():
            if slip == "number":
                yield from number_slips(
                    leaf.text, siblings=tuple(islice((value for value in others() if apart(value, leaf.text)), 3))
                )
            elif slip == "percent":
                if _NUMBER.match(leaf.text) and float(leaf.text) > 0:
                    yield "percent", _shown(float(leaf.text) * 100)
                    yield "zero", "0"
            elif slip == "near":
                if leaf.text.isdigit() and int(leaf.text) > 8:
                    yield "off by a few", str(int(leaf.text) + 2)
                if leaf.at[-1] == "max_context":
                    yield "cut for a chip", "512"
            elif slip == "heads":
                yield from self._of_heads(path, leaf)
            elif slip == "word":
                every = (value for value in self._every(kind, _place(leaf.at)) if value != leaf.text)
                yield from (("another word", value) for value in (*islice(others(), 3), *islice(every, 6)))
            elif slip == "flag":
                yield "turned", {"true": "false", "false": "true"}[leaf.text]
            elif slip == "date":
                yield from _dates(leaf.text)
            elif slip == "sold":
                if leaf.text != "current":
                    yield "sold as current", "current"
            elif slip == "drop":
                yield "left out", ""
            elif slip == "name":
                named = islice((one for one in others() if one not in self.own[path]), 4)
                yield from (("a name of another", value) for value in named)
            elif slip == "url":
                yield "no address", leaf.text.replace("https://", "")
                yield "a typing error", leaf.text.replace("https://", "htps://")
                yield "a page of nobody", "https://example.com/"
                yield "a space in it", leaf.text.replace("/", "/ ", 4)
            elif slip == "empty":
                yield "empty", '""'
            elif slip == "key":
                yield "no such key", leaf.text[:-1] if len(leaf.text) > 3 else f"{leaf.text}2"

    def _of_heads(self, path: Path, leaf: Leaf) -> Iterator[tuple[str, str]]:
        """Key and value heads as many as queries have, a head as wide as there are heads."""
        beside = {one.at[-1]: one.text for one in self.leaves[path] if one.at[:-1] == leaf.at[:-1]}
        for own, other in (("kv_heads", "heads"), ("heads", "kv_heads"), ("head_dim", "heads")):
            if leaf.at[-1] == own and beside.get(other, leaf.text) != leaf.text:
                yield f"that of `{other}`", beside[other]


def _place(at: Keys) -> str:
    """Keys without the names of things: where values of different files can stand for each other."""
    return ".".join("#" if isinstance(part, int) else part for part in at)


def _kin(path: Path) -> str:
    """Files that one may confuse: of one folder, and with the same beginning."""
    return f"{path.parent.name} {re.split(r'[-_.]', path.stem)[0]}"


def _dates(text: str) -> Iterator[tuple[str, str]]:
    if not text[:4].isdigit():
        return  # `unknown`
    year = int(text[:4])
    yield "two years later", f"{year + 2}{text[4:]}"
    yield "ten years earlier", f"{year - 10}{text[4:]}"
    if len(text) > 7:
        yield "no such month", f"{text[:5]}13{text[7:]}"
        yield "no such day", f"{text[:5]}02-31"
