"""Do the fits of attention, streams and collectives recover a known machine, and does the model meet published speeds?"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from gpuplan.calibrate import knobs
from gpuplan.calibrate.attention_fits import KERNELS, STORED, WIDTHS
from gpuplan.calibrate.fit import FitResult, fit
from gpuplan.calibrate.table_rows import NO_WINDOW, Rows, TableRow, attention_rows, latent_rows, table
from gpuplan.calibrate.trial_chip import Chip
from gpuplan.machine.build import hardware_of
from gpuplan.machine.price import attention_seconds
from gpuplan.specs.accelerator import Accelerator
from gpuplan.specs.on import parse_target
from gpuplan.term import USER, Term
from gpuplan.work import Attention, Dtype
from tests.calibrate.test_fit import CATALOG, SAMPLES, SYSTEMS, with_samples

if TYPE_CHECKING:
    from numpy.typing import NDArray

CHIP = Chip.of(CATALOG.load(Accelerator, "h100-sxm-80gb"), 450e9)
PREFILL = {
    "efficiency": 0.8, "memory_efficiency": 0.75, "start": 9e-6, "unhidden": 0.4, "tail": 0.9, "throttle": 0.2, "settle": 4e-3,
    "short_depth": 80.0, "per_tile": 1.5e-6, "cached": 4e6, "append": 2.5, "per_token": 5e-10, "rows": 64.0,
}  # fmt: skip
DECODE = {
    "efficiency": 0.3, "memory_efficiency": 0.88, "start": 1.2e-5, "per_group": 1.5e-8, "unhidden": 0.5, "ramp": 2e-6,
    "walk": 2.5e-10, "reach": 0.7, "near": 2.0, "rows": 64.0, "page": 16.0,
}  # fmt: skip
ALL_REDUCE = {
    "pair": 0.7, "full": 0.9, "start": 6e-6, "per_doubling": 4e-6, "ramp": 6e-6, "bulk": 9e-6, "switch": 7e5,
}  # fmt: skip


def _made(cols: dict[str, NDArray[np.float64]], seconds: Any) -> Rows:
    """Rows with noise of 1 %, two in five held back."""
    dice = np.random.default_rng(7)
    noise = np.exp(dice.normal(0, 0.01, len(next(iter(cols.values())))))
    held = dice.random(len(noise)) < 0.4
    rows = Rows(cols, np.ones_like(noise), held, "fake")
    return Rows(cols, seconds(rows) * noise, held, "fake")


def _heads(count: int, **spans: tuple[int, int]) -> dict[str, NDArray[np.float64]]:
    dice = np.random.default_rng(5)
    cols = {key: np.exp2(dice.integers(low, high, count)).astype(float) for key, (low, high) in spans.items()}
    cols["heads"] = cols["kv_heads"] * cols.pop("group")
    cols["window"] = np.full(count, NO_WINDOW)
    cols["q_len"] = cols.get("q_len", np.ones(count))
    cols["kv_len"] = cols.get("kv_len", cols["q_len"])
    return cols


def _near(found: FitResult, truth: Mapping[str, float], keys: tuple[str, ...], within: float = 0.03) -> None:
    for key in keys:
        assert found.values[key].value == pytest.approx(truth[key], rel=within), key


def test_prefill_of_a_known_machine_is_recovered() -> None:
    cols = _heads(4000, sequences=(0, 8), kv_heads=(0, 5), group=(0, 4), dim=(6, 9), q_len=(6, 15))
    model = partial(CHIP.attention, dtype="bf16", stored=2.0, decode=False)
    rows = _made(cols, lambda rows: model(rows, PREFILL))
    found = fit(rows, knobs.PREFILL_KNOBS, knobs.PREFILL_FIXED, model, partial(CHIP.prefill_flat, dtype="bf16", stored=2.0))
    _near(found, PREFILL, ("efficiency", "start", "append", "short_depth"))
    assert found.errors.median_ape < 0.01
    assert found.flat_median_ape is not None
    assert found.flat_median_ape > 0.1


def test_decode_of_a_known_machine_is_recovered() -> None:
    cols = _heads(4000, sequences=(0, 9), kv_heads=(0, 5), group=(0, 5), dim=(6, 9), kv_len=(7, 18))
    model = partial(CHIP.attention, dtype="bf16", stored=2.0, decode=True)
    rows = _made(cols, lambda rows: model(rows, DECODE))
    found = fit(rows, knobs.DECODE_KNOBS, knobs.DECODE_FIXED, model)
    _near(found, DECODE, ("memory_efficiency", "start", "per_group", "walk", "reach", "near"))
    assert found.errors.median_ape < 0.01


def test_a_collective_of_a_known_machine_is_recovered() -> None:
    group, size = (part.ravel() for part in np.meshgrid([2.0, 4.0, 8.0], np.exp2(np.arange(8, 30, 0.25))))
    model = partial(CHIP.collective, kind="all_reduce", ranks=8.0)
    rows = _made({"size": size, "group": group}, lambda rows: model(rows, ALL_REDUCE))
    found = fit(rows, knobs.COLLECTIVE_KNOBS, {}, model, starts={"switch": knobs.SWITCHES})
    _near(found, ALL_REDUCE, ("pair", "full", "start", "per_doubling"))
    assert found.errors.median_ape < 0.01


def test_a_stream_of_a_known_machine_is_recovered() -> None:
    truth = {"efficiency": 0.85, "launch": 2.5e-6}
    rows = _made({"size": np.exp2(np.arange(12, 32, 0.1))}, lambda rows: CHIP.stream(rows, truth))
    found = fit(rows, knobs.STREAM_KNOBS, {}, CHIP.stream)
    _near(found, truth, ("efficiency", "launch"))


SPEEDS = {
    # TFLOP/s of 16-bit attention on H100 SXM5 by head dimension, mask and length 512 to 16k of 16k tokens in all:
    # Shah et al., FlashAttention-3 (arXiv 2407.08608), Figures 5 and 6
    ("fsdp", 128, False, False): (309, 350, 362, 368, 370, 370), ("fsdp", 128, True, False): (191, 260, 298, 319, 333, 335),
    ("fsdp", 64, False, False): (282, 306, 318, 321, 322, 324), ("fsdp", 256, True, False): (208, 251, 278, 293, 297, 298),
    ("megatron-lm", 128, False, False): (497, 574, 617, 609, 600, 595),
    ("megatron-lm", 128, True, False): (315, 410, 484, 518, 529, 539),
    ("megatron-lm", 256, True, False): (308, 391, 450, 483, 497, 509),
    ("fsdp", 128, False, True): (214, 260, 291, 310, 318, 322), ("megatron-lm", 128, False, True): (305, 408, 465, 499, 518, 516),
}  # fmt: skip


@pytest.mark.parametrize(("engine", "dim", "causal", "backward"), SPEEDS)
def test_published_speeds_of_training_kernels(engine: str, dim: int, causal: bool, backward: bool) -> None:
    hw = hardware_of(parse_target("dgx-h100", CATALOG), catalog=CATALOG, engine=engine)
    length = np.exp2(np.arange(9.0, 15.0))
    heads = _given(2048.0 / dim)
    item = Attention(
        name="published", sequences=_given(16384 / length), q_len=_given(length), kv_len=_given(length), heads=heads,
        kv_heads=heads, k_dim=_given(float(dim)), v_dim=_given(float(dim)), kv_element_bytes=_given(2.0, "B"), dtype="bf16",
        causal=causal, backward=backward,
    )  # fmt: skip
    flop = 4 * 16384 * length * 2048 * (0.5 if causal else 1.0) * (2.5 if backward else 1.0)
    ratio = flop / np.asarray(attention_seconds(item, hw).value) / 1e12 / SPEEDS[engine, dim, causal, backward]
    assert float(np.median(np.abs(ratio - 1))) < 0.06
    assert float(np.abs(ratio - 1).max()) < 0.15


FP8_BUDGET = {
    ("h100_sxm", "prefill"): 0.08, ("h200_sxm", "prefill"): 0.09, ("l40s", "prefill"): 0.10, ("b200_sxm", "prefill"): 0.08,
    ("h100_sxm", "decode"): 0.10, ("h200_sxm", "decode"): 0.10, ("l40s", "decode"): 0.12, ("b200_sxm", "decode"): 0.12,
}  # fmt: skip


@with_samples
@pytest.mark.parametrize(("system", "phase"), FP8_BUDGET)
def test_eight_bit_attention_held_back(system: str, phase: str) -> None:
    hw = hardware_of(parse_target(SYSTEMS[system], CATALOG), catalog=CATALOG)
    decode, kernels = phase == "decode", KERNELS[system]
    name = "generation_attention" if decode else "context_attention"
    wanted = "bfloat16" if decode else "fp8"
    rows = attention_rows(table(SAMPLES, system, name), wanted, "fp8", (kernels.decode if decode else kernels.prefill)["fp8"])
    cols = rows.columns
    kept = np.isin(cols["dim"], kernels.dims.get(f"{phase}.fp8", WIDTHS))
    kept &= np.minimum(cols["kv_len"], cols["window"]) >= 128 if decode else (cols["q_len"] >= 64) & (cols["window"] >= NO_WINDOW)
    rows = rows.where(kept & rows.held_back)
    if len(rows) < 5:
        pytest.skip(f"the sample of {system} holds {len(rows)} such rows")
    cols = rows.columns
    kind: Dtype = "bf16" if decode else "fp8"
    item = Attention(
        name="row", sequences=_given(cols["sequences"]), q_len=_given(cols["q_len"]), kv_len=_given(cols["kv_len"]),
        heads=_given(cols["heads"]), kv_heads=_given(cols["kv_heads"]), k_dim=_given(cols["dim"]), v_dim=_given(cols["dim"]),
        kv_element_bytes=_given(STORED["fp8"][1], "B"), dtype=kind, causal=True, window=_given(cols["window"]),
        appends=not decode,
    )  # fmt: skip
    predicted = np.asarray(attention_seconds(item, hw, replayed=True).value)
    assert float(np.median(np.abs(predicted / rows.seconds - 1))) <= FP8_BUDGET[system, phase]


def test_rows_of_latent_decode() -> None:
    row = {
        "framework": "TRTLLM",
        "version": "1",
        "kernel_source": "default",
        "kv_cache_dtype": "fp8",
        "isl": "1",
        "latency": "0.02",
    }
    rows = latent_rows([TableRow(row | {"batch_size": "8", "num_heads": "128", "step": "4095"})], "fp8", "TRTLLM")
    assert rows.columns["kv_len"].tolist() == [4096.0]
    truth = {**DECODE, "rows": 64.0}
    assert CHIP.latent(rows, truth, 1.0)[0] > CHIP.latent(rows, {**truth, "start": 0.0}, 1.0)[0] > 0


def _given(value: Any, unit: str = "1") -> Term:
    return Term("given", value, unit, USER)
