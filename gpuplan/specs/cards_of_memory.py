"""Which card answers for a memory that a question says without a card? `rules/cards_of_memory.yaml` says so."""

from __future__ import annotations

from functools import cache
from typing import Annotated

from gpuplan.schema import Limits, Schema
from gpuplan.specs.base import Id, SpecFile, load_spec
from gpuplan.specs.catalog import shipped_folder


class CardOfMemory(Schema):
    """A size of memory and the card that people mean by it."""

    memory: str
    """The size as cards are sold with it, such as `24 GB`."""
    card: Id
    """An accelerator on record with so much."""
    source: str
    """What says that this is the card."""


class CardsOfMemory(SpecFile):
    """The table."""

    cards: Annotated[tuple[CardOfMemory, ...], Limits(1)]
    """One card for each size."""


@cache
def table() -> CardsOfMemory:
    """The table that is shipped.

    Raises:
        SpecError: it is not valid.
    """
    return load_spec(CardsOfMemory, shipped_folder() / "rules" / "cards_of_memory.yaml")


def card_of_memory(gigabytes: int) -> str:
    """The card with so much memory that answers where none is named; "" where the table has none of this size.

    Whether a model fits hangs on the memory alone, so that any card of the size answers for all of them.

    >>> card_of_memory(24), card_of_memory(23)
    ('rtx-4090', '')
    """
    return next((one.card for one in table().cards if one.memory == f"{gigabytes} GB"), "")
