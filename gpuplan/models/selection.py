"""Which of all models does a list ask for: by kind, by licence, by year?"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeVar

from gpuplan.models.card import ModelCard
from gpuplan.models.generic import GenericCard
from gpuplan.models.mixers import Attention, Compressed, Mla, SparseMla

if TYPE_CHECKING:
    from gpuplan.models.diffusion.card import DiffusionCard

Card = TypeVar("Card", bound="ModelCard | GenericCard | DiffusionCard")
KINDS = {
    "dense": "every token passes all of it",
    "mixture": "a token passes some of its experts",
    "recurrent": "some of its layers keep a state instead of a cache",
    "encoder": "it reads and does not write: embedders, rerankers, image classifiers",
    "encoder-decoder": "it reads with one stack and writes with another",
    "vision": "it sees images",
    "speech": "it hears",
    "diffusion": "it makes pictures or clips",
    "samples": "given by what one sample takes",
}
"""What `--kind` asks for."""


def kinds_of(card: ModelCard | GenericCard | DiffusionCard) -> frozenset[str]:
    """The words of `KINDS` that are true of a model.

    >>> from gpuplan.models.catalog import find
    >>> sorted(kinds_of(find("mixtral-8x7b"))), sorted(kinds_of(find("whisper-small")))
    (['mixture'], ['dense', 'encoder-decoder', 'speech'])
    """
    if isinstance(card, GenericCard):
        return frozenset({"samples"})
    if not isinstance(card, ModelCard):
        return frozenset({"diffusion"})
    arch = card.architecture
    stacks = {stack.kind for stack in arch.stacks}
    plain = all(isinstance(mixer, (Attention, Mla, SparseMla, Compressed)) for mixer in arch.mixers)
    said = {
        "mixture": bool(arch.moes), "dense": not arch.moes, "recurrent": not plain, "encoder": stacks == {"encoder"},
        "encoder-decoder": len(stacks) > 1, "speech": arch.audio is not None or "subsampling" in arch.extra_params,
        "vision": arch.vision is not None or any("vision" in part or "patch" in part for part in arch.extra_params),
    }  # fmt: skip
    return frozenset(word for word, true in said.items() if true)


def license_of(card: ModelCard | GenericCard | DiffusionCard) -> str:
    """The licence of a model's weights, as the Hugging Face hub calls it; empty where none is on record."""
    if isinstance(card, ModelCard):
        return "" if card.license is None else card.license.name
    return "" if isinstance(card, GenericCard) else card.licence or ""


def released_of(card: ModelCard | GenericCard | DiffusionCard) -> str:
    """The day on which a model's weights came out, `YYYY-MM-DD`; empty where none is on record."""
    return card.released.day if isinstance(card, ModelCard) and card.released is not None else ""


def selected(cards: Iterable[Card], kinds: Iterable[str], license_: str | None, years: tuple[int, int] | None = None) -> list[Card]:
    """The models that are of all kinds, under a licence, and came out in the first to the last of two years.

    A licence is asked for by its beginning (`llama`, `apache`); models of which no licence, or no day, is on record are left out.
    """
    asked = frozenset(kinds)
    found = [card for card in cards if asked <= kinds_of(card)]
    found = [card for card in found if license_ is None or license_of(card).lower().startswith(license_.lower())]
    return [card for card in found if years is None or years[0] <= int(released_of(card)[:4] or 0) <= years[1]]
