"""How much memory do tensors take that stand in for gradients, where matmuls add these to the sums themselves?"""

from __future__ import annotations

from gpuplan.estimate.subject import Subject
from gpuplan.formulas.basic import product, repeated_bytes
from gpuplan.plan.train import TrainPlan
from gpuplan.specs.engine_training import TrainingProfile
from gpuplan.term import Term, greatest, total
from gpuplan.workload.training import TrainingWork


def stand_in_bytes(at: str, subject: Subject, plan: TrainPlan, profile: TrainingProfile, work: TrainingWork) -> Term | None:
    """What is handed to autograd in place of gradients: one tensor for each shape of a matrix, for the whole run; None: nothing is.

    Matrices of one name are alike in all layers and experts.
    """
    each = profile.gradients.stand_ins
    if each is None or plan.tuning.frozen:
        return None
    alike: dict[str, list[Term]] = {}
    for key, block in work.blocks.items():
        for one in block.forward.matrices:
            size = product.term(f"rank_params.{one.name}.shape", a=one.fan_in, b=one.fan_out)
            alike.setdefault(one.name.removeprefix(f"{key}."), []).append(size)
    if not alike:
        return None
    shapes = total("rank_params.shapes", {name: greatest(f"rank_params.{name}.shape", sizes) for name, sizes in alike.items()})
    return repeated_bytes.term(f"{at}.gradient_stand_ins", count=shapes, size=subject.habit("gradient_stand_ins", each))
