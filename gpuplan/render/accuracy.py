"""How is an accuracy report read: a table by group, the worst rows, and why rows were left out?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from gpuplan.render.text import UNADORNED, Look, wrap
from gpuplan.units import so_many

HEAD = ("rows", "miss", "median", "mean", "p90", "bias", "range", "informed")
NAMES = {
    "throughput": "throughput",
    "memory": "peak memory",
    "prefill": "prompt tokens/s",
    "ttft": "TTFT",
    "tpot": "TPOT",
    "weights": "weights",
    "kv_pool": "KV pool",
}
MOST_REASONS = 12
"""Reasons of fewer rows are added up."""
_LEAST = 8
"""So many columns a name has at least beside its figures."""


def table(made: Mapping[str, Any], *, worst: int, markdown: bool, look: Look = UNADORNED) -> str:
    """The report as text that the width holds, or as Markdown."""
    width = look.width
    blocks = [
        block
        for metric in NAMES
        if made["metrics"][metric]["rows"]
        for block in (_metric(made, metric, width, markdown=markdown), _worst(made, metric, worst, width, markdown=markdown))
        if block
    ]
    blocks.append(_legend(width))
    blocks.append(_fits(made["metrics"]["fits"]))
    blocks.append(_stood_in(made["stood_in"], width))
    blocks.append(_skipped(made["skipped"], width))
    return "\n\n".join(block for block in blocks if block) + "\n"


def _legend(width: int) -> str:
    said = (
        "rows are asked as one types them who has their pages; `informed`: median and mean error with what else is known of them; "
        "`range`: how often it held, and high over low in the median and at the 90th percentile. Rows of `miss` have no estimate: "
        "in median, p90 and range they are worse than any that has one"
    )
    return "\n".join(wrap(said, width, "", "  "))


def _metric(made: Mapping[str, Any], metric: str, width: int, *, markdown: bool) -> str:
    known = {group["key"]: group[metric] for group in made["informed"]["groups"]}
    lines = [(group["key"], group[metric], known.get(group["key"])) for group in made["groups"] if _says(group[metric])]
    whole, informed = made["metrics"][metric], made["informed"]["metrics"][metric]
    lines.append(("all", whole, informed))
    for name, title in (("held_back", "held back from fits"), ("unseen", "of sources no fit saw")):
        if 0 < whole[name]["rows"] < whole["rows"]:
            lines.append((title, whole[name], informed[name]))
    cells = [[str(made["by"]), *HEAD], *([name, *_figures(got, better)] for name, got, better in lines)]
    title = f"{NAMES[metric]}: estimated against measured (error of the estimate)"
    if markdown:
        rule = ["---", *["---:"] * len(HEAD)]
        return f"**{title}**\n\n" + "\n".join("| " + " | ".join(row) + " |" for row in (cells[0], rule, *cells[1:]))
    return "\n".join([*wrap(title, width), *_aligned(cells, width)])


def _says(got: Mapping[str, Any]) -> bool:
    return bool(got["rows"] or got["missed"])


def _figures(got: Mapping[str, Any], better: Mapping[str, Any] | None) -> list[str]:
    informed = "-" if better is None else f"{_percent(better['median_ape'])} {_percent(better['mean_ape'])}"
    return [
        str(got["rows"]), str(got["missed"]), _percent(got["median_ape"]), _percent(got["mean_ape"]), _whole(got["p90_ape"]),
        _percent(got["bias"], sign=True), _range(got), informed,
    ]  # fmt: skip


def _range(got: Mapping[str, Any]) -> str:
    """How often ranges held, and how wide they are."""
    wide = [got[name] for name in ("width", "width_p90") if got[name] is not None]
    return " ".join([_whole(got["inside_range"]), *(f"{one:.1f}" if one < 99.5 else "99+" for one in wide)])


def _aligned(cells: Sequence[Sequence[str]], width: int) -> list[str]:
    """The columns side by side; a name that they leave no room for has a line of its own, a column one that says so."""
    sizes = [max(len(row[at]) for row in cells) for at in range(len(cells[0]))]
    keep = len(sizes)
    while keep > 2 and sum(size + 2 for size in sizes[1:keep]) > width - _LEAST:
        keep -= 1
    room = max(width - sum(size + 2 for size in sizes[1:keep]), _LEAST)
    first = max((len(row[0]) for row in cells if len(row[0]) <= room), default=0)
    lines: list[str] = []
    for row in cells:
        if len(row[0]) > room:
            lines += wrap(row[0], width)
        name = row[0] if len(row[0]) <= room else ""
        figures = (cell.rjust(size) for cell, size in zip(row[1:keep], sizes[1:keep], strict=True))
        lines.append("  ".join([name.ljust(first), *figures]).rstrip())
    hidden = ", ".join(cells[0][keep:])
    return [*lines, *(wrap(f"no room for {hidden}: --json and --md have them", width) if hidden else ())]


def _worst(made: Mapping[str, Any], metric: str, count: int, width: int, *, markdown: bool) -> str:
    rows = [row for row in made["rows"] if row["metric"] == metric]
    if not count or markdown:
        return ""
    rows.sort(key=lambda row: -abs(row["expected"] / row["measured"] - 1))
    lines = [wrap(row["id"], width, f"  {row['expected'] / row['measured'] - 1:+8.0%}  ") for row in rows[:count]]
    return "\n".join(["worst rows", *(line for one in lines for line in one)])


def _fits(fits: Mapping[str, Any]) -> str:
    lines = []
    if fits["ran"]:
        lines.append(f"of {so_many(fits['ran'], 'run')} that ran, {_percent(fits['ran_said_fits'])} are said to fit")
    if fits["oom"]:
        lines.append(
            f"of {so_many(fits['oom'], 'run')} that ran out of memory, {_percent(fits['oom_said_not'])} are said not to fit"
        )
    return "\n".join(lines)


def _stood_in(rows: Sequence[Mapping[str, str]], width: int) -> str:
    """Whose profile answered for frameworks that have none."""
    if not rows:
        return ""
    counted = Counter((one["framework"], one["asked_as"]) for one in rows).most_common()
    said = "frameworks without a profile of their own are asked as another's: "
    said += ", ".join(f"{framework} as {engine} ({count})" for (framework, engine), count in counted)
    return "\n".join(wrap(said, width, "", "  "))


def _skipped(skipped: Sequence[Mapping[str, str]], width: int) -> str:
    if not skipped:
        return ""
    reasons = Counter(one["reason"] for one in skipped).most_common()
    lines = [wrap(reason, width, f"{count:5d}  ") for reason, count in reasons[:MOST_REASONS]]
    rest = sum(count for _, count in reasons[MOST_REASONS:])
    if rest:
        lines.append([f"{rest:5d}  for {so_many(len(reasons) - MOST_REASONS, 'other reason')} (--json lists them)"])
    said = f"{so_many(len(skipped), 'row', ' was', ' were')} skipped"
    return "\n".join([said, *(line for lines_of_one in lines for line in lines_of_one)])


def _whole(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"


def _percent(value: float | None, *, sign: bool = False) -> str:
    if value is None:
        return "-"
    return f"{value:+.1%}" if sign else f"{value:.1%}"
