"""Images in serving answers: the encoder's arithmetic as published, and what they add to time and memory."""

from __future__ import annotations

from typing import Any

import pytest

from gpuplan.errors import GpuplanError, UnknownError, UsageError
from gpuplan.estimate.images import image_figures
from gpuplan.estimate.result import Estimate
from gpuplan.estimate.serving import ServingModel
from gpuplan.models.image_rules import Fixed
from gpuplan.models.senses import Vision
from gpuplan.plan.ask_serving import FitAsk, ServeAsk
from gpuplan.plan.parallelism import Parallelism
from gpuplan.plan.serve import Images, ServePlan
from gpuplan.search.library import Library
from gpuplan.search.serving import answer_fit, answer_serving
from gpuplan.term import walk_of

H100 = "h100-sxm-80gb"


def asked(model: str = "qwen2.5-vl-3b", **given: Any) -> Estimate:
    ask = ServeAsk(**{"model": model, "on": H100, "batch": 1, "prompt": 512, "output": 64, "engine": "vllm", **given})
    return answer_serving(ask, Library.of(ask))


def figure(made: Estimate, name: str) -> float:
    return float(made.figures[name].value)


@pytest.mark.parametrize(
    ("width", "inner", "layers", "heads", "side", "gflop"),
    # mlfoundations/open_clip, docs/model_profile.csv at 3b37473b, image_gflops: ViT-L-14, ViT-L-14-336, ViT-H-14, ViT-bigG-14.
    [
        (1024, 4096, 24, 16, 224, 162.03), (1024, 4096, 24, 16, 336, 381.92), (1280, 5120, 32, 16, 224, 334.59),
        (1664, 8192, 48, 16, 224, 967.5),
    ],
)  # fmt: skip
def test_the_arithmetic_of_an_encoder_is_that_which_others_counted(
    width: int, inner: int, layers: int, heads: int, side: int, gflop: float
) -> None:
    rule = Fixed(side=side, patch=14, class_tokens=1)
    vision = Vision(width=width, inner=inner, patches_per_token=1, layers=layers, heads=heads, patch_values=588, rule=rule)
    ask = ServeAsk(model="llava-1.5-7b", on=H100, engine="vllm")
    subject = Library.of(ask).look_up(ask, "serve", with_price=False).subject
    subject = subject.replaced(arch=subject.arch.replaced(vision=vision))
    shown = Images(count=1.0, seen=rule.seen(side, side), where=rule.where)
    one = Parallelism(zero_stage=0, sequence_parallel=False)
    plan = ServePlan(parallel=one, batch=1.0, prompt=8.0, output=8.0, context=2048.0, images=shown)
    model = ServingModel.of(subject, plan)
    made = image_figures(model, {"images": model.prompt()})["image_encoder_flop"]
    # The counted patches are of a convolution, and the class token passes none of it.
    assert float(made.value) == pytest.approx(gflop * 1e9, rel=0.005)


def test_images_take_their_tokens_and_their_time() -> None:
    plain, shown = asked(), asked(images=2, image_size="1300x876")
    # vLLM, tests/models/multimodal/processing/test_qwen2_vl.py at 028611b3, and the two marks around an image.
    tokens = 2 * (1426 + 2)
    assert figure(shown, "prompt_tokens") == 512 + tokens
    assert shown.question["context"] == f"{512 + tokens + 64}"
    same_length = asked(prompt=512 + tokens)
    assert figure(shown, "kv_cache_bytes_per_sequence") == figure(same_length, "kv_cache_bytes_per_sequence")
    assert figure(shown, "ttft_s") == pytest.approx(figure(same_length, "ttft_s") + figure(shown, "encode_s"))
    assert figure(shown, "itl_s") == pytest.approx(figure(same_length, "itl_s"))
    assert figure(shown, "tokens_per_s") < figure(same_length, "tokens_per_s") < figure(plain, "tokens_per_s")
    # No encoder is faster than its arithmetic at the peak of the chip.
    assert figure(shown, "encode_s") > 2 * figure(shown, "image_encoder_flop") / 989.4e12


def test_the_encoder_explains_itself() -> None:
    made = asked(images=1, image_size="1300x876")
    term = made.find("prefill.image.image_window.mixer.qkv.seconds")
    assert term is not None
    assert term.formula is not None
    tokens = made.find("image.tokens")
    assert tokens is not None
    assert "qwen2_vl" in tokens.source.url
    assert "1288 x 868" in tokens.source.section
    values: dict[str, set[float]] = {}
    for one in walk_of([*made.figures.values()]):
        values.setdefault(one.name, set()).add(float(one.value))
    assert len(values) > 100
    assert [name for name, found in values.items() if len(found) > 1 and "image" in name] == []


def test_a_pin_reaches_the_encoder() -> None:
    plain, fewer = asked(images=4), asked(images=4, pins={"image.patches": 1000.0})
    assert figure(fewer, "encode_s") < figure(plain, "encode_s")


@pytest.mark.parametrize(
    "given",
    [
        {"model": "llama-3.2-11b-vision"}, {"model": "llama-4-scout-17b-16e", "on": "8xh100-sxm-80gb", "tp": 8},
        {"model": "gemma-3-12b"}, {"model": "gemma-4-31b", "weights": "fp8"}, {"model": "llava-1.5-7b"},
        {"model": "qwen3-vl-8b", "engine": "llama.cpp", "weights": "q4_k_m", "on": "rtx-4090"},
        {"model": "qwen3-vl-30b-a3b", "engine": "sglang", "weights": "fp8"}, {"model": "qwen3.5-27b", "weights": "fp8"},
        {"model": "qwen2.5-vl-3b", "on": "2xh100-sxm-80gb", "pp": 2, "batch": 2},
        {"model": "gemma-3-4b", "engine": "torch-eager"},
    ],
    ids=lambda given: "-".join(map(str, given.values())),
)  # fmt: skip
def test_every_way_to_see_is_answered(given: dict[str, Any]) -> None:
    one, six = asked(images=1, **given), asked(images=6, **given)
    # Six small ones may take the host no longer than one.
    assert 0 < figure(one, "encode_s") <= figure(six, "encode_s") < 6.5 * figure(one, "encode_s")
    assert figure(one, "ttft_s") < figure(six, "ttft_s")
    assert figure(one, "peak_memory_bytes") <= figure(six, "peak_memory_bytes")


def test_small_images_wait_for_the_host_where_no_graph_replays_the_encoder() -> None:
    small = asked("gemma-4-31b", weights="fp8", images=1)
    waits = small.find("prefill.image.one_issue_wait")
    layers = small.find("prefill.image.layers")
    assert waits is not None
    assert layers is not None
    assert float(waits.value) > 0
    assert figure(small, "encode_s") >= float(layers.value) * 0.5e-3
    large = asked(images=1, image_size="4000x3000").find("prefill.image.one_issue_wait")
    assert large is not None
    assert float(large.value) == 0


def test_attention_across_keeps_what_it_sees_of_images() -> None:
    one, two = (asked("llama-3.2-11b-vision", images=number, image_size="560x560", context=2048) for number in (1, 2))
    each = 2 * 8 * 128 * 2  # keys and values of a token in a layer
    grown = figure(two, "kv_cache_bytes_per_sequence") - figure(one, "kv_cache_bytes_per_sequence")
    assert grown == pytest.approx(8 * each * 1601, abs=8 * each * 16)  # 8 layers look at 1,601 positions, in whole pages
    assert figure(one, "prompt_tokens") == 513


def test_tensor_parallel_ranks_divide_the_encoder() -> None:
    alone, both = (asked(on=f"{ways}xh100-sxm-80gb", tp=ways, images=4, image_size="2000x2000") for ways in (1, 2))
    assert 0.5 * figure(alone, "encode_s") < figure(both, "encode_s") < figure(alone, "encode_s")


def test_fit_has_room_for_images() -> None:
    ask = FitAsk(model="gemma-3-4b", on=H100, images=40)
    made = answer_fit(ask, Library.of(ask))
    assert int(made.question["context"]) >= 40 * 260
    few = FitAsk(model="gemma-3-4b", on=H100, images=4, context=1000)
    with pytest.raises(UsageError, match="1,040 tokens, more than the context of 1,000"):
        answer_fit(few, Library.of(few))


@pytest.mark.parametrize(
    ("given", "error", "told"),
    [
        ({"model": "llama-3.1-8b", "images": 1}, UsageError, "llama-3.1-8b takes no images"),
        ({"model": "whisper-small", "images": 1, "prompt": None}, UsageError, "whisper-small takes no images"),
        ({"images": 99, "image_size": "9000x9000"}, UsageError, "whose context is 128,000"),
        (
            {"images": 1, "context": 1000},
            GpuplanError,
            "prompt 512 . 1 image of 1198 . output 64 tokens exceed the context of 1000",
        ),
        ({"image_size": "60000x10"}, UsageError, "too flat"),
        ({"audio": 30.0}, UsageError, "qwen2.5-vl-3b takes no audio"),
    ],
)
def test_what_cannot_be_is_said_once(given: dict[str, Any], error: type[GpuplanError], told: str) -> None:
    with pytest.raises(error, match=told) as found:
        asked(**given)
    assert len(found.value.problems) == 1


def test_an_encoder_that_is_not_on_record_is_said_to_be_unknown() -> None:
    ask = ServeAsk(model="qwen2.5-vl-3b", on=H100, images=1)
    library = Library.of(ask)
    card = library.card(ask.model)
    vision = card.architecture.vision
    assert vision is not None
    half = card.replaced(architecture=card.architecture.replaced(vision=vision.replaced(rule=None)), id="half-known")
    with pytest.raises(UnknownError, match="how half-known cuts images into tokens is not on record"):
        answer_serving(ask.replaced(model=library.keep(half)), library)
