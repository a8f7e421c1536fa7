"""Are the results the same whoever answers; is nothing lost where a process dies, and does a run go on where it was?"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from multiprocessing import active_children
from pathlib import Path

import pytest

from gpuplan.errors import UsageError
from gpuplan.files.progress import watching
from gpuplan.scenarios import crew
from gpuplan.scenarios.crew import results_of
from gpuplan.scenarios.file import Case, read_scenarios
from gpuplan.scenarios.journal import Journal
from tests.files.watcher import Kept

PLANS = """format: 1
scenarios:
  a: {ask: fit, model: llama-3.1-8b, sweep: {on: [h100, l40s, t4], batch: [1, 2]}, require: fits}
  b: {ask: fit, model: llama-3.1-8b, on: h1000}
"""


def test_processes_say_the_same_and_one_that_is_killed_loses_nothing(plans: Path) -> None:
    cases = read_scenarios(plans).cases
    made = crew._together(cases, range(len(cases)), 2)
    found = dict([next(made)])
    for child in active_children():
        os.kill(child.pid or 0, signal.SIGKILL)
    found |= dict(made)
    assert [found[at].plain() for at in range(len(cases))] == [one.plain() for one in results_of(cases)]


def test_it_is_told_how_many_are_done(plans: Path) -> None:
    cases, kept = read_scenarios(plans).cases, Kept()
    with watching(kept):
        results_of(cases)
    assert kept.done["scenarios"] == [(at, len(cases)) for at in range(len(cases))]


def test_a_question_that_kills_is_given_up(plans: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cases = read_scenarios(plans).cases
    broken = crew.plain_case(cases[1])
    monkeypatch.setattr(crew, "answer_plain", _deadly)
    made = dict(crew._together(cases[:3], range(3), 2))
    assert [made[at].status for at in range(3)] == ["passed", "no answer", "passed"]
    assert made[1].problems[0]["code"] == "scenarios.killed"
    assert broken[0] == cases[1].name


def _deadly(name: str, *rest: object) -> dict[str, object]:
    if name.endswith("batch 2") and "h100" in name:
        os.kill(os.getpid(), signal.SIGKILL)
    from gpuplan.scenarios.result import result_of

    scenario, task, given, changed, _, where = rest
    from gpuplan.scenarios.expression import Assertion

    return result_of(Case(name, scenario, task, given, changed, (Assertion.of("fits"),), where)).plain()


def test_a_journal_has_what_is_done(plans: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cases, path = read_scenarios(plans).cases, tmp_path / "run.journal"
    with Journal(path, cases) as journal:
        first = results_of(cases[:3], journal=journal)
    path.write_text(path.read_text()[:-40])  # torn in the middle of the third
    asked: list[str] = []
    whole = crew.result_of
    monkeypatch.setattr(crew, "result_of", lambda case: (asked.append(case.name), whole(case))[1])
    with Journal(path, cases) as journal:
        again = results_of(cases, journal=journal)
        with pytest.raises(UsageError, match="another run writes this journal"):
            Journal(path, cases)
    assert asked == [case.name for case in cases[2:]]
    assert [one.plain() for one in again[:3]] == [one.plain() for one in first]
    asked.clear()
    with Journal(path, cases) as journal:
        results_of(cases, journal=journal)
    assert asked == []
    monkeypatch.setenv("GPUPLAN_TODAY", "2026-12-24")  # another day, other ages of prices
    with Journal(path, cases) as journal:
        assert journal.done == {}
    with pytest.raises(UsageError, match="this is no journal of scenarios"):
        Journal(plans, cases)


def test_ctrl_c_keeps_what_is_done(tmp_path: Path) -> None:
    path, journal = tmp_path / "plans.yaml", tmp_path / "run.journal"
    batches = list(range(1, 17))
    path.write_text(f"format: 1\nscenarios: {{a: {{ask: serve, model: llama-3.1-8b, on: h100, sweep: {{batch: {batches}}}}}}}\n")
    command = [sys.executable, "-m", "gpuplan.cli.main", "run", str(path), "--jobs", "2", "--json", "--resume", str(journal)]
    going = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 300
    while (not journal.exists() or journal.read_text().count("\n") < 2) and time.monotonic() < until:
        time.sleep(0.01)
    going.send_signal(signal.SIGINT)
    out, err = going.communicate(timeout=300)
    assert "Traceback" not in err
    if going.returncode != 0:  # it was not done before the signal came
        assert going.returncode == 130
        assert out == ""
    kept = journal.read_text()
    command[command.index("2")] = "1"
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    assert journal.read_text().startswith(kept)
    assert [one["name"] for one in json.loads(done.stdout)["results"]] == [f"a: batch {one}" for one in batches]
