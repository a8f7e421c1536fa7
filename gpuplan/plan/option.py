"""What is an option: what does it mean, which values does it take and in which unit, and what does it belong to?

A field of a question is an option when its annotation holds an `Option`. From these the command line, its help, the parsing, the
echo of the question, the Python API, the JSON Schema and the reference page are made: a new option is a field, and what uses it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias, Union, get_args, get_origin, get_type_hints

from gpuplan.record import Record
from gpuplan.units import WINDOWS

RUN = "What runs where"
GOAL = "The goal (what is left out is no limit)"
PLACES = "Where to look (left out: everywhere)"
PARALLEL = "Parallelism (what is left out is chosen and said)"
NUMBERS = "Numbers"
TUNING = "Adapters"
LOADED = "Load (`serve` without one: an idle replica, and a batch without waiting)"
SERVED = "Engine settings (what is left out is the engine's own)"
PICTURES = "Pictures and clips (diffusion models)"
REINFORCED = "Reinforcement learning (generation, scoring, training in turn)"
SAMPLED = "Models given by their samples (CNNs and the like)"
MONEY = "Money, power and carbon"
DATA = "Data"
OUTPUT = "Output"
WISHED = "Which models"
PANELS = (RUN, GOAL, PLACES, LOADED, WISHED, NUMBERS, PARALLEL, SERVED, PICTURES, TUNING, REINFORCED, SAMPLED, MONEY, DATA, OUTPUT)
"""The headings of the help, in its order."""

WHOLE = 1_000_000_000
"""The largest whole number, unless an option says otherwise: more of anything than there is."""

Kind: TypeAlias = Literal["switch", "whole", "number", "word", "words", "text", "texts"]
Group: TypeAlias = Literal["", "price", "own", "adapters", "rl", "described", "input", "serve", "train", "pictures"]
"""Options that mean something only together, or only for one task."""
Reading: TypeAlias = Literal["", "price", "day", "product", "count", "pins", "words", "capacity", "pixels", "rate"]


class Option(NamedTuple):
    """One option, in the annotation of a field: `seq_len: Annotated[int | None, Option("Tokens of one sequence", …)] = None`.

    What it takes follows from the field's type: a switch of `bool`, a whole number of `int`, a number or a quantity of `float`,
    one of a few words of `Literal`, several of them of a tuple, a text of `str`.
    """

    about: str
    """One sentence for the help."""
    panel: str = ""
    """The heading that it stands under in the help; "": among the arguments."""
    metavar: str = "N"
    """What stands for the value in the help."""
    unit: str = ""
    """The base unit of a quantity, which a text must name; "": a plain number."""
    least: float | None = None
    """The smallest number; None: 1 where numbers are whole, anything above zero otherwise."""
    most: float | None = None
    """The largest number, far beyond what can be meant; None: a billion where numbers are whole, the unit's window otherwise."""
    too_small: str = ""
    """What to say of smaller numbers, where that is not plain."""
    length: bool = False
    """A length of sequences, where the field's `k` is 1024: an 8k context has 8192 tokens."""
    flag: str = ""
    """The option's name, where it is not the field's."""
    one_way: bool = False
    """A switch that has no `--no-…`."""
    reads: Reading = ""
    """A text with a manner of its own: USD an hour, a day, numbers multiplied, a count that may name a unit, terms with values, a
    capacity, the sides of an image, a number a second, or words of an engine, which stand for other options."""
    group: Group = ""
    """What it belongs to and is refused without."""
    samples: bool = False
    """It means something for models that are given by their samples."""


class Entry(Record):
    """An option of a question with what its field says: its name, its type and its default."""

    name: str
    option: Option
    kind: Kind
    words: tuple[str, ...] = ()
    default: Any = None
    required: bool = False

    @property
    def flag(self) -> str:
        """The option on the command line: `--seq-len`."""
        return f"--{self.option.flag or self.name.replace('_', '-')}"

    @property
    def key(self) -> str:
        """The option in Python: `seq_len`."""
        return self.flag[2:].replace("-", "_")

    @property
    def flags(self) -> tuple[str, ...]:
        """All that may be typed for it."""
        return (self.flag, f"--no-{self.flag[2:]}") if self.kind == "switch" and not self.option.one_way else (self.flag,)

    @property
    def window(self) -> tuple[float, float]:
        """The smallest and the largest number that it takes, in base units; what has no least value is above zero."""
        option, whole = self.option, self.kind == "whole"
        low, high = (1, WHOLE) if whole else WINDOWS[option.unit or "1"]
        return low if option.least is None else option.least, high if option.most is None else option.most

    @property
    def positional(self) -> bool:
        """It is an argument, not an option."""
        return not self.option.panel

    @property
    def example(self) -> str:
        """A value that it takes, from its help or its words; "" where there is none."""
        named = re.search(r"such as `([^`]+)`", self.option.about)
        return named[1] if named else self.words[0] if self.words else ""


def entries(ask: type[Record]) -> Mapping[str, Entry]:
    """The options of a question by their fields, under the headings of the help in order.

    >>> class Mine(Record):
    ...     seq_len: Annotated[int | None, Option("Tokens of one sequence", RUN)] = None
    >>> entries(Mine)["seq_len"].flag, entries(Mine)["seq_len"].kind
    ('--seq-len', 'whole')
    """
    return _tables(ask)[0]


def by_key(ask: type[Record]) -> Mapping[str, Entry]:
    """The same by the names that Python and the command line's parser use."""
    return _tables(ask)[1]


def grouped(ask: type[Record], group: Group) -> tuple[str, ...]:
    """The fields of the options that belong together."""
    return _tables(ask)[2].get(group, ())


_Tables: TypeAlias = tuple[Mapping[str, Entry], Mapping[str, Entry], Mapping[str, tuple[str, ...]]]
_MADE: dict[type[Record], _Tables] = {}


def _tables(ask: type[Record]) -> _Tables:
    """The options of a question by field, by name in Python, and the fields of each group: made once."""
    if ask not in _MADE:
        found = [
            _entry(ask, name, get_args(hint)[0], mark)
            for name, hint in get_type_hints(ask, include_extras=True).items()
            if get_origin(hint) is Annotated and (mark := next((one for one in get_args(hint) if isinstance(one, Option)), None))
        ]
        order = ["", *PANELS, *(one.option.panel for one in found)]
        found.sort(key=lambda one: order.index(one.option.panel))
        groups: dict[str, tuple[str, ...]] = {}
        for one in found:
            groups[one.option.group] = (*groups.get(one.option.group, ()), one.name)
        _MADE[ask] = {one.name: one for one in found}, {one.key: one for one in found}, groups
    return _MADE[ask]


def _entry(ask: type[Record], name: str, hint: Any, mark: Option) -> Entry:
    required = not hasattr(ask, name)
    kind, words = _kind(hint)
    default = None if required or kind == "texts" else getattr(ask, name)
    return Entry(name, mark, kind, words, default, required)


def _kind(hint: Any) -> tuple[Kind, tuple[str, ...]]:
    """What a type takes, and the words if they are few."""
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        hint = next(one for one in get_args(hint) if one is not type(None))
        origin = get_origin(hint)
    if origin is Literal:
        return "word", get_args(hint)
    if origin is tuple and get_origin(get_args(hint)[0]) is Literal:
        return "words", get_args(get_args(hint)[0])
    plain: dict[Any, Kind] = {bool: "switch", int: "whole", float: "number", str: "text"}
    return plain.get(hint, "texts"), ()
