"""A group of commands that stand in modules of their own, each imported only to run it or to say what it is about."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from typer.main import get_command

from gpuplan.cli.help import Group, group_help, short


def group_of(group: str, parts: Sequence[str]) -> type[Group]:
    """The class of `gpuplan GROUP`, whose commands are the `app` of `gpuplan.cli.GROUP_NAME` for each of `parts`, in order.

    >>> made = group_of("plan", ("train", "serve"))
    >>> made(name="plan").list_commands(None), made(name="plan").get_command(None, "walk")
    (['train', 'serve'], None)
    """

    class Parts(Group):
        """The commands of one group by name."""

        def list_commands(self, ctx: Any) -> list[str]:
            """All command names in the order of the help page."""
            return list(parts)

        def get_command(self, ctx: Any, cmd_name: str) -> Any:
            """The command of that name, freshly imported, or None."""
            if cmd_name not in parts:
                return None
            made = get_command(import_module(f"gpuplan.cli.{group}_{cmd_name}").app)
            made.name = cmd_name
            return made

        def format_help(self, ctx: Any, formatter: Any) -> None:
            """Write the help page."""
            commands = {name: short(self.get_command(ctx, name).help or "") for name in parts}
            usage = f"{ctx.command_path} COMMAND [options]"
            formatter.write(group_help(usage, self.help or "", commands, self.get_params(ctx)))

    return Parts
