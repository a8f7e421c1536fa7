"""What happens before the first layer and behind the last one on one rank: embedding, head and loss?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from gpuplan.formulas.basic import product, repeated_bytes, share
from gpuplan.formulas.layers import sliced_bytes
from gpuplan.formulas.memory import logits_bytes, tensor_bytes
from gpuplan.models.architecture import Architecture, Block, Mlp
from gpuplan.record import Record
from gpuplan.term import Term, total
from gpuplan.work import Collective, Matmul, Stream
from gpuplan.workload.activations import Habits
from gpuplan.workload.backward import backward
from gpuplan.workload.context import ONE, Types
from gpuplan.workload.counts import count
from gpuplan.workload.layer import LayerMaker, LayerWork

QKV = 3
"""Matrices that read the input of attention."""


class EdgeWays(NamedTuple):
    """How many tensor parallel ranks share the embedding, and the head; whether they gather the logits for the loss."""

    embedding: Term
    head: Term
    gathered: bool = False
    paired: bool = False
    """Each rank has a stage of both ends (DualPipe), and so the embedding already where modules of the last stage read it."""

    @classmethod
    def of(cls, habits: Habits, tp: Term, *, sequence_parallel: bool, shares_ends: bool) -> EdgeWays:
        """The ways of an engine."""
        whole = habits.whole_edges
        return cls(ONE if whole else tp, ONE if whole and not sequence_parallel else tp, gathered=whole, paired=shares_ends)

    def params(self, at: str, edges: Mapping[str, Term]) -> Term:
        """Parameters of embedding and head on one rank."""
        if self.embedding is self.head:
            return share.term(at, amount=total(f"{at}.whole", dict(edges)), ways=self.head)
        cut = {name: term for name, term in edges.items() if name == "head"}
        parts = {name: term for name, term in edges.items() if name not in cut}
        if cut:
            parts["head"] = share.term(f"{at}.head", amount=cut["head"], ways=self.head)
        return total(at, parts)


class EdgeWork(Record):
    """Embedding and head: matmuls and streams of one micro-batch, forward and backward together."""

    head: tuple[Matmul, ...]
    loss: Stream
    embedding: Stream
    gather: Collective | None = None
    """Ranks that share the vocabulary gather the logits; None: they do not."""


def edge_work(
    arch: Architecture, maker: LayerMaker, gradient: Term, logit_bytes: Term, types: Types, vocab: Term, ways: EdgeWays,
    *, frozen: bool = False,
) -> EdgeWork:  # fmt: skip
    """The work of embedding, head (`vocab` of it on this rank) and loss for one micro-batch."""
    tokens, hidden = maker.work.tokens, maker.hidden
    head: tuple[Matmul, ...] = ()
    if arch.head:
        forward = Matmul(
            name="head.forward", m=tokens, n=vocab, k=hidden, batch=ONE, dtype=types.attention,
            left_bytes=types.activation, right_bytes=types.activation, out_bytes=types.activation,
        )  # fmt: skip
        made = backward(LayerWork(matmuls=[forward]), maker.leaves, "head.forward", "head.backward", gradient, frozen=frozen)
        head = (forward, *made.matmuls)
    read, gather = vocab, None
    if ways.gathered and arch.head:
        read = maker.leaves("vocab", arch.vocab)
        size = tensor_bytes.term("head.gathered_logits", tokens=tokens, width=read, element_bytes=types.activation)
        gather = maker.collective("head.gather", "all_gather", size, ways.head, ONE)
    loss = logits_bytes.term("head.loss_traffic", tokens=tokens, vocab=read, element_bytes=logit_bytes, copies=count("loss_passes"))
    row = tensor_bytes.term("embedding.rows", tokens=tokens, width=hidden, element_bytes=types.activation)
    passes = count("embedding_passes")
    traffic = repeated_bytes.term("embedding.traffic", count=passes, size=row)
    return EdgeWork(
        head,
        Stream(name="head.loss", size=loss, launches=count("loss_kernels")),
        Stream(name="embedding", size=traffic, launches=passes),
        gather,
    )


def with_habits(forward: LayerWork, back: LayerWork, block: Block, habits: Habits, *, sequence_parallel: bool) -> LayerWork:
    """The backward work with what the engine's habits add: slices of padded experts, and collectives, which both passes get.

    Where matrices each gather their input, queries, keys and values are three, gate and up projection two; a usual layer gathers
    once for all of them. Without sequence parallelism inputs are whole already and only gradients are reduced.
    """
    grouped = next((item for item in forward.matmuls if item.grouped), None)
    if habits.padded is not None and grouped is not None:
        at = f"{grouped.name}.slices"
        rows = product.term(f"{at}.rows", a=grouped.m, b=grouped.batch)
        padded = tensor_bytes.term(f"{at}.padded", tokens=rows, width=grouped.k, element_bytes=grouped.left_bytes)
        size = sliced_bytes.term(f"{at}.traffic", padded=padded, load=habits.padded, experts=grouped.batch)
        back.streams.append(Stream(name=at, size=size, launches=grouped.batch))
    if not habits.inputs_apart:
        return back
    more = {"mixer": QKV - 1, "mlp": 1 if isinstance(block.mlp, Mlp) and block.mlp.gated else 0}
    for work, kind in ((forward, "all_gather"), (back, "reduce_scatter" if sequence_parallel else "all_reduce")):
        if work is forward and not sequence_parallel:
            continue
        for item in list(work.tensor_collectives):
            found = next((number for name, number in more.items() if item.name.endswith(f".{name}.all_reduce")), 0)
            work.tensor_collectives += [
                item.replaced(name=f"{item.name}.input{number}", kind=kind) for number in range(2, found + 2)
            ]
    return back
