"""What an estimate is about: the model, the machine, the engine, and where each plan value comes from."""

from __future__ import annotations

from collections.abc import Mapping

from gpuplan.machine.hardware import Hardware
from gpuplan.models.architecture import Architecture, Moe
from gpuplan.models.count import ParamCount
from gpuplan.num import Num, is_array
from gpuplan.record import Record, field
from gpuplan.specs.engine import Engine
from gpuplan.specs.operations import Operations
from gpuplan.specs.quantity import Sourced
from gpuplan.term import USER, Source, Term
from gpuplan.workload.context import Leaves


class Setting(Record, kw_only=True):
    """Machine and engine of an estimate; `origins` says where plan values come from (default: the user)."""

    model_name: str
    card: Source
    hw: Hardware
    engine: Engine
    price: Term | None = None
    """USD a second of one accelerator (`hw.price`), where known."""
    operations: Operations | None = None
    """How long runs go where this one runs; None: a run without interruptions."""
    origins: Mapping[str, Source] = field(default_factory=dict)

    def plan(self, name: str, value: Num) -> Term:
        """The leaf `plan.<name>`."""
        return Term(f"plan.{name}", value if is_array(value) else float(value), "1", self.origins.get(name, USER))

    def habit(self, name: str, sourced: Sourced) -> Term:
        """The leaf `engine.<name>`, with the profile's range."""
        return self.engine.term(f"engine.{name}", sourced, sourced.accept)


class Subject(Setting, kw_only=True):
    """A transformer, a state-space model or a hybrid of them on its machine with its engine."""

    arch: Architecture
    counts: ParamCount

    def has_experts(self) -> bool:
        """Whether the model routes tokens to experts."""
        return any(isinstance(block.mlp, Moe) for stack in self.arch.stacks for block in stack.blocks.values())

    def leaves(self) -> Leaves:
        """A fresh set of model leaves, whose source is the model's card."""
        return Leaves(self.card)
