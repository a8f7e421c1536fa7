"""Do the kernel formulas agree with counts that others published, and with brute force?"""

from __future__ import annotations

import numpy as np
import pytest

from gpuplan.formulas import attention_kernels, kernels


@pytest.mark.parametrize(("q_len", "kv_len", "window"), [(8, 8, 3), (1, 20, 5), (4, 20, 30), (7, 19, 4), (16, 16, 16), (5, 9, 9)])
def test_pairs_are_what_a_mask_counts(q_len: int, kv_len: int, window: int) -> None:
    rows, cols = np.arange(q_len)[:, None] + kv_len - q_len, np.arange(kv_len)[None, :]
    causal = cols <= rows
    assert attention_kernels.causal_pairs(q_len=float(q_len), kv_len=float(kv_len)) == causal.sum()
    windowed = causal & (cols > rows - window)
    assert attention_kernels.windowed_pairs(q_len=float(q_len), kv_len=float(kv_len), window=float(window)) == windowed.sum()


def test_attention_flop_of_the_flash_attention_2_benchmark() -> None:
    # 4 x seqlen^2 x head dimension x heads, no mask (Dao 2023, section 4.1), 16 heads of 128 at 16k
    pairs = attention_kernels.attention_pairs(q_len=16384.0, kv_len=16384.0)
    flop = attention_kernels.attention_flop(pairs=pairs, sequences=1.0, heads=16.0, k_dim=128.0, v_dim=128.0)
    assert flop == 4 * 16384**2 * 128 * 16
    assert attention_kernels.attention_backward_flop(forward=flop) == 2.5 * flop


def test_one_row_more_costs_a_row_of_tiles() -> None:
    exact = {"n": 4096.0, "k": 4096.0, "batch": 1.0, "tile_m": 64.0, "tile_n": 128.0, "tail": 0.0, "units": 108.0, "uneven": 0.0}
    assert kernels.tiled_flop(m=6912.0, **exact) == 2 * 6912 * 4096 * 4096
    assert kernels.tiled_flop(m=6913.0, **exact) == kernels.tiled_flop(m=6976.0, **exact)


def test_decode_reads_whole_pages() -> None:
    assert attention_kernels.decode_keys(kv_len=1.0, page=128.0) == 128.0
    assert attention_kernels.decode_keys(kv_len=128.0, page=128.0) == 128.0


def test_mla_reads_one_latent() -> None:
    # DeepSeek-V3: 576 values a token and layer, 2 bytes each, for all 128 heads (arXiv 2412.19437, section 2.1.1: 512 + 64)
    shared = {"sequences": 1.0, "q_len": 1.0, "heads": 0.0, "kv_heads": 1.0, "k_dim": 576.0, "v_dim": 512.0}
    assert (
        attention_kernels.attention_bytes(**shared, kv_len=1000.0, kv_stored_dim=576.0, q_bytes=2.0, kv_bytes=2.0) == 1000 * 576 * 2
    )


def test_throttle_sets_in_slowly() -> None:
    short = kernels.throttled_seconds(seconds=1e-5, throttle=0.25, settle=1e-3) / 1e-5
    long = kernels.throttled_seconds(seconds=1.0, throttle=0.25, settle=1e-3)
    assert short == pytest.approx(1.0025, rel=1e-3)
    assert long == pytest.approx(1.25, rel=1e-3)
