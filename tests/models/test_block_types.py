"""Are the types of blocks as ggml's structures have them, and tensors as large as files say?"""

from __future__ import annotations

import pytest

from gpuplan.models.block_types import BLOCK_TYPES, BY_NUMBER

BITS = {
    "q4_0": 4.5, "q4_1": 5.0, "q5_0": 5.5, "q5_1": 6.0, "q8_0": 8.5, "q2_k": 2.625, "q3_k": 3.4375, "q4_k": 4.5, "q5_k": 5.5,
    "q6_k": 6.5625, "iq1_s": 1.5625, "iq1_m": 1.75, "iq2_xxs": 2.0625, "iq2_xs": 2.3125, "iq2_s": 2.5625, "iq3_xxs": 3.0625,
    "iq3_s": 3.4375, "iq4_nl": 4.5, "iq4_xs": 4.25, "tq1_0": 1.6875, "tq2_0": 2.0625, "mxfp4": 4.25, "nvfp4": 4.5,
}  # fmt: skip
"""Bits a weight as the pull requests of llama.cpp that brought the types give them (k-quants: 1684, IQ4_XS: 5747, IQ4_NL: 5590)."""


@pytest.mark.parametrize("name", BITS)
def test_bits_of_a_weight_are_as_the_types_are_described(name: str) -> None:
    assert BLOCK_TYPES[name].bytes_per_value * 8 == BITS[name]


def test_names_and_numbers_are_each_unique() -> None:
    assert len(BLOCK_TYPES) == len(BY_NUMBER)
    assert BY_NUMBER[12].name == "q4_k"


def test_a_tensor_is_as_large_as_its_blocks() -> None:
    assert BLOCK_TYPES["q6_k"].tensor_bytes(4096 * 128256) == 4096 * 128256 * 6.5625 / 8
