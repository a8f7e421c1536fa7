"""What is offered as a change really makes the question fit, or makes its answer better."""

from __future__ import annotations

from typing import Any, TypeVar

import pytest

import gpuplan
from gpuplan.errors import UsageError
from gpuplan.estimate.result import Change, Estimate
from gpuplan.plan.ask import TrainAsk
from gpuplan.plan.ask_serving import FitAsk, ServeAsk
from gpuplan.plan.common import Common
from gpuplan.search import ask as questions
from tests.sweeps import thinned

Question = TypeVar("Question", bound=Common)
COUNTS = {
    "batch", "context", "prompt", "output", "tp", "pp", "dp", "cp", "ep", "vpp", "micro_batch", "seq_len", "global_batch",
    "zero_stage", "lora", "host_experts", "gpu_layers",
}  # fmt: skip


def changed(ask: Question, change: Change) -> Question:
    """The question with the flags of a change, as a user would type them."""
    values: dict[str, Any] = {flag.replace("-", "_"): text for flag, text in change.flags.items()}
    values = {name: int(text) if name in COUNTS else text or True for name, text in values.items()}
    values |= {name: tuple(text.split(",")) for name, text in values.items() if name == "offload"}
    if change.command == "serve":
        ask = ServeAsk(**{name: getattr(ask, name) for name in ServeAsk.field_names() if hasattr(ask, name)})
    return ask.replaced(**values)


def answer(ask: Common) -> Estimate:
    made: Estimate = getattr(questions, type(ask).__name__.removesuffix("Ask").lower())(ask)
    return made


@pytest.mark.parametrize(
    "ask",
    thinned(
        [
            FitAsk(model="llama-3.1-70b", on="t4"),
            FitAsk(model="llama-3.1-405b", on="8xh100", batch=4, context=16384),
            ServeAsk(model="llama-3.1-70b", on="2xl40s", prompt=2000, output=300, batch=4),
            ServeAsk(model="deepseek-v3", on="8xh100-sxm-80gb"),
            TrainAsk(model="llama-3.1-70b", on="4xh100-sxm-80gb"),
            TrainAsk(model="llama-3.1-8b", on="l40s", micro_batch=8, global_batch=64),
            TrainAsk(model="llama-3.1-70b", on="64xh100", tp=1, pp=1, zero_stage=1, offload=()),
            TrainAsk(model="llama-3.1-70b", on="64xh100", tp=4, pp=1, dp=16, micro_batch=4, recompute="none"),
            TrainAsk(model="qwen2.5-14b", on="rtx-4090", lora=16),
            TrainAsk(model="llama-3.1-405b", on="8xh100", offload=("optimizer", "params"), zero_stage=3),
            TrainAsk(model="llama-3.1-70b", on="tpu-v5p-8"),
            TrainAsk(model="deepseek-v3", on="64xh100", ep=8, offload=()),
        ],
        every=6,
    ),
    ids=lambda ask: f"{ask.model}-{ask.on}",
)
def test_each_change_that_is_offered_fits(ask: Common) -> None:
    made = answer(ask)
    assert not made.verdict.fits
    assert made.verdict.headline.startswith("does not fit")
    assert made.changes
    assert len({tuple(sorted(change.flags.items())) for change in made.changes}) == len(made.changes)
    for change in made.changes:
        assert answer(changed(ask, change)).verdict.fits, change


def test_degrees_that_must_change_too_are_said() -> None:
    made = answer(TrainAsk(model="llama-3.1-70b", on="64xh100", tp=1, pp=1, zero_stage=1, offload=()))
    assert {"zero-stage": "3"} in [dict(change.flags) for change in made.changes]
    assert any({"tp", "pp"} <= set(change.flags) and "on" not in change.flags for change in made.changes)


def test_a_machine_is_offered_once_and_never_because_its_host_is_unknown() -> None:
    made = answer(TrainAsk(model="llama-3.1-8b", on="h100", recompute="none", micro_batch=8))
    on = [change.flags["on"] for change in made.changes if "on" in change.flags]
    assert len({name.replace("-sxm-80gb", "") for name in on}) == len(on)
    offloaded = answer(TrainAsk(model="llama-3.1-405b", on="8xh100", offload=("optimizer", "params"), zero_stage=3))
    assert all(change.flags.get("on") != "l40s" for change in offloaded.changes)


@pytest.mark.parametrize(
    ("model", "on", "option"),
    [("qwen3-coder-next", "rtx-5090", "host-experts"), ("llama3.3:70b-instruct-q4_K_M", "rtx-4090", "gpu-layers")],
)
def test_the_memory_of_the_host_is_offered_by_an_engine_that_uses_it(model: str, on: str, option: str) -> None:
    ask = ServeAsk(model=model, on=on)
    made = answer(ask)
    assert made.question["engine"] == "llama-cpp"
    (change,) = (one for one in made.changes if option in one.flags)
    assert "in the memory of the host" in change.effect
    assert answer(changed(ask, change)).verdict.fits
    served = answer(ask.replaced(engine="vllm"))
    assert not [one for one in served.changes if {"host-experts", "gpu-layers"} & set(one.flags)]


def test_larger_slices_are_offered() -> None:
    made = answer(TrainAsk(model="llama-3.1-70b", on="tpu-v5p-8"))
    assert "tpu-v5p-32" in [change.flags.get("on") for change in made.changes]


def test_a_70b_on_one_t4_is_offered_three_changes() -> None:
    made = answer(FitAsk(model="llama-3.1-70b", on="t4"))
    assert made.verdict.binding == "memory.weights"
    assert "largest part: weights" in made.verdict.headline
    assert len(made.changes) == 3


@pytest.mark.parametrize(
    ("ask", "figure"),
    [
        (ServeAsk(model="llama-3.1-70b", on="4xh100", prompt=2000, output=300), "tokens_per_s"),
        (FitAsk(model="llama-3.1-8b", on="h100"), "max_sequences"),
        (TrainAsk(model="llama-3.1-8b", on="8xh100-sxm-80gb"), "tokens_per_s"),
    ],
    ids=lambda value: getattr(value, "model", value),
)
def test_each_improvement_that_is_offered_is_one(ask: Common, figure: str) -> None:
    made = answer(ask)
    assert made.verdict.fits
    assert made.changes
    for change in made.changes:
        after = answer(changed(ask, change))
        assert after.verdict.fits
        assert after.figures[figure].value > made.figures[figure].value, change


def test_what_the_user_fixed_stays_fixed() -> None:
    made = answer(FitAsk(model="llama-3.1-70b", on="t4", weights="bf16", kv_cache="bf16"))
    assert made.changes
    assert all(not {"weights", "kv-cache"} & set(change.flags) for change in made.changes)


def test_a_value_of_the_user_is_recomputed_upwards_and_an_unknown_name_is_refused() -> None:
    plain = answer(FitAsk(model="llama-3.1-8b", on="h100"))
    ours = answer(FitAsk(model="llama-3.1-8b", on="h100", pins={"hw.memory_capacity": 12 * 2.0**30}))
    assert plain.verdict.fits
    assert not ours.verdict.fits
    assert ours.figures["memory_capacity_bytes"].value == 12 * 2.0**30
    with pytest.raises(UsageError, match=r"no term is called `hw\.memory_capasity`"):
        answer(FitAsk(model="llama-3.1-8b", on="h100", pins={"hw.memory_capasity": 1.0}))


def test_a_value_of_the_plan_is_given_by_its_option_and_not_pinned() -> None:
    for name in ("plan.tp", "plan.micro_batch", "plan.accelerators"):
        with pytest.raises(UsageError, match="belongs to the plan"):
            answer(TrainAsk(model="llama-3.1-8b", on="8xh100", pins={name: 8.0}))


@pytest.mark.parametrize("on", ["h100", "2xh100", "4xl40s"])
def test_fit_for_training_offers_its_own_options_only(on: str) -> None:
    made = answer(FitAsk(model="llama-3.1-70b", on=on, task="train", context=8192))
    assert made.changes
    for change in made.changes:
        assert {flag.replace("-", "_") for flag in change.flags} <= set(FitAsk.field_names())
        assert answer(changed(FitAsk(model="llama-3.1-70b", on=on, task="train", context=8192), change)).verdict.fits


def test_a_change_that_fits_narrowly_says_so() -> None:
    """FSDP at 131,072 tokens: logits in pieces leave nothing between the blocks of the allocator and the card."""
    made = questions.answered("train", {"model": "llama-3.1-8b", "on": "2x8xh100", "engine": "fsdp", "seq_len": 131072})
    effects = {" ".join(one.flags): one.effect for one in made.changes}
    assert effects["chunked-loss"] == "fits narrowly"


def test_what_fits_is_told_with_the_room_that_its_sequences_leave_or_take() -> None:
    """A batch that nobody names fills what there is: what is left then says nothing."""
    filled = gpuplan.serve("gpt-oss-20b", on="rtx-3060", engine="vllm").estimate.changes
    one = gpuplan.serve("gpt-oss-20b", on="rtx-3060", engine="vllm", batch=1).estimate.changes
    fitting = gpuplan.fit("gpt-oss-20b", on="rtx-3060").estimate.changes
    assert filled
    assert all("sequences at once" in change.effect and "to spare" not in change.effect for change in filled)
    assert all("GiB to spare" in change.effect for change in (*one, *fitting))
