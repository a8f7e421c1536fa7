"""Engines that published runs name are answered for: by a profile of their own, or by one that works alike, which is said."""

from __future__ import annotations

import pytest

from gpuplan.models.gguf_repositories import card_of_typed_name
from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.plan.read import question
from gpuplan.search.library import Library
from gpuplan.search.serving import answer_serving

ALIKE = {
    "vllm": (
        "lmdeploy",
        "turbomind",
        "deepspeed-mii",
        "lightllm",
        "vllm-ascend",
        "vllm-gaudi",
        "optimum-habana",
        "tei",
        "infinity",
        "llm-d",
    ),
    "tensorrt-llm": ("nim", "triton", "fastertransformer"),
    "llama-cpp": ("koboldcpp", "llamafile", "ik_llama.cpp", "ktransformers", "openvino", "ipex-llm", "whisper.cpp"),
    "exllama": ("exllamav3",),
    "gpt-fast": ("torchchat",),
    "transformers-neuronx": ("vllm-neuron", "nxd-inference", "optimum-neuron"),
}


@pytest.fixture(scope="module")
def library() -> Library:
    return Library.of(ServeAsk(model="", on=""))


@pytest.mark.parametrize(("profile", "name"), [(profile, name) for profile, names in ALIKE.items() for name in names])
def test_who_answers_for_an_engine_without_a_profile(library: Library, profile: str, name: str) -> None:
    engine, notes = library.engine(name)
    assert engine.id == profile
    assert [note.code for note in notes] == ["engine.stands-in"]


@pytest.mark.parametrize(("name", "era"), [("lmdeploy@0.2.0", False), ("vllm-ascend@0.2.0", True), ("lmdeploy@2024-01", True)])
def test_releases_of_others_are_none_of_the_profile(library: Library, name: str, era: bool) -> None:
    """LMDeploy 0.2.0 was answered as vLLM 0.2.0, whose steps were put together in Python."""
    ask = ServeAsk(model="llama-2-7b", on="a100-sxm-80gb", tp=1, batch=1, prompt=128, output=128)
    made = answer_serving(ask.replaced(engine=name), library)
    now = answer_serving(ask.replaced(engine="vllm"), library)
    assert (made.figures["itl_s"].value != now.figures["itl_s"].value) is era
    assert any("says nothing of vLLM's" in note.text for note in made.notes) is not era


def test_ranks_pad_heads_where_the_engine_does(library: Library) -> None:
    """Llama 3 70B has 64 heads; Inf2's twelve chips share them with padding, as its tables have it (24 NeuronCores)."""
    made = answer_serving(
        ServeAsk(model="llama-3-70b", on="12xinferentia2", tp=12, engine="transformers-neuronx", batch=1), library
    )
    assert made.verdict.fits
    # 32.2 ms a token of 128 after 128: https://github.com/aws-neuron/aws-neuron-sdk, inf2/latency_data_decoder.csv; unseen by fits.
    short = ServeAsk(
        model="llama-3-70b", on="12xinferentia2", tp=12, engine="transformers-neuronx", batch=1, prompt=128, output=128
    )
    assert float(answer_serving(short, library).figures["tpot_s"].value) == pytest.approx(32.2e-3, rel=0.15)  # type: ignore[arg-type]


def test_a_jetson_runs_edge_llm(library: Library) -> None:
    """Qwen3 8B in 4 bits on an AGX Orin, 32.5 tokens/s of one user (30.77 ms): its page, version 0.9."""
    ask = ServeAsk(
        model="qwen3-8b", on="jetson-agx-orin-64gb", engine="tensorrt-edge-llm", weights="int4", batch=1, prompt=61, output=256
    )
    made = answer_serving(ask, library)
    low, high = made.ranges["itl_s"]
    assert low < 30.77e-3 < high


@pytest.mark.parametrize(
    ("said", "meant"),
    [("UD-Q4_K_XL", "q4_k_m"), ("ud-q2_k_xl", "q2_k"), ("Q8_K_XL", "q8_0"), ("UD-IQ2_M", "iq2_m"), ("q6_k_l", "q6_k")],
)
def test_types_of_unsloths_files_are_the_plain_ones_that_they_record(said: str, meant: str) -> None:
    asked = question(ServeAsk, {"model": "qwen3-8b", "on": "rtx-4090", "weights": said})
    assert (asked.weights, [one.text for one in asked.heard]) == (meant, [f"--weights {said} is taken as `{meant}`"])
    assert question(ServeAsk, {"model": "qwen3-8b", "on": "rtx-4090", "weights": meant.upper()}).heard == ()
    name = card_of_typed_name(f"qwen3-8b-{said.lower()}")
    assert name is not None
    assert name.weights is not None
    assert name.weights.method == meant


def test_a_file_of_mxfp4_experts_has_all_else_in_eight_bits(library: Library) -> None:
    """gpt-oss 20B: llama-bench prints 11.27 GiB (llama.cpp pull request 18740), where 16 bits of the others would be 12.9."""
    for weights in (None, "mxfp4"):
        ask = ServeAsk(model="gpt-oss-20b", on="strix-halo", engine="llama.cpp", weights=weights, batch=1)  # type: ignore[arg-type]
        made = answer_serving(ask, library)
        assert made.question["weights"] == "mxfp4_moe"
        assert float(made.find("memory.weights").value) / 2**30 == pytest.approx(11.27, rel=0.02)  # type: ignore[union-attr, arg-type]
