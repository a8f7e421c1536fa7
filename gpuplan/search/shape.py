"""What the rules of a plan need to know of a question: positive counts, and the numbers that degrees must divide."""

from __future__ import annotations

from math import gcd

from gpuplan.errors import PlanError, Problem
from gpuplan.models.architecture import Architecture
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
    return max((moe.experts for moe in arch.moes), default=0)


def highest_stage(engine: Engine | None) -> int:
    """The highest ZeRO stage that an engine has."""
    most = None if engine is None or engine.training is None else engine.training.sharding.highest
    return 3 if most is None else int(most.value)


def _piped_stage(engine: Engine | None) -> int:
    """The highest ZeRO stage that an engine combines with pipeline stages."""
    most = None if engine is None or engine.training is None else engine.training.sharding.with_pipelines
    return 3 if most is None else int(most.value)


def shape_of(arch: Architecture, ranks: int, engine: Engine | None = None) -> Shape:
    """What the rules need to know of a model, and of the engine that divides it."""
    heads = [mixer.divided_by() for mixer in arch.mixers]
    kv_heads = {held for mixer in arch.mixers if (held := mixer.kv_heads_held()) is not None}
    widths = {block.mlp.width for block in arch.blocks if block.mlp is not None and block.moe is None}
    return Shape(
        heads=gcd(*heads) if heads else 0, kv_heads=tuple(sorted(kv_heads)), widths=tuple(sorted(widths)),
        expert_widths=tuple(sorted({moe.width for moe in arch.moes})), shared=any(moe.shared_experts for moe in arch.moes),
        latent=arch.latent, experts=experts_of(arch), layers=arch.depth, ranks=ranks,
        pads=engine is not None and engine.kv_heads == "padded",
        kv_divider=engine.name if engine is not None and engine.kv_heads == "divides" else "",
        highest_stage=highest_stage(engine), piped_stage=_piped_stage(engine),
        one_split=engine is not None and engine.serving is not None and engine.serving.one_split,
        engine="" if engine is None else engine.name,
    )  # fmt: skip
