"""What does an engine do that writes narrow weights out in 16 bits before a product of many tokens?"""

from __future__ import annotations

from collections.abc import Iterator

from gpuplan.formulas.kernels import written_out_bytes
from gpuplan.num import agreed, all_true
from gpuplan.specs.quantity import Sourced
from gpuplan.term import Term
from gpuplan.work import Matmul, Stream
from gpuplan.workload.context import ONE
from gpuplan.workload.program import LayerProgram, Op, Role
from gpuplan.workload.serving import PassWork, weighted


def written_out(work: PassWork, tokens: Term, above: Sourced | None) -> PassWork:
    """The work of a pass of so many tokens, whose weights are widened by kernels of their own where there are more than `above`.

    Products of the layers are then of values as wide as what they multiply; the head is in 16 bits already. None: kernels widen
    weights on their way.

    Raises:
        Apart: some of several passes have more, and others have not.
    """
    if above is None or not agreed(tokens.value > above.value):
        return work
    return work.replaced(layers={key: LayerProgram(tuple(_ops(layer))) for key, layer in work.layers.items()})


def _ops(layer: LayerProgram) -> Iterator[Op]:
    for op in layer.ops:
        item = op.item
        if not isinstance(item, Matmul) or not weighted(op) or not all_true(item.right_bytes.value < item.left_bytes.value):
            yield op
            continue
        size = written_out_bytes.term(
            f"{item.name}.written_out_bytes", n=item.n, k=item.k, batch=item.batch, stored=item.right_bytes, wide=item.left_bytes
        )
        stream = Stream(name=f"{item.name}.written_out", size=size, launches=ONE)
        yield Op(role=Role.WRITTEN_OUT, part=op.part, phase=op.phase, item=stream)
        yield op.replaced(item=item.replaced(right_bytes=item.left_bytes, coded=False, micro=False))
