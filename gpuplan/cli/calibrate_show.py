"""`gpuplan calibrate show`: how near are the fitted kernels to the measured ones?"""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Option, Typer

from gpuplan.cli import options as o
from gpuplan.cli.help import Command

app = Typer(add_completion=False, rich_markup_mode=None)


@app.command(cls=Command)
def show(
    *,
    ident: Annotated[
        str | None, Argument(metavar="[ID]", help="The accelerator; the one that was measured last without it")
    ] = None,
    kind: Annotated[
        str | None, Option("--kind", metavar="KIND,…", help="matmul, prefill, decode, stream, collective, all_reduce …")
    ] = None,
    png: Annotated[str | None, Option("--png", metavar="FILE", help="Write a picture (needs `gpuplan[plot]`)")] = None,
    specs: o.SpecsDirs = None,
    json: Annotated[bool, Option("--json", help="JSON instead of the plot")] = False,
) -> None:
    """How near are the fitted kernels to the measured ones? A plot of rates against sizes, of each kind.

    Shows what `gpuplan calibrate` measured on this machine and what `gpuplan calibrate import` brought, with the parameters
    that estimates use now.

    Examples:
      gpuplan calibrate show
      gpuplan calibrate show h200 --kind matmul,all_reduce
      gpuplan calibrate show h200 --png kernels.png
    """
    from gpuplan.cli.calibrate_show_run import ShowRequest, show_fit

    show_fit(ShowRequest(ident, kind, png, tuple(specs or ()), json))
