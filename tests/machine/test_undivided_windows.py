"""Windows whose keys no kernel divides over the chip take what one compute unit needs for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuplan.machine.hardware import Hardware
from gpuplan.machine.price import attention_seconds
from gpuplan.machine.undivided_windows import ROWS
from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.search.library import Library
from gpuplan.term import DEFINITION, Term
from gpuplan.work import Attention

LIBRARY = Library.of(ServeAsk(model="", on=""))


def term(value: float, unit: str = "1") -> Term:
    return Term("given", value, unit, DEFINITION)


def decode(window: float | None, heads: float = 8.0, sequences: float = 1.0) -> Attention:
    return Attention(
        name="given", sequences=term(sequences), q_len=term(1.0), kv_len=term(4096.0), heads=term(heads), kv_heads=term(4.0),
        k_dim=term(256.0), v_dim=term(256.0), kv_element_bytes=term(2.0, "B"), causal=True,
        window=None if window is None else term(window), dtype="bf16",
    )  # fmt: skip


def machine(on: str, engine: str = "vllm") -> Hardware:
    name, _, month = engine.partition("@")
    profile, _ = LIBRARY.engine(name)
    return LIBRARY.machine(on, profile.dated(month or None))


@pytest.mark.parametrize(("on", "engine"), [("a100", "vllm"), ("l4", "vllm"), ("a10g", "vllm@2025-06")])
def test_a_window_on_ampere_and_ada_is_walked_by_a_unit_for_each_head(on: str, engine: str) -> None:
    hw = machine(on, engine)
    assert attention_seconds(decode(4096.0), hw).value > 2 * attention_seconds(decode(None), hw).value


def test_units_that_have_nothing_to_do_take_more_heads() -> None:
    few, many = (attention_seconds(decode(4096.0, sequences=count), machine("a100")).value for count in (1.0, 4.0))
    assert many == pytest.approx(few)


@pytest.mark.parametrize(("on", "engine"), [("h100", "vllm"), ("a100", "vllm@2024-12"), ("a100", "sglang")])
def test_other_kernels_divide_it(on: str, engine: str) -> None:
    hw = machine(on, engine)
    assert attention_seconds(decode(4096.0), hw).value <= 1.01 * attention_seconds(decode(None), hw).value


def test_rows_are_cited() -> None:
    assert "flash_api.cpp" in machine("a100").parameters[ROWS].source.title
    assert Path(machine("a100").parameters[ROWS].source.url).name == "flash_api.cpp"
