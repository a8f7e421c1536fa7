"""The fit of serving engines' host times: it finds what made the rows, and its values are those of the files."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from gpuplan.accuracy.rows import Row, packaged, read_rows
from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.search.library import Library
from gpuplan.term import Source, Term, total
from tools.fit_serving import (
    CLOSE,
    PLAN,
    RATES,
    Graph,
    Parameter,
    Priced,
    Runs,
    _runs,
    errors_of,
    fit,
    in_file,
    leaf,
    runs_of,
)


@pytest.fixture(scope="module")
def library() -> Library:
    return Library.of(ServeAsk(model="", on=""))


@pytest.fixture(scope="module")
def published() -> list[Row]:
    return [row for row in read_rows([packaged()]) if row.task == "inference"]


EVERY = [
    pytest.param(engine, name, marks=pytest.mark.slow if parameter.users or parameter.sources == RATES else ())
    for engine, parameters in PLAN.items()
    for name, parameter in parameters.items()
]
MADE: dict[tuple[str, str], list[Runs]] = {}
PRICED: Priced = {}


@pytest.fixture(scope="module", autouse=True)
def forgotten() -> Iterator[None]:
    """Let the runs go at the end: millions of terms that every look for garbage would pass through in the tests that follow."""
    yield
    MADE.clear()
    PRICED.clear()


def priced(engine: str, name: str, published: list[Row], library: Library) -> list[Runs]:
    """The runs of a parameter, priced once."""
    if (engine, name) not in MADE:
        MADE[engine, name] = runs_of(published, engine, PLAN[engine][name], name, library, PRICED)
    return MADE[engine, name]


@pytest.mark.parametrize(("engine", "name"), EVERY)
def test_the_figures_of_the_files_are_those_of_the_fit(engine: str, name: str, published: list[Row], library: Library) -> None:
    """And rows of groups that the fit did not see are met better with it than without."""
    parameter = PLAN[engine][name]
    runs = priced(engine, name, published, library)
    value = fit(runs, name, parameter)
    assert in_file(engine, name, parameter) == pytest.approx(value, rel=CLOSE)
    with_it, without = (np.abs(errors_of(runs, name, one, lambda run: ~run.seen)) for one in (value, parameter.without))
    assert float(np.median(with_it)) < float(np.median(without))
    assert float(with_it.mean()) < float(without.mean())


@pytest.mark.parametrize(("engine", "name"), EVERY)
@pytest.mark.parametrize("factor", [0.5, 1.8])
def test_the_fit_finds_the_value_that_made_the_rows(
    engine: str, name: str, factor: float, published: list[Row], library: Library
) -> None:
    parameter = PLAN[engine][name]
    runs = priced(engine, name, published, library)
    hidden = parameter.start * factor
    made = [one._replace(measured=one.measured * np.exp(one.errors({leaf(name): hidden}))) for one in runs]
    found = fit(made, name, parameter)
    # What is known without the runs counts as one more row: where the accelerator is busy for longer in all but a few rows, so that
    # those do not show the value, the fit stays between both.
    felt = int(np.sum(np.abs(errors_of(made, name, 1.1 * hidden, lambda run: run.seen)) > 1e-3))
    assert found == pytest.approx(hidden, rel=0.05 if felt >= 5 else 0.1)
    assert min(hidden, parameter.start) * 0.95 < found < max(hidden, parameter.start) * 1.05
    assert float(np.median(np.abs(errors_of(made, name, found, lambda run: run.seen)))) < 0.005


def test_a_question_that_was_asked_twice_counts_once() -> None:
    """However often a run is repeated, the fit is that of one of each."""
    host = Term("engine.host", 1e-3, "s", Source("user", "a test"))
    busy = Term("busy", np.array([1e-3, 2e-3, 8e-3]), "s", Source("user", "a test"))
    graph = Graph(total("tpot", {"host": host, "busy": busy}), ["engine.host"])
    parameter = Parameter(1e-3, 1.0, "tpot_s", (), "a test")
    row = next(iter(read_rows([packaged()])))
    of_group = [row.replaced(model={"id": name, "name": name}) for name in ("a", "b", "c")]
    each = [(place, one, measured) for place, (one, measured) in enumerate(zip(of_group, (2e-3, 3.5e-3, 11e-3), strict=True))]
    once, often = (_runs(graph, those)._replace(seen=np.ones(len(those), bool)) for those in (each, each + 5 * [each[2]]))
    assert often.weights.sum() == pytest.approx(3.0)
    assert fit([often], "host", parameter) == pytest.approx(fit([once], "host", parameter), rel=1e-6)
