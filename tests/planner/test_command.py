"""The command that an answer names asks what was asked, in words that people type."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from gpuplan.plan.ask import TrainAsk
from gpuplan.plan.option import entries
from gpuplan.plan.read import question
from gpuplan.planner.command import command_of

TYPED: list[tuple[str, str]] = [
    ("tokens", "15T"), ("tokens", "1.5T"), ("tokens", "200B"), ("tokens", "1234567890123"), ("samples", "52000"),
    ("seq_len", "8192"), ("electricity", "0.12"), ("price", "2.5"), ("storage_bandwidth", "5 GB/s"), ("mtbf", "50000h"),
    ("own", "300k"), ("own", "20B"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text"), TYPED)
def test_a_command_asks_the_same_again(name: str, text: str) -> None:
    given: dict[str, Any] = {"model": "gpt2", "on": "h100", name: text}
    asked = question(TrainAsk, given)
    words = shlex.split(command_of(asked, "h100"))
    flag, typed = entries(TrainAsk)[name].flag, words[-1]
    assert words[-2] == flag
    assert "e+" not in typed
    assert getattr(question(TrainAsk, given | {name: typed}), name) == pytest.approx(getattr(asked, name), rel=1e-11)


@pytest.mark.parametrize(("name", "text"), [("tokens", "15T"), ("tokens", "200B"), ("electricity", "0.12")])
def test_round_numbers_stand_as_they_were_typed(name: str, text: str) -> None:
    assert command_of(question(TrainAsk, {"model": "gpt2", "on": "h100", name: text}), "h100").endswith(f" {text}")
