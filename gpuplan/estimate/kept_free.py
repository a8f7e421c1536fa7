"""What does an allocator hold with no tensor in it in a training run, and what is beside the allocator?"""

from __future__ import annotations

from gpuplan.estimate.pricing import alone
from gpuplan.estimate.subject import Subject
from gpuplan.formulas.basic import product
from gpuplan.formulas.memory import excess_bytes, idle_blocks_bytes, spread_lengths_bytes
from gpuplan.formulas.training import allocator_bytes, between_ranks
from gpuplan.plan.train import TrainPlan
from gpuplan.specs.engine_training import TrainingProfile
from gpuplan.term import Term, total
from gpuplan.workload.training import TrainingWork

KEPT_FREE = ("fragmentation", "idle_blocks", "spread_lengths")
"""Parts that the allocator holds with no tensor in them."""


def kept_free(
    at: str, subject: Subject, profile: TrainingProfile, parts: dict[str, Term], allocated: Term, transient: dict[str, Term],
    outside: dict[str, Term],
) -> dict[str, Term]:  # fmt: skip
    """What the allocator keeps beside the tensors, and what is beside it: the context and communicators (`outside`).

    Temporaries of the optimizer's step that are as large as the model's tensors take blocks that are kept from before. `transient`
    is what passes at moments of their own.
    """
    step = parts.get("update_temporaries")
    without = {name: one for name, one in parts.items() if one is not step}
    before = allocated if step is None else total(f"{at}.tensors_before_step", without)
    kept = allocator_bytes.term(
        f"{at}.fragmentation" if step is None else f"{at}.fragmentation_before_step",
        allocated=before, fragmentation=subject.habit("fragmentation", subject.engine.fragmentation),
    )  # fmt: skip
    made = {"fragmentation": kept if step is None else excess_bytes.term(f"{at}.fragmentation", size=kept, beside=step)}
    made |= outside
    if profile.segments == "fixed" and len(transient) > 1:
        idle = idle_blocks_bytes.term(
            f"{at}.idle_blocks_before_step" if {"update_temporaries", "widened_gradients"} & parts.keys() else f"{at}.idle_blocks",
            together=total(f"{at}.transient_together", transient), largest=parts["transient"],
            needed=total(f"{at}.needed_at_once", parts | made, begun=allocated), capacity=subject.hw.seen_memory(),
        )  # fmt: skip
        # Gradients that the optimizer widens take the blocks that are free by then, before they need more.
        late = parts.get("widened_gradients") if step is None else step
        made["idle_blocks"] = idle if late is None else excess_bytes.term(f"{at}.idle_blocks", size=idle, beside=late)
    if profile.spread_lengths is None or "transient" not in parts:
        return made
    spread = spread_lengths_bytes.term(
        f"{at}.spread_lengths" if step is None else f"{at}.spread_lengths_before_step",
        transient=parts["transient"],
        share=subject.habit("spread_lengths", profile.spread_lengths),
        needed=total(f"{at}.needed", parts | made, begun=allocated),
        capacity=subject.hw.seen_memory(),
    )
    if step is not None:
        left = excess_bytes.term(f"{at}.step_beyond_kept", size=step, beside=kept)
        spread = excess_bytes.term(f"{at}.spread_lengths", size=spread, beside=left)
    return made | {"spread_lengths": spread}


def outside_allocator(subject: Subject, plan: TrainPlan, profile: TrainingProfile, work: TrainingWork) -> dict[str, Term]:
    """What the driver and the communicators hold beside the allocator.

    Every group of ranks that exchange something in each step has a communicator with buffers of its own (NCCL issues 864 and 986):
    those that share a layer, a sequence, experts or states, and those that share a model, over which the norm of gradients is
    summed. Stages of a pipeline send and receive, through one buffer that is shared by all who do (issue 1450).
    """
    found = {"context": subject.habit("context", subject.engine.context)}
    if not subject.hw.several():
        return found
    if profile.communicator is None:
        return found | {"communication": subject.habit("communication", subject.engine.communication)}
    each, degrees = subject.habit("communicator", profile.communicator), plan.parallel
    tp = subject.plan("tp", degrees.tp)
    ranks = {
        "tp": tp, "model": product.term("work.ranks_of_model", a=tp, b=subject.plan("pp", degrees.pp)),
        "cp": subject.plan("cp", degrees.cp), "ep": subject.plan("ep", degrees.ep), "dp": work.dense_ranks,
    }  # fmt: skip
    groups = {
        kind: between_ranks.term(f"memory.communicator.{kind}", size=each, ranks=many)
        for kind, many in ranks.items()
        if not alone(many)
    }
    return found | ({"communication": total("memory.communication", groups)} if groups else {})
