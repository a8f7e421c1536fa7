"""How are measured layers of experts fitted: grouped matmuls, beside the routing traffic that an estimate counts for them?

The tables time the whole layer behind the router's product: tokens are sorted and copied to their experts, multiplied, gated,
multiplied again and summed. Sorting and gating are priced as an estimate prices them (`workload.kinds.experts`), so that what is
left for the two products is what an estimate will ask for. Even and uneven rows are fitted together: what differs is how full
the fullest rank is (`expert_load`).

Choices that a reader should know:

- Every engine has its own set of every type that its table holds, from all kernels that it takes for that type: which one it
  takes for which model is nothing that a question says, but for kernels that only layers without a gate run on: these are a set
  of their own where others run on other ones.
- TensorRT-LLM takes another kernel for steps of 128 tokens at most in 4 bits: it has a set of its own
  (https://github.com/ai-dynamo/aiconfigurator, sdk/perf_database.py, query_moe: "aligned with trtllm, kernel source selection").
- The base set, for engines of which nothing is measured, is TensorRT-LLM's (CUTLASS grouped kernels), or else SGLang's or vLLM's.
- Some libraries choose a kernel up to five times too slow for single shapes. Such rows count less in the fit, and in full in
  the errors and the range.
- Of two sizes of tiles the better one is taken: kernels differ in the fewest rows that they take together.
- Held back are two in five of the layer shapes (widths, experts of the rank, experts of a token).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gpuplan.calibrate import knobs as knob_tables
from gpuplan.calibrate.attention_fits import FEWEST, FRAMEWORKS
from gpuplan.calibrate.expert_load import exponent_of, fullest_loads
from gpuplan.calibrate.fit import FitResult, Parameter, Predict, fit
from gpuplan.calibrate.knobs import Knob
from gpuplan.calibrate.row_seconds import matmul_row_seconds, shape_term, stream_row_seconds
from gpuplan.calibrate.table_fits import Fitted, Gemm
from gpuplan.calibrate.table_rows import Rows, TableRow, held_back, numbers, table
from gpuplan.calibrate.trial_chip import Chip
from gpuplan.files.progress import steps
from gpuplan.workload.counts import count

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gpuplan.work import Dtype

INT4 = 0.5 + 2.5 / 128
"""Bytes of a 4-bit weight with its share of a 16-bit scale and a 4-bit zero for each 128."""
MXFP4 = 0.5 + 1 / 32
"""Bytes of a 4-bit weight with its share of an 8-bit scale for each 32."""
GEMMS: Mapping[str, Gemm] = {
    "bf16": Gemm("bfloat16", "bf16", 2.0, 2.0, False, ()),
    "fp8": Gemm("fp8", "fp8", 1.0, 1.0, True, ()),
    "fp8_block": Gemm("fp8_block", "fp8", 1.0, 1.0, True, ()),
    "fp4": Gemm("nvfp4", "fp4", 0.5625, 0.5625, True, ()),
    "int4_wo": Gemm("int4_wo", "bf16", 2.0, INT4, False, ()),
    "mxfp4_a8": Gemm("w4a8_mxfp4_mxfp8", "fp8", 1.0, MXFP4, True, ()),
    "mxfp4_wo": Gemm("w4a16_mxfp4", "bf16", 2.0, MXFP4, False, ()),
}
STORED_ONLY: Mapping[str, Gemm] = {"int8_wo": Gemm("fp8", "bf16", 2.0, 1.0, False, ())}
"""What engines run where a chip does not multiply a type: kernels that widen the weights on the way."""
WITHOUT_BASE = ("mxfp4_a8",)
"""Kernels by inputs of 8 bits, which an engine has or widens the weights (`eight_bit_inputs` of its profile)."""
UNGATED = "nongated"
"""Kernels for layers without a gate."""
UNGATED_TOP_K, UNGATED_LAYERS = (22.0, 512.0), (2688.0, 1856.0)
"""Layers of models without a gate (Nemotron 3), by experts of a token and in all, or by their widths."""
TIMED_GATED = "sglang_fused_moe_triton"
"""The kernel that its table times with a gate also for them: their times are those of twice the width."""
FEW = "min_latency"
"""A kernel that an engine takes for steps of few tokens, up to so many."""
FEW_TOKENS = 128.0
BASE = ("tensorrt-llm", "sglang", "vllm")
TILES = (32.0, 128.0)
"""Fewest rows of an expert that are multiplied together: experts see few rows each, and most kernels for them are made so."""
FIXED = {**knob_tables.MATMUL_FIXED, "tile_m": Knob(TILES[0], 1, 1)}
SOFT = 0.1


def fit_experts(folder: Path, system: str, chip: Chip, stream: Mapping[str, float]) -> Fitted:
    """The parameters of grouped matmuls by kind, of the base and of each engine; `stream` is the chip's own, for the routing.

    Raises:
        UsageError: the table is missing or empty.
    """
    rows = table(folder, system, "moe", fullest=True)
    made = Fitted()
    kinds = {**GEMMS, **(STORED_ONLY if "fp8" not in chip.peaks else {})}
    for kind, gemm in steps(kinds.items(), "kinds of grouped matmul fitted"):
        if gemm.dtype not in chip.peaks:
            continue
        fits = {
            engine: _fit(chip, layers(rows, gemm, name), gemm, stream)
            for engine, name in FRAMEWORKS.items()
        }  # fmt: skip
        good = {engine: one for engine, one in fits.items() if one is not None}
        base = next((engine for engine in BASE if engine in good), None)
        if base is not None and kind not in WITHOUT_BASE:
            made.sets[f"grouped.{kind}"] = good[base]
        for engine, name in FRAMEWORKS.items():
            few = _fit(chip, layers(rows, gemm, name, few=True), gemm, stream)
            if few is not None:
                most = {"most_tokens": Parameter(FEW_TOKENS, "1")}
                made.sets[f"engines.{engine}.grouped_few.{kind}"] = replace(few, values={**few.values, **most})
            alone = _fit(chip, layers(rows, gemm, name, ungated=True), gemm, stream) if engine in good else None
            if alone is not None:
                made.sets[f"engines.{engine}.grouped_ungated.{kind}"] = alone
        made.sets |= {f"engines.{engine}.grouped.{kind}": one for engine, one in good.items()}
    return made


def layers(rows: Sequence[TableRow], gemm: Gemm, framework: str, *, few: bool = False, ungated: bool = False) -> Rows:
    """The layers of experts of one data type that a framework timed; widths, experts of the rank and of a token are a shape.

    `few`: of its kernel for few tokens, for so many of them. `ungated`: of a kernel that no layer with a gate runs on.
    """
    mine = [row for row in rows if row["moe_dtype"] == gemm.table and row["framework"] == framework]
    mine = [row for row in mine if (FEW in row["kernel_source"]) == few and (row.number("num_tokens") <= FEW_TOKENS or not few)]
    gated = {row["kernel_source"] for row in mine if not without_gate(row)}
    mine = [row for row in mine if (row["kernel_source"] in gated or UNGATED in row["kernel_source"]) != ungated]
    tokens, top_k, experts, hidden, inner, ranks = (
        numbers(mine, name) for name in ("num_tokens", "topk", "num_experts", "hidden_size", "inter_size", "moe_ep_size")
    )
    exponents = [exponent_of(row["distribution"], row.where) for row in mine]
    alone = np.array([without_gate(row) for row in mine])
    loads = fullest_loads(tokens=tokens, top_k=top_k, experts=experts, ranks=ranks, exponents=exponents)
    cols = {
        "m": loads.copies / loads.touched, "touched": loads.touched, "copies": loads.copies, "hidden": hidden,
        "inner": inner / numbers(mine, "moe_tp_size"),
        "up": np.where(alone, 1.0, 2.0),
        "elsewhere": np.maximum(tokens * top_k - loads.copies, 0.0),
        "even": np.array([float(exponent == 0) for exponent in exponents]),
    }  # fmt: skip
    backend = ", ".join(sorted({f"{row['framework']} {row['version']} {row['kernel_source']}" for row in mine}))
    return Rows(cols, numbers(mine, "latency") * 1e-3, held_back([hidden, cols["inner"], experts / ranks, top_k]), backend)


def without_gate(row: TableRow) -> bool:
    """Whether the timed layer has one matrix up, and not two."""
    widths, choice = (row.number("hidden_size"), row.number("inter_size")), (row.number("topk"), row.number("num_experts"))
    return timed_without_gate(row["kernel_source"], widths, choice)


def timed_without_gate(kernel: str, widths: tuple[float, float], choice: tuple[float, float]) -> bool:
    """The same by the kernel of a layer, its widths (hidden, inner), and its experts of a token and in all."""
    if UNGATED in kernel:
        return True
    return (widths == UNGATED_LAYERS or choice == UNGATED_TOP_K) and kernel != TIMED_GATED


def _fit(chip: Chip, rows: Rows, gemm: Gemm, stream: Mapping[str, float]) -> FitResult | None:
    if len(rows) < 10 * FEWEST or not 0 < rows.held_back.sum() < len(rows):
        return None
    knobs = {**knob_tables.TABLE_KNOBS, **knob_tables.ZEROED, **(knob_tables.QUANTISE if gemm.quantised else {})}
    model = partial(predict, chip, stream, dtype=gemm.dtype, left=gemm.left, right=gemm.right)
    flat = dict.fromkeys(knob_tables.MATMUL_KNOBS, 0.0) | {"settle": 1.0, "tile_m": 1.0, "tile_n": 1.0}
    made = [
        fit(rows, knobs, {**FIXED, "tile_m": Knob(tile, 1, 1)}, model, lambda r, v: model(r, {**flat, **v}), soft=SOFT)
        for tile in TILES
    ]
    return min(made, key=lambda one: _off(model, rows, one))


def _off(model: Predict, rows: Rows, one: FitResult) -> float:
    """How far off a fit is on the rows that it has seen, on the whole."""
    known = rows.where(~rows.held_back)
    values = {key: each.value for key, each in one.values.items()}
    return float(np.mean(np.abs(np.log(model(known, values) / known.seconds))))


def predict(
    chip: Chip, stream: Mapping[str, float], rows: Rows, values: Mapping[str, float], *, dtype: Dtype, left: float, right: float
) -> NDArray[np.float64]:
    """Seconds of layers of experts on the fullest rank: two grouped matmuls, routing and gate."""
    cols = rows.columns
    units = knob_tables.units_of(knob_tables.TABLE_KNOBS, knob_tables.MATMUL_FIXED, knob_tables.QUANTISE, knob_tables.ZEROED)
    hw = chip.hardware({
        **{f"grouped.{dtype}.{key}": (value, units[key]) for key, value in values.items()},
        "stream.efficiency": (stream["efficiency"], "1"), "stream.launch": (stream["launch"], "s"),
    }, l2=shape_term("l2", chip.l2, "B"))  # fmt: skip

    def grouped(n: NDArray[np.float64], k: NDArray[np.float64]) -> NDArray[np.float64]:
        shape = {
            "m": cols["m"],
            "n": n,
            "k": k,
            "batch": cols["touched"],
            "uneven": 1.0 - cols["even"],
            "elsewhere": cols["elsewhere"],
        }
        made: NDArray[np.float64] = matmul_row_seconds(shape, hw, dtype=dtype, left=left, right=right, grouped=True, replayed=True)
        return made

    passes, kernels = float(count("permute_passes").value), float(count("permute_kernels").value)
    traffic = 2.0 * cols["copies"] * (passes * cols["hidden"] + (1 + cols["up"]) * cols["inner"])
    routing: NDArray[np.float64] = stream_row_seconds({"size": traffic, "launches": kernels + 1}, hw)
    return grouped(cols["up"] * cols["inner"], cols["hidden"]) + grouped(cols["hidden"], cols["inner"]) + routing
