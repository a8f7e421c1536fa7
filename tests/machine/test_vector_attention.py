"""Decode attention on vector units: which shapes run so in which release, how long it takes, and that grids say the same."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from gpuplan.machine.attention import attention_seconds
from gpuplan.machine.hardware import Hardware
from gpuplan.machine.vector_attention import RATE
from gpuplan.num import Num
from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.search.library import Library
from gpuplan.term import Source, Term
from gpuplan.work import Attention

HERE = Source("user", "here")


@cache
def machine(day: str | None) -> Hardware:
    library = Library.of(ServeAsk(model="", on=""))
    return library.machine("h100-sxm-80gb", library.engine("tensorrt-llm")[0].dated(day))


def seconds(day: str | None, *, heads: Num, kv_heads: Num, width: float, keys: float = 3072.0) -> Num:
    """Of 64 sequences with an 8-bit cache."""

    def leaf(name: str, value: Num, unit: str = "1") -> Term:
        return Term(f"here.{name}", value, unit, HERE)

    item = Attention(
        name="attention", sequences=leaf("sequences", 64.0), q_len=leaf("q_len", 1.0), kv_len=leaf("keys", keys),
        heads=leaf("heads", heads), kv_heads=leaf("kv_heads", kv_heads), k_dim=leaf("k", width), v_dim=leaf("v", width),
        kv_element_bytes=leaf("bytes", 1.0, "B"), dtype="bf16", causal=True,
    )  # fmt: skip
    return attention_seconds(item, machine(day)).value


@pytest.mark.parametrize(
    ("day", "heads", "kv_heads", "width", "vector"),
    [
        (None, 58.0, 2.0, 64.0, False), ("2023-10-19", 16.0, 2.0, 128.0, True), ("2024-04-11", 16.0, 2.0, 128.0, False),
        ("2024-04-11", 32.0, 8.0, 128.0, True), ("2024-04-11", 58.0, 2.0, 64.0, True), ("2024-04-11", 16.0, 16.0, 256.0, False),
    ],
)  # fmt: skip
def test_releases_have_matrix_units_for_some_shapes(
    day: str | None, heads: float, kv_heads: float, width: float, vector: bool
) -> None:
    """`DecoderXQARunner::shouldUse`: eight heads or one a key head, of 128 or 256 values; none at all before."""
    then, today = (float(seconds(one, heads=heads, kv_heads=kv_heads, width=width)) for one in (day, None))
    assert (then > 1.2 * today) == vector


def test_every_head_multiplies_by_itself() -> None:
    """Where products bind, time is two products of a width for each head and key: heads that share one gain nothing."""
    rate = float(machine("2023-10-19").parameter(RATE).value)
    few, many = (float(seconds("2023-10-19", heads=64.0, kv_heads=8.0, width=128.0, keys=keys)) for keys in (8192.0, 16384.0))
    assert many - few == pytest.approx(64 * 64 * 8192 * 128 * 4 / rate, rel=0.05)


def test_the_blog_that_had_it_switched_off() -> None:
    """XQA's blog: 2.4 times the tokens of Llama 2 70B with it, and here of the kernel alone."""
    before, after = (float(seconds(day, heads=64.0, kv_heads=8.0, width=128.0)) for day in ("2023-10-19", "2024-04-11"))
    assert before > 2.4 * after


def test_a_grid_takes_the_kernel_of_each_shape() -> None:
    kv_heads = np.array([8.0, 16.0, 64.0])
    found = seconds("2024-04-11", heads=64.0, kv_heads=kv_heads, width=128.0)
    assert list(np.asarray(found)) == pytest.approx(
        [float(seconds("2024-04-11", heads=64.0, kv_heads=float(one), width=128.0)) for one in kv_heads], rel=1e-12
    )
