"""How are the attention tables of one measured system fitted: which kernels has each engine, for which shapes and types?

Base sets stand for the machine where no engine is named; under `engines` stands what each serving engine runs for every type
that the tables hold. An engine has up to two kernels for a type. Which shapes the first one leaves to the second one is said
by the engine's own code, or is what the table shows:

- TensorRT-LLM's XQA kernels take what 2 to 32 heads share a key head, and only where blocks of 128 keys fill a quarter of the
  chip; the masked attention kernel, which reads the keys for each head, takes the rest
  (https://github.com/NVIDIA/TensorRT-LLM, cpp/tensorrt_llm/kernels/decoderMaskedMultiheadAttention: `mayHavePerfGain`,
  decoderXQAConstants.h). Over 8-bit keys on Hopper and by the kernels for Blackwell the chip need not be filled.
- FlashAttention-2 in vLLM takes the heads of a key head together where there is no window.
- Triton's kernels take the head dimensions that no other kernel is made for; whether they skip what a window hides, or mask
  it, is left to the fit.
- TensorRT-LLM's 8-bit prefill on Ada and on the workstation's Blackwell has a kernel of its own for a head dimension of 128.

Prefill copies its keys and values into a cache first, as the tables' engines do; in decode the chip's cache is part of the
model. The base sets leave out decode over fewer than 128 keys, and without grouped heads on an A100 (kernels without a split
over the keys). Held back are two in five of the layouts (heads, key heads, head dimension), whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuplan.calibrate import knobs as knob_tables
from gpuplan.calibrate.fit import SOFT, FitResult, Predict, fit
from gpuplan.calibrate.knobs import Knob
from gpuplan.calibrate.table_rows import MOST_ROWS, NO_WINDOW, Rows, TableRow, attention_rows, latent_rows, table
from gpuplan.files.progress import steps

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gpuplan.calibrate.trial_chip import Chip
    from gpuplan.work import Dtype

FRAMEWORKS = {"tensorrt-llm": "TRTLLM", "vllm": "VLLM", "sglang": "SGLang"}
STORED = {"bf16": ("bfloat16", 2.0), "fp8": ("fp8", 1.0)}
PREFILL_TYPES = {"bf16": ("bfloat16", "bfloat16"), "bf16_on_fp8": ("bfloat16", "fp8"), "fp8": ("fp8", "fp8")}
"""How the tables name what is multiplied and what is stored."""
FEWEST = 12
MOST_ATTENTION = 4 * MOST_ROWS
"""Attention tables mix kernels, data types and windows."""
FEWEST_KEYS = 128
"""Shorter contexts than a page or a tile of keys tell of padding only."""
FEWEST_QUERIES = 64
"""Shorter prompts run as decode does."""
WIDTHS = (64, 128, 256)
"""Head dimensions that the base sets are fitted to: those of models in use, for which kernels are tuned."""
NO_TRAFFIC = 2e6
"""Fewer bytes take no time beside the start of a kernel."""
TILES = ({"rows": 64.0}, {"rows": 16.0}, {"rows": 16.0, "packs": 16.0})
"""Rows of queries that tensor cores take at once: 64 of a warp group, 16 of a warp; all heads of a key head, or a tile of them."""
APART = {"rows": 1.0, "packs": 1.0}
"""Heads by themselves, without a tile."""
PREFILL_TILES = ({"rows": 64.0}, {"rows": 128.0})


@dataclass(frozen=True)
class EngineKernels:
    """The kernels of an engine for one type, as the table names them, and what the first leaves to the second."""

    first: Sequence[str]
    leaves: Mapping[str, Any] = field(default_factory=dict)
    second: Sequence[str] = ()
    apart: bool = False
    """Whether the second one reads keys for each head by itself."""


_FLOW = ("torch_flow",)
_GROUPS = {"alone": 1, "beyond": 32}
_XQA = EngineKernels(_FLOW, {**_GROUPS, "idle": 0.25, "block_keys": 128}, _FLOW, apart=True)
_XQA_BUSY = EngineKernels(_FLOW, _GROUPS, _FLOW, apart=True)
_GENERATED = EngineKernels(_FLOW, {"beyond": 32}, _FLOW, apart=True)
_FLOW_PREFILL = dict.fromkeys(PREFILL_TYPES, EngineKernels(_FLOW))
_FA3 = EngineKernels(("vllm_flash_attn_fa3",))
_FA2 = EngineKernels(("vllm_flash_attn_fa2",), {"windows": True}, ("vllm_flash_attn_fa2",), apart=True)
_TRITON = ("triton",)
_VLLM_TRITON = ("vllm_triton_attn",)


def _but(first: str, *widths: int, windows: bool = False, second: Sequence[str] = _TRITON) -> EngineKernels:
    leaves: dict[str, Any] = {"widths": list(widths), **({"windows": True} if windows else {})}
    return EngineKernels((first,), leaves, second)


@dataclass(frozen=True)
class SystemKernels:
    """Which attention kernels of a system's tables stand for it, as the tables name them."""

    prefill: Mapping[str, Sequence[str]]
    decode: Mapping[str, Sequence[str]]
    engine_prefill: Mapping[str, Mapping[str, EngineKernels]]
    engine_decode: Mapping[str, Mapping[str, EngineKernels]]
    rows: float = 64.0
    """Queries of one tile of prefill, as far as the rows tell."""
    dims: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """Head dimensions where the other ones run on slower kernels, by place (`prefill.fp8`)."""
    grouped: bool = False
    """Whether only grouped heads have a decode kernel that splits the keys."""
    stream: str = ""


_WITH_FA3 = SystemKernels(
    {"bf16": ("vllm_flash_attn_fa3",), "fp8": ("fa3",)},
    {"bf16": ("vllm_flash_attn_fa3",), "fp8": ("vllm_flash_attn_fa3",)},
    {
        "tensorrt-llm": _FLOW_PREFILL,
        "vllm": {"bf16": _but("vllm_flash_attn_fa3", 512, second=("vllm_flash_attn_fa4",)), "bf16_on_fp8": _FA3},
        "sglang": {"bf16": _but("fa3", 512), "bf16_on_fp8": EngineKernels(_TRITON), "fp8": _but("fa3", 512)},
    },
    {
        "tensorrt-llm": {"bf16": _XQA, "fp8": _XQA_BUSY},
        "vllm": {"bf16": _but("vllm_flash_attn_fa3", 512, second=("vllm_flash_attn_fa4",)), "fp8": _FA3},
        "sglang": {"bf16": _but("fa3", 512), "fp8": _but("fa3", 512)},
    },
    dims={"decode.fp8": (128,)},
)
_WITH_FLASHINFER = SystemKernels(
    {"bf16": ("vllm_flash_attn_fa2",), "fp8": _FLOW},
    {"bf16": ("flashinfer",), "fp8": ("vllm_flashinfer_fidecode",)},
    {
        "tensorrt-llm": {**_FLOW_PREFILL, "fp8": _but("torch_flow", 64, 192, 256, second=_FLOW)},
        "vllm": {
            "bf16": EngineKernels(("vllm_flash_attn_fa2",)),
            "bf16_on_fp8": _but("vllm_flashinfer_fiprefill", 192, second=_VLLM_TRITON),
        },
        "sglang": {
            "bf16": _but("flashinfer", 64, 192), "bf16_on_fp8": _but("flashinfer", 64, 192), "fp8": EngineKernels(_TRITON),
        },
    },
    {
        "tensorrt-llm": {"bf16": _XQA, "fp8": _XQA},
        "vllm": {"bf16": _FA2, "fp8": _but("vllm_flashinfer_fidecode", 192, second=_VLLM_TRITON)},
        "sglang": {"bf16": _but("flashinfer", 64, 192), "fp8": _but("flashinfer", 64, 192)},
    },
    dims={"prefill.fp8": (128,)},
)  # fmt: skip
_BY_WINDOW = _but("flashinfer", 64, 192, 512, windows=True)
_WITH_FLASHINFER_BY_WINDOW = replace(
    _WITH_FLASHINFER,
    engine_prefill={
        **_WITH_FLASHINFER.engine_prefill,
        "sglang": {"bf16": _BY_WINDOW, "bf16_on_fp8": _BY_WINDOW, "fp8": EngineKernels(_TRITON)},
    },
    engine_decode={**_WITH_FLASHINFER.engine_decode, "sglang": {"bf16": _BY_WINDOW, "fp8": _BY_WINDOW}},
)
_DECODER, _PREFILLER = "vllm_flashinfer_trtllmdecode", "vllm_flashinfer_trtllmprefill"
_WITH_GENERATED = SystemKernels(
    {"bf16": (_PREFILLER,), "fp8": _FLOW},
    {"bf16": (_DECODER,), "fp8": (_DECODER,)},
    {
        "tensorrt-llm": _FLOW_PREFILL,
        "vllm": {"bf16": EngineKernels((_PREFILLER,)), "bf16_on_fp8": _but(_PREFILLER, 192, second=_VLLM_TRITON)},
        "sglang": {"bf16": _but("trtllm_mha", 192), "bf16_on_fp8": _but("flashinfer", 192, 256), "fp8": _but("trtllm_mha", 192)},
    },
    {
        "tensorrt-llm": {"bf16": _GENERATED, "fp8": _GENERATED},
        "vllm": {"bf16": EngineKernels((_DECODER,)), "fp8": _but(_DECODER, 192, second=_VLLM_TRITON)},
        "sglang": {"bf16": _but("trtllm_mha", 192), "fp8": _but("trtllm_mha", 192)},
    },
    rows=128.0,
)
_WITH_FLASH = SystemKernels(
    {"bf16": ("vllm_flash_attn",)},
    {"bf16": ("vllm_flash_attn",)},
    {
        "tensorrt-llm": {"bf16": EngineKernels(_FLOW)},
        "vllm": {"bf16": EngineKernels(("vllm_flash_attn",))},
        "sglang": {"bf16": EngineKernels(("flash_attention",))},
    },
    {
        "tensorrt-llm": {"bf16": _XQA},
        "vllm": {"bf16": EngineKernels(("vllm_flash_attn",))},
        "sglang": {"bf16": EngineKernels(("flash_attention",))},
    },
    stream="vidur-a100",
    grouped=True,
)
_XE_FLASH = EngineKernels(("vllm_flash_attn",))
_WITH_XE_FLASH = SystemKernels(
    {"bf16": ("vllm_flash_attn",)}, {"bf16": ("vllm_flash_attn",)},
    {"vllm": {"bf16": _XE_FLASH, "bf16_on_fp8": _XE_FLASH}}, {"vllm": {"bf16": _XE_FLASH, "fp8": _XE_FLASH}},
)  # fmt: skip
KERNELS: Mapping[str, SystemKernels] = {
    "h100_sxm": replace(_WITH_FA3, stream="vidur-h100"), "h200_sxm": _WITH_FA3, "a100_sxm": _WITH_FLASH, "l40s": _WITH_FLASHINFER,
    "rtx_pro_6000_server": _WITH_FLASHINFER_BY_WINDOW, "b200_sxm": _WITH_GENERATED, "b300_sxm": _WITH_GENERATED,
    "gb200": _WITH_GENERATED, "gb300": _WITH_GENERATED, "b60": _WITH_XE_FLASH,
}  # fmt: skip


def base_sets(folder: Path, system: str, chip: Chip) -> dict[str, FitResult]:
    """Prefill, decode and decode over a latent by data type, where no engine is named.

    Raises:
        UsageError: a table is missing or empty.
    """
    kernels, made = KERNELS[system], dict[str, FitResult | None]()
    rows = table(folder, system, "context_attention", most=MOST_ATTENTION)
    for dtype in steps(kernels.prefill, "prefill by data type fitted"):
        made[f"attention.prefill.{dtype}"] = _base(chip, rows, dtype, kernels, decode=False)
    rows = table(folder, system, "generation_attention", most=MOST_ATTENTION)
    for stored in steps(kernels.decode, "decode by data type fitted"):
        made[f"attention.decode.{stored}"] = _base(chip, rows, stored, kernels, decode=True)
    return {key: one for key, one in made.items() if one is not None}


def latent_sets(folder: Path, system: str, chip: Chip) -> dict[str, FitResult]:
    """Decode over the latent of MLA: of TensorRT-LLM as the base, and of each engine that has a table of it."""
    made: dict[str, FitResult] = {}
    if not (folder / f"{system}-generation_mla.csv").is_file():
        return made
    rows = table(folder, system, "generation_mla")
    for engine, framework in FRAMEWORKS.items():
        for stored in STORED:
            one = _latent(chip, rows, stored, framework)
            if one is not None:
                made[f"engines.{engine}.latent.{stored}"] = one
                made.setdefault(f"attention.latent.{stored}", one)
    return made


def engine_sets(folder: Path, system: str, chip: Chip) -> dict[str, FitResult]:
    """Prefill and decode of every engine and type that the tables hold.

    Raises:
        UsageError: a table is missing or empty.
    """
    kernels, made = KERNELS[system], dict[str, FitResult]()
    for section, name, engines in (
        ("prefill", "context_attention", kernels.engine_prefill), ("decode", "generation_attention", kernels.engine_decode),
    ):  # fmt: skip
        rows = table(folder, system, name, most=MOST_ATTENTION)
        for engine, types in steps(engines.items(), f"{section} of engines fitted"):
            theirs = [row for row in rows if row["framework"] == FRAMEWORKS[engine]]
            for kind, one in types.items():
                first, second = _two(chip, theirs, section, kind, one)
                if first is not None:
                    made[f"engines.{engine}.{section}.{kind}"] = replace(first, leaves=one.leaves if second is not None else {})
                if first is not None and second is not None:
                    made[f"engines.{engine}.{section}_beyond.{kind}"] = second
    return made


def _two(
    chip: Chip, rows: Sequence[TableRow], section: str, kind: str, kernels: EngineKernels
) -> tuple[FitResult | None, FitResult | None]:  # fmt: skip
    decode = section == "decode"
    multiplied, stored = ("bfloat16", STORED[kind][0]) if decode else PREFILL_TYPES[kind]
    first = attention_rows(rows, multiplied, stored, kernels.first)
    second = attention_rows(rows, multiplied, stored, kernels.second)
    mine = first.where(~left_rows(first, kernels.leaves, float(chip.units.value)))
    theirs = second.where(left_rows(second, kernels.leaves, float(chip.units.value)))
    given: dict[str, Any] = {
        "dtype": "fp8" if multiplied == "fp8" else "bf16", "stored": 2.0 if stored == "bfloat16" else 1.0, "decode": decode,
    }  # fmt: skip
    model: Predict = partial(chip.attention, **given)
    tiles: Sequence[Mapping[str, float]] = TILES if decode else PREFILL_TILES
    if not decode and _TRITON in (kernels.first, kernels.second):
        tiles = (*tiles, *({**one, "masks": 1.0} for one in tiles))
    own = _best(mine, model, tiles, decode=decode)
    other = _best(theirs, model, (APART,) if kernels.apart else tiles, decode=decode)
    # What an estimate takes a kernel for includes rows that the engine ran in yet another one.
    everything = attention_rows(rows, multiplied, stored, sorted({row["kernel_source"] for row in rows}))
    everything = everything.where(everything.held_back)
    left = left_rows(everything, kernels.leaves if other is not None else {}, float(chip.units.value))
    return _judged(own, everything.where(~left), model), _judged(other, everything.where(left), model)


def _judged(made: FitResult | None, rows: Rows, model: Predict) -> FitResult | None:
    """The fit with measured over predicted of all rows held back that an estimate prices by it."""
    if made is None:
        return None
    return replace(made, ratios=rows.seconds / model(rows, {key: one.value for key, one in made.values.items()}))


def _best(rows: Rows, model: Predict, tiles: Sequence[Mapping[str, float]], *, decode: bool) -> FitResult | None:
    """The fit with the tiles that meet the rows best that are not held back."""
    if len(rows) < FEWEST or not FEWEST < rows.held_back.sum() < len(rows) - FEWEST:
        return None
    free = knob_tables.DECODE_KNOBS if decode else knob_tables.PREFILL_KNOBS
    page = {"page": knob_tables.DECODE_FIXED["page"]} if decode else {}
    known = rows.where(~rows.held_back)
    found: list[tuple[float, FitResult]] = []
    for tile in tiles:
        made = fit(rows, free, {**{key: Knob(value, 1, 1) for key, value in tile.items()}, **page}, model)
        errors = np.log(model(known, {key: one.value for key, one in made.values.items()}) / known.seconds) / SOFT
        found.append((float(np.mean(np.sqrt(1 + errors * errors))), made))
    return min(found, key=lambda one: one[0])[1]


def left_rows(rows: Rows, leaves: Mapping[str, Any], units: float) -> NDArray[np.bool_]:
    """The rows that a kernel leaves to another one, as `gpuplan.machine.attention` decides it."""
    cols = rows.columns
    left = np.isin(cols["dim"], leaves.get("widths", ()))
    if leaves.get("windows"):
        left |= cols["window"] < NO_WINDOW
    share = cols["heads"] / np.maximum(cols["kv_heads"], 1)
    left |= (share <= leaves.get("alone", 0)) | (share > leaves.get("beyond", np.inf))
    if "idle" in leaves:
        blocks = cols["sequences"] * cols["kv_heads"] * np.maximum(cols["kv_len"] // leaves["block_keys"], 1)
        left |= blocks < leaves["idle"] * units
    return left


def _base(chip: Chip, rows: Sequence[TableRow], dtype: str, kernels: SystemKernels, *, decode: bool) -> FitResult | None:
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
    model = partial(chip.attention, dtype=kind, stored=element, decode=decode)
    if not decode:
        fixed = {**knob_tables.PREFILL_FIXED, "rows": Knob(kernels.rows, 1, 1)}
        flat = partial(chip.prefill_flat, dtype=kind, stored=element)
        return fit(picked, knob_tables.PREFILL_KNOBS, fixed, model, flat)
    flat = partial(chip.decode_flat, dtype=kind, stored=element)
    made = fit(picked, knob_tables.DECODE_KNOBS, knob_tables.DECODE_FIXED, model, flat)
    held = picked.where(picked.held_back)
    ratios = made.ratios[_far(chip, held, element)]
    big = made.ratios[_traffic(held, element) > 3 * chip.l2]
    error = float(np.median(np.abs(1 / big - 1))) if len(big) else None
    return replace(made, ratios=ratios, far_median_ape=error)


def _latent(chip: Chip, rows: Sequence[TableRow], dtype: str, framework: str) -> FitResult | None:
    stored, element = STORED[dtype]
    picked = latent_rows(rows, stored, framework)
    return _best(picked, partial(chip.latent, stored=element), (*TILES, APART), decode=True)


def _far(chip: Chip, rows: Rows, element: float) -> NDArray[np.bool_]:
    """Decode whose keys and values no cache holds from run to run, or so few that their traffic does not count."""
    size = _traffic(rows, element)
    return (size > 3 * chip.l2) | (size < NO_TRAFFIC)


def _traffic(rows: Rows, element: float) -> NDArray[np.float64]:
    """Bytes of keys and values that a decode reads."""
    cols = rows.columns
    seen = np.minimum(cols["kv_len"], cols["window"])
    return 2.0 * cols["sequences"] * cols["kv_heads"] * seen * cols["dim"] * element
