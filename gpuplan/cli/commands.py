"""Which commands are there? Each is one file, imported only when it is called."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any

from typer import Context, Exit, Option, Typer, echo
from typer.main import get_group

from gpuplan.cli.command_names import COMMANDS
from gpuplan.cli.help import Group, group_help, made_once

INTRODUCTION = """Capacity planning for GPUs and TPUs: does it fit, how fast is it, what does it cost, and what would be
better. Every figure has a range and shows its working.

Examples:
  gpuplan fit llama-3.1-8b --on h100
  gpuplan train llama-3.1-8b --on 8xh100-sxm-80gb --tokens 15T
  gpuplan serve llama-3.1-70b --on 4xh100 --prompt 2000 --output 300
  gpuplan serve llama-3.1-70b --on 4xh100 --explain tpot_s
  gpuplan "how many H100s do I need to serve Llama 70B to 200 users?"
"""
FOOTER = "Exit codes: 0 answered, 2 wrong usage or file, 3 does not fit, 4 an assertion of yours failed, 5 needed data is unknown."


class Lazy(Group):
    """The top group: it knows its commands by name and imports one only to run it."""

    def list_commands(self, ctx: Any) -> list[str]:
        """All command names in the order of the help page."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of that name, imported when it is first asked for, or None."""
        return made_once(cmd_name.replace("-", "_"), cmd_name) if cmd_name in COMMANDS else None

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help page without importing a command."""
        formatter.write(group_help("gpuplan COMMAND [options]", INTRODUCTION, COMMANDS, self.get_params(ctx), FOOTER))


def _version(wanted: bool) -> None:
    if wanted:
        from gpuplan import __version__

        echo(f"gpuplan {__version__}")
        raise Exit


def _install(wanted: bool) -> None:
    if wanted:
        from gpuplan.cli.complete.install import shell_named
        from gpuplan.cli.completion import installed

        installed(shell_named(None))
        raise Exit


def _root(
    ctx: Context,
    version: Annotated[bool, Option("--version", callback=_version, is_eager=True, help="Print the version and stop")] = False,
    install_completion: Annotated[
        bool, Option("--install-completion", callback=_install, is_eager=True, help="Install completion for this shell and stop")
    ] = False,
) -> None:
    if ctx.invoked_subcommand is None:
        echo(ctx.get_help())


@cache
def root() -> Any:
    """The whole command line as one group."""
    app = Typer(
        cls=Lazy, add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False, help=INTRODUCTION,
        context_settings={"help_option_names": ["-h", "--help"]},
    )  # fmt: skip
    app.callback(invoke_without_command=True)(_root)
    return get_group(app)
