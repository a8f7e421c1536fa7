"""Published runs from their first step to their last, beside what is said of them."""

from __future__ import annotations

from pathlib import Path

import gpuplan
from gpuplan.search.training_notes import WHOLE_RUNS
from gpuplan.strict_yaml import parse_any
from tools.whole_runs import FILE, beside, summary, table, whole_runs

PAGE = Path(__file__).parents[2] / "docs" / "accuracy-training.md"


def test_what_is_said_of_whole_runs_is_what_they_took() -> None:
    made = [beside(run) for run in whole_runs()]
    low, half, most = summary(made)
    assert (len(made), round(half, 1), round(most, 1)) == WHOLE_RUNS
    assert low > 0.8, "a tenth of the runs was much faster than what is said to be the fastest plan"
    assert table(made) in PAGE.read_text(), "run: python -m tools.whole_runs, and put its table into the page"


def test_each_run_has_a_source() -> None:
    sources = parse_any(FILE.read_text(), str(FILE))["sources"]
    assert {run.source for run in whole_runs()} == set(sources)
    assert all(source["url"].startswith("https://") and source["title"] for source in sources.values())


def test_long_runs_on_many_accelerators_are_told() -> None:
    def told(on: str, tokens: str) -> bool:
        return any(note.code == "run.whole" for note in gpuplan.train("llama-3.1-8b", on=on, tokens=tokens).notes)

    assert told("512xh100", "15T")
    assert not told("8xh100", "15T")
    assert not told("512xh100", "15B")
