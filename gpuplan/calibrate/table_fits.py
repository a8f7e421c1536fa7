"""How are the tables of one measured system fitted, kind by kind, to the measured file of its accelerator?

`fit_system(folder, …)` reads the CSV tables (see `rows`) and gives every set of parameters with its errors; `write` prints
them as YAML. Choices that a reader should know:

- The base matmul parameters are those of plain library linears; 8- and 4-bit ones of TensorRT-LLM's, whose tables time the
  quantisation of the activations too. What an engine's own kernels do differently stands under `engines`.
- TensorRT-LLM's fp8 linears are fitted apart from the kernels that quantise their input (`quantise_fits`).
- Weight-only matmuls are TensorRT's, which were started one by one (9 us more than others): that start is TensorRT-LLM's own, and
  the base set, which other engines take, starts as 16-bit matmuls do.
- Attention is in `attention_fits`; streams are fitted to the residual add of vidur's layer tables.
- Matmuls were timed again and again, so that a cache may have served them, and some without a graph, so that they waited for the
  host: that is part of the model (`reach`, `near`, `issue`), and no estimate counts on it.
- Held back are two in five of the weight shapes (matmuls) and of the sizes by ranks (collectives).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuplan.calibrate import attention_fits, link_fits
from gpuplan.calibrate import knobs as knob_tables
from gpuplan.calibrate.attention_fits import FEWEST, FRAMEWORKS, KERNELS
from gpuplan.calibrate.batched_fits import batched_sets
from gpuplan.calibrate.encoder_fits import encoder_sets
from gpuplan.calibrate.fit import FitResult, errors_of, fit
from gpuplan.calibrate.knobs import Knob
from gpuplan.calibrate.quantise_fits import Quantising, apart
from gpuplan.calibrate.table_rows import (
    Rows,
    TableRow,
    collective_rows,
    matmul_rows,
    stream_rows,
    table,
)
from gpuplan.calibrate.trial_chip import Chip
from gpuplan.calibrate.widened_fits import widened_sets
from gpuplan.files.progress import steps

if TYPE_CHECKING:
    from gpuplan.specs.accelerator import Accelerator
    from gpuplan.work import CollectiveKind, Dtype

LINEARS = tuple(FRAMEWORKS.values())
NCCL: Mapping[CollectiveKind, str] = {
    "all_reduce": "all_reduce", "all_gather": "all_gather", "reduce_scatter": "reduce_scatter", "all_to_all": "alltoall",
}  # fmt: skip
STREAMS = ("add", "mlp_act", "input_layernorm", "attn_rope")
CLEAR = 9.5e-6
"""Times in steps of 1 us say little below."""
POOR = 0.2
"""A set with a larger median error does not speak for the residual of its kind; its own `fit` tells."""
GRAPHS = 4e-5
"""A kernel in a graph starts faster: where the table has more, the host started each by itself, and what it took is told apart."""
UNTOLD = ("start", "walk", "split", "memory_efficiency", "unhidden", "reach", "near")
"""What tells in kernels of few rows alone: where all of them waited for the host, the kernels of the base set speak for it."""
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
STORED_ONLY = (Gemm("fp8", "bf16", 2.0, 1.0, False, (), "int8_wo"),)
"""What engines run where a chip does not multiply a type: kernels that widen the weights on the way."""


def gemms_of(chip: Chip) -> tuple[Gemm, ...]:
    """The kinds of matmul that a chip has."""
    return (*(gemm for gemm in GEMMS if gemm.dtype in chip.peaks), *(STORED_ONLY if "fp8" not in chip.peaks else ()))


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

    def engine_spreads(self) -> dict[str, tuple[float, float]]:
        """The same of each engine's attention and experts, of all its kernels and types, by its place in the measured file."""
        ratios: dict[str, list[Any]] = {}
        for key, made in self.sets.items():
            top, _, place = key.partition(".")
            engine, _, rest = place.partition(".")
            section = rest.partition(".")[0].removesuffix("_beyond").removesuffix("_few")
            if top == "engines" and section in ("prefill", "decode", "grouped"):
                ratios.setdefault(f"engines.{engine}.residual.{section}", []).append(made.ratios)
        ends = {place: np.quantile(np.concatenate(each), [0.1, 0.9]) for place, each in ratios.items()}
        return {place: (float(low), float(high)) for place, (low, high) in ends.items()}


def fit_matmuls(folder: Path, system: str, chip: Chip) -> Fitted:
    """The matmul parameters of each data type, pooled over engines and of each engine.

    Raises:
        UsageError: the table is missing or empty.
    """
    made = Fitted()
    rows = table(folder, system, "gemm")
    for gemm in steps(gemms_of(chip), "kinds of matmul fitted"):
        kind = gemm.kind or gemm.dtype
        base = _matmul(chip, rows, gemm, gemm.frameworks)
        if base is not None and gemm.kind.endswith("_wo"):
            start = made.sets[f"matmul.{gemm.dtype}"].values["start"]
            _add(made, f"matmul.{kind}", replace(base, values={**base.values, "start": start}))
        else:
            _add(made, f"matmul.{kind}", base)
        for engine, framework in FRAMEWORKS.items():
            by_itself = Quantising.of(folder, system, framework, gemm.table) if gemm.quantised else None
            own = _matmul(chip, rows, gemm, (framework,), base, by_itself)
            _add(made, f"engines.{engine}.matmul.{kind}", own)
    made.sets |= batched_sets(folder, system, chip)
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
    """The parameters of attention by data type, of the machine and of each engine, with the ranges of the engines.

    Raises:
        UsageError: a table is missing or empty.
    """
    parts = (attention_fits.base_sets, attention_fits.latent_sets, attention_fits.engine_sets, encoder_sets, widened_sets)
    return Fitted({key: one for part in parts for key, one in part(folder, system, chip).items()})


def fit_links(folder: Path, system: str, chip: Chip, *, switched: bool = True) -> Fitted:
    """The parameters of the collectives on a system's own links, of the library and of each engine; `switched`: they are no PCIe.

    Raises:
        UsageError: the table is missing or empty.
    """
    made = Fitted()
    rows = table(folder, system, "nccl")
    for kind, name in NCCL.items():
        _add(made, f"collective.{kind}", _collective(chip, collective_rows(rows, name), kind))
    made.sets["collective.transfer"] = made.sets["collective.all_to_all"]  # two ranks exchanging is the nearest to point to point
    library = {key: one.value for key, one in made.sets["collective.all_reduce"].values.items()}
    made.sets |= link_fits.own_all_reduces(folder, system, chip, library, switched=switched)
    return made


def _add(made: Fitted, key: str, outcome: FitResult | None, worst: float = 1.0) -> None:
    if outcome is not None and outcome.errors.median_ape < worst:
        made.sets[key] = outcome


def _matmul(
    chip: Chip, rows: Sequence[TableRow], gemm: Gemm, frameworks: Sequence[str], base: FitResult | None = None,
    quantising: Quantising | None = None,
) -> FitResult | None:  # fmt: skip
    """The parameters of the linear layers of some frameworks; what a table without graphs does not tell is that of `base`."""
    picked = matmul_rows(rows, gemm.table, frameworks)
    if len(picked) < FEWEST or not 0 < picked.held_back.sum() < len(picked):
        return None
    knobs: dict[str, Knob] = {**knob_tables.TABLE_KNOBS, **(knob_tables.QUANTISE if gemm.quantised else {})}
    given: dict[str, Any] = {"dtype": gemm.dtype, "left": gemm.left, "right": gemm.right}
    model, flat = partial(chip.matmul, **given), partial(chip.matmul_flat, **given)
    if quantising is not None:
        bandwidth = float(chip.bandwidth.value)
        return apart(picked, quantising, bandwidth, model, knob_tables.TABLE_KNOBS, knob_tables.MATMUL_FIXED, FINE)
    made = fit(picked, knobs, knob_tables.MATMUL_FIXED, model, flat, soft=FINE)
    if made.values["start"].value <= GRAPHS:
        return made
    if base is None:
        return None
    told = {key: knob for key, knob in knobs.items() if key not in UNTOLD}
    fixed = {**knob_tables.MATMUL_FIXED, **{key: knobs[key].replaced(start=base.values[key].value) for key in UNTOLD}}
    made = fit(picked, {**told, **knob_tables.ISSUE}, fixed, model, flat, soft=FINE)
    # Rows that all took what the host did tell nothing of the kernel.
    longer = picked.seconds > 2 * made.values["issue"].value
    return made if longer.sum() >= 10 * FEWEST else None


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
