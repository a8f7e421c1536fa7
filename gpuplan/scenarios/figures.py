"""Which figures can be asked about, what does each mean, and what does an answer say of them?"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from math import nan
from pathlib import Path

from gpuplan.errors import Problem
from gpuplan.estimate.carried import Carried
from gpuplan.estimate.planned import Planned
from gpuplan.estimate.result import Estimate
from gpuplan.estimate.runnable import WhatRuns
from gpuplan.record import Record
from gpuplan.scenarios.expression import Assertion, Facts, Known, Outcome

TABLE = Path(__file__).with_name("figures.yaml")
_PERCENTILE = re.compile(r"_p\d+(?:_\d+)?_s$")
_MONEY = ("usd", "credits", "break_even")


class Figure(Record):
    """A figure that answers may have: its unit, the questions that it is an answer to, and what it means."""

    unit: str
    tasks: str
    meaning: str


@lru_cache(maxsize=1)
def figures() -> Mapping[str, Figure]:
    """All figures by their JSON keys; percentiles stand as `ttft_pNN_s`."""
    from gpuplan.strict_yaml import load_yaml

    return {key: Figure(*row) for key, row in load_yaml(TABLE)[0].items()}


def named(key: str) -> str:
    """The key under which a figure stands in the table.

    >>> named("ttft_p99_s"), named("ttft_s")
    ('ttft_pNN_s', 'ttft_s')
    """
    return _PERCENTILE.sub("_pNN_s", key)


def facts_of(answer: Estimate) -> Facts:
    """What an answer says, for assertions."""
    verdict = answer.verdict
    found = {key: Known(float(term.value), *answer.ranges[key], term.unit) for key, term in answer.figures.items()}
    return Facts(
        flags={"fits": verdict.fits, "narrowly": verdict.narrowly},
        figures=found,
        lacking=lacking(answer.task, found, _no_price(answer)),
    )


def facts_of_goal(found: Planned | Carried) -> Facts:
    """What an answer of the planner says, for assertions."""
    return facts_of_planned(found) if isinstance(found, Planned) else facts_of_carried(found)


def facts_of_carried(found: Carried) -> Facts:
    """The most of each thing that a fleet carries; of models the first, which is the largest. `fits`: it carries anything."""
    most = {one.figure: Known(one.value, nan, nan, _unit_of(one.figure)) for one in reversed(found.most)}
    why = "`plan carries` does not tell it" if most else "nothing is carried"
    return Facts(
        flags={"fits": found.reached, "narrowly": False},
        figures=most,
        lacking=_WithPercentiles({key: why for key in figures() if key not in most}),
    )


def facts_of_models(found: WhatRuns) -> Facts:
    """What a list of models says: how many run, and the figures of the first of them. `fits`: any runs."""
    own = facts_of(found.runs[0].estimate) if found.runs else None
    whole = {"models": float(len(found.runs))}
    if found.runs:
        first = found.runs[0]
        whole |= {"params": first.params, **({} if first.longest is None else {"context_tokens": float(first.longest)})}
    told = {key: Known(value, nan, nan, _unit_of(key)) for key, value in whole.items()}
    every = {**({} if own is None else own.figures), **told}
    why = {key: "no model runs" for key in figures() if key not in every} if own is None else dict(own.lacking)
    return Facts(
        flags={"fits": own is not None, "narrowly": own is not None and own.flags["narrowly"]},
        figures=every,
        lacking=_WithPercentiles({key: one for key, one in why.items() if key not in every}),
    )


def facts_of_planned(found: Planned) -> Facts:
    """What the first machine of an answer to a goal says, as a whole: `fits` is that it meets the goal.

    Figures of a fleet that no single estimate has (what all of it costs) have no range.
    """
    if not found.best:
        return Facts(
            flags={"fits": False, "narrowly": False},
            figures={},
            lacking=_WithPercentiles(dict.fromkeys(figures(), "nothing meets the goal")),
        )
    best = found.best[0]
    own = facts_of(best.estimate)
    whole = {key: Known(value, nan, nan, _unit_of(key)) for key, value in best.figures.items()}
    alike = {key: one for key, one in own.figures.items() if key in whole and one.value == whole[key].value}
    every = {**own.figures, **whole, **alike}
    return Facts(flags={**own.flags, "fits": best.fits}, figures=every, lacking=own.lacking)


def _unit_of(key: str) -> str:
    one = figures().get(named(key))
    return "" if one is None else one.unit


def lacking(task: str, found: Mapping[str, object], no_price: str = "") -> Mapping[str, str]:
    """The figures that other answers have and this one has not, each with the reason."""
    why: dict[str, str] = {}
    for key, one in figures().items():
        if key in found:
            continue
        if task not in one.tasks and one.tasks != "all":
            why[key] = f"it is a figure of `{one.tasks}`, not of `{task}`"
        elif no_price and any(word in key for word in _MONEY):
            why[key] = no_price
        else:
            why[key] = "this question does not tell it"
    return _WithPercentiles(why)


class _WithPercentiles(dict[str, str]):
    """Names with reasons, where `ttft_p95_s` is `ttft_pNN_s`."""

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str) and super().__contains__(named(key))

    def __getitem__(self, key: str) -> str:
        return super().__getitem__(named(key))


def required(answer: Estimate, text: str) -> Outcome:
    """Whether an assertion holds for an answer; errors as `Assertion.of` and `Assertion.judged`."""
    return Assertion.of(text).judged(facts_of(answer))


def refusal(text: str, outcome: Outcome) -> Problem | None:
    """What to say of an assertion that does not hold, or of which nobody knows; None where it holds."""
    if outcome.holds:
        return None
    if outcome.holds is None:
        hint = "; ".join(outcome.unknown)
        return Problem("require.unknown", f"whether `{text}` holds is not known ({outcome.told})", hint)
    return Problem("require.failed", f"`{text}` does not hold: {outcome.told}")


def _no_price(answer: Estimate) -> str:
    found = next((note for note in answer.notes if note.code == "price.unknown"), None)
    return "" if found is None else f"{found.text}; {found.hint}"


_TITLES = {
    "Of every question": ("all",), "Of plans and of lists of models": ("plan", "what-runs"), "Of training": ("train",),
    "Of serving and of fit": ("serve", "fit"),
}  # fmt: skip


def page() -> str:
    """The reference page of all figures, by question."""
    parts = [_HEAD]
    for title, tasks in _TITLES.items():
        rows = [
            f"| `{key}` | {_units(one.unit)} | {one.tasks} | {one.meaning} |"
            for key, one in figures().items()
            if any(task in one.tasks for task in tasks)
        ]
        parts.append(f"## {title}\n\n| figure | unit | questions | meaning |\n|---|---|---|---|\n" + "\n".join(rows) + "\n")
    return "\n".join(parts)


def _units(unit: str) -> str:
    return "" if unit == "1" else unit


_HEAD = """# The figures

<!-- Made by `python tools/options.py` of gpuplan/scenarios/figures.yaml: do not edit. -->

What an answer may tell, by the keys of `--json`, which `--require`, files of scenarios ([scenarios](scenarios.md)) and `--by` of
`gpuplan compare` take too. Values are in base units: bytes, seconds, USD, joules, and per second; a share of 1 is 100 %. Each has a
range, whose ends are `.low` and `.high` in assertions. Which of them an answer has follows from the question.

A plan (`plan train`, `plan finetune`, `plan serve`) tells the figures of the task that it plans, of the first machine that it names
and of all accelerators of it together; what a whole fleet has and one unit of it has not is without a range. `fits` says that the
goal is met. `plan carries` tells the most of each thing that a fleet carries, without ranges; `fits` says that it carries anything.
`what-runs` tells how many `models` run, and the figures of the first of them; `fits` says that any does.
"""
