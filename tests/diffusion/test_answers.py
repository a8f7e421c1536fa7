"""Questions about diffusion models: what must hold of every answer, and one clear message for what means nothing."""

from __future__ import annotations

from typing import Any

import pytest

from gpuplan.errors import GpuplanError, UnknownError, UsageError
from gpuplan.estimate.result import Estimate
from gpuplan.search.ask import answered


def serve(model: str, **asked: Any) -> Estimate:
    """The answer of `gpuplan serve`."""
    return answered("serve", {"model": model, **asked})


def fit(model: str, **asked: Any) -> Estimate:
    """The answer of `gpuplan fit`."""
    return answered("fit", {"model": model, **asked})


FLUX = {"on": "h100", "steps": 4}


def _value(made: Any, name: str) -> float:
    term = made.find(name)
    assert term is not None, name
    return float(term.value)


def test_the_flop_of_a_step_are_those_of_its_weights_and_its_attention() -> None:
    """Each token meets every matrix of a block once: twice the weights but for what the step's embedding alone meets."""
    made = serve("flux.1-schnell", on="h100", steps=1, size="1024x1024")
    tokens, width, blocks = 4096 + 256, 3072, 19 + 38
    shifts = 19 * 2 * 6 * width**2 + 38 * 3 * width**2
    inner = 11_891_178_560 - shifts
    attention = blocks * 4 * tokens**2 * width
    # two streams hold their own weights in the 19 double blocks, and a token meets those of its stream
    double = 19 * 12 * width**2
    rough = 2 * (inner - double) * tokens + attention
    assert _value(made, "denoise.flop") == pytest.approx(rough, rel=0.1)


def test_steps_multiply_and_guidance_doubles() -> None:
    once = serve("wan2.1-t2v-1.3b", on="h100", steps=10, guidance="none")
    twice = serve("wan2.1-t2v-1.3b", on="h100", steps=20, guidance="none")
    guided = serve("wan2.1-t2v-1.3b", on="h100", steps=10, guidance="in-turn")
    assert _value(twice, "batch.denoise") == pytest.approx(2 * _value(once, "batch.denoise"))
    assert _value(guided, "denoise.flop") == pytest.approx(2 * _value(once, "denoise.flop"))
    assert guided.figures["peak_memory_bytes"].value == pytest.approx(once.figures["peak_memory_bytes"].value, rel=0.01)


def test_keeping_less_on_the_card_never_takes_more_memory_or_less_time() -> None:
    held, took = [], []
    for mode in ("none", "model", "sequential"):
        made = serve("flux.1-dev", **FLUX, offload_components=mode, vae_tiling=True)
        held.append(made.figures["peak_memory_bytes"].value)
        took.append(made.figures["latency_s"].value)
    assert held == sorted(held, reverse=True)
    assert took == sorted(took)


def test_tiles_take_less_memory_and_more_work() -> None:
    whole = serve("sdxl", on="h100", steps=4, size="2048x2048", vae_tiling=False)
    tiles = serve("sdxl", on="h100", steps=4, size="2048x2048", vae_tiling=True)
    assert tiles.figures["peak_memory_bytes"].value < whole.figures["peak_memory_bytes"].value
    assert _value(tiles, "batch.decode_tiles") > _value(whole, "batch.decode")


@pytest.mark.parametrize("kind", ["fp8", "nf4", "q8_0", "q4_k_m"])
def test_narrower_weights_take_less_memory(kind: str) -> None:
    plain = fit("flux.1-dev", on="h100")
    narrow = fit("flux.1-dev", on="h100", weights=kind)
    assert narrow.figures["weights_bytes"].value < plain.figures["weights_bytes"].value
    assert fit("flux.1-dev", on="h100", encoder_weights="nf4").figures["weights_bytes"].value < plain.figures["weights_bytes"].value


def test_a_replica_on_every_card_and_what_a_thousand_cost() -> None:
    one = serve("sdxl", on="rtx-4090", steps=30, price="0.50")
    two = serve("sdxl", on="2xrtx-4090", steps=30, price="0.50")
    assert two.figures["images_per_hour"].value == pytest.approx(2 * one.figures["images_per_hour"].value)
    assert two.figures["latency_s"].value == pytest.approx(one.figures["latency_s"].value)
    hours = 1000 / one.figures["images_per_hour"].value
    assert one.figures["cost_usd_per_thousand_images"].value == pytest.approx(0.5 * hours)


def test_what_is_left_open_is_chosen_so_that_it_fits() -> None:
    made = fit("flux.1-dev", on="rtx-3060")
    assert made.verdict.fits
    assert made.question["offload_components"] == "sequential"
    assert any(change.flags.get("weights") == "nf4" for change in made.changes)
    assert not fit("flux.1-dev", on="rtx-3060", offload_components="none").verdict.fits
    assert fit("flux.1-dev", on="rtx-4090", offload_components="model", weights="fp8").verdict.fits


def test_given_values_count() -> None:
    made = serve("flux.1-dev", **FLUX, set=["engine.request_host=10 s"])
    assert made.figures["latency_s"].value > 10


@pytest.mark.parametrize(
    ("model", "asked", "said"),
    [
        ("flux.1-dev", {"size": "1000x1024"}, "no multiple of the 16"),
        ("flux.1-dev", {"size": "0x1024"}, "no width and height"),
        ("flux.1-dev", {"size": "big"}, "no width and height"),
        ("flux.1-dev", {"size": "99999999x8"}, "no width and height"),
        ("flux.1-dev", {"steps": 0}, "at least 1"),
        ("flux.1-dev", {"frames": 81}, "makes pictures, not clips"),
        ("flux.1-dev", {"fps": 16}, "makes pictures, not clips"),
        ("wan2.1-t2v-1.3b", {"frames": 80}, "use 77 or 81 frames"),
        ("flux.1-dev", {"prompt": 5}, "--prompt: not of a diffusion model"),
        ("flux.1-dev", {"kv_cache": "fp8"}, "--kv-cache: not of a diffusion model"),
        ("flux.1-dev", {"tp": 2}, "replicated and not cut"),
        ("flux.1-dev", {"dp": 3}, "has a replica"),
        ("flux.1-dev", {"engine": "vllm"}, "nothing is known of how `vllm`"),
        ("dit-xl-2-256", {"encoder_weights": "nf4"}, "reads no text"),
        ("llama-3.1-8b", {"size": "512x512", "steps": 4}, "--size 512x512, --steps 4: of models that make pictures"),
    ],
)
def test_what_means_nothing_is_refused(model: str, asked: dict[str, Any], said: str) -> None:
    with pytest.raises(GpuplanError, match=said) as raised:
        serve(model, on="h100", **asked)
    assert raised.value.exit_code == 2
    assert len(raised.value.problems) == 1


@pytest.mark.parametrize("on", ["tpu-v5e-8", "gaudi2"])
def test_where_nobody_knows_how_it_runs_that_is_said(on: str) -> None:
    with pytest.raises(UnknownError, match="nothing is known of how diffusers") as raised:
        serve("sdxl", on=on)
    assert raised.value.exit_code == 5


def test_training_one_is_refused() -> None:
    with pytest.raises(UsageError, match="makes pictures or clips"):
        answered("train", {"model": "flux.1-dev", "on": "h100"})
    with pytest.raises(UsageError, match="makes pictures or clips"):
        fit("flux.1-dev", on="h100", task="train")
    with pytest.raises(UsageError, match="--size 512x512: of models that make pictures"):
        fit("llama-3.1-8b", on="h100", task="train", size="512x512")
