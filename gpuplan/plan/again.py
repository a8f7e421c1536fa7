"""Which modules of a layer does selective recomputation run again, by the names that Megatron-Core has for them?

Memory, time and FLOP of recomputation are counted from the same set of modules.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from gpuplan.errors import Problem
from gpuplan.plan.parallelism import Rule, Shape
from gpuplan.plan.words import Recompute, RecomputeModule

CHANNELS: dict[Recompute, frozenset[RecomputeModule]] = {
    "mlp": frozenset(("mlp", "shared_experts")),
    "moe": frozenset(("moe",)),
}
"""What `--recompute mlp` and `moe` run again: dense layers and shared experts, or whole layers of experts."""


def run_again(recompute: Recompute, named: Collection[str], *, latents: bool, scores: bool) -> frozenset[RecomputeModule]:
    """The modules of one kind of layer that run again.

    Where none is named, `selective` means the attention core (Megatron-Core's default); a layer whose keys and values come from
    latents expands these again instead (DeepSeek-V3, arXiv 2412.19437, 3.2.3), and runs its core again only where that writes
    its scores out.

    >>> sorted(run_again("selective", (), latents=True, scores=False)), sorted(run_again("mlp", (), latents=False, scores=False))
    (['mla_up_proj'], ['mlp', 'shared_experts'])
    """
    if recompute != "selective":
        return CHANNELS.get(recompute, frozenset())
    if named:
        # The words of the option are all that its parser lets through.
        return frozenset(named)  # type: ignore[arg-type]
    found: set[RecomputeModule] = {"mla_up_proj"} if latents else {"core_attn"}
    return frozenset(found | {"core_attn"} if scores else found)


def module_rules(recompute: Recompute, named: Collection[str], shape: Shape) -> Iterator[Rule]:
    """What modules want that are named for selective recomputation: that it is asked for, and that the model has them."""
    if not named:
        return
    told = f"--recompute-modules, which --recompute {recompute} does not take"
    yield Rule(recompute == "selective", lambda: Problem("plan.recompute-modules", told, "use --recompute selective"))
    there = {
        "mla_up_proj": (shape.latent, "keys and values come from no latents"),
        "mlp": (bool(shape.widths), "no layer has a dense feed-forward part"),
        "moe": (shape.experts > 0, "it has no experts"),
        "moe_act": (shape.experts > 0, "it has no experts"),
        "shared_experts": (shape.shared, "no expert sees every token"),
    }
    missing = [f"{name} ({there[name][1]})" for name in named if name in there and not there[name][0]]
    if missing:
        told_missing = f"--recompute-modules: the model has no {', '.join(missing)}"
        yield Rule(False, lambda: Problem("plan.no-module", told_missing, "leave it out"))
