"""What the host takes to issue a layer: calls of collectives, norms of heads, missing modules, slower software."""

from __future__ import annotations

from typing import Any

import pytest

from gpuplan.estimate.training import training_figures
from gpuplan.plan.train import Manner
from tests.estimate.subjects import subject, train_plan

CALL, NORM, TE, PLAIN = 89e-6, 33e-6, 750e-6, 300e-6
"""Host times of `megatron-lm` on CUDA, in seconds."""
SLOWER = 7.0
"""How many times as long they are on Ascend."""


def issued(model: str = "llama-3.1-8b", on: str = "8xh100-sxm-80gb", engine: str = "megatron-lm", **given: Any) -> float:
    """Seconds of the host for one layer, in all its passes."""
    plan = {"micro_batch": 1, "global_batch": 64, "seq_len": 4096, **given}
    whole, _ = training_figures(subject(model, on, engine), train_plan(**plan)).time.binding()
    name = "layer.layer.issue_with_again" if plan.get("recompute") == "full" else "layer.layer.issue"
    found = whole.find(name)
    assert found is not None
    return float(found.value)


@pytest.mark.parametrize(
    ("given", "passes", "calls"),
    [
        ({"tp": 1}, 3, 0),
        ({"tp": 8, "sequence_parallel": False}, 3, 4),  # two sums forward, two backward
        ({"tp": 8, "sequence_parallel": True}, 3, 8),  # a gather and a scatter in the place of each
        ({"tp": 8, "sequence_parallel": False, "recompute": "full"}, 4, 6),
        ({"tp": 8, "sequence_parallel": True, "how": Manner(overlap=("tp",))}, 3, 0),  # products that gather and scatter
    ],
)
def test_ranks_that_share_layers_call_collectives(given: dict[str, Any], passes: int, calls: int) -> None:
    assert issued(**given) == pytest.approx(passes * TE + calls * CALL)


def test_norms_of_queries_and_keys_are_modules_of_their_own() -> None:
    assert issued("qwen3-8b", tp=1) == pytest.approx(3 * (TE + 2 * NORM))


def test_graphs_are_issued_without_any_of_it() -> None:
    replayed = issued("qwen3-8b", tp=8, sequence_parallel=True, how=Manner(graphs=True))
    assert replayed == pytest.approx(3 * 20e-6)


def test_ascend_has_modules_of_its_own_and_takes_longer_to_issue_each_operator() -> None:
    on = "8xascend-910b2"
    assert issued(on=on, tp=1) == pytest.approx(3 * PLAIN * SLOWER)
    # Nothing is published of what a call of a collective takes there.
    assert issued(on=on, tp=8, sequence_parallel=False) == pytest.approx(3 * PLAIN * SLOWER + 4 * CALL)
    assert issued(on=on, engine="accelerate", tp=1) == pytest.approx(SLOWER * issued(engine="accelerate", tp=1))


@pytest.mark.parametrize("engine", ["torchtitan", "kempnerforge"])
def test_operators_of_dtensors_are_issued_slowly_unless_the_step_is_compiled(engine: str) -> None:
    def shared(*, compiled: bool) -> float:
        how = Manner(compiled=compiled)
        return issued(engine=engine, tp=4, how=how) - issued(engine=engine, tp=1, how=how)

    assert shared(compiled=False) == pytest.approx(3 * 3e-3)  # an addmm of DTensors took 0.34 ms (pytorch pull request 107305)
    assert shared(compiled=True) == 0
