"""What of the activations stays on the accelerator where those of some layers, or of all, wait in the host's memory?"""

from __future__ import annotations

from gpuplan.estimate.recipe import training_profile
from gpuplan.estimate.share_of_layers import share_of_layers
from gpuplan.estimate.subject import Subject
from gpuplan.formulas.basic import difference, repeated_bytes
from gpuplan.plan.train import TrainPlan
from gpuplan.record import replace
from gpuplan.term import Term, greatest, total
from gpuplan.workload.context import ONE
from gpuplan.workload.stages import Stage
from gpuplan.workload.training import TrainingWork


def left_here(at: str, subject: Subject, plan: TrainPlan, work: TrainingWork, stage: Stage, one: Term) -> Term:
    """What stays of the activations of a micro-batch (`one`) where those of some layers, or of all, wait with the host."""
    passing = greatest(f"{at}.activations.passing", {key: block.saved for key, block in work.blocks.items()})
    layers, stays = plan.saving.offload_layers, dict[str, Term]()
    share = ONE if layers is None else share_of_layers(f"{at}.activations", subject, "offload_layers", layers, stage)
    if layers is not None:
        stay = difference.term(f"{at}.activations.stay", whole=ONE, part=share)
        stays["layers"] = repeated_bytes.term(f"{at}.activations.of_layers_that_stay", count=stay, size=one)
    plain = {key: block.of_operators for key, block in work.blocks.items() if block.of_operators is not None}
    if plain and training_profile(subject.engine).offloaded == "of-modules":
        name = f"{at}.activations.of_operators"
        whole = total(
            f"{name}.of_all",
            {key: repeated_bytes.term(f"{name}.{key}", count=stage.layers[key], size=size) for key, size in plain.items()},
        )
        stays["operators"] = repeated_bytes.term(name, count=share, size=whole)
    if not stays:
        return replace(passing, name=f"{at}.activations")
    flying = repeated_bytes.term(
        f"{at}.activations.in_flight", count=stage.in_flight, size=total(f"{at}.activations.that_stay", stays)
    )
    return total(f"{at}.activations", {"here": flying, "passing": passing})
