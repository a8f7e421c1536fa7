"""How much host memory and disk does offloading take for each accelerator, beside what is there?"""

from __future__ import annotations

from gpuplan.estimate.offload import offloaded_states, rank_bytes
from gpuplan.estimate.recipe import RecipeTerms
from gpuplan.estimate.share_of_layers import share_of_layers
from gpuplan.estimate.subject import Subject
from gpuplan.formulas.basic import repeated_bytes
from gpuplan.plan.train import TrainPlan
from gpuplan.term import Term, greatest, total
from gpuplan.workload.stages import Stage
from gpuplan.workload.training import TrainingWork


def host_figures(subject: Subject, plan: TrainPlan, work: TrainingWork, recipe: RecipeTerms) -> dict[str, Term]:
    """Bytes of offloaded tensors for each accelerator of the fullest stage, and what there is where it is known.

    Buffers of the engine beside them (DeepSpeed's own estimate takes half as much again) are not counted.
    """
    parts: dict[str, list[Term]] = {"host_memory": [], "disk": []}
    for stage in work.stages:
        for place, held in _held(subject, plan, work, recipe, stage).items():
            if held:
                parts[place].append(total(f"{stage.prefix}{place}.bytes", held))
    found: dict[str, Term] = {}
    for place, sizes in parts.items():
        if not sizes:
            continue
        found[f"{place}_bytes"] = sizes[0] if len(sizes) == 1 else greatest(f"{place}.bytes", sizes)
        have = subject.hw.host_memory if place == "host_memory" else subject.hw.disk_size
        if have is not None:
            found[f"{place}_capacity_bytes"] = have
    return found


def _held(subject: Subject, plan: TrainPlan, work: TrainingWork, recipe: RecipeTerms, stage: Stage) -> dict[str, dict[str, Term]]:
    """What one rank of a stage keeps in host memory and on disks."""
    at, zero, offload = f"{stage.prefix}offloaded", plan.parallel.zero_stage, plan.saving.offload
    found: dict[str, dict[str, Term]] = {"host_memory": {}, "disk": {}}
    states = found["disk" if plan.saving.on_disk else "host_memory"]
    if "optimizer" in offload:
        each = offloaded_states(recipe)
        states["optimizer"] = rank_bytes(f"{at}.optimizer", work, work.trained[stage.place], each, cut=zero >= 1)
    if "params" in offload:
        element = recipe.frozen or recipe.gathered
        states["params"] = rank_bytes(f"{at}.params", work, work.params[stage.place], element, cut=zero == 3)
        if recipe.frozen is not None:
            states["adapters"] = rank_bytes(f"{at}.adapters", work, work.trained[stage.place], recipe.weight, cut=zero == 3)
    kept = {
        key: repeated_bytes.term(f"{at}.kept.{key}", count=stage.layers[key], size=size)
        for key, block in work.blocks.items()
        if (size := block.saved if "activations" in offload else block.hosted) is not None
    }
    if kept:
        one = total(f"{at}.kept", kept)
        if plan.saving.offload_layers is not None:
            share = share_of_layers(at, subject, "offload_layers", plan.saving.offload_layers, stage)
            one = repeated_bytes.term(f"{at}.kept_of_some_layers", count=share, size=one)
        found["host_memory"]["activations"] = repeated_bytes.term(f"{at}.activations", count=stage.in_flight, size=one)
    return found
