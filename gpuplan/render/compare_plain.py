"""How does a comparison sound: `label: value` lines for a screen reader, or all of it in one line?"""

from __future__ import annotations

from collections.abc import Sequence

from gpuplan.estimate.standing import Standing
from gpuplan.render.compare import best_lines, empty_cells, no_answers, price_rows, reasons, unmeasured
from gpuplan.render.plain import figure_lines
from gpuplan.render.screen import main_figures
from gpuplan.render.spoken import lines, one_line, to


def comparison_plain(order: Sequence[Standing], *, full: bool = False) -> str:
    """Who is best, the figures of each answer that matter most, or all of them, and why it is behind the first."""
    made = [one for one in order if one.answer is not None]
    said = [f"answer: {text}" for text in best_lines(order)]
    said += [f"not measured: {text}" for text in unmeasured(order)]
    for one in made:
        if one.answer is None:
            continue
        said.append(f"{one.name}: {one.answer.verdict.words}")
        figures = one.answer.figures if full else main_figures(one.answer)
        said += [f"{one.name}, {text}" for text in figure_lines(one.answer, figures)]
        said += [f"{one.name}, {head}: {text}" for head, text in price_rows(one.answer)]
    said += [f"why: {text}" for text in reasons(order)]
    said += [f"figure that is missing: {text.removeprefix('–: ')}" for text in empty_cells(made)]
    return lines([to(text) for text in [*said, *(f"no answer: {text}" for text in no_answers(order))]])


def comparison_brief(order: Sequence[Standing]) -> str:
    """Who is best in what, and how many do not fit or have no answer."""
    first, *rest = best_lines(order)
    rest += [f"not measured: {text}" for text in unmeasured(order)]
    unfit = sum(one.answer is not None and not one.fits for one in order)
    missing = sum(one.answer is None for one in order)
    told = [f"{count} of {len(order)} {what}" for count, what in ((unfit, "do not fit"), (missing, "without an answer")) if count]
    return one_line(first, [*rest, *told])
