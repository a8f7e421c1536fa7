"""What is an engine on an accelerator: refused where its releases do not run there, at the pace of its attention."""

from __future__ import annotations

from gpuplan.errors import Problem, UsageError
from gpuplan.specs.accelerator import Accelerator
from gpuplan.specs.engine import Engine
from gpuplan.specs.training_habits import Pace

FLASH2 = "fsdp"
"""The engine whose measured attention is FlashAttention-2's."""


def refuse_elsewhere(engine: Engine, chip: Accelerator, whole: Engine) -> None:
    """Refuse an engine on accelerators that it does not run on; `whole` has all of its releases.

    Raises:
        UsageError: it runs on those of others alone.
    """
    said = engine.refused_by(chip.vendor, chip.family)
    if said is not None:
        what = f"{engine.name} does not run on {chip.name} ({engine.source_of(said).title})"
        last = whole.last_on(chip.vendor, chip.family)
        hint = "leave --engine out, and one that does is taken"
        if last is not None:
            what += f": {last} is the last release on record that did"
            hint = f"`--engine {engine.id}@{last}`; or {hint}"
        raise UsageError(Problem("engine.elsewhere", what, hint))


def paced_by_flash2(engine: Engine, theirs: Engine, family: str) -> Engine:
    """An engine whose attention is FlashAttention-2's: its kernels where they are measured, else its pace, if `engine` has none."""
    made = engine.replaced(attention_like=FLASH2)
    if engine.training is None or theirs.training is None or (told := theirs.training.pace.get(family)) is None:
        return made
    own = engine.training.pace.get(family, Pace())
    if told.attention is None or told.attention_backward is None or own.attention is not None:
        return made
    paced = own.replaced(attention=told.attention, attention_backward=told.attention_backward)
    sources = {key: theirs.sources[key] for key in (told.attention.source, told.attention_backward.source) if key is not None}
    training = engine.training.replaced(pace={**engine.training.pace, family: paced})
    return made.replaced(training=training, sources={**sources, **engine.sources})
