"""Models that only read: embedders, rerankers, classifiers and reward models take sequences through once."""

from __future__ import annotations

import pytest

from gpuplan.errors import PlanError, UsageError
from gpuplan.plan.ask_serving import FitAsk, ServeAsk
from gpuplan.search.ask import fit, serve
from tests.search.asked_of_each import compared

READERS = ["bert-large", "bge-m3", "qwen3-embedding-8b", "reward-llama-3.1-8b", "vit-l-16", "modernbert-base"]


@pytest.mark.parametrize("model", READERS)
def test_what_only_reads_is_served(model: str) -> None:
    made = serve(ServeAsk(model=model, on="l4", batch=32))
    figures = {name: float(one.value) for name, one in made.figures.items()}
    assert made.verdict.fits
    assert "output" not in made.question
    assert not {"ttft_s", "tpot_s", "cost_usd_per_million_output_tokens"} & {*figures}
    tokens = int(made.question["prompt"])
    assert figures["sequences_per_s"] * tokens == pytest.approx(figures["tokens_per_s"])
    assert figures["batch_time_s"] == pytest.approx(32 / figures["sequences_per_s"])
    assert figures["latency_s"] > 0


def test_a_published_server_of_embeddings() -> None:
    """BGE-large on an L4: ten requests of 256 texts, 1.15 million tokens, in 18.5 s (TEI) and 19.6 s (infinity).

    https://github.com/michaelfeil/infinity/blob/main/docs/docs/benchmarking.md, "Results: NVIDIA L4". No fit has seen it.
    """
    made = serve(ServeAsk(model="bert-large", on="l4", prompt=449, batch=256, weights="fp16"))
    measured = [1.15e6 / 18.491, 1.15e6 / 19.562]
    low, high = made.ranges["tokens_per_s"]
    for one in measured:
        assert float(made.figures["tokens_per_s"].value) == pytest.approx(one, rel=0.15)
        assert low <= one <= high


def test_replicas_share_the_work() -> None:
    one = serve(ServeAsk(model="bge-m3", on="h100", batch=64, tp=1))
    four = serve(ServeAsk(model="bge-m3", on="4xh100", batch=256, tp=1))
    assert four.figures["sequences_per_s"].value == pytest.approx(4 * float(one.figures["sequences_per_s"].value))
    each = four.figures["sequences_per_s_per_accelerator"].value
    assert each == pytest.approx(float(one.figures["sequences_per_s"].value))


def test_several_machines_are_compared() -> None:
    made = compared("serve", {"model": "bge-m3"}, ["l4", "h100"])
    speeds = [float(one.figures["sequences_per_s"].value) for one in made.values()]  # type: ignore[union-attr]
    assert speeds[0] < speeds[1]


def test_no_tokens_are_made() -> None:
    with pytest.raises(UsageError, match="bert-base only reads"):
        serve(ServeAsk(model="bert-base", on="h100", output=8))


def test_positions_that_a_model_did_not_learn() -> None:
    with pytest.raises(PlanError, match="512 positions"):
        serve(ServeAsk(model="bert-base", on="h100", prompt=513))


def test_what_is_given_of_a_cache_that_is_not_there_is_said() -> None:
    made = serve(ServeAsk(model="bert-base", on="h100", kv_cache="fp8"))
    assert any("--kv-cache" in note.text for note in made.notes)
    assert made.figures["tokens_per_s"].value == serve(ServeAsk(model="bert-base", on="h100")).figures["tokens_per_s"].value
    assert all("kv-cache" not in change.flags for change in made.changes)
    assert any("--batch" in note.text for note in fit(FitAsk(model="bert-base", on="h100", batch=3)).notes)


def test_batches_longer_than_a_pass_take_several() -> None:
    small = serve(ServeAsk(model="bert-large", on="l4", batch=16))
    large = serve(ServeAsk(model="bert-large", on="l4", batch=160))
    ratio = float(large.figures["batch_time_s"].value) / float(small.figures["batch_time_s"].value)
    assert ratio == pytest.approx(10, rel=0.02)
