"""What does an engine do that widens narrow weights before a product of many tokens, or anew for each block of its rows?"""

from __future__ import annotations

from collections.abc import Iterator

from gpuplan.formulas.basic import product, share
from gpuplan.formulas.kernels import widened_first, widened_first_bytes, widened_times, written_out_bytes
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


def widened_by_blocks(work: PassWork, tokens: Term, rows: Term | None, whole_from: Term) -> PassWork:
    """The work of a pass of so many tokens in AWQ's own kernels, for any number of them at once.

    Of `whole_from` tokens and more a kernel of its own widens the weights before a product; of fewer, each block of `rows` widens
    them anew. None: no product has fewer. Experts, the head and what is stored wide are as they were.
    """
    return work.replaced(
        layers={key: LayerProgram(tuple(_by_blocks(layer, tokens, rows, whole_from))) for key, layer in work.layers.items()}
    )


def _by_blocks(layer: LayerProgram, tokens: Term, rows: Term | None, whole_from: Term) -> Iterator[Op]:
    for op in layer.ops:
        item = op.item
        if not isinstance(item, Matmul) or item.grouped or not _narrow(op, item):
            yield op
            continue
        kernels = widened_first.term(f"{item.name}.widened_first", tokens=tokens, whole_from=whole_from)
        size = widened_first_bytes.term(
            f"{item.name}.widened_bytes", kernels=kernels, n=item.n, k=item.k, batch=item.batch, wide=item.left_bytes
        )
        stream = Stream(name=f"{item.name}.widened", size=size, launches=kernels)
        yield Op(role=Role.WRITTEN_OUT, part=op.part, phase=op.phase, item=stream)
        if rows is not None:
            times = widened_times.term(f"{item.name}.widened_times", tokens=tokens, rows=rows, whole_from=whole_from)
            each = share.term(f"{item.name}.block_rows", amount=item.m, ways=times)
            item = item.replaced(m=each, batch=product.term(f"{item.name}.blocks", a=item.batch, b=times))
        yield op.replaced(item=item)


def _narrow(op: Op, item: Matmul) -> bool:
    """Whether a product is of weights that are stored narrower than they are multiplied."""
    return weighted(op) and all_true(item.right_bytes.value < item.left_bytes.value)


def _ops(layer: LayerProgram) -> Iterator[Op]:
    for op in layer.ops:
        item = op.item
        if not isinstance(item, Matmul) or not _narrow(op, item):
            yield op
            continue
        size = written_out_bytes.term(
            f"{item.name}.written_out_bytes", n=item.n, k=item.k, batch=item.batch, stored=item.right_bytes, wide=item.left_bytes
        )
        stream = Stream(name=f"{item.name}.written_out", size=size, launches=ONE)
        yield Op(role=Role.WRITTEN_OUT, part=op.part, phase=op.phase, item=stream)
        yield op.replaced(item=item.replaced(right_bytes=item.left_bytes, coded=False, micro=False))
