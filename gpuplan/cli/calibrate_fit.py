"""`gpuplan calibrate fit`: fit the kernel parameters to tables of measured kernels that others published."""

from __future__ import annotations

from typing import Annotated

from typer import Option, Typer

from gpuplan.cli import options as o
from gpuplan.cli.help import Command

app = Typer(add_completion=False, rich_markup_mode=None)


@app.command("fit", cls=Command)
def fit(
    *,
    source: Annotated[
        str, Option("--from", metavar="DIR", help="Folder of <system>-<table>.csv files, or `systems/data` of aiconfigurator-core")
    ],
    system: Annotated[str, Option("--system", metavar="NAME", help="The system as the tables call it, such as `h100_sxm`")],
    accelerator: Annotated[
        str | None, Option("--accelerator", metavar="ID", help="Its accelerator here; found by its name without it")
    ] = None,
    kinds: Annotated[
        str, Option("--kinds", metavar="KIND,…", help="What to fit: matmul, attention, links")
    ] = "matmul,attention,links",
    out: Annotated[
        str | None,
        Option("--out", metavar="FILE", help="A measured file, whose other parts stay as they are; without it only the report"),
    ] = None,
    specs: o.SpecsDirs = None,
) -> None:
    """Fit kernel parameters to published tables, and say how far off they are on shapes that were held back.

    Beside each error stands that of a roofline with two flat efficiencies on the same rows.

    Examples:
      gpuplan calibrate fit --from tables --system h100_sxm --kinds matmul
      gpuplan calibrate fit --from tables --system l40s --out l40s.yaml
    """
    from gpuplan.cli.calibrate_fit_run import FitTablesRequest, fit_tables

    fit_tables(FitTablesRequest(source, system, accelerator, kinds, out, tuple(specs or ())))
