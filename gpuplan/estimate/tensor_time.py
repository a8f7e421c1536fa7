"""How long do tensor-parallel ranks take for what they exchange in a layer?"""

from __future__ import annotations

from collections.abc import Iterator

from gpuplan.estimate.pricing import alone, exposed, happens, priced
from gpuplan.estimate.step_pricer import StepPricer
from gpuplan.formulas.basic import smaller
from gpuplan.formulas.layers import joined_bytes, parted_bytes
from gpuplan.formulas.training import shared_count
from gpuplan.plan.precision import RECIPES
from gpuplan.term import Term, total
from gpuplan.work import Collective, Stream
from gpuplan.workload.context import ONE
from gpuplan.workload.program import LayerProgram


def tensor_seconds(pricer: StepPricer, name: str, work: LayerProgram) -> Term:
    """What is exchanged and not hidden, with the copies of hidden states that engines make which keep the batch first."""
    items, hw, over = work.tensor_collectives, pricer.subject.hw, pricer.profile.overlap.tp_over
    if over and not hw.asked("tensor overlap", lambda one: not one.levels or one.levels[0].topology in over):
        travelled = priced(name, items, hw)
    else:
        travelled = exposed(name, items, hw, pricer.subject.habit("tp_overlap", pricer.profile.overlap.tp))
    # Products that gather or scatter as they go read and write each part where it is.
    fused = "tp" in (pricer.plan.how.overlap or ())
    if pricer.profile.tensor.layout != "batch-first" or fused:
        return travelled
    copies = [copy for item in items for copy in copied(pricer, item)]
    if not copies:
        return travelled
    made = priced(f"{name}.copies", copies, pricer.subject.hw)
    return total(f"{name}.with_copies", {"exchange": travelled, "copies": made}) if happens(made) else travelled


def copied(pricer: StepPricer, item: Collective) -> Iterator[Stream]:
    """The copies behind a gather and before a scatter along the sequence: of a sum over ranks that shard it, both."""
    if alone(item.group):
        return
    both = item.kind == "all_reduce" and pricer.plan.parallel.sequence_parallel
    # Where products are of 8 bits or fewer, the kernel that casts what was gathered reads it wherever it is.
    cast = RECIPES[pricer.plan.precision].matmul not in ("bf16", "fp16", "tf32", "fp32")
    if (both or item.kind == "all_gather") and not cast:
        name, sequences = f"{item.name}.joined", pricer.step.micro_batch
        size = joined_bytes.term(f"{name}.bytes", size=item.size, group=item.group, sequences=sequences)
        several = smaller.term(f"{name}.several", a=sequences, b=item.group)
        yield Stream(name=name, size=size, launches=shared_count.term(f"{name}.launches", count=ONE, ranks=several))
    if both or item.kind == "reduce_scatter":
        name = f"{item.name}.parted"
        size = parted_bytes.term(f"{name}.bytes", size=item.size, group=item.group)
        yield Stream(name=name, size=size, launches=shared_count.term(f"{name}.launches", count=ONE, ranks=item.group))
