"""Which card comes nearest to a name that no card has: of its line, of its size, or of both?"""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from functools import cache
from math import log

from gpuplan.models.name_size import Size, size_in

_ALIKE = log(1.6)
"""How far sizes may be apart where one still answers for the other: half of the way from one size of a line to the next."""
_MIXED = 0.9
"""A mixture uses less of its parameters for a token than this; a dense model all, but for an embedding that is looked up."""
_SAME = log(1.15)
"""How far sizes in names may be apart where both mean the same size."""
_OF_MANY = frozenset({"gpt", "open"})
"""Words that lines of several makers begin with, which the next word tells apart."""
_MORE = re.compile(r"(?<![a-z])(?:vl|vision|omni|audio|coder|math)(?![a-z])")
"""Words of models that have more than the line without them, or are tuned apart."""
_FRONT = re.compile(r"[a-z]{3,}")
"""The word that a line of models begins with: `granite` of `granite-3.3-8b`."""


def kin_of(name: str) -> tuple[str, ...]:
    """The cards of the line and the size that a name says, the likest first; none where it says no size or has no such line.

    >>> kin_of("ibm-granite/granite-speech-3.3-8b")[0], kin_of("baidu/ERNIE-4.5-VL-28B-A3B-Thinking")
    ('granite-3.3-8b', ('ernie-4.5-21b-a3b',))
    >>> kin_of("someone/Something-8B")
    ()
    """
    said = size_in(name)
    if said is None:
        return ()
    tail = name.rpartition("/")[2].lower()
    words = set(_FRONT.findall(tail))
    alike = [one for one, size in _sizes().items() if said.away(size) <= _ALIKE and _is_of_line(tail, words, _line(one))]
    alike = [one for one in alike if not set(_MORE.findall(one)) - set(_MORE.findall(tail))]
    far = {one: said.away(_sizes()[one]) for one in alike}
    return tuple(sorted(alike, key=lambda one: (far[one] > _SAME, -SequenceMatcher(None, tail, one).ratio(), far[one])))


def of_size(name: str, cards: Sequence[str]) -> tuple[str, ...]:
    """Those of some cards that are of the size that a name says, the nearest first; all where it says none or theirs is not known.

    >>> of_size("facebook/galactica-120b", ["opt-6.7b", "gpt-neox-20b", "opt-66b", "opt-175b"])
    ('opt-175b',)
    >>> of_size("deepcogito/cogito-v2.1-671b", ["deepseek-v3"])
    ('deepseek-v3',)
    """
    said = size_in(name)
    sizes = {one: _size_of(one, counted=said is not None and said.active is not None) for one in cards}
    if said is None or None in sizes.values():
        return tuple(cards)
    # A name without `-a37b` may be a mixture's: that the cards are is no distance.
    far = {one: said.away(size if said.active else Size(size.total)) for one, size in sizes.items() if size is not None}
    return tuple(sorted((one for one in cards if far[one] <= _ALIKE), key=far.__getitem__))


@cache
def _size_of(card: str, *, counted: bool = False) -> Size | None:
    """The size of a card, by its name or its count; `counted`: by its count where its name does not say what a token uses.

    None: a model of pictures, whose parts are sized each by itself.
    """
    from gpuplan.errors import GpuplanError
    from gpuplan.models.catalog import find
    from gpuplan.models.diffusion.glance import diffusion_path

    said = size_in(card)
    if (said is not None and not (counted and said.active is None)) or diffusion_path(card) is not None:
        return said
    try:
        count = find(card, cards_only=True).count()
    except GpuplanError:
        return said
    total, active = float(count.params_total.value), float(count.params_active.value)
    return Size(total / 1e9, active / 1e9 if active < _MIXED * total else None)


@cache
def _sizes() -> dict[str, Size]:
    """The sizes that the cards' own names say."""
    from gpuplan.models.catalog import paths

    return {path.stem: size for path in paths() if (size := size_in(path.stem)) is not None}


def _line(card: str) -> str:
    """The word that a card begins with, or two where the first is many makers'; empty where it begins with none."""
    found = _FRONT.match(card)
    word = found[0] if found else ""
    return "-".join(card.split("-")[:2]) if word in _OF_MANY else word


def _is_of_line(tail: str, words: set[str], line: str) -> bool:
    return line in words or ("-" in line and line in tail)
