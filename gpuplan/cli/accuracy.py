"""`gpuplan accuracy`: how far are estimates from measured runs, published ones or your own?"""

from __future__ import annotations

from typing import Annotated

from typer import Context, Option, Typer
from typer import Exit as Stop

from gpuplan.cli.help import Command

app = Typer(add_completion=False, rich_markup_mode=None)

OUTPUT = "Output"


@app.command(cls=Command)
def accuracy(
    ctx: Context,
    *,
    runs: Annotated[
        list[str] | None,
        Option("--runs", metavar="PATH", help="A file or folder of measured runs, instead of the published ones; repeatable"),
    ] = None,
    task: Annotated[str | None, Option("--task", metavar="TASK", help="Only training, inference, startup or diffusion")] = None,
    by: Annotated[
        str,
        Option("--by", metavar="KEY", help="Group by source, engine, accelerator, model, precision, or several: engine,model"),
    ] = "source",
    worst: Annotated[str, Option("--worst", metavar="N", help="How many of the worst rows are listed")] = "5",
    budget: Annotated[
        str | None, Option("--budget", metavar="FILE", help="Exit with 4 where a group is worse than this file allows")
    ] = None,
    plot: Annotated[
        str | None,
        Option("--plot", metavar="FILE", rich_help_panel=OUTPUT, help="Draw estimated against measured: PNG, SVG, PDF"),
    ] = None,
    json: Annotated[bool, Option("--json", rich_help_panel=OUTPUT, help="JSON with every row, errors as fractions")] = False,
    md: Annotated[bool, Option("--md", rich_help_panel=OUTPUT, help="Markdown")] = False,
) -> None:
    """How far are the estimates from measured runs?

    Turns each run into the plan that a user would type, estimates it, and reports the errors of throughput, memory, TTFT and
    TPOT. Rows that cannot be compared are counted with their reasons.

    Examples:
      gpuplan accuracy
      gpuplan accuracy --runs my-runs.yaml --by model
      gpuplan accuracy --json
    """
    from gpuplan.cli.accuracy_run import run_accuracy

    raise Stop(run_accuracy(ctx.params))
