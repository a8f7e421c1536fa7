"""Searches for changes that help stop early, and what is said of the changes is what whole searches say."""

from __future__ import annotations

from typing import Any

import pytest

from gpuplan.estimate.result import Change
from gpuplan.plan.ask import TrainAsk
from gpuplan.search.ask import train
from gpuplan.search.library import Library
from gpuplan.search.trail import Trail

LIBRARY = Library.shared()
FEW: list[dict[str, Any]] = [
    {"model": "llama-3.1-8b", "on": "8xa100"},
    {"model": "llama-3.1-8b", "on": "8xh100", "tp": 4},
    {"model": "llama-3.1-8b", "on": "4xa100-sxm-40gb"},
    {"model": "llama-3.1-8b", "on": "2xb200"},
]
MANY: list[dict[str, Any]] = [
    {"model": "llama-3.1-8b", "on": "16xl40s"},
    {"model": "llama-3.1-70b", "on": "128xa100"},
    {"model": "llama-3.1-70b", "on": "16xmi300x"},
    {"model": "llama-3.1-70b", "on": "tpu-v5p-256"},
    {"model": "deepseek-v3", "on": "2048xh800"},
    {"model": "mixtral-8x7b", "on": "64xa100"},
    {"model": "qwen2.5-32b", "on": "16xh100"},
    {"model": "llama-3.1-8b", "on": "16xl40s", "engine": "deepspeed"},
    {"model": "llama-3.1-8b", "on": "64xh100", "recompute": "full"},
]


def said(given: dict[str, Any]) -> tuple[Change, ...]:
    """What helps, as the answer says."""
    return train(TrainAsk(**given), library=LIBRARY).changes


@pytest.mark.parametrize(
    "given", [*FEW, *(pytest.param(one, marks=pytest.mark.slow) for one in MANY)], ids=lambda one: " ".join(map(str, one.values()))
)
def test_changes_are_those_of_whole_searches(given: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Every change and its figure, also where it is not worth saying."""
    short = said(given)
    monkeypatch.setattr(Trail, "too_slow", lambda self, search: None)
    assert short == said(given)


def test_what_cannot_help_is_not_sought(monkeypatch: pytest.MonkeyPatch) -> None:
    """Offloading to the host, where everything fits without: plans that were as fast are looked at, and no others."""
    ended: list[bool] = []
    whole = Trail.too_slow

    def seen(self: Trail, search: Any) -> Any:
        found = whole(self, search)
        ended.append(found is not None)
        return found

    monkeypatch.setattr(Trail, "too_slow", seen)
    assert said({"model": "llama-3.1-8b", "on": "8xa100"}) == ()
    assert ended == [False, True]  # the question itself, and the one change that can be asked there
