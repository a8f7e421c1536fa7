"""How does an engine serve on accelerators of this size, where it takes other limits on small and on large ones?"""

from __future__ import annotations

from gpuplan.errors import Problem, UsageError
from gpuplan.machine.hardware import Hardware
from gpuplan.num import agreed
from gpuplan.specs.engine import Engine, ServingProfile


def serving_profile(engine: Engine, hw: Hardware) -> ServingProfile:
    """How an engine serves on accelerators, which may count as small or as large ones.

    Raises:
        UsageError: the engine only trains.
    """
    profile = engine.serving
    if profile is None:
        hint = "leave --engine out and the usual one is taken; most serve with `vllm`, or on their own computer with `llama-cpp`"
        raise UsageError(Problem("engine.no-serving", f"the engine `{engine.id}` does not serve", hint))
    small, large = profile.small_device, profile.large_device
    if small is not None:
        named = hw.asked("small device", lambda one: one.accelerator in small.too)
        if named or not agreed(hw.memory_capacity.value >= small.below.value):
            return profile.replaced(max_batched_tokens=small.max_batched_tokens, max_sequences=small.max_sequences)
    if large is not None and agreed(hw.memory_capacity.value >= large.above.value):
        return profile.replaced(max_batched_tokens=large.max_batched_tokens)
    return profile
