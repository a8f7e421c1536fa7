"""Configurations of models with layers of their own kind: what they count is what their makers stored."""

import json
from pathlib import Path
from typing import Any

import pytest

from gpuplan.models.import_config import import_config, read_config

KIMI_LINEAR: dict[str, Any] = {
    "model_type": "kimi_linear", "vocab_size": 163840, "hidden_size": 2304, "intermediate_size": 9216,
    "moe_intermediate_size": 1024,
    "num_hidden_layers": 27, "num_attention_heads": 32, "num_key_value_heads": 32, "num_shared_experts": 1, "kv_lora_rank": 512,
    "q_lora_rank": None, "qk_rope_head_dim": 64, "v_head_dim": 128, "qk_nope_head_dim": 128, "num_experts": 256,
    "num_experts_per_token": 8, "first_k_dense_replace": 1, "moe_layer_freq": 1, "model_max_length": 1048576,
    "linear_attn_config": {
        "head_dim": 128, "num_heads": 32, "short_conv_kernel_size": 4, "full_attn_layers": [4, 8, 12, 16, 20, 24, 27],
    },
}  # fmt: skip


def counted(data: dict[str, Any]) -> int:
    return int(read_config(data, "config.json", "model").count().params_total.value)


def test_kimi_linear_counts_what_is_stored() -> None:
    """moonshotai/Kimi-Linear-48B-A3B-Instruct on the hub, as llmfit 1.1.17 records it."""
    assert counted(KIMI_LINEAR) == 49_122_681_728


def test_a_full_gate_is_one_matrix_and_a_gate_of_latent_attention_another() -> None:
    own = {**KIMI_LINEAR["linear_attn_config"], "use_full_rank_gate": True}
    full = counted({**KIMI_LINEAR, "linear_attn_config": own})
    assert full - counted(KIMI_LINEAR) == 20 * (2304 * 4096 - 128 * (2304 + 4096))
    gated = counted({**KIMI_LINEAR, "mla_use_output_gate": True})
    assert gated - counted(KIMI_LINEAR) == 7 * 2304 * 32 * 128


@pytest.mark.parametrize("missing", ["linear_attn_config", "kv_lora_rank", "num_experts"])
def test_what_is_missing_is_named(missing: str, tmp_path: Path) -> None:
    from gpuplan.errors import GpuplanError

    file = tmp_path / "config.json"
    file.write_text(json.dumps({key: value for key, value in KIMI_LINEAR.items() if key != missing}))
    with pytest.raises(GpuplanError) as caught:
        import_config(file)
    assert missing in str(caught.value) or "num_heads" in str(caught.value)
