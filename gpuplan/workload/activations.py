"""Which tensors does a layer keep for its backward pass, and how large are they on one rank?"""

from __future__ import annotations

from gpuplan.formulas.memory import tensor_bytes
from gpuplan.models.architecture import Attention, Block, Mla, Mlp, Moe, StateSpace
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
_LSE_BYTES = Term("recipe.log_sum_exp_bytes", 4.0, "B", _KEPT)


class ActivationMaker(Record, kw_only=True):
    """Lists the kept tensors of one micro-batch, layer by layer; every name starts with `activations`."""

    leaves: Leaves
    split: Split
    work: Pass
    element: Term

    def layer(self, key: str, block: Block) -> Term:
        """Bytes that one layer keeps when nothing is recomputed."""
        at = f"activations.{key}"
        parts: dict[str, Term] = {}
        norms = self.leaves.times(f"{at}.norm_tensors", count("kept_per_norm"), self.leaves(f"{key}.norms", block.norms))
        per_norm = self.leaves.split(f"{at}.norm_width", self.hidden, self.split.sp)
        parts["norms"] = self.tensor(f"{at}.norms", self.leaves.times(f"{at}.norm_widths", norms, per_norm))
        for name, mixer in (("mixer", block.mixer), ("mixer2", block.mixer2), ("cross", block.cross)):
            if isinstance(mixer, Attention):
                parts[name] = self.attention(f"{at}.{name}", f"{key}.{name}", mixer)
            elif isinstance(mixer, Mla):
                parts[name] = self.mla(f"{at}.{name}", f"{key}.{name}", mixer)
            elif isinstance(mixer, StateSpace):
                parts[name] = self.state_space(f"{at}.{name}", f"{key}.{name}", mixer)
        if isinstance(block.mlp, Mlp):
            parts["mlp"] = self.feed_forward(f"{at}.mlp", f"{key}.mlp")
        elif isinstance(block.mlp, Moe):
            parts |= self.experts(at, key, block.mlp)
        return total(at, parts)

    def layer_input(self, key: str) -> Term:
        """Bytes that one layer keeps when all of it is recomputed: its input."""
        width = self.leaves.split(f"activations.{key}.norm_width", self.hidden, self.split.sp)
        return self.tensor(f"activations.{key}.input", width)

    def tensor(self, name: str, width: Term, tokens: Term | None = None) -> Term:
        """Bytes of one kept tensor."""
        return tensor_bytes.term(name, tokens=tokens or self.work.tokens, width=width, element_bytes=self.element)

    @property
    def hidden(self) -> Term:
        """The model's hidden width."""
        return self.leaves.made["model.hidden"]

    def attention(self, at: str, key: str, a: Attention) -> Term:
        """Queries, keys, values, the output, and the log-sum-exp."""
        leaf = self.leaves
        widths = {name: leaf.made[f"{key}.{name}_width"] for name in ("q", "k", "v", "out")}
        if a.output_gate:
            widths["gate"] = leaf.made[f"{key}.out_width"]
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

    def feed_forward(self, at: str, key: str) -> Term:
        """The up (and gate) projections and the input of the down projection."""
        leaf = self.leaves
        return self.tensor(at, total(f"{at}.widths", {"up": leaf.made[f"{key}.up_width"], "inner": leaf.made[f"{key}.rank_width"]}))

    def experts(self, at: str, key: str, moe: Moe) -> dict[str, Term]:
        """Dispatched inputs, expert widths and outputs for every token copy, the router's scores, the shared experts."""
        leaf = self.leaves
        copies = leaf.times(f"{at}.token_copies", self.work.expert_tokens, leaf(f"{key}.experts.top_k", moe.top_k))
        widths = {
            "input": self.hidden,
            "output": self.hidden,
            "up": leaf.made[f"{key}.experts.up_width"],
            "inner": leaf.made[f"{key}.experts.rank_width"],
        }
        parts = {
            "experts": self.tensor(f"{at}.experts", total(f"{at}.experts.widths", widths), copies),
            "router": self.tensor(f"{at}.router", leaf(f"{key}.experts.count", moe.experts)),
        }
        if moe.shared_experts:
            parts["shared"] = self.feed_forward(f"{at}.shared", f"{key}.shared")
        return parts
