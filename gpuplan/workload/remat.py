"""What of a layer's forward work does the backward pass run again, and what does it hold, under a policy of named results?

A result is made again only where the backward pass reads it: a product's input for the gradient of its weights, what a norm, an
activation or attention was given. So the down projection is not run again (nothing reads its result but a norm behind it, or
the weights of experts), while attention is unless its output and log-sum-exp are kept.
"""

from __future__ import annotations

from collections.abc import Mapping

from gpuplan.formulas.memory import tensor_bytes
from gpuplan.models.architecture import Attention, Block, Mla, Mlp, Moe, StateSpace
from gpuplan.plan.remat import Remat, Result
from gpuplan.record import Record
from gpuplan.term import DEFINITION, Source, Term, total
from gpuplan.work import Collective, Matmul
from gpuplan.workload.context import Leaves, Pass, Split
from gpuplan.workload.layer import LayerWork

_LSE = Term(
    "recipe.log_sum_exp_bytes", 4.0, "B",
    Source("paper", "FlashAttention", "https://arxiv.org/abs/2205.14135", "3.1: one fp32 statistic a head and query is kept"),
)  # fmt: skip
POST_NORMS = 4
"""Norms of a layer that has one behind each of its two halves as well (Gemma 2 and 3)."""


class RematMaker(Record, kw_only=True):
    """Turns a policy into the work that is run again and the bytes that are kept, layer by layer."""

    leaves: Leaves
    split: Split
    work: Pass
    element: Term
    remat: Remat

    def again(self, key: str, block: Block, forward: LayerWork) -> LayerWork:
        """What the backward pass runs again of a layer's forward work."""
        made = LayerWork(streams=[one.replaced(name=_again(one.name)) for one in forward.streams])
        for name, mixer in (("mixer", block.mixer), ("mixer2", block.mixer2), ("cross", block.cross)):
            if mixer is None:
                continue
            at = f"forward.{key}.{name}"
            inside = [item for item in forward.matmuls if item.name.startswith(f"{at}.")]
            made.matmuls += self.of_mixer(f"{key}.{name}", mixer, inside)
            if "context" not in self.remat.held:
                made.attentions += [one.replaced(name=_again(one.name)) for one in forward.attentions if one.name.startswith(at)]
        made.matmuls += self.of_channels(key, block, [item for item in forward.matmuls if ".mlp." in item.name])
        made.tensor_collectives += self.reductions(forward, made)
        if made_again := [item for item in made.matmuls if ".experts_" in item.name]:
            both = any(item.name.endswith("experts_down") for item in made_again)
            made.expert_collectives += [
                one.replaced(name=_again(one.name)) for one in forward.expert_collectives if both or one.name.endswith("dispatch")
            ]
        return made

    def of_mixer(self, key: str, mixer: Attention | Mla | StateSpace, inside: list[Matmul]) -> list[Matmul]:
        """Products of attention or a state-space layer."""
        held, found = self.remat.held, list[Matmul]()
        if isinstance(mixer, StateSpace):
            return [item.replaced(name=_again(item.name)) for item in inside if not item.name.endswith(".out")]
        for item in inside:
            kind = item.name.rpartition(".")[2]
            if kind == "qkv":
                missing = {one: self.leaves.made[f"{key}.{one[0]}_width"] for one in _QKV if one not in held}
                found += self.narrower(item, missing, _QKV)
            elif kind == "out":
                found += [] if "out" in held else [item]
            elif kind == "q_up":
                found += [] if "query" in held else [item]
            elif kind == "kv_up":
                found += [] if {"key", "value"} <= held else [item]
            elif kind in ("down", "kv_down"):
                found += [] if {"latent_query", "latent_kv"} <= held else [item]
            else:
                found.append(item)
        return [item.replaced(name=_again(item.name)) for item in found]

    def of_channels(self, key: str, block: Block, inside: list[Matmul]) -> list[Matmul]:
        """Products of the feed-forward layer, or of the router and the experts."""
        held, found = self.remat.held, list[Matmul]()
        gated = isinstance(block.mlp, (Mlp, Moe)) and block.mlp.gated
        for item in inside:
            kind = item.name.rpartition(".")[2]
            if kind in ("up", "experts_up"):
                of_experts = kind == "experts_up"
                width = self.leaves.made[self.inner(key, item.name, of_experts=of_experts)]
                wanted = _expert_ups(gated) if of_experts else _ups(gated)
                found += self.narrower(item, {one: width for one in wanted if one not in held}, wanted)
            elif kind == "down":
                found += [item] if block.norms >= POST_NORMS and "down" not in held else []
            elif kind == "experts_down":
                # The gradient of a token's weights for its experts reads what the experts made.
                found += [] if "expert_down" in held else [item]
            else:
                found.append(item)
        return [item.replaced(name=_again(item.name)) for item in found]

    def inner(self, key: str, name: str, *, of_experts: bool) -> str:
        """The name of the leaf with the inner width of a feed-forward layer on one rank."""
        return f"{key}.experts.rank_width" if of_experts else f"{key}.{'shared' if '.shared.' in name else 'mlp'}.rank_width"

    def narrower(self, item: Matmul, parts: Mapping[Result, Term], results: tuple[Result, ...]) -> list[Matmul]:
        """A product for those of its results that are missing."""
        if len(parts) == len(results):
            return [item]
        return [item.replaced(n=total(f"{_again(item.name)}.width", {**parts}))] if parts else []

    def reductions(self, forward: LayerWork, made: LayerWork) -> list[Collective]:
        """Tensor-parallel exchange that is run again: what gathers the input of products, and what sums up their results.

        Under sequence parallelism one half of an all-reduce stands before a sub-layer and the other behind it; without, the
        sum behind a sub-layer is all there is.
        """
        again = {item.name.removeprefix("recompute.") for item in made.matmuls}
        found: list[Collective] = []
        for item in forward.tensor_collectives:
            at = item.name.removeprefix("forward.").rpartition(".")[0]
            ends = "down" if at.endswith(".mlp") else ".out"
            first = any(name.startswith(f"{at}.") and not name.endswith(ends) for name in again)
            last = any(name.startswith(f"{at}.") and name.endswith(ends) for name in again)
            if self.split.sp is not self.split.tp:
                found += [item.replaced(name=_again(item.name))] if last else []
                continue
            if first:
                found.append(item.replaced(name=f"{_again(item.name)}.gather", kind="all_gather"))
            if last:
                found.append(item.replaced(name=f"{_again(item.name)}.scatter", kind="reduce_scatter"))
        return found

    def held(self, key: str, block: Block, results: frozenset[Result], where: str) -> Term:
        """Bytes of one layer's results on one rank and for one micro-batch; what nothing reads is not held, whatever is named."""
        at = f"activations.{key}.{where}"
        parts: dict[str, Term] = {}
        hidden = self.leaves.split(f"activations.{key}.norm_width", self.leaves.made["model.hidden"], self.split.sp)
        if "input" in results:
            parts["input"] = self.tensor(f"{at}.input", hidden)
        for name, mixer in (("mixer", block.mixer), ("mixer2", block.mixer2), ("cross", block.cross)):
            parts |= {f"{name}.{one}": term for one, term in self.of_attention(at, f"{key}.{name}", mixer, results).items()}
        parts |= {
            one: self.tensor(f"{at}.{one}", hidden)
            for one in ("out", "down")
            if one in results and (one == "out" or (block.norms >= POST_NORMS and isinstance(block.mlp, Mlp)))
        }
        parts |= self.of_widths(at, key, block, results)
        return total(at, parts) if parts else Term(at, 0.0, "B", DEFINITION)

    def has_shared(self, block: Block) -> bool:
        """Whether a layer of experts has dense ones beside them."""
        return isinstance(block.mlp, Moe) and block.mlp.shared_experts > 0

    def of_attention(
        self, at: str, key: str, mixer: Attention | Mla | StateSpace | None, results: frozenset[Result]
    ) -> dict[str, Term]:
        """Held queries, keys, values and outputs with their log-sum-exp."""
        made = self.leaves.made
        if mixer is None or isinstance(mixer, StateSpace):
            return {}
        widths: dict[Result, Term] = {one: made[f"{key}.{one[0]}_width"] for one in _QKV} if isinstance(mixer, Attention) else {}
        if isinstance(mixer, Mla):
            widths = {"query": made[f"{key}.q_width"], "key": made[f"{key}.q_width"], "value": made[f"{key}.out_width"]}
            widths["latent_kv"] = self.leaves(f"{key}.kv_rank", mixer.kv_rank)
            if mixer.q_rank:
                widths["latent_query"] = self.leaves(f"{key}.q_rank", mixer.q_rank)
        found: dict[str, Term] = {one: self.tensor(f"{at}.{key}.{one}", width) for one, width in widths.items() if one in results}
        if "context" in results:
            found["context"] = self.tensor(f"{at}.{key}.context", made[f"{key}.out_width"])
            found["log_sum_exp"] = tensor_bytes.term(
                f"{at}.{key}.log_sum_exp", tokens=self.work.tokens, width=made[f"{key}.rank_heads"], element_bytes=_LSE
            )
        return found

    def of_widths(self, at: str, key: str, block: Block, results: frozenset[Result]) -> dict[str, Term]:
        """Held results inside feed-forward layers and experts."""
        leaf, mlp = self.leaves, block.mlp
        found: dict[str, Term] = {}
        if isinstance(mlp, Mlp):
            found = {
                one: self.tensor(f"{at}.{one}", leaf.made[f"{key}.mlp.rank_width"]) for one in _ups(mlp.gated) if one in results
            }
        if isinstance(mlp, Moe):
            copies = leaf.times(f"{at}.token_copies", self.work.expert_tokens, leaf(f"{key}.experts.top_k", mlp.top_k))
            inner = leaf.made[f"{key}.experts.rank_width"]
            found = {one: self.tensor(f"{at}.{one}", inner, copies) for one in _expert_ups(mlp.gated) if one in results}
            if "expert_down" in results:
                found["expert_down"] = self.tensor(f"{at}.expert_down", leaf.made["model.hidden"], copies)
            if self.has_shared(block):
                shared = leaf.made[f"{key}.shared.rank_width"]
                found |= {f"shared_{one}": self.tensor(f"{at}.shared_{one}", shared) for one in _ups(mlp.gated) if one in results}
        return found

    def tensor(self, name: str, width: Term, tokens: Term | None = None) -> Term:
        """Bytes of one tensor."""
        return tensor_bytes.term(name, tokens=tokens or self.work.tokens, width=width, element_bytes=self.element)


_QKV: tuple[Result, ...] = ("query", "key", "value")


def _ups(gated: bool) -> tuple[Result, ...]:
    return ("gate", "up") if gated else ("up",)


def _expert_ups(gated: bool) -> tuple[Result, ...]:
    return ("expert_gate", "expert_up") if gated else ("expert_up",)


def _again(name: str) -> str:
    return name.replace("forward.", "recompute.", 1)
