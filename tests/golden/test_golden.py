"""Whole answers to a few questions, kept: a change of any figure shows which terms moved, and by how much.

A folder is a scenario: `ask.yaml` holds the command and its exit code, `tree.json` the verdict, every figure with its range and the
parts of each breakdown, `screen.txt` the answer on 80 columns, and `full.txt`, where it stands, that of `--full`.
`pytest tests/golden --update-golden` writes what is there of them anew.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from difflib import unified_diff
from functools import cache
from math import isclose
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuplan.cli.answer import estimate, of_question
from gpuplan.cli.nested_command import parsed_options
from gpuplan.errors import Exit
from gpuplan.estimate.result import Estimate
from gpuplan.plan.ask import ASKS
from gpuplan.plan.read import question, said
from gpuplan.render.plain import plain
from gpuplan.render.room import MOST_LINES
from gpuplan.render.screen import brief, screen
from gpuplan.render.table import table
from gpuplan.render.text import Look

HERE = Path(__file__).parent
SCENARIOS = sorted(path.parent.name for path in HERE.glob("*/ask.yaml"))
WHOLE = sorted(path.parent.name for path in HERE.glob("*/full.txt"))
"""Scenarios of which the whole text is kept: one of each kind of answer."""
DIGITS = 7
TOLERANCE = 1e-5
"""What a processor's own rounding may change; everything beyond is a change of the estimate."""
WIDTH = 80

each = pytest.mark.parametrize("scenario", SCENARIOS, scope="module")
"""All tests of a scenario run one after the other, so that it is answered once."""


@cache
def asked(scenario: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((HERE / scenario / "ask.yaml").read_text(encoding="utf-8"))
    return found


def options(scenario: str) -> tuple[str, Mapping[str, Any]]:
    """The task and the options of a scenario."""
    task, *words = shlex.split(asked(scenario)["command"])
    words = [str(HERE / scenario / word) if word.endswith(".json") else word for word in words]
    return task, parsed_options(task, words)


@cache
def answered(scenario: str) -> Estimate:
    return estimate(*options(scenario))


def short(value: float) -> float:
    return float(f"{float(value):.{DIGITS}g}")


def tree(made: Estimate) -> dict[str, Any]:
    """The answer as plain data: verdict, question, figures, parts, choices and changes."""
    return {
        "verdict": {"fits": made.verdict.fits, "binding": made.verdict.binding},
        "question": {key: text for key, text in made.question.items() if not text.endswith(".json")},
        "figures": {
            name: {"low": short(made.ranges[name][0]), "expected": short(term.value), "high": short(made.ranges[name][1])}
            for name, term in made.figures.items()
        },
        "parts": {one.title: {part.name: short(part.value) for part in one.parts} for one in made.breakdowns},
        "chosen": {choice.name: choice.value for choice in made.chosen},
        "changes": [dict(change.flags) for change in made.changes],
    }


def leaves(data: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every value of a tree with its path."""
    if isinstance(data, dict):
        for key, value in data.items():
            yield from leaves(value, f"{path} / {key}" if path else str(key))
    else:
        yield path, data


def moved(old: Any, new: Any) -> list[str]:
    """One line for every value that changed, came or went."""
    before, after = dict(leaves(old)), dict(leaves(new))
    lines = []
    for path in {**before, **after}:
        was, now = before.get(path), after.get(path)
        if isinstance(was, (int, float)) and isinstance(now, (int, float)):
            if not isclose(was, now, rel_tol=TOLERANCE, abs_tol=1e-300):
                by = f" ({now / was - 1:+.2%})" if was else ""
                lines.append(f"{path}: {was:g} -> {now:g}{by}")
        elif was != now:
            lines.append(f"{path}: {was} -> {now}")
    return lines


def text_of(data: Any, indent: str = "") -> str:
    """JSON with one line for each figure or part."""
    if not isinstance(data, dict) or "expected" in data:
        return json.dumps(data)
    inner = f"{indent} "
    rows = [f"{inner}{json.dumps(key)}: {text_of(value, inner)}" for key, value in data.items()]
    return "{\n" + ",\n".join(rows) + f"\n{indent}}}"


def test_there_are_scenarios() -> None:
    assert len(SCENARIOS) >= 8
    assert {shlex.split(asked(one)["command"])[0] for one in SCENARIOS} == {"fit", "train", "serve"}
    assert {asked(one)["exit"] for one in SCENARIOS} == {0, 3}


@each
def test_the_answer_is_the_golden_one(scenario: str, request: pytest.FixtureRequest) -> None:
    new, path = tree(answered(scenario)), HERE / scenario / "tree.json"
    if request.config.getoption("--update-golden", False):
        path.write_text(text_of(new) + "\n", encoding="utf-8")
    changes = moved(json.loads(path.read_text(encoding="utf-8")), new)
    assert not changes, f"{asked(scenario)['command']}: {len(changes)} values moved\n  " + "\n  ".join(changes)


@each
def test_the_answer_repeats_what_was_asked(scenario: str) -> None:
    task, *words = shlex.split(asked(scenario)["command"])
    given = said(question(ASKS[task], of_question(parsed_options(task, words))))
    assert given.keys() - answered(scenario).question.keys() <= {"task"}, "an option was dropped"


@each
def test_the_verdict_is_the_expected_exit_code(scenario: str) -> None:
    assert (Exit.OK if answered(scenario).verdict.fits else Exit.DOES_NOT_FIT) == asked(scenario)["exit"]


def kept(text: str, path: Path, *, anew: bool) -> None:
    """The text is that of the file, which is written anew on demand."""
    new = text.replace(str(HERE), "tests/golden")
    if anew:
        path.write_text(new, encoding="utf-8")
    old = path.read_text(encoding="utf-8")
    assert new == old, "\n".join(unified_diff(old.splitlines(), new.splitlines(), "golden", "now", lineterm="", n=1))


@each
def test_the_screen_is_the_golden_one(scenario: str, request: pytest.FixtureRequest) -> None:
    anew = request.config.getoption("--update-golden", False)
    kept(screen(answered(scenario), Look(WIDTH)), HERE / scenario / "screen.txt", anew=anew)


@pytest.mark.parametrize("scenario", WHOLE, scope="module")
def test_the_whole_answer_is_the_golden_one(scenario: str, request: pytest.FixtureRequest) -> None:
    anew = request.config.getoption("--update-golden", False)
    kept(table(answered(scenario), Look(WIDTH)), HERE / scenario / "full.txt", anew=anew)


@each
def test_the_answer_keeps_to_one_screen(scenario: str) -> None:
    made = answered(scenario)
    lines = screen(made, Look(WIDTH)).splitlines()
    assert len(lines) <= MOST_LINES
    assert [line for line in lines if len(line) > WIDTH] == []
    assert brief(made).count("\n") == 1


@each
def test_the_table_keeps_to_its_columns(scenario: str) -> None:
    wide = [line for line in table(answered(scenario), Look(WIDTH)).splitlines() if len(line) > WIDTH and "://" not in line]
    assert not wide


@each
def test_the_plain_answer_is_lines_of_a_label_and_a_value(scenario: str) -> None:
    for line in plain(answered(scenario), full=True).splitlines():
        name, colon, value = line.partition(": ")
        assert name, line
        assert colon, line
        assert value, line
        assert not set(line) & set("█▏▎▍▌▋▊▉│┤└─●–"), line
