"""What the rules of a plan need to know of a question: positive counts, and the numbers that degrees must divide."""

from __future__ import annotations

from math import gcd

from gpuplan.errors import PlanError, Problem
from gpuplan.models.architecture import Architecture, Attention, Mla, Moe, StateSpace
from gpuplan.plan.parallelism import Shape
from gpuplan.specs.engine import Engine


def positive(ask: object, names: tuple[str, ...]) -> None:
    """Refuse counts below one.

    Raises:
        PlanError: all of them together.
    """
    bad = [
        Problem("plan.not-positive", f"--{flag} {value:g} is not positive", f"use --{flag} 1 or more")
        for name in names
        if (value := getattr(ask, name)) is not None and value < 1
        for flag in [name.replace("_", "-")]
    ]
    if bad:
        raise PlanError(*bad)


def experts_of(arch: Architecture) -> int:
    """Routed experts of a layer; 0 where there are none."""
    blocks = [block for stack in arch.stacks for block in stack.blocks.values()]
    return max((block.mlp.experts for block in blocks if isinstance(block.mlp, Moe)), default=0)


def shape_of(arch: Architecture, ranks: int, engine: Engine | None = None) -> Shape:
    """What the rules need to know of a model, and of the engine that divides it."""
    blocks = [block for stack in arch.stacks for block in stack.blocks.values()]
    mixers = [mixer for block in blocks for mixer in (block.mixer, block.mixer2, block.cross) if mixer is not None]
    heads = [mixer.heads for mixer in mixers if isinstance(mixer, (Attention, Mla))]
    heads += [mixer.inner for mixer in mixers if isinstance(mixer, StateSpace)]
    kv_heads = {mixer.kv_heads for mixer in mixers if isinstance(mixer, Attention)}
    widths = {block.mlp.width for block in blocks if block.mlp is not None and not isinstance(block.mlp, Moe)}
    experts = [block.mlp for block in blocks if isinstance(block.mlp, Moe)]
    return Shape(
        heads=gcd(*heads) if heads else 0, kv_heads=tuple(sorted(kv_heads)), widths=tuple(sorted(widths)),
        expert_widths=tuple(sorted({one.width for one in experts})), shared=any(one.shared_experts for one in experts),
        experts=experts_of(arch), layers=arch.depth, ranks=ranks,
        kv_divider=engine.name if engine is not None and engine.kv_heads == "divides" else "",
    )  # fmt: skip
