"""A word that another tool has for an option is answered with the option, never with what is merely spelled alike."""

from __future__ import annotations

import pytest

from gpuplan.plan.other_words import meant, table
from gpuplan.scenarios.asks import QUESTIONS, options_of

ANSWERED = {
    "train": {
        "gpus": "--on", "num-gpus": "--on", "nnodes": "--on", "tensor-model-parallel-size": "--tp", "seq-length": "--seq-len",
        "per_device_train_batch_size": "--micro-batch", "gradient-accumulation-steps": "--global-batch",
        "batch-tokens": "--global-batch",
        "bf16": "--precision",
        "load-in-4bit": "--qlora", "lora-r": "--lora", "fsdp": "--zero-stage", "gradient-checkpointing": "--recompute",
        "flash-attn": "--attention", "cpu-offload": "--offload", "max-steps": "--tokens", "days": "--deadline",
        "num-train-epochs": "--epochs", "spot": "--price-kind", "provider": "--on aws:", "sample-packing": "--documents",
        "dpo": "--reference",
        "mfu": "--set mfu=", "method": "--lora 16 --qlora", "learning-rate": "leave it out", "lr": "leave it out",
    },
    "serve": {
        "gpu": "--on", "tensor-parallel-size": "--tp", "max-model-len": "--max-context", "max-num-seqs": "--max-sequences",
        "max-num-batched-tokens": "--max-batched-tokens", "gpu-memory-utilization": "--memory-utilization",
        "mem-fraction-static": "--memory-utilization", "isl": "--prompt", "osl": "--output", "max-new-tokens": "--output",
        "qps": "--rate", "request-rate": "--rate", "max-concurrency": "--concurrency", "quantization": "--weights",
        "dtype": "--weights", "kv-cache-dtype": "--kv-cache", "n-gpu-layers": "--gpu-layers",
        "num-speculative-tokens": "--draft-tokens",
        "batch-size": "--batch", "backend": "--engine", "users": "gpuplan plan serve", "ttft-slo": "gpuplan plan serve",
        "cpu-offload-gb": "--host-weights", "enable-expert-parallel": "--ep", "schedule-conservativeness": "",
        "temperature": "leave it out", "top-p": "leave it out", "colour": "",
    },
    "fit": {
        "ctx-size": "--context", "vram": "--on", "quant": "--weights", "zero3": "gpuplan train", "max-num-seqs": "gpuplan serve",
    },
    "plan serve": {
        "gpu": "--on", "qps": "--rate", "input-len": "--prompt", "cost": "--budget", "latency": "--e2e", "slo": "--ttft",
    },
    "plan train": {"days": "--deadline", "max-cost": "--budget", "provider": "--cloud", "num-gpus": "--on"},
    "specs list": {"filter": "--where", "cloud": "--provider", "vram": "--memory"},
    "prices list": {"cloud": "prices list lambda a100", "gpu": "prices list lambda a100", "spot": "--kind"},
    "what-runs": {"gpu": "--on", "ctx": "--context", "bits": "--weights"},
}  # fmt: skip
"""Words as they are typed, by command, with what the hint must name; written before the table was asked."""
CASES = [(task, word, wanted) for task, words in ANSWERED.items() for word, wanted in words.items()]


@pytest.mark.parametrize(("task", "word", "wanted"), CASES)
def test_a_word_of_another_tool_is_answered_with_the_option(task: str, word: str, wanted: str) -> None:
    hint = meant(word, options_of(task) if task in QUESTIONS else (), task)
    assert wanted in hint
    assert bool(hint) == bool(wanted)


def test_every_entry_means_an_option_that_some_question_has() -> None:
    known = {key for ask in QUESTIONS for key in options_of(ask)}
    assert {one.means for one in table() if one.means} <= known
    assert all(one.say for one in table() if not one.means), "what to do is said where no option is meant"


def test_no_word_stands_twice_in_one_entry_or_is_the_option_itself() -> None:
    for entry in table():
        assert len(set(entry.words)) == len(entry.words)
        assert entry.means.replace("_", "-") not in entry.words or entry.means == "model"
