"""Names of quantised repositories say which model they hold, in which type of weights."""

import re

import pytest

from gpuplan.errors import UnknownError
from gpuplan.models.catalog import find, names
from gpuplan.models.repositories import card_by_name, rules

CASES = {
    "Qwen/Qwen3-32B-AWQ": ("qwen3-32b", "awq", 4),
    "Qwen/Qwen2.5-7B-Instruct-GPTQ-Int4": ("qwen2.5-7b", "gptq", 4),
    "Qwen/Qwen2.5-7B-Instruct-GPTQ-Int8": ("qwen2.5-7b", "gptq", 8),
    "Qwen/Qwen3-235B-A22B-FP8": ("qwen3-235b-a22b", "fp8", 8),
    "TheBloke/Mistral-7B-Instruct-v0.2-AWQ": ("mistral-7b-v0.2", "awq", 4),
    "hugging-quants/Meta-Llama-3.1-405B-Instruct-AWQ-INT4": ("llama-3.1-405b", "awq", 4),
    "meta-llama/Llama-3.1-405B-Instruct-FP8": ("llama-3.1-405b", "fbgemm_fp8", 8),
    "amd/Llama-3.1-405B-Instruct-FP8-KV": ("llama-3.1-405b", "quark", 8),
    "nvidia/Llama-3.1-405B-Instruct-FP8": ("llama-3.1-405b", "fp8", 8),
    "nvidia/DeepSeek-R1-FP4": ("deepseek-r1", "nvfp4", 4),
    "nvidia/Llama-3.1-405B-Instruct-FP4": ("llama-3.1-405b", "nvfp4", 4),
    "RedHatAI/Llama-3.3-70B-Instruct-quantized.w8a8": ("llama-3.3-70b", "compressed-tensors", 8),
    "RedHatAI/Llama-3.3-70B-Instruct-quantized.w4a16": ("llama-3.3-70b", "compressed-tensors", 4),
    "RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic": ("llama-3.3-70b", "compressed-tensors", 8),
    "unsloth/Llama-3.2-3B-Instruct-bnb-4bit": ("llama-3.2-3b", "bitsandbytes", 4),
    "unsloth/Llama-3.2-3B-Instruct-unsloth-bnb-4bit": ("llama-3.2-3b", "bitsandbytes", 4),
    "mlx-community/Llama-3.2-3B-Instruct-4bit": ("llama-3.2-3b", "mlx", 4),
    "mlx-community/Llama-3.2-3B-Instruct-8bit": ("llama-3.2-3b", "mlx", 8),
    "qwen3-8b-awq": ("qwen3-8b", "awq", 4),
    "RedHatAI/Qwen3-8B-quantized.w4a16": ("qwen3-8b", "compressed-tensors", 4),
    "nvidia/Qwen3-32B-NVFP4": ("qwen3-32b", "nvfp4", 4),
}


@pytest.mark.parametrize("name", CASES)
def test_a_name_says_model_and_type(name: str) -> None:
    card = card_by_name(name, "the hub was not asked")
    assert card is not None
    assert card.weights is not None
    assert (card.id, card.weights.method, card.weights.bits) == CASES[name]
    assert any("by its name" in note and "the hub was not asked" in note for note in card.notes)


def test_sixteen_bits_are_the_model_as_it_is() -> None:
    card = card_by_name("mlx-community/Llama-3.2-3B-Instruct-bf16", "")
    assert card is not None
    assert card.id == "llama-3.2-3b"
    assert card.weights is None


def test_a_tuning_that_was_changed_is_the_model_in_sixteen_bits() -> None:
    card = card_by_name("huihui-ai/DeepSeek-R1-Distill-Qwen-32B-abliterated", "the hub was not asked")
    assert card is not None
    assert card.id == "qwen2.5-32b"
    assert card.weights is None


def test_others_quantise_by_their_own_rules() -> None:
    """Meta leaves attention of its 405B in 16 bits; AMD, NVIDIA and LLM Compressor quantise all but the head."""
    meta = card_by_name("meta-llama/Llama-3.1-405B-Instruct-FP8", "")
    assert meta is not None
    assert meta.weights is not None
    assert "model.layers.*.self_attn" in meta.weights.excluded
    for name in ("amd/Llama-3.1-405B-Instruct-FP8-KV", "nvidia/Llama-3.1-405B-Instruct-FP8", "RedHatAI/Llama-3.1-405B-FP8"):
        card = card_by_name(name, "")
        assert card is not None
        assert card.weights is not None
        assert card.weights.excluded == ("lm_head",)


def test_mixtures_of_nvidia_keep_their_attention() -> None:
    """As its settings of DeepSeek-V3.1, MiniMax-M2.5 and Kimi-K2.6 have it; dense models are quantised whole."""
    mixture, dense = card_by_name("nvidia/DeepSeek-R1-FP4", ""), card_by_name("nvidia/Llama-3.1-405B-Instruct-FP4", "")
    assert mixture is not None
    assert mixture.weights is not None
    assert "re:.*self_attn.*" in mixture.weights.excluded
    assert dense is not None
    assert dense.weights is not None
    assert dense.weights.excluded == ("lm_head",)


def test_files_of_apples_engine_are_served_by_it() -> None:
    card = card_by_name("mlx-community/Llama-3.2-3B-Instruct-4bit", "")
    assert card is not None
    assert card.engine == "mlx-lm"


@pytest.mark.parametrize(
    ("name", "card"),
    [
        ("Qwen/Qwen3-VL-32B-Thinking", "qwen3-vl-32b"),
        ("Qwen/Qwen3-4B-Thinking-2507", "qwen3-4b"),
        ("google/gemma-2-9b-pt", "gemma-2-9b"),
    ],
)
def test_another_tuning_of_the_same_owner_is_built_alike(name: str, card: str) -> None:
    found = card_by_name(name, "the hub was not asked")
    assert found is not None
    assert found.id == card
    assert any("how it was tuned" in note for note in found.notes)


@pytest.mark.parametrize(
    "name", ["someone/Qwen3-VL-32B-Thinking", "someone/Unheard-Of-9B-AWQ", "Qwen/Qwen3-32B-tuned", "-AWQ", "/"]
)
def test_other_names_say_nothing(name: str) -> None:
    assert card_by_name(name, "") is None


def test_a_bare_name_is_found_too() -> None:
    assert find("llama-3.1-8b-instruct-awq").id == "llama-3.1-8b"
    with pytest.raises(UnknownError):
        find("llama-3.1-8b-instruct-awq", cards_only=True)


def test_no_rule_takes_the_name_of_a_card() -> None:
    """A card comes before the rules; one whose own name ends as a rule does would still be a trap for its quantised ones."""
    every = set(names())
    for pattern, rule, _ in rules():
        for name in every:
            found = pattern.match(name.rpartition("/")[2])
            if found and not rule.owners:
                assert re.search(rule.ends, name, re.IGNORECASE)
                assert find(name).id


def test_bits_of_exllama_are_read_from_a_name():
    card = card_by_name("LoneStriker/Mixtral-8x7B-Instruct-v0.1-3.5bpw-h6-exl2", "offline")
    assert card is not None
    assert (card.id, card.engine) == ("mixtral-8x7b", "exllama")
    assert (card.weights.method, card.weights.millibits) == ("exl2", 3500)
    assert "exl2, 3.5 bits" in card.notes[-1]
