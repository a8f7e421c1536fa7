"""What does an answer sound like: `label: value` lines for a screen reader, without bars, columns or signs?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpuplan.estimate.result import Estimate
from gpuplan.render.screen import main_figures, question_text
from gpuplan.render.table import flags_text, verdict_text
from gpuplan.render.text import known, label, noted, percent, shown, span
from gpuplan.render.words import MEANINGS, goes_unsaid, heading, in_words, of_what, part_name
from gpuplan.term import Term


def plain(estimate: Estimate, *, full: bool = False) -> str:
    """The answer as lines that each stand alone: the six figures that matter most, or all of them with all parts."""
    word, said = verdict_text(estimate)
    figures = estimate.figures if full else main_figures(estimate)
    lines = [f"answer: {word.lower()}, {said}", f"question: {question_text(estimate)}", *figure_lines(estimate, figures)]
    for one in estimate.breakdowns:
        whole = float(one.total.value)
        parts = [part for part in one.parts if float(part.value) != 0]
        for part in parts if full else sorted(parts, key=lambda part: -float(part.value))[:3]:
            amount = shown(part.name, float(part.value), part.unit)
            lines.append(f"{of_what(one.title)}, {part_name(part.name)}: {amount}, {percent(float(part.value), whole)}")
    chosen = [one for one in estimate.chosen if not goes_unsaid(one.name, one.value, habit=one.habit)]
    lines += [f"chosen: {label(one.name)} {one.value}, {in_words(one.reason)}" for one in chosen]
    helps = "helps" if estimate.verdict.fits else "makes it fit"
    lines += [f"{helps}: {flags_text(one)}, {one.effect}" for one in estimate.changes]
    lines += [f"started by: {estimate.command}"] if estimate.command else []
    lines += [f"note: {in_words(noted(note))}" for note in estimate.notes]
    return "\n".join(lines) + "\n"


def figure_lines(estimate: Estimate, figures: Mapping[str, Term]) -> Iterator[str]:
    """Figures with what they mean and their ranges, a line each."""
    for key, term in figures.items():
        low, high = estimate.ranges[key]
        facts = [shown(key, float(term.value), term.unit)]
        if low != high:
            facts.append(f"from {' to '.join(span(key, (low, high), term.unit, float(term.value)))}")
        if not known(term):
            facts.append("partly assumed")
        meaning = MEANINGS.get(key)
        yield f"{heading(key)}{f' ({meaning})' if meaning else ''}: {', '.join(facts)}"
