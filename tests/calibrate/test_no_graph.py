"""What is told of matmuls whose table was timed without a graph, so that short ones waited for the host?"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gpuplan.calibrate.table_fits import UNTOLD, Fitted, fit_matmuls
from gpuplan.calibrate.table_rows import Rows
from gpuplan.calibrate.trial_chip import Chip
from gpuplan.specs.accelerator import Accelerator
from gpuplan.specs.catalog import Catalog

CHIP = Chip.of(Catalog.open().load(Accelerator, "h100-sxm-80gb"))
TRUTH = {
    "efficiency": 0.7, "memory_efficiency": 0.8, "start": 5e-6, "unhidden": 0.3, "tail": 0.2, "throttle": 0.0, "settle": 1e-3,
    "short_depth": 100.0, "walk": 2e-10, "fine": 0.1, "whole": 0.5, "split": 4000.0, "reach": 0.5, "near": 2.0, "quantise": 4.0,
    "quantise_row": 1e-9, "tile_m": 64.0, "tile_n": 128.0,
}  # fmt: skip
ISSUE = 6e-5
HEAD = "framework,version,kernel_source,gemm_dtype,m,n,k,latency\n"


def fitted(folder: Path, *frameworks: str) -> Fitted:
    """What is fitted to a table in which TensorRT-LLM's kernels ran in a graph and vLLM's did not."""
    widths = (1024, 2048, 4096, 6144, 12288, 16384)
    sizes = np.array([(m, n, k) for m in np.round(2.0 ** np.arange(0, 17, 0.75)) for n in widths for k in (1024, 2048, 4096, 7168)])
    cols = dict(zip("mnk", sizes.T, strict=True))
    rows = Rows(cols, np.ones(len(sizes)), np.zeros(len(sizes), bool), "fake")
    seconds = CHIP.matmul(rows, TRUTH, "fp8", 1.0, 1.0)
    taken = {"TRTLLM": seconds, "VLLM": np.maximum(seconds, ISSUE)}
    lines = [
        f"{name},1,x,fp8_block,{m:.0f},{n:.0f},{k:.0f},{1e3 * taken[name][at]}"
        for name in frameworks for at, (m, n, k) in enumerate(sizes)
    ]  # fmt: skip
    (folder / "h100_sxm-gemm.csv").write_text(HEAD + "\n".join(lines) + "\n")
    return fit_matmuls(folder, "h100_sxm", CHIP)


def test_what_the_host_hides_is_that_of_kernels_in_a_graph(tmp_path: Path) -> None:
    made = fitted(tmp_path, "TRTLLM", "VLLM")
    base, own = made.sets["matmul.fp8_block"], made.sets["engines.vllm.matmul.fp8_block"]
    assert own.values["issue"].value == pytest.approx(ISSUE, rel=0.1)
    assert {key: own.values[key].value for key in UNTOLD} == {key: base.values[key].value for key in UNTOLD}
    assert own.values["efficiency"].value == pytest.approx(TRUTH["efficiency"], rel=0.1)


def test_without_such_kernels_nothing_is_told(tmp_path: Path) -> None:
    assert fitted(tmp_path, "VLLM").sets == {}
