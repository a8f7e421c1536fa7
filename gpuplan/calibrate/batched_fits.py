"""How are the products fitted that every head has for itself, which lead into the latent of MLA and out of it?

One call multiplies a matrix for each head (DeepSeek-V2, arXiv 2405.04434, 2.1.2: 128 by 512 elements), of a library's batched
kernels and not of those for linear layers. Held back are two in five of the numbers of heads, whole, of each direction.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuplan.calibrate import knobs as knob_tables
from gpuplan.calibrate.attention_fits import FEWEST, FRAMEWORKS
from gpuplan.calibrate.fit import FitResult, fit
from gpuplan.calibrate.table_rows import head_product_rows, table
from gpuplan.errors import UsageError

if TYPE_CHECKING:
    from gpuplan.calibrate.trial_chip import Chip
    from gpuplan.work import Dtype

KINDS: dict[str, tuple[str, Dtype, float]] = {"bf16": ("bfloat16", "bf16", 2.0), "fp8_block": ("fp8", "fp8", 1.0)}
"""How the table names a kind, the type that is multiplied, and the bytes of an element."""


def batched_sets(folder: Path, system: str, chip: Chip) -> dict[str, FitResult]:
    """Products by heads of every engine that has a table of them; nothing where the system has none."""
    made: dict[str, FitResult] = {}
    try:
        rows = table(folder, system, "mla_bmm")
    except UsageError:
        return made
    for kind, (name, dtype, element) in KINDS.items():
        for engine, framework in FRAMEWORKS.items() if dtype in chip.peaks else ():
            mine = head_product_rows(rows, name, framework)
            if len(mine) < FEWEST or not 0 < mine.held_back.sum() < len(mine):
                continue
            given: dict[str, Any] = {"dtype": dtype, "left": element, "right": element}
            knobs = {**knob_tables.MATMUL_KNOBS, **knob_tables.REPLAYED, **(knob_tables.QUANTISE if dtype == "fp8" else {})}
            made[f"engines.{engine}.batched.{kind}"] = fit(mine, knobs, knob_tables.MATMUL_FIXED, partial(chip.matmul, **given))
    return made
