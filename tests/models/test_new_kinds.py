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


DEEPSEEK_V4: dict[str, Any] = {
    "model_type": "deepseek_v4", "vocab_size": 129280, "hidden_size": 4096, "moe_intermediate_size": 2048,
    "num_hidden_layers": 43, "num_hash_layers": 3, "num_attention_heads": 64, "num_key_value_heads": 1, "head_dim": 512,
    "qk_rope_head_dim": 64, "q_lora_rank": 1024, "o_groups": 8, "o_lora_rank": 1024, "n_routed_experts": 256,
    "n_shared_experts": 1, "num_experts_per_tok": 6, "index_head_dim": 128, "index_n_heads": 64, "index_topk": 512,
    "sliding_window": 128, "hc_mult": 4, "expert_dtype": "fp4", "compress_ratios": [0, 0, *[4, 128] * 20, 4, 0],
    "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128], "activation_scheme": "dynamic"},
}  # fmt: skip


def test_deepseek_v4_counts_what_transformers_builds() -> None:
    """transformers 5.23.0, DeepseekV4ForCausalLM on the meta device, and the correction biases of 40 routers."""
    card = read_config(DEEPSEEK_V4, "config.json", "model")
    assert int(card.count().params_total.value) == 284_332_240_471
    assert int(card.count().params_active.value) == 13_799_632_471
    assert card.weights is not None
    assert card.weights.method == "fp8"
    assert {name: one.method for name, one in card.weights.otherwise.items()} == {"mlp.experts": "mxfp4"}


def test_layers_are_told_by_words_as_by_rates() -> None:
    words = {0: "sliding_attention", 4: "compressed_sparse_attention", 128: "heavily_compressed_attention"}
    data = {key: value for key, value in DEEPSEEK_V4.items() if key != "compress_ratios"}
    data["layer_types"] = [words[rate] for rate in DEEPSEEK_V4["compress_ratios"][:43]]
    assert counted(data) == counted(DEEPSEEK_V4)


def test_a_context_keeps_one_key_for_each_piece() -> None:
    """128 keys of the last tokens in every layer; of the rest a key for each 4 tokens with the indexer's, or for each 128."""
    import gpuplan

    def held(context: int) -> float:
        return float(gpuplan.fit("deepseek-v4-flash", on="8xh200", context=context)["kv_cache_bytes_per_sequence"].value)

    grown = held(131_072 + 12_800) - held(131_072)
    # 41 layers: 21 of a key of 512 in 16 bits and an index key of 128 in 8 bits with a scale of 4 B, 20 of a key alone.
    assert grown == pytest.approx(12_800 * (21 * (1024 + 132) / 4 + 20 * 1024 / 128), rel=1e-6)


STEP: dict[str, Any] = {
    "model_type": "step3p5", "vocab_size": 128896, "hidden_size": 4096, "intermediate_size": 11264, "num_hidden_layers": 45,
    "num_attention_heads": 64, "num_attention_groups": 8, "head_dim": 128, "sliding_window": 512, "use_head_wise_attn_gate": True,
    "attention_other_setting": {"attention_type": "sliding_attention", "num_attention_heads": 96, "num_attention_groups": 8},
    "layer_types": ["full_attention", *["sliding_attention"] * 3] * 12, "moe_num_experts": 288, "moe_top_k": 8,
    "moe_intermediate_size": 1280, "share_expert_dim": 1280, "moe_layers_enum": ",".join(str(at) for at in range(3, 45)),
    "num_nextn_predict_layers": 3, "use_moe_router_bias": True, "tie_word_embeddings": False,
}  # fmt: skip


def test_step_with_its_modules_counts_what_is_stored() -> None:
    """stepfun-ai/Step-3.5-Flash on the hub; a module has a head, a dense layer with a window, a matrix and three norms."""
    windowed = 4096 * 96 * 128 * 2 + 2 * 4096 * 8 * 128 + 2 * 128 + 4096 * 96
    module = 128896 * 4096 + windowed + 3 * 4096 * 11264 + 2 * 4096 * 4096 + 5 * 4096
    assert counted(STEP) + 3 * module == 199_384_301_376
    inside = {"model_type": "step3p7", "text_config": STEP}
    assert counted(inside) == counted(STEP)


CLIP: dict[str, Any] = {
    "model_type": "clip", "projection_dim": 768,
    "text_config": {
        "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072, "projection_dim": 768,
    },
    "vision_config": {
        "model_type": "clip_vision_model", "hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16,
        "intermediate_size": 4096, "image_size": 224, "patch_size": 14, "projection_dim": 768,
    },
}  # fmt: skip


def test_both_towers_of_clip_count_as_its_profile_says() -> None:
    """ViT-L-14 of open_clip's docs/model_profile.csv: 427.62 million, 303.97 of them see; the library's defaults are filled in."""
    card = read_config(CLIP, "config.json", "model")
    count = card.count()
    assert round(count.params_total.value / 1e6, 2) == 427.62
    assert round(count.extra["vision_tower"].value / 1e6, 2) == 303.97
    assert any("vocab_size" in note and "49408" in note for note in card.notes)


def test_siglip_reads_its_patches_by_one_query() -> None:
    """ViT-SO400M-14-SigLIP-384 of the same page: 428.23 and 449.73 million."""
    towers = {"hidden_size": 1152, "num_hidden_layers": 27, "num_attention_heads": 16, "intermediate_size": 4304}
    text = {**towers, "vocab_size": 32000, "max_position_embeddings": 64}
    seen = {**towers, "model_type": "siglip_vision_model", "image_size": 384, "patch_size": 14}
    count = read_config({"model_type": "siglip", "text_config": text, "vision_config": seen}, "config.json", "model").count()
    sees = count.extra["vision_tower"].value
    assert (round(sees / 1e6, 2), round((count.params_total.value - sees) / 1e6, 2)) == (428.23, 449.73)


def test_an_image_is_encoded_beside_a_text() -> None:
    import gpuplan

    text = gpuplan.serve("clip-vit-large-patch14", on="l4", prompt=16)
    both = gpuplan.serve("clip-vit-large-patch14", on="l4", prompt=16, images=1, image_size="224x224")
    # 303 million parameters see 257 positions: about 162 GFLOP, as open_clip's profile says, where 16 tokens take 3.
    assert both["sequences_per_s"].value < text["sequences_per_s"].value / 3


def gemma3n(layers: int, inner: int, borrowing: int) -> dict[str, Any]:
    text = {
        "model_type": "gemma3n_text", "hidden_size": 2048, "intermediate_size": [inner] * layers, "num_hidden_layers": layers,
        "num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 256, "vocab_size": 262400, "sliding_window": 512,
        "vocab_size_per_layer_input": 262144, "hidden_size_per_layer_input": 256, "altup_num_inputs": 4, "laurel_rank": 64,
        "num_kv_shared_layers": borrowing, "max_position_embeddings": 32768,
    }  # fmt: skip
    return {"model_type": "gemma3n", "text_config": text}


def test_both_sizes_of_gemma_3n_leave_the_same_encoders_of_what_is_stored() -> None:
    """google/gemma-3n-E4B-it and E2B-it on the hub have the same encoders of images and sound; the rest is the text."""
    left = {7_849_978_192 - counted(gemma3n(35, 16384, 15)), 5_439_438_272 - counted(gemma3n(30, 8192, 10))}
    assert left == {983_281_504}


def test_layers_that_borrow_keep_no_cache() -> None:
    """20 layers of E4B keep keys and values, 4 of them of the whole context; 15 keep none."""
    import gpuplan

    def held(context: int) -> float:
        return float(gpuplan.fit("gemma-3n-e4b", on="rtx-4090", context=context)["kv_cache_bytes_per_sequence"].value)

    assert held(32_768) - held(16_384) == pytest.approx(16_384 * 4 * 2 * 2 * 256 * 2, rel=1e-6)


def parakeet(kind: str, layers: int, **more: Any) -> dict[str, Any]:
    encoder = {
        "hidden_size": 1024, "num_hidden_layers": layers, "num_attention_heads": 8, "intermediate_size": 4096,
        "conv_kernel_size": 9, "subsampling_conv_channels": 256,
        "subsampling_factor": 8, "num_mel_bins": 80, "max_position_embeddings": 5000,
        "attention_bias": True, "convolution_bias": True,
    }  # fmt: skip
    return {"model_type": kind, "vocab_size": 1025, "encoder_config": encoder, **more}


def test_parakeet_takes_as_many_bytes_as_its_files() -> None:
    """nvidia/parakeet-ctc-0.6b is 2.44 GB in fp32, nvidia/parakeet-tdt-1.1b 4.28 GB, with a few words beside the weights."""
    transducer = {"decoder_hidden_size": 640, "num_decoder_layers": 2, "durations": [0, 1, 2, 3, 4]}
    assert 4 * counted(parakeet("parakeet_ctc", 24)) == pytest.approx(2.44e9, rel=0.003)
    assert 4 * counted(parakeet("parakeet_tdt", 42, **transducer)) == pytest.approx(4.28e9, rel=0.003)
