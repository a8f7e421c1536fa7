"""Published configurations: real ones import with the right count, everything else ends in one clear error."""

import json
from collections import Counter
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import pytest
import yaml

from gpuplan.errors import GpuplanError, UnknownError, UsageError
from gpuplan.models import families
from gpuplan.models.catalog import find
from gpuplan.models.import_config import FAMILIES, MULTIMODAL, import_config
from tests.sweeps import each

DATA = Path(__file__).resolve().parents[3] / "shared" / "data" / "model-configs"
SOURCES = yaml.safe_load((DATA / "sources.yaml").read_text(encoding="utf-8")) if (DATA / "sources.yaml").exists() else {}
FILES = sorted(name for name in SOURCES if (DATA / name).exists())
needs_data = pytest.mark.skipif(not FILES, reason="the collection of published configurations is not beside the checkout")

CORRECTED = {"deepseek_v3", "deepseek_v32", "kimi_k25", "glm_moe_dsa", "minimax_m2", "nemotron_h"}
"""Their routers' correction biases are tensors of the checkpoint, but buffers of the library that made the reference counts."""

OTHERWISE = {
    # An untied head, as the file says and the checkpoints hold; the library that counted ties it.
    "google__t5-v1_1-xxl.json": 32128 * 4096,
    "black-forest-labs__FLUX.1-dev.text_encoder_2.json": 32128 * 4096,
    "black-forest-labs__FLUX.1-schnell.text_encoder_2.json": 32128 * 4096,
    "lodestones__Chroma.text_encoder.json": 32128 * 4096,
    # A preset without `q_lora_rank`: the model has none, the library's default is 1536.
    "mlc-preset__deepseek_v2_lite.json": 15706484224 - 15748993024,
}
"""Where the count differs from the reference on purpose, and by how much."""


def _counted(card, kind):
    made = card.count()
    corrections = 0.0
    if kind in CORRECTED:
        for one in made.blocks:
            router = one.layer.get("router")
            bias = dict(router.args).get("bias") if router is not None else None
            corrections += one.layers.value * bias.value if bias is not None else 0.0
    return made.params_total.value - corrections


def test_every_module_of_families_is_read_and_none_takes_a_type_of_another():
    modules = [import_module(f"{families.__name__}.{one.name}") for one in iter_modules(families.__path__)]
    told = [name for module in modules for name in getattr(module, "READERS", {})]
    assert len(told) == len(set(told))
    assert {"llama", "gpt2", "mixtral", "deepseek_v3", "mamba", "bert"} <= set(FAMILIES)


@needs_data
def test_plain_configurations_of_known_families_have_the_reference_count():
    right, wrong = Counter(), {}
    for name in FILES:
        entry = SOURCES[name]
        kind = entry.get("model_type")
        plain = entry.get("kind") is None and kind in {*FAMILIES, *MULTIMODAL} and "reference_count" in entry
        if not plain:
            continue
        try:
            card = import_config(DATA / name)
        except GpuplanError as error:
            wrong[name] = str(error)
            continue
        if any("left out" in note for note in card.notes):
            continue  # the text model alone, and the card says so
        difference = _counted(card, kind) - entry["reference_count"]
        if difference == OTHERWISE.get(name, 0):
            right[kind] += 1
        else:
            wrong[name] = f"{difference:+,.0f}"
    assert sum(right.values()) > 150, right
    assert len(wrong) <= 0.05 * sum(right.values()), wrong


@needs_data
@each("name", FILES)
def test_every_file_is_a_model_or_one_clear_error(name):
    card, problems = None, ()
    try:
        card = import_config(DATA / name)
    except (UnknownError, UsageError) as error:
        problems = error.problems
    assert card is not None or problems
    assert card is None or card.count().params_active.value > 0
    assert all(problem.code.startswith("model.") and problem.where and problem.message for problem in problems)


LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
}


def _write(folder, data, name="config.json"):
    path = folder / name
    path.write_text(data if isinstance(data, str) else json.dumps(data), encoding="utf-8")
    return path


def _problems(path, kind):
    with pytest.raises(kind) as error:
        find(str(path))
    assert all(problem.where for problem in error.value.problems)
    return error.value.problems


def test_a_file_and_its_folder(tmp_path):
    folder = tmp_path / "My Model"
    folder.mkdir()
    path = _write(folder, LLAMA)
    for place in (path, folder):
        card = find(str(place))
        assert card.id == "my-model"
        assert card.dtype == "bf16"
        assert card.count().params_total.value == 8030261248
        assert card.notes == ()


@pytest.mark.parametrize("field", ["num_attention_heads", "hidden_size", "num_hidden_layers", "vocab_size", "intermediate_size"])
def test_a_missing_field_is_named(tmp_path, field):
    problems = _problems(_write(tmp_path, {key: value for key, value in LLAMA.items() if key != field}), UnknownError)
    assert problems[0].code == "model.missing-field"
    assert f"`{field}`" in problems[0].message
    assert len(problems) == 1


def test_all_missing_fields_come_together(tmp_path):
    problems = _problems(_write(tmp_path, {"model_type": "llama"}), UnknownError)
    assert len(problems) == 5


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("num_attention_heads", "32"),
        ("num_attention_heads", -32),
        ("num_attention_heads", 0),
        ("num_attention_heads", 32.5),
        ("num_attention_heads", True),
        ("num_attention_heads", [32]),
        ("num_key_value_heads", 5),
        ("num_attention_heads", 33),
        ("num_hidden_layers", 10**9),
        ("tie_word_embeddings", "no"),
        ("architectures", "LlamaForCausalLM"),
        ("model_type", 7),
    ],
)
def test_a_bad_value_is_a_usage_error(tmp_path, field, value):
    problems = _problems(_write(tmp_path, LLAMA | {field: value}), UsageError)
    assert {problem.code for problem in problems} == {"model.bad-field"}


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('{"model_type": "llama", "hidden_size": 40', "model.not-json"),
        ('{"model_type": "llama", "model_type": "llama"}', "model.not-json"),
        ("[1, 2]", "model.not-an-object"),
        ("", "model.not-json"),
        ("[" * 100_000, "model.not-json"),
        ('{"peft_type": "LORA", "r": 8}', "model.not-a-model"),
        ('{"added_tokens_decoder": {}, "tokenizer_class": "LlamaTokenizer"}', "model.not-a-model"),
        ('{"_class_name": "UNet2DConditionModel"}', "model.not-a-model"),
    ],
)
def test_other_files_are_usage_errors(tmp_path, text, code):
    assert _problems(_write(tmp_path, text), UsageError)[0].code == code


def test_unreadable_places(tmp_path):
    assert _problems(tmp_path / "none.json", UsageError)[0].code == "model.unreadable"
    assert _problems(tmp_path, UsageError)[0].code == "model.no-config"
    (tmp_path / "config.json").write_bytes(b"\xff\xfe\x00")
    assert _problems(tmp_path, UsageError)[0].code == "model.not-utf8"


def test_unknown_architectures(tmp_path):
    problems = _problems(_write(tmp_path, LLAMA | {"model_type": "lama"}), UnknownError)
    assert problems[0].code == "model.unknown-architecture"
    assert "`llama`" in problems[0].hint
    problems = _problems(
        _write(tmp_path, {key: value for key, value in LLAMA.items() if key != "model_type"} | {"architectures": ["X"]}),
        UnknownError,
    )
    assert problems[0].code == "model.missing-field"
    problems = _problems(
        _write(tmp_path, LLAMA | {"architectures": ["LlamaForCausalLMEagle3"], "draft_vocab_size": 1}), UnknownError
    )
    assert problems[0].code == "model.draft-head"
    problems = _problems(_write(tmp_path, LLAMA | {"num_local_experts": 8}), UnknownError)
    assert problems[0].code == "model.unknown-structure"


def test_what_the_file_leaves_out_is_said(tmp_path):
    card = find(
        str(_write(tmp_path, {key: LLAMA[key] for key in LLAMA if key not in ("num_key_value_heads", "tie_word_embeddings")}))
    )
    assert len(card.notes) == 2
    assert card.architecture.stacks[0].blocks["layer"].mixer.kv_heads == 32


def test_structural_fields_that_are_not_read_are_said(tmp_path):
    card = find(str(_write(tmp_path, LLAMA | {"num_memory_heads": 4, "rope_theta": 1e6, "num_memory_layers": 0})))
    assert card.notes == ("fields that gpuplan did not read: `num_memory_heads`",)


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ({"quant_method": "gptq", "bits": 4, "group_size": 128}, ("gptq", 4, "int", 128)),
        ({"quant_method": "awq", "bits": 4, "group_size": 64, "zero_point": True}, ("awq", 4, "int", 64)),
        ({"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128]}, ("fp8", 8, "float", None)),
        ({"quant_method": "mxfp4", "modules_to_not_convert": ["lm_head"]}, ("mxfp4", 4, "float", 32)),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, ("bitsandbytes", 4, "int", None)),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16}, ("nvfp4", 4, "float", 16)),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"a": {"weights": {"num_bits": 4, "type": "int", "group_size": 32}}},
            },
            ("compressed-tensors", 4, "int", 32),
        ),
    ],
)
def test_quantised_weights(tmp_path, block, expected):
    weights = find(str(_write(tmp_path, LLAMA | {"quantization_config": block}))).weights
    assert (weights.method, weights.bits, weights.number, weights.group_size) == expected


def test_a_quantisation_file_beside(tmp_path):
    _write(tmp_path, LLAMA)
    block = {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]}
    _write(tmp_path, {"producer": {"name": "modelopt"}, "quantization": block}, "hf_quant_config.json")
    weights = find(str(tmp_path)).weights
    assert (weights.method, weights.bits, weights.kv_cache, weights.excluded) == ("fp8", 8, "fp8", ("lm_head",))


def test_an_unknown_quantisation_is_said(tmp_path):
    card = find(str(_write(tmp_path, LLAMA | {"quantization_config": {"quant_method": "magic"}})))
    assert card.weights is None
    assert "`magic`" in card.notes[0]


def test_mistral_window(tmp_path):
    base = LLAMA | {"model_type": "mistral", "max_position_embeddings": 32768}
    assert find(str(_write(tmp_path, base | {"sliding_window": 4096}))).architecture.decoder.blocks["sliding"].mixer.window == 4096
    assert "layer" in find(str(_write(tmp_path, base | {"sliding_window": None}))).architecture.decoder.blocks


def test_multimodal_without_its_vision_part_says_so(tmp_path):
    card = find(str(_write(tmp_path, {"model_type": "qwen3_vl", "text_config": LLAMA | {"model_type": "qwen3_vl_text"}})))
    assert any("vision_config" in note for note in card.notes)
    assert "vision_tower" not in card.architecture.extra_params


def _like(**fields):
    return {"num_attention_heads": 32, "num_hidden_layers": 40, "hidden_size": 4096, "tie_word_embeddings": False} | fields


SMALL = {
    # Families of which no plain file is at hand; the counts are those of transformers 5.23.0, or published.
    "granite-3.1-8b": _like(
        model_type="granite", num_key_value_heads=8, intermediate_size=12800, vocab_size=49155, tie_word_embeddings=True
    ),
    "glm-4-9b-0414": _like(
        model_type="glm4", num_key_value_heads=2, head_dim=128, intermediate_size=13696, vocab_size=151552, attention_bias=True
    ),
    "glm-4.5-air": _like(
        model_type="glm4_moe", num_hidden_layers=46, num_attention_heads=96, num_key_value_heads=8, head_dim=128,
        intermediate_size=10944, n_routed_experts=128, num_experts_per_tok=8, moe_intermediate_size=1408, n_shared_experts=1,
        first_k_dense_replace=1, attention_bias=True, vocab_size=151552,
    ),
    "gpt-neo-1.3b": {
        "model_type": "gpt_neo", "num_layers": 24, "num_heads": 16, "hidden_size": 2048, "vocab_size": 50257,
        "max_position_embeddings": 2048, "attention_types": [[["global", "local"], 12]], "intermediate_size": None,
    },
    "mamba-2.8b": {
        "model_type": "mamba", "hidden_size": 2560, "num_hidden_layers": 64, "state_size": 16, "conv_kernel": 4, "expand": 2,
        "time_step_rank": "auto", "vocab_size": 50280,
    },
    "mamba2-2.7b": {
        "model_type": "mamba2", "hidden_size": 2560, "num_hidden_layers": 64, "state_size": 128, "conv_kernel": 4, "expand": 2,
        "num_heads": 80, "head_dim": 64, "n_groups": 1, "vocab_size": 50288, "tie_word_embeddings": True,
    },
    "falcon-h1-34b": _like(
        model_type="falcon_h1", num_hidden_layers=72, hidden_size=5120, num_attention_heads=20, num_key_value_heads=4, head_dim=128,
        intermediate_size=21504, vocab_size=261120, mamba_d_state=256, mamba_d_conv=4, mamba_expand=2, mamba_n_heads=32,
        mamba_d_head=128, mamba_n_groups=2, mamba_d_ssm=4096, mamba_rms_norm=True,
    ),
    "minimax-text-01": _like(
        model_type="minimax", num_hidden_layers=80, hidden_size=6144, num_attention_heads=64, num_key_value_heads=8, head_dim=128,
        intermediate_size=9216, num_local_experts=32, num_experts_per_tok=2, vocab_size=200064,
        attn_type_list=[int(at % 8 == 7) for at in range(80)],
    ),
    "nemotron-4-15b": _like(
        model_type="nemotron", num_hidden_layers=32, hidden_size=6144, num_attention_heads=48, num_key_value_heads=8,
        intermediate_size=24576, vocab_size=256000,
    ),
    "command-r-plus-104b": _like(
        model_type="cohere", num_hidden_layers=64, hidden_size=12288, num_attention_heads=96, num_key_value_heads=8,
        intermediate_size=33792, vocab_size=256000, use_qk_norm=True, tie_word_embeddings=True,
    ),
    "smollm3-3b": _like(
        model_type="smollm3", num_hidden_layers=36, hidden_size=2048, num_attention_heads=16, num_key_value_heads=4,
        intermediate_size=11008, vocab_size=128256, tie_word_embeddings=True,
    ),
    "olmo-3-32b": _like(
        model_type="olmo3", num_hidden_layers=64, hidden_size=5120, num_attention_heads=40, num_key_value_heads=8,
        intermediate_size=27648, vocab_size=100278,
    ),
    "afm-4.5b": _like(
        model_type="arcee", num_hidden_layers=36, hidden_size=2560, num_attention_heads=20, num_key_value_heads=4,
        intermediate_size=18432, vocab_size=128004,
    ),
    "command-r7b": _like(
        model_type="cohere2", num_hidden_layers=32, num_key_value_heads=8, intermediate_size=14336, vocab_size=256000,
        tie_word_embeddings=True,
    ),
    "opt-350m": {
        "model_type": "opt", "hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "ffn_dim": 4096,
        "word_embed_proj_dim": 512, "do_layer_norm_before": False, "vocab_size": 50272, "max_position_embeddings": 2048,
    },
}  # fmt: skip
PUBLISHED = {"glm-4-9b-0414": 9400279040}


@pytest.mark.parametrize("name", SMALL)
def test_families_without_a_file_at_hand(tmp_path, name):
    card = find(str(_write(tmp_path, SMALL[name])))
    known = find(name)
    expected = PUBLISHED.get(name) or (known.recount or known.published).params_total
    assert card.count().params_total.value == expected


def test_whisper_is_read_as_its_card_has_it(tmp_path):
    config = {
        "model_type": "whisper", "d_model": 1280, "encoder_layers": 32, "decoder_layers": 4, "encoder_attention_heads": 20,
        "decoder_attention_heads": 20, "encoder_ffn_dim": 5120, "decoder_ffn_dim": 5120, "vocab_size": 51866, "num_mel_bins": 128,
        "max_source_positions": 1500, "max_target_positions": 448, "median_filter_width": 7,
    }  # fmt: skip
    card = find(str(_write(tmp_path, config)))
    assert card.architecture == find("whisper-large-v3-turbo").architecture
    assert not [note for note in card.notes if "not read" in note]


def test_layers_that_were_taken_out_whole_are_left_out(tmp_path):
    kept = {"attention": {"n_heads_in_group": 4, "no_op": False}, "ffn": {"ffn_mult": 1.5, "no_op": False}}
    out = {"attention": {"n_heads_in_group": None, "no_op": True}, "ffn": {"ffn_mult": None, "no_op": True}}
    config = _like(model_type="nemotron-nas", num_hidden_layers=4, vocab_size=32000, intermediate_size=None)
    stack = find(str(_write(tmp_path, config | {"block_configs": [kept, out, out, kept]}))).architecture.decoder
    assert stack.counts() == {"attention_8_4096": 2}


@pytest.mark.parametrize("name", ["olmo-3-32b", "command-r7b"])
def test_windows_that_a_file_leaves_to_its_class(tmp_path, name):
    stack = find(str(_write(tmp_path, SMALL[name]))).architecture.decoder
    assert stack.counts() == find(name).architecture.decoder.counts()
    assert stack.blocks["sliding"].mixer.window == 4096


LFM2 = {
    "model_type": "lfm2", "vocab_size": 65536, "hidden_size": 2048, "block_ff_dim": 12288, "num_hidden_layers": 16,
    "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 128000, "conv_L_cache": 3,
    "full_attn_idxs": [2, 5, 8, 10, 12, 14],
}  # fmt: skip
K_EXAONE = {
    "model_type": "exaone_moe", "vocab_size": 153600, "hidden_size": 6144, "intermediate_size": 18432, "num_hidden_layers": 48,
    "moe_intermediate_size": 2048, "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 128, "num_experts": 128,
    "num_experts_per_tok": 8, "num_shared_experts": 1, "first_k_dense_replace": 1, "sliding_window": 128,
    "max_position_embeddings": 262144,
}  # fmt: skip


@pytest.mark.parametrize(
    ("config", "params"),
    [
        (LFM2, 1_170_340_608),  # stored tensors of LiquidAI/LFM2-1.2B
        ({**LFM2, "full_attn_idxs": None, "layer_types": ["conv"] * 10 + ["full_attention"] * 6}, 1_170_340_608),
        (K_EXAONE, 237_099_669_632 - 528_513_280),  # those of K-EXAONE-236B-A23B without its layer of multi-token prediction
    ],
)
def test_newer_families_count_what_their_checkpoints_store(config, params, tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({key: value for key, value in config.items() if value is not None}))
    assert import_config(path).count().params_total.value == params


def test_which_layers_of_an_lfm2_attend_must_be_said(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({key: value for key, value in LFM2.items() if key != "full_attn_idxs"}))
    with pytest.raises(UnknownError, match="layer_types"):
        import_config(path)
