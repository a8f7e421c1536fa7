"""What does a product take, and what the kernels that quantise its input, where tables time both and these by themselves too?

`gemm` times a product with the quantisation of its left matrix, `computescale` the search of its scale and `scale_matrix` its
division (https://github.com/ai-dynamo/aiconfigurator, aic-core/src/aiconfigurator_core/systems/data/<system>/quantize). The
difference is the product, which is what serving waits for where a norm before it quantises. Products are fitted to the difference
and quantisation to its own tables; both together are judged on whole rows of weight shapes that no fit saw.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gpuplan.calibrate import knobs as knob_tables
from gpuplan.calibrate.fit import FitResult, Parameter, Predict, errors_of, fit
from gpuplan.calibrate.knobs import Knob
from gpuplan.calibrate.table_rows import Rows, held_back, numbers, table
from gpuplan.errors import UsageError
from gpuplan.formulas.kernels import quantise_seconds

if TYPE_CHECKING:
    from numpy.typing import NDArray

SEARCH, DIVISION = "computescale", "scale_matrix"
"""The tables of the kernels that quantise."""
FRAMEWORKS = ("TRTLLM",)
"""Whose linear layers run these very kernels; those of the others' tables take longer than half of their whole linear layers."""


@dataclass(frozen=True)
class Quantising:
    """Seconds of quantising a left matrix of `m` rows and `k` columns, as measured by itself, by (m, k)."""

    seconds: Mapping[tuple[float, float], float]

    @classmethod
    def of(cls, folder: Path, system: str, framework: str, dtype: str) -> Quantising | None:
        """Of one framework and type (as the tables call them); None where it was not timed by itself."""
        if framework not in FRAMEWORKS:
            return None
        found: list[dict[tuple[float, float], float]] = []
        for name in (SEARCH, DIVISION):
            try:
                rows = table(folder, system, name)
            except UsageError:
                return None
            mine = [row for row in rows if row["framework"] == framework and row["quant_dtype"] == dtype]
            cells = zip(numbers(mine, "m").tolist(), numbers(mine, "k").tolist(), numbers(mine, "latency").tolist(), strict=True)
            found.append({(m, k): 1e-3 * latency for m, k, latency in cells})
        both = {key: one + found[1][key] for key, one in found[0].items() if key in found[1]}
        return cls(both) if both else None

    def rows(self) -> Rows:
        """What was measured, as rows of which two in five lengths are held back."""
        m, k = np.array(list(self.seconds)).T
        return Rows({"m": m, "k": k}, np.array(list(self.seconds.values())), held_back([k]), "")

    def before(self, rows: Rows) -> NDArray[np.float64]:
        """What of each row of products is quantising; nan where it was not measured."""
        keys = zip(rows.columns["m"].tolist(), rows.columns["k"].tolist(), strict=True)
        return np.array([self.seconds.get(key, np.nan) for key in keys])


def apart(
    rows: Rows, quantising: Quantising, bandwidth: float, model: Predict, knobs: Mapping[str, Knob], fixed: Mapping[str, Knob],
    soft: float,
) -> FitResult | None:  # fmt: skip
    """The parameters of a product and of its quantisation, each from its own times; None where too few rows are measured apart."""
    before = quantising.before(rows)
    alone = rows.seconds - before
    known = np.isfinite(alone) & (alone > 0)
    if not 0 < (known & rows.held_back).sum() < known.sum():
        return None
    bare = replace(rows, seconds=alone).where(known)
    product = fit(bare, knobs, fixed, model, soft=soft)
    quantised = fit(quantising.rows(), knob_tables.QUANTISE_APART, {}, partial(quantise_row_seconds, bandwidth))
    values: dict[str, Parameter] = {**product.values, **quantised.values}
    held = rows.where(rows.held_back & known)
    ratios = held.seconds / model(held, {key: one.value for key, one in values.items()})
    return replace(product, values=values, ratios=ratios, errors=errors_of(ratios), flat_median_ape=None)


def quantise_row_seconds(bandwidth: float, rows: Rows, values: Mapping[str, float]) -> NDArray[np.float64]:
    """Seconds of quantising by itself, as a matmul's price has it."""
    made = quantise_seconds(
        m=rows.columns["m"], k=rows.columns["k"], batch=1.0, element_bytes=values["quantise"], bandwidth=bandwidth,
        row=values["quantise_row"], start=values["quantise_start"],
    )  # fmt: skip
    return np.asarray(made)
