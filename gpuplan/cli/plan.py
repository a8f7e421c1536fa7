"""`gpuplan plan`: which machine, how many of them and which plan reach a goal?"""

from __future__ import annotations

from typer import Typer

from gpuplan.cli.parts import group_of

PARTS = ("train", "finetune", "rl", "serve", "carries")
"""The commands, each the `app` of `gpuplan.cli.plan_<name>`, imported only when it is called."""

app = Typer(
    cls=group_of("plan", PARTS), add_completion=False, rich_markup_mode=None, no_args_is_help=True,
    help="""Which machine, how many of them and which plan reach a goal, over everything in the catalog?

Examples:
  gpuplan plan train llama-3.1-70b --tokens 1T --deadline 30d
  gpuplan plan train llama-3.1-8b --tokens 200B --budget 200k --cloud aws,gcp
  gpuplan plan train gpt2 --budget 100
  gpuplan plan rl qwen3-8b --on h100 --staleness 1
  gpuplan plan serve llama-3.3-70b --users 200
  gpuplan plan serve llama-3.1-8b --rate 20/s --ttft 500ms --tpot 30ms --cloud aws,gcp
  gpuplan plan carries llama-3.3-70b --on 8xh100""",
)  # fmt: skip


@app.callback()
def _group() -> None:
    pass
