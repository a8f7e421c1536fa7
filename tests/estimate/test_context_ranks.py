"""Decode context parallelism: tensor parallel ranks that would hold copies of a cache share it along the context."""

from __future__ import annotations

from typing import Any

import pytest

from gpuplan.errors import PlanError
from gpuplan.estimate.result import Estimate
from gpuplan.search.ask import answered

LONG: dict[str, Any] = {
    "model": "deepseek-v3", "on": "8xh200", "engine": "vllm", "tp": 8, "pp": 1, "ep": 8, "attention_dp": 1,
    "redundant_experts": 0, "prompt": 60_000, "output": 1000, "batch": 4,
}  # fmt: skip


def served(**given: Any) -> Estimate:
    made = answered("serve", {**LONG, **given}, advise=False, keep=True)
    assert isinstance(made, Estimate)
    return made


def part(made: Estimate, name: str) -> float:
    found = made.find(name)
    return 0.0 if found is None else float(found.value)


@pytest.fixture(scope="module")
def whole() -> Estimate:
    return served(decode_cp=1)


@pytest.fixture(scope="module")
def shared() -> Estimate:
    return served(decode_cp=8)


def test_caches_hold_as_many_times_the_tokens_as_ranks_share_them(whole: Estimate, shared: Estimate) -> None:
    """vLLM prints 949,296 tokens with tp 2 and one key and value head, and 1,896,256 with two ranks that share them."""
    tokens = [float(made.figures["kv_cache_tokens"].value) for made in (whole, shared)]
    assert tokens[1] == pytest.approx(8 * tokens[0], rel=0.01)
    assert part(shared, "memory.kv_cache") == pytest.approx(part(whole, "memory.kv_cache") / 8, rel=0.01)


def test_a_rank_attends_with_the_heads_of_all_to_a_stripe_of_the_keys(whole: Estimate, shared: Estimate) -> None:
    """The same products on a rank, and an eighth of the latents read: with few sequences and long contexts attention is faster."""
    assert part(shared, "decode.attention") < part(whole, "decode.attention")
    assert {float(term.value) for term in walked(shared) if term.name.endswith("heads_of_all")} == {128.0}
    # What all heads ask, 576 wide, and what they get, 512 wide, in 16 bit for each of 4 sequences.
    sizes = {term.name.rsplit(".", 2)[-2]: float(term.value) for term in walked(shared) if term.name.endswith(".bytes")}
    assert sizes["gathered_queries"] == 4 * 128 * 576 * 2
    assert sizes["merged"] == 4 * 128 * 512 * 2
    assert sizes["gathered_scales"] == 4 * 128 * 8 * 4
    assert part(shared, "decode.context_parallel") > 0.0
    assert part(whole, "decode.context_parallel") == 0.0


def walked(made: Estimate) -> list[Any]:
    """All terms of the time of a decode step."""
    seen: dict[int, Any] = {}
    todo = [made.figures["itl_s"]]
    while todo:
        term = todo.pop()
        if id(term) not in seen:
            seen[id(term)] = term
            todo += [one for _, one in term.args]
    return list(seen.values())


def test_prompts_are_read_as_without_it(whole: Estimate, shared: Estimate) -> None:
    assert part(shared, "prefill.seconds") == pytest.approx(part(whole, "prefill.seconds"))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"decode_cp": 3}, "of tp 8 only 8 hold the same head"),
        ({"decode_cp": 4, "tp": 2, "ep": 8, "attention_dp": 4}, "of tp 2 only 2 hold the same head"),
        ({"decode_cp": 2, "engine": "tensorrt-llm"}, "does not divide the caches of this model"),
        ({"model": "qwen3-235b-a22b", "decode_cp": 4}, "only 2 hold the same head"),
        ({"model": "qwen3-235b-a22b", "decode_cp": 2, "engine": "sglang"}, "does not divide the caches of this model"),
        ({"model": "gpt-oss-120b", "decode_cp": 2}, "does not divide the caches of this model"),
    ],
)  # fmt: skip
def test_what_cannot_be_shared_is_said(given: dict[str, Any], said: str) -> None:
    with pytest.raises(PlanError) as error:
        served(**{"prompt": 1000, **given})
    assert any(said in problem.message for problem in error.value.problems)


def test_copies_of_few_heads_are_shared_too() -> None:
    """Qwen3-235B has 4 key and value heads: with tp 8 each is held twice (vLLM: `-tp 8 -dcp 2`)."""
    few = {"model": "qwen3-235b-a22b", "prompt": 20_000}
    alone, both = served(**few, decode_cp=1), served(**few, decode_cp=2)
    found = [float(made.figures["kv_cache_tokens"].value) for made in (alone, both)]
    assert found[1] == pytest.approx(2 * found[0], rel=0.01)


def test_it_is_chosen_where_caches_are_what_is_short() -> None:
    made = answered(
        "serve",
        {"model": "deepseek-v3", "on": "8xh200", "tp": 8, "attention_dp": 1, "prompt": 60_000, "output": 1000, "concurrency": 64},
        advise=False, keep=True,
    )  # fmt: skip
    assert int(made.question["decode_cp"]) > 1
    assert any(choice.name == "decode_cp" for choice in made.chosen)
