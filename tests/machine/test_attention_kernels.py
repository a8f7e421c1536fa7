"""Does an engine get the attention kernels that were fitted for it, type by type, and each shape the kernel that runs it?"""

from __future__ import annotations

import numpy as np
import pytest

from gpuplan.machine.attention import attention_seconds
from gpuplan.machine.build import hardware_of
from gpuplan.machine.hardware import Hardware
from gpuplan.num import Num
from gpuplan.specs.catalog import Catalog
from gpuplan.specs.measured import Measured
from gpuplan.specs.on import parse_target
from gpuplan.specs.quantity import Sourced
from gpuplan.term import USER, Term
from gpuplan.work import Attention

CATALOG = Catalog.open()
HELD = {
    chip: {
        engine: ("prefill.bf16", "decode.bf16") if chip == "a100-sxm-80gb"
        else ("prefill.bf16", "prefill.bf16_on_fp8", "decode.bf16", "decode.fp8", *(() if engine == "vllm" else ("prefill.fp8",)))
        for engine in ("tensorrt-llm", "vllm", "sglang")
    }
    for chip in (
        "a100-sxm-80gb", "h100-sxm-80gb", "h200-sxm-141gb", "l40s", "rtx-pro-6000-blackwell-server", "b200-sxm-180gb",
        "gb200-186gb", "gb300-279gb",
    )
}  # fmt: skip
"""What the published tables hold: no 8-bit attention on Ampere, and in vLLM 8 bits are what is stored."""
CASES = [(chip, engine, kind) for chip, engines in HELD.items() for engine, kinds in engines.items() for kind in kinds]


def hardware(chip: str, engine: str) -> Hardware:
    return hardware_of(parse_target(chip, CATALOG), catalog=CATALOG, engine=engine)


@pytest.mark.parametrize(("chip", "engine", "kind"), CASES)
def test_every_type_of_the_tables_has_an_entry_that_the_engine_reads(chip: str, engine: str, kind: str) -> None:
    section, _, name = kind.partition(".")
    fits = CATALOG.read(Measured, CATALOG.paths("measured")[chip]).engines[engine]
    fit = getattr(fits, section)[name]
    assert fit.fit.rows_fitted.value >= 300
    assert fit.fit.rows_held_back.value >= 300
    beyond = getattr(fits, f"{section}_beyond").get(name)
    assert (beyond is None) == (fit.leaves is None)
    hw = hardware(chip, engine)
    for place, one in ((kind, fit), (f"{section}_beyond.{name}", beyond)):
        for key in () if one is None else one.field_names():
            if isinstance(value := getattr(one, key), Sourced):
                assert hw.parameter(f"attention.{place}.{key}").value == value.value, key


def _given(value: Num, unit: str = "1") -> Term:
    return Term("given", value, unit, USER)


def attention(*, q_len: float = 1.0, dim: float = 128.0, stored: float = 2.0, **shape: Num) -> Attention:
    """Attention of 4 sequences of 1,024 keys, 32 heads and 8 key heads, where nothing else is said."""
    cols: dict[str, Num] = {"sequences": 4.0, "kv_len": 1024.0, "heads": 32.0, "kv_heads": 8.0, **shape}
    return Attention(
        name="step", sequences=_given(cols["sequences"]), q_len=_given(q_len), kv_len=_given(cols["kv_len"]),
        heads=_given(cols["heads"]), kv_heads=_given(cols["kv_heads"]), k_dim=_given(dim), v_dim=_given(dim),
        kv_element_bytes=_given(stored, "B"), dtype="bf16", causal=True,
        window=_given(cols["window"]) if "window" in cols else None,
    )  # fmt: skip


def kernels_of(item: Attention, hw: Hardware) -> set[str]:
    """Whose parameters stand behind a time: those of the first kernel, or of the one beyond."""
    names = [term.name for term in attention_seconds(item, hw).walk()]
    return {name.split(".")[2] for name in names if name.startswith("hw.attention.") and name.endswith(".start")}


@pytest.mark.parametrize(
    ("shape", "kernel"),
    [
        ({}, "decode"),
        # 16 blocks of 128 keys, where a quarter of 132 units is 33
        ({"sequences": 1.0, "kv_len": 256.0}, "decode_beyond"),
        ({"sequences": 1.0, "kv_len": 640.0}, "decode"),
        ({"kv_heads": 32.0}, "decode_beyond"),
        ({"heads": 64.0, "kv_heads": 1.0}, "decode_beyond"),
        ({"heads": 32.0, "kv_heads": 1.0, "sequences": 8.0}, "decode"),
    ],
)
def test_tensorrt_llm_packs_heads_where_it_fills_the_chip(shape: dict[str, float], kernel: str) -> None:
    assert kernels_of(attention(**shape), hardware("h100-sxm-80gb", "tensorrt-llm")) == {kernel}


def test_flash_attention_2_reads_keys_for_each_head_under_a_window() -> None:
    hw = hardware("l40s", "vllm")
    assert kernels_of(attention(), hw) == {"decode"}
    assert kernels_of(attention(window=128.0), hw) == {"decode_beyond"}


def test_a_head_dimension_gets_the_kernel_that_is_made_for_it() -> None:
    hw = hardware("h100-sxm-80gb", "sglang")
    assert kernels_of(attention(dim=256.0), hw) == {"decode"}
    assert kernels_of(attention(dim=512.0), hw) == {"decode_beyond"}


def test_a_grid_of_shapes_is_priced_as_each_shape() -> None:
    hw = hardware("h100-sxm-80gb", "tensorrt-llm")
    heads, keys = np.array([[1.0], [2.0], [8.0], [32.0]]), np.array([[128.0, 512.0, 640.0, 8192.0]])
    grid = attention_seconds(attention(sequences=1.0, kv_heads=heads, kv_len=keys), hw).value
    each = [[_seconds(float(row), float(one), hw) for one in keys[0]] for row in heads[:, 0]]
    assert np.asarray(grid) == pytest.approx(np.array(each), rel=1e-12)


def _seconds(kv_heads: float, kv_len: float, hw: Hardware) -> float:
    return float(np.asarray(attention_seconds(attention(sequences=1.0, kv_heads=kv_heads, kv_len=kv_len), hw).value))


def test_short_prompts_run_in_the_kernel_for_prompts() -> None:
    hw, item = hardware("h100-sxm-80gb", "vllm"), attention(q_len=8.0, kv_len=8.0, stored=1.0)
    prompt = attention_seconds(item.replaced(appends=True), hw)
    assert {"hw.attention.prefill.bf16_on_fp8.start"} == {one.name for one in prompt.walk() if one.name.endswith("fp8.start")}
    assert kernels_of(item, hw) == {"decode"}
