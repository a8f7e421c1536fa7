"""Which options say how an answer is written, and which of all options take no value?"""

# The annotations of these options are read, so they are no unread text here: no `from __future__ import annotations`.

from collections.abc import Sequence
from typing import Annotated

from gpuplan.plan.option import OUTPUT, Option, by_key
from gpuplan.record import Record

EVERYTHING = "*"
"""What `--explain` without a term stands for: all figures."""


FIGURES, FULL = "figures", "full"
"""What `--json` stands for alone, and what it may name."""


class Output(Record, kw_only=True):
    """How an answer is written: options of the command line alone."""

    explain: Annotated[str | None, Option("Show the working of a figure or term, down to its sources", OUTPUT, "[TERM]")] = None
    depth: Annotated[str | None, Option("With --explain: how many levels down, or `all`", OUTPUT, "LEVELS")] = None
    full: Annotated[bool, Option("Every figure, part, choice and note, not one screen", OUTPUT, "", one_way=True)] = False
    brief: Annotated[bool, Option("The verdict and four figures in one line", OUTPUT, "", one_way=True)] = False
    plain: Annotated[
        bool, Option("For screen readers: `label: value` lines, no columns, bars or colour", OUTPUT, "", one_way=True)
    ] = False  # fmt: skip
    json: Annotated[
        str | None, Option("JSON; `--json=full` with all working (schema: gpuplan specs schema estimate)", OUTPUT, "[=full]")
    ] = None  # fmt: skip
    csv: Annotated[bool, Option("CSV, one row a figure", OUTPUT, "", one_way=True)] = False
    require: Annotated[
        str | None,
        Option(
            "An assertion about the answer, such as `fits and ttft_s < 500 ms` (docs/figures.md has the names): exit 4 where it"
            " does not hold, 5 where that is not known", OUTPUT, "EXPR",
        ),
    ] = None  # fmt: skip
    md: Annotated[bool, Option("Markdown", OUTPUT, "", one_way=True)] = False
    html: Annotated[
        str | None, Option("Also write a report of one page: pictures, working, sources; no network", OUTPUT, "FILE")
    ] = None
    plot: Annotated[str | None, Option("Also draw memory or time as PNG, SVG or PDF (matplotlib)", OUTPUT, "FILE")] = None


def switches(asks: Sequence[type[Record]]) -> frozenset[str]:
    """Every option that takes no value."""
    return frozenset(flag for ask in (*asks, Output) for one in by_key(ask).values() if one.kind == "switch" for flag in one.flags)
