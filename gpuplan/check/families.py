"""Which contexts, windows and vocabularies do the models of a family have? The table that cards are held to."""

from __future__ import annotations

from collections.abc import Iterator

from gpuplan.check.checked_files import Finding, LoadedCard, SpecLibrary
from gpuplan.check.family_table import ModelFamily
from gpuplan.models.card import ModelCard
from gpuplan.models.mixers import Attention


def families_of(one: LoadedCard, card: ModelCard, library: SpecLibrary) -> Iterator[Finding]:
    """A card against what is known of its family."""
    family = library.families.of(card.id)
    if family is None:
        return
    arch = card.architecture
    yield from _context(one, card, family)
    if family.vocabs and arch.vocab not in family.vocabs:
        known = " or ".join(f"{vocab:,}" for vocab in family.vocabs)
        message = f"a vocabulary of {arch.vocab:,}, where {family.name} models have {known}"
        yield one.bad("model.family", ("architecture", "vocab"), message, _HINT)
    if family.dtypes and card.dtype is not None and card.dtype not in family.dtypes:
        message = f"stored in {card.dtype}, where {family.name} models are stored in {' or '.join(family.dtypes)}"
        yield one.bad("model.family", ("dtype",), message, _HINT)
    for place, stack in enumerate(arch.stacks):
        for name, block in stack.blocks.items():
            mixer = block.mixer
            reach = (mixer.window or mixer.chunk) if isinstance(mixer, Attention) else None
            if isinstance(mixer, Attention) and reach is not None and reach not in family.windows:
                known = " or ".join(f"{window:,}" for window in family.windows) or "none"
                key = "window" if mixer.window else "chunk"
                at = ("architecture", "stacks", place, "blocks", name, "mixer", key)
                message = f"a {key} of {reach:,}, where {family.name} models have {known}"
                yield one.bad("model.family", at, message, _HINT)


_HINT = "a model that only begins like it has a name of its own; `--ignore model.family` where it really differs"


def _context(one: LoadedCard, card: ModelCard, family: ModelFamily) -> Iterator[Finding]:
    given = card.architecture.max_context
    known = family.contexts_of(card.id)
    if given is None or not known or given in known:
        return
    at = ("architecture", "max_context")
    said = " or ".join(f"{context:,}" for context in known)
    message = f"a context of {given:,}, where {family.name} models have {said}"
    # A continued training may have lengthened it; what shortens it is a copy of a configuration that was made for a chip.
    hint = "look at `max_position_embeddings` of the maker's own configuration" if given < min(known) else _HINT
    yield one.bad("model.context", at, message, hint)
