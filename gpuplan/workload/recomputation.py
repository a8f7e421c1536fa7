"""What of a layer's forward work does the backward pass run again, and what does it hold, under a policy of named results?

A result is made again only where the backward pass reads it: a product's input for the gradient of its weights, what a norm, an
activation or attention was given. So the down projection is not run again (nothing reads its result but a norm behind it, or
the weights of experts), while attention is unless its output and log-sum-exp are kept.
"""

from __future__ import annotations

from collections.abc import Mapping

from gpuplan.formulas.memory import tensor_bytes
from gpuplan.plan.remat import Remat, Result
from gpuplan.record import Record
from gpuplan.term import DEFINITION, Term, total
from gpuplan.work import Collective, Matmul
from gpuplan.workload.context import Leaves, Split
from gpuplan.workload.program import (
    EXPERT_PARALLEL,
    FEED_FORWARD,
    TENSOR_PARALLEL,
    LayerProgram,
    Op,
    Part,
    Phase,
    Role,
    Tensor,
)

COMPANIONS: Mapping[Result, Result] = {"log_sum_exp": "context", "attention_gate": "query"}
"""What no policy names and is held wherever the other is."""


class NamedResults(Record, kw_only=True):
    """Turns a policy into the work that is run again and the bytes that are held, layer by layer."""

    leaves: Leaves
    split: Split
    element: Term
    remat: Remat

    def again(self, key: str, forward: LayerProgram) -> LayerProgram:
        """What the backward pass runs again of a layer's forward work."""
        found = [made for op in forward.ops if not isinstance(op.item, Collective) for made in self.missing(key, op)]
        program = LayerProgram(tuple(found))
        return program + self.exchanges(key, forward, program)

    def missing(self, key: str, op: Op) -> list[Op]:
        """An operation whose results are not all held, for those that are missing; nothing where none is."""
        if not op.needed_again:
            return []
        named = [one for one in op.makes if one.result not in COMPANIONS]
        lost = [one for one in op.makes if COMPANIONS.get(one.result, one.result) not in self.remat.held]
        if named and not lost:
            return []
        name = op.called(Phase.AGAIN, key)
        item = op.item.replaced(name=name)
        if isinstance(item, Matmul) and named and len(lost) < len(op.makes):
            columns = {str(one.result): one.width if one.columns is None else one.columns for one in lost}
            item = item.replaced(n=total(f"{name}.width", columns))
        return [op.replaced(phase=Phase.AGAIN, item=item, reads=(), makes=())]

    def exchanges(self, key: str, forward: LayerProgram, again: LayerProgram) -> LayerProgram:
        """Exchange that is run again: what gathers the input of products, what sums up their results, and what moves tokens.

        Under sequence parallelism one half of an all-reduce stands before a sub-layer and the other behind it; without, the
        sum behind a sub-layer is all there is.
        """
        products = [op for op in again.ops if isinstance(op.item, Matmul)]
        found: list[Op] = []
        for op in forward.ops:
            inside = [one for one in products if _sub_layer(one.part) is _sub_layer(op.part)]
            name = op.called(Phase.AGAIN, key)
            base = op.replaced(phase=Phase.AGAIN, item=op.item.replaced(name=name))
            first, last = any(not one.ends for one in inside), any(one.ends for one in inside)
            if op.role in TENSOR_PARALLEL and op.role is not Role.SUM:
                found += [base] if first else []
            elif op.role in TENSOR_PARALLEL and not self.split.sequence_parallel:
                found += [base] if last else []
            elif op.role in TENSOR_PARALLEL:
                halves = (("gather", "all_gather", first), ("scatter", "reduce_scatter", last))
                found += [
                    base.replaced(item=op.item.replaced(name=f"{name}.{half}", kind=kind)) for half, kind, runs in halves if runs
                ]
            elif op.role in EXPERT_PARALLEL:
                up, down = (bool(again.of(role).ops) for role in (Role.EXPERTS_UP, Role.EXPERTS_DOWN))
                found += [base] if down or (up and op.role is Role.DISPATCH) else []
        return LayerProgram(tuple(found))

    def held(self, key: str, program: LayerProgram, results: frozenset[Result], where: str) -> Term:
        """Bytes of one layer's results on one rank and for one micro-batch; what nothing reads is not held, whatever is named."""
        at = f"activations.{key}.{where}"
        parts: dict[str, Term] = {}
        hidden = self.leaves.split(f"activations.{key}.norm_width", self.leaves.hidden, self.split.sp)
        if "input" in results:
            parts["input"] = self.tensor(f"{at}.input", hidden, program.matmuls[0].m)
        for op in program.ops:
            for one in _held(op, results):
                # What leads back to the hidden width is cut with the norms.
                width = hidden if one.result in ("out", "down") else one.width
                name = f"{at}.{one.part.value}.{one.result}"
                parts[f"{one.part.value}.{one.result}"] = self.tensor(name, width, one.rows, one.element)
        return total(at, parts) if parts else Term(at, 0.0, "B", DEFINITION)

    def tensor(self, name: str, width: Term, rows: Term, element: Term | None = None) -> Term:
        """Bytes of one tensor."""
        return tensor_bytes.term(name, tokens=rows, width=width, element_bytes=self.element if element is None else element)


def _sub_layer(part: Part) -> Part:
    """Experts and the dense layers beside them have one sum behind them."""
    return Part.CHANNELS if part in FEED_FORWARD else part


def _held(op: Op, results: frozenset[Result]) -> list[Tensor]:
    """What an operation makes that a policy holds and the backward pass reads."""
    if not op.needed_again:
        return []
    return [one for one in op.makes if COMPANIONS.get(one.result, one.result) in results]
