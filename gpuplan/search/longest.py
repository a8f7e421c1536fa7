"""How long may a sequence be where a plan fits?"""

from __future__ import annotations

from gpuplan.estimate.serving import ServingModel
from gpuplan.estimate.subject import Subject
from gpuplan.plan.serve import ServePlan
from gpuplan.term import Source, Term

MODEL = Source("model-card", "all that the model was made for, which fits")
ROOM = Source("derived", "as many as fit")
ASKED = Source("derived", "as was asked, beyond what the model was made for")
STEPS = 64
"""What is told is one of so many steps of the last doubling."""


def longest_tokens(subject: Subject, plan: ServePlan) -> Term | None:
    """The longest context that each sequence of a plan that fits may have, at most what its model was made for.

    None: it remembers nothing, or nobody knows what it was made for.
    """
    limit = subject.arch.max_context
    if limit is None or not subject.arch.remembers:
        return None

    def fits(context: float) -> bool:
        memory = ServingModel.of(subject, plan.replaced(context=float(context), queues=False)).memory()
        return bool(memory.needed.value <= memory.budget.value)

    start = float(plan.context)
    if start > limit:
        return Term("longest_tokens", start, "1", ASKED)
    if fits(limit):
        return Term("longest_tokens", float(limit), "1", MODEL)
    low, high = start, float(limit)
    while low * 2 < high and fits(low * 2):
        low *= 2
    high, step = min(high, low * 2), low / STEPS
    while high - low > step:
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle // 1) else (low, middle)
    return Term("longest_tokens", low // 1, "1", ROOM)
