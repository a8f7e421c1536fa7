"""What a training question leaves unsaid is as the engine has it, said with its source; what is said is left as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpuplan.estimate.result import Estimate
from gpuplan.plan import ask as asks
from gpuplan.plan.ask import TrainAsk
from gpuplan.search.ask import train
from gpuplan.search.library import Library
from gpuplan.search.training import answer_training
from gpuplan.specs.base import load_spec
from gpuplan.specs.engine import Engine

ENGINES = Path(__file__).parents[2] / "hardware_specs" / "engines"
H200 = "h200-sxm-141gb"
RUN = {"seq_len": 4096, "global_batch": 64, "tp": 1, "pp": 1, "cp": 1}


def answer(engine: str | None, on: str = "8xh100-sxm-80gb", model: str = "llama-3.1-8b", **given: Any) -> Estimate:
    question = TrainAsk(model=model, on=on, engine=engine, **given)
    return answer_training(question, Library.of(question), with_price=False)


def habits(made: Estimate) -> dict[str, str]:
    return {choice.name: choice.value for choice in made.chosen if choice.habit}


@pytest.mark.parametrize(
    ("engine", "on", "given", "taken"),
    [
        (
            "torchtune", "8xh100-sxm-80gb", {},
            {"compiled": "false", "precision": "bf16-pure", "recompute": "full", "chunked_loss": "true"},
        ),
        (
            "torchtune", "h100-sxm-80gb", {"micro_batch": 4, "global_batch": 4},
            {
                "compiled": "false", "precision": "bf16-pure", "recompute": "full", "chunked_loss": "true",
                "optimizer": "adamw-8bit", "offload": "optimizer", "step_in_backward": "true",
            },
        ),
        # Gradients of several micro-batches are summed, and another optimizer is another recipe.
        (
            "torchtune", "h100-sxm-80gb", {"micro_batch": 1},
            {
                "compiled": "false", "precision": "bf16-pure", "recompute": "full", "chunked_loss": "true",
                "optimizer": "adamw-8bit", "offload": "optimizer",
            },
        ),
        (
            "torchtune", "h100-sxm-80gb", {"micro_batch": 4, "global_batch": 4, "optimizer": "sgd"},
            {"compiled": "false", "precision": "bf16-pure", "recompute": "full", "chunked_loss": "true"},
        ),
        ("kempnerforge", f"8x{H200}", {}, {"compiled": "true", "precision": "bf16-pure", "on": f"8x{H200}@kempner-h200"}),
        ("kempnerforge", "dgx-h200", {}, {"compiled": "true", "precision": "bf16-pure"}),
        ("megatron-lm", "8xh100-sxm-80gb", {"tp": 4}, {"recompute": "none"}),
        ("nemo", "8xh100-sxm-80gb", {"lora_targets": "all"}, {"lora": "32", "documents": "200", "recompute": "none"}),
        ("nemo", "8xh100-sxm-80gb", {"lora": 8, "documents": 1000}, {"recompute": "none"}),
        # Its recipes pack SQuAD into 4,096 tokens: longer sequences hold the user's own documents.
        ("nemo", "8xh100-sxm-80gb", {"lora": 8, "seq_len": 8192}, {"recompute": "none"}),
        ("maxtext", "tpu-v5p-64", {}, {"micro_batch": "2"}),
        ("maxtext", "2x256xtpu-v5e", {"global_batch": 1024}, {"micro_batch": "2", "shard_group": "256"}),
        ("torchtitan", "8xh100-sxm-80gb", {"pp": 4}, {"micro_batch": "1", "compiled": "false"}),
        ("torchtitan@2024-12", "8xh100-sxm-80gb", {"pp": 4, "global_batch": 16}, {"micro_batch": "2", "compiled": "false"}),
        ("fsdp", "8xh100-sxm-80gb", {}, {}),
        ("nemo-automodel", "8xh100-sxm-80gb", {}, {"precision": "bf16-pure", "recompute": "full"}),
    ],
)  # fmt: skip
def test_what_is_left_open_is_as_the_engine_has_it(engine: str, on: str, given: dict[str, Any], taken: dict[str, str]) -> None:
    made = answer(engine, on, **RUN | given)
    assert habits(made) == taken
    reasons = [choice.reason for choice in made.chosen if choice.habit]
    assert all(reason.startswith("habit of ") and reason.endswith(")") for reason in reasons)


@pytest.mark.parametrize(
    ("engine", "given", "taken"),
    [
        # Megatron-Core 02aa3ee4, model_parallel_config.py: without a value of their own experts are cut as dense layers are, as in
        # Grok-1 of dgxc-benchmarking v25.04.02 (tp 4, ep 8), which gives none. Recipes of Megatron Bridge keep them whole.
        ("megatron-lm", {"tp": 4, "ep": 8}, {"etp": "4"}),
        ("megatron-lm", {"tp": 4, "ep": 8, "etp": 2}, {}),
        ("megatron-lm", {"tp": 8, "ep": 8}, {}),  # 32 ranks are no 64.
        ("nemo", {"tp": 4, "ep": 8}, {"dispatcher": "hybridep"}),
        ("nemo", {"tp": 4, "ep": 8, "dispatcher": "alltoall"}, {}),
        ("nemo", {"tp": 4, "ep": 1}, {}),
        ("nemo@25.11", {"tp": 4, "ep": 8}, {"dispatcher": "alltoall"}),
        ("nemo@25.04", {"tp": 4, "ep": 8}, {"dispatcher": "alltoall", "etp": "4"}),
        ("nemo-automodel", {"tp": 1, "ep": 8}, {"dispatcher": "deepep", "precision": "bf16-pure"}),
    ],
)  # fmt: skip
def test_experts_are_spread_and_reached_as_the_engine_does(engine: str, given: dict[str, Any], taken: dict[str, str]) -> None:
    made = answer(engine, "32xh100-sxm-80gb", "mixtral-8x7b", **RUN | {"recompute": "full"} | given)
    assert habits(made) == taken


def test_a_name_that_ended_means_the_engine_as_it_was() -> None:
    """The launcher's config.yaml switches cuDNN's attention off up to its last commit, of July 2024."""
    plan = {"on": "8xh100-sxm-80gb", "precision": "fp8", "dp": 8, "micro_batch": 1, "recompute": "none", **RUN}
    steps: dict[str, float] = {}
    for name in ("nemo", "nemo@24.07", "NeMo Framework Launcher", "nemo-framework-launcher@25.11", "nemo@25.11"):
        made = answer(name, **plan)
        steps[name] = float(made.figures["step_time_s"].value)
        assert [note.text for note in made.notes if note.code == "engine.release"] == (
            [f"{name} was last released in 2024-07: it is taken as it was then"] if name.endswith("Launcher") else []
        )
    assert steps["NeMo Framework Launcher"] == steps["nemo@24.07"] > 1.05 * steps["nemo"]
    assert steps["nemo-framework-launcher@25.11"] == steps["nemo@25.11"]


@pytest.mark.parametrize(
    ("engine", "model", "given", "replays"),
    [
        # Megatron Bridge 067f987d, perf_recipes: *_full_iteration_mxfp8 of DeepSeek-V3, gpt-oss and Qwen3, since container 26.06.
        ("nemo", "qwen3-30b-a3b", {}, True),
        ("nemo@26.06", "qwen3-30b-a3b", {}, True),
        ("nemo@26.04", "qwen3-30b-a3b", {}, False),
        ("nemo", "nemotron-3-nano-30b-a3b", {}, False),
        ("nemo", "llama-3.1-8b", {"ep": 1}, False),
        ("nemo", "qwen3-30b-a3b", {"scaling": "tensorwise"}, False),
        ("nemo", "qwen3-30b-a3b", {"graphs": False}, False),
        ("nemo", "qwen3-30b-a3b", {"overlap": ("dp",)}, False),
        ("megatron-lm", "qwen3-30b-a3b", {}, False),
    ],
)  # fmt: skip
def test_mixtures_in_mxfp8_are_replayed_whole(engine: str, model: str, given: dict[str, Any], replays: bool) -> None:
    run = RUN | {"ep": 8, "precision": "fp8", "scaling": "blockwise", "recompute": "full"} | given
    taken = habits(answer(engine, "8xgb200", model, **run))
    assert (taken.get("graphs"), taken.get("overlap")) == (("true", "dp,ep") if replays else (None, None))


def test_tokens_travel_beside_nothing_unless_one_says_so() -> None:
    # overlap_moe_expert_parallel_comm is False by default in Megatron-Core and Megatron Bridge.
    run = RUN | {"ep": 8, "recompute": "full", "dispatcher": "alltoall"}
    parts = []
    for said in ({}, {"overlap": ("dp",)}, {"overlap": ("dp", "ep")}):
        made = answer("nemo", "32xh100-sxm-80gb", "mixtral-8x7b", **run | said)
        parts.append(next(float(one.named["expert_parallel"].value) for one in made.breakdowns if "expert_parallel" in one.named))
    assert parts[0] == pytest.approx(parts[1])
    assert parts[2] < 0.5 * parts[0]


@pytest.mark.parametrize(
    ("engine", "on", "given", "beside"),
    [
        # Megatron Bridge v0.2.0 to v0.4.0: moe_a2a_overlap in recipes of interleaved stages on H100, B200 and B300, not on GB200.
        ("nemo@25.11", "64xh100-sxm-80gb", {"pp": 2, "vpp": 4}, True),
        ("nemo", "8xdgx-b200", {"pp": 2, "vpp": 4}, True),
        ("nemo@25.08", "64xh100-sxm-80gb", {"pp": 2, "vpp": 4}, False),
        ("nemo@25.11", "64xh100-sxm-80gb", {"pp": 2, "vpp": 1}, False),
        ("nemo@25.11", "64xh100-sxm-80gb", {"pp": 1, "vpp": 1}, False),
        ("nemo@25.11", "64xh100-sxm-80gb", {"pp": 2, "vpp": 4, "ep": 1}, False),
        ("nemo@25.11", "64xh100-sxm-80gb", {"pp": 2, "vpp": 4, "overlap": ("dp",)}, False),
        ("nemo@25.11", "64xgb200", {"pp": 2, "vpp": 4}, False),
        ("megatron-lm", "64xh100-sxm-80gb", {"pp": 2, "vpp": 4}, False),
    ],
)  # fmt: skip
def test_tokens_travel_beside_interleaved_stages(engine: str, on: str, given: dict[str, Any], beside: bool) -> None:
    taken = habits(answer(engine, on, "mixtral-8x7b", **RUN | {"ep": 8, "recompute": "full"} | given))
    assert (taken.get("overlap") == "dp,ep,pp") is beside
    if beside:
        assert taken["dispatcher"] == "alltoall"


@pytest.mark.parametrize(
    ("engine", "given", "chunks"),
    [
        # Megatron-Core: virtual_pipeline_model_parallel_size is None by default; recipes of NeMo interleave.
        ("megatron-lm", {}, "1"),
        ("megatron-2021", {}, "1"),
        (None, {}, "1"),
        ("megatron-lm", {"vpp": 4}, None),
        ("megatron-lm", {"schedule": "gpipe"}, None),
        ("megatron-lm", {"pp": 1}, None),
        ("nemo", {}, None),
    ],
)  # fmt: skip
def test_given_stages_are_interleaved_where_one_says_so(engine: str | None, given: dict[str, Any], chunks: str | None) -> None:
    assert habits(answer(engine, "4xdgx-h100", **RUN | {"pp": 4, "micro_batch": 1} | given)).get("vpp") == chunks


def test_what_the_user_says_is_left_as_it_is() -> None:
    said = {
        "compiled": True, "precision": "fp32", "recompute": "none", "chunked_loss": False, "optimizer": "adamw", "micro_batch": 1,
        "step_in_backward": False,
    }  # fmt: skip
    made = answer("torchtune", H200, "llama-3.2-1b", **RUN | said)
    assert habits(made) == {}
    assert (made.question["precision"], made.question["recompute"], made.question["chunked_loss"]) == ("fp32", "none", "false")


def test_a_habit_changes_the_answer_as_the_same_words_would() -> None:
    left = answer("torchtune", **RUN)
    said = answer("torchtune", **RUN, compiled=False, precision="bf16-pure", recompute="full", chunked_loss=True)
    assert left.figures["step_time_s"].value == said.figures["step_time_s"].value
    assert left.figures["peak_memory_bytes"].value == said.figures["peak_memory_bytes"].value
    other = answer("torchtune", **RUN, compiled=True, precision="bf16", recompute="none", chunked_loss=False)
    assert left.figures["peak_memory_bytes"].value < 0.75 * float(other.figures["peak_memory_bytes"].value)


def test_where_the_division_is_left_open_all_ways_to_fit_are_looked_at() -> None:
    made = answer("megatron-lm", "8xa100-sxm-40gb", "llama-3.1-8b")
    assert "recompute" not in habits(made)
    assert made.verdict.fits


def test_a_habit_with_which_nothing_fits_is_given_up() -> None:
    tight = answer("megatron-lm", "2xh100-sxm-80gb", **RUN | {"micro_batch": 8, "tp": 2, "seq_len": 8192})
    assert "recompute" not in habits(tight)
    assert tight.question["recompute"] == "full"
    whole = answer("maxtext", "tpu-v5e-8", "llama-3.2-3b", **RUN | {"seq_len": 8192, "global_batch": 512})
    assert "micro_batch" not in habits(whole)
    assert int(whole.question["micro_batch"]) < 64


def test_more_is_sharded_where_the_stage_that_nobody_named_does_not_fit() -> None:
    """XTuner trains Llama 2 70B on 32 A100 with sequences divided over four: ZeRO-1 alone would hold every weight on each."""
    plan = {"seq_len": 32768, "global_batch": 8, "tp": 1, "pp": 1, "cp": 4, "engine": None}
    made = answer(on="32xa100-sxm-80gb", model="llama-2-70b", **plan)
    assert made.verdict.fits
    assert made.question["zero_stage"] == "3"
    assert "ZeRO 1" in next(choice.reason for choice in made.chosen if choice.name == "zero_stage")
    assert not answer(on="32xa100-sxm-80gb", model="llama-2-70b", **plan, zero_stage=1).verdict.fits
    # No more than it takes, and no more than the engine combines with pipelines.
    assert answer(on="8xa100-sxm-80gb", model="llama-2-7b", **plan | {"cp": 1}).question["zero_stage"] == "1"
    piped = answer("megatron-lm", "16xa100-sxm-80gb", "llama-2-70b", **RUN | {"pp": 2})
    assert piped.question["zero_stage"] == "1"


def test_one_hears_that_16_bits_are_another_recipe_there() -> None:
    notes = {note.code: note for note in answer("torchtune", **RUN, precision="bf16").notes}
    assert "--precision bf16-pure" in notes["precision.habit"].hint
    assert "precision.habit" not in {note.code for note in answer("torchtune", **RUN, precision="bf16-pure").notes}
    assert "precision.habit" not in {note.code for note in answer("fsdp", **RUN, precision="bf16").notes}


def test_a_faster_way_than_the_habit_is_told() -> None:
    made = train(TrainAsk(model="llama-3.2-1b", on="8xh100-sxm-80gb", engine="torchtune", **RUN, micro_batch=1))
    assert {"recompute": "none"} in [change.flags for change in made.changes]


def test_adapters_without_a_rank_have_the_usual_one_where_the_engine_names_none() -> None:
    made = answer("fsdp", **RUN, qlora=True)
    assert made.question["lora"] == "16"
    assert "TRL" in {choice.name: choice.reason for choice in made.chosen}["lora"]
    assert answer("torchtune", **RUN, qlora=True).question["lora"] == "8"


def test_a_framework_without_a_profile_is_answered_by_one_that_says_so() -> None:
    made, own = answer("levanter", "tpu-v5p-64", **RUN), answer("maxtext", "tpu-v5p-64", **RUN)
    assert made.figures["step_time_s"].value == own.figures["step_time_s"].value
    assert [note.text.partition(" ")[0] for note in made.notes if note.code == "engine.stands-in"] == ["levanter"]
    assert "engine.stands-in" not in {note.code for note in own.notes}


def test_no_name_stands_for_two_engines() -> None:
    profiles = [load_spec(Engine, path) for path in sorted(ENGINES.glob("*.yaml"))]
    names = [name for one in profiles for name in (one.id, *one.aliases, *one.stands_in_for)]
    assert len(names) == len(set(names))


def test_the_words_of_habits_are_words_of_options() -> None:
    from typing import get_args

    from gpuplan.specs import engine_defaults as words

    def of(kind: Any) -> set[str]:
        return set(get_args(kind)[1].words)

    assert of(words.Recomputed) <= set(get_args(asks.Recompute))
    assert of(words.Types) <= set(get_args(asks.Precision))
    assert of(words.States) == set(get_args(asks.Optimizer))
    assert of(words.Waiting) == set(get_args(asks.Offload))


def test_who_names_no_engine_gets_the_pipeline_and_the_dispatcher_that_the_model_was_trained_with() -> None:
    asked: dict[str, Any] = {"model": "deepseek-v3", "on": "2048xh800", "pp": 16, "precision": "fp8"}
    assert habits(answer(None, **asked, ep=64)).items() >= {("schedule", "dualpipe"), ("dispatcher", "deepep")}
    assert not {"schedule", "dispatcher"} & habits(answer("megatron-lm", **asked, ep=64)).keys()
    assert not {"schedule", "dispatcher"} & habits(answer(None, **asked, ep=64, schedule="1f1b", dispatcher="alltoall")).keys()
    assert "dispatcher" not in habits(answer(None, **asked, ep=1))


@pytest.mark.parametrize(
    ("given", "precision"),
    [
        ({"tp": 8, "pp": 2}, "fp32"),
        ({"tp": 8, "pp": 1, "cp": 1}, "bf16"),  # Two replicas shard.
        ({"tp": 8, "pp": 1, "cp": 1, "zero_stage": 0}, "fp32"),
        ({"tp": 8, "pp": 1, "cp": 2}, "bf16"),  # So do ranks that share a sequence.
        ({"tp": 1, "pp": 1, "cp": 1, "zero_stage": 0}, "bf16"),  # Autocast serves replicas.
        ({"tp": 8, "pp": 2, "precision": "bf16"}, "bf16"),
    ],
)
def test_mixed_precision_of_sharded_weights_was_off_where_none_are(given: dict[str, Any], precision: str) -> None:
    plan = {"seq_len": 4096, "global_batch": 16, "micro_batch": 1, "recompute": "full", **given}
    assert answer("torchtitan@0.2.2", f"16x{H200}", **plan).question["precision"] == precision
    later = answer("torchtitan@0.3", f"16x{H200}", **plan)
    assert later.question["precision"] == "bf16"
    notes = [{note.code for note in made.notes} for made in (later, answer("torchtitan", f"16x{H200}", **plan))]
    told = precision == "fp32"  # Who says no month is told of it.
    assert ["precision.era" in codes for codes in notes] == [False, told]
