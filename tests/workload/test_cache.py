"""The KV cache of a sequence against sizes that others published or measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuplan.estimate.serving import ServingModel
from gpuplan.units import parse
from tests.estimate.subjects import serve_plan, subject

FACTS: list[dict[str, Any]] = yaml.safe_load((Path(__file__).parent / "kv_facts.yaml").read_text(encoding="utf-8"))
CASES = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "models-kv-cases.yaml"
LATENT_OR_OTHER = {
    "hf-mem-70-gpt-oss-20b-full": "an engine that reserves whole pages for windowed layers",
    "hf-mem-60-gpt-oss-120b-global-only": "wrong by the table's own verdict",
    "unsloth-4757-gemma-3-27b": "without the layers that fill up a group of pages",
    "mlxcel-172-gemma-3-1b": "without the layers that fill up a group of pages",
    "hf-mem-61-gemma-4-31b": "pages padded to those of other layers",
    "geniex-1346-gemma-4-e4b-swa": "windowed layers alone, with the cells of a micro-batch more",
    "rapid-mlx-1423-gemma-4-12b": "global layers alone, which a test of growth holds",
    "rmlx-40-gemma-4-e2b": "an engine that keeps four bytes of a value: the checkpoint has one head of 512 in each of three layers",
    "hf-transformers-deepseek-v3-decompressed": "an engine that caches expanded keys and values",
    "higgs-254-deepseek-v2-lite-dense": "an engine that caches expanded keys and values",
    "gguf-parser-8-deepseek-v3-64k": "an engine that caches expanded keys and values",
    "lmcache-694-deepseek-v3": "wrong by the table's own verdict",
    "ik-llama-259-deepseek-r1-32k-q8": "a format of 34 bytes for 32 values",
    "lilbee-721-qwen3.6-27b": "a format of 34 bytes for 32 values",
    "scaling-forms-llama-30b-llamacpp": "a cache in fp32",
    "unsloth-4757-glm-5": "the published size counts the layer of multi-token prediction",
}
"""Cases of the shared table that mean another thing than a 16-bit cache of one of our engines."""


def sequence_bytes(model: str, engine: str, tokens: int) -> float:
    plan = serve_plan(context=float(tokens), prompt=1.0, output=1.0)
    return float(ServingModel.of(subject(model, "8xh100-sxm-80gb", engine), plan).memory().sequence.value)


@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: f"{fact['model']}-{fact['tokens']}")
def test_published_cache_sizes(fact: dict[str, Any]) -> None:
    got = sequence_bytes(fact["model"], fact["engine"], fact["tokens"]) * fact.get("sequences", 1)
    assert got == pytest.approx(parse(fact["size"], "B").value, rel=0.6 * 10 ** (1 - fact["digits"])), fact["source"]


@pytest.mark.xfail(
    reason="llama.cpp keeps a window and a micro-batch of cells in windowed layers; the profile knows the window only"
)
@pytest.mark.parametrize(("tokens", "size"), [(4096, 398458880), (8192, 482344960), (32768, 985661440)])
def test_windowed_layers_of_llama_cpp_hold_a_micro_batch_more(tokens: int, size: int) -> None:
    # ollama/ollama pull request 16958 prints 0.40, 0.48 and 0.99 GB for gemma-4-26b-a4b.
    assert sequence_bytes("gemma-4-26b-a4b", "llama-cpp", tokens) == pytest.approx(size, rel=0.01)


def test_the_shared_table_of_cache_sizes() -> None:
    if not CASES.is_file():
        pytest.skip("no models-kv-cases.yaml beside the checkout")
    known = {path.stem for path in (Path(__file__).resolve().parents[2] / "gpuplan/models/cards").glob("*.yaml")}
    looked_at, wrong = 0, {}
    for case in yaml.safe_load(CASES.read_text(encoding="utf-8"))["cases"]:
        size, tokens = case.get("recomputed_bytes"), case.get("context")
        if not (size and tokens) or case["model"] not in known or case["id"] in LATENT_OR_OTHER or "ollama" in case["id"]:
            continue
        # Whole pages of sixteen tokens; a case of one token is a price a token.
        pages = -(-tokens // 16) * 16
        got = sequence_bytes(case["model"], "vllm", pages) * case["batch"] * (tokens / pages)
        state = sequence_bytes(case["model"], "vllm", 16) if "qwen3.5" in case["model"] else 0.0
        # llama.cpp sees all tokens of DeepSeek-V3.2 and caches no keys of its indexer (132 bytes in each of 61 layers).
        state += 61 * 132 * tokens * case["batch"] if case["model"] == "deepseek-v3.2" else 0.0
        looked_at += 1
        if abs(got - state - size) > 0.005 * size:
            wrong[case["id"]] = (got, size)
    assert not wrong
    assert looked_at >= 18


@pytest.mark.parametrize(
    ("model", "each"), [("gemma-4-12b", 16384), ("gemma-4-e4b", 4 * 2 * 2 * 512 * 2), ("gemma-4-e2b", 3 * 2 * 512 * 2)]
)
def test_only_global_layers_grow_behind_the_window(model: str, each: int) -> None:
    # 8 global layers of one head of 512 (Rapid-MLX pull request 1423, which prints 16 KiB a token); 4 of two and 3 of one likewise.
    assert (sequence_bytes(model, "vllm", 65536) - sequence_bytes(model, "vllm", 32768)) / 32768 == pytest.approx(each, rel=0.001)


def test_recurrent_and_convolution_states_as_llama_cpp_prints_them() -> None:
    """Three sequences of Qwen3.5-27B: S 432.00 MiB and R 16.88 MiB (ggml-org/llama.cpp pull request 23792)."""
    about = subject("qwen3.5-27b", "8xh100-sxm-80gb", "llama-cpp")
    sequence = ServingModel.of(about, serve_plan(batch=3.0)).memory().sequence
    sizes = {
        t.name.rpartition(".")[2]: 3 * float(t.value) / 2**20
        for t in sequence.walk()
        if t.unit == "B" and t.name.endswith((".state", ".conv"))
    }
    assert sizes["conv"] == pytest.approx(16.88, rel=0.001)
    assert sizes["state"] == pytest.approx(432.0, rel=1e-9)
