"""Do several processes find the same plans, bit for bit, whatever happens to them?"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import pytest

from gpuplan.estimate.planned import Planned
from gpuplan.plan.ask import TrainAsk
from gpuplan.planner.ask import planned
from gpuplan.planner.crew import Crew
from gpuplan.render.planned import as_json
from gpuplan.render.planned_serving import as_json as fleets_as_json

TRAIN = {"model": "qwen2.5-0.5b", "tokens": "10B", "on": "h100,l40s,aws:p4d.24xlarge", "max_count": "16", "best": "4"}
SERVE = {
    "model": "qwen2.5-0.5b", "rate": "80/s", "prompt": "256", "output": "32", "ttft": "60ms", "tpot": "5500us", "p": "99",
    "on": "lambda:gpu_1x_a10",
}  # fmt: skip


def answer(command: str, given: Mapping[str, Any], **more: str) -> Planned:
    found = planned(command, {**given, **more})
    assert isinstance(found, Planned)
    return found


def test_two_processes_train_on_the_same() -> None:
    alone, both = answer("plan train", TRAIN), answer("plan train", TRAIN, jobs="2")
    assert len(alone.best) > 1  # Or there is nothing to share.
    assert as_json(both) == as_json(alone)


def test_two_processes_simulate_the_same() -> None:
    alone, both = answer("plan serve", SERVE), answer("plan serve", SERVE, jobs="2")
    assert alone.best
    assert fleets_as_json(both) == fleets_as_json(alone)


def lengths(text: str) -> int:
    return len(text)


def dies(home: int) -> bool:
    """The process that is asked ends, unless it is the one that began."""
    if os.getpid() != home:
        os._exit(1)
    return True


def test_a_crew_keeps_the_order_and_begins_with_the_largest() -> None:
    run = TrainAsk(model="gpt2", on="any")
    with Crew(2, run) as crew:
        assert crew.map(lengths, ["a", "bbb", "cc"], [1.0, 3.0, 2.0]) == [1, 3, 2]


def test_what_a_process_leaves_that_is_ended_is_done_here() -> None:
    run = TrainAsk(model="gpt2", on="any")
    with Crew(2, run) as crew:
        assert crew.map(dies, [os.getpid()] * 3) == [True] * 3
        assert crew.jobs == 1


def test_nobody_waits_for_the_others_after_ctrl_c() -> None:
    from time import monotonic, sleep

    def stopped() -> None:
        with Crew(2, TrainAsk(model="gpt2", on="any")) as crew:
            assert crew._pool is not None
            crew._pool.submit(sleep, 60.0)
            raise KeyboardInterrupt

    begun = monotonic()
    with pytest.raises(KeyboardInterrupt):
        stopped()
    assert monotonic() - begun < 30.0
