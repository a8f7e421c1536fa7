"""Dense feed-forward layers, alone or beside experts: an up projection, or two with a gate, and one down."""

from __future__ import annotations

from gpuplan.models.architecture import Mlp
from gpuplan.term import Term
from gpuplan.workload.draft import Draft
from gpuplan.workload.program import Role

ADAPTED = ("mlp", "all")
"""The choices of `--lora-targets` that adapt feed-forward layers."""


def feed_forward(draft: Draft, width: int, *, gated: bool) -> list[Term]:
    """Write a dense layer of an inner width down; returns the widths that elementwise kernels read or write."""
    leaf, path, hidden, tokens = draft.leaves, draft.path, draft.setting.hidden, draft.setting.work.tokens
    inner = leaf.split(f"{path}.rank_width", leaf(f"{path}.width", width), draft.setting.split.tp)
    up = leaf.times(f"{path}.up_width", leaf(f"{path}.up_matrices", 2 if gated else 1), inner)
    made = (draft.tensor("up", inner, alternate=True), *((draft.tensor("gate", inner),) if gated else ()))
    ups = tuple(draft.matrix(one, hidden, inner, adapted_as=ADAPTED) for one in (("up", "gate") if gated else ("up",)))
    draft.product(Role.UP, tokens, up, hidden, makes=made, matrices=ups)
    draft.product(
        Role.DOWN, tokens, hidden, inner, reads=(draft.tensor("inner", inner, multiplied=True),),
        makes=(draft.tensor("down", hidden, alternate=gated),), needed_again=False,
        matrices=(draft.matrix("down", inner, hidden, adapted_as=ADAPTED),),
    )  # fmt: skip
    return [up, inner]


def dense(draft: Draft, mlp: Mlp) -> list[Term]:
    """A dense feed-forward layer with the sum over tensor parallel ranks behind it."""
    widths = feed_forward(draft, mlp.width, gated=mlp.gated)
    draft.summed()
    return widths
