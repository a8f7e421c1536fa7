"""A group of commands that stand in modules of their own, each imported only to run it or to say what it is about."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpuplan.cli.help import Group, group_help, made_once, short


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
            """The command of that name, imported when it is first asked for, or None."""
            return made_once(f"{group}_{cmd_name}", cmd_name) if cmd_name in parts else None

        def format_help(self, ctx: Any, formatter: Any) -> None:
            """Write the help page."""
            commands = {name: short(self.get_command(ctx, name).help or "") for name in parts}
            usage = f"{ctx.command_path} COMMAND [options]"
            formatter.write(group_help(usage, self.help or "", commands, self.get_params(ctx)))

    return Parts
