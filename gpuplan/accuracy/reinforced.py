"""Which step of reinforcement learning is a measured run of it, and how many tokens does it train on?

A row of the kind `rl-grpo` or `rl-ppo` has in `run` what a step generates (`prompts`, `group_size`, `prompt_len`, `response_len`,
`response_max`) and how (`rollout_engine`, `rollout_tp`, `rollout_gpus`, `staleness`), beside the division of training;
`global_batch` are the responses of one update.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuplan.accuracy.rows import Row, Skip
from gpuplan.plan.words import RlMethod

METHODS: Mapping[str, RlMethod] = {"rl-grpo": "grpo", "rl-ppo": "ppo"}
"""The method of each kind of rows."""
NEEDED = ("prompts", "prompt_len", "response_len")
"""Without which no step of a run is known."""
ASKED = ("prompts", "group_size", "prompt_len", "response_len", "response_max", "rollout_tp", "rollout_gpus", "staleness")
"""What of a step is a whole number of the question, by the same name."""


def reinforced(row: Row) -> dict[str, Any]:
    """The part of a question that says how responses are made; empty for every other kind of run.

    Raises:
        Skip: the row does not say what a step generates.
    """
    if row.kind not in METHODS:
        return {}
    missing = [name for name in NEEDED if not row.run.get(name)]
    if missing:
        raise Skip(f"the row does not say {', '.join(missing)} of a step of reinforcement learning")
    said = {name: int(row.run[name]) for name in ASKED if row.run.get(name) is not None}
    named = {name: str(row.run[name]) for name in ("rollout_engine", "reward_model", "critic") if row.run.get(name)}
    return {"rl": METHODS[row.kind], **said, **named}


def tokens_of_step(row: Row) -> float | None:
    """Tokens of all prompts and responses of a step, each response with its prompt; None: the row is no such run."""
    if row.kind not in METHODS:
        return None
    responses = float(row.run["prompts"]) * float(row.run.get("group_size") or 1)
    return responses * (float(row.run["prompt_len"]) + float(row.run["response_len"]))
