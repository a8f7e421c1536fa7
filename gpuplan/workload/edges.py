"""What happens before the first layer and behind the last one on one rank: embedding, head and loss?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from gpuplan.formulas.basic import repeated_bytes, share
from gpuplan.formulas.memory import logits_bytes, tensor_bytes
from gpuplan.models.architecture import Architecture
from gpuplan.record import Record
from gpuplan.term import Term, total
from gpuplan.work import Collective, Matmul, Stream
from gpuplan.workload.activations import KeepingHabits
from gpuplan.workload.backward import product_gradients
from gpuplan.workload.context import ONE, Types
from gpuplan.workload.counts import count
from gpuplan.workload.draft import LayerSetting


class EdgeWays(NamedTuple):
    """How many tensor parallel ranks share the embedding, and the head; whether they gather the logits for the loss."""

    embedding: Term
    head: Term
    gathered: bool = False
    paired: bool = False
    """Each rank has a stage of both ends (DualPipe), and so the embedding already where modules of the last stage read it."""

    @classmethod
    def of(cls, habits: KeepingHabits, tp: Term, *, sequence_parallel: bool, shares_ends: bool) -> EdgeWays:
        """The ways of an engine."""
        whole = habits.whole_edges
        gathered = whole or habits.gathered_logits
        return cls(ONE if whole else tp, ONE if whole and not sequence_parallel else tp, gathered=gathered, paired=shares_ends)

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
    arch: Architecture, setting: LayerSetting, gradient: Term, logit_bytes: Term, types: Types, vocab: Term, ways: EdgeWays,
    *, frozen: bool = False,
) -> EdgeWork:  # fmt: skip
    """The work of embedding, head (`vocab` of it on this rank) and loss for one micro-batch."""
    tokens, hidden = setting.work.tokens, setting.hidden
    head: tuple[Matmul, ...] = ()
    if arch.head:
        forward = Matmul(
            name="head.forward", m=tokens, n=vocab, k=hidden, batch=ONE, dtype=types.attention,
            left_bytes=types.activation, right_bytes=types.activation, out_bytes=types.activation,
        )  # fmt: skip
        head = (forward, *product_gradients(forward, "head.backward", gradient, frozen=frozen))
    read, gather = vocab, None
    if ways.gathered and arch.head:
        read = setting.leaves("vocab", arch.vocab)
        size = tensor_bytes.term("head.gathered_logits", tokens=tokens, width=read, element_bytes=types.activation)
        gather = Collective(name="head.gather", kind="all_gather", size=size, group=ways.head, stride=ONE)
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
