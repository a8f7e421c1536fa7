"""The quantities that a layer's work is made of: shared leaves and degrees, each a term, none of them hardware."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpuplan.formulas.basic import product, share, smaller
from gpuplan.record import Record
from gpuplan.specs.engine import KvHeads
from gpuplan.term import DEFINITION, Source, Term
from gpuplan.work import Dtype

ONE = Term("one", 1.0, "1", DEFINITION)
_STATE = Source("assumed", "recurrent states are kept in fp32, as the reference kernels do")
STATE_BYTES = Term("recipe.state_bytes", 4.0, "B", _STATE)


class Split(Record, kw_only=True):
    """How the ranks of a stage divide a layer: tensor, expert and expert-tensor ways, and the norms' share."""

    tp: Term
    ep: Term
    etp: Term
    sp: Term
    """Ways that norms and residuals are cut: tp under sequence parallelism, otherwise one."""
    tp_stride: Term = ONE
    kv_heads: KvHeads = "replicated"
    """What ranks do that are more than the key and value heads."""
    ep_stride: Term = ONE


class Types(Record, kw_only=True):
    """Bytes and types of a pass: what matmuls multiply, and how activations, weights and the KV cache are stored."""

    matmul: Dtype
    attention: Dtype
    activation: Term
    operand: Term
    """One element of the left matrix as the tensor cores read it."""
    weight: Term
    """One element of a weight matrix as it is read from memory."""
    kv: Term
    blocked: bool = False
    """Operands carry scales by blocks."""


class Pass(Record, kw_only=True):
    """One pass of a layer: how many tokens and sequences a rank sees, and where its queries stand."""

    tokens: Term
    sequences: Term
    q_len: Term
    kv_len: Term
    expert_tokens: Term
    """Token copies that the experts of one rank process, for one copy a token (top_k comes from the block)."""
    decode: bool = False
    hidden_passes: Term
    rms_passes: Term | None = None
    """Further passes over the hidden width in layers with RMS norms."""
    activation_passes: Term
    document: Term | None = None
    """Tokens of the documents that a sequence is packed of, where attention stays within each."""
    kernels: Term
    """Memory-bound kernels a layer."""


@dataclass(slots=True)
class Leaves:
    """Makes each leaf of a model once by name, so that every part of the graph shares it."""

    source: Source
    made: dict[str, Term] = field(default_factory=dict)

    def __call__(self, name: str, value: float) -> Term:
        """The leaf `model.<name>`."""
        key = f"model.{name}"
        if key not in self.made:
            self.made[key] = Term(key, float(value), "1", self.source)
        return self.made[key]

    def split(self, name: str, amount: Term, ways: Term) -> Term:
        """An amount cut `ways` ways, made once."""
        if name not in self.made:
            self.made[name] = share.term(name, amount=amount, ways=ways)
        return self.made[name]

    def times(self, name: str, a: Term, b: Term) -> Term:
        """A product, made once."""
        if name not in self.made:
            self.made[name] = product.term(name, a=a, b=b)
        return self.made[name]

    def least(self, name: str, a: Term, b: Term) -> Term:
        """The smaller of two, made once."""
        if name not in self.made:
            self.made[name] = smaller.term(name, a=a, b=b)
        return self.made[name]
