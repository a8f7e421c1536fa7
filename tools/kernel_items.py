"""What does `gpuplan serve` price for the rows of published kernel tables? Columns of a table in, the terms of their seconds out.

The columns are those of ai-dynamo/aiconfigurator (https://github.com/ai-dynamo/aiconfigurator, aic-core/src/aiconfigurator_core/
systems/data). Rows become the work items that a serving estimate asks for, priced by `gpuplan.machine` on the hardware that
`gpuplan serve --engine` takes. Where a row says what an estimate must expect (experts that balanced tokens touch), the row counts;
decode attention is replayed, as the tables time it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from gpuplan.calibrate.expert_fits import timed_without_gate
from gpuplan.formulas.experts import fullest_rank_load, fullest_rank_touched
from gpuplan.formulas.layers import expert_rows, rank_experts
from gpuplan.machine.build import with_inputs
from gpuplan.machine.called import called_all_reduce_seconds
from gpuplan.machine.hardware import Hardware
from gpuplan.machine.price import attention_seconds, collective_seconds, matmul_seconds, stream_seconds
from gpuplan.plan.precision import WeightFormat, stored_in
from gpuplan.term import Source, Term, total
from gpuplan.work import Attention, Collective, CollectiveKind, Dtype, Matmul, Stream
from gpuplan.workload.counts import count

Columns = Mapping[str, Any]
"""Columns of rows that are of one type: numbers as arrays, and what all rows have alike (texts, `head_dim`) as one value."""
ROW = Source("measured", "the shape of a measured kernel")
FORMATS: Mapping[str, WeightFormat] = {
    "bfloat16": "bf16", "fp8": "fp8", "fp8_block": "fp8-block", "nvfp4": "nvfp4", "sq": "int8", "int4_wo": "int4",
    "w4a16_mxfp4": "mxfp4", "w4a8_mxfp4_mxfp8": "mxfp4", "w4afp8": "int4",
}  # fmt: skip
"""What the tables call a type of weights, and `--weights` does."""
WIDTHS = {"fp8": 1.0, "int8": 1.0, "fp4": 0.5}
"""Bytes of an element of the left matrix, as an estimate of serving has it."""
LATENT, ROTARY, NOPE, VALUE = 512.0, 64.0, 128.0, 128.0
"""The widths of DeepSeek-V3's attention (arXiv 2412.19437, 4.2), of which all rows of MLA are."""
FEW = "min_latency"
"""How a kernel is called that an engine takes for few tokens; rows of its other kernel are priced as that one's."""
WIDE = "w4a16_mxfp4"
"""Stored experts that are widened to 16 bits, whatever the engine would choose."""
WITHOUT_GATE = "none"
KINDS: Mapping[str, CollectiveKind] = {
    "all_reduce": "all_reduce", "all_gather": "all_gather", "reduce_scatter": "reduce_scatter", "alltoall": "all_to_all",
}  # fmt: skip
ELEMENT_BYTES = {"half": 2.0, "bfloat16": 2.0, "int8": 1.0}


def number(name: str, value: Any, unit: str = "1") -> Term:
    """A column as a term."""
    return Term(name, value, unit, ROW)


def gemm(cols: Columns, hw: Hardware) -> Term:
    """A linear layer of one type of weights."""
    kind = cols["gemm_dtype"]
    kinds: dict[str, Any] = {"dtype": "bf16", "right": 1.0} if kind == "int8_wo" else _weights(kind, hw)
    return _matmul(cols["m"], cols["n"], cols["k"], 1.0, hw, **kinds)


def context_attention(cols: Columns, hw: Hardware) -> Term:
    """Attention of whole prompts that copies its keys and values into the cache."""
    dtype: Dtype = "fp8" if cols["attn_dtype"] == "fp8" else "bf16"
    return _attention(cols, hw, dtype=dtype, appends=True)


def generation_attention(cols: Columns, hw: Hardware) -> Term:
    """Attention of one new token of each sequence."""
    return _attention(cols, hw, dtype="bf16", appends=False)


def encoder_attention(cols: Columns, hw: Hardware) -> Term:
    """Attention without a mask, of images."""
    cols = {**cols, "num_key_value_heads": cols["num_heads"], "step": 0.0 * cols["isl"], "kv_cache_dtype": "bfloat16"}
    return _attention(cols, hw, dtype="bf16", appends=False, causal=False)


def context_mla(cols: Columns, hw: Hardware) -> Term:
    """Attention of whole prompts with keys and values widened from their latent."""
    dtype: Dtype = "fp8" if cols["mla_dtype"] == "fp8" else "bf16"
    item = Attention(
        name="row", sequences=number("sequences", cols["batch_size"]), q_len=number("q_len", cols["isl"]),
        kv_len=number("kv_len", cols["isl"] + cols["step"]), heads=number("heads", cols["num_heads"]),
        kv_heads=number("kv_heads", cols["num_heads"]), k_dim=number("k_dim", NOPE + ROTARY), v_dim=number("v_dim", VALUE),
        kv_element_bytes=number("kv", _stored(cols), "B"), dtype=dtype, causal=True, appends=True,
    )  # fmt: skip
    return attention_seconds(item, hw)


def generation_mla(cols: Columns, hw: Hardware) -> Term:
    """Attention of one new token of each sequence over the latent."""
    item = Attention(
        name="row", sequences=number("sequences", cols["batch_size"]), q_len=number("q_len", cols["isl"]),
        kv_len=number("kv_len", cols["isl"] + cols["step"]), heads=number("heads", cols["num_heads"]),
        kv_heads=number("kv_heads", 1.0), k_dim=number("k_dim", LATENT + ROTARY), v_dim=number("v_dim", LATENT),
        kv_element_bytes=number("kv", _stored(cols), "B"), dtype="bf16", causal=True, v_shared=True,
    )  # fmt: skip
    return attention_seconds(item, hw, replayed=True)


def mla_bmm(cols: Columns, hw: Hardware) -> Term:
    """The products of each head that lead into the latent of MLA and out of it."""
    dtype: Dtype = "fp8" if cols["bmm_dtype"] == "fp8" else "bf16"
    n, k = (LATENT, NOPE) if cols["op_name"] == "mla_gen_pre" else (VALUE, LATENT)
    right = stored_in("fp8-block").bytes_per_value if dtype == "fp8" else 2.0
    return _matmul(cols["num_tokens"], n, k, cols["num_heads"], hw, dtype=dtype, right=right, blocked=dtype == "fp8", by_heads=True)


def experts(cols: Columns, hw: Hardware) -> Term:
    """A layer of experts behind its router, on the fullest rank: tokens sorted, multiplied, gated, multiplied, and summed."""
    hidden, inner = cols["hidden_size"], cols["inter_size"] / cols["moe_tp_size"]
    copies, touched, uneven = expert_load(cols)
    rows = expert_rows.term("rows", copies=copies, touched=touched)
    if cols["moe_dtype"] == WIDE:
        hw = hw.replaced(parameters=with_inputs(hw.parameters, ()))
    ups = 1.0 if cols["gate"] == WITHOUT_GATE else 2.0
    elsewhere = number("elsewhere", np.maximum(cols["num_tokens"] * cols["topk"] - copies.value, 0.0))
    given: dict[str, Any] = {"hw": hw, "grouped": True, "uneven": uneven, "elsewhere": elsewhere, "ungated": ups == 1.0}
    given |= _weights(cols["moe_dtype"], hw)
    if FEW in cols["kernel_source"]:
        given["tokens"] = number("tokens", cols["num_tokens"])
    traffic = 2.0 * copies.value * (float(count("permute_passes").value) * hidden + (ups + 1.0) * inner)
    launches = float(count("permute_kernels").value) + 1.0
    routing = Stream(name="row.routing", size=number("size", traffic, "B"), launches=number("launches", launches))
    return total("row.seconds", {
        "up": _matmul(rows.value, ups * inner, hidden, touched.value, **given),
        "down": _matmul(rows.value, hidden, inner, touched.value, **given),
        "routing": stream_seconds(routing, hw),
    })  # fmt: skip


def expert_load(cols: Columns) -> tuple[Term, Term, Term | None]:
    """Copies of tokens on the fullest rank, its experts that they go to, and whether unevenly.

    Where tokens are balanced the row says it; otherwise it is what an estimate expects that is told nothing of the router.
    """
    mean = cols["num_tokens"] * cols["topk"] / cols["moe_ep_size"]
    ep, number_of = number("ep", cols["moe_ep_size"]), number("experts", cols["num_experts"])
    if cols["distribution"] == "balanced":
        everywhere = number("balanced", np.minimum(cols["num_experts"], cols["num_tokens"] * cols["topk"]))
        return number("copies", mean), rank_experts.term("touched", touched=everywhere, ep=ep), None
    uneven = {"experts": number_of, "ep": ep, "skew": count("expert_skew")}
    load = fullest_rank_load.term("load", **uneven)
    tokens, top_k = number("tokens", cols["num_tokens"]), number("top_k", cols["topk"])
    touched = fullest_rank_touched.term("touched", **uneven, top_k=top_k, tokens=tokens, load=load)
    return number("copies", mean * load.value), touched, number("uneven", 1.0)


def nccl(cols: Columns, hw: Hardware) -> Term:
    """A collective of the library; messages are counted in elements."""
    size = cols["message_size"] * ELEMENT_BYTES[cols["nccl_dtype"]]
    return collective_seconds(_item(size, cols["num_gpus"], KINDS[cols["op_name"]]), hw)


def custom_all_reduce(cols: Columns, hw: Hardware) -> Term:
    """The all-reduce of an engine, which takes its own kernel or the library's; in a graph, or called by itself."""
    item = _item(cols["message_size"] * ELEMENT_BYTES[cols["allreduce_dtype"]], cols["num_gpus"], "all_reduce")
    if cols["kernel_source"].endswith("eager"):
        return called_all_reduce_seconds(item, hw)
    return collective_seconds(item, hw, custom_all_reduce=True)


class Kernel(NamedTuple):
    """One table: what it times, what tells types apart, and how rows are priced."""

    name: str
    types: tuple[str, ...]
    """Columns of text that tell the types of the rows apart."""
    numbers: tuple[str, ...]
    """Columns of numbers that the price depends on."""
    price: Callable[[Columns, Hardware], Term]
    label: Callable[[Mapping[str, str]], str]
    """What the printed table calls a type."""
    apart: Mapping[str, Callable[[Columns], Any]] = {}
    """Columns of text that are made of others and tell rows apart that an estimate prices apart."""


def _gates(cols: Columns) -> Any:
    """Whether the layer of each row has a gate."""
    names = ("kernel_source", "hidden_size", "inter_size", "topk", "num_experts")
    rows = zip(*(np.asarray(cols[name]).tolist() for name in names), strict=True)
    bare = [timed_without_gate(str(kernel), (hidden, inner), (top_k, number)) for kernel, hidden, inner, top_k, number in rows]
    return np.where(bare, WITHOUT_GATE, "gate")


_HEADS = ("batch_size", "isl", "num_heads", "num_key_value_heads", "head_dim", "step", "window_size")
_LATENT = ("batch_size", "isl", "num_heads", "step")
_MESSAGE = ("num_gpus", "message_size")


def _over(queries: str) -> Callable[[Mapping[str, str]], str]:
    def label(types: Mapping[str, str]) -> str:
        names = [{"bfloat16": "bf16"}.get(types[key], types[key]) for key in (queries, "kv_cache_dtype")]
        return f"{names[0]}, KV {names[1]}"

    return label


def _load(types: Mapping[str, str]) -> str:
    kind = types["moe_dtype"]
    return f"{_WEIGHTS.get(kind, kind)}, {'even' if types['distribution'] == 'balanced' else 'uneven'}"


_WEIGHTS = {
    "bfloat16": "bf16", "fp8_block": "fp8 by blocks", "nvfp4": "nvfp4", "sq": "int8", "int8_wo": "int8 weights",
    "int4_wo": "int4 weights", "w4a16_mxfp4": "mxfp4 weights", "w4a8_mxfp4_mxfp8": "mxfp4, mxfp8", "w4afp8": "int4, fp8",
    "half": "16-bit", "int8": "8-bit",
}  # fmt: skip


def _named(key: str) -> Callable[[Mapping[str, str]], str]:
    return lambda types: _WEIGHTS.get(types[key], types[key])


TABLES: Mapping[str, Kernel] = {
    "gemm": Kernel("matmul", ("gemm_dtype",), ("m", "n", "k"), gemm, _named("gemm_dtype")),
    "context_attention": Kernel("prefill", ("attn_dtype", "kv_cache_dtype"), _HEADS, context_attention, _over("attn_dtype")),
    "generation_attention": Kernel("decode", ("attn_dtype", "kv_cache_dtype"), _HEADS, generation_attention, _over("attn_dtype")),
    "encoder_attention": Kernel("encoder", ("attn_dtype",), (*_HEADS[:3], "head_dim"), encoder_attention, _named("attn_dtype")),
    "context_mla": Kernel("MLA prefill", ("mla_dtype", "kv_cache_dtype"), _LATENT, context_mla, _over("mla_dtype")),
    "generation_mla": Kernel("MLA decode", ("mla_dtype", "kv_cache_dtype"), _LATENT, generation_mla, _over("mla_dtype")),
    "mla_bmm": Kernel("MLA products", ("bmm_dtype", "op_name"), ("num_tokens", "num_heads"), mla_bmm, _named("bmm_dtype")),
    "moe": Kernel(
        "experts", ("moe_dtype", "distribution", "kernel_source"),
        ("num_tokens", "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size"), experts, _load,
        {"gate": _gates},
    ),
    "nccl": Kernel("collectives", ("op_name", "nccl_dtype"), _MESSAGE, nccl, lambda types: types["op_name"].replace("_", "-")),
    "oneccl": Kernel("collectives", ("op_name", "nccl_dtype"), _MESSAGE, nccl, lambda types: types["op_name"].replace("_", "-")),
    "custom_allreduce": Kernel(
        "own all-reduce", ("allreduce_dtype", "kernel_source"), _MESSAGE, custom_all_reduce,
        lambda types: next((word for word in ("graph", "eager") if types["kernel_source"].endswith(word)), "graph"),
    ),
}  # fmt: skip
"""The tables that gpuplan has a kernel for, by the names of their files without `_perf`."""


def _weights(kind: str, hw: Hardware) -> dict[str, Any]:
    """The type that is multiplied, the bytes of a weight, and how scales lie: as an estimate of serving has them."""
    stored = stored_in(FORMATS[kind])
    native = stored.multiply is not None and stored.multiply in hw.peaks
    dtype = stored.multiply if native else "bf16"
    return {"dtype": dtype, "right": stored.bytes_per_value, "blocked": native and stored.blocked, "micro": stored.micro}


def _matmul(m: Any, n: Any, k: Any, batch: Any, hw: Hardware, *, dtype: Dtype, right: float, **more: Any) -> Term:
    item = Matmul(
        name="row", m=number("m", m), n=number("n", n), k=number("k", k), batch=number("batch", batch), dtype=dtype,
        left_bytes=number("left", WIDTHS.get(dtype, 2.0), "B"), right_bytes=number("right", right, "B"),
        out_bytes=number("out", 2.0, "B"), **more,
    )  # fmt: skip
    return matmul_seconds(item, hw, replayed=True)


def _attention(cols: Columns, hw: Hardware, *, dtype: Dtype, appends: bool, causal: bool = True) -> Term:
    heads, kv_heads = cols["num_heads"], cols["num_key_value_heads"]
    windowed = number("window", cols["window_size"]) if "window_size" in cols else None
    item = Attention(
        name="row", sequences=number("sequences", cols["batch_size"]), q_len=number("q_len", cols["isl"]),
        kv_len=number("kv_len", cols["isl"] + cols["step"]), heads=number("heads", heads),
        kv_heads=number("kv_heads", np.where(kv_heads > 0, kv_heads, heads)), k_dim=number("k_dim", cols["head_dim"]),
        v_dim=number("v_dim", cols["head_dim"]), kv_element_bytes=number("kv", _stored(cols), "B"), dtype=dtype, causal=causal,
        appends=appends, window=windowed,
    )  # fmt: skip
    return attention_seconds(item, hw, replayed=True)


def _stored(cols: Columns) -> float:
    return 1.0 if cols["kv_cache_dtype"] == "fp8" else 2.0


def _item(size: Any, ranks: Any, kind: CollectiveKind) -> Collective:
    return Collective(
        name="row", kind=kind, size=number("size", size, "B"), group=number("group", ranks), stride=number("stride", 1.0)
    )
