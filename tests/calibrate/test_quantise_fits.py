"""Are a product and the quantisation of its input told apart where tables time the latter by itself too?"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gpuplan.calibrate.quantise_fits import quantise_row_seconds
from gpuplan.calibrate.table_fits import Fitted, fit_matmuls
from gpuplan.calibrate.table_rows import Rows
from gpuplan.calibrate.trial_chip import Chip
from gpuplan.machine.build import hardware_of
from gpuplan.specs.accelerator import Accelerator
from gpuplan.specs.catalog import Catalog
from gpuplan.specs.on import parse_target

CATALOG = Catalog.open()
CHIP = Chip.of(CATALOG.load(Accelerator, "h100-sxm-80gb"))
BANDWIDTH = float(CHIP.bandwidth.value)
PRODUCT = {
    "efficiency": 0.7, "memory_efficiency": 0.8, "start": 4e-6, "unhidden": 0.3, "tail": 0.2, "throttle": 0.0, "settle": 1e-3,
    "short_depth": 100.0, "walk": 2e-10, "fine": 0.1, "whole": 0.5, "split": 4000.0, "reach": 0.5, "near": 2.0, "tile_m": 64.0,
    "tile_n": 128.0,
}  # fmt: skip
QUANTISING = {"quantise": 8.0, "quantise_row": 0.0, "quantise_start": 9e-6}
WIDTHS, DEPTHS = (1024, 2048, 4096, 6144, 12288, 16384), (1024, 2048, 4096, 7168)


def fitted(folder: Path, framework: str, *, by_itself: bool) -> Fitted:
    """What is fitted to a table of fp8 linears, with those of the kernels that quantise or without."""
    sizes = np.array([(m, n, k) for m in np.round(2.0 ** np.arange(0, 15, 0.75)) for n in WIDTHS for k in DEPTHS])
    rows = Rows(dict(zip("mnk", sizes.T, strict=True)), np.ones(len(sizes)), np.zeros(len(sizes), bool), "made up")
    before = quantise_row_seconds(BANDWIDTH, rows, QUANTISING)
    whole = 1e3 * (CHIP.matmul(rows, PRODUCT, "fp8", 1.0, 1.0) + before)
    lines = [f"{framework},1,x,fp8,{m:.0f},{n:.0f},{k:.0f},{whole[at]}" for at, (m, n, k) in enumerate(sizes)]
    (folder / "h100_sxm-gemm.csv").write_text(
        "\n".join(["framework,version,kernel_source,gemm_dtype,m,n,k,latency", *lines]) + "\n"
    )
    shapes = {(m, k): 1e3 * seconds for (m, _, k), seconds in zip(sizes, before, strict=True)}
    for name, share in (("computescale", 0.6), ("scale_matrix", 0.4)) if by_itself else ():
        cells = [f"{framework},1,x,fp8,{m:.0f},{k:.0f},{share * latency}" for (m, k), latency in shapes.items()]
        text = "\n".join(["framework,version,kernel_source,quant_dtype,m,k,latency", *cells]) + "\n"
        (folder / f"h100_sxm-{name}.csv").write_text(text)
    return fit_matmuls(folder, "h100_sxm", CHIP)


def test_each_has_its_own_start(tmp_path: Path) -> None:
    made = fitted(tmp_path, "TRTLLM", by_itself=True).sets["engines.tensorrt-llm.matmul.fp8"]
    for key in ("start", "efficiency"):
        assert made.values[key].value == pytest.approx(PRODUCT[key], rel=0.1), key
    for key in ("quantise", "quantise_start"):
        assert made.values[key].value == pytest.approx(QUANTISING[key], rel=0.05), key
    assert made.errors.median_ape < 0.02, "of whole rows, which both are"


@pytest.mark.parametrize(("framework", "by_itself"), [("TRTLLM", False), ("SGLang", True)])
def test_otherwise_one_start_has_both(tmp_path: Path, framework: str, by_itself: bool) -> None:
    """Other engines' linears quantise by other kernels than their tables time."""
    engine = {"TRTLLM": "tensorrt-llm", "SGLang": "sglang"}[framework]
    made = fitted(tmp_path, framework, by_itself=by_itself).sets[f"engines.{engine}.matmul.fp8"]
    assert "quantise_start" not in made.values
    assert made.values["start"].value == pytest.approx(PRODUCT["start"] + QUANTISING["quantise_start"], rel=0.1)


def test_kernels_before_a_product_leave_it_its_own_start() -> None:
    target = parse_target("h100-sxm-80gb", CATALOG)
    alone, served = (
        hardware_of(target, catalog=CATALOG, engine="tensorrt-llm", fused_quantisation=kinds).parameters for kinds in ((), ("fp8",))
    )
    assert alone["matmul.fp8.quantise_start"].value > 0
    assert not any(name.startswith("matmul.fp8.quantise") for name in served)
    assert served["matmul.fp8.start"] is alone["matmul.fp8.start"]
