"""`gpuplan run`: ask what a file of scenarios asks, and check what it requires of the answers."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Exit, Option, Typer

from gpuplan.cli import options as o
from gpuplan.cli.help import Command
from gpuplan.errors import Problem, UsageError, did_you_mean

if TYPE_CHECKING:
    from gpuplan.scenarios.file import Case
    from gpuplan.scenarios.journal import Journal

app = Typer(add_completion=False, rich_markup_mode=None)
MOST_JOBS = 256
ENGINES = ("local", "dask")
"""Who may answer."""


@app.command(cls=Command)
def run(
    *,
    files: Annotated[
        list[str], Argument(metavar="FILE", help="A YAML file of scenarios, which docs/scenarios.md describes; or several")
    ],
    only: Annotated[
        o.Texts, Option("--only", metavar="NAME", help="Only scenarios of this name, `*` for any letters; repeatable")
    ] = None,
    junit: Annotated[
        o.Text, Option("--junit", metavar="FILE", rich_help_panel=o.OUTPUT, help="Write JUnit XML for CI into this file, too")
    ] = None,
    jobs: Annotated[o.Text, Option("--jobs", metavar="N", help="Processes that answer at once; left out, 1")] = None,
    resume: Annotated[
        o.Text,
        Option(
            "--resume",
            metavar="FILE",
            help="Keep each answer in this journal at once, and take from it what it has: after Ctrl-C the same command goes on",
        ),
    ] = None,
    engine_of_search: Annotated[
        o.Text,
        Option(
            "--engine-of-search",
            metavar="NAME",
            help="Who answers: `local`, this machine (what is left out), or `dask`, the workers of --scheduler",
        ),
    ] = None,
    scheduler: Annotated[
        o.Text,
        Option("--scheduler", metavar="ADDRESS", help="With `--engine-of-search dask`: the cluster, such as `tcp://10.0.0.5:8786`"),
    ] = None,
    json: o.Json = False,
    csv: o.Csv = False,
    md: o.Md = False,
) -> None:
    """Ask every scenario of a file, and check what it requires: a team's plans and limits, kept in git.

    Exits with 4 when an assertion does not hold, with 2 when the file or a question is wrong, with 5 when something is not known,
    and with 3 when an answer does not fit of which nothing is required.

    Examples:
      gpuplan run plans.yaml
      gpuplan run plans.yaml --only 'chat*' --junit results.xml
      gpuplan run plans.yaml --jobs 8 --resume plans.journal --json
      gpuplan run plans.yaml --engine-of-search dask --scheduler tcp://10.0.0.5:8786
    """
    from gpuplan.cli.answer import form_of, put
    from gpuplan.files.write import check_writable, write
    from gpuplan.plan.read import count
    from gpuplan.scenarios import report
    from gpuplan.scenarios.crew import results_of
    from gpuplan.scenarios.file import read_scenarios
    from gpuplan.scenarios.result import exit_code

    form = form_of({"json": json, "csv": csv, "md": md})
    cases = _chosen([case for file in files for case in read_scenarios(Path(file)).cases], only)
    said = " ".join(files)
    if junit is not None:
        check_writable(Path(junit))
    workers = 1 if jobs is None else count("jobs", jobs, most=MOST_JOBS)
    wide = _cluster(engine_of_search, scheduler, jobs)
    with _journal(resume, cases, wide) as journal:
        results = results_of(cases, jobs=workers, journal=journal, scheduler=scheduler)
        if journal is not None and resume is None:
            journal.forget()  # all of it is told below
    if junit is not None:
        write(Path(junit), report.junit(said, results))
    if form == "json":
        put(report.as_json(said, results))
    elif form == "csv":
        put(report.as_csv(results))
    elif form == "md":
        put(report.markdown(said, results))
    else:
        from gpuplan.render.text import look_of

        put(report.text(said, results, look_of(sys.stdout)))
    raise Exit(exit_code(results))


def _cluster(engine: str | None, scheduler: str | None, jobs: str | None) -> bool:
    """Whether a cluster answers.

    Raises:
        UsageError: an engine that there is not, or options that do not go together.
    """
    if engine not in (None, *ENGINES):
        hint = did_you_mean(engine or "", ENGINES) or f"use {' or '.join(ENGINES)}"
        raise UsageError(Problem("usage.engine-of-search", f"--engine-of-search {engine}: there is no such", hint))
    if engine == "dask" and scheduler is None:
        hint = "add --scheduler tcp://HOST:8786; `dask scheduler` starts one, and `dask worker ADDRESS` who works there"
        raise UsageError(Problem("usage.scheduler", "--engine-of-search dask: which cluster is not said", hint))
    if scheduler is not None and engine != "dask":
        hint = "add --engine-of-search dask, or leave --scheduler out"
        raise UsageError(Problem("usage.scheduler", "--scheduler: questions are answered on this machine", hint))
    if engine == "dask" and jobs is not None:
        raise UsageError(Problem("usage.jobs", "--jobs: on a cluster its workers answer", "leave --jobs out, or --scheduler"))
    return engine == "dask"


def _journal(resume: str | None, cases: Sequence[Case], wide: bool) -> AbstractContextManager[Journal | None]:
    """What keeps the answers: the journal that is named; on a cluster otherwise one in the user's cache, until all is told.

    Raises:
        UsageError: it cannot be written, or is another's.
    """
    from gpuplan.scenarios.journal import Journal

    if resume is not None:
        return Journal(Path(resume), cases)
    if not wide:
        return nullcontext()
    kept = Journal.of_cluster(cases, os.environ)
    if kept.done:
        print(f"note: going on: {len(kept.done)} of {len(cases)} were answered before, see {kept.path}", file=sys.stderr)
    return kept


def _chosen(cases: Sequence[Case], only: Sequence[str] | None) -> list[Case]:
    """The cases of the scenarios that `--only` names.

    Raises:
        UsageError: a name that no scenario has.
    """
    from fnmatch import fnmatchcase

    if not only:
        return list(cases)
    names = list(dict.fromkeys(case.scenario for case in cases))
    for wanted in only:
        if not any(fnmatchcase(name, wanted) for name in names):
            hint = did_you_mean(wanted, names) or f"there are {', '.join(names)}"
            raise UsageError(Problem("scenarios.only", f"--only {wanted}: the file has no such scenario", hint))
    return [case for case in cases if any(fnmatchcase(case.scenario, wanted) for wanted in only)]
