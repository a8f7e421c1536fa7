"""The Python API: it says what the command line says, refuses what is wrong, and answers in the time of the estimate."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import gpuplan
from gpuplan.cli.main import run
from gpuplan.plan.ask import ASKS
from gpuplan.plan.option import by_key

ROOT = Path(__file__).parents[2]
FUNCTIONS: dict[str, Any] = {"fit": gpuplan.fit, "train": gpuplan.train, "serve": gpuplan.serve}
QUESTIONS: list[tuple[str, str, dict[str, Any], str]] = [
    ("fit", "llama-3.1-8b", {"on": "h100", "context": 32768}, "fit llama-3.1-8b --on h100 --context 32k"),
    ("fit", "llama-3.1-70b", {"on": "t4"}, "fit llama-3.1-70b --on t4"),
    ("fit", "llama-3.1-8b", {"on": "8xh100", "task": "train"}, "fit llama-3.1-8b --on 8xh100 --task train"),
    (
        "serve", "llama-3.1-70b", {"on": "4xh100", "prompt": "2k", "output": 300, "price": 2.5, "kv_cache": "fp8"},
        "serve llama-3.1-70b --on 4xh100 --prompt 2048 --output 300 --price 2.50 --kv-cache fp8",
    ),
    (
        "train", "llama-3.1-8b",
        {
            "on": "8xh100", "tokens": 15e12, "mtbf": 3.6e7, "overlap": ("dp", "pp"), "engine": "torchtitan", "compile": True,
            "sequence_parallel": False,
        },
        "train llama-3.1-8b --on 8xh100 --engine torchtitan --tokens 15T --mtbf 10000h --overlap dp,pp --compile"
            " --no-sequence-parallel",
    ),
    (
        "train", "mine", {"on": "8xh100", "params": 5e6, "flop_per_sample": 1e9, "activation_bytes": 2e6, "samples": 1e6},
        "train mine --on 8xh100 --params 5M --flop-per-sample 1G --activation-bytes 2MB --samples 1M",
    ),
    (
        "serve", "llama-3.1-8b", {"on": "h100", "set": {"hw.hbm_bandwidth": 2e12}},
        "serve llama-3.1-8b --on h100 --set hw.hbm_bandwidth=2TB/s",
    ),
]  # fmt: skip


@pytest.fixture(autouse=True)
def _no_specs_of_the_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "no-config"))
    monkeypatch.delenv("GPUPLAN_SPECS", raising=False)


@pytest.mark.parametrize(("task", "model", "options", "line"), QUESTIONS, ids=[row[3] for row in QUESTIONS])
def test_an_answer_is_that_of_the_command_line(
    task: str, model: str, options: dict[str, Any], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = FUNCTIONS[task](model, **options)
    assert run([*line.split(), "--json=full"]) == (0 if answer.fits else 3)
    told = json.loads(capsys.readouterr().out)
    assert answer.to_dict() == told
    assert {key: (one.value, one.unit, one.low, one.high) for key, one in answer.figures.items()} == {
        key: (one["value"], one["unit"], one["low"], one["high"]) for key, one in told["figures"].items()
    }
    assert answer.fits is told["verdict"]["fits"]
    assert answer.headline == told["verdict"]["headline"]
    assert [one.text for one in answer.notes] == [one["text"] for one in told["notes"]]
    assert {key: one.value for key, one in answer.chosen.items()} == {one["name"]: one["value"] for one in told["chosen"]}


@pytest.mark.parametrize(("task", "model", "options", "line"), QUESTIONS[:4], ids=[row[3] for row in QUESTIONS[:4]])
def test_without_advice_only_the_changes_are_missing(task: str, model: str, options: dict[str, Any], line: str) -> None:
    advised, plain = FUNCTIONS[task](model, **options), FUNCTIONS[task](model, advise=False, **options)
    assert advised.changes
    assert plain.changes == ()
    assert plain.to_dict() == {**advised.to_dict(), "changes": []}


def test_explain_is_that_of_the_command_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    answer = gpuplan.serve("llama-3.1-8b", on="h100")
    told: list[tuple[tuple[str, ...], str]] = [(("tpot_s",), answer.explain("tpot_s")), ((), answer.explain())]
    told.append((("TTFT", "--depth", "2"), answer.explain("TTFT", depth=2)))
    for words, text in told:
        assert run(["serve", "llama-3.1-8b", "--on", "h100", "--explain", *words]) == 0
        assert capsys.readouterr().out.split("\n\n", 1)[1] == text
    with pytest.raises(gpuplan.UsageError, match="no term `nonsense`"):
        answer.explain("nonsense")


def test_everything_that_is_wrong_is_told_together() -> None:
    wrong: dict[str, Any] = {"tpp": 4, "tp": "x", "precision": "fp9", "mtbf": "5 GB", "global_batch": 1.5, "tokens": -1}
    with pytest.raises(gpuplan.UsageError) as caught:
        gpuplan.train("llama-3.1-8b", on="8xh100", **wrong)
    told = str(caught.value)
    assert "no option `tpp`\n  hint: did you mean `tp`" in told
    assert all(flag in told for flag in ("--tp", "--precision fp9", "--mtbf", "--global-batch 1.5", "--tokens -1"))
    assert len(caught.value.problems) == len(wrong)


@pytest.mark.parametrize(
    ("model", "options", "kind"),
    [
        ("llama-3.1-8", {"on": "h100"}, gpuplan.UnknownError),
        ("llama-3.1-8b", {"on": "h1000"}, gpuplan.UnknownError),
        ("llama-3.1-8b", {"on": "8xh100", "tp": 3}, gpuplan.PlanError),
        ("llama-3.1-8b", {"on": "h100", "set": {"hw.nonsense": 1}}, gpuplan.UsageError),
        ("llama-3.1-8b", {"on": "h100", "set": {"hw.hbm_bandwidth": "3 W"}}, gpuplan.UsageError),
        ("llama-3.1-8b", {"on": "h100", "specs": "no/such/folder"}, gpuplan.UsageError),
        ("llama-3.1-8b", {"on": ""}, gpuplan.UsageError),
    ],
)
def test_errors_are_the_packages_own(model: str, options: dict[str, Any], kind: type[gpuplan.GpuplanError]) -> None:
    with pytest.raises(kind) as caught:
        gpuplan.serve(model, **options)
    assert isinstance(caught.value, gpuplan.GpuplanError)
    assert caught.value.problems


def test_values_of_ones_own_for_terms() -> None:
    answer = gpuplan.train(
        "llama-3.1-8b", on="8xh100", tp=2, pp=1, cp=1, micro_batch=1, zero_stage=1, recompute="none", advise=False
    )
    slow = answer.given({"hw.hbm_bandwidth": "1 TB/s"})
    assert slow["step_time_s"].value > answer["step_time_s"].value
    both = slow.given({"hw.memory_capacity": "20 GiB"})
    assert both["step_time_s"] == slow["step_time_s"]
    assert not both.fits
    assert answer.fits
    with pytest.raises(gpuplan.UsageError, match="in W, but the term is in B/s"):
        answer.given({"hw.hbm_bandwidth": "1 W"})


def test_figures_by_name() -> None:
    answer = gpuplan.fit("llama-3.1-8b", on="h100", advise=False)
    one = answer["peak_memory_bytes"]
    assert one.low <= float(one) <= one.high
    with pytest.raises(gpuplan.UsageError, match="did you mean `peak_memory_bytes`"):
        answer["peak_memory"]


class _Tags(HTMLParser):
    """Whether tags are closed in order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@pytest.mark.parametrize(("task", "model", "on"), [("fit", "llama-3.1-70b", "t4"), ("serve", "llama-3.1-8b", "h100")])
def test_how_an_answer_looks(task: str, model: str, on: str) -> None:
    made = FUNCTIONS[task](model, on=on)
    assert "\n" not in repr(made)
    assert len(repr(made)) < 160
    assert str(made).startswith("FITS" if made.fits else "DOES NOT FIT")
    page = _Tags()
    page.feed(made._repr_html_())
    assert page.open == []
    assert made.estimate.verdict.words.upper() in page.texts
    assert "peak memory" in page.texts


def test_a_comparison_of_machines() -> None:
    made = gpuplan.compare(gpuplan.fit, "llama-3.1-8b", on=["h100", "t4", "h1000"])
    assert list(made) == ["h100", "t4"]
    assert [made["h100"].fits, made["t4"].fits] == [True, False]
    assert isinstance(made.refused["h1000"], gpuplan.UnknownError)
    assert made["h100"].to_dict() == gpuplan.fit("llama-3.1-8b", on="h100", advise=False).to_dict()
    assert "t4: does not fit" in str(made)
    assert "h1000: no answer" in repr(made)
    page = _Tags()
    page.feed(made._repr_html_())
    assert page.open == []
    with pytest.raises(gpuplan.UnknownError):
        gpuplan.compare("fit", "llama-3.1-8b", on=["h1000"])
    with pytest.raises(gpuplan.UsageError, match="did you mean `train`"):
        gpuplan.compare("trian", "llama-3.1-8b", on=["h100"])  # type: ignore[arg-type]


def test_signatures_name_every_option() -> None:
    for task, function in FUNCTIONS.items():
        names = [name for name in inspect.signature(function).parameters if name != "advise"]
        assert set(names) == set(by_key(ASKS[task]))


def test_importing_gpuplan_imports_no_arrays_and_no_yaml() -> None:
    code = "import gpuplan, sys; print(sorted({'numpy', 'yaml', 'typer', 'pydantic', 'gpuplan.api'} & set(sys.modules)))"
    code += "; gpuplan.fit('llama-3.1-8b', on='h100'); print(sorted({'numpy', 'typer', 'pydantic'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "[]\n[]\n"


def test_the_names_of_the_package() -> None:
    assert set(dir(gpuplan)) == set(gpuplan.__all__)
    assert all(getattr(gpuplan, name) is not None for name in gpuplan.__all__)
    with pytest.raises(AttributeError, match="no attribute `tarin`"):
        gpuplan.tarin  # type: ignore[attr-defined]  # noqa: B018


def test_files_that_change_are_read_anew(tmp_path: Path) -> None:
    config = {
        "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "intermediate_size": 128, "vocab_size": 100,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 8192, "tie_word_embeddings": False,
    }  # fmt: skip
    file = tmp_path / "config.json"
    seen = []
    for layers in (2, 4):
        file.write_text(json.dumps(config | {"num_hidden_layers": layers}), encoding="utf-8")
        os.utime(file, (layers, layers))
        seen.append(gpuplan.fit(file, on="h100", advise=False)["kv_cache_bytes_per_sequence"].value)
    assert seen[1] == 2 * seen[0]


def test_specs_that_change_are_read_anew(tmp_path: Path) -> None:
    text = (ROOT / "hardware_specs" / "accelerators" / "nvidia" / "h100-sxm-80gb.yaml").read_text(encoding="utf-8")
    file = tmp_path / "accelerators" / "nvidia" / "h100-sxm-80gb.yaml"
    file.parent.mkdir(parents=True)
    before = gpuplan.serve("llama-3.1-8b", on="h100-sxm-80gb", advise=False)["tpot_s"].value
    seen = []
    for bandwidth in ("3.35 TB/s", "1.35 TB/s"):
        assert "3.35 TB/s" in text
        file.write_text(text.replace("3.35 TB/s", bandwidth), encoding="utf-8")
        os.utime(file, (len(seen), len(seen)))
        seen.append(gpuplan.serve("llama-3.1-8b", on="h100-sxm-80gb", specs=tmp_path, advise=False)["tpot_s"].value)
    assert seen[0] == before
    assert seen[1] > 1.5 * before
    assert gpuplan.serve("llama-3.1-8b", on="h100-sxm-80gb", advise=False)["tpot_s"].value == before


@pytest.mark.slow  # it reads all of gpuplan and of numpy with mypy
def test_a_type_checker_knows_the_options(tmp_path: Path) -> None:
    api = pytest.importorskip("mypy.api")
    lines = [
        ('gpuplan.train("llama-3.1-8b", on="8xh100", tp=4, tokens="15T", mtbf=3e6, overlap=("dp", "pp"), compile=True)', ""),
        ('gpuplan.train("llama-3.1-8b", on="8xh100", tp=np.int64(4), tokens=np.float64(15e12))', ""),
        ('gpuplan.train("llama-3.1-8b", on="8xh100", tpp=4)', "tpp"),
        ('gpuplan.train("llama-3.1-8b", on="8xh100", precision="fp9")', "precision"),
        ('gpuplan.serve("llama-3.1-8b", on="8xh100", prompt=[1])', "prompt"),
        ('gpuplan.fit("llama-3.1-8b")', "on"),
        ('gpuplan.fit("llama-3.1-8b", on="h100").figures["mfu"].value + 1.0', ""),
        ('gpuplan.fit("llama-3.1-8b", on="h100").figurs', "figurs"),
    ]
    script = tmp_path / "mine.py"
    script.write_text("import numpy as np\n\nimport gpuplan\n\n" + "\n".join(line for line, _ in lines) + "\n", encoding="utf-8")
    out, err, _ = api.run(["--strict", "--config-file=", "--cache-dir", str(tmp_path / "cache"), str(script)])
    told = {int(line.split(":")[-3 if line.count(":") > 3 else 1]): line for line in out.splitlines() if ": error: " in line}
    assert err == ""
    for number, (line, word) in enumerate(lines, 5):
        assert (number in told) is bool(word), f"{line}: {out}"
        assert word in told.get(number, "")
