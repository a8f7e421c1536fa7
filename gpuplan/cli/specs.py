"""`gpuplan specs`: what is on record about accelerators, systems, instances, prices and engines, and are files right?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from typer import Typer

from gpuplan.cli.parts import group_of

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

app = Typer(
    cls=group_of("specs", PARTS), add_completion=False, rich_markup_mode=None, no_args_is_help=True,
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
