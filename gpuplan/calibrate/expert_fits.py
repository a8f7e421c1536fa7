"""How are measured layers of experts fitted: grouped matmuls, beside the routing traffic that an estimate counts for them?

The tables time the whole layer behind the router's product: tokens are sorted and copied to their experts, multiplied, gated,
multiplied again and summed. Sorting and gating are priced as an estimate prices them (`workload.layer`), so that what is left
for the two products is what an estimate will ask for. Tokens are spread evenly over the experts.

Choices that a reader should know:

- The base set is that of TensorRT-LLM (CUTLASS grouped kernels), or of SGLang where there is no other; other engines have
  their own. Of an engine's kernels for a data type the one counts that is the fastest for most layers.
- Some libraries choose a kernel up to five times too slow for single shapes. Such rows count less in the fit, and in full in
  the errors and the range.
- Held back are two in five of the layer shapes (widths, experts of the rank, experts of a token).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gpuplan.calibrate import knobs as knob_tables
from gpuplan.calibrate.attention_fits import FEWEST, FRAMEWORKS
from gpuplan.calibrate.fit import FitResult, fit
from gpuplan.calibrate.knobs import Knob
from gpuplan.calibrate.row_seconds import matmul_row_seconds, stream_row_seconds
from gpuplan.calibrate.table_fits import Fitted, Gemm
from gpuplan.calibrate.table_rows import Rows, TableRow, held_back, numbers, table
from gpuplan.calibrate.trial_chip import Chip, from_memory
from gpuplan.workload.counts import count

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gpuplan.work import Dtype

INT4 = 0.5 + 2.5 / 128
"""Bytes of a 4-bit weight with its share of a 16-bit scale and a 4-bit zero for each 128."""
GEMMS: Mapping[str, Gemm] = {
    "bf16": Gemm("bfloat16", "bf16", 2.0, 2.0, False, ()),
    "fp8": Gemm("fp8", "fp8", 1.0, 1.0, True, ()),
    "fp8_block": Gemm("fp8_block", "fp8", 1.0, 1.0, True, ()),
    "fp4": Gemm("nvfp4", "fp4", 0.5625, 0.5625, True, ()),
    "int4_wo": Gemm("int4_wo", "bf16", 2.0, INT4, False, ()),
}
OTHERS = "nongated"
"""Kernels for layers without a gate."""
LAYER = ("num_tokens", "topk", "num_experts", "hidden_size", "inter_size", "moe_tp_size", "moe_ep_size")
BASE = ("tensorrt-llm", "sglang")
FIXED = {**knob_tables.MATMUL_FIXED, "tile_m": Knob(32, 1, 1)}
"""Experts see few rows each, and kernels for them are made so."""
NARROWEST = 128
"""A rank's share of an expert below this is narrower than any tile: nobody divides experts so."""
SOFT = 0.05
SLOWEST = 0.3
"""Kernels that read weights at a smaller share of the bandwidth were not tuned for the chip: an engine's next release mends them,
and the base set speaks for it (vLLM 0.24 runs 8-bit experts on Hopper at 0.19; its 0.19 reached 0.7)."""
WORST = 0.3
"""A worse median error says that the rows are of several kernels: the base set speaks for them."""


def fit_experts(folder: Path, system: str, chip: Chip, stream: Mapping[str, float]) -> Fitted:
    """The parameters of grouped matmuls by kind, of the base and of each engine; `stream` is the chip's own, for the routing.

    Raises:
        UsageError: the table is missing or empty.
    """
    rows = table(folder, system, "moe", fullest=True)
    made = Fitted()
    for kind, gemm in GEMMS.items():
        if gemm.dtype not in chip.peaks:
            continue
        fits = {engine: _fit(chip, _picked(rows, gemm, name), gemm, stream) for engine, name in FRAMEWORKS.items()}
        good = {
            engine: one
            for engine, one in fits.items()
            if one is not None and one.errors.median_ape < WORST and one.values["memory_efficiency"].value > SLOWEST
        }
        base = next((engine for engine in BASE if engine in good), None)
        if base is not None:
            made.sets[f"grouped.{kind}"] = good[base]
        made.sets |= {f"engines.{engine}.grouped.{kind}": one for engine, one in good.items() if engine != base}
    return made


def _picked(rows: Sequence[TableRow], gemm: Gemm, framework: str) -> Rows:
    mine = [
        row for row in rows
        if row["moe_dtype"] == gemm.table and row["framework"] == framework and row["distribution"] == "balanced"
        and OTHERS not in row["kernel_source"]
    ]  # fmt: skip
    fastest: dict[tuple[str, ...], TableRow] = {}
    for row in mine:
        layer = tuple(row[name] for name in LAYER)
        if layer not in fastest or float(row["latency"]) < float(fastest[layer]["latency"]):
            fastest[layer] = row
    wins = Counter(row["kernel_source"] for row in fastest.values()).most_common(1)
    mine = [row for row in mine if row["kernel_source"] == wins[0][0]]
    columns = {name: numbers(mine, name) for name in ("num_tokens", "topk", "num_experts", "hidden_size", "inter_size")}
    ranks = numbers(mine, "moe_ep_size")
    copies = columns["num_tokens"] * columns["topk"]
    touched = np.minimum(columns["num_experts"], copies) / ranks
    cols = {
        "m": copies / ranks / touched, "touched": touched, "copies": copies / ranks, "hidden": columns["hidden_size"],
        "inner": columns["inter_size"] / numbers(mine, "moe_tp_size"),
    }  # fmt: skip
    shape = [columns["hidden_size"], cols["inner"], columns["num_experts"] / ranks, columns["topk"]]
    backend = f"{mine[0]['framework']} {mine[0]['version']} {mine[0]['kernel_source']}" if mine else ""
    found = Rows(cols, numbers(mine, "latency") * 1e-3, held_back(shape), backend)
    return found.where((touched >= 1) & (cols["inner"] >= NARROWEST))


def _fit(chip: Chip, rows: Rows, gemm: Gemm, stream: Mapping[str, float]) -> FitResult | None:
    cols = rows.columns
    weights = cols["touched"] * cols["hidden"] * cols["inner"] * 3 * gemm.right
    rows = from_memory(rows, weights, float(chip.bandwidth.value))
    if len(rows) < 10 * FEWEST or not 0 < rows.held_back.sum() < len(rows):
        return None
    knobs = {**knob_tables.MATMUL_KNOBS, **(knob_tables.QUANTISE if gemm.quantised else {})}
    model = partial(predict, chip, stream, dtype=gemm.dtype, left=gemm.left, right=gemm.right)
    flat = dict.fromkeys(knob_tables.MATMUL_KNOBS, 0.0) | {"settle": 1.0, "tile_m": 1.0, "tile_n": 1.0}
    return fit(rows, knobs, FIXED, model, lambda r, v: model(r, {**flat, **v}), soft=SOFT)


def predict(
    chip: Chip, stream: Mapping[str, float], rows: Rows, values: Mapping[str, float], *, dtype: Dtype, left: float, right: float
) -> NDArray[np.float64]:
    """Seconds of gated layers of experts on one rank: two grouped matmuls, routing and gate."""
    cols = rows.columns
    units = knob_tables.units_of(knob_tables.MATMUL_KNOBS, knob_tables.MATMUL_FIXED, knob_tables.QUANTISE)
    hw = chip.hardware({
        **{f"grouped.{dtype}.{key}": (value, units[key]) for key, value in values.items()},
        "stream.efficiency": (stream["efficiency"], "1"), "stream.launch": (stream["launch"], "s"),
    })  # fmt: skip

    def grouped(n: NDArray[np.float64], k: NDArray[np.float64]) -> NDArray[np.float64]:
        shape = {"m": cols["m"], "n": n, "k": k, "batch": cols["touched"]}
        made: NDArray[np.float64] = matmul_row_seconds(shape, hw, dtype=dtype, left=left, right=right, grouped=True)
        return made

    passes, kernels = float(count("permute_passes").value), float(count("permute_kernels").value)
    traffic = 2.0 * cols["copies"] * (passes * cols["hidden"] + 3 * cols["inner"])
    routing: NDArray[np.float64] = stream_row_seconds({"size": traffic, "launches": kernels + 1}, hw)
    return grouped(2 * cols["inner"], cols["hidden"]) + grouped(cols["hidden"], cols["inner"]) + routing
