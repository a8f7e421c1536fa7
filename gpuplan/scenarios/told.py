"""What does the answer to a question of a file say, be it an estimate or the machines that reach a goal?"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

from gpuplan.errors import Problem
from gpuplan.estimate.carried import Carried
from gpuplan.estimate.planned import Planned
from gpuplan.estimate.result import Estimate
from gpuplan.planner.ask import PLANNINGS, planned
from gpuplan.record import Record
from gpuplan.render.compare_data import figures_json, price_json
from gpuplan.render.json import number
from gpuplan.render.text import known
from gpuplan.scenarios.expression import Facts
from gpuplan.scenarios.figures import facts_of, facts_of_carried, facts_of_planned
from gpuplan.search.ask import answered


class Told(Record, kw_only=True):
    """What is said: for assertions, and as programs get it.

    `unmet`: that no machine reaches the goal, and what would have to give.
    """

    facts: Facts
    answer: Mapping[str, Any]
    unmet: Problem | None = None


def told(ask: str, given: Mapping[str, Any]) -> Told:
    """The answer to the options of a question, by their names in Python.

    Raises:
        GpuplanError: whatever is wrong with the question or unknown to the data.
    """
    if ask in PLANNINGS:
        found = planned(ask, given)
        return _of_planned(found) if isinstance(found, Planned) else _of_carried(found)
    made = answered(ask, given, advise=False, keep=True)
    return Told(facts=facts_of(made), answer={**_verdict(made), **_rest(made), "figures": figures_json(made)})


def _verdict(made: Estimate) -> dict[str, Any]:
    return {"fits": made.verdict.fits, "verdict": made.verdict.words, "headline": made.verdict.headline}


def _rest(made: Estimate) -> dict[str, Any]:
    return {
        "question": dict(made.question),
        "price": price_json(made),
        "chosen": [{"name": one.name, "value": one.value, "reason": one.reason} for one in made.chosen],
        "notes": [{"code": note.code, "text": note.text, "hint": note.hint} for note in made.notes],
    }


def _of_planned(found: Planned) -> Told:
    """The figures are those of the first machine, of all of it; `plan` is what the command's own `--json` says."""
    render = import_module(f"gpuplan.render.{found.page}")
    facts, first = facts_of_planned(found), found.best[0] if found.best else None
    head = render.headline(found)
    rest = {"question": {}, "price": None, "chosen": [], "notes": []} if first is None else _rest(first.estimate)
    own = {} if first is None else first.estimate.figures
    answer = {
        "fits": facts.flags["fits"],
        "verdict": f"on {first.offering.target}" if first is not None else "nothing meets the goal",
        "headline": head,
        **rest,
        "notes": [*({"code": note.code, "text": note.text, "hint": note.hint} for note in found.notes), *rest["notes"]],
        "figures": {
            key: {
                "value": number(one.value), "low": number(one.low), "high": number(one.high), "unit": one.unit,
                "assumed": key in own and not known(own[key]),
            }
            for key, one in facts.figures.items()
        },
        "plan": render.document(found),
    }  # fmt: skip
    unmet = None if found.reached else Problem("plan.unmet", head, "; ".join(render.relaxed(found)))
    return Told(facts=facts, answer=answer, unmet=unmet)


def _of_carried(found: Carried) -> Told:
    """The figures are the most of each thing; `plan` is what the command's own `--json` says."""
    from gpuplan.render.carried import document, headline

    facts, head = facts_of_carried(found), headline(found)
    answer = {
        "fits": found.reached,
        "verdict": f"carried by {found.on}" if found.reached else "nothing is carried",
        "headline": head, "question": {}, "price": None, "chosen": [],
        "notes": [{"code": note.code, "text": note.text, "hint": note.hint} for note in found.notes],
        "figures": {
            key: {"value": number(one.value), "low": None, "high": None, "unit": one.unit, "assumed": False}
            for key, one in facts.figures.items()
        },
        "plan": document(found),
    }  # fmt: skip
    unmet = None if found.reached else Problem("plan.unmet", head, "; ".join(note.text for note in found.notes))
    return Told(facts=facts, answer=answer, unmet=unmet)
