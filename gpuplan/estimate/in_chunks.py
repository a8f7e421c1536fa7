"""Does an engine cut prompts that it usually reads whole, and what does it do otherwise then?"""

from __future__ import annotations

from gpuplan.models.architecture import Architecture
from gpuplan.models.mixers import Attention
from gpuplan.num import all_true
from gpuplan.plan.serve import ServePlan
from gpuplan.specs.engine import ServingProfile


def in_chunks(profile: ServingProfile, arch: Architecture, plan: ServePlan) -> ServingProfile:
    """The profile of an engine as it serves a model under a plan.

    An engine that cuts prompts by itself looks at the longest sequence that it accepts, which is that of the plan where nobody says
    another. It reads them whole where it takes several steps without a look at new requests.
    """
    own, settings = profile.in_chunks, plan.settings
    if own is None:
        return profile
    cuts = settings.chunked_prefill
    if cuts is None:
        longest = settings.max_context or plan.context
        able = plan.drafting is None and settings.recv_interval is None and _able(arch)
        cuts = able and own.above is not None and all_true(longest > own.above.value)
    return profile.replaced(schedule=own.schedule, max_batched_tokens=own.max_batched_tokens) if cuts else profile


def _able(arch: Architecture) -> bool:
    """Whether an engine cuts prompts of a model by itself: kernels of windows, states, latents and images did not read on."""
    return arch.vision is None and all(isinstance(one, Attention) and one.window is None for one in arch.mixers)
