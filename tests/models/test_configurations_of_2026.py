"""Configurations of models of 2025 and 2026: what they count is what the hub has stored of each, as llmfit 1.1.17 records it."""

from typing import Any

import pytest

from gpuplan.models.catalog import find
from gpuplan.models.import_config import read_config


def counted(data: dict[str, Any]) -> int:
    return int(read_config(data, "config.json", "model").count().params_total.value)


def gemma4(kind: str, hidden: int, layers: int, heads: int, kv_heads: int, width: int, **more: Any) -> dict[str, Any]:
    return {
        "model_type": kind, "hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads,
        "num_key_value_heads": kv_heads, "head_dim": 256, "global_head_dim": 512, "intermediate_size": width, "vocab_size": 262144,
        "sliding_window": 512, **more,
    }  # fmt: skip


SMALL = {
    "vision_config": {
        "hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 16, "num_attention_heads": 12, "head_dim": 64,
        "patch_size": 16, "pooling_kernel_size": 3, "position_embedding_size": 10240, "use_clipped_linears": True,
    },
    "audio_config": {
        "hidden_size": 1024, "num_hidden_layers": 12, "num_attention_heads": 8, "conv_kernel_size": 5,
        "subsampling_conv_channels": [128, 32], "output_proj_dims": 1536,
    },
}  # fmt: skip


def test_small_gemma_4_counts_what_is_stored_but_for_a_scale_a_layer() -> None:
    layers = {"hidden_size_per_layer_input": 256}
    e2b = gemma4(
        "gemma4_text", 1536, 35, 8, 1, 6144, num_kv_shared_layers=20, use_double_wide_mlp=True,
        layer_types=(["sliding_attention"] * 4 + ["full_attention"]) * 7, **layers,
    )  # fmt: skip
    e4b = gemma4("gemma4_text", 2560, 42, 8, 2, 10240, num_kv_shared_layers=18, **layers)
    assert counted({"model_type": "gemma4", "text_config": e2b, **SMALL}) == 5_123_178_051 - 35
    assert counted({"model_type": "gemma4", "text_config": e4b, **SMALL}) == 7_996_156_490 - 42


def test_gemma_4_without_encoders_counts_what_is_stored_but_for_a_scale_a_layer() -> None:
    text = gemma4(
        "gemma4_unified_text", 3840, 48, 16, 8, 15360, attention_k_eq_v=True, num_global_key_value_heads=1
    )  # fmt: skip
    sight = {"patch_size": 16, "pooling_kernel_size": 3, "mm_embed_dim": 3840, "mm_posemb_size": 1120}
    whole = {"model_type": "gemma4_unified", "text_config": text, "vision_config": sight, "audio_config": {"audio_embed_dim": 640}}
    assert counted(whole) == 11_959_730_224 - 48


def test_layers_of_gemma_4_that_borrow_keep_no_cache() -> None:
    """12 sliding and 3 global layers of 35 keep keys and values of E2B: of one head of 256, or of 512."""
    import gpuplan

    def held(context: int) -> float:
        return float(gpuplan.fit("gemma-4-e2b", on="rtx-4090", context=context)["kv_cache_bytes_per_sequence"].value)

    assert held(32_768) - held(16_384) == pytest.approx(16_384 * 3 * 2 * 512 * 2, rel=1e-6)


def mixture(kind: str, hidden: int, layers: int, heads: int, kv_heads: int, vocab: int, **more: Any) -> dict[str, Any]:
    return {
        "model_type": kind, "hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads,
        "num_key_value_heads": kv_heads, "head_dim": 128, "vocab_size": vocab, **more,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "stored", "data"),
    [
        ("trinity-nano", 6_120_003_328, mixture(
            "afmoe", 1024, 56, 8, 2, 200192, num_experts=128, num_experts_per_tok=8, moe_intermediate_size=256,
            num_shared_experts=1, num_dense_layers=2, intermediate_size=3072,
        )),
        ("trinity-large", 398_635_286_016, mixture(
            "afmoe", 3072, 60, 48, 8, 200192, num_experts=256, num_experts_per_tok=4, moe_intermediate_size=3072,
            num_shared_experts=1, num_dense_layers=6, intermediate_size=12288,
        )),
        # The correction biases of its routers are not among what is counted there.
        ("solar-open-100b", 102_651_793_408 + 48 * 128, mixture(
            "solar_open", 4096, 48, 64, 8, 196608, n_routed_experts=128, num_experts_per_tok=8, moe_intermediate_size=1280,
            n_shared_experts=1,
        )),
    ],
)  # fmt: skip
def test_mixtures_count_what_is_stored(name: str, stored: int, data: dict[str, Any]) -> None:
    assert counted(data) == stored == find(name).count().params_total.value


def test_hy3_counts_what_is_stored_without_the_module_that_predicts_one_token_more() -> None:
    data = mixture(
        "hy_v3", 4096, 80, 64, 8, 120832, num_experts=192, num_experts_per_tok=8, moe_intermediate_size=1536, num_shared_experts=1,
        intermediate_size=13312,
    )  # fmt: skip
    card = find("tencent/Hy3-preview")
    assert counted(data) + card.checkpoint_extra["multi_token_prediction"] == 298_786_155_776


def minimax_m3(**more: Any) -> dict[str, Any]:
    first = [0] * 3 + [1] * 57
    index = {"sparse_attention_freq": first, "sparse_block_size": 128, "sparse_topk_blocks": 16, "sparse_num_index_heads": 4}
    text = {
        "model_type": "minimax_m3_vl_text", "hidden_size": 6144, "num_hidden_layers": 60, "num_attention_heads": 64,
        "num_key_value_heads": 4, "head_dim": 128, "vocab_size": 200064, "intermediate_size": 3072, "num_local_experts": 128,
        "num_experts_per_tok": 4, "shared_intermediate_size": 3072, "n_shared_experts": 1, "dense_intermediate_size": 12288,
        "moe_layer_freq": first, "sparse_attention_config": index | more,
    }  # fmt: skip
    sight = {
        "hidden_size": 1280, "intermediate_size": 5120, "num_hidden_layers": 32, "num_attention_heads": 16, "patch_size": 14,
        "temporal_patch_size": 2, "spatial_merge_size": 2, "projector_hidden_size": 6144,
    }  # fmt: skip
    return {"model_type": "minimax_m3_vl", "text_config": text, "vision_config": sight}


def test_minimax_m3_counts_what_is_stored() -> None:
    """Also the 427,040,140,160 values that NVIDIA's Megatron-Bridge counted as it wrote the checkpoint (minimax-m3.md there)."""
    assert counted(minimax_m3()) == 427_040_140_160 == find("minimax-m3").count().params_total.value


def test_minimax_m3_keeps_all_keys_and_those_of_its_indexers() -> None:
    """Of 60 layers keys and values of 4 heads of 128, of 57 a key of 128 beside them, all in 16 bits."""
    import gpuplan

    def held(context: int) -> float:
        return float(gpuplan.fit("minimax-m3", on="8xb200", context=context, tp=8)["kv_cache_bytes_per_sequence"].value)

    assert held(65_536) - held(32_768) == pytest.approx(32_768 * 2 * 128 * (60 * 2 + 57), rel=1e-6)


def test_a_step_over_chosen_blocks_reads_few_keys_of_a_long_context() -> None:
    """A token sees 2,048 of all tokens; what grows is the scores of the indexer, whose keys have an eighth of the bytes."""
    import gpuplan

    def grown(model: str) -> float:
        short, long = (
            gpuplan.serve(model, on="8xb300", weights="fp8", tp=8, prompt=context, output=16, batch=1)["itl_s"].value
            for context in (4096, 131_072)
        )
        return float(long - short)

    assert 0 < grown("minimax-m3") < 0.6 * grown("minimax-m2")


def test_blocks_that_are_no_part_of_what_is_seen_are_refused() -> None:
    from gpuplan.models.mixers import BlockSparse

    faults = list(BlockSparse(heads=64, kv_heads=4, head_dim=128, top_k=2000, block=128).faults())
    assert [fault.code for fault in faults] == ["model.bad-value"]


@pytest.mark.parametrize(
    ("name", "counted_values"),
    [
        ("nvidia/Qwen3-30B-A3B-NVFP4", 17_452_222_848),
        ("nvidia/Qwen3-235B-A22B-NVFP4", 135_739_033_600),
        ("nvidia/Qwen3-32B-NVFP4", 19_109_664_640),
        ("RedHatAI/Llama-3.3-70B-Instruct-NVFP4", 40_606_377_056),
    ],
)
def test_repositories_in_nvfp4_leave_in_16_bits_what_the_hub_counts_so(name: str, counted_values: int) -> None:
    """The hub counts two quantised weights as one value, and a scale for 16: so it says how many there are."""
    from gpuplan.models.stored_by_rule import stored_by_rule

    card = find(name)
    assert card.weights is not None
    params = card.count()
    quantised = (params.params_total.value - counted_values) * 16 / 7
    made = stored_by_rule(card.architecture, params, card.weights, dtype="bf16", where="its name")
    assert made is not None
    held = sum(size for part in made.parts.values() for size in part.values())
    assert held == pytest.approx(2 * (params.params_total.value - quantised) + quantised * 9 / 16, rel=1e-4)
