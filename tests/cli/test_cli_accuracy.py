"""The command `gpuplan accuracy`: its table, its JSON, its budget and its errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.cli_calls import Call

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
    assert made["metrics"].keys() == {"throughput", "memory", "prefill", "ttft", "tpot", "weights", "kv_pool", "fits"}
    assert made["groups"][0]["key"] == "llama-3.1-8b"
    assert 0 <= made["metrics"]["throughput"]["median_ape"] < 1


def test_groups_may_be_of_several_keys(call: Call, tmp_path: Path) -> None:
    said = call("accuracy", "--runs", str(written(tmp_path)), "--json", "--by", "model,accelerator")
    assert [group["key"] for group in json.loads(said.out)["groups"]] == ["llama-3.1-8b, h100-sxm-80gb"]


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


def test_a_budget_holds_the_number_of_missed_rows(call: Call, tmp_path: Path) -> None:
    budget = tmp_path / "budget.yaml"
    budget.write_text("all:\n  throughput: {missed: 0}\n", encoding="utf-8")
    assert call("accuracy", "--runs", str(written(tmp_path)), "--budget", str(budget)).code == 0
    runs = written(tmp_path)
    runs.write_text(ROW % 0 + (ROW % 1).replace("h100-sxm-80gb", "no-such-chip"), encoding="utf-8")
    said = call("accuracy", "--runs", str(runs), "--budget", str(budget))
    assert said.code == 4
    assert "throughput missed is 1, the budget is at most 0" in said.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--by", "colour"), "--by colour"),
        (("--by", "engine,colour"), "`colour`"),
        (("--task", "sleep"), "--task sleep"),
        (("--runs", "nowhere.yaml"), "nowhere.yaml"),
        (("--json", "--md"), "--json and --md"),
        (("--worst", "x"), "--worst"),
        (("--plot", "runs.bmp"), "no such form"),
        (("--plot", "no-such-folder/runs.png"), "no folder no-such-folder"),
        (("--budget", "nowhere.yaml"), "nowhere.yaml"),
    ],
)
def test_wrong_options_are_one_message(call: Call, words: tuple[str, ...], said: str) -> None:
    got = call("accuracy", *words)
    assert got.code == 2
    assert said in got.err
    assert not got.out, "nothing is computed before the options are known to be good"
    assert "Traceback" not in got.err


BROKEN = """
- {id: typo, model: {id: lama-3.1-8b}, hardware: {accelerator: h100-sxm-80gb, count: 8}, run: {seq_len: 8192}, measured: {mfu: 0.4}}
- {id: chip, model: {id: llama-3.1-8b}, hardware: {accelerator: h1000, count: 8}, run: {seq_len: 8192}, measured: {mfu: 0.4}}
- {id: text, model: {id: llama-3.1-8b}, hardware: {accelerator: h100, count: 8}, run: {seq_len: long}, measured: {mfu: 0.4}}
- {id: none, model: {id: llama-3.1-8b}, hardware: {accelerator: h100, count: 8}, run: {seq_len: 8192}, measured: {}}
- {id: negative, model: {id: llama-3.1-8b}, hardware: {accelerator: h100}, run: {}, measured: {step_time_s: -1}}
- {id: percent, model: {id: llama-3.1-8b}, hardware: {accelerator: h100, count: 8}, run: {seq_len: 8192}, measured: {mfu: 40}}
- {id: nameless, model: {id: llama-3.1-8b}, hardware: {count: 8}, run: {seq_len: 8192}, measured: {mfu: 0.4}}
- {id: parts, model: llama-3.1-8b, hardware: h100, run: {seq_len: 8192}, measured: {mfu: 0.4}}
- {id: task, task: sleep, model: {}, hardware: {accelerator: h100, count: 8}, run: {}, measured: {mfu: 0.4}}
- {id: odd, model: {id: llama-3.1-8b}, hardware: {accelerator: h100, count: 8}, run: {seq_len: 8192, tp: 3}, measured: {mfu: 0.4}}
- {id: odd, model: {id: llama-3.1-8b}, hardware: {accelerator: h100, count: 8}, run: {seq_len: 8192}, measured: {mfu: 0.4}}
- just a line
"""
REASONS = {
    "typo": "the model is not known",
    "chip": "h1000",
    "text": "seq_len is the text `long`",
    "none": "nothing was measured",
    "negative": "step_time_s is `-1`",
    "percent": "as a fraction",
    "nameless": "does not name its accelerator",
    "parts": "has no model, hardware",
    "task": "no task is called `sleep`",
    "odd": "tp 3 does not divide",
    "odd (bad, row 11)": "another row has its id",
    "bad-12": "no row",
}


def test_rows_that_cannot_be_compared_are_skipped_each_with_its_reason(call: Call, tmp_path: Path) -> None:
    good, bad = written(tmp_path), tmp_path / "bad.yaml"
    bad.write_text(BROKEN, encoding="utf-8")
    got = call("accuracy", "--runs", str(good), "--runs", str(bad), "--json")
    assert got.code == 0
    made = json.loads(got.out)
    assert [row["id"] for row in made["rows"]] == ["run-0"]
    skipped = {one["id"]: one["reason"] for one in made["skipped"]}
    assert skipped.keys() == REASONS.keys()
    assert all(REASONS[name] in reason for name, reason in skipped.items()), skipped
    table = call("accuracy", "--runs", str(bad)).out
    assert "12 rows were skipped" in table
    assert max(map(len, table.splitlines())) <= 80
    assert "h1000" in table, "a reason is wrapped and not cut"


@pytest.mark.parametrize("text", ["", "[]", "# nothing\n"])
def test_a_file_without_rows_is_an_error(call: Call, tmp_path: Path, text: str) -> None:
    file = tmp_path / "none.yaml"
    file.write_text(text, encoding="utf-8")
    got = call("accuracy", "--runs", str(file))
    assert got.code == 2
    assert "no measured run" in got.err


def test_rows_in_json_and_lines_of_json_are_read(call: Call, tmp_path: Path) -> None:
    row = {
        "id": "mine", "model": {"id": "llama-3.1-8b"}, "hardware": {"accelerator": "h100-sxm-80gb", "count": 8},
        "run": {"seq_len": 8192, "global_batch": 128, "tp": 2}, "measured": {"step_time_s": 14.0},
    }  # fmt: skip
    (tmp_path / "one.json").write_text(json.dumps([row]), encoding="utf-8")
    (tmp_path / "two.jsonl").write_text(json.dumps(row | {"id": "other"}) + "\n", encoding="utf-8")
    made = json.loads(call("accuracy", "--runs", str(tmp_path), "--json").out)
    assert {one["id"] for one in made["rows"]} == {"mine", "other"}
    assert made["metrics"]["fits"].keys() >= {"ran_said_fits", "oom_said_not"}
    keys = {"rows", "skipped", "median_ape", "mean_ape", "p90_ape", "bias", "inside_range"}
    assert all(made["metrics"][name].keys() >= keys for name in ("throughput", "memory", "prefill", "ttft", "tpot"))
    assert all(one.keys() >= {"id", "metric", "measured", "low", "expected", "high", "fitted"} for one in made["rows"])


def test_a_plot_of_runs_without_a_speed_is_an_error_and_no_crash(call: Call, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    file = tmp_path / "shares.yaml"
    file.write_text((ROW % 0).replace("tokens_per_s_per_accelerator: 10000", "mfu: 0.5"), encoding="utf-8")
    got = call("accuracy", "--runs", str(file), "--plot", str(tmp_path / "x.png"))
    assert got.code == 2
    assert "to draw" in got.err


@pytest.mark.parametrize("text", ["all: 3\n", "all: {speed: {median_ape: 0.1}}\n", "all: {throughput: {median_ape: low}}\n"])
def test_a_budget_that_says_nothing_is_an_error(call: Call, tmp_path: Path, text: str) -> None:
    budget = tmp_path / "budget.yaml"
    budget.write_text(text, encoding="utf-8")
    got = call("accuracy", "--runs", str(written(tmp_path)), "--budget", str(budget))
    assert (got.code, got.out) == (2, "")
    assert "no limit" in got.err
