"""How do the options of `gpuplan accuracy` become a report, its table, JSON or plot, and an exit code?"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpuplan.cli.answer import put
from gpuplan.errors import Exit, Problem, UnknownError, UsageError, did_you_mean
from gpuplan.estimate.result import Estimate
from gpuplan.plan.read import count

METRICS = ("throughput", "memory", "prefill", "ttft", "tpot", "weights", "kv_pool", "fits")
LEAST = ("rows", "inside_range", "ran_said_fits", "oom_said_not")
"""What a budget sets a lower limit to."""
FIGURES = (*LEAST, "missed", "median_ape", "mean_ape", "p90_ape", "bias", "width", "width_p90", "spread")


def run_accuracy(given: Mapping[str, Any]) -> int:
    """Write the report to standard output; the exit code says whether a budget was kept.

    Raises:
        UsageError: a wrong option, no such file, or a file that holds no runs.
    """
    from gpuplan.accuracy.judge import judge
    from gpuplan.accuracy.report import KEYS, keys_of, report

    problems = []
    by, task = given["by"], given["task"]
    for key in keys_of(by):
        if key not in KEYS:
            hint = did_you_mean(key, KEYS) or f"use {', '.join(KEYS)}, or several of them such as engine,accelerator"
            problems.append(Problem("usage.word", f"--by {by}: rows cannot be grouped by `{key}`", hint))
    if task not in (None, "training", "inference", "startup", "diffusion"):
        problems.append(Problem("usage.word", f"--task {task}: no such task", "use training, inference, startup or diffusion"))
    if given["json"] and given["md"]:
        problems.append(Problem("usage.forms", "--json and --md at once", "choose one"))
    if problems:
        raise UsageError(*problems)
    if given["plot"]:
        from gpuplan.render.plot import drawable

        drawable(Path(given["plot"]))
    limits = limits_of(given["budget"]) if given["budget"] else {}
    worst = count("worst", given["worst"], least=0)
    rows = wanted_rows(given["runs"], task)
    judged = judge(rows, answers())
    made = report(judged, by)
    if given["plot"]:
        from gpuplan.render.accuracy_plot import draw

        draw(made, Path(given["plot"]))
    if given["json"]:
        put(json.dumps(made, indent=1, ensure_ascii=False) + "\n")
    else:
        from gpuplan.render.accuracy import table
        from gpuplan.render.text import look_of

        put(table(made, worst=worst, markdown=given["md"], look=look_of(sys.stdout)))
    return over_budget(made, limits)


def wanted_rows(paths: list[str] | None, task: str | None) -> list[Any]:
    """The rows of the files named, or those that came with gpuplan."""
    from gpuplan.accuracy.rows import marked, packaged, read_rows

    places = [Path(path) for path in paths or ()]
    missing = [
        Problem(
            "accuracy.no-file",
            f"--runs {place}: there is no such file or folder",
            "name a file of measured runs, or a folder of them",
        )
        for place in places
        if not place.exists()
    ]
    if missing:
        raise UsageError(*missing)
    wanted = [row for row in read_rows(places or [packaged()]) if task is None or row.task == task]
    if not wanted and task is not None:
        where = "in these files" if places else "among the published runs that came with gpuplan"
        hint = "give yours with --runs; `gpuplan calibrate import` writes them from benchmark results"
        raise UnknownError(Problem("accuracy.no-runs", f"there is no measured run of {task} {where}", hint))
    return marked(wanted, read_rows([packaged()])) if places else wanted


def answers(library: Any = None) -> Any:
    """The functions behind `gpuplan train` and `gpuplan serve`, which read each data file once for all rows."""
    from gpuplan.accuracy.judge import Answers
    from gpuplan.errors import UnknownError
    from gpuplan.plan.ask import TrainAsk
    from gpuplan.search.diffusion import answer_diffusion
    from gpuplan.search.library import Library
    from gpuplan.search.rl import answer_rl
    from gpuplan.search.serving import answer_serving
    from gpuplan.search.serving_many import answers_at_once
    from gpuplan.search.training import answer_training
    from gpuplan.specs.engine import Engine

    library = library or Library.of(TrainAsk(model="", on=""))
    known: dict[str, tuple[Engine, bool] | None] = {}

    def engine(name: str) -> tuple[Engine, bool] | None:
        if name not in known:
            try:
                found, notes = library.engine(name)
                known[name] = found, bool(notes)
            except (UnknownError, UsageError):
                known[name] = None
        return known[name]

    def train(ask: TrainAsk) -> Estimate:
        return answer_training(ask, library, with_price=False) if ask.rl is None else answer_rl(ask, library)

    return Answers(
        train=train, serve=lambda ask: answer_serving(ask, library),
        pictures=lambda ask: answer_diffusion(ask, library, advise=False),
        card=library.card, keep=library.keep, engine=engine, at_once=lambda asks: answers_at_once(asks, library),
    )  # fmt: skip


INFORMED = "informed"
"""The part of a budget that is of rows with what else is known of them."""


def limits_of(file: str) -> Mapping[str, Mapping[str, Mapping[str, float]]]:
    """The limits of a budget file: groups to metrics, metrics to the largest `median_ape`, `missed` … and the fewest `rows`.

    Groups of rows with what else is known of them come back as `informed: NAME`.

    Raises:
        UsageError: the file is missing or says something else.
    """
    from gpuplan.strict_yaml import load_yaml

    data, _ = load_yaml(Path(file))
    hint = "write `all: {throughput: {median_ape: 0.1, rows: 500}}`, the same below `informed:`"
    if not isinstance(data, Mapping):
        raise UsageError(Problem("accuracy.budget", f"{file} says nothing of groups", hint))
    inner = data.get(INFORMED) or {}
    known = inner if isinstance(inner, Mapping) else {"it": None}
    limits = {name: metrics for name, metrics in data.items() if name != INFORMED}
    limits |= {f"{INFORMED}: {name}": metrics for name, metrics in known.items()}
    wrong = [
        Problem("accuracy.budget", f"{file}: {name}: {metric}: {what} is no limit", hint)
        for name, metrics in limits.items()
        for metric, bounds in (metrics.items() if isinstance(metrics, Mapping) else [("it", None)])
        for what, bound in (bounds.items() if isinstance(bounds, Mapping) else [("it", None)])
        if isinstance(bound, bool) or not isinstance(bound, (int, float)) or metric not in METRICS or what not in FIGURES
    ]
    if wrong:
        raise UsageError(*wrong)
    return limits


def over_budget(made: Mapping[str, Any], budget: Mapping[str, Mapping[str, Mapping[str, float]]]) -> int:
    """4 where a group of the budget does worse than it allows, each said on standard error."""
    known = made[INFORMED]
    groups = _by_name(made) | {f"{INFORMED}: {name}": group for name, group in _by_name(known).items()}
    worse = []
    for name, limits in budget.items():
        if name not in groups:
            worse.append(f"{name}: no row of it was compared")
            continue
        for metric, bounds in limits.items():
            got = groups[name][metric]
            for what, bound in bounds.items():
                value = got.get(what)
                least = what in LEAST
                if value is None or (value < bound if least else value > bound):
                    shown = "nothing" if value is None else f"{value:.4g}"
                    worse.append(
                        f"{name}: {metric} {what} is {shown}, the budget is {'at least' if least else 'at most'} {bound:g}"
                    )
    for line in worse:
        print(f"over budget: {line}", file=sys.stderr)
    return int(Exit.ASSERTION_FAILED if worse else Exit.OK)


def _by_name(told: Mapping[str, Any]) -> dict[str, Any]:
    """What a budget may name: all rows, those of sources of one age, and the groups that the report is by."""
    return {"all": told["metrics"], **{one["key"]: one for one in (*told["sources"], *told["groups"])}}
