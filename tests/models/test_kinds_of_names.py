"""Names that have no card: what is built alike is taken and said, of the rest the nearest is named, and why."""

import pytest

from gpuplan.errors import UnknownError
from gpuplan.models.card import load_card
from gpuplan.models.catalog import CARDS, find
from gpuplan.models.diffusion.glance import DIFFUSION
from gpuplan.models.generic import GENERIC
from gpuplan.models.kinds_of_names import built_like, last_resort, nearest, table
from gpuplan.models.spellings import squeezed


@pytest.fixture(autouse=True)
def _no_network(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True, raising=False)


def test_every_entry_names_a_card_and_a_source():
    kinds = table()
    assert all((CARDS / f"{one.card}.yaml").is_file() for one in kinds.like)
    assert all((CARDS / f"{one}.yaml").is_file() for one in kinds.of_size)
    shipped = {path.stem for folder in (CARDS, DIFFUSION, GENERIC) for path in folder.glob("*.yaml")}
    assert {one for kind in (*kinds.near, *kinds.last) for one in kind.nearest} <= shipped
    used = {one.source for one in (*kinds.like, *kinds.near, *kinds.last)}
    assert used == set(kinds.sources)


def test_names_are_written_as_they_are_compared():
    names = [name for one in (*table().like, *table().near, *table().last) for name in one.names]
    assert [name for name in names if name != name.lower().replace("_", "-")] == []


def test_no_name_of_a_card_is_taken_for_another():
    """An entry for a name that has a card would never be asked, or would contradict it."""
    for path in CARDS.glob("*.yaml"):
        for alias in load_card(path).aliases:
            like = built_like(alias) if "/" in alias else None
            assert like is None or find(alias, cards_only=True).id == path.stem


@pytest.mark.parametrize(
    ("name", "card"),
    [
        ("agentica-org/DeepCoder-14B-Preview", "qwen2.5-14b"),
        ("NousResearch/Hermes-3-Llama-3.1-405B", "llama-3.1-405b"),
        ("lmsys/vicuna-13b-v1.5", "llama-2-13b"),
        ("lmsys/vicuna-33b-v1.3", "llama-1-30b"),
        ("facebook/contriever", "bert-base"),
        ("defog/sqlcoder-7b-2", "codellama-7b"),
    ],
)
def test_what_is_built_alike_is_taken_and_the_answer_says_so(name, card):
    found = find(name)
    assert found.id == card
    assert any("taken to be built as" in note and name in note for note in found.notes)


@pytest.mark.parametrize(
    ("name", "card"),
    [("phi-4-reasoning-plus", "phi-4"), ("qwen2.5-coder-14b", "qwen2.5-14b"), ("unsloth/Qwen3-8B", "qwen3-8b")],
)
def test_a_name_without_its_owner_or_of_another_is_taken(name, card):
    found = find(name)
    assert found.id == card
    assert found.notes


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("gpt-4o", "gpt-oss-120b"),
        ("claude-opus-4.5", "kimi-k2.5"),
        ("deepseek-ai/DeepSeek-V4.1-Flash", "deepseek-v4-flash"),
        ("LiquidAI/LFM2.5-VL-3B", "lfm2-2.6b"),
        ("apple/DFN5B-CLIP-ViT-H-14-378", "clip-vit-h-14"),
        ("qwen:110b", "qwen2.5-72b"),
    ],
)
def test_what_no_card_describes_is_refused_with_the_nearest_and_why(name, near):
    with pytest.raises(UnknownError) as error:
        find(name)
    assert f"`{near}`" in str(error.value)
    assert "the nearest on record is" in str(error.value)
    assert error.value.exit_code == 5


@pytest.mark.parametrize("name", ["yuhuili/EAGLE3-LLaMA3.1-Instruct-8B", "nvidia/Llama-3.1-Nemotron-Nano-VL-8B-V1"])
def test_what_is_more_or_less_than_a_model_is_not_taken_for_it(name):
    assert built_like(name) is None


@pytest.mark.parametrize(
    "name", ["acme/general-chat", "acme/invite-chat", "partner-x", "gpt-1.3b", "gpt-13b", "acme/inception-chat"]
)
def test_a_word_with_letters_of_a_kind_in_it_is_not_of_that_kind(name):
    """`ner` is in `general`, `vit` in `invite`, and `gpt-1` begins GPTs of any size with a one."""
    assert not nearest(name)
    assert not last_resort(name)


def test_other_names_have_no_entry():
    assert nearest("my-own-model") == ""
    assert built_like("my-own-model") is None


@pytest.mark.parametrize(
    ("name", "card"), [("qwen3-vl", "qwen3-vl-8b"), ("gemma3:270m", "gemma-3-270m"), ("vicuna:33b", "llama-1-30b")]
)
def test_ollamas_library_in_its_usual_type(name, card):
    found = find(name)
    assert found.id == card
    assert found.weights is not None
    assert found.weights.method == "q4_k_m"


@pytest.mark.parametrize(
    ("name", "card"),
    [
        ("Qwen/Qwen3.8-27B", "qwen3.5-27b"),
        ("nvidia/Qwen3.8-27B-NVFP4", "qwen3.5-27b"),
        ("ByteDance-Seed/UI-TARS-1.5-7B", "qwen2.5-vl-7b"),
        ("moonshotai/Kimi-Dev-72B", "qwen2.5-72b"),
        ("dphn/Dolphin-Mistral-24B-Venice-Edition", "mistral-small-3.1-24b"),
        ("openchat/openchat-3.5-0106-gemma", "gemma-7b"),
        ("microsoft/Fara-7B", "qwen2.5-vl-7b"),
        ("distil-whisper/distil-large-v3.5", "distil-large-v3"),
        ("huihui-ai/Huihui-Qwen3-8B-abliterated-v2", "qwen3-8b"),
        ("byroneverson/Mistral-Small-Instruct-2409-abliterated", "mistral-small-22b"),
    ],
)
def test_tunings_of_2026_are_the_card_that_they_are_built_as(name, card):
    assert find(name).id == card


@pytest.mark.parametrize(
    "name",
    [
        "z-lab/LLaMA3.1-8B-Instruct-DFlash-UltraChat",
        "SenseLLM/ReflectionCoder-CL-34B",
        "LiquidAI/LFM2.5-2.6B-DSpark",
    ],
)
def test_what_has_other_widths_is_not_taken_for_a_card_by_a_word_of_its_name(name):
    with pytest.raises(UnknownError):
        find(name)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("someone/Novel-30B-A3B", "by the size in its name the nearest on record is `qwen3-30b-a3b`"),
        ("someone/Novel_27b", "by the size in its name the nearest on record is `qwen3.5-27b`"),
        ("Qwen/Qwen3-8", "did you mean `qwen/qwen3-8b`"),
        ("indobenchmark/indobert-base-p1", "`modernbert-base`"),
    ],
)
def test_a_name_of_nothing_known_has_the_nearest_of_its_size_or_kind(name, said):
    with pytest.raises(UnknownError) as error:
        find(name)
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("name", "card"),
    [
        ("accounts/fireworks/models/llama-v3p1-8b-instruct", "llama-3.1-8b"),
        ("qwen2p5-coder-14b-instruct", "qwen2.5-14b"),
        ("alibaba/qwen-3-32b", "qwen3-32b"),
        ("qwen-3-235b", "qwen3-235b-a22b"),
        ("code-llama-70b-instruct", "codellama-70b"),
        ("ibm/granite-3-3-8b-instruct", "granite-3.3-8b"),
        ("glm-4p5-air", "glm-4.5-air"),
        ("qwen-3.8-27b", "qwen3.5-27b"),
    ],
)
def test_a_name_as_a_provider_spells_it_is_taken_and_the_answer_says_so(name, card):
    found = find(name)
    assert found.id == card
    assert any(name in note or "hub was not reached" in note for note in found.notes)


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("deepseek-ai/DeepSeek-R1-Turbo", "deepseek-r1"),
        ("openai/gpt-oss-120b-Ultra", "gpt-oss-120b"),
        ("glm-5p3-fast", "glm-5.2"),
    ],
)
def test_words_of_how_a_provider_serves_a_model_leave_the_nearest(name, near):
    with pytest.raises(UnknownError) as caught:
        find(name)
    assert f"`{near}`: the rest of the name says how a provider serves it" in caught.value.problems[0].hint


def test_no_two_cards_share_a_spelling():
    """A name that is spelled otherwise must not mean one of two cards of different make by the order of files."""
    by_key = {}
    for path in CARDS.glob("*.yaml"):
        by_key.setdefault(squeezed(path.stem), set()).add(path.stem)
    assert {key: ids for key, ids in by_key.items() if len(ids) > 1} == {}


@pytest.mark.parametrize(
    ("name", "card"),
    [
        ("openai/gpt-oss-20b:free", "gpt-oss-20b"),
        ("us.meta.llama3-1-70b-instruct-v1:0", "llama-3.1-70b"),
        ("mistral.mistral-7b-instruct-v0:2", "mistral-7b-v0.2"),
        ("deepseek.r1-v1:0", "deepseek-r1"),
        ("openai.gpt-oss-120b-1:0", "gpt-oss-120b"),
        ("qwen 3 32b", "qwen3-32b"),
    ],
)
def test_what_a_router_or_a_cloud_writes_around_a_name_is_not_looked_at(name, card):
    found = find(name)
    assert found.id == card
    assert found.notes


@pytest.mark.parametrize(
    ("name", "card"),
    [("meta/llama3.1-70b-instruct", "llama-3.1-70b"), ("CogHyn/llama-3.2-1B-3bit", "llama-3.2-1b")],
)
def test_a_name_is_no_card_of_another_size(name, card):
    assert find(name).id == card


def test_a_name_with_the_size_of_another_model_is_not_taken_for_it():
    with pytest.raises(UnknownError):
        find("yasserrmd/GLM4.7-Distill-LFM2.5-1.2B")


def test_dynamic_types_are_near_a_plain_one_and_files_of_gguf_hold_no_fp8():
    dynamic = find("hf.co/unsloth/Qwen3-30B-A3B-GGUF:UD-Q4_K_XL")
    assert dynamic.weights is not None
    assert dynamic.weights.method == "q4_k_m"
    assert "UD-Q4_K_XL" in dynamic.notes[-1]
    usual = find("unsloth/MiniMax-M2.5-GGUF").weights
    assert usual is not None
    assert usual.method == "q4_k_m"


def test_a_word_of_quantisers_that_is_not_read_is_told():
    """No rule says how ISTA-DASLab's GSQ stores weights: what is answered is in 16 bits, and says so."""
    found = find("ISTA-DASLab/Llama-3.1-70B-Instruct-2Bit-GSQ")
    assert found.weights is None
    assert "`2Bit` in its name was not read" in found.notes[-1]


@pytest.mark.parametrize(
    ("name", "card", "method", "bits"),
    [
        ("unsloth/Qwen3.6-27B-UD-MLX-4bit", "qwen3.6-27b", "mlx", 4),
        ("mlx-community/Qwen3-8B-4bit-DWQ-053125", "qwen3-8b", "mlx", 4),
        ("bearzi/Qwen3-Coder-Next-oQ6", "qwen3-next-80b-a3b", "mlx", 6),
        ("cyankiwi/Qwen3-Coder-Next-AWQ-8bit", "qwen3-next-80b-a3b", "awq", 8),
        ("zai-org/GLM-5-FP8", "glm-5", "fp8", 8),
        ("ISTA-DASLab/gemma-3-27b-it-GPTQ-4b-128g", "gemma-3-27b", "gptq", 4),
        ("amd/Llama-3.3-70B-Instruct-FP8-KV", "llama-3.3-70b", "quark", 8),
        ("amd/DeepSeek-R1-MXFP4-Preview", "deepseek-r1", "mxfp4", 4),
    ],
)
def test_repositories_of_other_quantisers_are_read(name, card, method, bits):
    found = find(name)
    assert found.id == card
    assert found.weights is not None
    assert (found.weights.method, found.weights.bits) == (method, bits)


def test_what_is_built_as_a_model_that_writes_and_only_reads_is_asked_as_one_that_reads():
    """MTEB lists embedders and rerankers; one of its names is a model that writes too."""
    writes = {name for one in table().like if one.source == "mteb" and not one.reads for name in one.names
              if load_card(CARDS / f"{one.card}.yaml").architecture.generates}  # fmt: skip
    assert writes == {"fanar-2-27b-instruct"}
    for name in ("Qwen/Qwen3-Reranker-8B", "zeroentropy/zembed-1-embedding", "gte-qwen2-1.5b-instruct", "jina-reranker-v3"):
        card = find(name)
        assert not card.architecture.generates
        assert any("it only reads" in note for note in card.notes)
    assert find("qwen3-8b").architecture.generates
