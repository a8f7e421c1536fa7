"""What came of one question of a file: plain data, that a journal, a process or a report can carry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from gpuplan.errors import Exit, GpuplanError, Problem
from gpuplan.record import Record
from gpuplan.scenarios.figures import refusal
from gpuplan.scenarios.file import Case
from gpuplan.scenarios.told import told as told_of

Status: TypeAlias = Literal["passed", "answered", "does not fit", "goal not met", "failed", "unknown", "no answer"]
"""`passed`: all that is required holds; `answered`, `does not fit` and `goal not met` (no
machine reaches the goal of a plan): nothing is required; `failed`: an assertion does not hold;
`unknown`: nobody knows whether; `no answer`: the question cannot be answered."""


class Result(Record, kw_only=True):
    """The outcome of a case. `answer` is what programs get: verdict, figures with ranges, price, what was chosen."""

    name: str
    scenario: str
    task: str
    where: str
    changed: Mapping[str, str]
    status: Status
    exit_code: int
    require: tuple[Mapping[str, Any], ...] = ()
    """Of each assertion its text, whether it holds (true, false, null: unknown), and the figures it rests on."""
    problems: tuple[Mapping[str, str], ...] = ()
    answer: Mapping[str, Any] | None = None

    def plain(self) -> dict[str, Any]:
        """The result as JSON has it."""
        made = {name: getattr(self, name) for name in self.field_names()}
        return {**made, "changed": dict(self.changed), "require": list(self.require), "problems": list(self.problems)}

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Result:
        """The result that `plain` wrote."""
        return cls(**{**data, "require": tuple(data["require"]), "problems": tuple(data["problems"])})


def result_of(case: Case) -> Result:
    """Ask the question of a case and judge the answer; nothing that a user can do wrong raises."""
    told: dict[str, Any] = {
        "name": case.name, "scenario": case.scenario, "task": case.task, "where": case.where, "changed": case.changed,
    }  # fmt: skip
    try:
        made = told_of(case.task, case.given)
        outcomes = [(one.text, one.judged(made.facts)) for one in case.require]
    except GpuplanError as error:
        if error.exit_code == Exit.BUG:
            raise
        code = int(error.exit_code)
        return Result(**told, status="no answer", exit_code=code, problems=tuple(map(_plain, error.problems)))
    checks = [{"text": text, "holds": one.holds, "told": one.told} for text, one in outcomes]
    wrong = [problem for text, one in outcomes if (problem := refusal(text, one)) is not None]
    holds = [one.holds for _, one in outcomes]
    status: Status = "passed"
    if False in holds:
        status, code = "failed", int(Exit.ASSERTION_FAILED)
    elif None in holds:
        status, code = "unknown", int(Exit.UNKNOWN)
    elif holds:
        code = int(Exit.OK)
    elif made.answer["fits"]:
        status, code = "answered", int(Exit.OK)
    else:
        status, code = "does not fit" if made.unmet is None else "goal not met", int(Exit.DOES_NOT_FIT)
    if made.unmet is not None and status != "passed":
        wrong.append(made.unmet)
    return Result(
        **told, status=status, exit_code=code, require=tuple(checks), problems=tuple(map(_plain, wrong)), answer=made.answer
    )  # fmt: skip


def _plain(problem: Problem) -> dict[str, str]:
    return {"code": problem.code, "message": problem.message, "hint": problem.hint}


def exit_code(results: list[Result]) -> int:
    """The exit code of a whole file: a failed assertion first, then what is wrong, unknown, or does not fit.

    >>> exit_code([])
    0
    """
    found = {one.exit_code for one in results}
    order = (Exit.ASSERTION_FAILED, Exit.USAGE, Exit.UNKNOWN, Exit.DOES_NOT_FIT)
    return next((int(code) for code in order if int(code) in found), int(Exit.OK))
