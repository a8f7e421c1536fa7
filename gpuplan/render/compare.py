"""How do several answers to the same question differ, side by side, and from which inputs do the differences come?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpuplan.estimate.result import Estimate
from gpuplan.render.markdown import grid
from gpuplan.render.text import ASSUMED, Look, columns, known, label, shown, span, wrap
from gpuplan.term import Term

_MOST = 16
"""How many differing inputs are listed; the JSON of each estimate has them all."""
_BORING = {"user", "chosen", "definition"}


def comparison(names: Sequence[str], estimates: Sequence[Estimate], look: Look) -> str:
    """A column for each estimate: verdict, figures with ranges, plans where they differ, and the inputs that differ."""
    rows = list(_rows(estimates))
    differing = list(_differences(estimates))
    blocks = ["\n".join(_grid(names, rows, look, bold_first=True))]
    if differing:
        title = look.bold("Inputs that differ")
        blocks.append("\n".join([title, *_grid(names, differing[:_MOST], look)]))
        if len(differing) > _MOST:
            blocks.append(f"  and {len(differing) - _MOST} more (`--json` has them all)")
    if any(not known(term) for estimate in estimates for term in estimate.figures.values()):
        blocks.append(
            "\n".join(wrap("rests on an assumed value (`--explain` of the single command shows which)", look.width, "* "))
        )
    return "\n\n".join(blocks) + "\n"


def side_by_side_text(names: Sequence[str], rows: Sequence[tuple[str, list[str]]], look: Look) -> str:
    """Rows of texts under names, in as many blocks as the width needs."""
    return "\n".join(_grid(names, rows, look, bold_first=True)) + "\n"


def comparison_markdown(names: Sequence[str], estimates: Sequence[Estimate]) -> str:
    """The same as Markdown."""
    rows = [[head, *cells] for head, cells in (*_rows(estimates), *_differences(estimates))]
    return grid(["", *names], rows, "l" + "r" * len(names)) + "\n"


def _rows(estimates: Sequence[Estimate]) -> Iterator[tuple[str, list[str]]]:
    yield "verdict", [estimate.verdict.words for estimate in estimates]
    for key in dict.fromkeys(key for estimate in estimates for key in estimate.figures):
        yield label(key), [_value(estimate, key) for estimate in estimates]
        ends = [_ends(estimate, key) for estimate in estimates]
        if any(ends):
            yield "", ends
    for name in dict.fromkeys(name for estimate in estimates for name in estimate.question):
        answers = [estimate.question.get(name, "") for estimate in estimates]
        if name != "on" and len(set(answers)) > 1:
            yield label(name), answers


def _value(estimate: Estimate, key: str) -> str:
    term = estimate.figures.get(key)
    return "" if term is None else f"{shown(key, float(term.value), term.unit)}{'' if known(term) else ASSUMED}"


def _ends(estimate: Estimate, key: str) -> str:
    if key not in estimate.figures:
        return ""
    low, high = estimate.ranges[key]
    return f"({' – '.join(span(key, low, high, estimate.figures[key].unit))})" if low != high else ""


def _differences(estimates: Sequence[Estimate]) -> Iterator[tuple[str, list[str]]]:
    """The leaves whose values are not the same everywhere, except those that the question itself named."""
    found: list[dict[str, Term]] = []
    for estimate in estimates:
        roots = estimate.figures.values()
        found.append({t.name: t for root in roots for t in root.walk() if t.formula is None and t.source.kind not in _BORING})
    names = dict.fromkeys(name for leaves in found for name in leaves)
    fitted = {name for leaves in found for name, term in leaves.items() if term.source.kind in ("measured", "fitted", "assumed")}
    for name in sorted(names, key=lambda name: name in fitted):  # datasheets and prices before what was fitted
        cells = [shown(name, float(leaves[name].value), leaves[name].unit) if name in leaves else "" for leaves in found]
        if len(set(cells)) > 1:
            yield name, cells


def _grid(names: Sequence[str], rows: Sequence[tuple[str, list[str]]], look: Look, *, bold_first: bool = False) -> list[str]:
    """Columns under names; as many beside each other as the width holds, the rest in further blocks below."""
    left = max(len(head) for head, _ in rows) + 2
    sizes = [max(len(name), *(len(cells[at]) for _, cells in rows)) + 2 for at, name in enumerate(names)]
    lines: list[str] = []
    start = 0
    while start < len(names):
        end, used = start, left
        while end < len(names) and (end == start or used + sizes[end] <= look.width):
            used += sizes[end]
            end += 1
        block = columns([["", *names[start:end]], *([head, *cells[start:end]] for head, cells in rows)], "l" + "r" * (end - start))
        lines += [""] if lines else []
        lines += [look.bold(block[0]), *block[1:]] if bold_first else block
        start = end
    return lines
