"""The Python API of the planner: what do `gpuplan.plan_train`, `plan_serve` and their like answer, and what can be asked of it?"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from importlib import import_module
from os import fspath
from typing import TYPE_CHECKING, Any

from gpuplan.api import Figure, Model, figure_of, figures_of
from gpuplan.errors import Note
from gpuplan.planner.ask import planned
from gpuplan.record import Record

if TYPE_CHECKING:
    from gpuplan.estimate.carried import Carried
    from gpuplan.estimate.planned import Candidate, Planned
    from gpuplan.estimate.result import Estimate


class Machine(Record, eq=False):
    """A machine that reaches the goal: what `on` names it, the figures of its best plan, and the estimate that they are of.

    Of a fleet the estimate is of one unit of it, and `fleet` says how many it takes.
    """

    on: str
    figures: Mapping[str, Figure]
    estimate: Estimate
    fleet: str = ""

    @classmethod
    def of(cls, candidate: Candidate) -> Machine:
        """A machine of an answer."""
        return cls(candidate.offering.target, figures_of(candidate.estimate), candidate.estimate, candidate.fleet)

    def __getitem__(self, figure: str) -> Figure:
        """A figure by its name.

        Raises:
            UsageError: there is none of that name; the hint says what is near.
        """
        return figure_of(self.figures, figure)


class Plan:
    """What reaches a goal: machines in order, the command that asks about the first alone, and what should be known of them."""

    def __init__(self, goal: str, found: Planned | Carried) -> None:
        self.goal = goal
        """What was asked: `train`, `finetune`, `rl`, `serve` or `carries`."""
        self.found = found
        """The answer as the planner makes it."""

    @property
    def reached(self) -> bool:
        """Whether anything reaches the goal."""
        return self.found.reached

    @cached_property
    def best(self) -> tuple[Machine, ...]:
        """The machines that reach it, the best first; none of `carries`, whose `to_dict` says what the fleet carries."""
        return tuple(Machine.of(one) for one in getattr(self.found, "best", ()))

    @property
    def command(self) -> str:
        """What asks about the first machine alone, with all that was taken."""
        return str(getattr(self.found, "command", ""))

    @property
    def notes(self) -> tuple[Note, ...]:
        """What a reader should know: assumptions, prices, limits."""
        return self.found.notes

    @property
    def _render(self) -> Any:
        return import_module(f"gpuplan.render.{self.found.page}")

    def to_dict(self) -> dict[str, Any]:
        """What `gpuplan plan … --json` prints."""
        made: dict[str, Any] = self._render.document(self.found)
        return made

    def __str__(self) -> str:
        from gpuplan.render.text import Look

        return str(self._render.as_text(self.found, Look(100), full=False))

    def __repr__(self) -> str:
        return f"<gpuplan plan {self.goal}: {' '.join(self._render.headline(self.found).split())}>"

    def _repr_html_(self) -> str:
        from html import escape

        return f"<pre>{escape(str(self))}</pre>"


def plan_train(model: Model, /, **options: Any) -> Plan:
    """Which machine, how many of them and which plan train a model best, as `gpuplan plan train`.

    `options` are those of the command, with `_` for `-`; a value is a number in base units, or the text that the command takes.

    Raises:
        GpuplanError: an option is wrong, or something that is needed is not known.
    """
    return _plan("train", model, options)


def plan_finetune(model: Model, /, **options: Any) -> Plan:
    """Which machine fine-tunes a model best, as `gpuplan plan finetune`; options and errors as `plan_train`.

    >>> found = plan_finetune("llama-3.1-8b", on="h100,a100-80gb", tokens="10M")
    >>> found.reached, found.best[0]["cost_usd"].unit
    (True, 'USD')
    """
    return _plan("finetune", model, options)


def plan_rl(model: Model, /, **options: Any) -> Plan:
    """Which machine, and how divided, makes a run of reinforcement learning best, as `gpuplan plan rl`; as `plan_train`."""
    return _plan("rl", model, options)


def plan_serve(model: Model, /, **options: Any) -> Plan:
    """Which fleet serves a load under a promise with the least, as `gpuplan plan serve`; options and errors as `plan_train`.

    >>> plan_serve("llama-3.1-8b", on="h100,l40s", rate="5/s", ttft=1.0, tpot=0.05).best[0].figures["tpot_s"].value < 0.05
    True
    """
    return _plan("serve", model, options)


def plan_carries(model: Model, /, **options: Any) -> Plan:
    """What a fleet that is named by `on` carries under a promise, as `gpuplan plan carries`; options and errors as `plan_train`."""
    return _plan("carries", model, options)


def _plan(goal: str, model: Model, options: Mapping[str, Any]) -> Plan:
    return Plan(goal, planned(f"plan {goal}", {"model": fspath(model), **options}))
