"""The questions of the planner by command: which options does each have, and what answers it?

The one entry of the command line and of files of scenarios. What computes is imported when a question is answered.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from gpuplan.plan.ask import TrainAsk
from gpuplan.plan.ask_goal import PlanCarriesAsk, PlanFinetuneAsk, PlanRlAsk, PlanServeAsk, PlanTrainAsk
from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.plan.common import Common
from gpuplan.plan.option import Entry, by_key
from gpuplan.record import Record

if TYPE_CHECKING:
    from gpuplan.estimate.carried import Carried
    from gpuplan.estimate.planned import Planned
    from gpuplan.search.library import Library

ONE_MACHINE = (
    "pictures", "images", "image_size", "audio", "beams", "batch", "simulate", "arrival", "requests", "prefill_on",
    "prefill_workers", "decode_workers", "prefill_tp", "prefill_pp", "prefill_attention_dp", "prefill_ep", "dp", "ep",
    "attention_dp", "redundant_experts", "expert_exchange", "gpu_layers", "host_experts", "host_weights", "host_memory",
    "host_bandwidth", "tensor_split", "command", "engine_args", "burstiness", "router", "seed",
)  # fmt: skip
"""Options of serving on a machine that is known, which the planner chooses or does not look at."""


class Planning(Record):
    """A question of the planner: its goal, the task that it plans, and the options of the task that it does not have."""

    goal: type[Record]
    task: type[Common]
    without: tuple[str, ...]


PLANNINGS: Mapping[str, Planning] = {
    "plan train": Planning(PlanTrainAsk, TrainAsk, ("rl", "described", "input", "samples", "epochs")),
    "plan finetune": Planning(PlanFinetuneAsk, TrainAsk, ("rl", "described", "input")),
    "plan rl": Planning(PlanRlAsk, TrainAsk, ("described", "input", "samples", "epochs", "own", "sync_every", "emit")),
    "plan serve": Planning(PlanServeAsk, ServeAsk, ONE_MACHINE),
    "plan carries": Planning(PlanCarriesAsk, ServeAsk, (*ONE_MACHINE, "trace", "concurrency", "own")),
}
"""By command: all but the last are answered by machines that reach a goal, the last by what a machine that is named carries."""


def entries_of(goal: type[Record], task: type[Record], without: Collection[str] = ()) -> list[Entry]:
    """The options of a goal, and those of the task but for what the goal has, or what is left out: fields or groups."""
    own = by_key(goal)
    rest = [one for key, one in by_key(task).items() if key not in own and not {one.name, one.option.group} & set(without)]
    return [*(one for one in rest if one.positional), *own.values(), *(one for one in rest if not one.positional)]


def options(ask: str) -> list[Entry]:
    """The options of a question of the planner, by its command.

    >>> [one.flag for one in options("plan serve") if one.key in ("rate", "spare", "dp")]
    ['--spare', '--rate']
    """
    one = PLANNINGS[ask]
    return entries_of(one.goal, one.task, one.without)


def split(given: Mapping[str, Any], goal: type[Record]) -> tuple[dict[str, Any], dict[str, Any]]:
    """What was given for the goal, and for the task."""
    own = by_key(goal)
    return {key: one for key, one in given.items() if key in own}, {key: one for key, one in given.items() if key not in own}


def planned(ask: str, given: Mapping[str, Any], library: Library | None = None) -> Planned | Carried:
    """The answer to the options of a question of the planner, by their names in Python.

    Without a library, that of the process with the specs that the options name.

    Raises:
        GpuplanError: whatever is wrong with the question or unknown to the data.
    """
    from gpuplan.plan.read import question
    from gpuplan.search.library import Library

    kind = PLANNINGS[ask]
    goal, task = split(given, kind.goal)
    want, run = question(kind.goal, goal), question(kind.task, {**task, **_taken(ask)})
    read = Library.shared(run.specs, calibrated=bool(run.calibrated)) if library is None else library
    if isinstance(want, PlanCarriesAsk):
        from gpuplan.planner.carries import carries

        assert isinstance(run, ServeAsk)
        return carries(want, run, read)
    if isinstance(run, ServeAsk):
        from gpuplan.planner.serve_answer import plan_serve

        assert isinstance(want, PlanServeAsk)
        return plan_serve(want, run, read)
    assert isinstance(run, TrainAsk)
    if isinstance(want, PlanRlAsk):
        from gpuplan.planner.rl import plan_rl

        return plan_rl(want, run, read)
    from gpuplan.planner.train import plan_finetune, plan_train

    if isinstance(want, PlanFinetuneAsk):
        return plan_finetune(want, run, read)
    assert isinstance(want, PlanTrainAsk)
    return plan_train(want, run, read)


def _taken(ask: str) -> dict[str, Any]:
    """What the planner says in place of the user: where a task runs, and that a launch is made of the best alone."""
    return {"plan carries": {}, "plan serve": {"on": "any"}}.get(ask, {"on": "any", "emit": None})
