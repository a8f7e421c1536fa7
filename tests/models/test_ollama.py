"""Names of Ollama's library: the table against the sizes that the library prints, the rule of tags, and what was pulled."""

import json

import pytest

from gpuplan.cli.answer import of_question
from gpuplan.cli.nested_command import parsed_options
from gpuplan.errors import UnknownError, UsageError
from gpuplan.models import ollama
from gpuplan.models.catalog import find
from gpuplan.search.ask import answered
from gpuplan.units import parse
from tests.models.made_files import LLAMA_KEYS, gguf, llama_gguf

SIZED = [
    (f"{model}:{size}", tagged) for model, entry in ollama.library().models.items() for size,
    tagged in entry.sizes.items() if tagged.size
]  # fmt: skip


def weights_of(name: str) -> float:
    made = answered("fit", of_question(parsed_options("fit", [name, "--on", "apple-m3-ultra"])), advise=False)
    found = made.figures["peak_memory_bytes"].find("memory.weights")
    assert found is not None
    return float(found.value)


@pytest.fixture(autouse=True)
def no_store(tmp_path, monkeypatch):
    monkeypatch.setenv("OLLAMA_MODELS", str(tmp_path / "models"))


def test_the_table_is_of_cards_that_there_are():
    table = ollama.library()
    for entry in table.models.values():
        assert entry.latest in entry.sizes
        for tagged in entry.sizes.values():
            assert find(tagged.card).id == tagged.card
            assert tagged.size is None or tagged.source is not None
            assert tagged.source in (None, *table.sources)


@pytest.mark.parametrize(("name", "tagged"), SIZED, ids=[name for name, _ in SIZED])
def test_a_default_comes_to_the_size_that_the_library_prints(name, tagged):
    """Files hold a vocabulary beside the tensors, and prints are rounded; another type would be 6 % off or more."""
    assert weights_of(name) == pytest.approx(parse(tagged.size, "B").value, rel=0.05)


@pytest.mark.parametrize(("name", "card", "kind"), [
    ("llama3.3:70b-instruct-q4_K_M", "llama-3.3-70b", "q4_k_m"), ("llama3.1", "llama-3.1-8b", "q4_k_m"),
    ("llama3.1:latest", "llama-3.1-8b", "q4_k_m"), ("library/llama3.1:70b", "llama-3.1-70b", "q4_k_m"),
    ("llama3.1:8b-text-fp16", "llama-3.1-8b", "fp16"), ("LLaMA3.1:8B-instruct-Q8_0", "llama-3.1-8b", "q8_0"),
    ("registry.ollama.ai/library/llama3.2:1b", "llama-3.2-1b", "q8_0"), ("qwen3:30b-a3b-q4_K_M", "qwen3-30b-a3b", "q4_k_m"),
    ("gpt-oss:20b", "gpt-oss-20b", "mxfp4"), ("qwen3:8b-iq4_xs", "qwen3-8b", "iq4_xs"), ("olmo2:7b-q5_K_S", "olmo2-7b", "q5_k_s"),
])  # fmt: skip
def test_a_name_is_a_model_and_how_it_is_stored(name, card, kind):
    made = find(name)
    assert made.id == card
    assert made.weights is not None
    assert made.weights.method == kind
    assert any(name in note for note in made.notes)


def test_what_is_not_on_record_is_said_to_be_assumed():
    assert any("not on record" in note for note in find("olmo2:7b").notes)
    assert any("`qat`" in note for note in find("gemma3:27b-it-qat").notes)


@pytest.mark.parametrize(("name", "hint"), [
    ("llama3.1:9b", "`llama3.1:8b`"), ("lama3.1:8b", "`llama3.1:8b`"), ("qwen3:8b-q9_K", "known are"), ("nothing-like-it:7b",
    "GGUF"),
])  # fmt: skip
def test_names_that_are_not_known_are_answered_with_near_ones(name, hint):
    with pytest.raises(UnknownError) as error:
        find(name)
    (problem,) = error.value.problems
    assert name in problem.message or name.partition(":")[0] in problem.message or "q9_K" in problem.message
    assert hint in problem.hint or "did you mean" in problem.hint


def store(tmp_path, name, tag, manifest) -> None:
    path = tmp_path / "models" / "manifests" / "registry.ollama.ai" / "library" / name / tag
    path.parent.mkdir(parents=True)
    path.write_text(manifest if isinstance(manifest, str) else json.dumps(manifest), encoding="utf-8")


def test_what_was_pulled_is_read_from_its_own_file(tmp_path):
    digest = "sha256:" + "ab" * 32
    layers = [{"mediaType": ollama.MODEL, "digest": digest}, {"mediaType": ollama.PROJECTOR, "digest": "sha256:" + "cd" * 32}]
    store(tmp_path, "mine", "latest", {"layers": layers})
    (tmp_path / "models" / "blobs").mkdir()
    gguf(tmp_path / "models" / "blobs" / digest.replace(":", "-"), {**LLAMA_KEYS, "general.file_type": 2}, llama_gguf("q4_0"))
    card = find("mine")
    assert card.stored is not None
    assert card.stored.total == pytest.approx(8030261248 * 18 / 32, rel=1e-3)
    assert card.engine == "llama-cpp"
    assert any("images" in note for note in card.notes)


@pytest.mark.parametrize(
    "manifest", ["{", "[]", {"layers": 7}, {"layers": [{"mediaType": ollama.MODEL, "digest": "sha256:../../etc"}]}]
)
def test_a_manifest_that_is_damaged_is_one_message(tmp_path, manifest):
    store(tmp_path, "mine", "latest", manifest)
    with pytest.raises(UsageError) as error:
        find("mine")
    assert "ollama pull" in error.value.problems[0].hint
