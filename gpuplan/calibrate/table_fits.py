"""How are the tables of one measured system fitted, kind by kind, to the measured file of its accelerator?

`fit_system(folder, …)` reads the CSV tables (see `rows`) and gives every set of parameters with its errors; `write` prints
them as YAML. Choices that a reader should know:

- The base matmul parameters are those of plain library linears; 8- and 4-bit ones of TensorRT-LLM's, whose tables time the
  quantisation of the activations too. What an engine's own kernels do differently stands under `engines`.
- Weight-only matmuls are TensorRT's, which were started one by one (9 us more than others): what each shape takes beyond is
  fitted, and their start is written as that of 16-bit matmuls.
- Prefill is fitted to causal attention without a window that copies its keys and values into a cache first, as the tables'
  engines do; streams to the residual add of vidur's layer tables.
- Matmul rows that beat the datasheet bandwidth were served by a cache and are left out; in decode attention the cache is
  part of the model. Left out is decode over fewer than 128 keys, and without grouped heads on an A100 (kernels without
  a split over the keys).
- Held back are two in five of the weight shapes (matmuls), of the head layouts (attention) and of the sizes by ranks
  (collectives).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuplan.calibrate import knobs as knob_tables
from gpuplan.calibrate.fit import FitResult, errors_of, fit
from gpuplan.calibrate.knobs import Knob
from gpuplan.calibrate.table_rows import (
    MOST_ROWS,
    NO_WINDOW,
    Rows,
    TableRow,
    attention_rows,
    collective_rows,
    latent_rows,
    matmul_rows,
    stream_rows,
    table,
)
from gpuplan.calibrate.trial_chip import Chip, from_memory

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gpuplan.specs.accelerator import Accelerator
    from gpuplan.work import CollectiveKind, Dtype

FRAMEWORKS = {"tensorrt-llm": "TRTLLM", "vllm": "VLLM", "sglang": "SGLang"}
LINEARS = tuple(FRAMEWORKS.values())
STORED = {"bf16": ("bfloat16", 2.0), "fp8": ("fp8", 1.0)}
NCCL: Mapping[CollectiveKind, str] = {
    "all_reduce": "all_reduce", "all_gather": "all_gather", "reduce_scatter": "reduce_scatter", "all_to_all": "alltoall",
}  # fmt: skip
FEWEST = 12
MOST_ATTENTION = 4 * MOST_ROWS
"""Attention tables mix kernels, data types and windows."""
FEWEST_KEYS = 128
"""Shorter contexts than a page or a tile of keys tell of padding only."""
FEWEST_QUERIES = 64
"""Shorter prompts run as decode does."""
WIDTHS = (64, 128, 256)
"""Head dimensions that attention is fitted to: those of models in use, for which kernels are tuned."""
STREAMS = ("add", "mlp_act", "input_layernorm", "attn_rope")
CLEAR = 9.5e-6
"""Times in steps of 1 us say little below."""
NO_TRAFFIC = 2e6
"""Fewer bytes take no time beside the start of a kernel."""
POOR = 0.2
"""A set with a larger median error does not speak for the residual of its kind; its own `fit` tells."""
POOREST = 0.08
"""Kernels of an engine that are met worse are several kinds under one name; the base set speaks for them."""
UNLIKE = 0.12
"""The same of matmuls with scales by blocks: vLLM's were timed without a graph, 70 us for whatever shape."""
ASIDE = ("custom_all_reduce", "transfer", "fp8_block", "int8_wo", "int4_wo")
"""Sets that do not speak for the residual of their kind."""


FINE = 0.03
"""Matmuls beyond this error are outliers of one library's choice for one shape."""


@dataclass(frozen=True)
class Gemm:
    """How the table names a kind of matmul, what we call it, and the bytes of its left and right elements."""

    table: str
    dtype: Dtype
    left: float
    right: float
    quantised: bool
    frameworks: tuple[str, ...]
    kind: str = ""
    """The kind of matmul in the measured file where it is more than a data type."""


GEMMS = (
    Gemm("bfloat16", "bf16", 2.0, 2.0, False, LINEARS),
    Gemm("fp8", "fp8", 1.0, 1.0, True, ("TRTLLM",)),
    Gemm("nvfp4", "fp4", 0.5625, 0.5625, True, ("TRTLLM",)),
    Gemm("sq", "int8", 1.0, 1.0, True, ("TRTLLM",)),
    Gemm("fp8_block", "fp8", 1.0, 1.0, True, ("TRTLLM",), "fp8_block"),
    Gemm("int8_wo", "bf16", 2.0, 1.0, False, ("TRTLLM",), "int8_wo"),
    Gemm("int4_wo", "bf16", 2.0, 0.5 + 2.5 / 128, False, ("TRTLLM",), "int4_wo"),
)


@dataclass(frozen=True)
class SystemKernels:
    """Which attention kernels of a system's tables stand for it, as the tables name them."""

    prefill: Mapping[str, Sequence[str]]
    decode: Mapping[str, Sequence[str]]
    rows: float = 64.0
    """Queries of one tile of prefill, as far as the rows tell."""
    dims: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """Head dimensions where the other ones run on slower kernels, by place (`prefill.fp8`)."""
    own: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Prefill kernels in 16 bits of engines that run others than those above."""
    own_decode: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Decode kernels over 8-bit keys of such engines."""
    grouped: bool = False
    """Whether only grouped heads have a decode kernel that splits the keys."""
    stream: str = ""


_FA3, _TRTLLM = ("vllm_flash_attn_fa3",), ("torch_flow",)
_FLASH3 = SystemKernels(
    {"bf16": _FA3, "fp8": ("fa3",)},
    {"bf16": _FA3, "fp8": _FA3},
    dims={"decode.fp8": (128,)},
    own={"tensorrt-llm": _TRTLLM, "sglang": ("fa3",)},
    own_decode={"sglang": ("fa3",)},
)
_FLASH2 = SystemKernels(
    {"bf16": ("vllm_flash_attn_fa2",), "fp8": ("torch_flow",)},
    {"bf16": ("flashinfer",), "fp8": ("vllm_flashinfer_fidecode",)},
    dims={"prefill.fp8": (128,)},
    own={"tensorrt-llm": _TRTLLM, "sglang": ("flashinfer",)},
)
_FLASHINFER = SystemKernels(
    {"bf16": ("vllm_flashinfer_trtllmprefill",), "fp8": ("torch_flow",)},
    {"bf16": ("vllm_flashinfer_trtllmdecode",), "fp8": ("vllm_flashinfer_trtllmdecode",)},
    rows=128.0,
    own={"tensorrt-llm": _TRTLLM, "sglang": ("trtllm_mha",)},
    own_decode={"sglang": ("trtllm_mha",)},
)
KERNELS: Mapping[str, SystemKernels] = {
    "h100_sxm": replace(_FLASH3, stream="vidur-h100"),
    "h200_sxm": _FLASH3,
    "a100_sxm": SystemKernels(
        {"bf16": ("vllm_flash_attn",)},
        {"bf16": ("vllm_flash_attn",)},
        stream="vidur-a100",
        grouped=True,
        own={"tensorrt-llm": _TRTLLM, "sglang": ("flash_attention",)},
    ),
    "l40s": _FLASH2,
    "rtx_pro_6000_server": _FLASH2,
    "b200_sxm": _FLASHINFER,
    "gb200": _FLASHINFER,
    "gb300": _FLASHINFER,
}


@dataclass
class Fitted:
    """All sets of parameters of one system by their dotted place in the measured file."""

    sets: dict[str, FitResult] = field(default_factory=dict)

    def spread(self, prefix: str) -> tuple[float, float] | None:
        """10th and 90th percentile of measured / predicted over the rows held back of all base sets under a prefix."""
        base = {key: made for key, made in self.sets.items() if key.startswith(prefix) and made.errors.median_ape < POOR}
        ratios = [made.ratios for key, made in base.items() if key.rpartition(".")[2] not in ASIDE]
        if not ratios:
            return None
        low, high = np.quantile(np.concatenate(ratios), [0.1, 0.9])
        return float(low), float(high)


def fit_matmuls(folder: Path, system: str, chip: Chip) -> Fitted:
    """The matmul parameters of each data type, pooled over engines and of each engine.

    Raises:
        UsageError: the table is missing or empty.
    """
    made = Fitted()
    rows = table(folder, system, "gemm")
    for gemm in GEMMS:
        if gemm.dtype in chip.peaks:
            kind = gemm.kind or gemm.dtype
            base = _matmul(chip, rows, gemm, gemm.frameworks)
            if base is not None and gemm.kind.endswith("_wo"):
                start = made.sets[f"matmul.{gemm.dtype}"].values["start"]
                _add(made, f"matmul.{kind}", replace(base, values={**base.values, "start": start}))
                continue
            _add(made, f"matmul.{kind}", base)
            for engine, framework in FRAMEWORKS.items():
                own = _matmul(chip, rows, gemm, (framework,))
                _add(made, f"engines.{engine}.matmul.{kind}", own, UNLIKE if gemm.kind else 1.0)
    return made


def fit_system(folder: Path, system: str, spec: Accelerator, link: float | None = None) -> Fitted:
    """Every set of parameters that the tables of a system in a folder give.

    Raises:
        UsageError: a table is missing or empty.
    """
    chip = Chip.of(spec, link)
    made = fit_matmuls(folder, system, chip)
    made.sets |= fit_attention(folder, system, chip).sets
    if KERNELS[system].stream:
        rows = table(folder, KERNELS[system].stream, "mlp")
        _add(made, "stream", _stream(chip, rows))
    if link is not None:
        made.sets |= fit_links(folder, system, chip).sets
    return made


def fit_attention(folder: Path, system: str, chip: Chip) -> Fitted:
    """The parameters of prefill and decode by data type, and of engines with kernels of their own.

    Raises:
        UsageError: a table is missing or empty.
    """
    kernels = KERNELS[system]
    made = Fitted()
    rows = table(folder, system, "context_attention", most=MOST_ATTENTION)
    for dtype in kernels.prefill:
        _add(made, f"attention.prefill.{dtype}", _attention(chip, rows, dtype, kernels, decode=False))
    for engine, names in kernels.own.items():
        theirs = replace(kernels, prefill={"bf16": names})
        _add(made, f"engines.{engine}.prefill.bf16", _attention(chip, rows, "bf16", theirs, decode=False), POOREST)
    rows = table(folder, system, "generation_attention", most=MOST_ATTENTION)
    for stored in kernels.decode:
        _add(made, f"attention.decode.{stored}", _attention(chip, rows, stored, kernels, decode=True))
    for engine, names in kernels.own_decode.items():
        theirs = replace(kernels, decode={"fp8": names})
        _add(made, f"engines.{engine}.decode.fp8", _attention(chip, rows, "fp8", theirs, decode=True), POOREST)
    if (folder / f"{system}-generation_mla.csv").is_file():
        rows = table(folder, system, "generation_mla")
        for stored in kernels.decode:
            _add(made, f"attention.latent.{stored}", _latent(chip, rows, stored))
    return made


def fit_links(folder: Path, system: str, chip: Chip) -> Fitted:
    """The parameters of the collectives on a system's own links.

    Raises:
        UsageError: the table is missing or empty.
    """
    made = Fitted()
    rows = table(folder, system, "nccl")
    for kind, name in NCCL.items():
        _add(made, f"collective.{kind}", _collective(chip, collective_rows(rows, name), kind))
    made.sets["collective.transfer"] = made.sets["collective.all_to_all"]  # two ranks exchanging is the nearest to point to point
    return made


def _add(made: Fitted, key: str, outcome: FitResult | None, worst: float = 1.0) -> None:
    if outcome is not None and outcome.errors.median_ape < worst:
        made.sets[key] = outcome


def _matmul(chip: Chip, rows: Sequence[TableRow], gemm: Gemm, frameworks: Sequence[str]) -> FitResult | None:
    picked = matmul_rows(rows, gemm.table, frameworks)
    cols = picked.columns
    size = cols["m"] * cols["k"] * gemm.left + cols["n"] * cols["k"] * gemm.right + 2 * cols["m"] * cols["n"]
    picked = from_memory(picked, size, float(chip.bandwidth.value))
    if len(picked) < FEWEST or not 0 < picked.held_back.sum() < len(picked):
        return None
    knobs: dict[str, Knob] = {**knob_tables.MATMUL_KNOBS, **(knob_tables.QUANTISE if gemm.quantised else {})}
    given: dict[str, Any] = {"dtype": gemm.dtype, "left": gemm.left, "right": gemm.right}
    model, flat = partial(chip.matmul, **given), partial(chip.matmul_flat, **given)
    return fit(picked, knobs, knob_tables.MATMUL_FIXED, model, flat, soft=FINE)


def _attention(chip: Chip, rows: Sequence[TableRow], dtype: str, kernels: SystemKernels, *, decode: bool) -> FitResult | None:
    stored, element = STORED[dtype]
    names = (kernels.decode if decode else kernels.prefill)[dtype]
    picked = attention_rows(rows, "bfloat16" if decode else stored, stored, names)
    cols = picked.columns
    place = "decode" if decode else "prefill"
    kept = np.isin(cols["dim"], kernels.dims.get(f"{place}.{dtype}", WIDTHS))
    if decode:
        kept &= np.minimum(cols["kv_len"], cols["window"]) >= FEWEST_KEYS
        if kernels.grouped:
            kept &= cols["heads"] > cols["kv_heads"]
    else:
        kept &= (cols["q_len"] >= FEWEST_QUERIES) & (cols["window"] >= NO_WINDOW)
    picked = picked.where(kept)
    if len(picked) < FEWEST or not 0 < picked.held_back.sum() < len(picked):
        return None
    kind: Dtype = "bf16" if decode or dtype == "bf16" else "fp8"
    given = {"dtype": kind, "stored": element}
    if not decode:
        fixed = {**knob_tables.PREFILL_FIXED, "rows": Knob(kernels.rows, 1, 1)}
        model = partial(chip.attention, **given, decode=False)  # type: ignore[arg-type]
        return fit(picked, knob_tables.PREFILL_KNOBS, fixed, model, partial(chip.prefill_flat, **given))  # type: ignore[arg-type]
    model = partial(chip.attention, **given, decode=True)  # type: ignore[arg-type]
    made = fit(picked, knob_tables.DECODE_KNOBS, knob_tables.DECODE_FIXED, model, partial(chip.decode_flat, **given))  # type: ignore[arg-type]
    held = picked.where(picked.held_back)
    ratios = made.ratios[_far(chip, held, element)]
    big = made.ratios[_traffic(held, element) > 3 * chip.l2]
    error = float(np.median(np.abs(1 / big - 1))) if len(big) else None
    return replace(made, ratios=ratios, far_median_ape=error)


def _latent(chip: Chip, rows: Sequence[TableRow], dtype: str) -> FitResult | None:
    stored, element = STORED[dtype]
    picked = latent_rows(rows, stored, FRAMEWORKS["tensorrt-llm"])
    picked = picked.where(picked.columns["kv_len"] >= FEWEST_KEYS)
    if len(picked) < FEWEST:
        return None
    return fit(picked, knob_tables.DECODE_KNOBS, knob_tables.DECODE_FIXED, partial(chip.latent, stored=element))


def _far(chip: Chip, rows: Rows, element: float) -> NDArray[np.bool_]:
    """Decode whose keys and values no cache holds from run to run, or so few that their traffic does not count."""
    size = _traffic(rows, element)
    return (size > 3 * chip.l2) | (size < NO_TRAFFIC)


def _traffic(rows: Rows, element: float) -> NDArray[np.float64]:
    """Bytes of keys and values that a decode reads."""
    cols = rows.columns
    seen = np.minimum(cols["kv_len"], cols["window"])
    return 2.0 * cols["sequences"] * cols["kv_heads"] * seen * cols["dim"] * element


def _stream(chip: Chip, rows: Sequence[TableRow]) -> FitResult:
    """The parameters of residual adds, whose traffic is beyond doubt, and the spread within each kind of kernel.

    Norms, activations and rotary embeddings reach 0.3 to 0.6 of what adds do: a matter of their own passes and casts, which
    the profiles of engines count, and not of the chip. So each is fitted for itself and judged by its own fit.
    """

    def uncached(rows: Rows) -> Rows:
        return rows.where((rows.columns["size"] > 2 * chip.l2) | (rows.columns["size"] < 5e6))

    made = [fit(uncached(stream_rows(rows, kernel)), knob_tables.STREAM_KNOBS, {}, chip.stream) for kernel in STREAMS]
    held = [uncached(one.where(one.held_back)) for one in (stream_rows(rows, kernel) for kernel in STREAMS)]
    clear = [one.ratios[each.seconds >= CLEAR] for one, each in zip(made, held, strict=True)]
    return replace(made[0], ratios=np.concatenate(clear), rows_held_back=len(clear[0]), errors=errors_of(clear[0]))


def _collective(chip: Chip, rows: Rows, kind: CollectiveKind) -> FitResult | None:
    if len(rows) < FEWEST:
        return None
    most = float(rows.columns["group"].max())
    fixed = {"ranks": Knob(most, 1, 1)}

    def predict(given: Rows, values: Mapping[str, float]) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        knobs = {key: value for key, value in values.items() if key != "ranks"}
        return chip.collective(given, knobs, kind, most)

    return fit(rows, knob_tables.collective_knobs(kind), fixed, predict, starts={"switch": knob_tables.SWITCHES})
