"""`gpuplan specs roofline`: where do accelerators stop being bound by memory, as a plot?"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from typer import Argument, Option, Typer

from gpuplan.cli import options as o
from gpuplan.cli.complaint import say
from gpuplan.cli.help import Command
from gpuplan.cli.specs import open_catalog
from gpuplan.errors import GpuplanError, Problem, UnknownError, UsageError

app = Typer(add_completion=False, rich_markup_mode=None)


@app.command(cls=Command)
def roofline(
    *,
    names: Annotated[list[str], Argument(metavar="NAME …", help="Accelerators: GPUs, TPUs, processors")],
    dtype: Annotated[
        o.Text,
        Option("--dtype", metavar="TYPE", rich_help_panel=o.DATA, help="Data types, with commas; bf16, or fp16, when left out"),
    ] = None,
    out: Annotated[
        o.Text,
        Option("--out", metavar="FILE", rich_help_panel=o.OUTPUT, help="Write a picture, .png or .svg (needs `gpuplan[plot]`)"),
    ] = None,
    specs: o.SpecsDirs = None,
    json: o.Json = False,
    csv: o.Csv = False,
) -> None:
    """From how many FLOP a byte on is an accelerator bound by its arithmetic? The rooflines of datasheets, as a plot.

    Examples:
      gpuplan specs roofline h100 mi300x
      gpuplan specs roofline h100 b200 --dtype bf16,fp8
      gpuplan specs roofline h100 tpu-v5p --out roofline.svg
    """
    from gpuplan.browse.roofline import Roof, roof
    from gpuplan.cli.answer import form_of
    from gpuplan.render import roofline as render
    from gpuplan.specs.accelerator import Accelerator

    form = form_of({"json": json, "csv": csv})
    catalog = open_catalog(specs)
    roofs: list[Roof] = []
    problems: list[Problem] = []
    for name in dict.fromkeys(names):
        spec, notes = catalog.load_noted(Accelerator, name)
        for note in notes:
            say(f"note: {note.text}{f' ({note.hint})' if note.hint else ''}")
        for one in dtype.split(",") if dtype is not None else [None]:
            try:
                roofs.append(roof(spec, one.strip().lower() if one is not None else None))
            except GpuplanError as error:
                problems += error.problems
    if problems:
        raise UnknownError(*problems)
    if len(roofs) > render.MOST:
        raise UsageError(Problem("roofline.many", f"{len(roofs)} lines: a plot shows at most {render.MOST}"))
    if out is not None:
        render.save(roofs, Path(out))
        print(f"written to {out}", file=sys.stderr)
    if form == "json":
        import json as jsonlib

        print(jsonlib.dumps(render.roofline_records(roofs), indent=2))
    elif form == "csv":
        from gpuplan.render.csv import records_csv

        sys.stdout.write(records_csv(render.roofline_records(roofs)))
    elif out is None:
        from gpuplan.render.text import look_of

        sys.stdout.write(render.roofline_text(roofs, look_of(sys.stdout)))
