"""Rows of published serving runs are asked with what their recipes set, on the servers that they ran on."""

from __future__ import annotations

from typing import Any

import pytest

from gpuplan.accuracy.clients import client_of, clients
from gpuplan.accuracy.inference import load_of_row
from gpuplan.accuracy.recipes import PassTokens, Recipe, settings_of, with_its_size
from gpuplan.accuracy.rows import Row, packaged, read_rows


def row(**said: Any) -> Row:
    run = {"concurrency": 64, "input_len": 1024, "output_len": 1024, "tp": 8, "dp": 1, "ep": 1, "mode": "server", **said}
    other = {name: run.pop(name) for name in ("engine", "model", "on", "count", "id", "repo") if name in run}
    return Row(
        id=other.get("id", "one"), set="runs", task="inference", model={"id": other.get("model", "deepseek-v3")},
        hardware={"accelerator": other.get("on", "b200-sxm-180gb"), "count": other.get("count")}, run=run, measured={},
        engine=other.get("engine", "tensorrt-llm 1.2.0rc6.post2"), repo=other.get("repo", "ai-dynamo/aiconfigurator"),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("said", "is_"),
    [
        ({"tp": 64, "ep": 8}, {"tp": 8, "dp": 1, "ep": 8}),
        ({"tp": 16, "ep": 4}, {"tp": 4, "dp": 1, "ep": 4}),
        ({"tp": 1, "dp": 64, "ep": 8}, {"tp": 1, "dp": 8, "ep": 8}),
        ({"tp": 4, "dp": 4, "ep": 16}, {"tp": 1, "dp": 4, "ep": 4}),
        ({"tp": 4, "count": 4}, {"tp": 4, "dp": 1, "ep": 1}),
        ({"tp": 64, "ep": 8, "repo": "someone/else"}, {"tp": 64, "dp": 1, "ep": 8}),
    ],
)
def test_ranks_that_were_multiplied_with_themselves(said: dict[str, Any], is_: dict[str, int]) -> None:
    found = with_its_size(row(**said)).run
    assert {name: found[name] for name in is_} == is_


def test_what_recipes_count() -> None:
    """max_num_tokens of InferenceX's scripts, of which the drafts' have none of 8,192 at least, and of AIConfigurator's."""
    day = {"weights": "nvfp4", "measured_on": "2025-12-15", "engine": "tensorrt-llm 1.1.0rc2.post2"}
    assert settings_of(row(**day))["max_batched_tokens"] == (64 + 1024 + 64 + 63) // 64 * 64
    assert settings_of(row(weights="fp8", measured_on="2026-01-29"))["max_batched_tokens"] == 8192
    drafts = row(measured_on="2026-02-06", engine="tensorrt-llm 1.2.0rc6.post3", weights="nvfp4")
    assert settings_of(drafts) == {
        "kv_cache": "fp8", "max_batched_tokens": (4 * 64 + 1024 + 64 + 63) // 64 * 64, "draft": "mtp", "draft_tokens": 3,
    }  # fmt: skip
    shared = row(measured_on="2026-02-06", engine="tensorrt-llm 1.2.0rc6.post3", weights="nvfp4", tp=1, dp=8, ep=8)
    assert settings_of(shared) | {"draft_tokens": 1, "batch_wait": 60} == settings_of(shared)
    own = row(engine="tensorrt-llm 1.0.0rc3", model="qwen3-32b", on="h100-sxm-80gb", weights="fp8", input_len=4096)
    assert settings_of(own) == {"max_batched_tokens": 64 + 4096 + 1500, "kv_cache": "fp8"}
    assert settings_of(row(measured_on="2025-12-15", repo="someone/else")) == {}
    assert settings_of(row(engine="vllm 0.19.0", measured_on="2025-12-15")) == {}


def test_of_two_recipes_the_later_says_it() -> None:
    few, many = (
        settings_of(row(engine="sglang 0.5.9", weights="nvfp4", measured_on="2026-03-25", concurrency=users))["recv_interval"]
        for users in (8, 16)
    )
    assert (few, many) == (10, 30)
    assert PassTokens(users=1, more=127, multiple=64, least=8192).of(8, 8192) == 8320
    one = Recipe(engine="vllm", models=("deepseek-v3",), users=(4, 8))
    assert [one.fits(row(engine="vllm 0.1", concurrency=users)) for users in (3, 4, 7, 8)] == [False, True, True, False]


def test_clients_of_one_source() -> None:
    """The same repository holds InferenceX's runs, whose lengths are uneven, and its own."""
    theirs, own = client_of(row()), client_of(row(engine="tensorrt-llm 1.0.0rc3", input_len=2048, output_len=128))
    assert theirs is not None
    assert own is not None
    assert (theirs.mean, own.mean, own.spread) == (0.9, 1.0, 0.0)
    assert client_of(row(engine="vllm 0.12.0", input_len=2048, output_len=128)) is None
    dynamo = client_of(row(engine="tensorrt-llm 0.7.0.post2"))
    assert dynamo is not None
    assert (theirs.requests_of_user, dynamo.requests_of_user, dynamo.mean) == (10, 8, 0.9)


def test_a_client_that_draws_lengths_whose_means_are_printed() -> None:
    """SGLang's random data set has lengths from none to those that are named: spread over their mean by 1 / sqrt 3."""
    said = {"concurrency": 16, "num_requests": 80, "input_len": 495.9, "output_len": 509.1, "mode": "server"}
    drawn = load_of_row(row(repo="sgl-project/sgl-cookbook", engine="sglang 0.5.6", **said))
    assert drawn == {"concurrency": 16, "requests": 80, "prompt_spread": 0.5774, "output_spread": 0.5774}
    even = said | {"input_len": 128, "output_len": 128}
    named = load_of_row(row(repo="Massed-Compute/gpu-benchmark", engine="sglang 0.5.6", **even))
    assert (named["prompt"], named["output"], named["context"], named["prompt_spread"]) == (64, 64, 256, 0.5774)
    assert "prompt_spread" not in load_of_row(row(repo="someone/else", engine="sglang 0.5.6", **said))


def test_closed_loops_are_asked_with_the_lengths_that_a_page_tells() -> None:
    """Answers that all end at their limit are even, which is no doubt then; those of a data set on record are unlike."""
    said = {"concurrency": 5, "input_len": 200, "output_len": 1000, "mode": "server"}
    course = load_of_row(row(repo="wbing520/ai-performance-engineering", engine="tensorrt-llm", **said))
    assert course == {"concurrency": 5, "prompt_spread": 0.0, "output_spread": 0.0}
    chats = load_of_row(row(repo="someone/else", engine="vllm 0.11.0", dataset="ShareGPT", **said))
    assert chats == {"concurrency": 5, "output_spread": 1.05}
    own = load_of_row(row(repo="someone/else", engine="vllm 0.11.0", dataset="ShareGPT", output_spread=0.4, **said))
    assert "output_spread" not in own  # the row's own word is taken where the question is made
    at_rate = {"request_rate": 2, "concurrency": None, "input_len": 200, "output_len": 1000, "mode": "server"}
    assert "output_spread" not in load_of_row(row(repo="someone/else", engine="vllm 0.11.0", dataset="ShareGPT", **at_rate))


def test_every_client_made_some_of_the_published_runs() -> None:
    """A client whose repository or lengths are of no row is a slip of the pen."""
    found = {client_of(one) for one in read_rows([packaged()]) if one.task == "inference"}
    assert {one for made in clients().values() for one in made} <= found


def test_every_recipe_made_some_of_the_published_runs() -> None:
    """A recipe that fits no row is a slip of the pen."""
    from gpuplan.accuracy.recipes import _recipes

    rows = [one for one in read_rows([packaged() / "silicon.yaml"]) if one.task == "inference"]
    for recipe in {id(one): one for found in _recipes().values() for one in found}.values():
        assert any(recipe.fits(with_its_size(one)) for one in rows), recipe
