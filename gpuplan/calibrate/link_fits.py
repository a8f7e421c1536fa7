"""How are the all-reduce kernels that serving engines bring along fitted, and where do they leave the work to the library?

Each engine has its own one- and two-shot kernels, and rules by which it gives larger messages or groups to NCCL (vLLM:
`should_custom_ar` and `CUSTOM_ALL_REDUCE_MAX_SIZES` in vllm/distributed/device_communicators of
https://github.com/vllm-project/vllm). Rows of tables show the one or the other. So the largest message and group that get the
kernel are found with its other parameters, beside the library's all-reduce, which is fitted before and stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gpuplan.calibrate import knobs as knob_tables
from gpuplan.calibrate.attention_fits import FEWEST
from gpuplan.calibrate.fit import FitResult, Parameter, errors_of, least_squares_values
from gpuplan.calibrate.knobs import Knob
from gpuplan.calibrate.table_rows import Rows, own_all_reduce_rows, table
from gpuplan.calibrate.trial_chip import Chip

if TYPE_CHECKING:
    from numpy.typing import NDArray

KERNELS: Mapping[str, tuple[str, ...]] = {
    "vllm": ("vLLM_custom",), "sglang": ("SGLang_CustomAllReduce",), "tensorrt-llm": ("TRTLLM",),
}  # fmt: skip
"""How the tables call the kernels of each engine."""
PAIRS = ("vllm", "sglang")
"""Engines that have a kernel for two accelerators without a switch."""
BASE = "vllm"
"""Whose kernel stands for engines that have not been measured."""
BOUNDS = tuple(1.5 * 2.0**power for power in range(19, 26))
"""Where the largest message may lie that an engine gives to its own kernel: between neighbouring sizes of the tables."""
KNOBS = {key: knob for key, knob in knob_tables.COLLECTIVE_KNOBS.items() if key not in ("switch", "ramp")}
SMALL = 2.0**17
"""Messages up to this take the accelerators less than the host needs to call for them."""
SOFT = 0.1
ALIKE = 0.05
"""Losses that differ by less than a row of ordinary error do not tell bounds apart: then the one that bounds least is taken."""


def own_all_reduces(
    folder: Path, system: str, chip: Chip, library: Mapping[str, float], *, switched: bool = True
) -> dict[str, FitResult]:  # fmt: skip
    """The kernel of each engine on a system's own links; `library` is the fit of NCCL's all-reduce on them.

    Not `switched`: the accelerators hang on PCIe, where vLLM and SGLang run theirs with two of them, and TensorRT-LLM has none.

    Raises:
        UsageError: the table is missing or empty.
    """
    made: dict[str, FitResult] = {}
    rows = table(folder, system, "custom_allreduce")
    for engine, names in KERNELS.items():
        mine = own_all_reduce_rows(rows, names)
        if not switched:
            mine = mine.where((mine.columns["group"] <= 2) & (engine in PAIRS))
        found = fit_one(chip, mine, library)
        calls = own_all_reduce_rows(rows, names, graphs=False)
        calls = calls.where(~calls.held_back & (calls.columns["size"] <= SMALL))
        if found is not None and len(calls):
            issue = Parameter(float(np.median(calls.seconds)), "s")
            found = replace(found, values={**found.values, "issue": issue})
        if found is not None:
            made["collective.custom_all_reduce" if engine == BASE and switched else f"collective.engines.{engine}"] = found
    return made


def fit_one(chip: Chip, rows: Rows, library: Mapping[str, float]) -> FitResult | None:
    """The parameters of one kernel with its bounds, and the errors on all messages held back, the library's among them."""
    if len(rows) < FEWEST:
        return None
    groups = sorted(set(rows.columns["group"].tolist()))
    known, held = rows.where(~rows.held_back), rows.where(rows.held_back)
    tried: list[tuple[float, dict[str, float]]] = []
    for most, up_to in product(groups, BOUNDS):
        bounds = {"most_ranks": most, "up_to": up_to}
        model = partial(_predict, chip, library, most)
        values = least_squares_values(known, KNOBS, {key: Knob(value, value, value) for key, value in bounds.items()}, model)
        errors = np.log(model(known, values) / known.seconds) / SOFT
        tried.append((float(np.sum(np.sqrt(1 + errors**2))), values))
    least, best = min(tried, key=lambda one: one[0])
    alike = [one for loss, one in tried if loss <= least + ALIKE and one["most_ranks"] == best["most_ranks"]]
    values = max(alike, key=lambda one: one["up_to"])
    most = values["most_ranks"]
    ratios = held.seconds / _predict(chip, library, most, held, values)
    units = {**knob_tables.units_of(KNOBS), "most_ranks": "1", "up_to": "B"}
    fixed = {"ramp": Parameter(0.0, "s"), "switch": Parameter(1.0, "B"), "ranks": Parameter(most, "1")}
    return FitResult(
        values={**{key: Parameter(value, units[key]) for key, value in values.items()}, **fixed}, software=rows.software,
        rows_fitted=len(known), rows_held_back=len(held), errors=errors_of(ratios), ratios=ratios,
    )  # fmt: skip


def _predict(chip: Chip, library: Mapping[str, float], most: float, rows: Rows, values: Mapping[str, float]) -> NDArray[np.float64]:
    return chip.custom(rows, {"ramp": 0.0, **values}, most, library)
