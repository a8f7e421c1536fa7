"""Fitted values in engine profiles: each is a parameter of the plan, alike wherever it is shared, and what the fit gives."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from gpuplan.accuracy.rows import packaged, read_rows
from gpuplan.estimate.training import training_figures
from gpuplan.specs.catalog import Catalog
from gpuplan.specs.engine import Engine
from tools.fit_engines import CLOSE, SITES, Case, cases, count, fit, given, in_files, left_out, outcome, source_of
from tools.fit_plan import PLAN, Parameter
from tools.replay import Observed, bounded, changed
from tools.site_spread import MIDDLE, ends, held, without_each


@cache
def known(*sets: str) -> list[Case]:
    return cases(row for row in read_rows([packaged()]) if row.set in sets)


def trainers() -> list[str]:
    catalog = Catalog.open()
    return [name for name in catalog.paths("engines") if catalog.load(Engine, name).training is not None]


def planned(engine: str) -> set[str]:
    return {path for group in PLAN.values() for path in group.paths(engine)}


@pytest.mark.parametrize("engine", trainers())
def test_every_fitted_value_of_a_file_is_a_parameter_of_the_plan_and_the_other_way_round(engine: str) -> None:
    assert set(in_files(engine)) == planned(engine)


@pytest.mark.parametrize("group", PLAN)
def test_engines_that_share_a_parameter_have_one_value_of_it(group: str) -> None:
    for one in PLAN[group].parameters.values():
        values = {in_files(engine)[path] for engine in one.engines for path in one.paths_of(engine)}
        assert len(values) == 1, (one.meaning, values)


def test_parameters_are_few_and_say_what_they_mean() -> None:
    assert count() <= 36
    assert all(one.meaning and one.width > 0 for group in PLAN.values() for one in group.parameters.values())


@pytest.mark.parametrize("group", ["megatron-deepspeed", "transformers"])
def test_a_fit_gives_what_the_files_say(group: str) -> None:
    """Two groups here; `python -m tools.fit_engines gpuplan/accuracy/runs --check` does all of them in half a minute."""
    wanted = PLAN[group]
    others = {
        engine: {path: value for path, value in in_files(engine).items() if path not in wanted.paths(engine)}
        for engine in wanted.engines
    }
    found = outcome(wanted, known(*wanted.sets), others, leave_out=False)
    for engine, values in given(wanted, found.values).items():
        shipped = in_files(engine)
        for path, value in values.items():
            assert shipped[path] == pytest.approx(float(bounded(path, value)), rel=CLOSE), (engine, path)


def test_a_replay_is_the_estimate_with_other_values() -> None:
    group = PLAN["transformers"]
    values = {name: one.start * 1.3 for name, one in group.parameters.items()}
    for case in known("ml-engineering"):
        seen = case.observed(group, {})
        profile = case.subject.engine.training
        assert profile is not None
        even = profile.residual.replaced(value=1.0)
        paths = {path: values[name] for path, name in group.paths(case.engine).items()}
        engine = case.subject.engine.replaced(training=changed(profile, paths).replaced(residual=even, residual_experts=even))
        made = training_figures(case.subject.replaced(engine=engine), case.plan).figures[case.figure]
        assert float(seen.error(values)) == pytest.approx(np.log(float(made.value) / case.measured), rel=1e-12)


class Planted:
    """Runs that take `a` + `b` times a size."""

    def __init__(self, size: float) -> None:
        self.size, self.paths = size, ("a", "b")

    def value(self, values: dict[str, float]) -> float:
        return values["a"] + self.size * values["b"]


def test_planted_values_are_found_and_a_source_that_differs_is_far_off_when_it_is_left_out() -> None:
    names, sizes = {"a": "a", "b": "b"}, np.geomspace(0.1, 10, 12)
    parameters = {name: Parameter(1.0, 1.0, (), (name,), "") for name in names}
    runs = [Observed(Planted(size), names, 1.2 + 0.8 * size) for size in sizes]
    assert fit(runs, parameters) == pytest.approx({"a": 1.2, "b": 0.8}, rel=0.01)
    of_sources = [(source, run) for source, run in zip(["x", "y", "z"] * 4, runs, strict=True)]
    of_sources += [("slow", Observed(Planted(size), names, 2 * (1.2 + 0.8 * size))) for size in sizes[::3]]
    far = left_out(of_sources, parameters, {"a": 1.2, "b": 0.8}, lambda source: source)
    assert float(np.median(far["slow"])) == pytest.approx(np.log(0.5), abs=0.02)
    assert all(abs(float(np.median(far[source]))) < 0.1 for source in ("x", "y", "z"))


def test_rows_of_sources_that_were_left_out_are_judged_by_none_of_their_own() -> None:
    group = PLAN["transformers"]
    found = outcome(group, known(*group.sets), {}, leave_out=True)
    assert set(found.sources) == {source_of(case) for case, _ in found.runs} == {"qwen", "ml-engineering"}
    assert sum(len(errors) for errors in found.sources.values()) == len(found.runs) == sum(map(len, found.chips.values()))


@pytest.mark.parametrize("engine", trainers())
def test_engines_that_no_run_was_fitted_of_have_the_range_that_sites_differ_by(engine: str) -> None:
    profile = Catalog.open().load(Engine, engine).training
    assert profile is not None
    if profile.residual.source == "sites":
        assert profile.residual.accept == pytest.approx([end * profile.residual.value for end in SITES], abs=6e-4)


def test_the_range_of_sites_is_the_middle_of_the_runs_and_is_judged_on_sources_that_it_was_not_made_from() -> None:
    even = [0.9 + 0.002 * step for step in range(101)]
    low, high = ends(even)
    assert held(even, low, high) == pytest.approx(MIDDLE, abs=0.02)
    far = {"a": even, "b": even, "slow": [1.6, 1.7]}
    assert without_each(far)["slow"][2] == 0.0
    # A source that is far from all others does not narrow what they are judged by.
    assert without_each(far)["a"][1] >= high
