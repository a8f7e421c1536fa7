"""Who types what the tables of the Megatron papers print gets what they measured, whichever name the software is given."""

from __future__ import annotations

from functools import cache
from statistics import median

import pytest

from gpuplan.accuracy.compare import training_points
from gpuplan.accuracy.judge import training_question
from gpuplan.accuracy.rows import packaged, read_rows
from gpuplan.cli.accuracy_run import answers
from gpuplan.estimate.result import Estimate
from gpuplan.plan.ask import TrainAsk
from gpuplan.search.library import Library

TABLES = ("narayanan2021", "korthikanti2022")
"""arXiv 2104.04473, table 1, and arXiv 2205.05198, table 5."""
MADE: dict[tuple[str | None, str, int | None], Estimate] = {}
"""What was answered, by engine, row and interleaving."""


@cache
def library() -> Library:
    return Library.of(TrainAsk(model="", on=""))


@pytest.mark.parametrize("interleaving", ["said", "unsaid"])
@pytest.mark.parametrize("engine", [None, "megatron-2021", "megatron-lm@2021-04", "megatron-lm@2022-05"])
def test_tables_of_the_papers_as_they_are_typed(engine: str | None, interleaving: str) -> None:
    answered, errors = answers(library()), []
    rows = [row.as_typed() for row in read_rows([packaged() / "megatron-papers.yaml"]) if row.id.startswith(TABLES)]
    assert len(rows) == 18
    for row in rows:
        ask = training_question(row, answered).replaced(engine=engine)
        ask = ask if interleaving == "said" else ask.replaced(vpp=None)
        key = engine, row.id, ask.vpp
        made = MADE[key] = MADE.get(key) or answered.train(ask)  # what says nothing of interleaving is asked once
        errors += [abs(point.error) for point in training_points(row, made) if point.metric == "throughput"]
    assert len(errors) == 18
    assert median(errors) <= 0.06
