"""How is attention without a mask fitted, which encoders of images and sound run in each serving engine?

Its kernels fill no cache, and their heads are as wide as no text model's (72, 80), so that what they pad counts: head dimensions
are taken in whole multiples of `array`, queries in tiles of `rows`. Both are chosen by the rows that are not held back, and so is
whether widths that fill no instruction take a kernel of their own (TensorRT-LLM on Blackwell and Triton take five times). Held back
are two in five of the layouts (heads, head dimension), whole.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from gpuplan.calibrate import knobs as knob_tables
from gpuplan.calibrate.attention_fits import FEWEST, FRAMEWORKS
from gpuplan.calibrate.fit import FitResult, Predict, fit
from gpuplan.calibrate.knobs import Knob
from gpuplan.calibrate.table_rows import Rows, encoder_rows, table
from gpuplan.errors import UsageError
from gpuplan.files.progress import steps

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gpuplan.calibrate.trial_chip import Chip

ROWS, ARRAYS = (64.0, 128.0), (8.0, 32.0, 64.0)
"""Queries that are taken together, and the multiples that head dimensions are padded to."""
INSTRUCTION = 16
"""Head dimensions that are no multiple of what one instruction multiplies may take another kernel, or one that masks its loads."""
APART = 0.7
"""Two kernels are told apart where they leave less than this share of the error of one."""
NO_CACHE = ("append", "per_token")
"""What filling a cache takes."""


def encoder_sets(folder: Path, system: str, chip: Chip) -> dict[str, FitResult]:
    """Attention without a mask of every engine that has a table of it; nothing where the system has none."""
    made: dict[str, FitResult] = {}
    try:
        rows = table(folder, system, "encoder_attention")
    except UsageError:
        return made
    for engine, framework in steps(FRAMEWORKS.items(), "encoders of engines fitted"):
        mine = encoder_rows(rows, "bfloat16", framework)
        model = partial(chip.encoder, dtype="bf16")
        one, odd = _best(mine, model), mine.columns["dim"] % INSTRUCTION > 0
        if one is None:
            continue
        even, other = _best(mine.where(~odd), model), _best(mine.where(odd), model)
        place, beyond = f"engines.{engine}.encoder.bf16", f"engines.{engine}.encoder_beyond.bf16"
        if even is None or other is None or _off(mine, ~odd, even, other, model) > APART * _off(mine, ~odd, one, one, model):
            made[place] = one
        else:
            made[place] = replace(even, leaves={"widths": sorted({int(width) for width in mine.columns["dim"][odd]})})
            made[beyond] = other
    return made


def _best(rows: Rows, model: Predict) -> FitResult | None:
    """The fit with the tiles that meet the rows best that are not held back."""
    if len(rows) < FEWEST or not 0 < rows.held_back.sum() < len(rows):
        return None
    knobs = {key: knob for key, knob in knob_tables.PREFILL_KNOBS.items() if key not in NO_CACHE}
    none = {key: knob_tables.PREFILL_KNOBS[key].replaced(start=0.0) for key in NO_CACHE}
    every = np.ones(len(rows), dtype=bool)
    found = [
        fit(rows, knobs, {**none, "rows": Knob(height, 1, 1), "array": Knob(array, 1, 1)}, model)
        for height, array in product(ROWS, ARRAYS)
    ]
    return min(found, key=lambda one: _off(rows, every, one, one, model))


def _off(rows: Rows, mask: NDArray[np.bool_], one: FitResult, other: FitResult, model: Predict) -> float:
    """How far off two fits are on the whole, each on its side of a mask, on the rows that they have seen."""
    total = 0.0
    for made, part in ((one, mask), (other, ~mask)):
        known = rows.where(part & ~rows.held_back)
        values = {key: each.value for key, each in made.values.items()}
        total += float(np.sum(np.abs(np.log(model(known, values) / known.seconds))))
    return total / float((~rows.held_back).sum())
