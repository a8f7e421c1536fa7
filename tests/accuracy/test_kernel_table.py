"""`tools/kernel_table.py`: rows become the work that serving prices, what has no price is a miss, and pages say what is on record.

No table of the package is needed: rows are made up, as columns.
"""

from __future__ import annotations

import importlib
from math import isfinite
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from gpuplan.calibrate.row_seconds import attention_row_seconds, collective_row_seconds, matmul_row_seconds
from gpuplan.machine.hardware import Hardware
from gpuplan.ranges import interval, time_ends
from gpuplan.search.library import Library
from gpuplan.term import USER, Term, total

ROOT = Path(__file__).parents[2]


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    return importlib.import_module("kernel_table")


@pytest.fixture
def pages(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    return importlib.import_module("kernel_pages")


def hardware(on: str = "dgx-h100", engine: str = "vllm") -> Hardware:
    library = Library.shared()
    return library.machine(on, library.engine(engine)[0])


def columns(tool: ModuleType, table: str, rows: list[dict[str, Any]]) -> dict[str, np.ndarray]:
    kernel = tool.TABLES[table]
    return {key: np.array([row.get(key, 0) for row in rows]) for key in (*kernel.types, *kernel.numbers, "latency")}


def cells(tool: ModuleType, table: str, rows: list[dict[str, Any]], hw: Hardware) -> list[Any]:
    kernel = tool.TABLES[table]
    return [
        (kernel.label(types), tool.judged(kernel, {**numbers, **types}, hw))
        for types, numbers in tool.groups(columns(tool, table, rows), kernel)
    ]


GEMM = {"gemm_dtype": "bfloat16", "m": 512, "n": 4096, "k": 8192}
HEADS = {"batch_size": 8, "num_heads": 32, "num_key_value_heads": 8, "head_dim": 128}
KV = {"attn_dtype": "bfloat16", "kv_cache_dtype": "bfloat16"}


def test_rows_are_priced_as_the_machine_prices_them(tool: ModuleType) -> None:
    hw = hardware()
    seconds = matmul_row_seconds({"m": 512.0, "n": 4096.0, "k": 8192.0}, hw, dtype="bf16", left=2.0, right=2.0, replayed=True)
    ((label, made),) = cells(tool, "gemm", [GEMM | {"latency": 1e3 * seconds}, GEMM | {"latency": 2e3 * seconds}], hw)
    assert label == "bf16"
    assert made.ratio == pytest.approx([1.0, 0.5])
    assert list(made.inside) == [True, False]

    shape = {"sequences": 8.0, "q_len": 1.0, "kv_len": 4096.0, "heads": 32.0, "kv_heads": 8.0, "k_dim": 128.0, "v_dim": 128.0}
    seconds = attention_row_seconds(shape, hw, dtype="bf16", stored=2.0, replayed=True)
    row = {**HEADS, **KV, "isl": 1, "step": 4095, "latency": 1e3 * seconds}
    ((label, made),) = cells(tool, "generation_attention", [row], hw)
    assert (label, made.ratio) == ("bf16, KV bf16", pytest.approx([1.0]))

    seconds = collective_row_seconds({"size": 2.0**21, "group": 8.0}, hw, kind="all_to_all")
    row = {"op_name": "alltoall", "nccl_dtype": "half", "num_gpus": 8, "message_size": 2**20, "latency": 1e3 * seconds}
    ((_, made),) = cells(tool, "nccl", [row], hw)
    assert made.ratio == pytest.approx([1.0])


def test_types_windows_and_loads_are_told_apart(tool: ModuleType) -> None:
    hw = hardware()
    rows = [{**HEADS, **KV, "isl": 1, "step": 8191, "window_size": window, "latency": 1.0} for window in (0, 128)]
    (whole,), (window,) = (one.ratio for _, one in cells(tool, "generation_attention", rows, hw))
    assert whole > 2 * window, "a window of 128 keys of 8192 is read faster"

    layer = {
        "num_tokens": 64,
        "hidden_size": 4096,
        "inter_size": 1536,
        "topk": 8,
        "num_experts": 128,
        "moe_tp_size": 1,
        "moe_ep_size": 1,
    }
    layer |= {"moe_dtype": "bfloat16", "kernel_source": "some", "latency": 1.0}
    found = dict(cells(tool, "moe", [layer | {"distribution": name} for name in ("balanced", "power_law_1.2")], hw))
    assert set(found) == {"bf16, even", "bf16, uneven"}
    plain = dict(cells(tool, "moe", [layer | {"distribution": "balanced", "kernel_source": "some_nongated"}], hw))
    assert plain["bf16, even"].ratio < found["bf16, even"].ratio, "one matrix less"


def test_what_cannot_be_priced_is_a_miss(tool: ModuleType) -> None:
    row = {**GEMM, "gemm_dtype": "int8_wo", "latency": 1.0}
    bare = hardware().replaced(parameters={})
    ((_, made),) = cells(tool, "gemm", [row], bare)
    assert not isfinite(made.ratio[0])
    good = tool.Judged(np.array([1.0, 1.2, 0.9]), np.array([True, False, True]))
    figures = tool.line(("chip", "engine", "matmul", "bf16"), [made, good], "1.0")
    assert figures["rows"] == 4
    assert figures["covered"] == 0.75
    assert figures["inside"] == 0.5
    assert figures["median"] == pytest.approx(0.1)
    assert figures["p90"] is None, "a tenth of the rows and more have no estimate"
    assert figures["bias"] == pytest.approx(0.0)


def test_rows_without_a_time_are_none(tool: ModuleType) -> None:
    assert cells(tool, "gemm", [GEMM | {"latency": value} for value in (0.0, float("nan"), -1.0)], hardware()) == []


def test_the_newest_version_counts_that_is_not_a_fraction(
    tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = {"1.3.0rc20": 100, "1.3.0rc23": 4, "1.3.0rc9": 180}
    for version in rows:
        (tmp_path / "h100_sxm" / "moe" / "trtllm" / version).mkdir(parents=True)
        (tmp_path / "h100_sxm" / "moe" / "trtllm" / version / "moe_perf.parquet").touch()
    monkeypatch.setattr(tool, "_rows_in", lambda table: rows[table.version])
    (table,) = tool.newest(tmp_path)
    assert (table.system, table.backend, table.version, table.name) == ("h100_sxm", "trtllm", "1.3.0rc20", "moe")


@pytest.mark.parametrize("more", [[], ["--write", "--rows", "5"]])
def test_bad_calls_get_one_line(tool: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str], more: list[str]) -> None:
    assert tool.main([str(tmp_path), *more]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert len(said.err.strip().splitlines()) <= 2
    assert "error" in said.err


def test_a_folder_of_the_package_is_judged_whole(tool: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = importlib.import_module("pyarrow.parquet")
    rows = [GEMM | {"framework": "VLLM", "latency": latency, "n": n} for latency in (0.05, 0.1) for n in (4096, 8192)]
    for family, name, table in (
        ("gemm", "gemm", {key: [row[key] for row in rows] for key in rows[0]}),
        ("kda", "kda", {"phase": ["context"] * 3, "latency": [1.0] * 3}),
    ):
        place = tmp_path / "h100_sxm" / family / "vllm" / "0.24.0"
        place.mkdir(parents=True)
        parquet.write_table(arrow.table(table), place / f"{name}_perf.parquet")
    assert tool.main([str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert "h100-sxm-80gb" in said
    assert "no kernel: kda 3" in said
    assert tool.main([str(tmp_path), "--only", "gemm", "--by", "n"]) == 0
    said = capsys.readouterr().out
    assert "bf16 n=4096" in said
    assert "bf16 n=8192" in said
    assert tool.main([str(tmp_path), "--only", "gemm", "--by", "head_dim"]) == 2
    assert "gemm has no column `head_dim`" in capsys.readouterr().err


def test_what_is_on_record_is_what_the_pages_print(pages: ModuleType) -> None:
    data = pages.recorded()
    assert pages.full(data) in (ROOT / "docs" / "accuracy-kernels.md").read_text(encoding="utf-8")
    assert pages.compact(data) in (ROOT / "README.md").read_text(encoding="utf-8")
    assert {one["engine"] for one in data["kernels"]} == set(pages.ENGINES)
    assert {one["kernel"] for one in data["kernels"]} == set(pages.KERNELS)
    assert len({one["chip"] for one in data["kernels"]}) == 10
    assert pages.FILE.read_text(encoding="utf-8") == pages.as_yaml(data)


def test_the_worst_is_said(pages: ModuleType) -> None:
    line = {"chip": "h100-sxm-80gb", "engine": "vllm", "kernel": "matmul", "version": "1", "rows": 10, "bias": 0.0, "inside": 0.8}
    cells = [
        line | {"type": "bf16", "covered": 1.0, "median": 0.05, "p90": 0.2},
        line | {"type": "fp8", "covered": 1.0, "median": 0.07, "p90": 0.3},
        line | {"type": "nvfp4", "covered": 0.3, "median": None, "p90": None},
    ]
    said = pages.compact({"package": "p 1", "judged": "2026-01-01", "kernels": cells, "uncovered": {"other": 10}})
    assert "| matmul | 7 / 30; worst none / none (h100, nvfp4) |" in said
    assert "Of 40 rows 57% can be priced." in said


def test_the_range_of_many_times_is_that_of_each() -> None:
    def made(seconds: Any) -> Term:
        doubts = {
            "host": Term("host", 1.0, "s", USER, spread=(0.8, 1.5)),
            "other": Term("other", 0.5, "s", USER, spread=(0.4, 0.9)),
        }
        return total("t", {"kernel": Term("kernel", seconds, "s", USER), **doubts})

    ends = time_ends(made(np.array([1.0, 5.0])))
    for at, seconds in enumerate((1.0, 5.0)):
        assert interval({"t": made(seconds)})["t"] == pytest.approx([np.asarray(end)[at] for end in ends], rel=1e-12)
