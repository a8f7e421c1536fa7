"""Whether a search looks at plans as arrays or one by one, it chooses the same and says the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gpuplan.estimate.result import Estimate
from gpuplan.plan.ask import TrainAsk
from gpuplan.plan.common import Common
from gpuplan.search import rl, samples
from gpuplan.search.best import best, candidates, only
from gpuplan.search.library import Library

LIBRARY = Library.of(Common(model="", on=""))
GRPO: dict[str, Any] = {"rl": "grpo", "prompts": 64, "group_size": 8}
QUESTIONS: list[tuple[Any, Callable[..., Estimate], dict[str, Any]]] = [
    (rl, rl.answer_rl, {"model": "llama-3.1-8b", "on": "8xh100", "tp": 2, **GRPO}),
    (rl, rl.answer_rl, {"model": "mixtral-8x7b", "on": "2xdgx-h100", "tp": 8, "idle": "host", **GRPO}),
    (rl, rl.answer_rl, {"model": "llama-3.1-70b", "on": "8xl4", "engine": "megatron-lm", "tp": 8, "response_max": 4096, **GRPO}),
    (samples, samples.answer_samples, {"model": "resnet-50", "on": "8xh100"}),
    (samples, samples.answer_samples, {"model": "resnet-50", "on": "t4", "global_batch": 96}),
    (samples, samples.answer_samples, {"model": "dlrm-large", "on": "2xdgx-h100"}),
]


@pytest.mark.parametrize(("module", "answer", "asked"), QUESTIONS, ids=lambda one: one.get("on") if isinstance(one, dict) else "")
def test_arrays_and_single_plans_choose_alike(
    module: Any, answer: Callable[..., Estimate], asked: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at: list[int] = []

    def asked_with(few: int) -> Estimate:
        def counted(space: Any, judge: Any, **_: int) -> Any:
            looked_at.append(sum(part.count(True) for part in candidates(space, few)))
            return best(space, judge, few=few)

        monkeypatch.setattr(module, "best", counted)
        monkeypatch.setattr(module, "only", lambda space: only(space, few=few), raising=False)
        return answer(TrainAsk(**asked), LIBRARY)

    arrays, alone = asked_with(0), asked_with(10**9)
    half = len(looked_at) // 2
    assert looked_at[:half] == looked_at[half:]
    assert max(looked_at, default=0) > 1
    assert arrays.chosen == alone.chosen
    assert arrays.question == alone.question
    assert {name: term.value for name, term in arrays.figures.items()} == {name: term.value for name, term in alone.figures.items()}
