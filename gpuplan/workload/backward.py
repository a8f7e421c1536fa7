"""What the backward pass of a layer does, given its forward pass: two matmuls for each, attention's, and twice the streams."""

from __future__ import annotations

from gpuplan.formulas.basic import repeated_bytes
from gpuplan.term import Term
from gpuplan.work import Attention, Matmul, Stream
from gpuplan.workload.context import Leaves
from gpuplan.workload.counts import count
from gpuplan.workload.layer import LayerWork


def backward(
    work: LayerWork, leaves: Leaves, old: str, new: str, gradient: Term, *, frozen: bool = False
) -> LayerWork:  # fmt: skip
    """The backward work of a layer; `old` and `new` are the prefixes of names, `gradient` the bytes of a weight gradient.

    Each [m, k] x [k, n] product needs the gradient of its input, [m, n] x [n, k], and of its weights, [k, m] x [m, n], unless
    these are frozen.
    """

    def name(text: str) -> str:
        return text.replace(old, new, 1)

    matmuls: list[Matmul] = []
    for item in work.matmuls:
        of_input = item.replaced(name=f"{name(item.name)}_dgrad", n=item.k, k=item.n)
        of_weights = item.replaced(
            name=f"{name(item.name)}_wgrad", m=item.k, k=item.m, right_bytes=item.left_bytes, out_bytes=gradient
        )
        matmuls += [of_input] if frozen else [of_input, of_weights]
    attentions: list[Attention] = [item.replaced(name=name(item.name), backward=True) for item in work.attentions]
    twice = count("backward_streams")
    streams = [
        Stream(
            name=name(item.name),
            size=repeated_bytes.term(f"{name(item.name)}.traffic", count=twice, size=item.size),
            launches=leaves.times(f"{name(item.name)}.launches", twice, item.launches),
        )
        for item in work.streams
    ]
    again = [item.replaced(name=name(item.name)) for item in work.tensor_collectives]
    experts = [item.replaced(name=name(item.name)) for item in work.expert_collectives]
    return LayerWork(matmuls, attentions, streams, again, experts)
