"""A Mac that lends its GPU too little says how it lends more, and what it says is enough."""

from __future__ import annotations

import re

import pytest

from gpuplan.estimate.result import Estimate
from gpuplan.search.ask import answered


def _note(made: Estimate) -> str:
    return next((f"{note.text}; {note.hint}" for note in made.notes if note.code == "memory.wired"), "")


@pytest.mark.parametrize(("model", "on", "memory"), [("llama-3.3-70b", "m3-max", 48e9), ("deepseek-r1", "m3-ultra", 512e9)])
def test_the_limit_that_is_named_is_enough(model: str, on: str, memory: float) -> None:
    """The change that the hint names makes it fit."""
    asked = {"model": model, "on": on, "memory": f"{memory / 1e9:.0f}GB", "weights": "q4_k_m"}
    made = answered("fit", asked, advise=False)
    found = re.search(r"--set (hw\.memory_for_accelerator=\d+GiB)", _note(made))
    assert found is not None
    assert float(made.figures["headroom_bytes"].value) < 0
    assert float(answered("fit", asked | {"set": [found[1]]}, advise=False).figures["headroom_bytes"].value) >= 0


@pytest.mark.parametrize(("model", "on"), [("llama-3.1-8b", "m3-max"), ("llama-3.1-405b", "m3-max"), ("llama-3.3-70b", "t4")])
def test_nothing_is_said_where_it_does_not_help(model: str, on: str) -> None:
    """What fits, what no memory of the machine holds, and a card with memory of its own."""
    assert not _note(answered("fit", {"model": model, "on": on}, advise=False))
