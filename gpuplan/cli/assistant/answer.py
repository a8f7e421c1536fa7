"""What does a tool answer? Run as a process of its own for each call: what takes too long or too much can be ended from outside.

It reads `{"tool": …, "arguments": …}` from standard input and writes `{"answer": …}` or `{"problems": […]}`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from importlib import import_module
from math import prod
from typing import TYPE_CHECKING, Any

from gpuplan.cli.assistant.tools import MOST_COMPARED, check
from gpuplan.errors import GpuplanError, Problem, UsageError
from gpuplan.files.json_text import JsonError, parse
from gpuplan.plan.ask import ASKS
from gpuplan.plan.ask_goal import GOALS
from gpuplan.plan.option import by_key

if TYPE_CHECKING:
    pass

MOST_CHARACTERS = 60_000
"""The longest answer: more would fill what an assistant can read."""
USUAL_PRICES, USUAL_DEPTH = 20, 4


def main() -> None:
    """Answer the call on standard input."""
    _write_no_file()
    made = json.dumps(reply(sys.stdin.read()), ensure_ascii=False, allow_nan=False)
    sys.stdout.write(made)


def reply(text: str) -> dict[str, Any]:
    """The answer of a call, or the problems that it has none for."""
    try:
        call = parse(text)
        check(call["tool"], call["arguments"])
        made = answer(call["tool"], call["arguments"])
        length = len(json.dumps(made, ensure_ascii=False, allow_nan=False))
        if length > MOST_CHARACTERS:
            what = f"the answer has {length:,} characters, more than {MOST_CHARACTERS:,}"
            raise UsageError(Problem("tool.long", what, "ask for less: fewer machines, fewer levels, a narrower term"))
    except GpuplanError as error:
        return {"problems": [[f"{one.where}: {one.message}" if one.where else one.message, one.hint] for one in error.problems]}
    except JsonError as error:
        return {"problems": [[f"the call is no JSON: {error}", ""]]}
    except Exception as error:  # A fault of gpuplan's own must reach the assistant as a message.
        from gpuplan.cli.main import bug

        told = bug(error)
        return {"problems": [[told.message, told.hint]]}
    return {"answer": made}


def answer(tool: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """The answer of a tool to arguments that `check` has passed.

    Raises:
        GpuplanError: whatever is wrong with the question or unknown to the data.
    """
    if tool in ASKS:
        return _estimate(tool, given)
    made: dict[str, Any] = {"plan": _plan, "compare": _compare, "prices": _prices, "explain": _explain}
    found: dict[str, Any] = made[tool](given)
    return found


def _estimate(task: str, given: Mapping[str, Any]) -> dict[str, Any]:
    from gpuplan.render.json import figures_document
    from gpuplan.search.ask import answered

    return dict(figures_document(answered(task, given)))


def _plan(given: Mapping[str, Any]) -> dict[str, Any]:
    from gpuplan.planner.ask import planned

    goal = f"plan {given['goal']}"
    asked = {key: one for key, one in given.items() if key not in ("goal", "question")}
    inner = given.get("question", {})
    both = sorted(asked.keys() & inner.keys())
    if both:
        raise UsageError(Problem("usage.twice", f"plan: {', '.join(both)} stands in `question` too", "give it once"))

    task = "train" if goal in ("plan train", "plan finetune", "plan rl") else "serve"
    strange = [key for key in asked if key not in by_key(GOALS[goal]) and key not in by_key(ASKS[task])]
    if strange:
        raise UsageError(Problem("tool.option", f"plan: the goal `{given['goal']}` takes no {', '.join(strange)}"))
    found = planned(goal, {**asked, **inner})
    made = parse(import_module(f"gpuplan.render.{found.page}").as_json(found))
    whole: dict[str, Any] = made if isinstance(made, dict) else {"answers": made}
    return {"reached": found.reached, **whole}


def _compare(given: Mapping[str, Any]) -> dict[str, Any]:
    from gpuplan.api import compare

    task, asked = given["task"], dict(given["question"])
    missing = [key for key in ("model", "on") if key not in asked]
    if missing:
        raise UsageError(Problem("tool.missing", f"compare: `question` has no {' and no '.join(missing)}"))
    asks = prod(len(one) for key, one in asked.items() if isinstance(one, list) and not _is_one_value(task, key))
    if not 2 <= asks <= MOST_COMPARED:
        hint = '{"model": "llama-3.1-8b", "on": ["h100", "h200"]}'
        raise UsageError(Problem("compare.count", f"compare: {asks} questions, where 2 to {MOST_COMPARED} can be asked", hint))
    return compare(task, asked.pop("model"), on=asked.pop("on"), by=given.get("by"), **asked).to_dict()


def _is_one_value(task: str, key: str) -> bool:
    """Whether a list of an option is one value of several words."""
    entry = by_key(ASKS[task]).get(key)
    return entry is not None and entry.kind in ("words", "texts")


def _prices(given: Mapping[str, Any]) -> dict[str, Any]:
    from gpuplan.cli.prices import kind_of_price
    from gpuplan.prices.on_record import in_order, select_prices
    from gpuplan.render.prices import price_record
    from gpuplan.specs.catalog import Catalog

    words, kind, limit = given["words"], given.get("kind"), given.get("limit", USUAL_PRICES)
    kind = None if kind is None else kind_of_price(kind)
    rows = in_order(select_prices(Catalog.open(), words, kind=kind, region=given.get("region")), "accelerator")
    return {"found": len(rows), "prices": [price_record(row) for row in rows[:limit]]}


def _explain(given: Mapping[str, Any]) -> dict[str, Any]:
    from gpuplan.render.text import Look

    look, term = Look(110), given["term"]
    if "task" not in given:
        from gpuplan.cli.explain import formula_named
        from gpuplan.render.formula import formula_page

        return {"formula": term, "working": formula_page(formula_named(term), look)}
    from gpuplan.render.working import working
    from gpuplan.search.ask import answered

    made = answered(given["task"], given.get("question", {}), advise=False)
    depth = given.get("depth", USUAL_DEPTH)
    return {"verdict": made.verdict.headline, "working": working(made, term, look, depth)}


def _write_no_file() -> None:
    """Let this process write no file, whatever it is asked, where the system can hold it to that."""
    try:
        import resource
    except ImportError:  # Windows
        return
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


if __name__ == "__main__":
    main()
