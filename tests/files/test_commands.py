"""The commands that take a file, or write one, keep to the bounds: one message, a documented code, nothing half written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuplan.accuracy.rows import packaged, read_rows
from gpuplan.calibrate.table_rows import matmul_rows, table
from gpuplan.cli.main import run
from gpuplan.errors import UsageError
from gpuplan.plan.parallelism import divisors
from gpuplan.specs.catalog import Catalog
from gpuplan.specs.cluster import Cluster
from gpuplan.specs.on import parse_target
from gpuplan.specs.target import MOST_ACCELERATORS

CATALOG = Catalog.open(env={"HOME": "/nonexistent"})
HEAD = "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,Price,Region,GpuInfo,SpotPrice\n"
DENSE = {"model_type": "llama", "hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
DATE = ("--date", "2026-11-20")
KINDS = ("nccl-tests", "nvbandwidth", "mamf-finder", "torch-trace", "vllm", "sglang")
READERS = {
    "config.json": [("models", "import"), ("fit",)],
    "card.yaml": [("fit",)],
    "runs.yaml": [("accuracy", "--runs")],
    "runs.json": [("accuracy", "--runs")],
    "runs.jsonl": [("accuracy", "--runs")],
    "budget.yaml": [("accuracy", "--task", "training", "--runs", "one.yaml", "--budget")],
    "aws-vms.csv": [("prices", "import", "skypilot", *DATE)],
    "aws.csv": [("prices", "import", "gpuhunt", *DATE)],
    "aws.zip": [("prices", "import", "gpuhunt", *DATE)],
    "m.txt": [("calibrate", "import", kind, "--accelerator", "h100-sxm-80gb", "--out", "m.yaml") for kind in KINDS],
    "s/accelerators/x.yaml": [("specs", "check")],
}  # fmt: skip
HOSTILE = {
    "deep": b"[" * 100_000, "deeper": b'{"a":' * 50_000, "digits": b'{"model_type": ' + b"9" * 5000 + b"}", "nothing": b"",
    "bytes": bytes(range(256)), "rows": b"rows: [{source: [1], elsewhere: 3}]\nsources: {a: x}\n",
    "sources": b"sources: 3\nrows: [{source: a}]\n",
    "cells": HEAD.encode() + b'x,L4,1,1,1,1,us,"' + b"a" * 200_000 + b'",\n', "lines": b"\n" * 50_000,
    "infinite": b'{"traceEvents": [{"ph": "X", "dur": 1e999}], "completed": Infinity, "model_type": "llama", "hidden_size": 1e999}',
}  # fmt: skip


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    return tmp_path


KILLED = """
import os, signal, sys
os.{at} = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
from gpuplan.cli.main import run
run(sys.argv[1:])
"""


def asked(words: tuple[str, ...], name: str, capsys: pytest.CaptureFixture[str]) -> str:
    code = run([*words, name, *(("--on", "h100") if words[0] == "fit" else ())])
    said = capsys.readouterr().err
    assert code in (0, 2, 3, 4, 5), (words, name, said)
    assert len(said) < 5000, (words, name)
    return said


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("kind", HOSTILE)
def test_no_file_brings_a_command_down(home: Path, name: str, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    (home / name).parent.mkdir(parents=True, exist_ok=True)
    (home / name).write_bytes(HOSTILE[kind])
    (home / "one.yaml").write_text("- {id: a}\n")
    for words in READERS[name]:
        asked(words, name, capsys)


@pytest.mark.parametrize("name", READERS)
def test_a_pipe_keeps_nobody_waiting(home: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    (home / name).parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(home / name)
    (home / "one.yaml").write_text("- {id: a}\n")
    for words in READERS[name]:
        assert "it is a pipe" in asked(words, name, capsys)


def test_runs_say_what_is_wrong_with_their_sources(home: Path) -> None:
    for text, what in (
        ("sources: 3\nrows: [{source: s1}]\n", "no mapping of keys"),
        ("elsewhere: 3\nrows: [{}]\n", "no list of words"),
    ):
        (home / "runs.yaml").write_text(text)
        with pytest.raises(UsageError, match=what):
            read_rows([home / "runs.yaml"])
    (home / "runs.yaml").write_text("rows: [{source: [1], elsewhere: [[2]]}]\n")
    (row,) = read_rows([home / "runs.yaml"])
    assert row.fault


def test_tables_of_kernels_name_the_cell(home: Path) -> None:
    place = home / "h100_sxm-gemm.csv"
    for text, what in (("a,b\n1,2\n", "no column `gemm_dtype`"), ("gemm_dtype,framework\n1\n", "1 cells, and the head 2"),
                       ("gemm_dtype,framework,m,n,k\nbfloat16,VLLM,1,1e999,1\n", "`1e999` is no number")):  # fmt: skip
        place.write_text(text)
        with pytest.raises(UsageError, match=what):
            matmul_rows(table(home, "h100_sxm", "gemm"), "bfloat16", ("VLLM",))


def imports(folder: Path, number: int) -> list[str]:
    place = folder / f"a{number}-vms.csv"
    place.write_text(f"{HEAD}gpu_n{number},L4,1,26,200,0.8,us-east-1,,\n")
    return [
        sys.executable,
        "-m",
        "gpuplan",
        "prices",
        "import",
        "skypilot",
        str(place),
        "--provider",
        "lambda",
        *DATE,
        "--out",
        str(folder / "own"),
    ]


def test_imports_at_once_keep_all_prices(home: Path) -> None:
    jobs = [subprocess.Popen(imports(home, at), stdout=subprocess.PIPE, stderr=subprocess.PIPE) for at in range(6)]
    assert [job.wait(timeout=300) for job in jobs] == [0] * 6
    for job in jobs:
        job.communicate()
    kept = (home / "own" / "prices" / "lambda.yaml").read_text()
    assert all(f"gpu_n{at}" in kept for at in range(6))
    assert sorted(one.name for one in (home / "own").iterdir()) == ["instances", "prices"]


@pytest.mark.parametrize("at", ["replace", "fsync"])
def test_an_import_that_is_killed_leaves_a_folder_that_is_right(home: Path, at: str, capsys: pytest.CaptureFixture[str]) -> None:
    subprocess.run(imports(home, 1), check=True, capture_output=True)
    words = imports(home, 2)
    killed = subprocess.run([words[0], "-c", KILLED.format(at=at), *words[3:]], check=False, capture_output=True)
    assert killed.returncode == -9
    assert run(["specs", "check", str(home / "own")]) == 0, capsys.readouterr().err
    assert "gpu_n1" in (home / "own" / "prices" / "lambda.yaml").read_text()
    assert subprocess.run(words, check=False, capture_output=True).returncode == 0
    assert "gpu_n2" in (home / "own" / "prices" / "lambda.yaml").read_text()


def test_a_provider_leads_nowhere_else(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "a.csv").write_text(f"{HEAD}gpu_1x,L4,1,26,200,0.8,us-east-1,,\n")
    for name in ("../../evil", "/tmp/evil", "a/b", "..", "", "A B"):
        for kind in ("skypilot", "gpuhunt"):
            assert run(["prices", "import", kind, "a.csv", "--provider", name, *DATE, "--out", "own"]) == 2
            assert "--provider" in capsys.readouterr().err
    assert [one.name for one in home.iterdir()] == ["a.csv"]


def test_an_archive_that_unpacks_without_end(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with zipfile.ZipFile(home / "aws.zip", "w", zipfile.ZIP_DEFLATED) as packed, packed.open("aws.csv", "w") as file:
        for _ in range(70):
            file.write(b"\n" * (1 << 20))
    assert run(["prices", "import", "gpuhunt", "aws.zip", *DATE, "--out", "own"]) == 2
    assert "holds more than 64 MiB" in capsys.readouterr().err


@pytest.mark.parametrize(("words", "said"), [
    (("specs", "roofline", "h100-sxm-80gb", "--out", "dir.svg"), "it is a folder"),
    (("specs", "roofline", "h100-sxm-80gb", "--out", "full.svg"), "No space left"),
    (("specs", "schema", "--write", "/dev/null/x"), "cannot write"), (("specs", "schema", "--write", "file"), "cannot write"),
    (("prices", "import", "skypilot", "a-vms.csv", "--provider", "lambda", *DATE, "--out", "/dev/null/x"), "cannot write"),
])  # fmt: skip
def test_what_cannot_be_written(home: Path, words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    if "roofline" in words:
        pytest.importorskip("matplotlib")
    (home / "dir.svg").mkdir()
    (home / "full.svg").symlink_to("/dev/full")
    (home / "file").write_text("")
    (home / "a-vms.csv").write_text(f"{HEAD}gpu_1x,L4,1,26,200,0.8,us-east-1,,\n")
    assert run(list(words)) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("error:") == 1


def test_a_spreadsheet_runs_nothing_of_ours(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "a-vms.csv").write_text(f"{HEAD}=cmd|'/c calc'!A1,L4,1,26,200,0.8,us-east-1,,\n")
    assert run(["prices", "import", "skypilot", "a-vms.csv", "--provider", "lambda", *DATE, "--out", "own"]) == 0
    capsys.readouterr()
    assert run(["prices", "list", "--specs", "own", "--csv"]) == 0
    rows = capsys.readouterr().out
    assert "=cmd" in rows
    assert ",=" not in rows
    assert "\n=" not in rows


def test_a_catalog_of_too_many_prices_is_refused(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from gpuplan.files import csv_text
    from gpuplan.prices import importer

    (home / "a-vms.csv").write_text(HEAD + "".join(f"gpu_{at},L4,1,26,200,0.8,us-east-1,,\n" for at in range(12)))
    words = ["prices", "import", "skypilot", "a-vms.csv", "--provider", "lambda", *DATE, "--out", "own"]
    for module, name, said in (
        (importer, "MOST_OFFERS", "12 prices of accelerators"),
        (csv_text, "MOST_ROWS", "more than 10 rows"),
    ):
        monkeypatch.setattr(module, name, 10)
        assert run(words) == 2
        assert said in capsys.readouterr().err
    assert not (home / "own").exists()


# How many accelerators, and into how many parts.


@given(st.integers(1, 100_000))
@settings(max_examples=100, deadline=None)
def test_divisors_are_those_that_divide(number: int) -> None:
    assert divisors(number) == [one for one in range(1, number + 1) if number % one == 0]


@pytest.mark.parametrize("text", [
    "1000001xh100", "1000000000xh100", "512xtpu-v7-pod", "200000xdgx-h100", f"{'9' * 5000}xh100", "99999999999999xaws:p5.48xlarge",
    "1000000000x8xtpu-v5p",
])  # fmt: skip
def test_more_accelerators_than_anyone_has_are_one_message(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_target(text, CATALOG)
    assert caught.value.problems[0].code == "target.too-many"


def test_the_bound_is_far_above_all_that_is_on_record() -> None:
    counts = [row.hardware.get("count") or 1 for row in read_rows([packaged()])]
    assert max(counts) * 100 <= MOST_ACCELERATORS
    clusters = [CATALOG.read(Cluster, path) for path in CATALOG.paths("clusters").values()]
    assert max(one.accelerators.value for one in clusters if one.accelerators is not None) * 10 <= MOST_ACCELERATORS


@pytest.mark.parametrize("task", ["fit", "serve", "train"])
def test_as_many_as_are_allowed_are_answered_soon(task: str) -> None:
    words = [sys.executable, "-m", "gpuplan", task, "llama-3.1-8b", "--on", f"{MOST_ACCELERATORS}xh100"]
    assert subprocess.run(words, check=False, capture_output=True, timeout=300).returncode in (0, 2, 3)


def test_a_config_of_any_figures_is_answered_or_refused(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    odd: list[Any] = [float("inf"), float("nan"), 10**30, 10**300, -1, 0, 0.5, True, None, "x", [1], {"a": 1}]
    for key in (*DENSE, "vocab_size"):
        for value in odd:
            (home / "config.json").write_text(json.dumps({**DENSE, "vocab_size": 100, key: value}))
            asked(("models", "import"), "config.json", capsys)
            asked(("fit",), "config.json", capsys)
