"""Published steps of reinforcement learning: are they asked as such, and is their time compared over all their tokens?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuplan.accuracy.judge import Judgement, judge, training_question
from gpuplan.accuracy.reinforced import METHODS, tokens_of_step
from gpuplan.accuracy.rows import Row, read_rows
from gpuplan.cli.accuracy_run import answers, wanted_rows
from tools.site_spread import ratios_of

STEP: dict[str, Any] = {
    "id": "step-1", "kind": "rl-grpo", "framework": "megatron-core", "model": {"id": "llama-3.1-8b"},
    "hardware": {"accelerator": "h100-sxm-80gb", "count": 16, "per_node": 8},
    "run": {
        "global_batch": 512, "tp": 1, "pp": 2, "prompts": 64, "group_size": 32, "prompt_len": 100, "response_len": 1060,
        "response_max": 3996, "rollout_engine": "vllm", "rollout_tp": 1,
    },
    "measured": {"step_time_s": 97.7},
}  # fmt: skip
"""Llama 3.1 8B of NeMo RL's performance summary, v0.4."""


def read(folder: Path, **run: Any) -> Row:
    kept = {name: value for name, value in {**STEP["run"], **run}.items() if value is not None}
    (folder / "mine.yaml").write_text(yaml.safe_dump([{**STEP, "run": kept}]), encoding="utf-8")
    (row,) = read_rows([folder / "mine.yaml"])
    return row


def judged(row: Row) -> Judgement:
    return judge([row], answers())


def test_a_step_is_asked_with_what_it_generates_and_how(tmp_path: Path) -> None:
    row = read(tmp_path, staleness=1, rollout_gpus=8)
    asked = training_question(row, answers())
    assert (asked.rl, asked.prompts, asked.group_size, asked.prompt_len, asked.response_len) == ("grpo", 64, 32, 100, 1060)
    assert (asked.response_max, asked.rollout_engine, asked.rollout_tp, asked.rollout_gpus, asked.staleness) == (
        3996,
        "vllm",
        1,
        8,
        1,
    )
    assert (asked.seq_len, asked.global_batch, asked.pp) == (None, 512, 2)
    assert tokens_of_step(row) == 64 * 32 * 1160


def test_the_step_that_is_compared_holds_its_generation(tmp_path: Path) -> None:
    (point,) = judged(read(tmp_path)).typed.points
    assert point.measured == pytest.approx(64 * 32 * 1160 / 97.7 / 16)
    assert point.inside
    assert point.error == pytest.approx(0, abs=0.12)
    # Training alone would be six times as fast.
    assert point.expected < 2000
    assert ratios_of([point]) == {}, "a step that generates says nothing of how far steps of training are from what is counted"


def test_a_step_that_says_too_little_or_something_else_has_its_reason(tmp_path: Path) -> None:
    ((_, reason),) = judged(read(tmp_path, response_len=None)).typed.skipped
    assert reason == "the row does not say response_len of a step of reinforcement learning"
    assert read(tmp_path, prompts="many").fault == "run: prompts is the text `many`, where a number is wanted"


def test_published_steps_are_there_and_no_fit_may_use_them() -> None:
    steps = [row for row in wanted_rows(None, "training") if row.kind in METHODS]
    assert len(steps) >= 28
    assert all(row.unseen and not row.fitted for row in steps)
