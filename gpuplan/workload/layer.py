"""What one layer's forward pass does on one rank: matmuls, attention, streams and collectives, block by block."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpuplan.formulas.basic import repeated_bytes
from gpuplan.formulas.inference import experts_touched
from gpuplan.formulas.layers import (
    expert_rows,
    gathered_projection_bytes,
    layer_stream_bytes,
    linear_state_flop_rows,
    rank_experts,
    summing_ranks,
)
from gpuplan.formulas.memory import tensor_bytes
from gpuplan.models.architecture import Attention, Block, Mla, Mlp, Moe, StateSpace
from gpuplan.num import all_true
from gpuplan.record import Record
from gpuplan.term import Term, total
from gpuplan.work import Attention as AttentionWork
from gpuplan.work import Collective, CollectiveKind, Matmul, Stream
from gpuplan.workload.context import ONE, STATE_BYTES, Leaves, Pass, Split, Types
from gpuplan.workload.counts import count


class Dispatch(Record, kw_only=True):
    """How tokens reach their experts: bytes of an element there and back, and whether copies for one node travel once."""

    there: Term
    back: Term
    deduplicated: bool = False


@dataclass(slots=True)
class LayerWork:
    """The forward work of one layer on one rank."""

    matmuls: list[Matmul] = field(default_factory=list)
    attentions: list[AttentionWork] = field(default_factory=list)
    streams: list[Stream] = field(default_factory=list)
    tensor_collectives: list[Collective] = field(default_factory=list)
    expert_collectives: list[Collective] = field(default_factory=list)


class LayerMaker(Record, kw_only=True):
    """Makes the work of blocks for one pass; `at` prefixes every name."""

    leaves: Leaves
    split: Split
    types: Types
    work: Pass
    dispatch: Dispatch | None = None
    """None: every copy is sent, in the type of activations."""

    def layer(self, at: str, key: str, block: Block) -> LayerWork:
        """The forward work of one layer of a kind of block; `key` names the block's leaves (`<block>` or `<stack>.<block>`)."""
        made = LayerWork()
        inner: list[Term] = []
        for name, mixer in (("mixer", block.mixer), ("mixer2", block.mixer2)):
            if isinstance(mixer, Attention):
                inner += self.attention(made, f"{at}.{name}", f"{key}.{name}", mixer)
            elif isinstance(mixer, Mla):
                inner += self.mla(made, f"{at}.{name}", f"{key}.{name}", mixer)
            elif isinstance(mixer, StateSpace):
                inner += self.state_space(made, f"{at}.{name}", f"{key}.{name}", mixer)
            if mixer is not None:
                self.reduce(made, f"{at}.{name}")
        if block.cross is not None:
            inner += self.attention(made, f"{at}.cross", f"{key}.cross", block.cross)
            self.reduce(made, f"{at}.cross")
        if isinstance(block.mlp, Mlp):
            inner += self.dense(made, f"{at}.mlp", f"{key}.mlp", block.mlp.width, gated=block.mlp.gated)
            self.reduce(made, f"{at}.mlp")
        elif isinstance(block.mlp, Moe):
            inner += self.experts(made, f"{at}.mlp", key, block.mlp)
        self.stream(made, at, inner, rms=block.norm == "rms")
        return made

    def matmul(self, name: str, m: Term, n: Term, k: Term, batch: Term = ONE, *, grouped: bool = False) -> Matmul:
        """A product of activations [m, k] and weights [k, n]; `grouped`: of `batch` experts."""
        types = self.types
        return Matmul(
            name=name, m=m, n=n, k=k, batch=batch, dtype=types.matmul,
            left_bytes=types.operand, right_bytes=types.weight, out_bytes=types.activation, grouped=grouped,
            blocked=types.blocked,
        )  # fmt: skip

    def attention(self, made: LayerWork, at: str, key: str, a: Attention) -> list[Term]:
        """Projections and fused attention with grouped heads; returns the widths that elementwise kernels read or write."""
        leaf, tp, hidden = self.leaves, self.split.tp, self.hidden
        heads = leaf.split(f"{key}.rank_heads", leaf(f"{key}.heads", a.heads), tp)
        kv_all = leaf(f"{key}.kv_heads", a.kv_heads)
        kv_heads = leaf.split(f"{key}.rank_kv_heads", kv_all, leaf.least(f"{key}.kv_ways", tp, kv_all))
        head_dim = leaf(f"{key}.head_dim", a.head_dim)
        v_dim = leaf(f"{key}.v_head_dim", a.v_head_dim or a.head_dim)
        q_width = leaf.times(f"{key}.q_width", heads, head_dim)
        k_width = leaf.times(f"{key}.k_width", kv_heads, head_dim)
        v_width = leaf.times(f"{key}.v_width", kv_heads, v_dim)
        out_width = leaf.times(f"{key}.out_width", heads, v_dim)
        parts = {"q": q_width, "k": k_width, "v": v_width} | ({"gate": out_width} if a.output_gate else {})
        qkv = total(f"{at}.qkv_width", parts)
        tokens = self.work.tokens
        if self.split.kv_heads == "gathered" and not all_true(tp.value <= a.kv_heads):
            qkv = self.gathered(made, at, key, a)
        made.matmuls.append(self.matmul(f"{at}.qkv", tokens, qkv, hidden))
        window = leaf(f"{key}.window", a.window) if a.window else None
        types = self.types
        sequences, q_len, kv_len = self.extent(at, key, a)
        made.attentions.append(
            AttentionWork(
                name=f"{at}.attention",
                sequences=sequences,
                q_len=q_len,
                kv_len=kv_len,
                heads=heads,
                kv_heads=kv_heads,
                k_dim=head_dim,
                v_dim=v_dim,
                kv_element_bytes=types.kv,
                dtype=types.attention,
                causal=a.causal,
                window=window,
            )
        )
        made.matmuls.append(self.matmul(f"{at}.out", tokens, hidden, out_width))
        return [q_width, q_width, k_width, k_width]

    def gathered(self, made: LayerWork, at: str, key: str, a: Attention) -> Term:
        """The even share of the projection on a rank; what ranks beyond the key and value heads project is gathered."""
        leaf, tp, kv_heads = self.leaves, self.split.tp, self.leaves(f"{key}.kv_heads", a.kv_heads)
        heads, head_dim = leaf(f"{key}.heads", a.heads), leaf(f"{key}.head_dim", a.head_dim)
        v_dim = leaf(f"{key}.v_head_dim", a.v_head_dim or a.head_dim)
        widths = {
            "q": leaf.times(f"{key}.all_q_width", heads, head_dim),
            "k": leaf.times(f"{key}.all_k_width", kv_heads, head_dim),
            "v": leaf.times(f"{key}.all_v_width", kv_heads, v_dim),
        }
        if a.output_gate:
            widths["gate"] = leaf.times(f"{key}.all_gate_width", heads, v_dim)
        whole = total(f"{at}.all_qkv_width", widths)
        size = tensor_bytes.term(f"{at}.all_qkv_bytes", tokens=self.work.tokens, width=whole, element_bytes=self.types.activation)
        sent = gathered_projection_bytes.term(f"{at}.gathered_bytes", size=size, tp=tp, kv_heads=kv_heads)
        made.tensor_collectives.append(self.collective(f"{at}.gather_qkv", "all_gather", sent, tp, self.split.tp_stride))
        return leaf.split(f"{at}.even_qkv_width", whole, tp)

    def extent(self, at: str, key: str, a: Attention) -> tuple[Term, Term, Term]:
        """Sequences, queries and visible keys of an attention; chunks are short sequences of their own."""
        work, leaf = self.work, self.leaves
        if not a.chunk:
            return self.packed(at)
        chunk = leaf.least(f"{at}.chunk_tokens", work.kv_len, leaf(f"{key}.chunk", a.chunk))
        if work.decode:
            return work.sequences, work.q_len, leaf.split(f"{at}.seen_of_chunk", chunk, count("middle_of_chunk"))
        chunks = leaf.split(f"{at}.chunks", work.kv_len, chunk)
        return leaf.times(f"{at}.chunked_sequences", work.sequences, chunks), chunk, chunk

    def packed(self, at: str) -> tuple[Term, Term, Term]:
        """Sequences, queries and keys of attention that sees no limit but its document."""
        work, leaf = self.work, self.leaves
        if work.document is None:
            return work.sequences, work.q_len, work.kv_len
        documents = leaf.split("step.documents", work.kv_len, work.document)
        return leaf.times("step.packed_sequences", work.sequences, documents), work.document, work.document

    def mla(self, made: LayerWork, at: str, key: str, a: Mla) -> list[Term]:
        """Low-rank projections and attention: expanded heads in prefill and training, the cached latent in decode."""
        leaf, tp, hidden, tokens = self.leaves, self.split.tp, self.hidden, self.work.tokens
        heads = leaf.split(f"{key}.rank_heads", leaf(f"{key}.heads", a.heads), tp)
        nope, rope, v_dim = leaf(f"{key}.nope_dim", a.nope_dim), leaf(f"{key}.rope_dim", a.rope_dim), leaf(f"{key}.v_dim", a.v_dim)
        kv_rank = leaf(f"{key}.kv_rank", a.kv_rank)
        qk_dim = total(f"{key}.qk_dim", {"nope": nope, "rope": rope})
        q_width = leaf.times(f"{key}.q_width", heads, qk_dim)
        out_width = leaf.times(f"{key}.out_width", heads, v_dim)
        latent = total(f"{key}.latent_width", {"kv_rank": kv_rank, "rope": rope})
        q_from = hidden
        if a.q_rank:
            q_from = leaf(f"{key}.q_rank", a.q_rank)
            down = total(f"{key}.down_width", {"q_rank": q_from, "latent": latent})
            made.matmuls.append(self.matmul(f"{at}.down", tokens, down, hidden))
        else:
            made.matmuls.append(self.matmul(f"{at}.kv_down", tokens, latent, hidden))
        made.matmuls.append(self.matmul(f"{at}.q_up", tokens, q_width, q_from))
        types, work = self.types, self.work
        if work.decode:
            # The key up-projection is absorbed into the query and the value one into the output (arXiv 2405.04434, 2.1.2).
            made.matmuls.append(self.matmul(f"{at}.absorb_k", tokens, kv_rank, nope, heads))
            made.matmuls.append(self.matmul(f"{at}.absorb_v", tokens, v_dim, kv_rank, heads))
            core = AttentionWork(
                name=f"{at}.attention", sequences=work.sequences, q_len=work.q_len, kv_len=work.kv_len, heads=heads, kv_heads=ONE,
                k_dim=latent, v_dim=kv_rank, kv_element_bytes=types.kv, dtype=types.attention, causal=True, v_shared=True,
            )  # fmt: skip
        else:
            sequences, q_len, kv_len = self.packed(at)
            up = leaf.times(f"{key}.kv_up_width", heads, total(f"{key}.kv_up_dim", {"nope": nope, "v": v_dim}))
            made.matmuls.append(self.matmul(f"{at}.kv_up", tokens, up, kv_rank))
            core = AttentionWork(
                name=f"{at}.attention", sequences=sequences, q_len=q_len, kv_len=kv_len, heads=heads, kv_heads=heads,
                k_dim=qk_dim, v_dim=v_dim, kv_element_bytes=types.kv, dtype=types.attention, causal=True,
            )  # fmt: skip
        made.attentions.append(core)
        made.matmuls.append(self.matmul(f"{at}.out", tokens, hidden, out_width))
        return [q_width, q_width, q_width, q_width]

    def state_space(self, made: LayerWork, at: str, key: str, s: StateSpace) -> list[Term]:
        """Input and output projections, and the scan as a product with the state a token."""
        leaf, tp, hidden, tokens = self.leaves, self.split.tp, self.hidden, self.work.tokens
        inner = leaf.split(f"{key}.rank_inner", leaf(f"{key}.inner", s.inner), tp)
        state = leaf(f"{key}.state", s.state)
        groups = leaf.split(f"{key}.rank_groups", leaf(f"{key}.groups", s.groups), tp)
        shared = leaf.times(f"{key}.group_width", groups, state)
        parts = {"values": inner, "gate": inner, "keys": shared, "queries": shared}
        if s.kind == "mamba1":
            rank = leaf(f"{key}.dt_rank", s.dt_rank)
            made.matmuls.append(
                self.matmul(f"{at}.x", tokens, total(f"{key}.x_width", {"dt": rank, "b": state, "c": state}), inner)
            )
            made.matmuls.append(self.matmul(f"{at}.dt", tokens, inner, rank))
            parts = {"values": inner, "gate": inner}
        made.matmuls.append(self.matmul(f"{at}.in", tokens, total(f"{at}.in_width", parts), hidden))
        rows = linear_state_flop_rows.term(f"{at}.scan_rows", tokens=tokens)
        made.matmuls.append(self.matmul(f"{at}.scan", rows, inner, state))
        if self.work.decode:
            # A step reads and writes the whole state of every sequence.
            whole = leaf.times(f"{key}.state_width", inner, state)
            traffic = layer_stream_bytes.term(
                f"{at}.state_traffic",
                tokens=tokens,
                width=whole,
                passes=count("state_passes"),
                element_bytes=STATE_BYTES,
                ways=ONE,
            )
            made.streams.append(Stream(name=f"{at}.state", size=traffic, launches=ONE))
        made.matmuls.append(self.matmul(f"{at}.out", tokens, hidden, inner))
        return [inner, inner, inner, inner, shared, shared]

    def dense(self, made: LayerWork, at: str, key: str, width: int, *, gated: bool, copies: int = 1) -> list[Term]:
        """A dense feed-forward layer, or `copies` shared experts side by side."""
        leaf = self.leaves
        whole = leaf(f"{key}.width", width * copies)
        inner = leaf.split(f"{key}.rank_width", whole, self.split.tp)
        up = leaf.times(f"{key}.up_width", leaf(f"{key}.up_matrices", 2 if gated else 1), inner)
        made.matmuls.append(self.matmul(f"{at}.up", self.work.tokens, up, self.hidden))
        made.matmuls.append(self.matmul(f"{at}.down", self.work.tokens, self.hidden, inner))
        return [up, inner]

    def experts(self, made: LayerWork, at: str, key: str, moe: Moe) -> list[Term]:
        """Router, dispatch, grouped matmuls over the experts of this rank, combine, and the shared experts."""
        leaf, work = self.leaves, self.work
        experts, top_k = leaf(f"{key}.experts.count", moe.experts), leaf(f"{key}.experts.top_k", moe.top_k)
        made.matmuls.append(self.matmul(f"{at}.router", work.tokens, experts, self.hidden))
        copies = leaf.times(f"{at}.token_copies", work.expert_tokens, top_k)
        group = leaf.times(f"{at}.group_tokens", work.expert_tokens, self.split.ep)
        all_touched = experts_touched.term(f"{at}.all_touched_experts", experts=experts, top_k=top_k, tokens=group)
        touched = rank_experts.term(f"{at}.touched_experts", touched=all_touched, ep=self.split.ep)
        rows = expert_rows.term(f"{at}.rows", copies=copies, touched=touched)
        inner = leaf.split(f"{key}.experts.rank_width", leaf(f"{key}.experts.width", moe.width), self.split.etp)
        up = leaf.times(f"{key}.experts.up_width", leaf(f"{key}.experts.up_matrices", 2 if moe.gated else 1), inner)
        outer = self.hidden
        if moe.latent:
            # Tokens travel to the experts and back in a narrower space: one projection down before, one up after.
            outer = leaf(f"{key}.experts.latent", moe.latent)
            made.matmuls.append(self.matmul(f"{at}.latent_down", work.tokens, outer, self.hidden))
            made.matmuls.append(self.matmul(f"{at}.latent_up", work.tokens, self.hidden, outer))
        made.matmuls.append(self.matmul(f"{at}.experts_up", rows, up, outer, touched, grouped=True))
        made.matmuls.append(self.matmul(f"{at}.experts_down", rows, outer, inner, touched, grouped=True))
        etp, apart = self.split.etp, self.split.ep_stride is not ONE
        size = self.exchange(made, at, key, moe, leaf.split(f"{at}.sent_copies", copies, etp) if apart else copies, top_k, outer)
        inner_widths = []
        if moe.shared_experts:
            inner_widths += self.dense(
                made, f"{at}.shared", f"{key}.shared", moe.shared_width, gated=moe.gated, copies=moe.shared_experts
            )
        if apart:
            # Megatron-Core, MoEAlltoAllTokenDispatcher: over the ranks that share an expert, copies are gathered after the exchange
            # and summed and scattered before the way back (token_dispatcher.py of Megatron-LM d98e8a64).
            size = tensor_bytes.term(f"{at}.gathered_bytes", tokens=copies, width=outer, element_bytes=self.types.activation)
            made.expert_collectives.append(self.collective(f"{at}.gathered_copies", "all_reduce", size, etp, ONE))
        if moe.shared_experts or not apart:
            tp = self.split.tp
            if not moe.shared_experts and self.split.sp is not ONE:
                tp = summing_ranks.term(f"{at}.summing_ranks", tp=tp, ep=self.split.ep, etp=etp)
            self.reduce(made, at, tp)
        copy_bytes = repeated_bytes.term(f"{at}.permute_bytes", count=count("permute_passes"), size=size)
        made.streams.append(Stream(name=f"{at}.permute", size=copy_bytes, launches=count("permute_kernels")))
        touched_width = total(f"{at}.gate_width", {"read": up, "written": inner})
        gate = layer_stream_bytes.term(
            f"{at}.gate_traffic", tokens=copies, width=touched_width, passes=work.activation_passes,
            element_bytes=self.types.activation, ways=ONE,
        )  # fmt: skip
        made.streams.append(Stream(name=f"{at}.gate", size=gate, launches=ONE))
        return inner_widths

    def exchange(self, made: LayerWork, at: str, key: str, moe: Moe, copies: Term, top_k: Term, width: Term) -> Term:
        """Tokens of a width on their way to the experts and back; returns the bytes of all copies in the type of activations."""
        leaf, how = self.leaves, self.dispatch
        size = tensor_bytes.term(f"{at}.dispatch_bytes", tokens=copies, width=width, element_bytes=self.types.activation)
        reach = None
        if how is not None and how.deduplicated:
            reach = leaf.split(f"{key}.experts.reach", leaf(f"{key}.experts.top_groups", moe.top_groups), leaf(
                f"{key}.experts.groups", moe.groups
            ))  # fmt: skip
        sizes = {"dispatch": size, "combine": size}
        if how is not None:
            sizes = {
                name: tensor_bytes.term(f"{at}.{name}_sent", tokens=copies, width=width, element_bytes=element)
                for name, element in (("dispatch", how.there), ("combine", how.back))
            }
        for name, sent in sizes.items():
            item = self.collective(f"{at}.{name}", "all_to_all", sent, self.split.ep, self.split.ep_stride)
            made.expert_collectives.append(item if reach is None else item.replaced(copies=top_k, reach=reach))
        return size

    def reduce(self, made: LayerWork, at: str, ranks: Term | None = None) -> None:
        """The tensor-parallel reduction after a sub-layer: an all-reduce, or its two halves under sequence parallelism."""
        size = tensor_bytes.term(
            f"{at}.reduce_bytes", tokens=self.work.tokens, width=self.hidden, element_bytes=self.types.activation
        )
        group = self.split.tp if ranks is None else ranks
        made.tensor_collectives.append(self.collective(f"{at}.all_reduce", "all_reduce", size, group, self.split.tp_stride))

    def collective(self, name: str, kind: CollectiveKind, size: Term, group: Term, stride: Term) -> Collective:
        """A collective of this layer."""
        return Collective(name=name, kind=kind, size=size, group=group, stride=stride)

    def stream(self, made: LayerWork, at: str, widths: list[Term], *, rms: bool) -> None:
        """The elementwise traffic of the layer: norms and residuals over the hidden width, the rest over inner widths."""
        passes = self.work.hidden_passes
        if rms and self.work.rms_passes is not None:
            passes = total(f"{at}.hidden_passes", {"all": passes, "rms": self.work.rms_passes})
        rest = total(f"{at}.inner_width", {f"{number}": width for number, width in enumerate(widths)}) if widths else None
        hidden = layer_stream_bytes.term(
            f"{at}.hidden_traffic", tokens=self.work.tokens, width=self.hidden, passes=passes,
            element_bytes=self.types.activation, ways=self.split.sp,
        )  # fmt: skip
        parts = {"hidden": hidden}
        if rest is not None:
            parts["inner"] = layer_stream_bytes.term(
                f"{at}.inner_traffic", tokens=self.work.tokens, width=rest, passes=self.work.activation_passes,
                element_bytes=self.types.activation, ways=ONE,
            )  # fmt: skip
        made.streams.append(Stream(name=f"{at}.elementwise", size=total(f"{at}.traffic", parts), launches=self.work.kernels))

    @property
    def hidden(self) -> Term:
        """The model's hidden width."""
        return self.leaves.made["model.hidden"]
