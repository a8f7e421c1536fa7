"""What must hold of every serving estimate, whatever its numbers are."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from gpuplan.estimate.answer import Said, serving_answer
from gpuplan.estimate.serving import ServingModel
from gpuplan.estimate.serving_figures import ServingFigures, serving_figures
from gpuplan.models.catalog import find
from gpuplan.models.mixers import Attention, Mla
from gpuplan.plan.ask_serving import FitAsk, ServeAsk
from gpuplan.search.ask import fit, serve
from tests.estimate.subjects import MODELS, mixers_of, serve_plan, subject

ON = "8xh100-sxm-80gb"


def figures(model: str, engine: str = "vllm", on: str = ON, **given: Any) -> ServingFigures:
    return serving_figures(subject(model, on, engine), serve_plan(**given))


def memory(model: str, engine: str = "vllm", **given: Any) -> dict[str, float]:
    made = ServingModel.of(subject(model, ON, engine), serve_plan(**given)).memory()
    parts = {part.name: float(part.value) for part in made.parts.values()}
    return parts | {"needed": float(made.needed.value), "sequence": float(made.sequence.value)}


@pytest.mark.parametrize("model", MODELS)
def test_the_parts_sum_to_the_totals(model: str) -> None:
    for given in ({}, {"tp": 4.0, "dp": 2.0}, {"tp": 2.0, "pp": 2.0, "batch": 64.0}):
        made = serving_answer(figures(model, **given), Said(question={}))
        assert len(made.breakdowns) == 3
        for one in made.breakdowns:
            assert sum(float(part.value) for part in one.parts) == pytest.approx(one.total.value, rel=1e-12), one.title
            assert all(float(part.value) >= 0 for part in one.parts), one.title


@pytest.mark.parametrize("model", MODELS)
def test_memory_falls_with_every_choice_that_saves_it(model: str) -> None:
    choices: dict[str, list[dict[str, Any]]] = {
        "tp": [{"tp": tp} for tp in (1.0, 2.0, 4.0, 8.0)],
        "pp": [{"pp": pp} for pp in (1.0, 2.0, 4.0)],
        "weights": [{"weights": name} for name in ("fp32", "bf16", "fp8", "int4")],
        "batch": [{"batch": batch} for batch in (64.0, 8.0, 1.0)],
    }
    for name, plans in choices.items():
        made = [memory(model, queues=False, **plan) for plan in plans]
        # Buffers of collectives come with the second accelerator.
        sizes = [one["needed"] - one.get("engine.communication", 0.0) - one.get("memory.communication", 0.0) for one in made]
        assert all(more > less for more, less in pairwise(sizes)), (name, sizes)


@pytest.mark.parametrize("model", [name for name in MODELS if any(mixer.scores() for mixer in mixers_of(find(name)))])
def test_the_cache_falls_with_its_type_and_the_context(model: str) -> None:
    wide, narrow = (memory(model, kv_cache=kind)["sequence"] for kind in ("bf16", "fp8"))
    short = memory(model, context=1024.0, prompt=512.0)["sequence"]
    assert narrow < wide
    assert short < wide


@pytest.mark.parametrize("model", MODELS)
def test_one_accelerator_has_no_traffic_and_more_have_some(model: str) -> None:
    alone = figures(model, on="h100-sxm-80gb")
    cut = figures(model, tp=2.0)
    for phases, some in (((alone.prefill, alone.decode), False), ((cut.prefill, cut.decode), True)):
        for phase in phases:
            assert phase is not None
            times = [float(part.value) for name, part in phase.parts.items() if name in ("tensor_parallel", "pipeline_send")]
            assert (sum(times) > 0) == some


@pytest.mark.parametrize("model", MODELS)
def test_all_ranks_together_hold_the_model_at_least_once(model: str) -> None:
    total = 2 * float(subject(model, ON, "vllm").counts.params_total.value)
    for tp, pp in ((1.0, 1.0), (8.0, 1.0), (2.0, 4.0), (1.0, 8.0)):
        assert memory(model, tp=tp, pp=pp)["memory.weights"] * tp * pp >= total * (1 - 1e-12)
    assert memory(model)["memory.weights"] == pytest.approx(total, rel=1e-12)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("weights", ["bf16", "fp8", "int4"])
def test_a_decode_step_takes_longer_than_reading_what_it_must(model: str, weights: str) -> None:
    for batch in (1.0, 16.0, 512.0):
        made = figures(model, batch=batch, weights=weights, tp=4.0)
        assert made.decode is not None
        bandwidth = float(subject(model, ON, "vllm").hw.hbm_bandwidth.value)
        assert made.decode.seconds.value > float(made.decode.weights_read.value) / bandwidth
        assert 0 < made.figures["mbu"].value < 1


@pytest.mark.parametrize("model", MODELS)
def test_bandwidth_in_use_does_not_grow_with_memory_that_is_only_reserved(model: str) -> None:
    short, long = (figures(model, batch=32.0, context=context, queues=False).figures["mbu"].value for context in (2048.0, 65536.0))
    assert long == pytest.approx(short, rel=0.01)


@pytest.mark.parametrize("model", ["llama-3.1-8b", "llama-3.1-70b", "gemma-3-27b", "gpt2"])
def test_a_prefill_takes_longer_than_its_arithmetic_at_the_peak(model: str) -> None:
    about = subject(model, ON, "vllm")
    params = float(about.counts.params_active.value) - float(about.counts.embedding.value)
    for tp in (1.0, 8.0):
        made = figures(model, tp=tp, prompt=4096.0, context=8192.0)
        layers = params - (float(about.counts.head.value) if about.counts.head is not None else 0.0)
        assert made.figures["ttft_s"].value > 2 * layers * 4096 / (tp * float(about.hw.peak("bf16").value))


@pytest.mark.parametrize("model", MODELS)
def test_more_work_is_never_faster(model: str) -> None:
    for name, values in (("output", (64.0, 256.0, 1024.0)), ("batch", (1.0, 8.0, 64.0)), ("prompt", (128.0, 1024.0, 4096.0))):
        made = [figures(model, context=8192.0, tp=2.0, **{name: value}).figures for value in values]
        steps = [float(one["tpot_s"].value) for one in made]
        assert all(less <= more * (1 + 1e-9) for less, more in pairwise(steps)), (name, steps)
        prefills = [float(one["batch_prefill_s"].value) for one in made]
        assert all(less <= more * (1 + 1e-9) for less, more in pairwise(prefills)), (name, prefills)


def test_more_output_tokens_cost_more_in_all() -> None:
    for model in ("llama-3.1-8b", "mixtral-8x7b", "gemma-3-27b"):
        bills = []
        for output in (16, 64, 256, 1024):
            ask = ServeAsk(model=model, on=ON, prompt=1024, output=output, batch=16, tp=8, pp=1, price=10 / 3600)
            bills.append(float(serve(ask).figures["cost_usd_per_million_output_tokens"].value) * output)
        assert all(less < more for less, more in pairwise(bills)), (model, bills)


@pytest.mark.parametrize("model", ["deepseek-v3", "deepseek-v2-lite"])
def test_a_latent_cache_does_not_shrink_with_tensor_parallelism(model: str) -> None:
    arch = subject(model, ON, "vllm").arch
    assert all(isinstance(block.mixer, Mla) for block in arch.decoder.blocks.values())
    sizes = {memory(model, tp=tp)["sequence"] for tp in (1.0, 2.0, 8.0)}
    assert len(sizes) == 1


@pytest.mark.parametrize(("model", "kv_heads"), [("llama-3.1-8b", 8), ("llama-3.1-70b", 8), ("mixtral-8x7b", 8), ("falcon-7b", 1)])
def test_a_cache_is_cut_by_its_heads_and_no_further(model: str, kv_heads: int) -> None:
    whole = memory(model)["sequence"]
    for tp in (1, 2, 4, 8, 16, 32):
        assert memory(model, tp=float(tp))["sequence"] == pytest.approx(whole / min(tp, kv_heads), rel=1e-12)


def test_windowed_layers_keep_their_window_where_the_engine_caps_it() -> None:
    block = {kind: mixer for kind, mixer in _mixers("gemma-3-27b").items() if mixer.window}
    assert block
    capped = [memory("gemma-3-27b", context=context, prompt=64.0, output=64.0)["sequence"] for context in (16384.0, 32768.0)]
    full_layers = 10
    # From one context to its double only the ten global layers grow: 2 x 16 heads x 128 x 2 bytes a token.
    assert capped[1] - capped[0] == full_layers * 2 * 16 * 128 * 2 * 16384


def _mixers(model: str) -> dict[str, Attention]:
    blocks = subject(model, ON, "vllm").arch.decoder.blocks
    return {name: block.mixer for name, block in blocks.items() if isinstance(block.mixer, Attention)}


@pytest.mark.parametrize("model", ["mamba2-2.7b"])
def test_a_state_has_the_same_size_at_every_length(model: str) -> None:
    assert memory(model, context=2048.0)["sequence"] == memory(model, context=65536.0)["sequence"] > 0


@pytest.mark.parametrize(
    "ask",
    [
        ServeAsk(model="llama-3.1-70b", on="4xh100", prompt=2000, output=300),
        ServeAsk(model="mixtral-8x7b", on="4xl40s"),
        ServeAsk(model="gpt2", on="t4", batch=4),
    ],
    ids=lambda ask: ask.model,
)
def test_every_figure_of_serving_lies_within_its_range(ask: ServeAsk) -> None:
    made = serve(ask)
    for name, (low, high) in made.ranges.items():
        assert low <= float(made.figures[name].value) <= high, name
    assert made.ranges["tpot_s"][0] < made.ranges["tpot_s"][1]


@pytest.mark.parametrize("model", ["llama-3.1-8b", "gemma-3-27b", "deepseek-v2-lite"])
def test_as_many_sequences_fit_as_fit_says(model: str) -> None:
    most = int(fit(FitAsk(model=model, on="h100", tp=1, pp=1)).figures["max_sequences"].value)
    assert most > 1
    assert fit(FitAsk(model=model, on="h100", batch=most)).verdict.fits
    assert not fit(FitAsk(model=model, on="h100", batch=most + 1)).verdict.fits


def test_fit_and_serve_agree_on_memory() -> None:
    common: dict[str, Any] = {"model": "llama-3.1-70b", "on": "4xh100", "batch": 8, "context": 4096, "tp": 4, "pp": 1}
    one, two = fit(FitAsk(**common)), serve(ServeAsk(**common, prompt=2048, output=256))
    for name in ("peak_memory_bytes", "memory_budget_bytes", "kv_cache_bytes_per_sequence", "max_sequences", "headroom_bytes"):
        assert one.figures[name].value == two.figures[name].value, name


@pytest.mark.parametrize(("given", "lengths"), [({}, (768, 256)), ({"context": 512}, (384, 128)), ({"prompt": 1000}, (1000, 24))])
def test_lengths_that_the_user_leaves_out_fit_into_the_context(given: dict[str, Any], lengths: tuple[int, int]) -> None:
    made = serve(ServeAsk(model="gpt2", on="t4", batch=1, **given))
    assert (made.question["prompt"], made.question["output"]) == tuple(str(one) for one in lengths)


def test_an_encoder_fits_and_keeps_nothing() -> None:
    made = fit(FitAsk(model="bert-base", on="h100"))
    assert made.verdict.fits
    assert "max_sequences" not in made.figures
    assert made.figures["kv_cache_bytes_per_sequence"].value == 0


@pytest.mark.parametrize("batch", [1, 2, 6, 12, 16, 31])
def test_the_batch_is_what_the_user_asked_for(batch: int) -> None:
    made = serve(ServeAsk(model="llama-3.1-8b", on=ON, batch=batch, tp=1))
    assert made.question["batch"] == str(batch)
    assert batch % int(made.question["dp"]) == 0


def test_the_batch_that_was_chosen_can_be_asked_for() -> None:
    ask = ServeAsk(model="llama-3.1-8b", on="8xl40s", tp=2, pp=1)
    made = serve(ask)
    assert int(made.question["dp"]) == 4
    again = serve(ask.replaced(batch=int(made.question["batch"])))
    assert again.figures["tokens_per_s"].value == made.figures["tokens_per_s"].value
