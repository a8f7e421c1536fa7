"""`gpuplan specs new`: what does a new spec file or model card look like?"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from typer import Argument, Option, Typer

from gpuplan.cli.help import Command

app = Typer(add_completion=False, rich_markup_mode=None)


@app.command(cls=Command)
def new(
    *,
    kind: Annotated[str, Argument(metavar="KIND", help="accelerator, system, instance, price or model")],
    name: Annotated[
        str,
        Argument(
            metavar="NAME", help="Its id; VENDOR/ID for an accelerator, PROVIDER/FAMILY for instances, the provider for prices"
        ),
    ],
    out: Annotated[str | None, Option("--out", metavar="DIR", help="Write it to its place in this specs folder")] = None,
    force: Annotated[bool, Option("--force", help="Replace a file that is there")] = False,
) -> None:
    """What does a new spec file or model card look like? A commented draft, whose `"?"` `gpuplan specs check` asks for one by one.

    Examples:
      gpuplan specs new accelerator nvidia/h300-sxm
      gpuplan specs new instance acme/nova --out my-specs/
      gpuplan specs new price acme --out my-specs/
      gpuplan specs new model nova-7b --out my-specs/
    """
    from datetime import date

    from gpuplan.files.write import write_all
    from gpuplan.render.text import look_of, wrap
    from gpuplan.specs.draft import new_file
    from gpuplan.units import so_many

    made = new_file(kind, name, date.today().isoformat())
    if out is None:
        sys.stdout.write(f"# file: {made.place}\n{made.text}")
        return
    path = Path(out) / made.place
    write_all({path: made.text}, force=force)
    left = made.text.count('"?"') - made.text.partition("format: 1")[0].count('"?"')
    said = f"wrote {path}: {so_many(left, 'value')} to look up; `gpuplan specs check {out}` says what belongs there"
    print("\n".join(wrap(said, look_of(sys.stdout).width, "", "  ")) if sys.stdout.isatty() else said)
