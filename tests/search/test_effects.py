"""Every option of every question acts, is refused, or is named in a note: nothing that was given is dropped in silence."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from gpuplan.errors import GpuplanError
from gpuplan.estimate.result import Estimate
from gpuplan.plan.ask import ASKS
from gpuplan.plan.option import Entry, entries
from gpuplan.search.ask import estimated
from gpuplan.search.library import Library
from gpuplan.specs.catalog import Catalog
from gpuplan.specs.engine import Engine
from gpuplan.term import walk_of
from tests.sweeps import thinned

PLAN: dict[str, Any] = {"tp": 2, "pp": 1, "micro_batch": 1, "recompute": "none"}
ALONE: dict[str, Any] = {"tp": 1, "pp": 1, "micro_batch": 1, "recompute": "none"}
RL: dict[str, Any] = ALONE | {"rollout_tp": 1, "prompts": 64, "group_size": 4, "idle": "device"}
QUESTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "dense": ("train", {"model": "llama-3.1-8b", "on": "8xh100", **PLAN}),
    "one": ("train", {"model": "gpt2", "on": "h100", "micro_batch": 1, "recompute": "none"}),
    "experts": ("train", {"model": "qwen3-30b-a3b", "on": "32xh100", **PLAN, "ep": 4, "tokens": 1e12}),
    "experts in one place": ("train", {"model": "qwen3-30b-a3b", "on": "8xh100", **PLAN, "tp": 8, "ep": 1}),
    "fp8": ("train", {"model": "llama-3.1-8b", "on": "16xh100", **PLAN, "precision": "fp8", "tokens": 1e12}),
    "adapters": ("train", {"model": "llama-3.1-8b", "on": "8xh100", **ALONE, "lora": 16, "engine": "fsdp"}),
    "rl": ("train", {"model": "llama-3.2-1b", "on": "8xh100", **RL, "rl": "grpo"}),
    "images": ("train", {"model": "vit-l-16", "on": "8xa100-sxm-80gb", "micro_batch": 64, "tp": 1, "pp": 1, "recompute": "none"}),
    "card of samples": ("train", {"model": "resnet-50", "on": "8xa100-sxm-80gb", "micro_batch": 64}),
    "described": (
        "train",
        {"model": "x", "on": "8xl4", "micro_batch": 64, "params": 1e7, "flop_per_sample": 1e9, "activation_bytes": 1e7},
    ),
    "serving": ("serve", {"model": "llama-3.1-8b", "on": "2xh100", "tp": 1, "batch": 8}),
    "loaded": ("serve", {"model": "llama-3.1-8b", "on": "2xh100", "tp": 1, "concurrency": 48, "requests": 480}),
    "at a rate": ("serve", {"model": "llama-3.1-8b", "on": "2xh100", "tp": 1, "rate": 6.0}),
    "ranks of attention": (
        "serve",
        {"model": "qwen3-30b-a3b", "on": "4xh100", "tp": 1, "attention_dp": 4, "ep": 4, "batch": 32, "engine": "vllm"},
    ),
    "workers of two kinds": (
        "serve",
        {
            "model": "qwen3-30b-a3b",
            "on": "2xh100",
            "tp": 2,
            "pp": 1,
            "prefill_workers": 1,
            "decode_workers": 1,
            "batch": 8,
            "engine": "vllm",
            "prefill_tp": 2,
            "prefill_pp": 1,
        },
    ),
    "simulated": (
        "serve",
        {"model": "llama-3.1-8b", "on": "2xh100", "tp": 1, "rate": 6.0, "requests": 200, "output_spread": 0.5, "simulate": True},
    ),
    "seeing": ("serve", {"model": "qwen2.5-vl-3b", "on": "2xh100", "tp": 1, "batch": 8, "images": 2}),
    "hearing": ("serve", {"model": "whisper-small", "on": "2xl4", "tp": 1, "batch": 8}),
    "room": ("fit", {"model": "llama-3.1-8b", "on": "2xh100", "tp": 1, "batch": 8}),
    "room for training": ("fit", {"model": "llama-3.1-8b", "on": "8xh100", "task": "train", "tp": 2, "pp": 1}),
    "pictures": (
        "serve",
        {
            "model": "flux.1-schnell",
            "on": "2xh100",
            "steps": 4,
            "size": "2048x2048",
            "batch": 2,
            "offload_components": "none",
            "vae_slicing": False,
            "vae_tiling": False,
        },
    ),
    "clips": (
        "serve",
        {"model": "wan2.1-t2v-1.3b", "on": "2xh100", "frames": 17, "size": "832x480", "offload_components": "none", "batch": 1},
    ),
    "room for clips": ("fit", {"model": "wan2.1-t2v-1.3b", "on": "2xh100", "frames": 17, "offload_components": "model"}),
    "encoder": ("fit", {"model": "bert-large", "on": "2xl4", "tp": 1}),
}
VALUES: dict[str, list[Any]] = {
    "engine": ["fsdp", "nemo", "vllm", "sglang"], "price": [0.001, 0.002], "price_date": ["2026-01-01", "2026-11-20"],
    "region": ["us-east-1", "us-central1"], "rollout_engine": ["vllm", "sglang"], "reward_model": ["gpt2"], "critic": ["gpt2"],
    "tokens": [1e9, 1e12], "mtbf": [3.6e6, 3.6e8], "checkpoint_every": [600.0, 7200.0], "documents": [512, 2048],
    "document_spread": [0.5, 1.5], "expert_load": [1.2, 2.0], "expert_skew": [4.0, 400.0], "samples": [1e6, 1e8],
    "capacity_factor": [1.25, 2.0],
    "params": [1e6, 1e7], "grid": ["france", "0.9 kg/kWh"], "api_price": ["0.6/2.4/0.06"],
    "flop_per_sample": [1e9, 1e10], "activation_bytes": [1e6, 1e8], "sample_bytes": [1e5, 1e8], "decode_rate": [1.0, 100.0],
    "storage_bandwidth": [1e8, 1e10], "nvme_bandwidth": [1e9, 5e9], "cpus": [2, 200], "zero_stage": [0, 1, 2, 3],
    "first_stage_layers": [10, 14], "last_stage_layers": [10, 14], "lora": [8, 64], "mtp": [0, 1], "seq_len": [2048, 4096],
    "global_batch": [32, 128], "context": [4096, 65536], "prompt_len": [128, 512], "response_len": [128, 512],
    "size": ["1024x1024", "512x512"], "frames": [9, 33], "text_tokens": [64, 128],
    "burstiness": [0.1, 5.0], "seed": [1, 2], "trace": ["no-such.csv", "nor-such.csv"],
    "rate": [1.0, 9.0], "cached_share": [0.25, 0.75], "prompt_spread": [0.5, 2.0], "output_spread": [0.5, 2.0],
    "image_size": ["640x480", "1920x1080"], "audio": [10.0, 600.0],
    "response_max": [1024, 2048], "draft": ["eagle"],
    "tensor_split": ["1,1"], "prefill_on": ["4xh100"], "prompt": [256, 2048], "output": [64, 1024],
}  # fmt: skip
ONLY_REFUSES = ("max_price_age",)
"""It changes no answer: it says which prices are too old for one."""
NEVER = ("model", "on", "task", "pins", "specs", "engine_args", "command", "emit")
"""What makes another question, is read before there is one, or is written beside the answer."""


def values(one: Entry) -> list[Any]:
    if one.name in VALUES:
        return VALUES[one.name]
    if one.kind == "switch":
        return [True] if one.option.one_way else [True, False]
    if one.kind == "words":
        return [(), *((word,) for word in one.words)]
    return list(one.words) or [1, 2, 4]


@cache
def library(*, calibrated: bool = False) -> Library:
    return Library(Catalog.open(env={"HOME": "/nowhere"}, calibrated=calibrated))


def says(made: Estimate) -> tuple[tuple[str, float], ...]:
    roots = [*made.figures.values(), *(breakdown.total for breakdown in made.breakdowns)]
    return tuple(sorted({(term.name, float(term.value)) for term in walk_of(roots)}))


def asked(task: str, given: dict[str, Any]) -> Estimate:
    return estimated(ASKS[task](**given), advise=False, library=library(calibrated=bool(given.get("calibrated"))))


@pytest.mark.parametrize("label", thinned(QUESTIONS, every=7))
def test_every_option_acts_is_refused_or_is_named(label: str) -> None:
    task, base = QUESTIONS[label]
    plain = says(asked(task, base))
    silent = []
    for name, one in entries(ASKS[task]).items():
        if name in base or name in NEVER or name in ONLY_REFUSES:
            continue
        for value in values(one):
            try:
                made = asked(task, {**base, name: value})
            except GpuplanError:
                break  # What is refused is not dropped, and what is left over is what the answer takes anyway.
            if says(made) != plain or any(one.flag in f"{note.text} {note.hint}" for note in made.notes):
                break
        else:
            silent.append(one.flag)
    assert silent == []


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"mtbf": 3.6e6, "checkpoint_every": 600.0}, "--mtbf, --checkpoint-every: of no effect, as a step alone"),
        ({"price": 0.001}, "--price: of no effect"),
        ({"expert_load": 1.5}, "--expert-load: of no effect, as the model has no experts"),
        ({"cp_kind": "ulysses"}, "--cp-kind: of no effect, as sequences are not split (cp 1)"),
        ({"scaling": "rowwise"}, "--scaling: of no effect, as matmuls are in bf16"),
        ({"offload_to": "host"}, "--offload-to: of no effect"),
        ({"overlap": ("dp", "pp")}, "--overlap: of no effect, as nothing travels that it names: pp 1"),
    ],
)
def test_what_an_option_without_effect_is_told(given: dict[str, Any], named: str) -> None:
    task, base = QUESTIONS["dense"]
    notes = [note.text for note in asked(task, {**base, **given}).notes if note.code == "option.idle"]
    assert len(notes) == 1
    assert notes[0].startswith(named)


TRAINERS = [name for name in library().catalog.paths("engines") if library().catalog.load(Engine, name).training is not None]


@pytest.mark.parametrize("engine", TRAINERS)
def test_compilation_makes_a_step_faster_or_is_refused(engine: str) -> None:
    on = {"maxtext": "tpu-v5e-8", "mlx-lm": "m4-max-40c"}.get(engine, "b200")
    base = {"model": "llama-3.2-1b", "engine": engine, "on": on, "seq_len": 2048, "micro_batch": 1, "recompute": "none"}
    if library().catalog.load(Engine, engine).training.compiled is None:
        with pytest.raises(GpuplanError, match="--compile"):
            asked("train", {**base, "compiled": True})
        return
    compiled, eager = (asked("train", {**base, "compiled": how}).figures["step_time_s"].value for how in (True, False))
    assert compiled < eager


def test_habits_of_an_engine_are_no_options_of_the_user() -> None:
    for engine in library().catalog.paths("engines"):
        try:
            made = asked("train", {"model": "gpt2", "on": "8xh100", "engine": engine})
        except GpuplanError:
            continue
        assert [note.text for note in made.notes if note.code == "option.idle"] == []
