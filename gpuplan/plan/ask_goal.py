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
    jobs: Annotated[int | None, Option("Processes that look at machines at once; left out, 1", PLACES, most=256)] = None


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
    repair: Annotated[
        float | None,
        Option("How long a broken node is out, such as `1d`: how many spare ones stand in for those", GOAL, "TIME", "s", most=1e9),
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


class PlanRlAsk(PlanTrainAsk, kw_only=True):
    """Which machine, how many of them and which division of it train a model by reinforcement learning under a goal?"""

    steps: Annotated[
        int | None, Option("Steps of the whole run, each of --prompts x --group-size responses; left out, 1000", GOAL, most=10**9)
    ] = None
    max_count: Annotated[int | None, Option("No more accelerators than this; left out, 512", PLACES, most=1_000_000)] = None


class Promised(Record, kw_only=True):
    """What is promised of requests, in seconds, of their mean unless `p` says of how many in a hundred."""

    ttft: Annotated[
        float | None, Option("The longest that the first token of a request may take, such as `500ms`", GOAL, "TIME", "s", most=1e6)
    ] = None
    tpot: Annotated[
        float | None, Option("The longest that each token after it may take, such as `30ms`", GOAL, "TIME", "s", most=1e6)
    ] = None
    e2e: Annotated[
        float | None, Option("The longest that a whole request may take, such as `20s`", GOAL, "TIME", "s", most=1e7)
    ] = None
    p: Annotated[
        float | None,
        Option("How many requests in a hundred keep that, such as `99`; left out, their mean", GOAL, "PERCENT", most=99.99),
    ] = None
    requests_per_user: Annotated[
        float | None,
        Option(
            "How often one who uses it asks, such as `2/min`; left out, once a minute", GOAL, "RATE", "1/s", reads="rate", most=1e6
        ),
    ] = None
    lowest_bits: Annotated[
        int | None,
        Option(
            "Bits that weights may be quantised to: 16 is as published, 8 (left out) tries FP8 too, 4 also 4-bit integers",
            GOAL, least=4, most=32,
        ),
    ] = None  # fmt: skip


class PlanServeAsk(Promised, Where, kw_only=True):
    """Which machines, how many of them and which division into replicas serve a load with what is promised?"""

    users: Annotated[
        int | None, Option("People who use it at the same time, each of whom asks as often as --requests-per-user says", GOAL)
    ] = None
    mean_rate: Annotated[
        float | None,
        Option(
            "Requests a second in the mean where --rate is the peak, such as `2/s`: what a fleet takes that grows and shrinks",
            GOAL,
            "RATE",
            "1/s",
            reads="rate",
            most=1e9,
        ),
    ] = None
    pools: Annotated[
        bool | None,
        Option("Also workers of two kinds: some only read prompts, the others only write answers", GOAL, "", one_way=True),
    ] = None
    max_count: Annotated[
        int | None, Option("No more accelerators than this; left out, as many as it takes", PLACES, most=1_000_000)
    ] = None
    spare: Annotated[
        int | None,
        Option("Instances, or replicas where these are had one by one, that may be lost with all promises kept", GOAL, least=0),
    ] = None
    budget: Annotated[
        float | None, Option("The most US dollars that it may cost a month, such as `20k`", GOAL, "USD", most=1e15)
    ] = None
    minimize: Annotated[
        Literal["cost", "gpus", "energy"] | None,
        Option("What to have least of: cost, gpus or energy; left out, cost", GOAL, "WHAT"),
    ] = None
    best: Annotated[int | None, Option("How many machines are shown; left out, 5", GOAL, most=100)] = None
    front: Annotated[
        bool | None,
        Option("Also what no other machine beats in price and time of a token, drawn as a front", GOAL, "", one_way=True),
    ] = None


class PlanCarriesAsk(Promised, kw_only=True):
    """What does a given fleet carry of a model, or which models, with what is promised?"""

    best: Annotated[int | None, Option("How many models are shown; left out, 5", GOAL, most=100)] = None


GOALS: Mapping[str, type[Record]] = {
    "plan train": PlanTrainAsk, "plan finetune": PlanFinetuneAsk, "plan rl": PlanRlAsk, "plan serve": PlanServeAsk,
    "plan carries": PlanCarriesAsk,
}  # fmt: skip
"""The questions of the planner, by command."""
