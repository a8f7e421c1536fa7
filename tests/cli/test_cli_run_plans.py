"""Does a file of scenarios ask for plans too: with their options, sweeps, requirements, and reasons where no machine will do?"""

from __future__ import annotations

import csv
import io
import json
import shutil
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest

from gpuplan.planner.ask import PLANNINGS, planned
from gpuplan.scenarios.asks import QUESTIONS, options_of
from gpuplan.scenarios.figures import facts_of_goal, figures, named
from gpuplan.scenarios.schema import schema
from gpuplan.specs.catalog import shipped_folder
from tests.cli.cli_calls import Call
from tests.sweeps import thinned

BUY = {"model": "gpt2", "tokens": "10B", "on": "8xh100"}
CHAT = {"model": "llama-3.1-8b", "rate": "2/s", "on": "h100,l40s", "max_count": 2}
TUNE = {"model": "llama-3.1-8b", "on": "2xrtx-4090"}
LEARN = {"model": "qwen2.5-0.5b", "on": "2xl40s", "prompts": 32, "steps": 10}
HOLDS = {"model": "llama-3.1-8b", "on": "2xl40s"}
ASKED = {
    "plan train": (BUY, "fits and accelerators <= 8 and cost_usd < 1e4 and step_time_s.high < 1 h"),
    "plan finetune": (TUNE, "fits and wall_time_s > 1 min"),
    "plan rl": (LEARN, "fits and wall_time_s > 1 min and tokens_per_s > 100"),
    "plan carries": (HOLDS, "fits and rate_per_s > 1 and requests_in_flight > 10 and context_tokens >= 8k"),
    "plan serve": (CHAT, "fits and ttft_p99_s < 2 s and cost_usd_per_month < 50k and fleet_power_watts > 10"),
}


def file_of(tmp_path: Path, scenarios: dict[str, Any], defaults: dict[str, Any] | None = None) -> str:
    """A file of scenarios: JSON is YAML."""
    path = tmp_path / "plans.yaml"
    path.write_text(json.dumps({"format": 1, "defaults": defaults or {}, "scenarios": scenarios}), encoding="utf-8")
    return str(path)


def test_every_plan_of_a_machine_is_asked_here() -> None:
    assert set(ASKED) == set(PLANNINGS)
    assert {*PLANNINGS, "fit", "train", "serve", "what-runs"} == set(QUESTIONS)


@pytest.mark.parametrize("ask", thinned(["plan train", "plan finetune", "plan rl", "plan serve"], every=3))
def test_an_answer_is_that_of_the_command(call: Call, tmp_path: Path, ask: str) -> None:
    given, require = ASKED[ask]
    file = file_of(tmp_path, {"it": {"ask": ask, **given, "require": require}})
    said = call("run", file, "--json")
    assert said.code == 0, said.out
    (made,) = json.loads(said.out)["results"]
    words = [word for key, one in given.items() if key != "model" for word in (f"--{key.replace('_', '-')}", str(one))]
    alone = json.loads(call(*ask.split(), str(given["model"]), *words, "--json").out)
    assert made["answer"]["plan"] == alone
    best = alone["best"][0]
    assert (made["status"], made["answer"]["verdict"]) == ("passed", f"on {best['on']}")
    told = made["answer"]["figures"]
    key = "cost_usd_per_month" if ask == "plan serve" else "wall_time_s"
    assert (told[key]["value"], told["accelerators"]["value"]) == (best[key], best["accelerators"])
    assert best["on"] in call("run", file).out
    assert best["on"] in "".join(call("run", file).out.split())


def test_what_a_fleet_carries(call: Call, tmp_path: Path) -> None:
    scenarios = {
        "holds": {"ask": "plan carries", **HOLDS, "require": ASKED["plan carries"][1]},
        "largest": {"ask": "plan carries", "model": "any", "on": "rtx-4090", "lowest_bits": 4, "best": 2},
        "not": {"ask": "plan carries", "model": "llama-3.1-70b", "on": "t4"},
    }
    said = call("run", file_of(tmp_path, scenarios), "--json")
    holds, largest, nothing = json.loads(said.out)["results"]
    assert (said.code, [one["status"] for one in (holds, largest, nothing)]) == (3, ["passed", "answered", "goal not met"])
    alone = json.loads(call("plan", "carries", "llama-3.1-8b", "--on", "2xl40s", "--json").out)
    assert holds["answer"]["plan"] == alone
    assert {key: one["value"] for key, one in holds["answer"]["figures"].items()} == {
        one["figure"]: one["value"] for one in alone["most"]
    }
    assert largest["answer"]["figures"]["params"]["value"] == max(one["value"] for one in largest["answer"]["plan"]["most"])
    assert "does not fit" in nothing["problems"][0]["hint"]


def test_which_models_run_here(call: Call, tmp_path: Path) -> None:
    own = {"ask": "what-runs", "on": "rtx-4090", "text": ["qwen3-8b"], "sort": "speed"}
    scenarios = {
        "runs": {**own, "require": "models >= 1 and tokens_per_s_per_user > 20 and context_tokens >= 8k and params < 9e9"},
        "slow": {**own, "require": ["tokens_per_s_per_user > 1e6", "cost_usd < 5"]},
        "none": {**own, "on": "t4", "text": ["llama-3.1-405b"]},
    }
    file = file_of(tmp_path, scenarios)
    said = call("run", file, "--json")
    runs, slow, none = json.loads(said.out)["results"]
    assert (said.code, [one["status"] for one in (runs, slow, none)]) == (4, ["passed", "failed", "goal not met"])
    alone = json.loads(call("what-runs", "qwen3-8b", "--on", "rtx-4090", "--sort", "speed", "--json").out)
    assert runs["answer"]["plan"] == alone
    assert runs["answer"]["figures"]["models"]["value"] == len(alone["models"])
    assert runs["answer"]["figures"]["tokens_per_s_per_user"]["value"] == alone["models"][0]["tokens_per_s"]
    assert none["problems"][0]["code"] == "what-runs.nothing"
    page = call("run", file).out
    assert "qwen3-8b" in page
    assert "models" in page
    assert jsonschema.Draft202012Validator(schema()).is_valid({"format": 1, "scenarios": scenarios})
    bad = call("run", file_of(tmp_path, {"it": {**own, "limit": 3}}))
    assert (bad.code, "`limit` is no option of `what-runs`" in bad.err) == (2, True)


@pytest.mark.parametrize(
    ("require", "code", "said"),
    [
        ("models >= 1", 0, ""),
        ("models > 1000", 4, "`models > 1000` does not hold: models is"),
        ("ttft_p99_s < 1 s", 5, "is not known"),
    ],
)
def test_require_on_what_runs(call: Call, require: str, code: int, said: str) -> None:
    made = call("what-runs", "qwen3-8b", "--on", "rtx-4090", "--require", require)
    assert (made.code, said in made.err) == (code, True), made.err


def test_require_on_what_a_fleet_carries(call: Call) -> None:
    words = ("plan", "carries", "llama-3.1-8b", "--on", "2xl40s", "--require")
    assert call(*words, "rate_per_s > 1 and fits").code == 0
    failed = call(*words, "rate_per_s > 100")
    assert (failed.code, "`rate_per_s > 100` does not hold: rate_per_s is 14." in failed.err) == (4, True)
    assert call(*words, "cost_usd < 5").code == 5
    assert call(*words, "rate < 5").code == 2


def test_a_sweep_with_a_goal_that_nothing_meets(call: Call, tmp_path: Path) -> None:
    scenarios = {
        "buy": {"ask": "plan train", **BUY, "sweep": {"budget": ["1", "10k"]}, "require": "fits and cost_usd < 10k"},
        "free": {"ask": "plan train", **BUY, "budget": 1},
    }
    file = file_of(tmp_path, scenarios, {"max_count": 8})
    junit, journal = tmp_path / "results.xml", tmp_path / "plans.journal"
    said = call("run", file, "--json", "--junit", str(junit))
    made = json.loads(said.out)["results"]
    assert [one["status"] for one in made] == ["failed", "passed", "goal not met"]
    assert (said.code, [one["exit_code"] for one in made]) == (4, [4, 0, 3])
    assert made[2]["problems"][0]["code"] == "plan.unmet"
    assert "--budget 1.00 USD would have to be" in made[2]["problems"][0]["hint"]
    assert (made[2]["answer"]["figures"], made[2]["answer"]["plan"]["best"]) == ({}, [])
    root = ElementTree.parse(junit).getroot()
    assert (root.attrib["failures"], root.attrib["errors"]) == ("2", "0")
    assert root.findall(".//failure")[1].attrib["type"] == "goal not met"
    rows = list(csv.DictReader(io.StringIO(call("run", file, "--csv").out)))
    assert {row["status"] for row in rows} == {"failed", "passed", "goal not met"}
    assert next(row["value"] for row in rows if row["name"] == "accelerators") == "8.0"
    assert "| free | goal not met | nothing meets the goal |" in call("run", file, "--md").out
    alone = call("run", file, "--only", "free")
    assert alone.code == 3
    assert "1 goal not met" in " ".join(alone.out.split())
    assert json.loads(call("run", file, "--json", "--jobs", "2", "--resume", str(journal)).out)["results"] == made
    assert len(journal.read_text(encoding="utf-8").splitlines()) == 3
    assert json.loads(call("run", file, "--json", "--resume", str(journal)).out)["results"] == made


def test_each_figure_stands_beside_its_name_where_a_table_is_too_wide(call: Call, tmp_path: Path) -> None:
    file = file_of(tmp_path, {"a name that leaves no room for anything else on a line of eighty": {"ask": "plan serve", **CHAT}})
    said = " ".join(call("run", file).out.split())
    assert "answered, on " in said
    assert ", tokens/s 512, TTFT " in said
    assert ", accelerators 1, headroom " in said
    assert "–" not in said


@pytest.mark.parametrize(
    ("scenario", "said"),
    [
        ({"ask": "plan", **BUY}, "gpuplan has no question `plan`"),
        ({"ask": "plan trane", **BUY}, "did you mean `plan train`, "),
        ({"ask": "plan train", **BUY, "emit": "command"}, "`emit` is no option of `plan train`"),
        ({"ask": "train", **BUY, "deadline": "30d"}, "found by `gpuplan plan train MODEL --tokens 1T --deadline 30d`"),
        ({"ask": "plan train", "tokens": "1T"}, "`it` has no `model`"),
        ({"ask": "plan train", **BUY, "deadline": "30"}, "--deadline"),
        ({"ask": "plan serve", **CHAT, "sweep": {"spare": [0, 0]}}, "--spare 0 is given twice"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_asked(call: Call, tmp_path: Path, scenario: dict[str, Any], said: str) -> None:
    made = call("run", file_of(tmp_path, {"it": scenario}))
    assert (made.code, made.out) == (2, "")
    assert said in " ".join(made.err.split())
    assert "Traceback" not in made.err


def test_what_only_the_planner_sees_is_no_answer(call: Call, tmp_path: Path) -> None:
    made = call("run", file_of(tmp_path, {"it": {"ask": "plan train", **BUY, "on": "h1000"}}), "--json")
    (result,) = json.loads(made.out)["results"]
    assert (result["status"], result["answer"]) == ("no answer", None)
    assert made.code == result["exit_code"] != 0
    assert "h1000" in result["problems"][0]["message"]


def test_every_figure_of_a_plan_is_in_the_table() -> None:
    for ask, (given, _) in ASKED.items():
        found = facts_of_goal(planned(ask, given)).figures
        assert {key for key in found if named(key) not in figures()} == set(), ask


def test_editors_know_plans() -> None:
    checked = jsonschema.Draft202012Validator(schema())
    for ask, (given, require) in ASKED.items():
        one = {"ask": ask, **given, "require": require, "sweep": {"best": [1, 2]}}
        assert checked.is_valid({"format": 1, "scenarios": {"it": one}}), ask
        assert not checked.is_valid({"format": 1, "scenarios": {"it": {**one, "bset": 2}}}), ask
        assert not checked.is_valid({"format": 1, "scenarios": {"it": {**one, "emit": "command"}}}), ask
    assert "on" in options_of("plan serve")


def test_a_change_of_specs_may_turn_a_plan(call: Call, tmp_path: Path) -> None:
    specs = tmp_path / "specs"
    shutil.copytree(shipped_folder(), specs)
    chip = specs / "accelerators" / "nvidia" / "l40s.yaml"
    chip.write_text(chip.read_text(encoding="utf-8").replace("bandwidth: 864 GB/s", "bandwidth: 8.64 GB/s"), encoding="utf-8")
    asks = {"chat": {"ask": "plan serve", **CHAT}, "holds": {"ask": "plan carries", **HOLDS, "tpot": "1s"}}
    asks["largest"] = {"ask": "plan carries", "model": "any", "on": "l40s", "best": 1, "tpot": "1s"}
    asks["runs"] = {"ask": "what-runs", "on": "l40s", "text": ["qwen3-14b"], "slowest": 0}
    plans = file_of(tmp_path, asks)
    said = call("specs", "diff", str(shipped_folder()), str(specs), "--scenarios", plans, "--json")
    made, holds, largest, runs = json.loads(said.out)["estimates"]
    assert runs["old"] != runs["new"]
    assert "qwen3-14b" in runs["old"]
    assert holds["old"].endswith("requests/s")
    assert holds["new"] != holds["old"]
    assert largest["old"] != largest["new"]
    assert "no answer" not in largest["old"] + largest["new"]
    assert made["old"] != made["new"]
    assert "l40s" in made["old"]
    assert "l40s" not in made["new"]
