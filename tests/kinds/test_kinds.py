"""Is there a golden scenario, an invariant and a published case behind every kind of plan that `gpuplan train` can be asked for?

`kinds.yaml` is the table. Each of its lines is checked against the repository, and the table against the fields of the question:
a new option of `gpuplan train`, or a new value of one, fails here until it has its line.
"""

from __future__ import annotations

import ast
import shlex
import typing
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal

import pytest
import yaml

from gpuplan.accuracy.judge import training_question
from gpuplan.accuracy.rows import Row, Skip, packaged, read_rows
from gpuplan.cli.accuracy_run import answers
from gpuplan.cli.answer import of_question
from gpuplan.cli.nested_command import parsed_options
from gpuplan.errors import GpuplanError
from gpuplan.plan.ask import ASKS, TrainAsk
from gpuplan.plan.ask_money import Spending
from gpuplan.plan.common import Common
from gpuplan.plan.read import question
from gpuplan.search.habits import looked_up
from gpuplan.search.library import Library
from gpuplan.search.training_defaults import default_precision
from tests.sweeps import each

TESTS = Path(__file__).parents[1]
ANY = "+"
TABLE: dict[str, list[dict[str, Any]]] = yaml.safe_load((Path(__file__).parent / "kinds.yaml").read_text(encoding="utf-8"))
KINDS = [kind for group in TABLE.values() for kind in group]
NO_KINDS = frozenset((*Common.field_names(), *Spending.field_names(), "emit")) - {"model", "on", "price_kind", "spot_life"}
"""What every question names: prices, folders and pinned terms are no kinds of plans."""
DEGREES = ("tp", "pp", "dp", "cp", "ep", "vpp", "etp", "micro_batch")
OF_ROWS = ("model", "on", "dp", "tokens", "price_kind", "mtbf", "checkpoint_every")
"""Fields that a row of a run states in another way, or never."""


def name(kind: Mapping[str, Any]) -> str:
    return str(kind["kind"])


@cache
def functions(file: str) -> frozenset[str]:
    """The tests of a file."""
    path = TESTS / file
    if not path.is_file():
        return frozenset()
    return frozenset(
        one.name
        for one in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(one, ast.FunctionDef) and one.name.startswith("test_")
    )


@cache
def asked(scenario: str) -> TrainAsk:
    """The question of a golden scenario."""
    task, *words = shlex.split(yaml.safe_load((TESTS / "golden" / scenario / "ask.yaml").read_text(encoding="utf-8"))["command"])
    found = question(ASKS[task], of_question(parsed_options(task, words)))
    assert isinstance(found, TrainAsk)
    return found


@cache
def rows() -> dict[str, Row]:
    return {row.id: row for row in read_rows([packaged()])}


@cache
def library() -> Library:
    return Library.of(Common(model="", on=""))


def of_run(row: Row) -> TrainAsk:
    """The question of a published run, as the accuracy report asks it, with what its engine takes unasked."""
    found, habits = looked_up(training_question(row, answers(library())), library(), with_price=False)
    return habits.ask.replaced(precision=habits.ask.precision or default_precision(found.subject.hw))


def holds(ask: TrainAsk, field: str, wanted: Any) -> bool:
    """Whether a question asks for a kind."""
    value = getattr(ask, field)
    if wanted == ANY:
        return value not in (None, 1 if field in DEGREES else 0)
    if isinstance(wanted, list):
        if value is None or isinstance(value, tuple):
            return value is not None and (set(wanted) <= set(value) if wanted else not value)
        return value in wanted
    return bool(value == wanted)


@each("kind", KINDS)
def test_a_golden_scenario_asks_for_the_kind(kind: Mapping[str, Any]) -> None:
    ask = asked(kind["golden"])
    assert {field: getattr(ask, field) for field, wanted in kind["asks"].items() if not holds(ask, field, wanted)} == {}


@each("kind", KINDS)
def test_an_invariant_stands_behind_the_kind(kind: Mapping[str, Any]) -> None:
    file, _, function = kind["invariant"].partition("::")
    assert function in functions(file), kind["invariant"]


@each("kind", KINDS)
def test_a_published_case_or_run_stands_behind_the_kind(kind: Mapping[str, Any]) -> None:
    case = str(kind["published"])
    if not case.startswith("run:"):
        file, _, function = case.partition("::")
        assert function in functions(file), case
        return
    row = rows().get(case.removeprefix("run:"))
    assert row is not None, f"no published run has the id {case}"
    assert not row.flag, f"{case} is doubtful: {row.flag}"
    try:
        ask = of_run(row)
    except (Skip, GpuplanError) as error:
        pytest.fail(f"{case} is not compared: {error}")
    wrong = {field: getattr(ask, field) for field, wanted in kind["asks"].items()
             if field not in OF_ROWS and not holds(ask, field, wanted)}  # fmt: skip
    assert wrong == {}, f"{case} is no run of this kind"


def choices(annotation: Any) -> Iterator[Any]:
    """The values that a field may have, where they are listed."""
    if typing.get_origin(annotation) is Literal:
        yield from typing.get_args(annotation)
    for inner in typing.get_args(annotation):
        if typing.get_origin(annotation) is not Literal:
            yield from choices(inner)


def fields() -> dict[str, Any]:
    hints = typing.get_type_hints(TrainAsk)
    return {field: hints[field] for field in TrainAsk.field_names() if field not in NO_KINDS}


@each("field", fields())
def test_every_option_has_a_kind(field: str) -> None:
    wanted = [kind["asks"][field] for kind in KINDS if field in kind["asks"]]
    assert wanted, f"tests/kinds/kinds.yaml has no kind of plan with `{field}`"
    if field in ("price_kind", "keep", "to_host"):
        # Prices have tests of their own; spot is the one that a run must reckon with. So have the results of a layer.
        return
    named = {one for value in wanted for one in (value if isinstance(value, list) else [value])}
    missing = [value for value in choices(fields()[field]) if value not in named]
    assert not missing, f"tests/kinds/kinds.yaml has no kind of plan with `{field}` of {missing}"


def test_kinds_have_names_of_their_own() -> None:
    names = [name(kind) for kind in KINDS]
    assert len(names) == len(set(names))
    assert all(kind.keys() == {"kind", "asks", "golden", "invariant", "published"} for kind in KINDS)
