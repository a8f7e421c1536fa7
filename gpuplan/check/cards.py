"""What does a model card say, and which rules is it held to?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from gpuplan.check.card_counts import counts
from gpuplan.check.card_shapes import shapes
from gpuplan.check.checked_files import Finding, LoadedCard, SpecLibrary
from gpuplan.check.families import families_of
from gpuplan.check.sources import reading
from gpuplan.errors import Problem, SpecError
from gpuplan.models.card import ModelCard, parse_card
from gpuplan.models.generic import GenericCard, parse_generic
from gpuplan.strict_yaml import parse_yaml, read_text

_MOST_TOKENS = 2**28
"""No published run takes more tokens in a step (DeepSeek-V3 has 2^26)."""
_KEPT = 0.02
"""Values kept for the backward pass, over multiplications of the forward pass: no network keeps as many."""


def load_lined_card(path: Path) -> LoadedCard:
    """The card that a file holds, with the lines of its keys.

    Raises:
        SpecError: everything that is wrong with the file, each problem with file:line, a code and a hint.
    """
    return as_card(path, read_text(path))


def as_card(path: Path, text: str) -> LoadedCard:
    """The same for a text that is at hand; errors as `load_lined_card`."""
    data, lines = parse_yaml(text, str(path))
    card = parse_generic(data, lines) if data.get("kind") == "generic" else parse_card(data, lines)
    if card.id != path.stem:
        hint = f"rename the file to `{card.id}.yaml`, or write `id: {path.stem}`"
        message = f"the id `{card.id}` is not the name of the file"
        raise SpecError(Problem("model.id-not-file-name", message, hint, lines.where(("id",))))
    return LoadedCard(path, card, lines)


def cards(one: LoadedCard, library: SpecLibrary) -> Iterator[Finding]:
    """Everything that is wrong with one card."""
    yield from reading(one, one.card.sources, library)
    if isinstance(one.card, GenericCard):
        yield from _samples(one, one.card)
        return
    yield from counts(one, one.card)
    of_family = list(families_of(one, one.card, library))
    yield from of_family
    told = {found.where for found in of_family}
    yield from (found for found in shapes(one, one.card) if found.where not in told)
    yield from _training(one, one.card)


def card_names(given: Iterable[LoadedCard]) -> Iterator[Finding]:
    """Ids and aliases that two cards of one folder claim."""
    claimed: dict[tuple[Path, str], LoadedCard] = {}
    for one in given:
        seen: set[str] = set()
        for at, name in ((("id",), one.card.id), *((("aliases",), alias) for alias in one.card.aliases)):
            plain = name.lower()
            first = claimed.setdefault((_root(one.path), plain), one)
            if first is not one:
                message = f"`{name}` is a name of `{one.card.id}` and of `{first.card.id}`"
                yield one.bad("model.alias-twice", at, message, f"take it out here or in {first.path}")
            elif plain in seen:
                yield one.bad("model.alias-twice", at, f"`{name}` stands twice among the names", "keep one of them")
            seen.add(plain)


def _root(path: Path) -> Path:
    """The folder in which names must be unique: that of generic cards and of others together."""
    folder = path.absolute().parent
    return folder.parent if folder.name in ("cards", "generic_cards") else folder


def _training(one: LoadedCard, card: ModelCard) -> Iterator[Finding]:
    """The published training: a sequence that the model can have been trained on, and a batch that somebody has."""
    given, most = card.pretraining, card.architecture.max_context
    if given is None:
        return
    if most is not None and given.seq_len > most:
        message = f"trained on sequences of {given.seq_len:,}, beyond the context of {most:,}"
        yield one.bad("model.pretraining", ("pretraining", "seq_len"), message, "one of the two is wrong")
    tokens = given.seq_len * given.global_batch
    text = card.architecture.vocab > 1_001
    if tokens > _MOST_TOKENS or (text and tokens < 2**16):
        message = f"{given.global_batch:,} sequences of {given.seq_len:,} are {tokens:,} tokens a step"
        hint = "`global_batch` counts sequences: were tokens written, or the batch of one accelerator?"
        yield one.bad("model.pretraining", ("pretraining", "global_batch"), message, hint)
    if text and given.seq_len & (given.seq_len - 1) and given.seq_len != card.architecture.positions:
        message = f"trained on sequences of {given.seq_len:,}, which is no power of two"
        yield one.bad("model.pretraining", ("pretraining", "seq_len"), message, "is a digit wrong?")


def _samples(one: LoadedCard, card: GenericCard) -> Iterator[Finding]:
    """A card of samples: what a sample takes is in proportion, and its figures are those of their names."""
    named = re.search(r"(?:^|-)(\d+(?:\.\d+)?)([bm])(?:-|$)", card.id)
    if named is not None:
        size = float(named[1]) * (1e9 if named[2] == "b" else 1e6)
        if not 0.7 <= card.params / size <= 1.4:
            message = f"{card.params:,} parameters, where the name says {named[1]}{named[2].upper()}"
            yield one.bad("model.size-in-name", ("params",), message, "correct the one that is wrong")
    if card.kept_values > card.forward_flop * _KEPT:
        message = f"{card.kept_values:,} values are kept of {card.forward_flop:,} FLOP"
        yield one.bad("model.shape", ("kept_values",), message, "is it bytes, or of a batch?")
