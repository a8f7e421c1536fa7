"""How long does the host take to turn queries and keys, and for each document of packed sequences?"""

from __future__ import annotations

from gpuplan.estimate.pricing import alone
from gpuplan.estimate.step_pricer import StepPricer
from gpuplan.formulas.basic import repeated_seconds
from gpuplan.formulas.documents import sliced_count
from gpuplan.formulas.training import shared_count
from gpuplan.specs.engine_policies import Rotary
from gpuplan.specs.quantity import Sourced
from gpuplan.term import Term
from gpuplan.workload.counts import count
from gpuplan.workload.documents import packed_documents
from gpuplan.workload.training import BlockWork


def document_seconds(pricer: StepPricer, key: str, block: BlockWork, passes: Term, *, again: bool) -> dict[str, Term]:
    """Host time of a layer and micro-batch in all its passes, `again` with the forward pass once more; empty where there is none.

    `rotary` is that of turning queries and keys operator by operator, for all sequences or for one document after the other;
    `slices` that of putting the slices of documents in order that ranks exchange for heads.
    """
    held, parts = pricer.profile.host, {}
    if not block.forward.attentions:
        return {}
    at = f"layer.{key}.issue" + ("_with_again" if again else "")
    documents = packed_documents(pricer.plan, pricer.step)
    if held.rotary is not None and float(pricer.subject.counts.params_total.value) not in held.rotary.fused_of:
        parts["rotary"] = _turned(pricer, at, held.rotary, documents, passes)
    if held.slice is not None and documents is not None and pricer.plan.parallel.cp_kind == "ulysses" and not alone(pricer.step.cp):
        parts["slices"] = _sliced(pricer, at, held.slice, documents, again=again)
    return parts


def _turned(pricer: StepPricer, at: str, habit: Rotary, documents: Term | None, passes: Term) -> Term:
    """Host time of turning queries and keys."""
    times = passes if documents is None or habit.documents == "all" else pricer.leaves.times(f"{at}.turned", documents, passes)
    return repeated_seconds.term(f"{at}.rotary", count=times, seconds=pricer.subject.habit("rotary_host", habit.host))


def _sliced(pricer: StepPricer, at: str, plain: Sourced, documents: Term, *, again: bool) -> Term:
    """Host time of finding the slices of documents."""
    often = count("sliced_tensors_recomputed" if again else "sliced_tensors")
    tensors = shared_count.term(f"{at}.sliced", count=often, ranks=pricer.step.cp)
    slices = sliced_count.term(
        f"{at}.slices", documents=documents, tensors=tensors, ranks=pricer.step.cp, each=count("slices_a_rank")
    )
    return repeated_seconds.term(f"{at}.slicing", count=slices, seconds=pricer.subject.habit("slice_host", plain))
