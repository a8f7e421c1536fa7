"""What stands behind a name that has no card: a model built as one that has a card, or one that gpuplan can only place near others?

`kinds_of_names.yaml` has both. The first are answered with the card, and the answer says so; of the second an error says what is
nearest, and why gpuplan does not know them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from math import log
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from gpuplan.models.card import CardSource
from gpuplan.models.kin import kin_of, of_size
from gpuplan.models.name_size import size_in
from gpuplan.schema import Limits, Schema, read
from gpuplan.strict_yaml import load_yaml

TABLE = Path(__file__).parent / "kinds_of_names.yaml"
_OTHER = re.compile(
    r"(?<![a-z])(?:vl|vision|omni|audio|ultravox(?!.*-text)|eagle\d?|draft|dflash\d?|dspark|speculator|lora|adapter|reward|reap)(?![a-z])",
    re.IGNORECASE,
)
"""Words of names of what is more or less than the model that the rest of the name says."""
_ROUNDED = log(1.3)
"""How far sizes in names may be from each other where both mean the same model (`phi-3-3.8b`, `starcoder-16b`)."""


class Like(Schema):
    """Models that are built as one that has a card: tunings and copies of it, with the same matrices."""

    card: str
    why: str
    """What makes them alike, in a few words."""
    source: str
    reads: bool = False
    """Whether they only read (embed, rank), whatever the card does: their head, if they store one, is not used."""
    names: Annotated[tuple[str, ...], Limits(1)]
    """In lower case; `*` stands for anything. Without an owner a name means every owner's; `model:tag` is one of Ollama's."""


class Near(Schema):
    """Models that no card describes."""

    nearest: tuple[str, ...] = ()
    """Cards that come nearest to them, the nearest first; none: nothing does."""
    why: str
    """Why gpuplan does not know them."""
    source: str
    names: Annotated[tuple[str, ...], Limits(1)]


class KindsOfNames(Schema):
    """The table; the first entry that fits counts."""

    format: int
    sources: Annotated[dict[str, CardSource], Limits(1)]
    like: tuple[Like, ...]
    near: tuple[Near, ...] = ()
    last: tuple[Near, ...] = ()
    """Models of which nothing but their owner, or a word of what they do, is known: asked where no other entry fits."""
    of_size: tuple[str, ...] = ()
    """Cards of plain models, their sizes in their names: the nearest to a name that says its size and nothing else."""


@cache
def table() -> KindsOfNames:
    """The table that is shipped.

    Raises:
        SpecError: it is not valid.
    """
    data, lines = load_yaml(TABLE)
    return read(KindsOfNames, data, lines, "model", value_code="model.bad-value")


def built_like(name: str) -> Like | None:
    """The entry of the models that a name's is built as; None: no entry says so.

    A name with a word such as `vl` or `draft` must stand there whole: a pattern does not tell what such a word adds or takes.

    >>> built_like("agentica-org/DeepCoder-14B-Preview").card
    'qwen2.5-14b'
    """
    other, full = _OTHER.search(name) is not None, _spelt(name)[0]
    for one in _fitting(name, _patterns("like")):
        like = table().like[one]
        if full in like.names if other or of_another_size(name, like.card) else _fits(name, like.names):
            return like
    return None


def of_another_size(name: str, card: str) -> bool:
    """Whether a name says another size than that of a card does, which a pattern of names must not overrule."""
    said, own = size_in(name), size_in(card)
    return said is not None and own is not None and abs(log(said.total / own.total)) > _ROUNDED


def nearest(name: str) -> str:
    """A hint that says what comes nearest to a model that gpuplan does not know, and why it does not; empty where no entry fits.

    >>> nearest("gpt-4o").startswith("the nearest on record is `")
    True
    """
    return _told(name, "near")


def last_resort(name: str) -> str:
    """The same for a name of which nothing is known but its owner, or a word that says what the model does.

    >>> last_resort("cross-encoder/something-new").startswith("the nearest on record is `bert-base`")
    True
    """
    return _told(name, "last")


def _told(name: str, kind: Literal["near", "last"]) -> str:
    """The hint of the first entry of a kind that fits a name; empty where none does."""
    entries: tuple[Near, ...] = getattr(table(), kind)
    found = next((entries[one] for one in _fitting(name, _patterns(kind)) if _fits(name, entries[one].names)), None)
    if found is None:
        return ""
    if not found.nearest:
        drafted = kin_of(name)[:1]
        return (
            f"the nearest on record is `{drafted[0]}`, by the line and the size in its name: {found.why}" if drafted else found.why
        )
    # A pattern that says a size is written for it: its one card stands, whatever a token uses of a mixture.
    written = len(found.nearest) == 1 and all(size_in(one.rstrip("*")) for one in found.names)
    of_its_own = found.nearest if written else of_size(name, found.nearest)
    like = () if of_its_own else kin_of(name)[:1] or tuple(filter(None, (_plain_of_size(name),)))
    cards = " or ".join(f"`{one}`" for one in of_its_own or like)
    if not like:
        return f"the nearest on record is {cards}: {found.why}"
    why = found.why.partition(";")[0]  # What follows is of the cards that the entry names.
    return f"the nearest on record is {cards}, by the size in its name: {why}"


def is_apart(name: str) -> bool:
    """Whether an entry of `near` has the very name, so that it means another model than one with other words of tuning does.

    >>> is_apart("openbmb/MiniCPM-V"), is_apart("minicpm-v")
    (True, False)
    """
    return _spelt(name)[0] in _patterns("near").plain


def of_its_size(name: str) -> str:
    """A hint with the plain model of the size that a name says; empty where it says none.

    >>> of_its_size("someone/Something-27B-Chat").startswith("by the size in its name the nearest on record is `qwen3.5-27b`")
    True
    >>> of_its_size("someone/Something")
    ''
    """
    like = kin_of(name)[:1]
    card = like[0] if like else _plain_of_size(name)
    said = "the line and the size" if like else "the size"
    return f"by {said} in its name the nearest on record is `{card}`: what it is built like is not known" if card else ""


def _plain_of_size(name: str) -> str:
    """The plain model of the size that a name says; empty where it says none."""
    said = size_in(name)
    if said is None:
        return ""
    sizes = {card: one for card in table().of_size if (one := size_in(card)) is not None}
    alike = {card: one for card, one in sizes.items() if (one.active is None) == (said.active is None)}
    return min(alike, key=lambda card: said.away(alike[card]))


_LETTERS = 2


class _Patterns(NamedTuple):
    """The names of all entries of a kind by the entry's number: those that stand as they are, and those with `*` in them."""

    plain: Mapping[str, tuple[int, ...]]
    """All of them as they stand: a name may be written as a pattern is."""
    open_ended: Mapping[str, tuple[tuple[int, str], ...]]
    """The others' numbers and what they begin with, by the first letters of that."""


@cache
def _patterns(kind: Literal["like", "near", "last"]) -> _Patterns:
    plain: dict[str, tuple[int, ...]] = {}
    open_ended: dict[str, tuple[tuple[int, str], ...]] = {}
    for number, entry in enumerate(getattr(table(), kind)):
        for one in entry.names:
            plain[one] = (*plain.get(one, ()), number)
        for begins, _ in _sorted_out(entry.names)[1]:
            open_ended[begins[:_LETTERS]] = (*open_ended.get(begins[:_LETTERS], ()), (number, begins))
    return _Patterns(plain, open_ended)


def _fitting(name: str, known: _Patterns) -> list[int]:
    """The numbers of the entries that a name may fit, in order: the others cannot be meant."""
    full, tail = _spelt(name)
    found = {*known.plain.get(full, ()), *known.plain.get(tail, ())}
    for letters in {said[:length] for said in (full, tail) for length in range(_LETTERS + 1)}:
        for number, begins in known.open_ended.get(letters, ()):
            if full.startswith(begins) or tail.startswith(begins):
                found.add(number)
    return sorted(found)


def _fits(name: str, patterns: tuple[str, ...]) -> bool:
    """Whether a pattern means the name."""
    full, tail = _spelt(name)
    plain, open_ended = _sorted_out(patterns)
    if tail in plain or ("/" in full and full in plain):
        return True
    for begins, one in open_ended:
        said = full if "/" in one else tail
        if said.startswith(begins) and fnmatchcase(said, one):
            return True
    return False


@lru_cache(64)
def _spelt(name: str) -> tuple[str, str]:
    """A name as patterns spell it, and without its owner: it is held against some hundreds of entries."""
    full = "-".join(name.strip().lower().replace("_", "-").split())
    return full, full.rpartition("/")[2].removesuffix(":latest")


@lru_cache(1024)
def _sorted_out(patterns: tuple[str, ...]) -> tuple[frozenset[str], tuple[tuple[str, str], ...]]:
    """Patterns that are names as they stand, and those in which a sign stands for anything, each behind what it begins with."""
    open_ended = tuple((re.split(r"[*?\[]", one, maxsplit=1)[0], one) for one in patterns if set(one) & set("*?["))
    return frozenset(patterns).difference(one for _, one in open_ended), open_ended
