"""Does an engine cut prompts that it usually reads whole, and what does it do otherwise then?"""

from __future__ import annotations

from collections.abc import Callable

from gpuplan.models.architecture import Architecture
from gpuplan.models.mixers import Attention
from gpuplan.num import all_true
from gpuplan.plan.serve import ServePlan
from gpuplan.specs.engine import ServingProfile


def in_chunks(profile: ServingProfile, arch: Architecture, plan: ServePlan, holds: Callable[[float], bool]) -> ServingProfile:
    """The profile of an engine as it serves a model under a plan.

    An engine that cuts prompts by itself looks at the longest sequence that it accepts: the model's own where nobody says another
    and its caches hold one of that, or else that of the plan, since it does not start without room for one. It reads prompts whole
    where it takes several steps without a look at new requests.
    """
    own, settings = profile.in_chunks, plan.settings
    if own is None:
        return profile
    cuts = settings.chunked_prefill
    if cuts is None:
        able = plan.drafting is None and settings.recv_interval is None and _able(arch)
        cuts = able and own.above is not None and _longer(own.above.value, arch, plan, holds)
    return profile.replaced(schedule=own.schedule, max_batched_tokens=own.max_batched_tokens) if cuts else profile


def _longer(most: float, arch: Architecture, plan: ServePlan, holds: Callable[[float], bool]) -> bool:
    """Whether the longest sequence that is accepted has more tokens than that."""
    given, own = plan.settings.max_context, arch.max_context
    if given is None and own is not None and own > most and holds(own):
        return True
    return all_true((plan.context if given is None else given) > most)


def _able(arch: Architecture) -> bool:
    """Whether an engine cuts prompts of a model by itself: kernels of windows, states, latents and images did not read on."""
    return arch.vision is None and all(isinstance(one, Attention) and one.window is None for one in arch.mixers)
