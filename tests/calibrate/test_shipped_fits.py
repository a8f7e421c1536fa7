"""Do estimates through an engine take the very parameters that were fitted to its kernels?"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from gpuplan.calibrate import knobs
from gpuplan.calibrate.expert_fits import GEMMS as EXPERTS
from gpuplan.calibrate.expert_fits import STORED_ONLY
from gpuplan.calibrate.row_seconds import matmul_row_seconds, shape_term
from gpuplan.calibrate.table_fits import FRAMEWORKS
from gpuplan.calibrate.table_fits import GEMMS as LINEARS
from gpuplan.calibrate.trial_chip import Chip
from gpuplan.machine.build import hardware_of
from gpuplan.machine.price import matmul_seconds
from gpuplan.specs.accelerator import Accelerator
from gpuplan.specs.catalog import Catalog
from gpuplan.specs.measured import MatmulFit, Measured
from gpuplan.specs.on import parse_target
from gpuplan.specs.quantity import Sourced
from gpuplan.work import Matmul
from tests.sweeps import each

CATALOG = Catalog.open()
UNITS = knobs.units_of(knobs.TABLE_KNOBS, knobs.MATMUL_FIXED, knobs.QUANTISE_APART, knobs.ISSUE, knobs.ZEROED)
SHAPES = {"m": np.array([1.0, 17.0, 300.0, 8192.0]), "n": np.array([128.0, 4096.0, 1000.0, 28672.0]),
          "k": np.array([65536.0, 4096.0, 500.0, 8192.0]), "elsewhere": np.array([0.0, 7.0, 2100.0, 50000.0])}  # fmt: skip
SETS = {"matmul": {gemm.kind or gemm.dtype: gemm for gemm in LINEARS}, "grouped": {**EXPERTS, **STORED_ONLY},
        "grouped_few": dict(EXPERTS), "grouped_ungated": dict(EXPERTS)}  # fmt: skip


def shipped() -> Iterator[tuple[str, str, str, str, MatmulFit]]:
    """Every set that a shipped file has of a serving engine's products: chip, engine, section and kind.

    Families lend what was not fitted to tables.
    """
    for ident, path in CATALOG.paths("measured").items():
        file = CATALOG.read(Measured, path)
        if file.describes == "family":
            continue
        for engine in FRAMEWORKS:
            for section in SETS if engine in file.engines else ():
                for kind, fit in getattr(file.engines[engine], section).items():
                    yield ident, engine, section, kind, fit


@each("ident, engine, section, kind, fitted", shipped())
def test_what_ships_is_what_was_fitted(ident: str, engine: str, section: str, kind: str, fitted: MatmulFit) -> None:
    gemm = SETS[section][kind]
    grouped = section.startswith("grouped")
    values = {key: one.value for key in MatmulFit.field_names() if isinstance(one := getattr(fitted, key), Sourced)}
    like = CATALOG.read(Measured, CATALOG.paths("measured")[ident]).like
    stand_in = CATALOG.load(Accelerator, like) if like in CATALOG.paths("accelerators") else None
    chip = Chip.of(CATALOG.load(Accelerator, ident), stand_in=stand_in)
    place = "grouped" if grouped else "matmul"
    trial = chip.hardware({f"{place}.{gemm.dtype}.{key}": (values[key], UNITS[key]) for key in values if key in UNITS})
    wanted = matmul_row_seconds(SHAPES, trial, dtype=gemm.dtype, left=gemm.left, right=gemm.right, grouped=grouped)
    asked = ("mxfp4",) if kind.endswith("_a8") else ()
    hw = hardware_of(parse_target(ident, CATALOG), catalog=CATALOG, engine=engine, eight_bit_inputs=asked)
    item = Matmul(
        name="row", **{key: shape_term(key, column) for key, column in SHAPES.items()}, batch=shape_term("batch", 1.0),
        dtype=gemm.dtype, left_bytes=shape_term("left", gemm.left, "B"), right_bytes=shape_term("right", gemm.right, "B"),
        out_bytes=shape_term("out", 2.0, "B"), grouped=grouped, blocked=kind.endswith("_block"), micro=kind.startswith("mxfp4"),
        tokens=shape_term("tokens", values.get("most_tokens", 1e6)), ungated=section == "grouped_ungated",
    )  # fmt: skip
    assert matmul_seconds(item, hw).value == pytest.approx(wanted, rel=1e-9)


def test_every_engine_has_sets_of_its_own() -> None:
    found = {(ident, engine, section) for ident, engine, section, _, _ in shipped()}
    for ident in (
        "h100-sxm-80gb",
        "h200-sxm-141gb",
        "a100-sxm-80gb",
        "l40s",
        "b200-sxm-180gb",
        "b300-sxm-270gb",
        "gb200-186gb",
        "gb300-279gb",
    ):
        for engine in FRAMEWORKS:
            assert {(ident, engine, section) for section in ("matmul", "grouped")} <= found, (ident, engine)
