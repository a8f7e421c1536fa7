"""Which beginnings do the prompts of a load have in common, and what do sequences take of the caches besides?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuplan.formulas import shared_prefix as form
from gpuplan.formulas.basic import difference
from gpuplan.record import Record
from gpuplan.term import Source, Term

if TYPE_CHECKING:
    from gpuplan.estimate.serving import ServingModel

ONE_FOR_ALL = Source(
    "assumed", "what prompts find in the cache is one beginning that all of them have, unless --cached-prefixes says more"
)
OWN = 1e9
"""Beginnings of which there are more than sequences: each has its own."""


class SharedPrefix(Record, kw_only=True):
    """The beginnings that prompts share: their tokens, and how many different ones there are."""

    tokens: Term
    prefixes: Term

    def each(self, model: ServingModel, name: str, whole: Term, tokens: Term, pool: Term) -> Term:
        """Bytes of a pool that a sequence of so many tokens takes, which would take the `whole` alone."""
        return form.shared_sequence_bytes.term(f"{name}.shared", **self._held(model, name, whole, tokens, pool))

    def used(self, model: ServingModel, name: str, whole: Term, tokens: Term, pool: Term, running: Term) -> Term:
        """The part of a pool that so many sequences hold, with the beginnings that they share."""
        return form.shared_cache_used.term(name, running=running, **self._held(model, name, whole, tokens, pool))

    def _held(self, model: ServingModel, name: str, whole: Term, tokens: Term, pool: Term) -> dict[str, Term]:
        """A sequence, its own and its shared part: those of what layers keep of so many tokens, windows and states as they are."""

        def held(part: str, of: Term) -> Term:
            return model.cache_held(f"{name}.{part}", of, capped=model.profile.windowed_kv)

        behind = difference.term(f"{name}.own_tokens", whole=tokens, part=self.tokens)
        return {
            "whole": whole, "full": held("shared_of_all", tokens), "behind": held("shared_own", behind),
            "prefix": held("shared_prefix", self.tokens), "prefixes": self.prefixes, "pool": pool,
        }  # fmt: skip


def shared_prefix(model: ServingModel) -> SharedPrefix | None:
    """The beginnings that the prompts of a plan's load share; None: none is said to be in the cache.

    A cache that is set by its tokens is counted by sequences that share nothing, as one whose encoder reads the prompt.
    """
    load = model.plan.load
    if load is None or not load.cached_share or model.plan.settings.cache_tokens is not None or model.source() is not None:
        return None
    subject = model.subject
    tokens = form.shared_prefix_tokens.term(
        "prompt.shared", prompt=model.prompt(), cached=subject.plan("cached_share", load.cached_share), page=model.serve.page
    )  # fmt: skip
    if load.cached_prefixes is not None:
        return SharedPrefix(tokens=tokens, prefixes=subject.plan("cached_prefixes", load.cached_prefixes))
    return SharedPrefix(tokens=tokens, prefixes=Term("plan.cached_prefixes", 1.0, "1", ONE_FOR_ALL, spread=(1.0, OWN)))
