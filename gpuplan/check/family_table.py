"""What do the models of one family have in common? The rules file for model cards."""

from __future__ import annotations

from functools import cache
from typing import Annotated

from gpuplan.models.card import Dtype
from gpuplan.schema import Limits, PositiveInt, Schema
from gpuplan.specs.base import SpecFile, load_spec
from gpuplan.specs.catalog import shipped_folder


class KnownContext(Schema):
    """A context and the models that have it."""

    context: PositiveInt
    """Positions."""
    models: tuple[str, ...] = ()
    """The rest of their ids behind `begins`; nothing: all others."""


class ModelFamily(Schema):
    """Models that share a tokenizer and a recipe."""

    name: str
    """What people call it."""
    begins: Annotated[str, Limits(2)]
    """How the ids of its cards begin; the longest beginning counts."""
    contexts: tuple[KnownContext, ...] = ()
    """Their contexts."""
    vocabs: tuple[PositiveInt, ...] = ()
    """Rows of their embeddings."""
    windows: tuple[PositiveInt, ...] = ()
    """Windows and chunks of their attention."""
    dtypes: tuple[Dtype, ...] = ()
    """What their weights are stored in."""

    def contexts_of(self, ident: str) -> tuple[int, ...]:
        """The contexts that a card of the family may have."""
        rest = ident.removeprefix(self.begins)
        named = tuple(known.context for known in self.contexts if rest in known.models)
        return named or tuple(known.context for known in self.contexts)


class ModelFamilies(SpecFile):
    """What is known of families of models."""

    families: tuple[ModelFamily, ...]
    """The families."""

    def of(self, ident: str) -> ModelFamily | None:
        """The family of a card by its id, or None."""
        found = [family for family in self.families if ident.startswith(family.begins)]
        return max(found, key=lambda family: len(family.begins), default=None)


@cache
def model_families() -> ModelFamilies:
    """The table that is shipped."""
    return load_spec(ModelFamilies, shipped_folder() / "rules" / "models.yaml")
