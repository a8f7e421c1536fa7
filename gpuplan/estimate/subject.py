"""What an estimate is about: the model, the machine, the engine, and where each plan value comes from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gpuplan.estimate.money import Money
from gpuplan.machine.hardware import Hardware
from gpuplan.models.architecture import Architecture
from gpuplan.models.count import ParamCount
from gpuplan.num import Num, is_array
from gpuplan.record import Record, field
from gpuplan.specs.engine import Engine, TrainingProfile
from gpuplan.specs.operations import Operations
from gpuplan.specs.quantity import Sourced
from gpuplan.term import DEFINITION, USER, Source, Term
from gpuplan.workload.context import Leaves

if TYPE_CHECKING:
    from gpuplan.specs.usual_training import UsualTraining


class PlanTerms(Record, kw_only=True):
    """What makes the leaves of a plan and of an engine; `origins` says where plan values come from (default: the user)."""

    engine: Engine
    origins: Mapping[str, Source] = field(default_factory=dict)
    pins: Mapping[str, float] = field(default_factory=dict)
    """The user's own values of terms, by name: what is estimated of the subject is made of them."""

    def plan(self, name: str, value: Num, unit: str = "1") -> Term:
        """The leaf `plan.<name>`."""
        return Term(f"plan.{name}", value if is_array(value) else float(value), unit, self.origins.get(name, USER))

    def habit(self, name: str, sourced: Sourced) -> Term:
        """The leaf `engine.<name>`, with the profile's range."""
        return self.engine.term(f"engine.{name}", sourced, sourced.accept)


class WorkSubject(PlanTerms, kw_only=True):
    """What work is about: a transformer, a state-space model or a hybrid of them, with its engine, on no machine yet."""

    card: Source
    arch: Architecture
    counts: ParamCount

    def has_experts(self) -> bool:
        """Whether the model routes tokens to experts."""
        return bool(self.arch.moes)

    def leaves(self) -> Leaves:
        """A fresh set of model leaves, whose source is the model's card."""
        return Leaves(self.card)


class Setting(PlanTerms, kw_only=True):
    """Machine and engine of an estimate."""

    model_name: str
    card: Source
    hw: Hardware
    price: Term | None = None
    """USD a second of one accelerator (`hw.price`), where known."""
    money: Money | None = None
    """What else its place says of money and power."""
    operations: Operations | None = None
    """How long runs go where this one runs; None: a run without interruptions."""
    usual: UsualTraining | None = None
    """What most take in training, and the largest run that was published; None: nothing is asked about training."""
    counted: str = "accelerators"
    """What its accelerators are called below figures: part of them where others do something else."""

    def pace(self, profile: TrainingProfile, kind: str) -> Term | None:
        """The leaf `engine.pace_<kind>` of this machine; None where the engine is as fast there as its kernels alone."""

        def of(one: Hardware) -> Term | None:
            found = profile.pace_of(one.accelerator, one.family, kind)
            return None if found is None else self.habit(f"pace_{kind}", found)

        return self.hw.termed(f"pace.{kind}", of)

    def accelerators(self) -> Term:
        """The leaf `plan.accelerators`, or what they are called: how many there are."""
        source = self.origins.get(self.counted, DEFINITION)

        def of(one: Hardware) -> Term:
            return Term(f"plan.{self.counted}", float(one.count), "1", source)

        return self.hw.termed(self.counted, of) or of(self.hw)


class Subject(Setting, WorkSubject, kw_only=True):
    """A model on its machine with its engine."""
