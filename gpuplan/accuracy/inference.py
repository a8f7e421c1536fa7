"""Which question is a measured serving run the answer to, and what does the answer say beside the measurement?"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from gpuplan.accuracy.compare import Metric, Point
from gpuplan.accuracy.model import card_of
from gpuplan.accuracy.rows import Row, Skip
from gpuplan.estimate.result import Estimate
from gpuplan.models.card import ModelCard
from gpuplan.plan.ask import ServeAsk
from gpuplan.plan.words import KvFormat, WeightFormat
from gpuplan.term import Term

WEIGHTS: Mapping[str, WeightFormat] = {
    "fp32": "fp32", "bf16": "bf16", "fp16": "fp16", "16-bit": "bf16", "fp8": "fp8", "nvfp4": "nvfp4", "mxfp4": "mxfp4",
    "int8": "int8", "int4": "int4", "int4-awq": "int4", "int4-gptq": "int4", "int4-gptq-g128": "int4", "int4-g32": "int4",
    "int4 weight-only": "int4", "q4_k_m": "q4_k_m", "q5_k_m": "q5_k_m", "q6_k": "q6_k", "q8_0": "q8_0",
}  # fmt: skip
KV: Mapping[str, KvFormat] = {"bf16": "bf16", "fp16": "fp16", "fp8": "fp8", "int8": "int8"}
ONE_NODE = 8
ENGINES = {"tensorrt": "tensorrt-llm", "huggingface": "torch-eager", "llama.cpp": "llama-cpp"}
"""First words of engine names that are not the name of a profile."""
CLOSED = ("fixed-batch", "single-stream")
"""Ways of measuring in which the batch is what was set; under load it is what the engine makes of the demand."""


def serving_ask(row: Row, find: Callable[[str], ModelCard], keep: Callable[[ModelCard], str]) -> ServeAsk:
    """The question of a row.

    Raises:
        Skip: the row says too little, or something that no plan can say.
    """
    run = row.run
    if run.get("disaggregated"):
        raise Skip("prefill and decode ran on different accelerators")
    if (run.get("dp") or 1) != 1 or (run.get("ep") or 1) != 1:
        raise Skip("no plan for serving with data or expert parallelism")
    weights = run.get("weights")
    if weights is not None and weights not in WEIGHTS:
        raise Skip(f"no plan for weights in `{weights}`")
    prompt, output = run.get("input_len"), run.get("output_len")
    if not prompt and not output:
        raise Skip("the row does not say how long its requests are")
    batch = run.get("batch") if run.get("mode") in CLOSED else run.get("concurrency")
    if run.get("mode") == "single-stream":
        batch = batch or 1
    if not isinstance(batch, int) and run.get("mode") != "offline-max-throughput":
        raise Skip("the row does not say how many requests ran at once")
    words = row.engine.replace("(", " ").split()
    engine = ENGINES.get(words[0], words[0]) if words else None
    kv = run.get("kv_cache")
    if kv is not None and kv not in KV:
        raise Skip(f"no plan for a cache in `{kv}`")
    return ServeAsk(
        model=keep(card_of(row, find)), on=f"{_chips(row)}x{row.hardware['accelerator']}", engine=engine,
        prompt=int(prompt or 1), output=int(output or 1), batch=batch if isinstance(batch, int) else None,
        weights=None if weights is None else WEIGHTS[weights], kv_cache=None if kv is None else KV[kv],
        # Whoever serves with pipeline stages on the accelerators of one node says so.
        tp=run.get("tp"), pp=run.get("pp") or (1 if run.get("tp") or _chips(row) <= ONE_NODE else None),
    )  # fmt: skip


def _chips(row: Row) -> int:
    """The accelerators of one replica; where the row does not say how they are divided, all of them."""
    run = row.run
    if run.get("tp"):
        return int(run["tp"]) * int(run.get("pp") or 1)
    return int(row.hardware.get("count") or 1)


def inference_points(row: Row, made: Estimate) -> Iterator[Point]:
    """The points of a serving run.

    Raises:
        Skip: nothing that was measured can be compared.
    """
    measured = row.measured
    found: list[tuple[Metric, float, Term]] = []
    chips = _chips(row)
    if measured.get("output_tokens_per_s"):
        whole = float(measured["output_tokens_per_s"])
        found.append(("throughput", whole, made.figures["tokens_per_s"]))
    elif measured.get("output_tokens_per_s_per_accelerator"):
        each = float(measured["output_tokens_per_s_per_accelerator"])
        found.append(("throughput", each * chips, made.figures["tokens_per_s"]))
    for metric, names in (("ttft", ("ttft_ms", "ttft_p50_ms")), ("tpot", ("tpot_ms", "tpot_p50_ms", "itl_ms"))):
        value = next((measured[name] for name in names if measured.get(name)), None)
        if value:
            found.append((metric, float(value) * 1e-3, made.figures[f"{metric}_s"]))  # type: ignore[arg-type]
    if measured.get("peak_memory_gib"):
        found.append(("memory", float(measured["peak_memory_gib"]) * 2**30, made.figures["peak_memory_bytes"]))
    if not found:
        raise Skip("nothing was measured that an estimate has")
    for metric, value, term in found:
        low, high = made.range_of(term)
        expected: Any = term.value
        yield Point(row=row, metric=metric, measured=value, low=low, expected=float(expected), high=high)
