"""Weights in the memory of the host: layers and experts that processors run, and bytes that are copied for every pass."""

from __future__ import annotations

from typing import Any

import pytest

import gpuplan
from gpuplan.errors import UsageError

GIB = 2.0**30
LLAMA: dict[str, Any] = {"engine": "llama-cpp", "weights": "q4_k_m", "batch": 1, "advise": False}


def figures(model: str, **options: Any) -> dict[str, float]:
    return {name: one.value for name, one in gpuplan.serve(model, **options).figures.items()}


MEASURED = [
    ("qwen3-14b", {"gpu_layers": 32}, 16.9),
    ("phi-4", {"gpu_layers": 32}, 16.7),
    ("gemma-3-12b", {"gpu_layers": 44}, 26.1),
    ("gemma-2-9b", {"gpu_layers": 36}, 23.7),
    ("qwen2.5-14b", {"gpu_layers": 42}, 20.8),
    ("qwen3-30b-a3b", {"host_experts": 36}, 36.7),
    ("deepseek-v2-lite", {"host_experts": 16}, 49.6),
]
"""RTX 2080 of 8 GB beside an i9-10900X with four channels of DDR4 (102 GB/s), llama.cpp, Q4_K_M, a context of 4,096, tokens a
second: https://github.com/AlexsJones/llmfit/pull/755, /774, /778. The share of the bandwidth that is reached was looked up in the
first three, the time of a hand-over in the sixth; the others were seen by nobody."""


@pytest.mark.parametrize(("model", "placed", "measured"), MEASURED)
def test_published_runs_with_a_part_on_the_host(model: str, placed: dict[str, int], measured: float) -> None:
    made = gpuplan.serve(
        model, on="rtx-2080", prompt=64, output=256, context=4096, host_bandwidth="102 GB/s", host_memory="62GB", **LLAMA, **placed
    )  # fmt: skip
    speed = made["tokens_per_s_per_user"]
    assert speed.value == pytest.approx(measured, rel=0.15)
    assert speed.low <= measured <= speed.high
    assert made.fits


@pytest.mark.parametrize("model", ["llama-3.1-8b", "gemma-3-12b", "qwen3-30b-a3b"])
def test_nothing_is_lost_between_device_and_host(model: str) -> None:
    whole = figures(model, on="h100", context=8192, **LLAMA)
    for layers in (0, 5, 20, 1000):
        part = figures(model, on="h100", context=8192, gpu_layers=layers, **LLAMA)
        moved = part["host_memory_bytes"]
        caches = whole["kv_cache_bytes_per_sequence"] - part["kv_cache_bytes_per_sequence"]
        assert part["weights_bytes"] + moved == pytest.approx(whole["weights_bytes"] + caches)
    times = [name for name in part if name.endswith("_s") or "per_s" in name]
    assert [part[name] for name in times] == pytest.approx([whole[name] for name in times])


def test_more_on_the_host_is_slower_and_needs_less_of_the_device() -> None:
    made = [figures("qwen3-30b-a3b", on="rtx-4090", gpu_layers=n, **LLAMA) for n in (99, 40, 20, 10, 0)]
    speeds = [one["tokens_per_s_per_user"] for one in made]
    needs = [one["peak_memory_bytes"] for one in made]
    assert speeds == sorted(speeds, reverse=True)
    assert needs == sorted(needs, reverse=True)
    experts = [figures("qwen3-30b-a3b", on="rtx-4090", host_experts=n, **LLAMA) for n in (0, 12, 24, 48, 99)]
    speeds = [one["tokens_per_s_per_user"] for one in experts]
    assert speeds == sorted(speeds, reverse=True)
    assert experts[-1] == pytest.approx(experts[-2])


def test_weights_that_are_copied_for_every_pass() -> None:
    plain = figures("llama-3.1-8b", on="h100", engine="vllm", batch=1, advise=False)
    made = figures("llama-3.1-8b", on="h100", engine="vllm", batch=1, host_weights="8 GiB", advise=False)
    assert plain["weights_bytes"] - made["weights_bytes"] == 8 * GIB
    assert made["host_memory_bytes"] == 8 * GIB
    longer = made["itl_s"] - plain["itl_s"]
    assert 8 * GIB / 63e9 < longer < 8 * GIB / 20e9
    assert longer == pytest.approx(made["batch_prefill_s"] - plain["batch_prefill_s"], rel=0.3)


def test_memory_of_the_host_has_an_end() -> None:
    given: dict[str, Any] = {"on": "rtx-4090", "gpu_layers": 20, **LLAMA}
    assert gpuplan.serve("llama-3.1-70b", host_memory="64GB", **given).fits
    short = gpuplan.serve("llama-3.1-70b", host_memory="16GB", **given)
    assert not short.fits
    assert "host memory" in short.headline


def test_faster_memory_of_the_host_is_faster() -> None:
    given: dict[str, Any] = {"on": "rtx-4090", "gpu_layers": 20, **LLAMA}
    slow, fast = (figures("llama-3.1-70b", host_bandwidth=rate, **given)["itl_s"] for rate in ("51.2 GB/s", "102.4 GB/s"))
    assert slow > 1.7 * fast


@pytest.mark.parametrize(
    ("words", "placed"),
    [
        ("-ngl 20", {"gpu_layers": 20}),
        ("--n-cpu-moe 30", {"host_experts": 30}),
        ("--cpu-moe", {"host_experts": 48}),
        ("-ngl 99", {}),
        ("-ngl all", {}),
    ],
)
def test_arguments_of_llama_cpp(words: str, placed: dict[str, Any]) -> None:
    said = gpuplan.serve("qwen3-30b-a3b", on="rtx-4090", engine_args=words, context=4096, prompt=256, output=128, **LLAMA)
    asked = gpuplan.serve("qwen3-30b-a3b", on="rtx-4090", context=4096, prompt=256, output=128, **LLAMA, **placed)
    assert said["tokens_per_s"].value == asked["tokens_per_s"].value
    assert said["peak_memory_bytes"].value == asked["peak_memory_bytes"].value


@pytest.mark.parametrize(
    ("model", "on", "options", "said"),
    [
        ("llama-3.1-8b", "m3 max", {"engine": "llama-cpp", "gpu_layers": 9}, "no memory of its own"),
        ("llama-3.1-8b", "h100", {"engine": "vllm", "gpu_layers": 9}, "--gpu-layers: vLLM"),
        ("llama-3.1-8b", "rtx-4090", {"engine": "llama-cpp", "host_experts": 9}, "no experts"),
        ("llama-3.1-8b", "rtx-4090", {"engine": "llama-cpp", "gpu_layers": -1}, "--gpu-layers"),
        ("llama-3.1-8b", "rtx-4090", {"engine": "llama-cpp", "host_weights": "2 GiB"}, "--host-weights: llama.cpp"),
    ],
)
def test_what_cannot_be_is_refused(model: str, on: str, options: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        gpuplan.serve(model, on=on, **options)


@pytest.mark.parametrize(("model", "flag"), [("llama-3.3-70b", "gpu-layers"), ("gpt-oss-120b", "host-experts")])
def test_what_does_not_fit_is_told_what_to_leave_on_the_host(model: str, flag: str) -> None:
    made = gpuplan.serve(model, on="rtx-4090", engine="llama-cpp", batch=1)
    assert not made.fits
    change = next(one for one in made.changes if flag in one.flags)
    assert "in the memory of the host" in change.effect
    assert gpuplan.serve(
        model, on="rtx-4090", engine="llama-cpp", batch=1, **{flag.replace("-", "_"): int(change.flags[flag])}
    ).fits
    by_default = [one.flags for one in gpuplan.serve(model, on="rtx-4090").changes if flag in one.flags]
    assert all(flags["engine"] == "llama-cpp" for flags in by_default), "vLLM cannot: the engine is part of the change"
