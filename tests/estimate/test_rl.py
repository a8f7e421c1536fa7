"""Steps of PPO and GRPO: published step times by phase, and what must hold between questions."""

from __future__ import annotations

from typing import Any

import pytest

from gpuplan.errors import GpuplanError
from gpuplan.estimate.result import Estimate
from gpuplan.plan.ask import TrainAsk
from gpuplan.search.ask import train
from gpuplan.term import walk_of

NEMO_RL = {"engine": "nemo", "rl": "grpo", "prompts": 64, "group_size": 32, "prompt_len": 200, "response_max": 3896, "vpp": 1,
           "global_batch": 512, "micro_batch": 4, "idle": "host", "overlap": ("dp",)}  # fmt: skip
"""examples/configs/grpo_math_*_megatron.yaml of NVIDIA-NeMo/RL v0.3.0: 64 prompts x 32, batches of 512, at most 4,096 tokens a
sequence, packed into micro-batches of 4,096; everything but the model at work moves to the host. Prompts of OpenMathInstruct-2 have
some 200 tokens (its mean total of 1,060 in the v0.4 table, less responses of some 860)."""
RUN_8B = {"model": "llama-3.1-8b", "on": "dgx-h100", "tp": 1, "pp": 2, "rollout_tp": 1, "response_len": 795}
RUN_70B = {"model": "llama-3.1-70b", "on": "8xdgx-h100", "tp": 4, "pp": 4, "rollout_tp": 4, "response_len": 398}


def asked(**given: Any) -> Estimate:
    return train(TrainAsk(**given))


def seconds(made: Estimate, key: str) -> float:
    return float(made.figures[key].value)


def part(made: Estimate, name: str) -> float:
    return sum(float(one.value) for one in made.breakdowns[0].parts if one.name == f"step.{name}")


# NVIDIA-NeMo/RL issue 959 repeats the table of the v0.3 blog: generation, log-probabilities (two forward passes), training, whole.
# `rollout.host` and `rollout.sync` of vLLM were fitted to the 8B rows, its residuals to these steps and those of v0.4 on H100.
@pytest.mark.parametrize(
    ("run", "generation", "scoring", "training", "step"),
    [(RUN_8B, 58.0, 18.0, 28.0, 112.0), (RUN_70B, 84.0, 18.0, 28.0, 147.0)],
    ids=["8b", "70b"],
)
def test_phases_of_nemo_rl(run: dict[str, Any], generation: float, scoring: float, training: float, step: float) -> None:
    made = asked(**NEMO_RL | run)
    assert seconds(made, "step_time_s") == pytest.approx(step, rel=0.20)
    assert seconds(made, "rollout_s") == pytest.approx(generation, rel=0.10)
    assert seconds(made, "scoring_s") == pytest.approx(scoring, rel=0.35)
    assert seconds(made, "training_s") == pytest.approx(training, rel=0.35)
    low, high = made.ranges["step_time_s"]
    assert low <= step <= high


# docs/about/performance-summary.md of NVIDIA-NeMo/RL, on policy: 06beed91 (v0.4, H100), v0.5.0 and v0.6.0 (GB200, held back).
STEPS = {
    "8b-16-h100": (97.7, RUN_8B | {"on": "2xdgx-h100", "response_len": 860}),
    "32b-32-h100": (
        393.0,
        {"model": "qwen3-32b", "on": "4xdgx-h100", "tp": 4, "pp": 4, "micro_batch": 1, "rollout_tp": 4, "response_len": 3006},
    ),
    "8b-8-gb200": (91.0, RUN_8B | {"on": "8xgb200", "pp": 1, "response_len": 866}),
    "32b-16-gb200": (
        381.0,
        {"model": "qwen3-32b", "on": "16xgb200", "tp": 2, "pp": 1, "micro_batch": 1, "rollout_tp": 1, "response_len": 3053},
    ),
    "30b-a3b-16-gb200": (
        221.0,
        {"model": "qwen3-30b-a3b", "on": "16xgb200", "tp": 1, "pp": 1, "ep": 16, "micro_batch": 1, "rollout_tp": 1,
         "response_len": 2999},
    ),
    "235b-64-gb200": (
        286.0,
        {"model": "qwen3-235b-a22b", "on": "64xgb200", "tp": 2, "cp": 2, "pp": 4, "ep": 16, "micro_batch": 1, "rollout_tp": 8,
         "response_len": 5509, "prompts": 16, "response_max": 7992},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("step", "run"), STEPS.values(), ids=STEPS)
def test_steps_of_nemo_rl(step: float, run: dict[str, Any]) -> None:
    made = asked(**NEMO_RL | run)
    assert seconds(made, "step_time_s") == pytest.approx(step, rel=0.25)
    low, high = made.ranges["step_time_s"]
    assert low <= step <= high


SMALL = {"model": "llama-3.1-8b", "on": "8xh100-sxm-80gb", "rl": "grpo", "engine": "fsdp", "prompts": 64, "group_size": 8,
         "prompt_len": 512, "response_len": 512, "rollout_tp": 1, "micro_batch": 4, "tp": 1, "pp": 1, "cp": 1}  # fmt: skip


def test_the_parts_are_the_step() -> None:
    made = asked(**SMALL | {"rl": "ppo", "reward_model": "reward-llama-3.1-8b"})
    for breakdown in made.breakdowns:
        assert sum(float(one.value) for one in breakdown.parts) == pytest.approx(float(breakdown.total.value), rel=1e-9)
    assert made.breakdowns[0].total is made.figures["step_time_s"]
    names = {one.name for one in made.breakdowns[0].parts}
    assert {"step.reward_model", "step.critic_values", "step.critic_training", "step.old_log_probs"} <= names


def test_twice_the_group_generates_twice_the_tokens() -> None:
    one, two = asked(**SMALL), asked(**SMALL | {"group_size": 16})
    assert seconds(two, "generated_tokens_per_step") == 2 * seconds(one, "generated_tokens_per_step")
    assert seconds(two, "training_s") > 1.9 * seconds(one, "training_s")
    prompts = asked(**SMALL | {"prompts": 128})
    # As many responses of twice the prompts: a group computes its prompt once.
    assert seconds(prompts, "rollout_s") > seconds(two, "rollout_s")


def test_no_reference_takes_its_time_and_memory_away_and_nothing_else() -> None:
    with_it, without = asked(**SMALL), asked(**SMALL | {"reference": False})
    assert part(with_it, "reference") > 0
    assert part(without, "reference") == 0
    counted = [seconds(made, "step_time_s") - part(made, "unmodelled_of_loop") for made in (with_it, without)]
    assert counted[0] - counted[1] == pytest.approx(part(with_it, "reference"), rel=1e-9)
    assert seconds(without, "training_memory_bytes") < seconds(with_it, "training_memory_bytes")


def test_adapters_are_switched_off_for_the_reference() -> None:
    made = asked(**SMALL | {"lora": 16})
    assert part(made, "reference") > 0
    assert not [one.name for one in made.breakdowns[-1].parts if one.name.endswith("reference")]


def test_a_longer_response_is_waited_for() -> None:
    even, tailed = asked(**SMALL), asked(**SMALL | {"response_max": 2048})
    tail = {one.name: float(one.value) for one in tailed.breakdowns[1].parts}
    assert {one.name: float(one.value) for one in even.breakdowns[1].parts}["rollout.tail"] == 0
    assert tail["rollout.tail"] > 0
    assert seconds(tailed, "training_s") == seconds(even, "training_s")


def test_models_that_wait_in_the_host_leave_room_and_travel() -> None:
    here, there = asked(**SMALL | {"idle": "device"}), asked(**SMALL | {"idle": "host"})
    for phase in ("rollout", "training"):
        assert seconds(there, f"{phase}_memory_bytes") < seconds(here, f"{phase}_memory_bytes")
    assert part(here, "host_transfer") == 0
    assert part(there, "host_transfer") > 0


def test_models_wait_where_the_step_is_shorter() -> None:
    # Both ways fit: beside the states of training the rollout has less room for its cache, but nothing travels.
    ask = {
        "model": "qwen3-8b", "on": "8xh100", "rl": "grpo", "prompts": 64, "group_size": 16, "response_len": 2048, "zero_stage": 3,
        "recompute": "full",
    }  # fmt: skip
    ways = {where: asked(**ask | {"idle": where}) for where in ("device", "host")}
    assert all(made.verdict.fits for made in ways.values())
    shorter = min(ways, key=lambda where: seconds(ways[where], "step_time_s"))
    assert asked(**ask).question["idle"] == shorter


def test_a_policy_that_is_all_in_the_host_is_no_bug() -> None:
    made = asked(**SMALL | {"offload": ("optimizer", "params"), "zero_stage": 3})
    assert made.figures["training_memory_bytes"].value > 0


def test_smaller_batches_are_more_updates_of_the_same_tokens() -> None:
    one, four = asked(**SMALL), asked(**SMALL | {"global_batch": 128})
    assert float(one.figures["training_s"].find("rl.updates").value) == 1  # type: ignore[union-attr]
    assert float(four.figures["training_s"].find("rl.updates").value) == 4  # type: ignore[union-attr]
    assert seconds(four, "training_s") >= seconds(one, "training_s")


def test_names_mean_one_value() -> None:
    made = asked(**SMALL | {"rl": "ppo"})
    values: dict[str, set[float]] = {}
    for term in walk_of([*made.figures.values(), *(one.total for one in made.breakdowns)]):
        values.setdefault(term.name, set()).add(float(term.value))
    assert {name: found for name, found in values.items() if len(found) > 1} == {}


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"rl": None}, "rl.no-method"),
        ({"critic": "llama-3.1-8b"}, "rl.critic"),
        ({"seq_len": 1024}, "rl.seq-len"),
        ({"group_size": 1}, "rl.group"),
        ({"global_batch": 384}, "rl.batch"),
        ({"response_max": 100}, "rl.longest"),
        ({"rollout_tp": 3}, "plan.tp-heads"),
        ({"model": "qwen3-30b-a3b", "on": "16xh100", "engine": "torchtitan", "tp": 8}, "plan.tp-kv-heads"),
        ({"model": "gpt2", "response_max": 200000}, "plan.max-context"),
        ({"model": "bert-large"}, "rl.encoder"),
        ({"rollout_engine": "megatron-lm"}, "engine.no-serving"),
    ],
)
def test_what_cannot_be_is_said(given: dict[str, Any], code: str) -> None:
    with pytest.raises(GpuplanError) as error:
        asked(**SMALL | given)
    assert code in {one.code for one in error.value.problems}
