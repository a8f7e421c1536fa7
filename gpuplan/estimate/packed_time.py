"""What does it take to turn queries and keys operator by operator, and what does the host take for each packed document?"""

from __future__ import annotations

from gpuplan.estimate.pricing import alone
from gpuplan.estimate.step_pricer import StepPricer
from gpuplan.formulas.basic import repeated_seconds
from gpuplan.formulas.documents import sliced_count
from gpuplan.formulas.layers import layer_stream_bytes
from gpuplan.formulas.training import shared_count
from gpuplan.plan.precision import RECIPES, byte
from gpuplan.specs.engine_policies import Rotary
from gpuplan.specs.quantity import Sourced
from gpuplan.term import Term, total
from gpuplan.work import Stream
from gpuplan.workload.context import ONE
from gpuplan.workload.counts import count
from gpuplan.workload.documents import packed_documents
from gpuplan.workload.program import Role
from gpuplan.workload.training import BlockWork


def document_seconds(pricer: StepPricer, key: str, block: BlockWork, passes: Term, *, again: bool) -> dict[str, Term]:
    """Host time of a layer and micro-batch in all its passes, `again` with the forward pass once more; empty where there is none.

    `rotary` is that of turning queries and keys operator by operator, for all sequences or for one document after the other;
    `slices` that of putting the slices of documents in order that ranks exchange for heads.
    """
    held, leaves, parts = pricer.profile.host, pricer.leaves, {}
    if not block.forward.attentions:
        return {}
    at = f"layer.{key}.issue" + ("_with_again" if again else "")
    documents = packed_documents(pricer.plan, pricer.step)
    rotary = turned_apart(pricer)
    if rotary is not None and rotary.host is not None:
        times = passes if documents is None or rotary.documents == "all" else leaves.times(f"{at}.turned", documents, passes)
        parts["rotary"] = repeated_seconds.term(
            f"{at}.rotary", count=times, seconds=pricer.subject.habit("rotary_host", rotary.host)
        )
    if held.slice is not None and documents is not None and pricer.plan.parallel.cp_kind == "ulysses" and not alone(pricer.step.cp):
        parts["slices"] = _sliced(pricer, at, held.slice, documents, again=again)
    return parts


def turned_apart(pricer: StepPricer) -> Rotary | None:
    """How the engine turns queries and keys of this model operator by operator; None: one kernel does, or nothing is turned."""
    rotary = pricer.profile.host.rotary
    return None if rotary is None or float(pricer.subject.counts.params_total.value) in rotary.fused_of else rotary


def turning_streams(pricer: StepPricer, phase: str, key: str, block: BlockWork) -> list[Stream]:
    """What the operators that turn queries and keys read and write in a layer beyond one kernel; latent attention turns little."""
    rotary = turned_apart(pricer)
    habit = None if rotary is None else rotary.passes_backward if phase == "backward" else rotary.passes
    if habit is None or not block.forward.attentions or block.forward.of(Role.KEY_VALUE_UP).ops:
        return []
    at, core = f"{phase}.{key}.rotary", block.forward.attentions[0]
    name = "rotary_passes_backward" if phase == "backward" else "rotary_passes"
    heads = total(f"{at}.heads", {"queries": core.heads, "keys": core.kv_heads})
    size = layer_stream_bytes.term(
        f"{at}.bytes", tokens=pricer.work.tokens, width=pricer.leaves.times(f"{at}.width", heads, core.k_dim),
        passes=pricer.subject.habit(name, habit), ways=ONE,
        element_bytes=byte("recipe.activation_bytes", RECIPES[pricer.plan.precision].activation),
    )  # fmt: skip
    return [Stream(name=at, size=size, launches=pricer.leaves(f"{key}.turned_tensors", 2))]


def _sliced(pricer: StepPricer, at: str, plain: Sourced, documents: Term, *, again: bool) -> Term:
    """Host time of finding the slices of documents."""
    often = count("sliced_tensors_recomputed" if again else "sliced_tensors")
    tensors = shared_count.term(f"{at}.sliced", count=often, ranks=pricer.step.cp)
    slices = sliced_count.term(
        f"{at}.slices", documents=documents, tensors=tensors, ranks=pricer.step.cp, each=count("slices_a_rank")
    )
    return repeated_seconds.term(f"{at}.slicing", count=slices, seconds=pricer.subject.habit("slice_host", plain))
