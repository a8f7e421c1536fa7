"""`gpuplan specs check`: are spec files right?"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from typer import Argument, Typer

from gpuplan.cli.help import Command
from gpuplan.errors import Problem, SpecError

app = Typer(add_completion=False, rich_markup_mode=None)


@app.command(cls=Command)
def check(
    *,
    places: Annotated[
        list[str] | None, Argument(metavar="[PATH …]", help="Files or specs folders; the shipped data when left out")
    ] = None,
) -> None:
    """Are spec files right? Every problem with its file, its line and what to write instead; exits with 2 when there is one.

    Examples:
      gpuplan specs check
      gpuplan specs check my-specs/ my-gpu.yaml
    """
    from gpuplan.specs.check import check as findings_of

    problems = []
    for found in findings_of([Path(place) for place in places or ()]):
        if found.severity == "error":
            problems.append(Problem(found.code, found.message, found.hint, found.where))
        else:
            print(f"warning: {found.where}: {found.message}{f' ({found.hint})' if found.hint else ''}", file=sys.stderr)
    if problems:
        raise SpecError(*problems)
    print("all is right")
