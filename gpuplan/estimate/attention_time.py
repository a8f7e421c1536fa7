"""How long does attention take in a training step: fused by today's or an earlier kernel, or with its scores written out?

PyTorch's scaled_dot_product_attention cannot hand a mask to FlashAttention: with one it runs the memory-efficient kernel, on all
pairs of positions, also on those that a causal mask hides.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpuplan.estimate.pricing import happens, priced
from gpuplan.formulas.layers import aligned_seconds
from gpuplan.formulas.training import paced_seconds
from gpuplan.machine.hardware import Hardware
from gpuplan.plan.train import TrainPlan
from gpuplan.plan.words import AttentionKernel
from gpuplan.specs.engine_training import TrainingProfile
from gpuplan.term import Source, Term, total
from gpuplan.work import Attention
from gpuplan.workload.scores import ScoreTraffic, written_out

FLASH1 = Term(
    "work.flash1_pace", 1.9, "1",
    Source(
        "paper", "FlashAttention-2: Faster Attention with Better Parallelism and Work Partitioning",
        "https://arxiv.org/abs/2307.08691",
        "abstract: around twice as fast as FlashAttention; 4.1, figures 4 to 6, where the kernel of xFormers, which PyTorch takes "
        "with a mask, is as fast as that",
    ),
    spread=(1.6, 2.3),
)  # fmt: skip
MISALIGNED = Term(
    "work.misaligned_pace", 8.0, "1",
    Source("assumed", "products whose rows are no multiple of 16 bytes are loaded in smaller pieces"),
    spread=(4.0, 12.0),
)  # fmt: skip
FUSED_SCORES = ScoreTraffic()


def attention_remade(profile: TrainingProfile, hw: Hardware) -> bool:
    """Whether recomputation by operator runs attention again, since the kernel of the machine is not on the engine's list."""
    return hw.asked("remade_attention", lambda one: one.family in profile.recompute.remade_attention)


def attention_kernel(plan: TrainPlan, profile: TrainingProfile, hw: Hardware, *, latent: bool) -> AttentionKernel:
    """The kernel that attention runs with: the plan's, else the engine's."""
    if plan.saving.attention is not None:
        return plan.saving.attention
    if latent and hw.asked("unfused_latent", lambda one: one.family in profile.attention.unfused_latent):
        return "eager"
    own = hw.asked("fused_attention", lambda one: one.family in profile.attention.fused_on)
    if profile.attention.scores == "masked":
        return "masked"
    return "eager" if profile.attention.scores == "written" and not own else "flash"


def attention_seconds(
    name: str, items: Sequence[Attention], kernel: AttentionKernel, hw: Hardware, scores: ScoreTraffic = FUSED_SCORES
) -> Term:
    """Seconds of the attention of a layer, forward or backward; `scores`: what moves where they are written out."""
    if kernel != "eager" or not items:
        if kernel == "masked":
            items = [item.replaced(causal=False) for item in items]
        fused = priced(name, items, hw)
        if kernel in ("flash1", "masked") and happens(fused):
            return paced_seconds.term(f"{name}.by_earlier_kernel", seconds=fused, pace=FLASH1)
        return fused
    parts: list[Term] = []
    for item in items:
        products, stream = written_out(item, scores)
        seconds = priced(f"{item.name}.products_s", products, hw)
        parts.append(aligned_seconds.term(f"{item.name}.aligned_s", seconds=seconds, dim=item.k_dim, pace=MISALIGNED))
        parts.append(priced(f"{item.name}.kernels_s", [stream], hw))
    return total(name, parts)


def with_training_depth(hw: Hardware, depth: Term | None) -> Hardware:
    """The hardware where attention of a small head dimension is as fast as the engine's training kernels are."""
    if depth is None:
        return hw
    names = [name for name in hw.parameters if name.startswith("attention.prefill.") and name.endswith(".short_depth")]
    return hw.replaced(parameters={**hw.parameters, **dict.fromkeys(names, depth)})
