"""What does the backward pass of a layer do, given its forward pass: two products for each, attention's, and twice the streams?"""

from __future__ import annotations

from gpuplan.formulas.basic import product, repeated_bytes
from gpuplan.term import Term
from gpuplan.work import Attention, Matmul, Stream
from gpuplan.workload.counts import count
from gpuplan.workload.program import MASKED, LayerProgram, Op, Phase, Role


def backward(forward: LayerProgram, key: str, gradient: Term, *, frozen: bool = False) -> LayerProgram:
    """The backward work of a layer; `gradient` is the bytes of a weight's gradient.

    Each [m, k] x [k, n] product needs the gradient of its input, [m, n] x [n, k], and of its weights, [k, m] x [m, n], unless
    these are frozen.
    """
    return LayerProgram(tuple(made for op in forward.ops for made in _of(op, key, gradient, frozen=frozen)))


def _of(op: Op, key: str, gradient: Term, *, frozen: bool) -> list[Op]:
    """What the backward pass does for one operation."""
    name = op.called(Phase.BACKWARD, key)
    base = op.replaced(phase=Phase.BACKWARD, makes=(), matrices=())
    match op.item:
        case Matmul() if op.role in MASKED:
            return [base.replaced(item=item) for item in mask_gradients(op.item, name, weighted=op.role is Role.UNSLOTTED)]
        case Matmul():
            made = product_gradients(op.item, name, gradient, frozen=frozen)
            return [base.replaced(item=item) for item in made]
        case Attention():
            return [base.replaced(item=op.item.replaced(name=name, backward=True))]
        case Stream():
            twice = count("backward_scans" if op.item.scan else "backward_streams")
            size = repeated_bytes.term(f"{name}.traffic", count=twice, size=op.item.size)
            launches = product.term(f"{name}.launches", a=twice, b=op.item.launches)
            return [base.replaced(item=op.item.replaced(name=name, size=size, launches=launches))]
        case _:
            return [base.replaced(item=op.item.replaced(name=name))]


def mask_gradients(item: Matmul, name: str, *, weighted: bool) -> list[Matmul]:
    """The gradient of what a mask is multiplied with, and that of the mask where it holds weights."""
    found = [item.replaced(name=f"{name}_of_rows", m=item.k, k=item.m)]
    if weighted:
        found.append(item.replaced(name=f"{name}_of_mask", n=item.k, k=item.n))
    return found


def product_gradients(item: Matmul, name: str, gradient: Term, *, frozen: bool) -> list[Matmul]:
    """The gradient of a product's input, and that of its weights unless they are frozen."""
    of_input = item.replaced(name=f"{name}_dgrad", n=item.k, k=item.n)
    if frozen:
        return [of_input]
    of_weights = item.replaced(
        name=f"{name}_wgrad", m=item.k, k=item.m, right_bytes=item.left_bytes, out_bytes=gradient, sums_rows=True
    )
    return [of_input, of_weights]
