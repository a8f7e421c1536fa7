"""Is attention without a mask fitted by itself, and are widths that fill no instruction told apart where they run otherwise?"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gpuplan.calibrate.encoder_fits import encoder_sets
from gpuplan.calibrate.row_seconds import attention_row_seconds
from gpuplan.calibrate.table_rows import Rows
from gpuplan.calibrate.trial_chip import Chip
from gpuplan.machine.build import hardware_of
from gpuplan.specs.accelerator import Accelerator
from gpuplan.specs.catalog import Catalog
from gpuplan.specs.on import parse_target

CATALOG = Catalog.open()
CHIP = Chip.of(CATALOG.load(Accelerator, "h100-sxm-80gb"))
TRUTH = {
    "efficiency": 0.6, "memory_efficiency": 0.8, "start": 8e-6, "unhidden": 0.2, "tail": 0.3, "throttle": 0.0, "settle": 3e-3,
    "short_depth": 30.0, "per_tile": 5e-7, "cached": 0.0, "append": 0.0, "per_token": 0.0, "rows": 128.0, "array": 32.0,
}  # fmt: skip
HEAD = "framework,version,kernel_source,attn_dtype,batch_size,isl,num_heads,head_dim,latency"


def written(folder: Path, slower: float) -> None:
    """A table in which heads of 72 take `slower` times as long as the rest would let expect."""
    lengths, heads = np.round(2.0 ** np.arange(5, 15, 0.5)), (1, 2, 4, 8, 12, 16, 20, 32)
    sizes = np.array([(b, n, h, d) for b in (1, 8) for n in lengths for h in heads for d in (64, 72, 80)])
    cols = dict(zip(("sequences", "q_len", "heads", "dim"), sizes.T, strict=True))
    seconds = CHIP.encoder(Rows(cols, np.ones(len(sizes)), np.zeros(len(sizes), bool), "made up"), TRUTH, "bf16")
    taken = 1e3 * np.where(cols["dim"] == 72, slower, 1.0) * seconds
    lines = [f"VLLM,1,x,bfloat16,{b:.0f},{n:.0f},{h:.0f},{d:.0f},{taken[at]}" for at, (b, n, h, d) in enumerate(sizes)]
    (folder / "h100_sxm-encoder_attention.csv").write_text("\n".join([HEAD, *lines]) + "\n")


def test_one_kernel_is_one_set(tmp_path: Path) -> None:
    written(tmp_path, 1.0)
    made = encoder_sets(tmp_path, "h100_sxm", CHIP)
    assert list(made) == ["engines.vllm.encoder.bf16"]
    assert made["engines.vllm.encoder.bf16"].errors.median_ape < 0.02
    assert made["engines.vllm.encoder.bf16"].values["rows"].value == TRUTH["rows"]


def test_widths_that_fill_no_instruction_may_have_another(tmp_path: Path) -> None:
    written(tmp_path, 5.0)
    made = encoder_sets(tmp_path, "h100_sxm", CHIP)
    assert made["engines.vllm.encoder.bf16"].leaves == {"widths": [72]}
    assert made["engines.vllm.encoder_beyond.bf16"].errors.median_ape < 0.1


def test_without_a_table_there_is_none(tmp_path: Path) -> None:
    assert encoder_sets(tmp_path, "h100_sxm", CHIP) == {}


def test_serving_takes_the_kernel_without_a_mask() -> None:
    """Triton takes 5 times as long for heads of 72 on GB300 (aiconfigurator-core 0.12.0, SGLang 0.5.14: 125.5 and 25.2 ms)."""
    hw = hardware_of(parse_target("gb300-279gb", CATALOG), catalog=CATALOG, engine="sglang")
    shape = {"sequences": 8.0, "q_len": 12544.0, "kv_len": 12544.0, "heads": 16.0, "kv_heads": 16.0}

    def seconds(width: float) -> float:
        widths = {"k_dim": width, "v_dim": width}
        return float(attention_row_seconds({**shape, **widths}, hw, dtype="bf16", stored=2.0, causal=False))

    assert seconds(72.0) == pytest.approx(0.1255, rel=0.2)
    assert seconds(64.0) == pytest.approx(0.0252, rel=0.2)
