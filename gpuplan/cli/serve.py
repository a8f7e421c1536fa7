"""`gpuplan serve`: how fast and how dear is serving, and for how many at once?"""

from __future__ import annotations

from typer import Context, Typer

from gpuplan.cli import options as o
from gpuplan.cli.help import Command

app = Typer(add_completion=False, rich_markup_mode=None)


@app.command(cls=Command)
def serve(
    ctx: Context,
    *,
    model: o.Model,
    on: o.On = None,
    prompt: o.Prompt = None,
    output: o.Output = None,
    batch: o.Batch = None,
    context: o.Context = None,
    engine: o.Engine = None,
    weights: o.Weights = None,
    kv_cache: o.KvCache = None,
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
    """How fast are prefill and decode, how many sequences fit at once, and what do the tokens cost?

    What you leave out (parallelism, batch) is chosen and said. Exits with 3 when it does not fit.

    Examples:
      gpuplan serve llama-3.1-70b --on 4xh100 --prompt 2000 --output 300
      gpuplan serve ./config.json --on tpu-v5e-8 --batch 16
      gpuplan serve llama-3.1-8b --on l40s --weights fp8 --kv-cache fp8 --json
    """
    from gpuplan.cli.answer import answer

    answer("serve", ctx.params)
