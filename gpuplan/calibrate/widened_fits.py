"""How is prefill fitted over keys and values that are widened from a latent (MLA), in each serving engine?

Its keys are wider than its values (192 and 128), which has kernels of its own or takes those of plain heads at another rate, and
beside it the latent is written into the cache, in its type. Held back are two in five of the layouts (heads, sequences), whole.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gpuplan.calibrate import knobs as knob_tables
from gpuplan.calibrate.attention_fits import FEWEST, FRAMEWORKS, PREFILL_TILES, PREFILL_TYPES, STORED
from gpuplan.calibrate.fit import FitResult, fit
from gpuplan.calibrate.knobs import Knob
from gpuplan.calibrate.table_rows import table, widened_rows
from gpuplan.errors import UsageError

if TYPE_CHECKING:
    from gpuplan.calibrate.trial_chip import Chip

KINDS = {"bf16": "bf16", "bf16_on_fp8": "fp8"}
"""The kinds of prefill that the tables hold, and what their caches store."""


def widened_sets(folder: Path, system: str, chip: Chip) -> dict[str, FitResult]:
    """Prefill over a widened latent of every engine that has a table of it; nothing where the system has none."""
    made: dict[str, FitResult] = {}
    try:
        rows = table(folder, system, "context_mla")
    except UsageError:
        return made
    for kind, stored in KINDS.items():
        for engine, framework in FRAMEWORKS.items():
            mine = widened_rows(rows, *PREFILL_TYPES[kind], framework)
            if len(mine) < FEWEST or not 0 < mine.held_back.sum() < len(mine):
                continue
            model, known = partial(chip.widened, stored=STORED[stored][1]), mine.where(~mine.held_back)
            found: list[tuple[float, FitResult]] = []
            for tile in PREFILL_TILES:
                one = fit(mine, knob_tables.PREFILL_KNOBS, {key: Knob(value, 1, 1) for key, value in tile.items()}, model)
                values = {key: each.value for key, each in one.values.items()}
                found.append((float(np.mean(np.abs(np.log(model(known, values) / known.seconds)))), one))
            made[f"engines.{engine}.widened.{kind}"] = min(found, key=lambda each: each[0])[1]
    return made
