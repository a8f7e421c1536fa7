"""The command that an answer prints, read again, asks for its plan again; and what a command sets acts on the estimate."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any

import pytest

from gpuplan.errors import GpuplanError
from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.plan.read import question
from gpuplan.plan.serve import ServePlan
from gpuplan.search.ask import answered
from gpuplan.search.library import Library
from gpuplan.search.serving import settled

LOAD = {"prompt": 512, "output": 128, "batch": 8}
SETTINGS: list[dict[str, Any]] = [
    {}, {"max_sequences": 16}, {"max_batched_tokens": 4096}, {"memory_utilization": 0.8}, {"graphs": False}, {"kv_cache": "fp8"},
    {"max_context": 4096, "max_sequences": 32}, {"adapters": 4, "adapter_rank": 32}, {"page_tokens": 64, "weights": "fp8"},
]  # fmt: skip
DENSE = [{"tp": 1, "pp": 1}, {"tp": 2, "pp": 1}, {"tp": 1, "pp": 2}, {"tp": 1, "pp": 1, "dp": 2}]
EXPERTS = [{"tp": 2, "pp": 1, "ep": 2, "dp": 1}, {"tp": 1, "pp": 1, "dp": 2, "ep": 2}, {"tp": 2, "pp": 1, "dp": 1}]
LOCAL = [{"tp": 1, "pp": 2}, {"tp": 2, "pp": 1}]
LOCALLY: list[dict[str, Any]] = [
    {},
    {"max_sequences": 8},
    {"weights": "q8_0"},
    {"max_batched_tokens": 1024},
    {"kv_cache": "q8_0"},
    {"gpu_layers": 20},
]
SWEEP = [
    *[("llama-3.1-8b", engine, {**one, **more}) for engine in ("vllm", "sglang") for one, more in product(DENSE, SETTINGS)],
    *[("qwen3-30b-a3b", engine, {**one, **more}) for engine in ("vllm", "sglang") for one, more in product(EXPERTS, SETTINGS[:3])],
    *[("llama-3.1-8b", "tensorrt-llm", {**one, **more}) for one, more in product(DENSE[:3], SETTINGS[:4])],
    *[("qwen3-30b-a3b", "tensorrt-llm", one) for one in EXPERTS],
    *[("llama-3.1-8b", "llama-cpp", {**one, **more}) for one, more in product(LOCAL, LOCALLY)],
    *[("llama-3.1-8b", "ollama", one) for one in LOCALLY[:2]],
]  # fmt: skip
_LIBRARY = Library.shared()


def plan_of(**given: Any) -> tuple[ServePlan, str, dict[str, str]]:
    """The plan of a question, the command that it prints, and what that does not say."""
    made = settled(question(ServeAsk, {**LOAD, **given}), _LIBRARY)
    assert made.command is not None
    return made.plan, made.command.text, made.command.unsaid


def alike(plan: ServePlan, slots: bool) -> ServePlan:
    """A plan with what its command must state said: the longest sequence, and of engines with slots how many there are."""
    settings = plan.settings.replaced(max_context=plan.settings.max_context or plan.context)
    if slots:
        settings = settings.replaced(max_sequences=settings.max_sequences or plan.batch, max_context=None)
    return (
        plan.replaced(settings=settings, weights_named=None) if hasattr(plan, "weights_named") else plan.replaced(settings=settings)
    )


@pytest.mark.parametrize(("model", "engine", "given"), SWEEP, ids=str)
def test_a_printed_command_means_its_plan(model: str, engine: str, given: dict[str, Any]) -> None:
    count = prod(given.get(name, 1) for name in ("tp", "pp", "dp"))
    on, slots = f"{count}xh100", engine in ("llama-cpp", "ollama")
    plan, command, unsaid = plan_of(model=model, on=on, engine=engine, **given)
    told = {"page_tokens", "graphs", "weights", "kv_cache", "max_batched_tokens", "where_the_file_is_from"}
    told |= {"redundant_experts"} if engine == "tensorrt-llm" else set()  # Those that were chosen stand in a file of settings.
    assert unsaid.keys() <= told, unsaid
    missing = {name: given[name] for name in unsaid if name in given}
    if "redundant_experts" in unsaid:
        missing["redundant_experts"] = int(plan.parallel.redundant_experts)
    again, second, _ = plan_of(on=on, command=command, **missing)
    assert alike(again, slots) == alike(plan, slots), command
    assert second == command


@pytest.mark.parametrize(
    ("weights", "words", "told"),
    [
        ("fp8", "vllm serve zai-org/GLM-4.5-Air ", ""), (None, "vllm serve zai-org/GLM-4.5-Air ", ""),
        ("int4", "vllm serve GLM-4.5-Air-int4 ", "`zai-org/GLM-4.5-Air` is stored in bf16, of which vLLM makes no int4"),
    ],
)  # fmt: skip
def test_a_type_that_the_engine_does_not_make_wants_a_checkpoint_of_its_own(weights: Any, words: str, told: str) -> None:
    made = answered("serve", {"model": "glm-4.5-air", "on": "8xh100", "engine": "vllm", "weights": weights}, advise=False)
    assert made.command.startswith(words)
    assert ("--quantization" in made.command) == (weights == "fp8")
    said = [note.text for note in made.notes if note.code == "command.unsaid" and "where the checkpoint is from" in note.text]
    assert len(said) == bool(told)
    assert all(told in text for text in said)


def test_a_gguf_file_of_another_machine_is_known_by_its_name() -> None:
    for file in ("/models/Qwen3-8B-Q4_K_M.gguf", "D:/llm/qwen3-8b.Q4_K_M.gguf", "Qwen3-8B-Q4_K_M-00001-of-00003.gguf"):
        made = answered("serve", {"on": "rtx-4090", "command": f"llama-server -m {file} -c 8192"}, advise=False)
        assert (made.question["model"], made.question["weights"]) == ("qwen3-8b", "q4_k_m")
        assert any("taken for qwen3-8b in q4_k_m, by its name" in note.text for note in made.notes)
    with pytest.raises(GpuplanError, match="cannot read the file"):
        answered("serve", {"on": "rtx-4090", "command": "llama-server -m /models/nobody-knows-Q4_K_M.gguf"}, advise=False)


def test_what_cannot_be_said_is_told() -> None:
    made = answered("serve", {"model": "llama-3.1-8b", "on": "4xh100", "engine": "trtllm", "tp": 1, "dp": 4, "weights": "fp8"})
    told = [note.text for note in made.notes if note.code == "command.unsaid"]
    assert any("4 times" in text for text in told)
    assert any("weights fp8" in text for text in told)


def figures(**given: Any) -> dict[str, float]:
    made = answered("serve", {"model": "llama-3.1-8b", "on": "h100", "engine": "vllm", **given}, advise=False, keep=True)
    return {name: float(term.value) for name, term in made.figures.items()}  # type: ignore[arg-type]


ACTS = [
    ("--gpu-memory-utilization 0.5", "memory_budget_bytes", -1), ("--max-num-seqs 8", "tokens_per_s", -1),
    ("--kv-cache-dtype fp8", "kv_cache_bytes_per_sequence", -1), ("--quantization fp8", "weights_bytes", -1),
    ("--max-num-batched-tokens 32768", "max_sequences", -1), ("--enforce-eager", "max_sequences", 1),
    ("--kv-cache-memory-bytes 10G", "max_sequences", -1), ("--block-size 1024", "kv_cache_bytes_per_sequence", 1),
]  # fmt: skip


@pytest.mark.parametrize(("words", "figure", "way"), ACTS)
def test_what_an_argument_sets_acts_on_the_estimate(words: str, figure: str, way: int) -> None:
    before, after = figures(), figures(engine_args=words)
    assert figure in before, sorted(before)
    assert (after[figure] - before[figure]) * way > 0


def test_the_longest_sequence_must_have_room() -> None:
    """vLLM does not start where one sequence of --max-model-len has no room, which is the model's length where nothing is said."""
    on = "rtx-4090"
    whole = answered("serve", {"on": on, "command": "vllm serve meta-llama/Llama-3.1-8B"}, advise=False)
    short = answered("serve", {"on": on, "command": "vllm serve meta-llama/Llama-3.1-8B --max-model-len 8192"}, advise=False)
    assert not whole.verdict.fits
    assert short.verdict.fits
