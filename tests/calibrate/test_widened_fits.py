"""Does prefill over keys and values widened from a latent take kernels of its own, as fitted to their table?"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gpuplan.calibrate.row_seconds import attention_row_seconds
from gpuplan.calibrate.table_rows import Rows
from gpuplan.calibrate.trial_chip import Chip
from gpuplan.calibrate.widened_fits import widened_sets
from gpuplan.machine.build import hardware_of
from gpuplan.specs.accelerator import Accelerator
from gpuplan.specs.catalog import Catalog
from gpuplan.specs.on import parse_target

CATALOG = Catalog.open()
CHIP = Chip.of(CATALOG.load(Accelerator, "h100-sxm-80gb"))
TRUTH = {
    "efficiency": 0.6, "memory_efficiency": 0.8, "start": 8e-6, "unhidden": 0.2, "tail": 0.3, "throttle": 0.0, "settle": 3e-3,
    "short_depth": 30.0, "per_tile": 5e-7, "cached": 0.0, "append": 2.0, "per_token": 1e-10, "rows": 128.0,
}  # fmt: skip
HEAD = "framework,version,kernel_source,mla_dtype,kv_cache_dtype,batch_size,isl,step,num_heads,latency"


def test_each_cache_gives_its_kernel_back(tmp_path: Path) -> None:
    sizes = np.array([
        (sequences, length, heads)
        for sequences in (1, 2, 4, 8, 16) for length in np.round(2.0 ** np.arange(6, 14, 0.5)) for heads in (1, 4, 16, 32, 64, 128)
    ])  # fmt: skip
    cols = dict(zip(("sequences", "q_len", "heads"), sizes.T, strict=True))
    rows = Rows({**cols, "kv_len": cols["q_len"]}, np.ones(len(sizes)), np.zeros(len(sizes), bool), "")
    lines = []
    for cache, stored in (("bfloat16", 2.0), ("fp8", 1.0)):
        taken = 1e3 * CHIP.widened(rows, TRUTH, stored)
        lines += [f"SGLang,1,x,bfloat16,{cache},{b:.0f},{n:.0f},0,{h:.0f},{taken[at]}" for at, (b, n, h) in enumerate(sizes)]
    (tmp_path / "h100_sxm-context_mla.csv").write_text("\n".join([HEAD, *lines]) + "\n")
    made = widened_sets(tmp_path, "h100_sxm", CHIP)
    assert list(made) == ["engines.sglang.widened.bf16", "engines.sglang.widened.bf16_on_fp8"]
    assert all(one.errors.median_ape < 0.02 and one.values["rows"].value == TRUTH["rows"] for one in made.values())


def test_without_a_table_there_is_none(tmp_path: Path) -> None:
    assert widened_sets(tmp_path, "h100_sxm", CHIP) == {}


@pytest.mark.parametrize(("value_dim", "same"), [(192.0, True), (128.0, False)])
def test_serving_takes_it_where_keys_are_wider_than_values(value_dim: float, same: bool) -> None:
    hw = hardware_of(parse_target("h100-sxm-80gb", CATALOG), catalog=CATALOG, engine="tensorrt-llm")
    kept = {name: term for name, term in hw.parameters.items() if not name.startswith("attention.widened.")}
    shape = {"sequences": 1.0, "q_len": 4096.0, "kv_len": 4096.0, "heads": 16.0, "kv_heads": 16.0, "k_dim": 192.0}
    own, plain = (
        attention_row_seconds({**shape, "v_dim": value_dim}, one, dtype="bf16", stored=2.0, appends=True)
        for one in (hw, hw.replaced(parameters=kept))
    )
    assert (own == plain) is same
