"""Does the fit recover a known machine, and do the shipped parameters meet rows that no fit has seen?"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpuplan.calibrate import knobs
from gpuplan.calibrate.attention_fits import KERNELS, STORED, WIDTHS
from gpuplan.calibrate.fit import fit
from gpuplan.calibrate.measured_file import table_set
from gpuplan.calibrate.replace_blocks import rewritten
from gpuplan.calibrate.table_fits import GEMMS, LINEARS, NCCL, fit_system
from gpuplan.calibrate.table_rows import NO_WINDOW, Rows, TableRow, attention_rows, collective_rows, matmul_rows, table
from gpuplan.calibrate.trial_chip import Chip
from gpuplan.errors import UsageError
from gpuplan.machine.build import hardware_of
from gpuplan.machine.price import attention_seconds, collective_seconds, matmul_seconds
from gpuplan.specs.accelerator import Accelerator
from gpuplan.specs.base import load_spec
from gpuplan.specs.catalog import Catalog
from gpuplan.specs.measured import Measured
from gpuplan.specs.on import parse_target
from gpuplan.term import USER, Term
from gpuplan.work import Attention, Collective, CollectiveKind, Dtype, Matmul
from gpuplan.yaml_text import yaml_lines

CATALOG = Catalog.open()
ROOT = Path(__file__).parents[2]
SAMPLES = ROOT.parent / "shared" / "data" / "kernels"
SYSTEMS = {"h100_sxm": "dgx-h100", "h200_sxm": "dgx-h200", "a100_sxm": "dgx-a100-640gb", "l40s": "8xl40s", "b200_sxm": "dgx-b200"}
with_samples = pytest.mark.skipif(not SAMPLES.is_dir(), reason="the measured samples do not lie beside the checkout")


def test_a_fake_device_is_recovered() -> None:
    chip = Chip.of(CATALOG.load(Accelerator, "h100-sxm-80gb"))
    dice = np.random.default_rng(1)
    cols = {key: np.exp2(dice.integers(low, 15, 400)).astype(float) for key, low in (("m", 0), ("n", 9), ("k", 9))}
    truth = {
        "efficiency": 0.7, "memory_efficiency": 0.8, "start": 5e-6, "unhidden": 0.3, "tail": 0.2, "throttle": 0.0, "settle": 1e-3,
        "short_depth": 100.0, "walk": 2e-10, "fine": 0.1, "whole": 0.5, "tile_m": 64.0, "tile_n": 128.0,
    }  # fmt: skip
    rows = Rows(cols, np.ones(400), dice.random(400) < 0.4, "fake")
    rows = Rows(cols, chip.matmul(rows, truth, "bf16", 2.0, 2.0), rows.held_back, "fake")
    model = partial(chip.matmul, dtype="bf16", left=2.0, right=2.0)
    found = fit(rows, knobs.MATMUL_KNOBS, knobs.MATMUL_FIXED, model, partial(chip.matmul_flat, dtype="bf16", left=2.0, right=2.0))
    assert found.errors.median_ape < 0.005
    assert found.flat_median_ape is not None
    assert found.flat_median_ape > 0.1
    for key in ("efficiency", "memory_efficiency", "start", "unhidden"):
        assert found.values[key].value == pytest.approx(truth[key], rel=0.1), key


def test_a_missing_table_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"h100_sxm-gemm\.csv"):
        table(tmp_path, "h100_sxm", "gemm")
    (tmp_path / "h100_sxm-gemm.csv").write_text("m,n,k\n")
    with pytest.raises(UsageError, match="no rows"):
        table(tmp_path, "h100_sxm", "gemm")


def test_shapes_are_held_back_as_a_whole() -> None:
    rows = [
        TableRow(
            {"gemm_dtype": "bfloat16", "framework": "VLLM", "version": "1", "kernel_source": "x", "m": str(m), "n": str(n),
             "k": "512", "latency": "1"}
        )
        for m in (1, 64, 4096) for n in range(256, 8192, 256)
    ]  # fmt: skip
    made = matmul_rows(rows, "bfloat16", ("VLLM",))
    held = made.held_back.reshape(3, -1)
    assert (held == held[0]).all()
    assert 0.2 < held.mean() < 0.6


@with_samples
def test_the_samples_alone_give_a_file_that_loads(tmp_path: Path) -> None:
    chip = CATALOG.load(Accelerator, "h100-sxm-80gb")
    made = fit_system(SAMPLES, "h100_sxm", chip, 450e9)
    assert made.sets["matmul.bf16"].errors.median_ape < 0.10
    assert made.sets["collective.all_reduce"].errors.median_ape < 0.10
    shipped = (ROOT / "hardware_specs" / "measured" / "h100-sxm-80gb.yaml").read_text(encoding="utf-8")
    blocks = {place: list(yaml_lines(table_set(one, "aiconfigurator"))) for place, one in made.sets.items()}
    (tmp_path / "h100-sxm-80gb.yaml").write_text(rewritten(shipped, blocks), encoding="utf-8")
    loaded = load_spec(Measured, tmp_path / "h100-sxm-80gb.yaml")
    assert loaded.matmul["bf16"].efficiency.value == pytest.approx(made.sets["matmul.bf16"].values["efficiency"].value, rel=1e-3)
    assert loaded.collective is not None
    for kind in ("matmul", "attention.prefill", "attention.decode", "collective.all_reduce", "collective.all_to_all"):
        low, high = made.spread(kind) or (0.0, 0.0)
        assert 0.5 < low < 1.1 < 2 * high < 4, kind
    hw = hardware_of(parse_target("dgx-h100", CATALOG), loaded, catalog=CATALOG)
    assert hw.parameter("matmul.bf16.efficiency").value == loaded.matmul["bf16"].efficiency.value


def _given(value: Any, unit: str = "1") -> Term:
    return Term("given", value, unit, USER)


def _unseen(rows: Rows) -> Rows:
    return rows.where(rows.held_back)


def _error(predicted: Any, rows: Rows) -> float:
    return float(np.median(np.abs(np.asarray(predicted) / rows.seconds - 1)))


# The samples hold 10 to 90 rows of each kind that no fit has seen, so a budget is the measured error over the whole
# tables (in the files' `fit`) with room for a small sample.
MATMUL_BUDGET = {
    ("h100_sxm", "bf16"): 0.09, ("h200_sxm", "bf16"): 0.09, ("a100_sxm", "bf16"): 0.10, ("l40s", "bf16"): 0.12,
    ("b200_sxm", "bf16"): 0.11, ("h100_sxm", "fp8"): 0.07, ("h200_sxm", "fp8"): 0.07, ("b200_sxm", "fp8"): 0.08,
    ("l40s", "fp8"): 0.15, ("b200_sxm", "fp4"): 0.08, ("a100_sxm", "int8"): 0.12,
}  # fmt: skip


@with_samples
@pytest.mark.parametrize(("system", "dtype"), MATMUL_BUDGET)
def test_matmuls_held_back(system: str, dtype: Dtype) -> None:
    hw = hardware_of(parse_target(SYSTEMS[system], CATALOG), catalog=CATALOG)
    gemm = next(gemm for gemm in GEMMS if gemm.dtype == dtype)
    rows = _unseen(matmul_rows(table(SAMPLES, system, "gemm"), gemm.table, LINEARS if dtype == "bf16" else gemm.frameworks))
    cols = rows.columns
    assert len(rows) >= 3
    item = Matmul(
        name="row", m=_given(cols["m"]), n=_given(cols["n"]), k=_given(cols["k"]), batch=_given(1.0),
        dtype=dtype, left_bytes=_given(gemm.left, "B"), right_bytes=_given(gemm.right, "B"), out_bytes=_given(2.0, "B"),
    )  # fmt: skip
    assert _error(matmul_seconds(item, hw, replayed=True).value, rows) <= MATMUL_BUDGET[system, dtype]


ATTENTION_BUDGET = {
    ("h100_sxm", "prefill"): 0.08, ("h200_sxm", "prefill"): 0.08, ("a100_sxm", "prefill"): 0.08, ("l40s", "prefill"): 0.09,
    ("b200_sxm", "prefill"): 0.08, ("h100_sxm", "decode"): 0.10, ("h200_sxm", "decode"): 0.10, ("a100_sxm", "decode"): 0.10,
    ("l40s", "decode"): 0.10, ("b200_sxm", "decode"): 0.10,
}  # fmt: skip


@with_samples
@pytest.mark.parametrize(("system", "phase"), ATTENTION_BUDGET)
def test_attention_held_back(system: str, phase: str) -> None:
    hw = hardware_of(parse_target(SYSTEMS[system], CATALOG), catalog=CATALOG)
    decode = phase == "decode"
    names = (KERNELS[system].decode if decode else KERNELS[system].prefill)["bf16"]
    stored, element = STORED["bf16"]
    rows = attention_rows(table(SAMPLES, system, "generation_attention" if decode else "context_attention"), stored, stored, names)
    cols = rows.columns
    mask = np.minimum(cols["kv_len"], cols["window"]) >= 128 if decode else (cols["q_len"] >= 64) & (cols["window"] >= NO_WINDOW)
    if KERNELS[system].grouped and decode:
        mask &= cols["heads"] > cols["kv_heads"]
    rows = _unseen(rows.where(mask & np.isin(cols["dim"], WIDTHS)))
    assert len(rows) >= 3
    cols = rows.columns
    item = Attention(
        name="row", sequences=_given(cols["sequences"]), q_len=_given(cols["q_len"]), kv_len=_given(cols["kv_len"]),
        heads=_given(cols["heads"]), kv_heads=_given(cols["kv_heads"]), k_dim=_given(cols["dim"]), v_dim=_given(cols["dim"]),
        kv_element_bytes=_given(element, "B"), dtype="bf16", causal=True, window=_given(cols["window"]), appends=not decode,
    )  # fmt: skip
    assert _error(attention_seconds(item, hw, replayed=True).value, rows) <= ATTENTION_BUDGET[system, phase]


@with_samples
@pytest.mark.parametrize("system", ["h100_sxm", "h200_sxm", "a100_sxm", "b200_sxm"])
@pytest.mark.parametrize("kind", NCCL)
def test_collectives_held_back(system: str, kind: CollectiveKind) -> None:
    hw = hardware_of(parse_target(SYSTEMS[system], CATALOG), catalog=CATALOG)
    rows = _unseen(collective_rows(table(SAMPLES, system, "nccl"), NCCL[kind]))
    cols = rows.columns
    item = Collective(name="row", kind=kind, size=_given(cols["size"], "B"), group=_given(cols["group"]), stride=_given(1.0))
    assert _error(collective_seconds(item, hw).value, rows) <= 0.16
