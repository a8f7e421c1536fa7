"""Drafts that a model verifies: what the drafter takes, what a step costs and makes, and published speed-ups."""

from __future__ import annotations

from typing import Any

import pytest

from gpuplan.errors import PlanError, UsageError
from gpuplan.estimate.result import Estimate
from gpuplan.formulas.drafting import tokens_a_step
from gpuplan.search.ask import answered

DEEPSEEK: dict[str, Any] = {"model": "deepseek-v3", "on": "8xh200", "engine": "sglang", "tp": 8, "pp": 1, "ep": 1, "batch": 1}
LLAMA: dict[str, Any] = {"model": "llama-3.1-70b", "on": "8xh100", "engine": "vllm", "tp": 8, "pp": 1, "batch": 1}


def served(**given: Any) -> Estimate:
    return answered("serve", given, advise=False, keep=True)


def figure(made: Estimate, name: str) -> float:
    return float(made.figures[name].value)


def part(made: Estimate, name: str) -> float:
    found = made.find(name)
    return 0.0 if found is None else float(found.value)


@pytest.mark.parametrize(
    ("acceptance", "drafts", "tokens"),
    # Leviathan et al. 2023, equation 1, by hand: 1 + a + a^2 + ... + a^k.
    [(0.8, 1, 1.8), (0.5, 2, 1.75), (0.9, 3, 3.439), (0.0, 4, 1.0), (1.0, 4, 5.0)],
)
def test_tokens_of_a_step(acceptance: float, drafts: float, tokens: float) -> None:
    assert tokens_a_step(acceptance=acceptance, drafts=drafts) == pytest.approx(tokens, rel=1e-4)


@pytest.mark.parametrize(("batch", "published"), [(1, 1.8), (32, 1.5)])
def test_prediction_modules_speed_decoding_up_as_published(batch: int, published: float) -> None:
    """SGLang on H200 with tp 8 prints 1.8 times for one request and 1.5 for 32; DeepSeek 1.8 of its own service."""
    plain, drafted = served(**{**DEEPSEEK, "batch": batch}), served(**{**DEEPSEEK, "batch": batch}, draft="mtp")
    assert figure(plain, "itl_s") / figure(drafted, "itl_s") == pytest.approx(published, rel=0.1)


def test_a_step_costs_what_verification_and_drafts_take() -> None:
    made = served(**DEEPSEEK, draft="mtp", draft_tokens=2, acceptance=0.8)
    assert figure(made, "tokens_per_step") == pytest.approx(2.44)
    assert figure(made, "itl_s") == pytest.approx(figure(made, "step_s") / 2.44)
    assert figure(made, "step_s") > figure(served(**DEEPSEEK), "itl_s")
    assert part(made, "decode.verified_rows") == 3


def test_drafts_that_are_never_accepted_only_cost() -> None:
    plain, refused = served(**LLAMA), served(**LLAMA, draft="eagle", draft_tokens=3, acceptance=0.0)
    assert figure(refused, "tokens_per_step") == 1.0
    assert figure(refused, "itl_s") > figure(plain, "itl_s")


def test_a_module_is_as_large_as_in_the_checkpoint() -> None:
    """The card counts 11.5 B unique parameters of the module that DeepSeek-V3's checkpoint adds; 8 ranks share them, in fp8."""
    made = served(**DEEPSEEK, draft="mtp")
    added = figure(made, "weights_bytes") - figure(served(**DEEPSEEK), "weights_bytes")
    assert added * 8 == pytest.approx(11.5e9, rel=0.03)


@pytest.mark.parametrize(("model", "params"), [("llama-2-7b", 0.24e9), ("llama-2-13b", 0.37e9), ("llama-2-70b", 0.99e9)])
def test_a_head_is_as_large_as_published(model: str, params: float) -> None:
    """EAGLE (Li et al. 2024, section 4) gives 0.24 B, 0.37 B and 0.99 B for 7B, 13B and 70B models."""
    made = served(**{**LLAMA, "model": model}, draft="eagle", draft_tokens=3)
    assert part(made, "draft.memory.weights_of_draft") * 8 / 2 == pytest.approx(params, rel=0.03)


def test_a_draft_model_is_held_and_run_beside_the_model() -> None:
    plain, drafted = served(**LLAMA), served(**LLAMA, draft="llama-3.2-1b", draft_tokens=4)
    alone = served(**{**LLAMA, "model": "llama-3.2-1b"})
    added = figure(drafted, "weights_bytes") - figure(plain, "weights_bytes")
    assert added == pytest.approx(part(alone, "memory.weights"))
    each = figure(drafted, "kv_cache_bytes_per_sequence") - figure(plain, "kv_cache_bytes_per_sequence")
    assert each == pytest.approx(figure(alone, "kv_cache_bytes_per_sequence"))
    # Four passes of the small model in a step.
    assert part(drafted, "decode.drafting_of_step") == pytest.approx(4 * figure(alone, "itl_s"), rel=0.01)


def test_the_number_of_drafts_that_is_left_open_is_the_fastest() -> None:
    chosen = figure(served(**LLAMA, draft="eagle"), "tokens_per_s")
    forced = [figure(served(**LLAMA, draft="eagle", draft_tokens=one), "tokens_per_s") for one in (1, 3, 5, 7)]
    assert chosen >= max(forced) * (1 - 1e-9)


def test_large_batches_gain_less() -> None:
    gains = [
        figure(served(**{**DEEPSEEK, "batch": batch}), "itl_s")
        / figure(served(**{**DEEPSEEK, "batch": batch}, draft="mtp"), "itl_s")
        for batch in (1, 32, 512)
    ]
    assert gains == sorted(gains, reverse=True)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"draft_tokens": 3}, "--draft-tokens, but nothing drafts"),
        ({"acceptance": 0.8}, "--acceptance, but nothing drafts"),
        ({"draft": "mtp"}, "no module of multi-token prediction is on record of llama-3.1-70b"),
        ({"draft": "qwen3-0.6b"}, "drafts must be of the same vocabulary"),
        ({"draft": "bert-large"}, "makes no tokens one after the other"),
    ],
)  # fmt: skip
def test_what_cannot_draft_is_said(given: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        served(**LLAMA, **given)


def test_stages_do_not_go_with_drafts() -> None:
    with pytest.raises(PlanError, match="drafts are made and verified by all layers together"):
        served(**{**LLAMA, "tp": 4, "pp": 2}, draft="eagle")
