"""What does one stage of a pipeline hand to the next for a micro-batch, and which ranks are neighbours in it?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuplan.formulas.basic import product
from gpuplan.formulas.memory import tensor_bytes
from gpuplan.formulas.stages import farthest_stage, pipeline_peers, regathering_ranks
from gpuplan.term import Term
from gpuplan.work import Collective
from gpuplan.workload.context import ONE, Leaves, Split, Types

if TYPE_CHECKING:
    from gpuplan.workload.training import StepTerms


def regathered(leaves: Leaves, split: Split, step: StepTerms, types: Types, tokens: Term) -> Collective:
    """The gather of hidden states over tensor parallel ranks that each received a part of them."""
    size = tensor_bytes.term("pipeline.gathered_bytes", tokens=tokens, width=leaves.hidden, element_bytes=types.activation)
    group = regathering_ranks.term("pipeline.gathering_ranks", tp=step.tp, pp=step.pp)
    return Collective(name="pipeline.gather", kind="all_gather", size=size, group=group, stride=ONE)


def hand_over(
    leaves: Leaves, split: Split, step: StepTerms, types: Types, tokens: Term, *, in_parts: bool, inside: bool
) -> Collective:  # fmt: skip
    """What one stage sends to the next for a micro-batch: the hidden states, in parts under sequence parallelism.

    `inside`: the stages of a replica are neighbours; otherwise all replicas of a stage lie between it and the next.
    """
    width = leaves.split("pipeline.width", leaves.hidden, step.tp if in_parts else split.sp)
    size = tensor_bytes.term("pipeline.bytes", tokens=tokens, width=width, element_bytes=types.activation)
    stride = product.term("pipeline.tp_cp", a=step.tp, b=step.cp)
    if not inside:
        stride = product.term("pipeline.stride", a=stride, b=step.dp)
    stride = farthest_stage.term("pipeline.farthest", stride=stride, pp=step.pp)
    group = pipeline_peers.term("pipeline.peers", pp=step.pp)
    return Collective(name="pipeline.send", kind="broadcast", size=size, group=group, stride=stride)
