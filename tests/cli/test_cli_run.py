"""Does `gpuplan run` ask what a file asks, judge what it requires, and say with file and line what is wrong?"""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest

import gpuplan
from gpuplan.scenarios.figures import figures, named
from gpuplan.scenarios.schema import schema
from gpuplan.strict_yaml import load_yaml
from tests.cli.cli_calls import Call

GOOD = """format: 1
defaults: {engine: vllm, require: fits}
scenarios:
  chat:
    ask: serve
    model: llama-3.1-8b
    sweep: {on: [h100, l40s], weights: [bf16, fp8]}
    require: ttft_s < 500 ms
  tight:
    ask: fit
    model: llama-3.1-8b
    on: t4
    weights: bf16
    engine: null
  run:
    ask: train
    model: llama-3.1-8b
    on: 8xh100
    tokens: 1T
    engine: null
    require: [fits and step_time_s.high < 10 h, cost_usd < 1e9]
"""


def unwrapped(text: str) -> str:
    """Without blanks and line ends: a long path is cut where the line ends."""
    return "".join(text.split())


@pytest.fixture
def plans(tmp_path: Path) -> Path:
    path = tmp_path / "plans.yaml"
    path.write_text(GOOD, encoding="utf-8")
    return path


def written(tmp_path: Path, scenarios: str) -> str:
    path = tmp_path / "some.yaml"
    path.write_text(f"format: 1\nscenarios:\n{scenarios}", encoding="utf-8")
    return str(path)


def test_a_file_of_scenarios(call: Call, plans: Path) -> None:
    said = call("run", str(plans))
    assert said.code == 4
    assert "6 scenarios: 5 passed, 1 failed" in " ".join(said.out.split())
    assert "chat: l40s, fp8" in said.out
    assert unwrapped(f"tight ({plans}:9): `fits` does not hold: fits is false") in unwrapped(said.out)
    assert call("run", str(plans), "--only", "ch*").code == 0
    assert call("run", str(plans), "--only", "run", "--only", "chat").code == 0
    wrong = call("run", str(plans), "--only", "chatt")
    assert (wrong.code, "did you mean `chat`?" in wrong.err) == (2, True)


def test_its_answers_are_those_of_the_commands(call: Call, plans: Path) -> None:
    made = json.loads(call("run", str(plans), "--json").out)
    assert made["exit_code"] == 4
    by_name = {one["name"]: one for one in made["results"]}
    alone = gpuplan.serve("llama-3.1-8b", on="l40s", weights="fp8", engine="vllm", advise=False)
    figure = by_name["chat: l40s, fp8"]["answer"]["figures"]["ttft_s"]
    assert (figure["value"], figure["high"]) == (alone["ttft_s"].value, alone["ttft_s"].high)
    assert by_name["run"]["require"][0]["holds"] is True
    rows = list(csv.DictReader(io.StringIO(call("run", str(plans), "--csv").out)))
    assert {row["case"] for row in rows} == set(by_name)
    assert call("run", str(plans), "--md").out.startswith(f"**{plans}: 6 scenarios")


def test_junit_for_ci(call: Call, plans: Path, tmp_path: Path) -> None:
    file = tmp_path / "results.xml"
    assert call("run", str(plans), "--junit", str(file)).code == 4
    root = ElementTree.parse(file).getroot()
    assert root.attrib["tests"] == "6"
    assert root.attrib["failures"] == "1"
    assert [suite.attrib["name"] for suite in root] == ["chat", "tight", "run"]
    failed = root.findall("./testsuite/testcase/failure")
    assert len(failed) == 1
    assert failed[0].attrib["message"] == "`fits` does not hold: fits is false"


@pytest.mark.parametrize(
    ("scenarios", "code", "said"),
    [
        ("  a: {ask: fit, model: llama-3.1-70b, on: t4}\n", 3, "1 does not fit"),
        ("  a: {ask: fit, model: llama-3.1-8b, on: h1000}\n", 5, "1 no answer"),
        ("  a: {ask: serve, model: llama-3.1-8b, on: m3-ultra, require: cost_usd_per_million_output_tokens < 5}\n", 5, "1 unknown"),
        ("  a: {ask: serve, model: llama-3.1-8b, on: h100, require: ttft < 5}\n", 2, "did you mean `ttft_s`"),
        ("  a: {ask: train, model: llama-3.1-8b, on: 8xh100, tp: 3}\n", 2, "tp 3 does not divide the 8 accelerators"),
        ("  a: {ask: serve, model: llama-3.1-8b, on: h100, set: {hw.hbm_bandwidth: 1 TB/s}, require: mbu < 1}\n", 0, "1 passed"),
    ],
)
def test_exit_codes(call: Call, tmp_path: Path, scenarios: str, code: int, said: str) -> None:
    made = call("run", written(tmp_path, scenarios))
    assert made.code == code, made.out
    assert said in " ".join(made.out.split())
    assert "Traceback" not in made.err


@pytest.mark.parametrize(
    ("scenarios", "said"),
    [
        (
            "  a: {ask: serv, model: m, on: h100}\n",
            ":3: `a`: gpuplan has no question `serv`\n  hint: did you mean `serve` or `plan serve`?",
        ),
        ("  a:\n    ask: fit\n    model: m\n    onn: h100\n", ":6: `onn` is no option of `fit`\n  hint: did you mean `on`?"),
        ("  a: {ask: fit, model: m}\n", ":3: `a` has no `on`"),
        ("  a: {ask: fit, model: m, on: h100, tokens: 1T}\n", "hint: it is an option of `gpuplan train`"),
        ("  a: {ask: fit, model: m, on: h100,\n      weights: fp9}\n", ":4: --weights fp9: no such choice"),
        ("  a: {ask: fit, model: m, on: h100, batch: 0}\n", "--batch 0: a whole number of at least 1 is wanted"),
        ("  a: {ask: fit, model: m, on: h100, require: fits and}\n", "`fits and` is no assertion"),
        ("  a: {ask: fit, model: m, on: h100, require: [fits, 3]}\n", "an assertion is wanted"),
        ("  a: {ask: fit, model: m, on: h100, sweep: {on: [t4, l4]}}\n", "`on` stands beside the sweep and in it"),
        ("  a: {ask: fit, model: m, sweep: {on: t4}}\n", "`sweep.on` is not a list"),
        ("  a: {ask: fit, model: m, sweep: {on: [t4, t4]}}\n", "--on t4 is given twice"),
        ("  a: {ask: fit, model: m, sweep: {on: []}}\n", "--on: no value"),
        ("  a: [fit]\n", "the scenario `a` is not a mapping"),
        ("  a: {ask: fit, model: m, on: [h100]}\n", "a text is wanted"),
        ("  a: {ask: fit, model: m, on: h100, context: 1:30}\n", "base 60"),
        ("  {}\n", "there are no `scenarios`"),
    ],
)
def test_what_is_wrong_with_a_file(call: Call, tmp_path: Path, scenarios: str, said: str) -> None:
    made = call("run", written(tmp_path, scenarios))
    assert made.code == 2
    assert said in made.err
    assert "some.yaml:" in made.err
    assert made.out == ""


def test_what_is_wrong_with_the_top_of_a_file(call: Call, tmp_path: Path) -> None:
    path = tmp_path / "plans.yaml"
    path.write_text(
        "formt: 1\ndefaults: {enginee: vllm}\nscenarios: {a: {ask: fit, model: llama-3.1-8b, on: h100}}\n", encoding="utf-8"
    )
    said = call("run", str(path)).err
    assert "plans.yaml:1: `formt` is not a key gpuplan knows" in said
    assert "`format: 1` is missing" in said
    assert "plans.yaml:2: `defaults.enginee` is taken by no scenario\n  hint: did you mean `engine`" in said
    assert call("run", str(tmp_path / "none.yaml")).code == 2
    assert call("run", str(tmp_path)).code == 2


def test_folders_of_specs_are_from_the_file(call: Call, tmp_path: Path) -> None:
    folder = tmp_path / "team" / "specs" / "accelerators"
    folder.mkdir(parents=True)
    path = tmp_path / "team" / "plans.yaml"
    path.write_text(
        "format: 1\ndefaults: {specs: [specs]}\nscenarios: {a: {ask: fit, model: llama-3.1-8b, on: h100}}\n", encoding="utf-8"
    )
    said = call("run", str(path))
    assert str(folder.parent) in unwrapped(said.out + said.err)  # it is empty, which is said of that very folder


def test_require_on_a_question(call: Call) -> None:
    words = ("serve", "llama-3.1-8b", "--on", "h100", "--require")
    assert call(*words, "fits and ttft_s < 10 s").code == 0
    failed = call(*words, "ttft_s < 1 us")
    assert failed.code == 4
    assert "`ttft_s < 1 us` does not hold: ttft_s is " in failed.err
    assert failed.out.startswith("FITS")
    assert call(*words, "cost_usd < 1").code == 5
    assert call(*words, "ttf_s < 1").code == 2
    assert call("fit", "llama-3.1-70b", "--on", "t4", "--require", "not fits").code == 0


def test_require_on_a_plan(call: Call) -> None:
    words = ("plan", "train", "llama-3.1-8b", "--on", "8xh100", "--tokens", "10B", "--require")
    assert call(*words, "fits and cost_usd < 1e6 and accelerators <= 8 and step_time_s.high < 1 h").code == 0
    failed = call(*words, "accelerators < 8")
    assert failed.code == 4
    assert "`accelerators < 8` does not hold: accelerators is 8" in failed.err
    assert call(*words, "accelerator < 8").code == 2
    assert call(*words[:-1], "--budget", "1", "--require", "not fits").code == 0
    assert call(*words[:-1], "--budget", "1", "--require", "cost_usd < 5").code == 5


def test_the_schema_for_editors(plans: Path) -> None:
    def lists(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: lists(one) for key, one in value.items()}
        return [lists(one) for one in value] if isinstance(value, tuple) else value

    made = schema()
    jsonschema.Draft202012Validator.check_schema(made)
    data = lists(load_yaml(plans)[0])
    jsonschema.validate(data, made)
    data["scenarios"]["chat"]["onn"] = "h100"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(data, made)


def test_the_table_of_figures_is_that_of_the_answers() -> None:
    told = figures()
    for path in sorted((Path(__file__).parents[1] / "golden").glob("*/tree.json")):
        data = json.loads(path.read_text(encoding="utf-8"))
        for key in data["figures"]:
            assert named(key) in told, f"{path.parent.name}: {key}"
    for task, options in (
        ("train", {"on": "8xh100", "tokens": 1e12}),
        ("serve", {"on": "h100", "rate": "2/s"}),
        ("fit", {"on": "h100"}),
    ):
        answer = getattr(gpuplan, task)("llama-3.1-8b", advise=False, **options)
        for key, figure in answer.figures.items():
            assert (key, told[named(key)].unit) == (key, figure.unit)
            assert task in told[named(key)].tasks or told[named(key)].tasks == "all", key
