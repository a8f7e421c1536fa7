"""`gpuplan mcp`: how does an assistant ask gpuplan?"""

from __future__ import annotations

import gc
import os
import sys
from typing import Annotated

from typer import Option, Typer

from gpuplan.cli import options as o
from gpuplan.cli.help import Command
from gpuplan.errors import Problem, UsageError, install

app = Typer(add_completion=False, rich_markup_mode=None)
MOST_SECONDS = 3600


@app.command(cls=Command)
def mcp(
    *,
    timeout: Annotated[str, Option("--timeout", metavar="SECONDS", help="So long may one answer take; left out, 60")] = "60",
    specs: o.SpecsDirs = None,
) -> None:
    """Which tools does an assistant get? fit, train, serve, plan, compare, prices and explain, by the Model Context Protocol.

    Started by the assistant, which speaks to it over standard input and output. It reads specs and models by their names, writes no
    file and uses no network; every answer is bounded in time and length. Needs `gpuplan[mcp]`.

    Examples:
      gpuplan mcp
      gpuplan mcp --specs my-specs --timeout 120
    """
    from gpuplan.cli.specs import open_catalog
    from gpuplan.plan.read import count

    seconds = count("timeout", timeout, least=1, most=MOST_SECONDS)
    if specs:
        open_catalog(specs)
        before = os.environ.get("GPUPLAN_SPECS")
        os.environ["GPUPLAN_SPECS"] = os.pathsep.join([*([before] if before else []), *map(os.path.abspath, specs)])
    try:
        from gpuplan.cli.assistant.server import serve
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("mcp", "mcp_types", "anyio"):
            raise
        raise UsageError(Problem("mcp.missing", "`gpuplan mcp` needs the package `mcp`", install("mcp"))) from None
    if sys.stdin is not None and sys.stdin.isatty():
        print("gpuplan mcp: waiting for an assistant on standard input (Ctrl-C ends it)", file=sys.stderr)
    sys.stdout = sys.__stdout__  # The SDK writes bytes.
    gc.enable()  # It stays for hours, where a question is answered in a moment.
    serve(seconds)
