"""`gpuplan specs`: what is on record about accelerators, systems, instances, prices and engines, and are files right?"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer import Typer
from typer.main import get_command

from gpuplan.cli.help import Group, group_help, short

if TYPE_CHECKING:
    from gpuplan.specs.catalog import Catalog

PARTS = (
    "list",
    "show",
    "check",
    "diff",
    "compare",
    "roofline",
    "schema",
    "probe",
    "new",
)
"""The commands, each the `app` of `gpuplan.cli.specs_<name>`, imported only when it is called."""
SHOWN = ("accelerators", "systems", "instances", "prices", "engines", "measured", "networks", "clusters")
"""The kinds of files that can be listed and shown."""


class SpecsCommands(Group):
    """The group of these commands: it knows them by name and imports one only to run it."""

    def list_commands(self, ctx: Any) -> list[str]:
        """All command names in the order of the help page."""
        return list(PARTS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of that name, freshly imported, or None."""
        if cmd_name not in PARTS:
            return None
        made = get_command(import_module(f"gpuplan.cli.specs_{cmd_name}").app)
        made.name = cmd_name
        return made

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help page."""
        commands = {name: short(self.get_command(ctx, name).help or "") for name in PARTS}
        usage = f"{ctx.command_path} COMMAND [options]"
        formatter.write(group_help(usage, self.help or "", commands, self.get_params(ctx)))


app = Typer(
    cls=SpecsCommands, add_completion=False, rich_markup_mode=None, no_args_is_help=True,
    help="""What is on record about accelerators, systems, cloud instances, prices and engines, with sources and dates.

Examples:
  gpuplan specs list
  gpuplan specs show h100
  gpuplan specs check my-specs/""",
)  # fmt: skip


@app.callback()
def _group() -> None:
    pass


def open_catalog(folders: Sequence[str] | None) -> Catalog:
    """The shipped specs with the user's folders over them.

    Raises:
        UsageError: a folder does not exist, or holds no spec file.
    """
    from gpuplan.specs.catalog import Catalog

    return Catalog.open([Path(folder) for folder in folders or ()])
