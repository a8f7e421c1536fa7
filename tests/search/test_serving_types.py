"""Types of weights and caches are those of the checkpoint, of the engine's users, or of the user; what is left plain is counted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gpuplan.estimate.result import Estimate
from gpuplan.models.card import WeightsFormat
from gpuplan.models.catalog import find
from gpuplan.models.plain_parts import folded, plain_parts
from gpuplan.search.ask import answered
from tests.sweeps import thinned

GIB = 2**30
LLAMA: dict[str, Any] = {
    "model_type": "llama", "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
    "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 131072, "torch_dtype": "bfloat16",
}  # fmt: skip


def ask(task: str, **given: Any) -> Estimate:
    return answered(task, given, advise=False)


def part(made: Estimate, name: str) -> float:
    return float(made.breakdowns[-1].named[name].value) / GIB  # type: ignore[arg-type]


def config(folder: Path, beside: dict[str, Any] | None = None, **more: Any) -> str:
    (folder / "config.json").write_text(json.dumps(LLAMA | more))
    if beside is not None:
        (folder / "hf_quant_config.json").write_text(json.dumps({"producer": {"name": "modelopt"}, "quantization": beside}))
    return str(folder)


@pytest.mark.parametrize(
    ("model", "on", "engine", "weights", "published", "near"),
    [
        ("gpt-oss-20b", "h100", "vllm", None, 12.8, 0.01),
        ("gpt-oss-120b", "h100", "vllm", None, 60.8, 0.01),
        ("llama-3.1-405b", "8xh100", "vllm", "fp8", 57.75, 0.03),
        ("llama-3.1-8b", "m3-max", "ollama", None, 4.58, 0.01),
        ("llama-3.1-8b", "m3-max", "llama.cpp", "q8_0", 7.95, 0.01),
        ("llama-3.1-70b", "h100", "llama.cpp", None, 43.1e9 / GIB, 0.03),
    ],
)
def test_weights_are_as_large_as_what_was_printed(
    model: str, on: str, engine: str, weights: str | None, published: float, near: float
) -> None:
    made = ask("fit", model=model, on=on, engine=engine, weights=weights)
    assert part(made, "weights") == pytest.approx(published, rel=near)


def test_padded_experts_are_what_vllm_loads() -> None:
    made = ask("fit", model="gpt-oss-120b", on="h100", engine="vllm@0.10.1", context=131072)
    assert part(made, "weights") + part(made, "expert_padding") == pytest.approx(65.97, rel=0.005)
    assert not made.verdict.fits
    assert "expert_padding" not in ask("fit", model="gpt-oss-120b", on="h100", engine="tensorrt-llm").breakdowns[-1].named


@pytest.mark.parametrize(("engine", "kv_cache"), [("ollama", "fp16"), ("llama.cpp", "fp16"), ("vllm", "bf16")])
def test_what_users_of_an_engine_take_unasked(engine: str, kv_cache: str) -> None:
    made = ask("fit", model="qwen3-32b", on="rtx-4090", engine=engine)
    assert made.question["weights"] == ("bf16" if engine == "vllm" else "q4_k_m")
    assert made.question["kv_cache"] == kv_cache
    assert made.verdict.fits == (engine != "vllm")
    assert ask("fit", model="qwen3-32b", on="rtx-4090", engine=engine, weights="bf16").question["weights"] == "bf16"
    stored = "mxfp4" if engine == "vllm" else "mxfp4_moe"
    assert ask("fit", model="gpt-oss-20b", on="rtx-4090", engine=engine).question["weights"] == stored


@pytest.mark.parametrize(
    ("block", "beside", "weights", "kv_cache"),
    [
        (None, {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]}, "fp8", "fp8"),
        (None, {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8", "group_size": 16}, "nvfp4", "fp8"),
        ({"quant_method": "fp8", "activation_scheme": "dynamic"}, None, "fp8", "bf16"),
        ({"quant_method": "awq", "bits": 4, "group_size": 32}, None, "int4", "bf16"),
        ({"quant_method": "gptq", "bits": 4, "group_size": 128}, None, "int4", "bf16"),
        ({"quant_method": "mxfp4"}, None, "mxfp4", "bf16"),
        ({"quant_method": "fbgemm_fp8", "modules_to_not_convert": ["lm_head"]}, None, "fp8", "bf16"),
        (
            {
                "quant_method": "compressed-tensors", "kv_cache_scheme": {"num_bits": 8, "type": "float"}, "ignore": ["lm_head"],
                "config_groups": {"g": {"weights": {"num_bits": 8, "type": "float"}}},
            },
            None, "fp8", "fp8",
        ),
    ],
)  # fmt: skip
def test_a_quantised_checkpoint_is_served_as_it_is_stored(
    tmp_path: Path, block: dict[str, Any] | None, beside: dict[str, Any] | None, weights: str, kv_cache: str
) -> None:
    more = {} if block is None else {"quantization_config": block}
    made = ask("serve", model=config(tmp_path, beside, **more), on="h100", engine="vllm")
    assert made.question["weights"] == weights
    assert made.question["kv_cache"] == kv_cache


def test_smaller_groups_take_more_scales(tmp_path: Path) -> None:
    sizes = []
    for group in (128, 32):
        block = {"quant_method": "awq", "bits": 4, "group_size": group}
        model = config(tmp_path, quantization_config=block)
        sizes.append(part(ask("fit", model=model, on="h100"), "weights"))
    inner = 32 * (2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14336) / GIB
    assert sizes[1] - sizes[0] == pytest.approx(inner * 2.5 * (1 / 32 - 1 / 128), rel=1e-6)


@pytest.mark.parametrize(
    "names",
    [
        ["lm_head", *(f"model.layers.{layer}.self_attn.{one}_proj" for layer in range(32) for one in "qkvo")],
        ["lm_head", "model.layers.*.self_attn"],
        ["lm_head", "re:.*self_attn.*"],
        ["lm_head", "self_attn"],
        ["lm_head", "model.layers.[0-31].self_attn"],
        ["*self_attn*"],
    ],
)
@pytest.mark.parametrize("key", thinned(["modules_to_not_convert", "ignore", "exclude_modules"], every=3))
def test_modules_that_are_left_out_stay_in_16_bits(tmp_path: Path, names: list[str], key: str) -> None:
    """However a quantiser writes it, attention takes twice what it would."""
    block = {"quant_method": "fp8", key: names}
    attention = 32 * (2 * 4096 * 4096 + 2 * 4096 * 1024) / GIB
    whole = part(ask("fit", model=config(tmp_path, quantization_config={"quant_method": "fp8"}), on="h100"), "weights")
    kept = ask("fit", model=config(tmp_path, quantization_config=block), on="h100")
    assert part(kept, "weights") - whole == pytest.approx(attention, rel=1e-6)
    plain = ask("serve", model=config(tmp_path, quantization_config=block), on="h100", batch=1)
    lean = ask("serve", model=config(tmp_path, quantization_config={"quant_method": "fp8"}), on="h100", batch=1)
    assert float(plain.figures["itl_s"].value) > float(lean.figures["itl_s"].value)  # type: ignore[arg-type]


def test_parts_of_some_layers() -> None:
    arch = find("llama-3.1-405b").architecture
    stored = WeightsFormat(method="fp8", excluded=("model.layers.0.mlp", "model.layers.125.mlp"))
    found = {name: share for _, name, share in plain_parts(arch, stored)}
    assert found == {"mlp": pytest.approx(2 / 126)}
    assert folded(f"model.layers.{layer}.mlp" for layer in (0, 125)) == ("model.layers.0.mlp", "model.layers.125.mlp")


def test_a_list_of_every_layer_is_read_whole(tmp_path: Path) -> None:
    names = [f"model.layers.{layer}.self_attn.{one}_proj" for one in "qkvo" for layer in range(32)]
    made = ask("fit", model=config(tmp_path, quantization_config={"quant_method": "fp8", "ignore": names}), on="h100")
    again = ask("fit", model=config(tmp_path, quantization_config={"quant_method": "fp8", "ignore": names[:64]}), on="h100")
    assert part(made, "weights") > part(again, "weights")


@pytest.mark.parametrize("weights", ["fp8", "nvfp4"])
def test_checkpoints_that_tensorrt_llm_is_run_with_carry_an_fp8_cache(weights: str) -> None:
    assert ask("serve", model="llama-3.3-70b", on="4xb200", engine="tensorrt-llm", weights=weights).question["kv_cache"] == "fp8"
    made = ask("serve", model="llama-3.3-70b", on="4xb200", engine="tensorrt-llm", weights=weights, kv_cache="bf16")
    assert made.question["kv_cache"] == "bf16"


@pytest.mark.parametrize("on", ["t4", "v100-sxm2-32gb"])
def test_cards_without_bf16_serve_in_fp16(on: str) -> None:
    made = ask("serve", model="qwen2.5-1.5b", on=on)
    assert (made.question["weights"], made.question["kv_cache"]) == ("fp16", "fp16")


@pytest.mark.parametrize(("on", "share"), [("m3-max", 0.75), ("m2-ultra", 0.75), ("m1", 0.6667)])
def test_macos_lets_a_graphics_processor_hold_a_share(on: str, share: float) -> None:
    made = ask("fit", model="llama-3.2-1b", on=on)
    whole = made.find("hw.memory_capacity")
    assert whole is not None
    assert made.figures["memory_capacity_bytes"].value == pytest.approx(whole.value * share)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("given", "fits"),
    [
        ({"model": "gpt-oss-120b", "on": "m3-max", "set": ["hw.memory_capacity=64GiB"]}, False),
        ({"model": "gpt-oss-120b", "on": "m3-max", "set": ["hw.memory_capacity=128GiB"]}, True),
        ({"model": "llama-2-13b", "on": "apple-m2-pro", "set": ["hw.memory_capacity=16GiB"], "context": 4096}, False),
        ({"model": "llama-2-13b", "on": "apple-m2-pro", "set": ["hw.memory_capacity=16GiB"], "context": 2000}, True),
    ],
)
def test_what_ran_on_a_mac(given: dict[str, Any], fits: bool) -> None:
    weights = "int4" if given["model"] == "llama-2-13b" else None
    assert ask("fit", weights=weights, engine="llama-cpp", batch=1, **given).verdict.fits is fits


@pytest.mark.parametrize("on", ["jetson-agx-orin-64gb", "jetson-orin-nano-8gb", "cpu-xeon-8480plus", "gb10-dgx-spark"])
def test_a_system_keeps_some_of_what_it_shares(on: str) -> None:
    made = ask("fit", model="llama-3.2-1b", on=on)
    whole = made.find("hw.memory_capacity")
    assert whole is not None
    assert 0 < made.figures["memory_capacity_bytes"].value < whole.value  # type: ignore[operator]


def test_what_vllm_takes_beside_the_model_depends_on_card_and_model() -> None:
    big, small = (ask("fit", model="llama-3.2-1b", on=on, engine="vllm") for on in ("h100", "rtx-4090"))
    # On less than 70 GiB the passes are of 2048 tokens and 256 sequences, not 8192 and 1024.
    assert part(small, "activations") < part(big, "activations") / 3
    # 51 graphs of mixed passes and 51 or 35 of decode steps.
    assert part(big, "graphs") - part(small, "graphs") == pytest.approx(16 * 6.8 / 1024)


def test_eager_code_reserves_the_prompt_that_it_is_given() -> None:
    eager = {"model": "qwen2.5-7b", "on": "a100-sxm-80gb", "engine": "torch-eager", "batch": 1}
    sizes = [part(ask("fit", **eager, context=context), "activations") for context in (513, 2049, 9000)]
    assert sizes == sorted(set(sizes))


def test_attention_across_the_stacks_keeps_what_the_encoder_read() -> None:
    """1,500 frames of 32 layers with keys and values of 1,280 in 16 bits, in pages of 16, and the text context of 448."""
    made = ask("serve", model="whisper-large-v3", on="l4", batch=1)
    each = 32 * 2 * 1280 * 2
    assert made.figures["kv_cache_bytes_per_sequence"].value == (1504 + 448) * each
    assert made.question["prompt"] == "4"
    assert not [one for one in made.chosen if "chat" in one.reason]
    longer = ask("serve", model="whisper-large-v3", on="l4", batch=1, output=100)
    assert longer.figures["ttft_s"].value == made.figures["ttft_s"].value


def test_the_decoder_of_t5_keeps_its_output_and_what_was_read() -> None:
    arch = find("flan-t5-xl").architecture
    attention = arch.decoder.blocks["layer"].mixer
    each = 2 * arch.decoder.depth * attention.kv_heads * attention.head_dim * 2  # type: ignore[union-attr]
    made = ask("serve", model="flan-t5-xl", on="l4", batch=1, prompt=1024, output=256, engine="vllm")
    assert made.figures["kv_cache_bytes_per_sequence"].value == pytest.approx((1024 + 256) * each)


@pytest.mark.parametrize(
    ("model", "on", "engine", "taken", "published"),
    [
        ("deepseek-r1", "m3-ultra", "llama.cpp", "q4_k_m", 404.4e9 / GIB),  # unsloth/DeepSeek-R1-GGUF, Q4_K_M in nine files
        ("deepseek-r1", "8xh200", "vllm", "fp8-block", None),
        ("qwen3-32b-fp8", "rtx-5090", "llama.cpp", "q4_k_m", 19.76e9 / GIB),  # Qwen/Qwen3-32B-GGUF, Q4_K_M
    ],
)
def test_a_checkpoint_in_a_type_of_other_engines_is_read_from_the_engines_own_file(
    model: str, on: str, engine: str, taken: str, published: float | None
) -> None:
    """An engine with files of its own reads no FP8: its users take the type that they mostly take, and its bytes are counted."""
    made = ask("fit", model=model, on=on, engine=engine)
    assert made.question["weights"] == taken
    if published is not None:
        named = ask("fit", model=model, on=on, engine=engine, weights=taken)
        assert part(made, "weights") == part(named, "weights")
        # Less the input embedding, which stays with the processor.
        assert 0.97 * published < part(made, "weights") < 1.01 * published
