"""Files and folders as people have them: parts, several models, what lies beside them, what is not loaded."""

import json
from pathlib import Path

import pytest

from gpuplan.cli.answer import of_question
from gpuplan.cli.main import run
from gpuplan.cli.nested_command import parsed_options
from gpuplan.errors import UsageError
from gpuplan.models.catalog import find
from gpuplan.models.checkpoint.folder import import_path
from gpuplan.search.ask import answered
from tests.models.made_files import LLAMA, LLAMA_KEYS, gguf, llama_gguf, llama_safetensors, safetensors

WHOLE = 8030261248


def answer(task: str, model: object, *words: str):
    return answered(task, of_question(parsed_options(task, [str(model), *words])), advise=False)


def split(folder: Path, name: str = "llama-Q8_0") -> list[Path]:
    rows, made = llama_gguf("q8_0"), []
    for at in range(3):
        own = rows[at * 100 : at * 100 + 100]
        keys = {**LLAMA_KEYS, "general.file_type": 7} if at == 0 else {}
        keys |= {"split.no": at, "split.count": 3, "split.tensors.count": len(rows)}
        made.append(gguf(folder / f"{name}-{at + 1:05d}-of-00003.gguf", keys, own))
    return made


@pytest.mark.parametrize("part", range(3))
def test_any_part_of_a_split_file_is_the_whole(tmp_path, part):
    card = import_path(split(tmp_path)[part])
    assert card.id == "llama-q8_0"
    assert card.count().params_total.value == WHOLE
    assert card.stored is not None
    assert len(card.stored.files) == 3


def test_a_part_that_is_missing_is_named(tmp_path):
    parts = split(tmp_path)
    parts[1].unlink()
    with pytest.raises(UsageError, match=r"00002-of-00003\.gguf` of the 3 parts is not there"):
        import_path(parts[0])


def test_a_folder_of_parts_with_a_projector_is_one_model(tmp_path):
    split(tmp_path)
    gguf(tmp_path / "mmproj-F16.gguf", {"general.architecture": "clip"}, [("v.blk.0.attn_q.weight", "f16", (32, 32))])
    card = import_path(tmp_path)
    assert card.count().params_total.value == WHOLE
    assert any("`mmproj-F16.gguf`" in note for note in card.notes)
    with pytest.raises(UsageError, match="vision or audio part"):
        import_path(tmp_path / "mmproj-F16.gguf")


def test_a_folder_of_several_models_says_which(tmp_path):
    split(tmp_path)
    gguf(tmp_path / "llama-F16.GGUF", LLAMA_KEYS, llama_gguf("f16"))
    with pytest.raises(UsageError) as error:
        import_path(tmp_path)
    (problem,) = error.value.problems
    assert "`llama-F16.GGUF`, `llama-Q8_0-00001-of-00003.gguf`" in problem.message
    assert "name one of them" in problem.hint
    assert import_path(tmp_path / "llama-F16.GGUF").dtype == "fp16"


def folder(tmp_path, rows, **config) -> Path:
    (tmp_path / "config.json").write_text(json.dumps({**LLAMA, **config}), encoding="utf-8")
    safetensors(tmp_path / "model.safetensors", rows)
    return tmp_path


def test_what_is_not_loaded_is_said_and_not_counted(tmp_path):
    rows = [
        *llama_safetensors(),
        ("model.layers.32.self_attn.q_proj.weight", "BF16", (4096, 4096)),
        ("mtp.fc.weight", "BF16", (64, 64)),
    ]
    card = import_path(folder(tmp_path, rows, tie_word_embeddings=True))
    assert card.stored is not None
    assert card.stored.beside == {"copies of tied matrices": 2 * 128256 * 4096, "multi-token prediction": 2 * (4096**2 + 64**2)}
    assert card.stored.total == 2 * (WHOLE - 128256 * 4096)


def test_a_tower_that_is_not_described_is_loaded_all_the_same(tmp_path):
    card = import_path(folder(tmp_path, [*llama_safetensors(), ("vision_tower.blocks.0.attn.qkv.weight", "BF16", (1024, 1024))]))
    assert card.stored is not None
    assert card.stored.parts["vision_tower"] == {"bf16": 2 * 1024**2}
    held = answer("fit", tmp_path, "--on", "h100").figures["peak_memory_bytes"].find("memory.weights")
    assert held is not None
    assert held.value == 2 * (WHOLE + 1024**2)


def test_values_of_32_bits_are_served_in_16(tmp_path):
    place = folder(tmp_path, llama_safetensors("F32"), torch_dtype="float32")
    made = answer("fit", place, "--on", "h100")
    assert made.question["weights"] == "bf16"
    held = made.figures["peak_memory_bytes"].find("memory.weights")
    assert held is not None
    assert held.value == pytest.approx(2 * WHOLE, rel=1e-9)
    assert any("not taken" in one.reason for one in made.chosen)


def test_tensors_of_another_model_are_refused(tmp_path):
    with pytest.raises(Exception, match="no tensor of a layer"):
        import_path(folder(tmp_path, [("something.weight", "BF16", (16, 16))]))


def test_a_file_that_changed_is_read_anew(tmp_path):
    path = tmp_path / "x.gguf"
    gguf(path, {**LLAMA_KEYS, "general.file_type": 7}, llama_gguf("q8_0"))
    first = answer("fit", path, "--on", "h100").question["weights"]
    gguf(path, {**LLAMA_KEYS, "general.file_type": 1}, llama_gguf("f16"))
    assert (first, answer("fit", path, "--on", "h100").question["weights"]) == ("q8_0", "fp16")


def test_a_decoding_step_reads_the_bytes_of_the_file(tmp_path):
    path = gguf(tmp_path / "x.gguf", {**LLAMA_KEYS, "general.file_type": 15}, llama_gguf("q4_k", more="q6_k"))
    made = answer("serve", path, "--on", "rtx-4090", "--batch", "1")
    read = next(found for one in made.figures.values() if (found := one.find("decode.weights_read")))
    stored = import_path(path).stored
    assert stored is not None
    fed = stored.total - sum(sum(stored.parts[name].values()) for name in ("embedding", "final", "layer.norms"))
    assert read.value == pytest.approx(fed, rel=1e-6)
    assert made.question["engine"] == "llama-cpp"


def test_training_takes_the_architecture_and_says_so(tmp_path):
    path = gguf(tmp_path / "x.gguf", {**LLAMA_KEYS, "general.file_type": 7}, llama_gguf("q8_0"))
    made, usual = (
        answer("train", model, "--on", "8xh100", "--seq-len", "4096", "--global-batch", "64") for model in (path, "llama-3.1-8b")
    )
    assert float(made.figures["step_time_s"].value) == float(usual.figures["step_time_s"].value)
    assert any("architecture alone" in note.text for note in made.notes)


def test_a_card_keeps_what_a_file_says(tmp_path, capsys):
    path = gguf(tmp_path / "llama-q8_0.gguf", {**LLAMA_KEYS, "general.file_type": 7}, llama_gguf("q8_0"))
    assert run(["models", "import", str(path)]) == 0
    kept = tmp_path / "llama-q8_0.yaml"
    kept.write_text(capsys.readouterr().out, encoding="utf-8")
    card, read = find(str(kept)), import_path(path)
    assert (card.stored, card.weights, card.engine, card.architecture) == (
        read.stored,
        read.weights,
        read.engine,
        read.architecture,
    )
    assert run(["models", "show", str(path)]) == 0
    assert f"{read.stored.total:,} bytes" in capsys.readouterr().out


@pytest.mark.parametrize(("model", "engine", "words"), [
    ("FILE", "llama-cpp", "llama-server --model FILE "), ("llama3.1:8b", "ollama", "ollama run llama3.1:8b"),
    ("llama3.1:8b", "llama-cpp", "--model Llama-3.1-8B-Q4_K_M.gguf"), ("llama-3.1-8b", "llama-cpp", "-Q4_K_M.gguf"),
])  # fmt: skip
def test_the_printed_command_names_the_model_as_its_engine_does(tmp_path, capsys, monkeypatch, model, engine, words):
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path / "none"))
    monkeypatch.setenv("COLUMNS", "300")
    path = str(gguf(tmp_path / "x.gguf", {**LLAMA_KEYS, "general.file_type": 15}, llama_gguf("q4_k", more="q6_k")))
    assert run(["serve", model.replace("FILE", path), "--on", "rtx-4090", "--engine", engine, "--batch", "1", "--full"]) == 0
    printed = " ".join(capsys.readouterr().out.partition("Started by")[2].replace("\\", "").split())
    assert words.replace("FILE", path) in printed


@pytest.mark.parametrize(
    ("kind", "number", "said"),
    [("q4_k", None, "q4_k_s"), ("q4_k", 1024, "q4_k_s"), ("q6_k", None, "q6_k"), ("mxfp4", None, "mxfp4")],
)
def test_a_mixture_of_no_name_keeps_its_bytes_and_takes_the_pace_of_its_type(tmp_path, kind, number, said):
    path = gguf(tmp_path / "x.gguf", {**LLAMA_KEYS, **({} if number is None else {"general.file_type": number})}, llama_gguf(kind))
    made = answer("fit", path, "--on", "apple-m3-ultra")
    held = made.figures["peak_memory_bytes"].find("memory.weights")
    stored = import_path(path).stored
    assert made.question["weights"].startswith(said)
    assert held is not None
    assert stored is not None
    assert held.value == pytest.approx(stored.total, rel=1e-12)
