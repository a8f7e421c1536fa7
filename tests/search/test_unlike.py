"""Unlike accelerators of one host that share the layers of a model out."""

from __future__ import annotations

from typing import Any

import pytest

import gpuplan
from gpuplan.errors import GpuplanError
from gpuplan.estimate.result import Estimate
from gpuplan.estimate.unlike import pieces_of, shared_out
from gpuplan.models.stored import StoredTensors
from gpuplan.plan.ask import TrainAsk
from gpuplan.plan.ask_serving import FitAsk, ServeAsk
from gpuplan.search.ask import fit, serve, train
from gpuplan.search.library import Library
from gpuplan.search.serving import settled

GIB = 2.0**30


def asked(on: str, model: str = "qwen2.5-32b", **given: Any) -> Estimate:
    return serve(ServeAsk(**{"model": model, "on": on, "weights": "q4_k_m", "batch": 1, **given}), advise=False)


def figure(made: Estimate, name: str) -> float:
    return float(made.figures[name].value)


def layers(made: Estimate) -> list[int]:
    return [int(one) for one in next(one.value for one in made.chosen if one.name == "layers").split(" + ")]


def memories(made: Estimate) -> dict[str, Any]:
    return {one.title: one for one in made.breakdowns if one.title.startswith("memory of ")}


@pytest.mark.parametrize("shares", [[1.0, 1.0], [24.0, 24.0, 12.0], [3.0, 1.0], [0.0, 1.0], [1.0] * 7])
@pytest.mark.parametrize("depth", [1, 5, 32, 80])
def test_every_layer_lies_on_one_accelerator_and_the_head_on_the_last_that_has_a_share(shares: list[float], depth: int) -> None:
    bounds = shared_out(depth, shares)
    assert [end for _, end in bounds[:-1]] == [first for first, _ in bounds[1:]]
    assert (bounds[0][0], bounds[-1][1]) == (0, depth)
    whole = sum(shares)
    heads = [0] * (len(shares) - 1) + [1]
    for (first, end), share, head in zip(bounds, shares, heads, strict=True):
        assert abs(end - first + head - share / whole * (depth + 1)) <= 1


def test_two_that_are_alike_are_as_fast_as_a_pipeline_of_them() -> None:
    plain = asked("2xrtx-3090", engine="llama-cpp", pp=2)
    shared = asked("2xrtx-3090", engine="llama-cpp", tensor_split="1,1")
    assert layers(shared) == [33, 31]
    assert figure(shared, "itl_s") == pytest.approx(figure(plain, "itl_s"), rel=0.02)
    assert figure(shared, "tokens_per_s") == pytest.approx(figure(plain, "tokens_per_s"), rel=0.03)
    # Without shares of its own a `+` of the same is the same question.
    same = asked("rtx-3090+rtx-3090", engine="llama-cpp", pp=2)
    assert figure(same, "itl_s") == figure(plain, "itl_s")


def test_a_token_takes_the_time_of_each_accelerator_for_its_layers() -> None:
    fast, slow = (figure(asked(on, engine="llama-cpp"), "itl_s") for on in ("rtx-4090", "rtx-3090"))
    both = figure(asked("rtx-4090+rtx-3090"), "itl_s")
    assert fast < both < slow
    more = figure(asked("rtx-4090+rtx-3090", tensor_split="3,1"), "itl_s")
    assert fast < more < both


@pytest.mark.parametrize(("model", "weights"), [("qwen2.5-32b", "q4_k_m"), ("gemma-3-27b", "q5_k_m"), ("gpt-oss-20b", "mxfp4")])
def test_what_the_accelerators_hold_is_the_model_once(model: str, weights: str) -> None:
    whole = asked("rtx-4090", model, weights=weights, engine="llama-cpp", batch=1)
    made = asked("rtx-4090+rtx-3090+rtx-3060-12gb", model, weights=weights)
    assert len(memories(made)) == 3
    assert figure(made, "weights_bytes") == pytest.approx(figure(whole, "weights_bytes"), rel=1e-4)
    assert figure(made, "kv_cache_bytes_per_sequence") == pytest.approx(figure(whole, "kv_cache_bytes_per_sequence"))
    held = [float(one.named["weights"].value) for one in memories(made).values()]
    assert sum(held) == pytest.approx(figure(made, "weights_bytes"))


def test_the_layers_go_by_memory() -> None:
    made = asked("2xrtx-3090+rtx-3060-12gb", "qwen2.5-72b")
    first, second, third = layers(made)
    assert first == second
    assert third / first == pytest.approx(0.5, abs=0.1)
    assert made.question["accelerators"] == "2 x rtx-3090 + rtx-3060-12gb"
    assert f"{third} layers and the head" in made.verdict.headline


def test_it_fits_where_each_has_room_for_its_own() -> None:
    wide = asked("rtx-4090+rtx-3060-12gb", "qwen2.5-72b")
    assert not wide.verdict.fits
    assert "too much on" in wide.verdict.headline
    fits = asked("rtx-4090+rtx-3060-12gb")
    assert fits.verdict.fits
    # Half of the layers are more than the smaller one holds.
    assert not asked("rtx-4090+rtx-3060-12gb", weights="q8_0", tensor_split="1,1").verdict.fits
    assert asked("rtx-4090+rtx-3060-12gb", weights="q6_k", tensor_split="7,3").verdict.fits


def test_a_prompt_of_several_passes_keeps_both_busy() -> None:
    both, first, second = (figure(asked(on, prompt=4096), "ttft_s") for on in ("rtx-4090+rtx-3090", "rtx-4090", "rtx-3090"))
    assert both < 0.85 * (first + second) / 2  # half of the layers each, which one pass after the other would wait for


def test_the_batch_is_what_all_have_room_for() -> None:
    made = asked("rtx-4090+rtx-3090", batch=None)
    assert made.question["batch"] == "4"


def test_each_accelerator_has_terms_of_its_own() -> None:
    made = asked("rtx-4090+rtx-3090")
    names = {term.name for term in made.figures["itl_s"].walk()}
    assert {"rtx-4090.hw.hbm_bandwidth", "rtx-3090.hw.hbm_bandwidth"} <= names
    low, high = made.ranges["itl_s"]
    assert low < figure(made, "itl_s") < high


def test_the_bytes_of_a_file_are_shared_out_too() -> None:
    ask = ServeAsk(model="llama-3.1-8b", on="rtx-4090", engine="llama-cpp", weights="q4_k_m", batch=1)
    one = settled(ask, Library.of(ask))
    parts = {"layer.mixer": {"q4_k": 320_000}, "layer.mlp": {"q4_k": 640_001}, "embedding": {"q4_k": 1000}, "head": {"q6_k": 2000}}
    plan = one.plan.replaced(checkpoint=StoredTensors(files=("mine.gguf",), as_is=True, parts=parts))
    pieces = pieces_of([("a", one.subject), ("b", one.subject)], plan, [(0, 8), (8, 32)])
    first, last = (one.parts for piece in pieces if (one := piece.plan.checkpoint) is not None)
    assert first == {"layer.mixer": {"q4_k": 80_000}, "layer.mlp": {"q4_k": 160_000}}
    assert last["head"] == {"q6_k": 2000}
    assert first["layer.mlp"]["q4_k"] + last["layer.mlp"]["q4_k"] == 640_001


def test_an_engine_that_gives_all_the_same_is_answered_for_the_weakest() -> None:
    made = asked("rtx-4090+rtx-3090", "qwen2.5-7b", engine="vllm", weights=None)
    alike = asked("2xrtx-3090", "qwen2.5-7b", engine="vllm", weights=None)
    assert figure(made, "tokens_per_s") == figure(alike, "tokens_per_s")
    assert made.question["on"] == "rtx-4090+rtx-3090"
    assert "answered as 2xrtx-3090" in made.notes[0].text


@pytest.mark.parametrize(
    ("on", "given", "words"),
    [
        ("rtx-4090+", {}, "names nothing on one side of a `+`"),
        ("rtx-4090+dgx-h100", {}, "`dgx-h100` in `rtx-4090+dgx-h100` is more, or less"),
        ("rtx-4090+m3-max", {}, "`m3-max` in `rtx-4090+m3-max` shares the memory of its host"),
        ("rtx-4090+rtx-3090x", {}, "rtx-3090x"),
        ("60xrtx-4090+5xrtx-3090", {}, "too many"),
        ("rtx-4090+rtx-3090", {"tp": 2, "gpu_layers": 3}, "--tp, --gpu-layers: not where unlike accelerators"),
        ("rtx-4090+rtx-3090", {"pins": {"hw.hbm_bandwidth": 1e12}}, "--set: not where unlike accelerators"),
        ("rtx-4090+rtx-3090", {"rate": 1.0, "images": 1}, "--images, --rate: not where unlike accelerators"),
        ("rtx-4090+rtx-3090", {"concurrency": 8}, "--concurrency: not where unlike accelerators"),
        ("rtx-4090+rtx-3090", {"draft": "qwen2.5-0.5b"}, "--draft: not where unlike accelerators"),
        ("rtx-4090+rtx-3090", {"tensor_split": "1"}, "`1` is not one share for each of the 2 accelerators"),
        ("rtx-4090+rtx-3090", {"tensor_split": "a,b"}, "`a,b` is not one share"),
        ("rtx-4090+rtx-3090", {"tensor_split": "0,0"}, "`0,0` is not one share"),
        ("rtx-4090+rtx-3090", {"tensor_split": "1,1", "engine": "vllm"}, "--tensor-split: vLLM gives every accelerator as much"),
        ("rtx-4090+rtx-3090", {"model": "whisper-large-v3"}, "is no decoder alone"),
    ],
)
def test_what_cannot_be_is_said_in_one_message(on: str, given: dict[str, Any], words: str) -> None:
    with pytest.raises(GpuplanError) as caught:
        asked(on, **{"weights": None, **given})
    assert len(caught.value.problems) == 1
    assert words in caught.value.problems[0].message


def test_other_questions_refuse_a_plus_in_one_message() -> None:
    for question, of in ((TrainAsk, train), (FitAsk, fit)):
        with pytest.raises(GpuplanError, match="joins unlike accelerators, which only `gpuplan serve` takes"):
            of(question(model="qwen2.5-7b", on="rtx-4090+rtx-3090"))  # type: ignore[operator]


def test_a_pasted_command_brings_its_shares() -> None:
    command = "llama-server -hf Qwen/Qwen2.5-32B-Instruct-GGUF:Q4_K_M -c 8192 -ts 3,1"
    made = gpuplan.serve("qwen2.5-32b", on="rtx-4090+rtx-3090", command=command)
    assert "rtx-4090 49 layers" in made.estimate.verdict.headline


def test_a_name_that_has_a_plus_is_itself() -> None:
    made = asked("gcp:n1-standard-8+1xnvidia-tesla-t4", "qwen2.5-7b", engine="llama-cpp")
    assert made.question["accelerators"] == "1 x t4"
