"""Which files beside the answer were asked for (`--html`, `--plot`), can they be written, and what is written there?"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuplan.cli.typed import typed
from gpuplan.errors import Problem, UsageError

if TYPE_CHECKING:
    from gpuplan.render.report.page import Report

KEYS = ("html", "plot")
"""The options that name such a file."""
_ENDS = (".html", ".htm")


def refuse(given: Mapping[str, Any]) -> None:
    """Refuse, before anything is computed, files that cannot be written.

    Raises:
        UsageError: the name ends otherwise, there is no such folder, the file is a folder or cannot be written, the two are one,
            or what draws it is not installed.
    """
    page, picture = (None if given.get(key) is None else Path(given[key]) for key in KEYS)
    if page is not None:
        _page(page)
    if picture is not None:
        from gpuplan.render.plot import drawable

        drawable(picture)


def put_report(given: Mapping[str, Any], report: Callable[[], Report]) -> None:
    """Write the report where `--html` asks for it, and say so on standard error.

    Raises:
        UsageError: the file cannot be written.
    """
    if given.get("html") is not None:
        from gpuplan.files.write import write
        from gpuplan.render.report.template import html

        file = Path(given["html"])
        write(file, html(report(), typed()))
        print(f"report: {file}", file=sys.stderr)


def put_plot(given: Mapping[str, Any], draw: Callable[[Path], None]) -> None:
    """Write the picture where `--plot` asks for it, and say so on standard error.

    Raises:
        UsageError: the file cannot be written.
    """
    if given.get("plot") is not None:
        file = Path(given["plot"])
        draw(file)
        print(f"picture: {file}", file=sys.stderr)


def _page(file: Path) -> None:
    from gpuplan.files.read import is_folder
    from gpuplan.files.write import check_writable

    if is_folder(file):
        raise UsageError(
            Problem("usage.html", f"--html {file}: it is a folder", f"name a file in it, such as {file / 'report.html'}")
        )
    if file.suffix.lower() not in _ENDS:
        raise UsageError(Problem("usage.html", f"--html {file}: a report is a page of HTML", "end the name in .html"))
    if not is_folder(file.parent):
        raise UsageError(Problem("usage.html", f"--html {file}: there is no folder {file.parent}", "choose another place"))
    check_writable(file)
