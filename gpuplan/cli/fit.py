"""`gpuplan fit`: does a model fit, and with how much room?"""

from __future__ import annotations

from typing import Annotated

from typer import Context, Option, Typer

from gpuplan.cli import options as o
from gpuplan.cli.help import Command

app = Typer(add_completion=False, rich_markup_mode=None)


@app.command(cls=Command)
def fit(
    ctx: Context,
    *,
    model: o.Model,
    on: o.On = None,
    task: Annotated[
        o.Text, Option("--task", metavar="TASK", rich_help_panel=o.RUN, help="Fit for `serve` (the default) or `train`")
    ] = "serve",
    batch: o.Batch = None,
    context: o.Context = None,
    engine: o.Engine = None,
    weights: o.Weights = None,
    kv_cache: o.KvCache = None,
    precision: o.Precision = None,
    optimizer: o.Optimizer = None,
    tp: o.Tp = None,
    pp: o.Pp = None,
    price: o.Price = None,
    price_kind: o.PriceKind = None,
    region: o.Region = None,
    price_date: o.PriceDate = None,
    max_price_age: o.MaxPriceAge = None,
    sets: o.Sets = None,
    specs: o.SpecsDirs = None,
    explain: o.Explain = None,
    depth: o.Depth = None,
    json: o.Json = False,
    csv: o.Csv = False,
    md: o.Md = False,
) -> None:
    """Does a model fit on these accelerators, with how much room, and what would change the answer?

    Exits with 0 when it fits and 3 when it does not.

    Examples:
      gpuplan fit llama-3.1-8b --on h100
      gpuplan fit llama-3.1-70b --on 2xl40s --weights int4 --context 16k --batch 8
      gpuplan fit llama-3.1-8b --on 8xh100 --task train
    """
    from gpuplan.cli.answer import answer

    answer("fit", ctx.params)
