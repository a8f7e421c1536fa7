"""`gpuplan what-runs`: which models run on this machine, how fast, and up to which context?"""

from __future__ import annotations

import sys
from inspect import Parameter, Signature
from typing import Annotated, Any

from typer import Argument, Exit, Typer

from gpuplan.cli import options as o
from gpuplan.cli.help import Command
from gpuplan.cli.output import Output
from gpuplan.cli.tasks import parameter
from gpuplan.errors import Exit as Code
from gpuplan.plan.option import by_key
from gpuplan.plan.what_runs import WhatRunsAsk

FORMS = {"brief": o.Brief, "plain": o.Plain, "json": o.Json, "csv": o.Csv, "md": o.Md}
ABOUT = """Which models run on this machine for one user, how fast, and up to which context?

Each model of the catalog is tried as its weights are stored and then in the types that users of the engine find ready, the
widest first; the largest model stands first. Exits with 3 when none runs.

Examples:
  gpuplan what-runs --on rtx-4090
  gpuplan what-runs qwen3 --on "m3 max" --context 32k --sort speed
  gpuplan what-runs --on 8xh100 --engine vllm --smallest 100B
"""


def run(text: list[str] | None, **given: Any) -> None:
    """Answer on standard output and end with the exit code."""
    from gpuplan.cli.answer import form_of, judge, put, read_requirement
    from gpuplan.cli.complaint import complain
    from gpuplan.cli.in_words.command import command_meant
    from gpuplan.cli.report import put_report, refuse
    from gpuplan.errors import Problem, UsageError
    from gpuplan.plan.read import question
    from gpuplan.render import what_runs as render
    from gpuplan.render.report.planned import of_what_runs
    from gpuplan.search.library import Library
    from gpuplan.search.what_runs import what_runs

    form = form_of(given)
    said = read_requirement(given)
    refuse(given)
    if not given["on"] and (meant := command_meant([*(text or ())])):
        raise UsageError(Problem("usage.missing", "--on is missing: what should it run on?", f"such as `{meant}`"))
    asked = question(WhatRunsAsk, {key: value for key, value in given.items() if key not in (*FORMS, "html", "require")})
    found = what_runs(asked, Library.shared(asked.specs, calibrated=bool(asked.calibrated)), text or ())
    put_report(given, lambda: of_what_runs(found))
    if form in ("json", "csv"):
        put(render.as_json(found) if form == "json" else render.as_csv(found))
    elif form == "md":
        put(render.as_markdown(found, asked))
    elif given["brief"]:
        put(render.as_brief(found, asked))
    elif given["plain"]:
        put(render.as_plain(found, asked))
    else:
        from gpuplan.render.text import look_of

        put(render.as_text(found, asked, look_of(sys.stdout)))
    if said is not None:
        from gpuplan.scenarios.figures import facts_of_models

        raise Exit(judge(facts_of_models(found), said))
    if not found.runs:
        complain([Problem("what-runs.nothing", f"no model runs on {asked.on}", "try a shorter --context, or --slowest 0")])
        raise Exit(int(Code.DOES_NOT_FIT))


def _command() -> Typer:
    """The command with an option for each field of its question."""
    words = Annotated[list[str] | None, Argument(metavar="[TEXT …]", help="Texts that must occur in a name of the model")]
    parameters = [
        Parameter("text", Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation=words),
        *(parameter(one) for one in by_key(WhatRunsAsk).values()),
        parameter(by_key(Output)["require"]),
        Parameter("html", Parameter.KEYWORD_ONLY, default=None, annotation=o.Html),
        *(Parameter(name, Parameter.KEYWORD_ONLY, default=False, annotation=kind) for name, kind in FORMS.items()),
    ]
    made: Any = run
    made.__signature__ = Signature(parameters)
    made.__annotations__ = {one.name: one.annotation for one in parameters}
    made.__doc__ = ABOUT
    app = Typer(add_completion=False, rich_markup_mode=None)
    app.command(cls=Command)(made)
    return app


app = _command()
