"""The command line, called inside this process, which looks for one fleet once, in however many forms it is told."""

from collections.abc import Iterator

import pytest

from gpuplan.estimate.planned import Planned
from gpuplan.plan.ask_goal import PlanServeAsk
from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.planner import serve_answer
from gpuplan.search.library import Library
from tests.cli.conftest import call

__all__ = ["asked_once", "call"]


@pytest.fixture(scope="module")
def asked_once() -> Iterator[None]:
    """What the tests of a file ask in several forms, or several of them ask, is answered once: `--jobs` is a part of it."""
    known: dict[str, Planned] = {}
    answer = serve_answer.plan_serve

    def plan_serve(goal: PlanServeAsk, run: ServeAsk, library: Library) -> Planned:
        asked = repr((goal, run))
        if asked not in known:
            known[asked] = answer(goal, run, library)
        return known[asked]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(serve_answer, "plan_serve", plan_serve)
        yield
