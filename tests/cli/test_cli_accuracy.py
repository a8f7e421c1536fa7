"""The command `gpuplan accuracy`: its table, its JSON, its budget and its errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_calls import Call

ROW = """
- id: run-%s
  kind: pretrain
  framework: megatron-lm
  model: {id: llama-3.1-8b, name: Llama 3.1 8B}
  hardware: {accelerator: h100-sxm-80gb, count: 8}
  run: {seq_len: 8192, global_batch: 128, micro_batch: 1, precision: bf16, tp: 2, dp: 4, recompute: none}
  measured: {tokens_per_s_per_accelerator: 10000}
"""


def written(folder: Path, *flags: str) -> Path:
    """A file with one good row, and one for each flag."""
    file = folder / "mine.yaml"
    rows = [ROW % 0, *(ROW % number + f"  flag: {flag}\n" for number, flag in enumerate(flags, start=1))]
    file.write_text("".join(rows), encoding="utf-8")
    return file


def test_the_table_names_groups_and_reasons(call: Call, tmp_path: Path) -> None:
    said = call("accuracy", "--runs", str(written(tmp_path, "odd")))
    assert said.code == 0
    assert "throughput" in said.out
    assert "mine" in said.out
    assert "marked as doubtful: odd" in said.out
    assert max(map(len, said.out.splitlines())) <= 80


def test_json_is_the_published_shape(call: Call, tmp_path: Path) -> None:
    said = call("accuracy", "--runs", str(written(tmp_path)), "--json", "--by", "model")
    made = json.loads(said.out)
    assert made["metrics"].keys() == {"throughput", "memory", "ttft", "tpot", "fits"}
    assert made["groups"][0]["key"] == "llama-3.1-8b"
    assert 0 <= made["metrics"]["throughput"]["median_ape"] < 1


def test_markdown_and_plot(call: Call, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    file = tmp_path / "plot.png"
    said = call("accuracy", "--runs", str(written(tmp_path)), "--md", "--plot", str(file))
    assert "| mine |" in said.out
    assert file.read_bytes().startswith(b"\x89PNG")


def test_a_broken_budget_is_said_and_fails(call: Call, tmp_path: Path) -> None:
    budget = tmp_path / "budget.yaml"
    budget.write_text("mine:\n  throughput: {median_ape: 0.0001, rows: 1}\nother:\n  throughput: {rows: 1}\n", encoding="utf-8")
    said = call("accuracy", "--runs", str(written(tmp_path)), "--budget", str(budget))
    assert said.code == 4
    assert "mine: throughput median_ape" in said.err
    assert "other: no row" in said.err
    budget.write_text("all:\n  throughput: {median_ape: 0.9, rows: 1}\n", encoding="utf-8")
    assert call("accuracy", "--runs", str(written(tmp_path)), "--budget", str(budget)).code == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--by", "colour"), "--by colour"),
        (("--task", "sleep"), "--task sleep"),
        (("--runs", "nowhere.yaml"), "nowhere.yaml"),
        (("--json", "--md"), "--json and --md"),
        (("--worst", "x"), "--worst"),
    ],
)
def test_wrong_options_are_one_message(call: Call, words: tuple[str, ...], said: str) -> None:
    got = call("accuracy", *words)
    assert got.code == 2
    assert said in got.err
    assert "Traceback" not in got.err
