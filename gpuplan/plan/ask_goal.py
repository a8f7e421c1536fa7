"""What can be asked the other way round: which goal, over which machines, and what is to be least?

A question of a plan has the options of its goal, which stand here, and those of the task that it plans (`gpuplan train` and the
others) but for what the planner chooses: the machine.
"""

# The annotations are read, so they are no unread text here: no `from __future__ import annotations`.

from collections.abc import Mapping
from typing import Annotated, Literal, TypeAlias

from gpuplan.plan.option import GOAL, PLACES, Option
from gpuplan.record import Record

Minimize: TypeAlias = Literal["cost", "time", "gpus", "energy"]
"""What a plan should have little of."""


class Where(Record, kw_only=True):
    """Which machines are looked at. Names without a count are looked at with every count of the ladder."""

    on: Annotated[
        str | None,
        Option(
            "These machines alone, such as `h100,mi300x` or `aws:p5.48xlarge`; a name with a count (`64xh100`) is looked at with"
            " that count",
            PLACES,
            "NAME,NAME",
        ),
    ] = None
    any: Annotated[
        bool | None, Option("Everything in the catalog, which is what is looked at unless you say less", PLACES, "", one_way=True)
    ] = None
    cloud: Annotated[str | None, Option("Offers of these providers alone, such as `aws,gcp`", PLACES, "NAME,NAME")] = None
    filter: Annotated[
        str | None,
        Option(
            "Accelerators that meet these conditions, by the columns of `gpuplan specs list`, such as `vendor=amd memory>=80GiB`",
            PLACES,
            "CONDITIONS",
        ),
    ] = None
    count: Annotated[int | None, Option("So many accelerators, and no other number", PLACES)] = None
    max_count: Annotated[int | None, Option("No more accelerators than this; left out, 4096", PLACES, most=1_000_000)] = None


class Goal(Record, kw_only=True):
    """What must be kept, in seconds and US dollars of the whole run, and what is to be least."""

    deadline: Annotated[
        float | None,
        Option("The longest that the whole run may take, such as `30d` or `2 weeks`", GOAL, "TIME", "s", least=1, most=1e10),
    ] = None
    budget: Annotated[float | None, Option("The most US dollars that it may cost, such as `500k`", GOAL, "USD", most=1e15)] = None
    minimize: Annotated[
        Minimize | None,
        Option("What to have least of: cost, time, gpus or energy; left out, cost", GOAL, "WHAT"),
    ] = None
    best: Annotated[int | None, Option("How many machines are shown; left out, 3", GOAL, most=100)] = None
    front: Annotated[
        bool | None,
        Option("Also what no other machine beats in both cost and time, drawn as a front", GOAL, "", one_way=True),
    ] = None


class PlanTrainAsk(Goal, Where, kw_only=True):
    """Which machine, how many of them and which plan train a model under a goal?"""

    @property
    def least(self) -> Minimize:
        """What is to be least."""
        return self.minimize or "cost"


class PlanFinetuneAsk(PlanTrainAsk, kw_only=True):
    """Which machine, how many of them and which plan fine-tune a model under a goal?"""

    full: Annotated[bool | None, Option("Train all weights, not adapters beside them", GOAL, "", one_way=True)] = None


GOALS: Mapping[str, type[Goal]] = {"plan train": PlanTrainAsk, "plan finetune": PlanFinetuneAsk}
"""The questions of the planner, by command."""
