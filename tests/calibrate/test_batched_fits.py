"""Do products that each head has for itself take the library's batched kernels, as fitted to their own table?"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gpuplan.calibrate.batched_fits import batched_sets
from gpuplan.calibrate.row_seconds import matmul_row_seconds
from gpuplan.calibrate.table_rows import Rows
from gpuplan.calibrate.trial_chip import Chip
from gpuplan.machine.build import hardware_of
from gpuplan.specs.accelerator import Accelerator
from gpuplan.specs.catalog import Catalog
from gpuplan.specs.on import parse_target

CATALOG = Catalog.open()
CHIP = Chip.of(CATALOG.load(Accelerator, "h100-sxm-80gb"))
TRUTH = {
    "efficiency": 0.5, "memory_efficiency": 0.7, "start": 3e-6, "unhidden": 0.3, "tail": 0.1, "throttle": 0.0, "settle": 1e-3,
    "short_depth": 200.0, "walk": 2e-10, "fine": 0.1, "whole": 0.5, "reach": 0.5, "near": 2.0, "tile_m": 64.0, "tile_n": 128.0,
}  # fmt: skip
HEAD = "framework,version,kernel_source,bmm_dtype,op_name,num_tokens,num_heads,latency"


def test_a_table_gives_its_kernel_back(tmp_path: Path) -> None:
    sizes = np.array([
        (m, n, k, heads)
        for m in np.round(2.0 ** np.arange(0, 15, 0.5)) for n, k in ((512, 128), (128, 512))
        for heads in (1, 2, 4, 8, 16, 24, 32, 64, 128)
    ])  # fmt: skip
    rows = Rows(dict(zip(("m", "n", "k", "batch"), sizes.T, strict=True)), np.ones(len(sizes)), np.zeros(len(sizes), bool), "")
    taken = 1e3 * CHIP.matmul(rows, TRUTH, "bf16", 2.0, 2.0)
    lines = [
        f"SGLang,1,x,bfloat16,{'mla_gen_pre' if n == 512 else 'mla_gen_post'},{m:.0f},{heads:.0f},{taken[at]}"
        for at, (m, n, _, heads) in enumerate(sizes)
    ]
    (tmp_path / "h100_sxm-mla_bmm.csv").write_text("\n".join([HEAD, *lines]) + "\n")
    made = batched_sets(tmp_path, "h100_sxm", CHIP)
    assert list(made) == ["engines.sglang.batched.bf16"]
    assert made["engines.sglang.batched.bf16"].errors.median_ape < 0.02
    assert made["engines.sglang.batched.bf16"].values["start"].value == pytest.approx(TRUTH["start"], rel=0.1)


def test_without_a_table_there_is_none(tmp_path: Path) -> None:
    assert batched_sets(tmp_path, "h100_sxm", CHIP) == {}


@pytest.mark.parametrize("by_heads", [False, True])
def test_serving_takes_it_for_products_of_heads(by_heads: bool) -> None:
    hw = hardware_of(parse_target("h100-sxm-80gb", CATALOG), catalog=CATALOG, engine="sglang")
    plain = hw.replaced(parameters={name: term for name, term in hw.parameters.items() if not name.startswith("batched.")})
    shape = {"m": 64.0, "n": 512.0, "k": 128.0, "batch": 16.0}
    own, other = (matmul_row_seconds(shape, one, dtype="bf16", left=2.0, right=2.0, by_heads=by_heads) for one in (hw, plain))
    assert (own != other) is by_heads
