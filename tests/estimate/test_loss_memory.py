"""What of the logits is alive at the loss: by the month of an engine, by who makes the loss, and where a model caps its logits."""

from __future__ import annotations

from typing import Any

import pytest

from gpuplan.estimate.result import Estimate
from gpuplan.plan.ask import TrainAsk
from gpuplan.plan.train import Tuning
from gpuplan.ranges import interval
from gpuplan.search.library import Library
from gpuplan.search.training import answer_training
from gpuplan.term import walk_of
from tests.estimate.test_plan_kinds import made, part

TOKENS = 1024
LLAMA, GEMMA = 128_256, 256_000
CARD = "1xh100-sxm-80gb"
RUN = {"seq_len": 8192, "micro_batch": 1, "global_batch": 512, "tp": 2, "pp": 1, "cp": 1, "zero_stage": 1, "recompute": "selective"}


def asked(engine: str, **given: Any) -> Estimate:
    question = TrainAsk(model="llama-3-8b", on="8xh100-sxm-80gb", engine=engine, **{**RUN, **given})
    return answer_training(question, Library.of(question), with_price=False)


def held(one: Estimate, name: str) -> float:
    return float(next(part for part in one.figures["allocated_memory_bytes"].walk() if part.name == name).value)


@pytest.mark.parametrize(("engine", "each"), [
    ("megatron-lm@2024-05", 10), ("megatron-lm@2024-07", 6), ("megatron-lm", 6), ("nemo@2024-05", 10), ("nemo@2024-09", 6),
])  # fmt: skip
def test_megatron_core_kept_the_difference_to_the_largest_logit_until_it_subtracted_in_place(engine: str, each: int) -> None:
    # 9634c0e4 of 2024-06-13: `vocab_parallel_logits -= logits_max`, which was a tensor beside the caller's fp32 copy.
    assert held(asked(engine), "memory.logits") == each * 8192 * LLAMA / 2


def test_there_was_no_weight_in_fp8_alone_before_september_2024() -> None:
    # 033d8b0d of 2024-09-05 brought --fp8-param-gather; before, 16-bit weights stood beside an fp8 copy and its transpose.
    before, since = (held(asked(f"megatron-lm@2024-{month}", precision="fp8"), "memory.weights") for month in ("08", "10"))
    assert before == 2 * since


def figures(engine: str, model: str, **given: Any) -> Any:
    run = {"seq_len": float(TOKENS), "zero_stage": 0, "recompute": "full", "tuning": Tuning(lora=16)}
    return made(model, CARD, engine, **run | given)


def test_a_cap_of_logits_keeps_what_its_tanh_gives() -> None:
    # Gemma 2 of Transformers: / cap, tanh, * cap. Gemma of 2024-02 has as many words and no cap.
    capped, plain = (part(figures("accelerate", model), "transient") for model in ("gemma-2-9b", "gemma-7b"))
    assert capped - plain == 2 * TOKENS * GEMMA
    # PEFT makes the head of a quantised model fp32.
    narrow = Tuning(lora=16, base_weights="nf4")
    capped, plain = (part(figures("peft", model, tuning=narrow), "transient") for model in ("gemma-2-9b", "gemma-7b"))
    assert capped - plain == 4 * TOKENS * GEMMA
    # Unsloth's kernel makes it again.
    assert part(figures("unsloth", "gemma-2-9b"), "transient") < 2 * TOKENS * GEMMA


def test_ligers_fused_loss_knew_no_caps_until_november_2024() -> None:
    # linkedin/Liger-Kernel pull request 320, merged on 2024-11-09.
    def logits(engine: str, model: str) -> float:
        question = TrainAsk(
            model=model,
            on="h100-sxm-80gb",
            engine=engine,
            seq_len=8192,
            micro_batch=1,
            global_batch=1,
            recompute="full",
            liger=True,
        )
        made = answer_training(question, Library.of(question), with_price=False)
        return sum(float(one.value) for one in walk_of([made.figures["allocated_memory_bytes"]]) if one.name.endswith("fused_loss"))

    assert logits("accelerate@2024-10", "gemma-2-2b") == 0
    assert logits("accelerate@2024-10", "gemma-2b") == logits("accelerate@2024-12", "gemma-2b") > 0
    assert logits("accelerate@2024-12", "gemma-2-2b") > 0


def test_a_loop_may_reduce_16_bit_logits_itself() -> None:
    def low(engine: str, **given: Any) -> float:
        peak = figures(engine, "gemma-7b", seq_len=8192.0, **given).memory.peak
        return float(peak.value) - interval({"": peak})[""][0]

    logits = 8192 * GEMMA
    wide = low("peft")
    assert 8 * logits < wide < 8 * logits + low("accelerate")
    # What autocast, loss scaling or a head in fp32 widens is in doubt by what the model gives out alone.
    for given, each in (({"precision": "fp16"}, 2), ({"tuning": Tuning(lora=16, base_weights="nf4")}, 4)):
        assert each * logits < low("peft", **given) < each * logits + low("accelerate", **given)
