"""`gpuplan plan`: which machine, how many of them and which plan reach a goal?"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from typer import Typer
from typer.main import get_command

from gpuplan.cli.help import Group, group_help, short

PARTS = ("train", "finetune", "rl", "serve", "carries")
"""The commands, each the `app` of `gpuplan.cli.plan_<name>`, imported only when it is called."""


class PlanCommands(Group):
    """The group of these commands: it knows them by name and imports one only to run it."""

    def list_commands(self, ctx: Any) -> list[str]:
        """All command names in the order of the help page."""
        return list(PARTS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of that name, freshly imported, or None."""
        if cmd_name not in PARTS:
            return None
        made = get_command(import_module(f"gpuplan.cli.plan_{cmd_name}").app)
        made.name = cmd_name
        return made

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help page."""
        commands = {name: short(self.get_command(ctx, name).help or "") for name in PARTS}
        usage = f"{ctx.command_path} COMMAND [options]"
        formatter.write(group_help(usage, self.help or "", commands, self.get_params(ctx)))


app = Typer(
    cls=PlanCommands, add_completion=False, rich_markup_mode=None, no_args_is_help=True,
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
