"""What is set of an engine that serves, by the plan or by its habit: skew of experts, limits, kernels of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from gpuplan.estimate.subject import Subject
from gpuplan.formulas.basic import larger
from gpuplan.plan.parallelism import Parallelism
from gpuplan.plan.serve import ServePlan
from gpuplan.specs.engine import ServingProfile
from gpuplan.specs.quantity import Sourced
from gpuplan.term import Term
from gpuplan.workload.context import OwnKernels
from gpuplan.workload.counts import count

if TYPE_CHECKING:
    from gpuplan.estimate.serving import ServingModel


def skew_of(subject: Subject, parallel: Parallelism) -> Term | None:
    """The user's skew of the router, or the usual one; None where it is even."""
    if parallel.expert_skew is None:
        return count("expert_skew")
    return subject.plan("expert_skew", parallel.expert_skew) if parallel.expert_skew > 1.0 else None


Quantity: TypeAlias = Literal["max_sequences", "max_batched_tokens", "memory_utilization", "page_tokens"]
"""What a plan may set of an engine's profile."""


def set_or_habit(subject: Subject, plan: ServePlan, name: Quantity, habit: Sourced) -> Term:
    """What the plan sets, or the engine's habit."""
    given = getattr(plan.settings, name)
    return subject.habit(name, habit) if given is None else subject.plan(name, given)


def own_kernels(subject: Subject, profile: ServingProfile) -> OwnKernels:
    """What the engine launches for some kinds of layers."""
    state, norm = profile.state_kernels, profile.norm_kernels
    return OwnKernels(
        state=None if state is None else subject.habit("state_kernels", state),
        norm=None if norm is None else subject.habit("norm_kernels", norm), states_apart=profile.states_apart,
    )  # fmt: skip


def of_longest(tokens: Term, model: ServingModel) -> Term:
    """Tokens of a pass at most, with room for the longest sequence where the engine cuts none of such a model."""
    whole, arch, given = model.profile.whole_encoders, model.subject.arch, model.plan.settings.max_context
    if whole is None or whole.passes is None or arch.decoder.kind != "encoder":
        return tokens
    if model.plan.settings.max_batched_tokens is not None or (arch.max_context is None and given is None):
        return tokens
    longest = model.subject.plan("max_context", given) if given is not None else model.leaves("max_context", arch.max_context or 0)
    return larger.term("pass.tokens", a=tokens, b=longest)
