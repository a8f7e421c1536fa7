"""`gpuplan calibrate verify`: does a real model on this device take what gpuplan says?"""

from __future__ import annotations

from typing import Annotated

from typer import Exit as Stop
from typer import Option, Typer

from gpuplan.cli import options as o
from gpuplan.cli.help import Command

app = Typer(add_completion=False, rich_markup_mode=None)


@app.command(cls=Command)
def verify(
    *,
    tolerance: Annotated[
        str | None, Option("--tolerance", metavar="SHARE", help="The largest median error that passes: 0.15, on processors 0.25")
    ] = None,
    sizes: Annotated[str | None, Option("--sizes", metavar="SIZE,…", help="Models, such as 150m,850m; chosen otherwise")] = None,
    backend: Annotated[str, Option("--backend", metavar="NAME", help="torch; others have no model to run")] = "torch",
    device: Annotated[str | None, Option("--device", metavar="N", help="The number of the device, or `cpu`")] = None,
    specs: o.SpecsDirs = None,
    json: Annotated[bool, Option("--json", help="JSON instead of the table")] = False,
) -> None:
    """Does a real model on this device take what gpuplan says?

    Trains a small decoder of the Llama kind and lets it write, with plain PyTorch, at several sizes, beside the prediction for
    the very same. Exits with 4 when the median error of the times is above --tolerance.

    Examples:
      gpuplan calibrate verify
      gpuplan calibrate verify --sizes 20m,50m --tolerance 0.25
      gpuplan calibrate verify --json
    """
    from gpuplan.cli.calibrate_verify_run import VerifyRequest, verify_model

    raise Stop(verify_model(VerifyRequest(tolerance, sizes, backend, device, tuple(specs or ()), json)))
