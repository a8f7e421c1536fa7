"""Every card: its own published size, unique names, and facts that traps would get wrong."""

import json
from pathlib import Path

import pytest

from gpuplan.errors import SpecError, UnknownError
from gpuplan.models.card import ModelCard, load_card, parse_card
from gpuplan.models.catalog import CARDS, cards, find, names
from gpuplan.models.mixers import Attention, Mla, SparseMla
from gpuplan.render.model import card_yaml
from gpuplan.schema_json import json_schema
from gpuplan.specs.catalog import shipped_folder
from gpuplan.strict_yaml import load_yaml, parse_yaml
from tests.sweeps import each

ALL = {card.id: card for card in cards()}

NEEDED = {
    "llama-1-7b", "llama-2-7b", "llama-2-70b", "llama-3-8b", "llama-3.1-8b", "llama-3.1-70b", "llama-3.1-405b",
    "llama-3.2-1b", "llama-3.3-70b", "llama-4-scout-17b-16e", "llama-4-maverick-17b-128e", "mistral-7b-v0.1", "mixtral-8x7b",
    "mixtral-8x22b", "qwen1.5-7b", "qwen2-7b", "qwen2.5-72b", "qwen3-32b", "qwen3-235b-a22b", "qwen3-next-80b-a3b",
    "qwen3.5-27b", "gemma-2b", "gemma-2-27b", "gemma-3-27b", "gemma-4-31b", "phi-2", "phi-3-mini", "phi-4", "gpt2",
    "gpt-3-175b", "gpt-j-6b", "gpt-neox-20b", "opt-175b", "bloom-176b", "bloomberggpt-50b", "falcon-40b", "mpt-7b",
    "deepseek-v2", "deepseek-v3", "deepseek-r1", "gpt-oss-120b", "jamba-v0.1-52b", "mamba-2.8b", "mamba2-2.7b", "t5-11b",
    "bert-base", "bert-large", "kimi-k2", "glm-4.5", "minimax-text-01", "minimax-m2",
}  # fmt: skip


def test_the_models_that_everyone_asks_for_are_there():
    assert set(ALL) >= NEEDED
    assert sum(card.recount is not None for card in ALL.values()) > 190


@each("card", ALL.values())
def test_count_is_that_of_the_recount_and_of_the_published_size(card):
    made = card.count()
    if card.recount is not None:
        assert made.params_total.value == card.recount.params_total
        assert card.recount.params_active in (None, made.params_active.value)
    if card.published is None:
        return
    stored = made.params_total.value + sum(card.checkpoint_extra.values())
    if card.published.exactness == "exact":
        assert card.published.params_total in (made.params_total.value, stored) or card.published.note
    elif not card.published.note:
        near = min(abs(total / card.published.params_total - 1) for total in (made.params_total.value, stored, _text(card)))
        assert near <= 0.001


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # What AlignmentResearch/robust-llm-2024 prints with GPTNeoXForCausalLM: scripts/ian/params_per_model.py at
        # https://github.com/AlignmentResearch/robust-llm-2024/blob/7227f615e7f6c03af5aef17cb9a074f840783335/
        ("pythia-70m", 70426624),
        ("pythia-1b", 1011781632),
        ("pythia-2.8b", 2775208960),
        # The stored tensors of google/gemma-3-12b-pt, recorded in llmfit-core/data/hf_models.json at
        # https://github.com/AlexsJones/llmfit/blob/a3e0eb27c57fe05298292f4c61699b9aed2824ea/
        ("gemma-3-12b", 12187325040),
    ],
)
def test_cards_without_a_recount(name, expected):
    assert ALL[name].count().params_total.value == expected


def _text(card):
    return card.count().params_total.value - card.architecture.extra_params.get("vision_tower", 0)


@each("card", ALL.values())
def test_term_names_are_unique_and_sources_can_be_checked(card):
    made = card.count()
    terms = list(made.params_active.walk())
    assert len({term.name for term in terms}) == len(terms)
    assert all(source.url.startswith("https://") for source in card.sources.values())
    assert sum(one.total.value for one in made.blocks) <= made.params_total.value


def test_names_are_unique_over_all_cards():
    owner = {}
    for card in ALL.values():
        for name in (card.id, *card.aliases):
            assert owner.setdefault(name.lower(), card.id) == card.id, name
        assert len({name.lower() for name in card.aliases}) == len(card.aliases)
    assert set(names()) == set(owner)


@pytest.mark.parametrize(
    ("name", "card"),
    [
        ("llama-3.1-8b", "llama-3.1-8b"),
        ("Llama3.1-8B", "llama-3.1-8b"),
        ("llama-3.1-8b-instruct", "llama-3.1-8b"),
        ("meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b"),
        ("Qwen/Qwen3-32B", "qwen3-32b"),
        ("qwen/qwen3-32b", "qwen3-32b"),
        ("alpaca-7b", "llama-1-7b"),
        ("EleutherAI/gpt-neox-20b", "gpt-neox-20b"),
    ],
)
def test_usual_names(name, card):
    assert find(name).id == card


def test_near_names_are_offered():
    with pytest.raises(UnknownError) as error:
        find("llama-3.1-8")
    assert "`llama-3.1-8b`" in str(error.value)
    assert error.value.exit_code == 5


def test_a_users_card_wins(tmp_path):
    text = (CARDS / "gpt2.yaml").read_text(encoding="utf-8")
    (tmp_path / "gpt2.yaml").write_text(text.replace("name: gpt2", "name: mine"), encoding="utf-8")
    assert find("gpt2", [tmp_path]).name == "mine"
    assert find("openai-community/gpt2", [tmp_path]).name == "mine"
    assert find("gpt2").name == "gpt2"


def _kv_bytes_per_token(card):
    """Two bytes a value over all layers of the stack that generates."""
    found = 0
    stack = card.architecture.decoder
    for name, layers in stack.counts().items():
        for mixer in (stack.blocks[name].mixer, stack.blocks[name].mixer2):
            if isinstance(mixer, Attention):
                found += layers * 2 * mixer.kv_heads * (mixer.head_dim + (mixer.v_head_dim or mixer.head_dim))
            elif isinstance(mixer, (Mla, SparseMla)):
                # The key of an indexer, where there is one, is counted apart: it is cached in a type of its own.
                found += layers * 2 * (mixer.kv_rank + mixer.rope_dim)
    return found


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("llama-3.1-8b", 131072),
        ("llama-3.1-70b", 327680),
        ("mistral-nemo-12b", 163840),  # head_dim 128, hidden / heads is 160
        ("deepseek-v3", 61 * 576 * 2),
        ("falcon-7b", 8192),  # one key and value head
        ("qwen3.5-27b", 16 * 2 * 4 * 256 * 2),  # one layer in four has a cache that grows
        ("gpt-3-175b", 4718592),
        ("mamba-2.8b", 0),
        ("jamba-v0.1-52b", 16384),
        ("llama-3.3-nemotron-super-49b", 49 * 2 * 8 * 128 * 2),
    ],
)
def test_kv_cache_per_token(name, expected):
    assert _kv_bytes_per_token(find(name)) == expected


def test_gemma_3_keeps_a_window_in_five_of_six_layers():
    stack = find("gemma-3-27b").architecture.decoder
    assert stack.counts() == {"sliding": 52, "full": 10}
    assert stack.blocks["sliding"].mixer.window == 1024
    assert stack.blocks["full"].mixer.window is None
    assert stack.blocks["full"].mixer.head_dim == 128  # 5376 / 32 is 168


def test_llama_4_sees_chunks_in_three_of_four_layers():
    stack = find("llama-4-maverick").architecture.decoder
    assert stack.counts() == {"chunked_dense": 24, "chunked_moe": 12, "full_moe": 12}


def test_official_quantised_checkpoints():
    assert find("deepseek-v3").weights.bits == 8
    assert find("gpt-oss-120b").weights.method == "mxfp4"
    assert find("llama-3.1-8b").weights is None


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("hidden: 768", "hidden: seven", "model.bad-value"),
        ("hidden: 768", "hidden: -768", "model.bad-value"),
        ("hidden: 768", "hiden: 768", "model.unknown-key"),
        ("tied: true", "tied: yes", "yaml.trap"),
        ("block: layer,", "block: layers,", "model.unknown-block"),
        ("kv_heads: 12", "kv_heads: 5", "model.heads"),
        ("id: gpt2", "id: gpt-2", "model.id-not-file-name"),
        ("vocab: 50257", "vocab: 50257\n  vocab: 50257", "yaml.duplicate-key"),
        ("kind: decoder", "kind: coder", "model.bad-value"),
        ("mixer: {kind: attention,", "mixer: {kind: magic,", "model.bad-value"),
    ],
)
def test_bad_cards_are_refused_with_a_line(tmp_path, old, new, code):
    text = (CARDS / "gpt2.yaml").read_text(encoding="utf-8")
    assert old in text
    path = tmp_path / "gpt2.yaml"
    path.write_text(text.replace(old, new), encoding="utf-8")
    with pytest.raises(SpecError) as error:
        load_card(path)
    assert code in [problem.code for problem in error.value.problems]
    assert all(":" in problem.where for problem in error.value.problems)


def test_an_alias_of_two_cards_is_refused(tmp_path):
    text = (CARDS / "gpt2.yaml").read_text(encoding="utf-8")
    for name in ("one", "two"):
        (tmp_path / f"{name}.yaml").write_text(text.replace("id: gpt2\n", f"id: {name}\n"), encoding="utf-8")
    with pytest.raises(SpecError) as error:
        find("gpt2-small", [tmp_path])
    assert error.value.problems[0].code == "model.alias-twice"


MODELS = Path(__file__).resolve().parents[3] / "shared" / "data" / "models.yaml"
RECALLED = {"falcon-h1-34b"}
"""Whose number in the collection was counted without the norm behind its state space, which the hub's number has."""


@pytest.mark.skipif(not MODELS.exists(), reason="the collection of model facts is not beside the checkout")
def test_every_language_model_of_the_collection_has_its_counts_and_cache():
    import yaml

    facts = yaml.load(MODELS.read_text(encoding="utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))["models"]
    missing = [fact["id"] for fact in facts if fact["id"] not in ALL]
    assert len(missing) <= 16, missing
    for fact in facts:
        card = ALL.get(fact["id"])
        if card is None or card.id in RECALLED:
            continue
        made = card.count()
        said = fact["parameters"]
        assert made.params_total.value == said.get("total", made.params_total.value), card.id
        assert made.params_active.value == said.get("active", made.params_active.value), card.id
        cache = fact.get("kv_cache", {}).get("bytes_per_token_bf16")
        assert cache is None or _kv_bytes_per_token(card) == cache, card.id
        assert all(find(name).id == card.id for name in fact["hf"])


@each("card", ALL.values())
def test_a_card_is_written_as_it_is_read(card):
    data, lines = parse_yaml(card_yaml(card), f"{card.id}.yaml")
    assert parse_card(data, lines) == card


def test_the_json_schema_of_cards_is_up_to_date_and_allows_them():
    made = json_schema(ModelCard)
    committed = shipped_folder() / "schema" / "model.schema.json"
    assert json.loads(committed.read_text(encoding="utf-8")) == made, "run `gpuplan specs schema --write hardware_specs/schema`"
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed")
    validator = jsonschema.Draft202012Validator(made)
    for path in sorted(CARDS.glob("*.yaml")):
        assert [one.message for one in validator.iter_errors(json.loads(json.dumps(load_yaml(path)[0])))] == [], path
