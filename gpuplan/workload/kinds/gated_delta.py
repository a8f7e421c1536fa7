"""Gated delta networks: projections, a short convolution, and a matrix a head that each token decays, corrects and reads.

Prompts and training go through it in chunks (Gated Delta Networks, arXiv 2412.06464, section 3.3, after arXiv 2406.06484): inside
a chunk of C tokens, products of keys with keys, queries with keys, and three more over the chunk; between chunks, three products
with the memory. A decoding step reads and writes the memory of every sequence.
"""

from __future__ import annotations

from gpuplan.formulas.layers import layer_stream_bytes
from gpuplan.formulas.memory import conv_state_bytes, ssm_state_bytes
from gpuplan.models.mixers import GatedDelta
from gpuplan.record import Record
from gpuplan.term import Source, Term, total
from gpuplan.work import Matmul
from gpuplan.workload.context import ONE, STATE_BYTES, Group, Leaves
from gpuplan.workload.counts import count
from gpuplan.workload.draft import Draft
from gpuplan.workload.kinds.base import Caching, MixerKind
from gpuplan.workload.kinds.state_space import ADAPTED
from gpuplan.workload.program import Role

_CHUNKED = Source(
    "docs", "ttnn.transformer.chunk_gated_delta_rule",
    "https://docs.tenstorrent.com/tt-metal/latest/ttnn/ttnn/api/ttnn.transformer.chunk_gated_delta_rule.html", "chunk_size",
    note="after the chunked rule of flash-linear-attention",
)  # fmt: skip
CHUNK = Term("work.delta_chunk", 64.0, "1", _CHUNKED)
_EQUATIONS = Source(
    "paper", "Gated Delta Networks", "https://arxiv.org/abs/2412.06464", "3.3",
    note="the products counted in its equations by chunks; it prints no count of FLOP",
)  # fmt: skip
PRODUCTS = {
    "keys": Term("work.delta_products_of_keys", 3.0, "1", _EQUATIONS),  # keys x keys, queries x keys, and the keys' correction
    "values": Term("work.delta_products_of_values", 2.0, "1", _EQUATIONS),  # the values' correction, and the output
    "memory": Term("work.delta_products_of_memory", 3.0, "1", _EQUATIONS),  # read by keys, read by queries, written
}


class Widths(Record, kw_only=True):
    """Heads and widths of a gated delta network on one rank."""

    heads: Term
    key_dim: Term
    value_dim: Term
    values: Term
    keys: Term

    @classmethod
    def of(cls, path: str, mixer: GatedDelta, leaf: Leaves, tp: Term) -> Widths:
        """The widths of a mixer, divided over tensor parallel ranks by heads."""
        heads = leaf.split(f"{path}.rank_heads", leaf(f"{path}.value_heads", mixer.value_heads), tp)
        key_heads = leaf.split(f"{path}.rank_key_heads", leaf(f"{path}.key_heads", mixer.key_heads), tp)
        key_dim, value_dim = leaf(f"{path}.key_dim", mixer.key_dim), leaf(f"{path}.value_dim", mixer.value_dim)
        return cls(
            heads=heads, key_dim=key_dim, value_dim=value_dim, values=leaf.times(f"{path}.rank_values", heads, value_dim),
            keys=leaf.times(f"{path}.rank_keys", key_heads, key_dim),
        )  # fmt: skip


class GatedDeltaKind(MixerKind[GatedDelta]):
    """The gated delta rule."""

    def forward(self, draft: Draft, mixer: GatedDelta) -> list[Term]:
        """One projection to queries, keys, values, gate, decay and strength; the rule; the output projection."""
        leaf, path, hidden, work = draft.leaves, draft.path, draft.setting.hidden, draft.setting.work
        wide = Widths.of(path, mixer, leaf, draft.setting.split.tp)
        kept = leaf.times(f"{draft.at}.value_widths", count("kept_inner_widths"), wide.values)
        shared = leaf.times(f"{draft.at}.key_widths", count("kept_group_widths"), wide.keys)
        made = (draft.tensor("scanned", total(f"{draft.at}.kept_widths", {"values": kept, "keys": shared})),)
        gate_rank, decay_rank = leaf(f"{path}.gate_rank", mixer.gate_rank), leaf(f"{path}.decay_rank", mixer.decay_rank)
        columns = {
            "queries": wide.keys, "keys": wide.keys, "values": wide.values, "gate": gate_rank if mixer.gate_rank else wide.values,
            "decay": decay_rank if mixer.decay_rank else wide.heads, "strength": wide.heads,
        }  # fmt: skip
        start = draft.matrix("in", hidden, wide.values, adapted_as=ADAPTED)
        apart = work.own_kernels.states_apart
        # Checkpoints store queries, keys and values as one matrix, the gate as another, decay and strength as small ones.
        own = {"gate": columns.pop("gate")} if apart and not mixer.gate_rank else {}
        rates = {name: columns.pop(name) for name in ("decay", "strength")} if apart and not mixer.decay_rank else {}
        width = total(f"{draft.at}.in_width", columns)
        draft.product(Role.STATE_IN, work.tokens, width, hidden, makes=made, matrices=(start,))
        if mixer.decay_rank:
            draft.product(Role.DECAYS, work.tokens, wide.keys, decay_rank)
        elif rates:
            draft.product(Role.DECAYS, work.tokens, total(f"{draft.at}.rates_width", rates), hidden)
        if mixer.gate_rank:
            draft.product(Role.OUTPUT_GATE, work.tokens, wide.values, gate_rank)
        elif own:
            draft.product(Role.OUTPUT_GATE, work.tokens, own["gate"], hidden)
        for group in work.groups:
            if group.decodes:
                self.step(draft, group, wide)
            else:
                self.chunks(draft, group, wide)
        end = draft.matrix("out", wide.values, hidden, adapted_as=ADAPTED)
        draft.product(Role.OUT, work.tokens, hidden, wide.values, makes=(draft.tensor("out", hidden),), matrices=(end,))
        return [wide.values, wide.values, wide.values, wide.values, wide.keys, wide.keys]

    def step(self, draft: Draft, group: Group, wide: Widths) -> None:
        """A decoding step reads and writes the memory of every sequence; its arithmetic is little beside that."""
        at = draft.group_name(group, Role.STATE)
        size = layer_stream_bytes.term(
            f"{at}_traffic", tokens=draft.tokens_of(group),
            width=draft.leaves.times(f"{draft.path}.memory", wide.values, wide.key_dim), passes=count("state_passes"),
            element_bytes=STATE_BYTES, ways=ONE,
        )  # fmt: skip
        draft.stream(Role.STATE, size, ONE)

    def chunks(self, draft: Draft, group: Group, wide: Widths) -> None:
        """Products inside chunks and with the memory between them, a batch of them over chunks and heads."""
        leaf, at = draft.leaves, draft.group_name(group, Role.WITHIN_CHUNKS)
        batch = leaf.times(f"{at}.batch", leaf.split(f"{at}.chunks", draft.tokens_of(group), CHUNK), wide.heads)
        parts = {
            "keys": leaf.times(f"{draft.path}.width_of_keys", PRODUCTS["keys"], wide.key_dim),
            "values": leaf.times(f"{draft.path}.width_of_values", PRODUCTS["values"], wide.value_dim),
        }
        inside = total(f"{at}.width", parts)
        between = leaf.times(f"{draft.path}.width_of_memory", PRODUCTS["memory"], wide.value_dim)
        types = draft.setting.types
        for role, n, k in ((Role.WITHIN_CHUNKS, inside, CHUNK), (Role.OVER_CHUNKS, between, wide.key_dim)):
            item = Matmul(
                name=draft.group_name(group, role), m=CHUNK, n=n, k=k, batch=batch, dtype=types.attention,
                left_bytes=types.activation, right_bytes=types.activation, out_bytes=types.activation,
            )  # fmt: skip
            draft.put(role, item)

    def cache(self, caching: Caching, mixer: GatedDelta) -> Term:
        """The memory of every head, and the last inputs of the convolution."""
        leaf, path, at = caching.leaves, caching.path, caching.at
        wide = Widths.of(path, mixer, leaf, caching.tp)
        channels = total(f"{path}.conv_channels", {"queries": wide.keys, "keys": wide.keys, "values": wide.values})
        states = {
            "state": ssm_state_bytes.term(
                f"{at}.state", layers=caching.layers, heads=wide.heads, head_dim=wide.value_dim, state_size=wide.key_dim,
                element_bytes=STATE_BYTES,
            ),
            "conv": conv_state_bytes.term(
                f"{at}.conv", layers=caching.layers, channels=channels, kernel=leaf(f"{path}.conv_kernel", mixer.conv_kernel),
                element_bytes=STATE_BYTES,
            ),
        }  # fmt: skip
        return total(at, states)


KIND = GatedDeltaKind()
