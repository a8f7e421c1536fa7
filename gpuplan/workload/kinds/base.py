"""What does a kind of layer have to say of itself, so that everything else can be folded from it?"""

from __future__ import annotations

from typing import Generic, TypeVar

from gpuplan.record import Record
from gpuplan.specs.engine_memory import WindowedKv
from gpuplan.term import Term
from gpuplan.workload.context import Leaves, Split
from gpuplan.workload.draft import Draft

M = TypeVar("M")


class Caching(Record, kw_only=True):
    """What one sequence keeps in a kind of layer between steps: where its leaves and terms are named, and what sizes it."""

    at: str
    path: str
    leaves: Leaves
    layers: Term
    tp: Term
    tokens: Term
    """Tokens of a sequence that are held, in whole pages."""
    element: Term
    """Bytes of a cached key or value."""
    capped: WindowedKv
    """Whether layers with a window, and those that see a chunk of the tokens, hold no more than that."""


class MixerKind(Generic[M]):
    """A kind of token mixer: what it does in a pass, and what it keeps between steps."""

    def forward(self, draft: Draft, mixer: M) -> list[Term]:
        """Write its operations down; returns the widths that elementwise kernels read or write."""
        raise NotImplementedError

    def cache(self, caching: Caching, mixer: M) -> Term:
        """Bytes that all its layers keep of one sequence on one rank."""
        raise NotImplementedError

    def copied_params(self, path: str, mixer: M, hidden: Term, leaves: Leaves, split: Split) -> Term | None:
        """Parameters of one layer on one rank beyond an even share over tensor parallel ranks; None: none."""
        return None
