"""`gpuplan run`: ask what a file of scenarios asks, and check what it requires of the answers."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Exit, Option, Typer

from gpuplan.cli import options as o
from gpuplan.cli.help import Command
from gpuplan.errors import Problem, UsageError, did_you_mean

if TYPE_CHECKING:
    from gpuplan.scenarios.file import Case

app = Typer(add_completion=False, rich_markup_mode=None)
MOST_JOBS = 256


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
    jobs: Annotated[o.Text, Option("--jobs", metavar="N", help="So many processes answer at once (1)")] = None,
    resume: Annotated[
        o.Text,
        Option(
            "--resume",
            metavar="FILE",
            help="Keep each answer in this journal at once, and take from it what it has: after Ctrl-C the same command goes on",
        ),
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
    """
    from gpuplan.cli.answer import form_of, put
    from gpuplan.files.write import check_writable, write
    from gpuplan.plan.read import count
    from gpuplan.scenarios import report
    from gpuplan.scenarios.crew import results_of
    from gpuplan.scenarios.file import read_scenarios
    from gpuplan.scenarios.journal import Journal
    from gpuplan.scenarios.result import exit_code

    form = form_of({"json": json, "csv": csv, "md": md})
    cases = _chosen([case for file in files for case in read_scenarios(Path(file)).cases], only)
    said = " ".join(files)
    if junit is not None:
        check_writable(Path(junit))
    workers = 1 if jobs is None else count("jobs", jobs, most=MOST_JOBS)
    with nullcontext() if resume is None else Journal(Path(resume), cases) as journal:
        results = results_of(cases, jobs=workers, journal=journal)
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
