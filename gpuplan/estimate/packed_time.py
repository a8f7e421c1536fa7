"""How long does the host take for each document of packed sequences, where an engine goes through them one by one?"""

from __future__ import annotations

from gpuplan.estimate.pricing import alone
from gpuplan.estimate.step_pricer import StepPricer
from gpuplan.formulas.basic import repeated_seconds
from gpuplan.formulas.documents import sliced_count
from gpuplan.formulas.training import shared_count
from gpuplan.term import Term
from gpuplan.workload.counts import count
from gpuplan.workload.documents import packed_documents
from gpuplan.workload.training import BlockWork


def document_seconds(pricer: StepPricer, key: str, block: BlockWork, passes: Term, *, again: bool) -> dict[str, Term]:
    """Host time of a layer and micro-batch for its documents, in all its passes, `again` with the forward pass once more.

    Empty where sequences are whole or padded, the layer attends to nothing, or the engine takes all documents at once.
    """
    habits, parts = pricer.profile.host.packed, {}
    if habits is None or not block.forward.attentions:
        return {}
    documents = packed_documents(pricer.plan, pricer.step)
    if documents is None:
        return {}
    at = f"layer.{key}.issue" + ("_with_again" if again else "")
    if habits.rotary is not None and float(pricer.subject.counts.params_total.value) not in habits.together:
        turned = pricer.leaves.times(f"{at}.turned", documents, passes)
        each = pricer.subject.habit("document_rotary", habits.rotary)
        parts["rotary"] = repeated_seconds.term(f"{at}.rotary", count=turned, seconds=each)
    if habits.slice is not None and pricer.plan.parallel.cp_kind == "ulysses" and not alone(pricer.step.cp):
        tensors = shared_count.term(
            f"{at}.sliced", count=count("sliced_tensors_recomputed" if again else "sliced_tensors"), ranks=pricer.step.cp
        )
        slices = sliced_count.term(
            f"{at}.slices", documents=documents, tensors=tensors, ranks=pricer.step.cp, each=count("slices_a_rank")
        )
        each = pricer.subject.habit("document_slice", habits.slice)
        parts["slices"] = repeated_seconds.term(f"{at}.slicing", count=slices, seconds=each)
    return parts
