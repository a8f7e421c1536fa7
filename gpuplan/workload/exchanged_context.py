"""What do ranks exchange in a layer that each have a part of every sequence: keys and values, or heads for tokens?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gpuplan.formulas.basic import product
from gpuplan.formulas.memory import gathered_attention_bytes, tensor_bytes
from gpuplan.formulas.training import rank_tokens
from gpuplan.num import all_true
from gpuplan.plan.precision import byte
from gpuplan.plan.train import TrainPlan
from gpuplan.term import Term, total
from gpuplan.work import Collective
from gpuplan.workload.context import Types
from gpuplan.workload.program import FEED_FORWARD, LayerProgram

if TYPE_CHECKING:
    from gpuplan.workload.training import StepTerms


def exchanged_context(key: str, forward: LayerProgram, plan: TrainPlan, step: StepTerms, types: Types) -> Collective | None:
    """Context parallelism gathers the keys and values of the whole sequence in every layer with attention."""
    if not forward.attentions:
        return None
    core = forward.attentions[0]
    heads = core.kv_heads
    width = total(f"{key}.kv_dims", {"k": core.k_dim, "v": core.v_dim})
    whole = product.term(f"step.{key}.kv_tokens", a=step.micro_batch, b=step.seq_len)
    size = tensor_bytes.term(
        f"step.{key}.kv_bytes",
        tokens=whole,
        width=product.term(f"{key}.rank_kv_width", a=heads, b=width),
        element_bytes=types.activation,
    )
    if plan.parallel.cp_kind == "ulysses":
        return heads_for_tokens(key, forward, step, types)
    return Collective(name=f"context.{key}", kind="all_gather", size=size, group=step.cp, stride=step.tp)


def attending_bytes(
    key: str, forward: LayerProgram, kept: Mapping[str, Term], plan: TrainPlan, step: StepTerms, types: Types
) -> Term | None:  # fmt: skip
    """What a layer holds while its attention goes back, where ranks gather what they attend to: the feed-forward is gone by then.

    None: they gather nothing.
    """
    if not forward.attentions or plan.parallel.cp_kind == "ulysses" or all_true(step.cp.value == 1):
        return None
    core, at = forward.attentions[0], f"activations.{key}.attending"
    width = total(f"{at}.kv_dims", {"k": core.k_dim, "v": core.v_dim})
    held = gathered_attention_bytes.term(
        f"{at}.held", tokens=rank_tokens.term(f"{at}.tokens", micro_batch=step.micro_batch, seq_len=step.seq_len, cp=step.cp),
        q_width=product.term(f"{at}.q_width", a=core.heads, b=core.k_dim),
        kv_width=product.term(f"{at}.kv_width", a=core.kv_heads, b=width), ranks=step.cp, element=types.activation,
        sums=byte("recipe.fp32_bytes", 4.0),
    )  # fmt: skip
    gone = {part.value for part in FEED_FORWARD} | {"router"}
    return total(at, {"attention": held} | {name: size for name, size in kept.items() if name not in gone})


def heads_for_tokens(key: str, forward: LayerProgram, step: StepTerms, types: Types) -> Collective:
    """Ulysses: queries, keys, values and outputs are exchanged, a part of the sequence for a part of the heads."""
    core = forward.attentions[0]
    wide = {
        "queries": product.term(f"{key}.rank_q_width", a=core.heads, b=core.k_dim),
        "outputs": product.term(f"{key}.rank_out_width", a=core.heads, b=core.v_dim),
        "keys": product.term(f"{key}.rank_k_width", a=core.kv_heads, b=core.k_dim),
        "values": product.term(f"{key}.rank_v_width", a=core.kv_heads, b=core.v_dim),
    }
    tokens = rank_tokens.term(f"step.{key}.exchanged_tokens", micro_batch=step.micro_batch, seq_len=step.seq_len, cp=step.cp)
    size = tensor_bytes.term(
        f"step.{key}.exchanged_bytes", tokens=tokens, width=total(f"{key}.exchanged_width", wide), element_bytes=types.activation
    )
    return Collective(name=f"context.{key}", kind="all_to_all", size=size, group=step.cp, stride=step.tp)
