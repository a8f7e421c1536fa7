"""What does the answer to a question of a file say, be it an estimate or the machines that reach a goal?"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from gpuplan.errors import Problem
from gpuplan.estimate.carried import Carried
from gpuplan.estimate.planned import Planned
from gpuplan.estimate.result import Estimate
from gpuplan.estimate.runnable import WhatRuns
from gpuplan.planner.ask import PLANNINGS, planned
from gpuplan.record import Record
from gpuplan.render.compare_data import figures_json, price_json
from gpuplan.render.json import number
from gpuplan.render.text import known
from gpuplan.scenarios.asks import WHAT_RUNS
from gpuplan.scenarios.expression import Facts
from gpuplan.scenarios.figures import facts_of, facts_of_carried, facts_of_models, facts_of_planned
from gpuplan.search.ask import answered
from gpuplan.term import Term

if TYPE_CHECKING:
    from gpuplan.search.library import Library


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
    if ask == WHAT_RUNS:
        return _of_models(models_of(given))
    made = answered(ask, given, advise=False, keep=True)
    return Told(facts=facts_of(made), answer={**_verdict(made), **_rest(made), "figures": figures_json(made)})


def models_of(given: Mapping[str, Any], library: Library | None = None) -> WhatRuns:
    """The models that run, by the options of `gpuplan what-runs`; `text` must occur in their names.

    Without a library, that of the process with the specs that the options name.

    Raises:
        GpuplanError: whatever is wrong with the question or unknown to the data.
    """
    from gpuplan.plan.read import question
    from gpuplan.plan.what_runs import WhatRunsAsk
    from gpuplan.search.library import Library
    from gpuplan.search.what_runs import what_runs

    asked = question(WhatRunsAsk, {key: one for key, one in given.items() if key != "text"})
    read = Library.shared(asked.specs, calibrated=bool(asked.calibrated)) if library is None else library
    return what_runs(asked, read, given.get("text") or ())


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
        "figures": _figures(facts, own),
        "plan": render.document(found),
    }  # fmt: skip
    unmet = None if found.reached else Problem("plan.unmet", head, "; ".join(render.relaxed(found)))
    return Told(facts=facts, answer=answer, unmet=unmet)


def _of_models(found: WhatRuns) -> Told:
    """The figures are those of the first model, and how many run; `plan` is what the command's own `--json` says."""
    from gpuplan.render.what_runs import document, headline, left_out

    facts, head = facts_of_models(found), headline(found)
    answer = {
        "fits": facts.flags["fits"],
        "verdict": f"{found.runs[0].card.id} and {len(found.runs) - 1} more" if found.runs else "no model runs",
        "headline": head, "question": {}, "price": None, "chosen": [],
        "notes": [{"code": note.code, "text": note.text, "hint": note.hint} for note in found.notes],
        "figures": _figures(facts, found.runs[0].estimate.figures if found.runs else {}),
        "plan": document(found),
    }  # fmt: skip
    unmet = None if found.runs else Problem("what-runs.nothing", head, f"left out: {left_out(found)}")
    return Told(facts=facts, answer=answer, unmet=unmet)


def _figures(facts: Facts, own: Mapping[str, Term]) -> dict[str, Any]:
    """Figures as programs get them; `own` are those that have a working."""
    return {
        key: {
            "value": number(one.value), "low": number(one.low), "high": number(one.high), "unit": one.unit,
            "assumed": key in own and not known(own[key]),
        }
        for key, one in facts.figures.items()
    }  # fmt: skip


def _of_carried(found: Carried) -> Told:
    """The figures are the most of each thing; `plan` is what the command's own `--json` says."""
    from gpuplan.render.carried import document, headline

    facts, head = facts_of_carried(found), headline(found)
    answer = {
        "fits": found.reached,
        "verdict": f"carried by {found.on}" if found.reached else "nothing is carried",
        "headline": head, "question": {}, "price": None, "chosen": [],
        "notes": [{"code": note.code, "text": note.text, "hint": note.hint} for note in found.notes],
        "figures": _figures(facts, {}),
        "plan": document(found),
    }  # fmt: skip
    unmet = None if found.reached else Problem("plan.unmet", head, "; ".join(note.text for note in found.notes))
    return Told(facts=facts, answer=answer, unmet=unmet)
