"""What does an allocator hold with no tensor in it in a training run, and what is beside the allocator?"""

from __future__ import annotations

from gpuplan.estimate.subject import Subject
from gpuplan.formulas.memory import excess_bytes, idle_blocks_bytes, spread_lengths_bytes
from gpuplan.formulas.training import allocator_bytes
from gpuplan.specs.engine_training import TrainingProfile
from gpuplan.term import Term, total

KEPT_FREE = ("fragmentation", "idle_blocks", "spread_lengths")
"""Parts that the allocator holds with no tensor in them."""


def kept_free(
    at: str, subject: Subject, profile: TrainingProfile, parts: dict[str, Term], allocated: Term, transient: dict[str, Term]
) -> dict[str, Term]:  # fmt: skip
    """What the allocator keeps beside the tensors, and what is beside it: the context and communicators.

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
    made |= outside_allocator(subject)
    if profile.segments == "fixed" and len(transient) > 1:
        idle = idle_blocks_bytes.term(
            f"{at}.idle_blocks_before_step" if {"update_temporaries", "widened_gradients"} & parts.keys() else f"{at}.idle_blocks",
            together=total(f"{at}.transient_together", transient), largest=parts["transient"],
            needed=total(f"{at}.needed_at_once", parts | made, begun=allocated), capacity=subject.hw.memory_capacity,
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
        capacity=subject.hw.memory_capacity,
    )
    if step is not None:
        left = excess_bytes.term(f"{at}.step_beyond_kept", size=step, beside=kept)
        spread = excess_bytes.term(f"{at}.spread_lengths", size=spread, beside=left)
    return made | {"spread_lengths": spread}


def outside_allocator(subject: Subject) -> dict[str, Term]:
    """What the driver and the communicators hold beside the allocator."""
    found = {"context": subject.habit("context", subject.engine.context)}
    if subject.hw.several():
        found["communication"] = subject.habit("communication", subject.engine.communication)
    return found
