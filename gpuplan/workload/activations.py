"""Which tensors does a layer keep for its backward pass, and how large are they on one rank?"""

from __future__ import annotations

from gpuplan.formulas.memory import attention_score_bytes, tensor_bytes
from gpuplan.models.architecture import Attention, Block, Mla, Mlp, Moe, StateSpace
from gpuplan.plan.train import Tuning
from gpuplan.plan.words import Recompute
from gpuplan.record import Record
from gpuplan.term import Source, Term, total
from gpuplan.workload.context import Leaves, Pass, Split
from gpuplan.workload.counts import count

_KEPT = Source(
    "paper",
    "Reducing Activation Recomputation in Large Transformer Models",
    "https://arxiv.org/abs/2205.05198",
    "4.1 (tensors kept for the backward pass)",
    note="fused attention keeps one fp32 log-sum-exp a head and query in place of the scores (arXiv 2205.14135)",
)
_SCORES = Source(
    "paper",
    "Reducing Activation Recomputation in Large Transformer Models",
    "https://arxiv.org/abs/2205.05198",
    "4.1: softmax output 2, dropout mask 1, dropped scores 2 bytes a score",
)
_LSE_BYTES = Term("recipe.log_sum_exp_bytes", 4.0, "B", _KEPT)


_DROPPED: dict[str, tuple[str, ...]] = {
    "selective": ("_scores",),
    "mlp": ("mlp", "shared"),
    "moe": ("experts", "shared"),
}
"""Ends of the names of the parts that are made again: dense layers and shared experts, or whole layers of experts."""


class Habits(Record, kw_only=True):
    """What the engine keeps beyond what mathematics needs; None: nothing (bytes, or widths)."""

    norm: Term | None = None
    gate: Term | None = None
    attention: Term | None = None
    score: Term = Term("recipe.score_bytes", 5.0, "B", _SCORES)
    selective_keeps: str = "core"
    repeats_heads: bool = False
    """Keys and values are kept for every head of the queries."""
    frees_quantised_inputs: bool = False
    """Quantised matmuls keep no input where nothing behind them is trained."""
    remakes_attention: bool = False
    """Selective recomputation by operators runs attention again."""
    inputs_apart: bool = False
    """Each matrix cut by columns gathers its own input."""
    padded: Term | None = None
    """The fullest expert over the mean, where the others are padded to it; None: they are not."""
    whole_edges: bool = False
    """The embedding, and the head without sequence parallelism, are whole on each tensor parallel rank; logits are gathered."""


class ActivationMaker(Record, kw_only=True):
    """Lists the kept tensors of one micro-batch, layer by layer; every name starts with `activations`."""

    leaves: Leaves
    split: Split
    work: Pass
    element: Term
    stored: Term | None = None
    """One element of a matmul's kept input where that is not `element`: fp8 recipes that keep what they multiplied."""
    habits: Habits = Habits()
    tuning: Tuning = Tuning()
    eager: bool = False
    """Attention writes its scores."""

    def layer(self, key: str, block: Block) -> dict[str, Term]:
        """Bytes that one layer keeps when nothing is recomputed, by part."""
        at = f"activations.{key}"
        parts: dict[str, Term] = {"norms": self.norms(at, key, block)}
        for name, mixer in (("mixer", block.mixer), ("mixer2", block.mixer2), ("cross", block.cross)):
            if isinstance(mixer, Attention):
                parts[name] = self.attention(f"{at}.{name}", f"{key}.{name}", mixer)
                if self.eager:
                    parts[f"{name}_scores"] = self.scores(f"{at}.{name}", f"{key}.{name}")
            elif isinstance(mixer, Mla):
                parts[name] = self.mla(f"{at}.{name}", f"{key}.{name}", mixer)
                if self.eager:
                    parts[f"{name}_scores"] = self.scores(f"{at}.{name}", f"{key}.{name}")
            elif isinstance(mixer, StateSpace):
                parts[name] = self.state_space(f"{at}.{name}", f"{key}.{name}", mixer)
        if isinstance(block.mlp, Mlp):
            parts["mlp"] = self.feed_forward(f"{at}.mlp", f"{key}.mlp", gated=block.mlp.gated)
        elif isinstance(block.mlp, Moe):
            parts |= self.experts(at, key, block.mlp)
        return parts

    def kept(self, key: str, block: Block, parts: dict[str, Term], recompute: Recompute) -> Term | None:
        """Bytes that one layer keeps under a kind of recomputation; None: as much as without."""
        at = f"activations.{key}"
        if recompute == "selective" and self.habits.selective_keeps == "matmuls":
            recompute = "selective-op"
        if recompute == "selective":
            parts = parts | self.latents(key, block)
        dropped = _DROPPED.get(recompute, ())
        left = {name: term for name, term in parts.items() if not name.endswith(dropped)} if dropped else parts
        if recompute == "full":
            return self.layer_input(key)
        if recompute == "selective-op":
            return self.every_other_matmul(key, block, parts)
        changed = len(left) < len(parts) or (
            recompute == "selective" and any(isinstance(m, Mla) for m in (block.mixer, block.mixer2))
        )
        return total(f"{at}.{recompute}", left) if changed else None

    def latents(self, key: str, block: Block) -> dict[str, Term]:
        """What latent attention keeps where its up-projections are run again: the latents and the output (DeepSeek-V3, 3.2.3)."""
        found: dict[str, Term] = {}
        for name, mixer in (("mixer", block.mixer), ("mixer2", block.mixer2)):
            if not isinstance(mixer, Mla):
                continue
            leaf, inner = self.leaves, f"{key}.{name}"
            widths = {"out": leaf.made[f"{inner}.out_width"], "kv_rank": leaf(f"{inner}.kv_rank", mixer.kv_rank)}
            widths["rope"] = leaf(f"{inner}.rope_dim", mixer.rope_dim)
            if mixer.q_rank:
                widths["q_rank"] = leaf(f"{inner}.q_rank", mixer.q_rank)
            at = f"activations.{key}.{name}.latents"
            found[name] = self.tensor(at, total(f"{at}.widths", widths))
        return found

    def every_other_matmul(self, key: str, block: Block, parts: dict[str, Term]) -> Term:
        """The layer's input, the first, third … matmul's result, and what fused attention and scans keep (their inputs are remade).

        Queries, values, the up projection and the result of the down projection are kept in a gated layer.
        """
        made, at = self.leaves.made, f"activations.{key}.op"
        kept = {"input": self.layer_input(key)}
        widths: dict[str, Term] = {}
        for name, mixer in (("mixer", block.mixer), ("mixer2", block.mixer2), ("cross", block.cross)):
            inner = f"{key}.{name}"
            if isinstance(mixer, Attention):
                stay = ("q", "v") if self.habits.remakes_attention else ("q", "v", "out")
                widths |= {f"{name}.{one}": made[f"{inner}.{one}_width"] for one in stay}
            elif isinstance(mixer, Mla):
                widths |= {f"{name}.q": made[f"{inner}.q_width"], f"{name}.out": made[f"{inner}.out_width"]}
            elif mixer is not None:
                kept[name] = parts[name]
        if isinstance(block.mlp, Mlp):
            widths["up"] = made[f"{key}.mlp.rank_width"]
            if block.mlp.gated:
                widths["down"] = self.leaves.split(f"activations.{key}.norm_width", self.hidden, self.split.sp)
        kept |= {name: parts[name] for name in ("experts", "router", "shared") if name in parts}
        if widths:
            kept["matmuls"] = self.tensor(f"{at}.matmuls", total(f"{at}.widths", widths))
        return total(at, kept)

    def norms(self, at: str, key: str, block: Block) -> Term:
        """The input of each norm, and its output where a matrix behind it is trained or adapted."""
        leaf = self.leaves
        per_norm = leaf.split(f"{at}.norm_width", self.hidden, self.split.sp)
        held = leaf(f"{key}.norms", block.norms)
        copies = leaf.times(f"{at}.norm_tensors", count("kept_per_norm"), held)
        groups = {"qv": 1, "attention": 1, "mlp": 1, "all": 2}[self.tuning.lora_targets]
        if self.tuning.frozen and self.keeps_inputs:
            copies = total(f"{at}.norm_tensors_quantised", {"ends": copies, "dropped": count(f"adapted_{groups}")})
        elif self.tuning.frozen:
            adapted = leaf.times(f"{at}.adapted_inputs", count("kept_by_adapters"), count(f"adapted_{groups}"))
            copies = total(f"{at}.norm_tensors_frozen", {"inputs": held, "adapters": adapted})
        kept = self.tensor(f"{at}.norms", leaf.times(f"{at}.norm_widths", copies, per_norm))
        if self.stored is not None and not self.tuning.frozen:
            once = leaf.times(f"{at}.each_norm", held, per_norm)
            ends = {"inputs": self.tensor(f"{at}.norm_inputs", once), "outputs": self.multiplied(f"{at}.norm_outputs", once)}
            kept = total(f"{at}.norm_ends", ends)
        if self.habits.norm is None or block.norm != "rms":
            return kept
        width = leaf.times(f"{at}.all_norms_width", held, per_norm)
        wide = tensor_bytes.term(f"{at}.norms_wide", tokens=self.work.tokens, width=width, element_bytes=self.habits.norm)
        return total(f"{at}.all_norms", {"kept": kept, "wide": wide})

    def multiplied(self, name: str, width: Term, tokens: Term | None = None) -> Term:
        """Bytes of a kept input of a matmul."""
        return tensor_bytes.term(name, tokens=tokens or self.work.tokens, width=width, element_bytes=self.stored or self.element)

    def scores(self, at: str, key: str) -> Term:
        """Scores of one layer that are written out and kept."""
        return attention_score_bytes.term(
            f"{at}.scores", sequences=self.work.sequences, heads=self.leaves.made[f"{key}.rank_heads"],
            q_tokens=self.work.q_len, kv_tokens=self.work.kv_len, element_bytes=self.habits.score,
        )  # fmt: skip

    def layer_input(self, key: str) -> Term:
        """Bytes that one layer keeps when all of it is recomputed: its input."""
        width = self.leaves.split(f"activations.{key}.norm_width", self.hidden, self.split.sp)
        return self.tensor(f"activations.{key}.input", width)

    def tensor(self, name: str, width: Term, tokens: Term | None = None) -> Term:
        """Bytes of one kept tensor."""
        return tensor_bytes.term(name, tokens=tokens or self.work.tokens, width=width, element_bytes=self.element)

    @property
    def keeps_inputs(self) -> bool:
        """Quantised matmuls of bitsandbytes keep their inputs although nothing behind them is trained."""
        return self.tuning.base_weights in ("nf4", "nf4-dq", "int8") and not self.habits.frees_quantised_inputs

    @property
    def hidden(self) -> Term:
        """The model's hidden width."""
        return self.leaves.made["model.hidden"]

    def attention(self, at: str, key: str, a: Attention) -> Term:
        """Queries, keys, values, the output, and the log-sum-exp."""
        leaf = self.leaves
        widths = {name: leaf.made[f"{key}.{name}_width"] for name in ("q", "k", "v", "out")}
        if self.habits.repeats_heads:
            widths |= {"k": widths["q"], "v": widths["out"]}
        if self.tuning.frozen and self.keeps_inputs:
            widths["multiplied"] = leaf.made[f"{key}.out_width"]
        if a.output_gate:
            widths["gate"] = leaf.made[f"{key}.out_width"]
        if self.habits.attention is not None:
            qkv = total(f"{at}.qkv", {name: widths[name] for name in ("q", "k", "v")})
            widths["again"] = leaf.times(f"{at}.copies", self.habits.attention, qkv)
        return total(
            at,
            {
                "qkv_and_output": self.tensor(f"{at}.qkv_and_output", total(f"{at}.widths", widths)),
                "log_sum_exp": tensor_bytes.term(
                    f"{at}.log_sum_exp", tokens=self.work.tokens, width=leaf.made[f"{key}.rank_heads"], element_bytes=_LSE_BYTES
                ),
            },
        )

    def mla(self, at: str, key: str, a: Mla) -> Term:
        """Latents, expanded queries, keys and values, and the output."""
        leaf = self.leaves
        widths = {"q": leaf.made[f"{key}.q_width"], "k": leaf.made[f"{key}.q_width"], "out": leaf.made[f"{key}.out_width"]}
        widths |= {"v": leaf.made[f"{key}.out_width"], "kv_rank": leaf(f"{key}.kv_rank", a.kv_rank)}
        if a.q_rank:
            widths["q_rank"] = leaf(f"{key}.q_rank", a.q_rank)
        return self.tensor(at, total(f"{at}.widths", widths))

    def state_space(self, at: str, key: str, s: StateSpace) -> Term:
        """Projected values, gate, keys and queries, before and after the convolution, and the scan's output."""
        leaf = self.leaves
        inner = leaf.made[f"{key}.rank_inner"]
        shared = leaf.made.get(f"{key}.group_width", inner)
        kept = count("kept_inner_widths" if s.conv_kernel else "kept_inner_widths_plain")
        copies = leaf.times(f"{at}.inner_widths", kept, inner)
        groups = leaf.times(f"{at}.group_widths", count("kept_group_widths"), shared)
        return self.tensor(at, total(f"{at}.widths", {"inner": copies, "groups": groups}))

    def feed_forward(self, at: str, key: str, *, gated: bool) -> Term:
        """The up (and gate) projections and, where the down projection is trained or adapted, its input."""
        leaf = self.leaves
        inner = leaf.made[f"{key}.rank_width"]
        widths = {"up": leaf.made[f"{key}.up_width"]}
        if gated and self.habits.gate is not None:
            widths["gate"] = leaf.times(f"{at}.gate_copies", self.habits.gate, inner)
        trained = self.keeps_inputs or not self.tuning.frozen or self.tuning.lora_targets in ("mlp", "all")
        if trained and self.stored is None:
            return self.tensor(at, total(f"{at}.widths", widths | {"inner": inner}))
        kept = self.tensor(f"{at}.made" if trained else at, total(f"{at}.widths", widths))
        return total(at, {"made": kept, "multiplied": self.multiplied(f"{at}.multiplied", inner)}) if trained else kept

    def experts(self, at: str, key: str, moe: Moe) -> dict[str, Term]:
        """Dispatched inputs and expert widths for every token copy, the router's scores, the shared experts.

        Outputs are not kept: a copy's weight is multiplied in before the down projection.
        """
        leaf = self.leaves
        copies = leaf.times(f"{at}.token_copies", self.work.expert_tokens, leaf(f"{key}.experts.top_k", moe.top_k))
        outer = leaf(f"{key}.experts.latent", moe.latent) if moe.latent else self.hidden
        multiplied = {"input": outer, "inner": leaf.made[f"{key}.experts.rank_width"]}
        up = leaf.made[f"{key}.experts.up_width"]
        kept = {
            "up": self.tensor(f"{at}.experts.up", up, copies),
            "multiplied": self.multiplied(f"{at}.experts.multiplied", total(f"{at}.experts.widths", multiplied), copies),
        }
        parts = {
            "experts": total(f"{at}.experts", kept),
            "router": self.tensor(f"{at}.router", leaf(f"{key}.experts.count", moe.experts)),
        }
        if moe.shared_experts:
            parts["shared"] = self.feed_forward(f"{at}.shared", f"{key}.shared", gated=moe.gated)
        return parts
