"""How does a report become one file of HTML, with everything in it escaped and nothing fetched?"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from gpuplan import __version__
from gpuplan.files.read import text_of
from gpuplan.render.report.page import Report
from gpuplan.specs.dates import today

_HERE = Path(__file__).parent


def html(report: Report, typed: Sequence[str] = ()) -> str:
    """The page as text; `typed` are the words of the command that made it, the program's name first.

    Jinja (https://jinja.palletsprojects.com/en/stable/api/#autoescaping) escapes every value, whatever its template says.

    Raises:
        UsageError: `GPUPLAN_TODAY` holds no day.
    """
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    room = Environment(
        loader=FunctionLoader(lambda name: text_of(_HERE / name)), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    room.filters["linked"] = linked
    page = room.get_template("page.html")
    return page.render(report=report, command=shlex.join(typed), version=__version__, day=today().isoformat())


def linked(url: str) -> str:
    """A URL that a page may link to, or nothing: a spec of a user's could name a script.

    >>> linked("https://arxiv.org/abs/2309.06180"), linked("javascript:alert(1)")
    ('https://arxiv.org/abs/2309.06180', '')
    """
    return url if url.startswith(("https://", "http://")) else ""
