"""Gated short convolutions: a projection to two gates and an input, a convolution over the last few tokens, a projection out."""

from __future__ import annotations

from gpuplan.formulas.memory import conv_state_bytes
from gpuplan.models.mixers import ShortConv
from gpuplan.term import Term, total
from gpuplan.workload.context import STATE_BYTES, Leaves
from gpuplan.workload.draft import Draft
from gpuplan.workload.kinds.base import Caching, MixerKind
from gpuplan.workload.kinds.state_space import ADAPTED
from gpuplan.workload.program import Role


class ShortConvKind(MixerKind[ShortConv]):
    """Two gates around a convolution of a few tokens, whose own arithmetic is little beside the projections."""

    def forward(self, draft: Draft, mixer: ShortConv) -> list[Term]:
        """Both projections; the gates and the convolution read and write the width elementwise."""
        hidden, tokens = draft.setting.hidden, draft.setting.work.tokens
        width = _width(draft.path, mixer, draft.leaves, draft.setting.split.tp)
        second = {"second_gate": width} if mixer.second_gate else {}
        columns = total(f"{draft.at}.in_width", {"gate": width, **second, "values": width})
        # Both gates, the input, and what the convolution gave are what the backward pass reads.
        kept = total(f"{draft.at}.kept_widths", {"in": columns, "convolved": width})
        start = draft.matrix("in", hidden, width, adapted_as=ADAPTED)
        draft.product(Role.STATE_IN, tokens, columns, hidden, makes=(draft.tensor("scanned", kept),), matrices=(start,))
        end = draft.matrix("out", width, hidden, adapted_as=ADAPTED)
        draft.product(Role.OUT, tokens, hidden, width, makes=(draft.tensor("out", hidden),), matrices=(end,))
        # The first gate reads two and writes one, the convolution reads and writes one, the second gate reads two and writes one.
        return [width] * (8 if mixer.second_gate else 5)

    def cache(self, caching: Caching, mixer: ShortConv) -> Term:
        """The last inputs of the convolution."""
        return conv_state_bytes.term(
            caching.at, layers=caching.layers, channels=_width(caching.path, mixer, caching.leaves, caching.tp),
            kernel=caching.leaves(f"{caching.path}.conv_kernel", mixer.conv_kernel), element_bytes=STATE_BYTES,
        )  # fmt: skip


def _width(path: str, mixer: ShortConv, leaf: Leaves, tp: Term) -> Term:
    """Channels on a rank."""
    return leaf.split(f"{path}.rank_width", leaf(f"{path}.width", mixer.width), tp)


KIND = ShortConvKind()
