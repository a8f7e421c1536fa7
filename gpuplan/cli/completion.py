"""`gpuplan completion`: how does TAB complete commands, options and names in this shell?"""

from __future__ import annotations

import sys
from typing import Annotated

from typer import Argument, Option, Typer

from gpuplan.cli.help import Command

app = Typer(add_completion=False, rich_markup_mode=None)


@app.command(cls=Command)
def completion(
    *,
    shell: Annotated[
        str | None, Argument(metavar="SHELL", help="bash, zsh, fish or powershell; left out, the shell that this runs in")
    ] = None,
    install: Annotated[bool, Option("--install", help="Put the script where the shell finds it, instead of printing it")] = False,
) -> None:
    """Which script makes TAB complete gpuplan's commands, options, and the names of the catalog, your own specs included?

    Examples:
      gpuplan completion bash
      gpuplan completion --install
      eval "$(gpuplan completion zsh)"
    """
    from gpuplan.cli.complete.install import shell_named
    from gpuplan.cli.complete.scripts import script

    wanted = shell_named(shell)
    if install:
        installed(wanted)
    else:
        sys.stdout.write(script(wanted))


def installed(shell: str) -> None:
    """Install the script of a shell, make the index of names, and say what was written; errors as `install`."""
    import os

    from gpuplan.cli.complete.index import opened
    from gpuplan.cli.complete.install import install

    made = install(shell)
    opened((), os.environ)  # The first TAB need not wait for it.
    if made:
        print("".join(f"wrote {path}\n" for path in made) + f"TAB completes `gpuplan` in every new {shell}")
    else:
        print(f"completion for {shell} is installed already")
