"""What do low-rank adapters add to a layer: parameters that are trained, and two thin matmuls beside each adapted one?"""

from __future__ import annotations

from gpuplan.formulas.basic import product
from gpuplan.formulas.memory import lora_params
from gpuplan.models.architecture import Attention, Block, Mla, Mlp, Moe, StateSpace
from gpuplan.plan.train import Tuning
from gpuplan.record import Record
from gpuplan.term import Source, Term, total
from gpuplan.work import Matmul
from gpuplan.workload.context import ONE, Leaves, Pass, Types

_LORA = Source("paper", "LoRA: Low-Rank Adaptation of Large Language Models", "https://arxiv.org/abs/2106.09685", "4.1")


class Adapted(Record):
    """One adapted matrix of a rank: [fan_in, fan_out], `copies` of it (experts)."""

    name: str
    fan_in: Term
    fan_out: Term
    copies: Term = ONE


class AdapterMaker(Record, kw_only=True):
    """Lists the adapters of blocks; the layer's widths must have been made."""

    leaves: Leaves
    tuning: Tuning
    ep: Term

    def matrices(self, key: str, block: Block) -> list[Adapted]:
        """The adapted matrices of one layer."""
        found: list[Adapted] = []
        for name, mixer in (("mixer", block.mixer), ("mixer2", block.mixer2), ("cross", block.cross)):
            if mixer is not None and self.tuning.lora_targets in ("qv", "attention", "all"):
                found += self.mixer(f"{key}.{name}", mixer)
        if self.tuning.lora_targets in ("mlp", "all"):
            if isinstance(block.mlp, Mlp):
                found += self.feed_forward(f"{key}.mlp", gated=block.mlp.gated)
            elif isinstance(block.mlp, Moe):
                found += self.experts(key, block.mlp)
        return found

    def mixer(self, key: str, mixer: Attention | Mla | StateSpace) -> list[Adapted]:
        """Queries and values only where `qv` is wanted, otherwise every projection."""
        made, hidden = self.leaves.made, self.hidden
        if isinstance(mixer, StateSpace):
            inner = made[f"{key}.rank_inner"]
            return [Adapted(f"{key}.in", hidden, inner), Adapted(f"{key}.out", inner, hidden)]
        if isinstance(mixer, Mla):
            out = Adapted(f"{key}.out", made[f"{key}.out_width"], hidden)
            query = made.get(f"model.{key}.q_rank", hidden)
            latent = made[f"model.{key}.kv_rank"]
            found = [Adapted(f"{key}.q_up", query, made[f"{key}.q_width"])]
            found += [Adapted(f"{key}.kv_up", latent, made[f"{key}.kv_up_width"])]
            if self.tuning.lora_targets == "qv":
                return found
            downs = [Adapted(f"{key}.kv_down", hidden, made[f"{key}.latent_width"])] if f"{key}.latent_width" in made else []
            return [*found, *downs, out]
        wanted = ("q", "v") if self.tuning.lora_targets == "qv" else ("q", "k", "v")
        found = [Adapted(f"{key}.{one}", hidden, made[f"{key}.{one}_width"]) for one in wanted]
        return found if len(wanted) == 2 else [*found, Adapted(f"{key}.out", made[f"{key}.out_width"], hidden)]

    def feed_forward(self, key: str, *, gated: bool) -> list[Adapted]:
        """Up, gate and down."""
        inner = self.leaves.made[f"{key}.rank_width"]
        ups = [Adapted(f"{key}.{one}", self.hidden, inner) for one in (("up", "gate") if gated else ("up",))]
        return [*ups, Adapted(f"{key}.down", inner, self.hidden)]

    def experts(self, key: str, moe: Moe) -> list[Adapted]:
        """The same in every expert of the rank, and in the shared ones."""
        leaf = self.leaves
        held = leaf.split(f"{key}.experts.of_rank", leaf(f"{key}.experts.count", moe.experts), self.ep)
        inner = leaf.made[f"{key}.experts.rank_width"]
        names = ("up", "gate") if moe.gated else ("up",)
        found = [Adapted(f"{key}.experts.{one}", self.hidden, inner, held) for one in names]
        found.append(Adapted(f"{key}.experts.down", inner, self.hidden, held))
        return found + (self.feed_forward(f"{key}.shared", gated=moe.gated) if moe.shared_experts else [])

    def params(self, key: str, found: list[Adapted]) -> Term | None:
        """Trained parameters of one layer on one rank."""
        if not found:
            return None
        parts = {
            one.name: lora_params.term(
                f"adapters.{one.name}", in_features=one.fan_in, out_features=one.fan_out, rank=self.rank, matrices=one.copies
            )
            for one in found
        }
        if self.tuning.dora:
            parts |= {
                f"{one.name}.magnitudes": product.term(f"adapters.{one.name}.magnitudes", a=one.fan_out, b=one.copies)
                for one in found
            }
        return total(f"adapters.{key}", parts)

    def matmuls(self, at: str, found: list[Adapted], types: Types, work: Pass) -> list[Matmul]:
        """Down to the rank and up again for every adapted matrix; those of experts count as one over all their tokens."""
        made: list[Matmul] = []
        for one in found:
            shapes = {"down": (self.rank, one.fan_in), "up": (one.fan_out, self.rank)}
            for name, (n, k) in shapes.items():
                made.append(
                    Matmul(
                        name=f"{at}.{one.name}.lora_{name}", m=work.tokens, n=n, k=k, batch=ONE, dtype=types.attention,
                        left_bytes=types.activation, right_bytes=types.activation, out_bytes=types.activation,
                    )
                )  # fmt: skip
        return made

    @property
    def rank(self) -> Term:
        """The adapters' rank."""
        name = "plan.lora"
        if name not in self.leaves.made:
            self.leaves.made[name] = Term(name, float(self.tuning.lora or 0), "1", _LORA)
        return self.leaves.made[name]

    @property
    def hidden(self) -> Term:
        """The model's hidden width."""
        return self.leaves.made["model.hidden"]
