"""What does an estimate look like on a terminal? The verdict first, then figures, parts, choices, changes and notes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from shlex import quote

from gpuplan.estimate.result import Breakdown, Change, Estimate
from gpuplan.render.text import (
    ASSUMED,
    Look,
    amount,
    bar,
    beside,
    columns,
    known,
    label,
    noted,
    pairs,
    percent,
    short_names,
    shown,
    span,
    wrap,
)
from gpuplan.render.words import is_one, part_name
from gpuplan.term import Term, walk_of

_MOST = 6
"""How many assumed values are named below a table; the tree and the JSON have them all."""
_PIECES = re.compile(r"(?:'[^']*'|[^'\s])+")
"""The words of a command, quotes and all."""
WIDE = 120
"""From this width on, breakdowns stand beside each other."""


def table(estimate: Estimate, look: Look) -> str:
    """The whole answer as text."""
    blocks = [
        [headline(estimate, look)],
        _figures(estimate, look),
        _bought(estimate, look),
        _printed(estimate, look),
        *_breakdowns(estimate, look),
        _chosen(estimate, look),
        _changes(estimate, look),
        _command(estimate, look),
        _notes(estimate, look),
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def flags_text(change: Change) -> str:
    """The flags of a change as the user types them, behind the command that takes them where it is another."""
    flags = (f"--{name} {quote(value)}" if value else f"--{name}" for name, value in change.flags.items())
    return " ".join((*((change.command,) if change.command else ()), *flags))


def verdict_text(estimate: Estimate) -> tuple[str, str]:
    """The word of the verdict and the rest of its line; the headline may say the word itself."""
    said, line = estimate.verdict.words, estimate.verdict.headline
    begin, found, _ = line.partition("largest part: ")
    line = f"{begin}{found}{part_name(estimate.verdict.binding)}" if found and "(" not in _ else line
    return said.upper(), line[len(said) :].lstrip(" :,") if line.lower().startswith(said) else line


def assumed_leaves(estimate: Estimate) -> list[Term]:
    """The leaves below the figures and breakdowns that are assumed, each name once."""
    return _leaves(estimate, lambda term: term.source.kind == "assumed")


def price_leaves(estimate: Estimate) -> list[Term]:
    """The prices that the figures rest on."""
    return _leaves(estimate, lambda term: term.source.kind == "price" or (term.unit == "USD/s" and term.source.kind == "user"))


def price_text(term: Term) -> str:
    """A price with what it is, its date and its source."""
    facts = [
        term.source.title,
        term.source.section,
        f"checked {term.source.checked}" if term.source.checked else "",
        term.source.note,
    ]
    return f"{shown(term.name, float(term.value), term.unit)}: {', '.join(fact for fact in facts if fact)}"


def _leaves(estimate: Estimate, wanted: Callable[[Term], bool]) -> list[Term]:
    roots = [*estimate.figures.values(), *(breakdown.total for breakdown in estimate.breakdowns)]
    return list({term.name: term for term in walk_of(roots) if term.formula is None and wanted(term)}.values())


def headline(estimate: Estimate, look: Look) -> str:
    """The verdict and what was asked, without degrees of 1, in as few lines as the width allows."""
    word, answer = verdict_text(estimate)
    paint = look.good if estimate.verdict.fits else look.bad
    lines = wrap(answer, look.width, f"{word}  ", "  ")
    lines[0] = paint(word) + lines[0][len(word) :]
    asked = ", ".join(f"{label(key)} {value}" for key, value in estimate.question.items() if not is_one(key, value))
    lines += [look.dim(line) for line in wrap(asked, look.width, "  ")] if asked else []
    return "\n".join(lines)


def _figures(estimate: Estimate, look: Look) -> list[str]:
    rows = []
    ranged = any(low != high for low, high in estimate.ranges.values())
    for key, term in estimate.figures.items():
        number, unit = amount(key, float(term.value), term.unit)
        low, high = estimate.ranges[key]
        ends = span(key, (low, high), term.unit, float(term.value)) if low != high else ("", "")
        star = "" if known(term) else ASSUMED.strip()
        rows.append([label(key), number, f"{unit}{' ' if unit and star else ''}{star}", ends[0], "–" if ends[1] else "", ends[1]])
    head = ["", "expected", "", "low", "–", "high"] if ranged else ["", "", "", "", "", ""]
    lines = columns([head, *rows], "lrlrll", gap=" ")
    if look.width >= WIDE:
        lines = _with_working(lines, estimate, look)
    return [look.dim(lines[0]), *lines[1:]] if ranged else lines[1:]


def _bought(estimate: Estimate, look: Look) -> list[str]:
    """What renting and buying have cost by when, where both are known."""
    if "break_even_s" not in estimate.figures:
        return []
    from gpuplan.render.break_even import break_even

    return break_even(estimate, look)


def _printed(estimate: Estimate, look: Look) -> list[str]:
    """What the engine prints of its memory at its start."""
    lines = estimate.printed()
    return [look.dim("As the engine prints it at its start"), *(f"  {line}" for line in lines)] if lines else []


def _with_working(lines: list[str], estimate: Estimate, look: Look) -> list[str]:
    """The formula of each figure beside it, where it fits."""
    from gpuplan.formula_text import formula_text

    left = max(len(line) for line in lines) + 4
    made = [f"{lines[0]:<{left}}how (--explain TERM for all of it)"]
    for line, term in zip(lines[1:], estimate.figures.values(), strict=True):
        text = f"= {formula_text(term.formula)}" if term.formula is not None else term.source.title
        made.append(f"{line:<{left}}{text}" if left + len(text) <= look.width else line)
    return made


def _breakdowns(estimate: Estimate, look: Look) -> Iterator[list[str]]:
    if look.width < WIDE:
        for breakdown in estimate.breakdowns:
            yield _breakdown(breakdown, look, look.width)
        return
    blocks = list(estimate.breakdowns)
    while blocks:
        half = (look.width - 4) // 2
        pair = [_breakdown(block, Look(half), half) for block in blocks[:2]]
        del blocks[:2]
        yield beside(pair[0], pair[1]) if len(pair) == 2 else pair[0]


def _breakdown(breakdown: Breakdown, look: Look, width: int) -> list[str]:
    whole = float(breakdown.total.value)
    parts = [part for part in breakdown.parts if float(part.value) != 0] or breakdown.parts
    amounts = [amount(term.name, float(term.value), term.unit) for term in (*parts, breakdown.total)]
    size = max(len(unit) for _, unit in amounts)
    values = [f"{number} {unit:<{size}}" for number, unit in amounts]
    names = [
        f"{name}{'' if known(term) else ASSUMED}"
        for name, term in zip(short_names([part.name for part in parts]), parts, strict=True)
    ]
    shares = [percent(float(term.value), whole) for term in parts]
    rows = [*zip(names, values, shares, strict=False), ("total", values[-1], "")]
    lines = columns(rows, "lrr")
    room = min(width - max(len(line) for line in lines) - 2, 24)
    if room >= 8:
        bars = [*(bar(float(term.value), whole, room) for term in parts), ""]
        lines = columns([(*row, mark) for row, mark in zip(rows, bars, strict=True)], "lrrl")
    return [*(look.bold(line) for line in wrap(breakdown.title[:1].upper() + breakdown.title[1:], width)), *lines]


def _chosen(estimate: Estimate, look: Look) -> list[str]:
    if not estimate.chosen:
        return []
    reasons: dict[str, list[str]] = {}
    for choice in estimate.chosen:
        reasons.setdefault(choice.reason, []).append(f"{choice.name} {choice.value}")
    lines = []
    for reason, names in reasons.items():
        lines += wrap(f"{', '.join(names)}: {reason}", look.width, "  ", "      ")
    return [look.bold("Chosen, because you left it open"), *lines]


def _changes(estimate: Estimate, look: Look) -> list[str]:
    if not estimate.changes:
        return []
    title = f"Smallest changes that {estimate.verdict.changes}"
    return [look.bold(title), *pairs(((flags_text(one), one.effect) for one in estimate.changes), look.width, look.width // 2)]


def _command(estimate: Estimate, look: Look) -> list[str]:
    """The command that starts it, on lines that a shell joins again."""
    if not estimate.command:
        return []
    lines = [""]
    for word in _PIECES.findall(estimate.command):
        if lines[-1] and len(lines[-1]) + len(word) + 7 > look.width:
            lines.append("")
        lines[-1] += f"{' ' if lines[-1] else ''}{word}"
    last = len(lines) - 1
    indents = ("  ", "    ")
    shown = [f"{indents[at > 0]}{line}{'' if at == last else ' ' + chr(92)}" for at, line in enumerate(lines)]
    return [look.bold("Started by"), *shown]


def _notes(estimate: Estimate, look: Look) -> list[str]:
    lines = []
    for note in estimate.notes:
        lines += wrap(noted(note), look.width, "  - ", "    ")
    for price in price_leaves(estimate):
        lines += wrap(f"price {price_text(price)}", look.width, "  - ", "    ")
        lines += [f"    {price.source.url}"] if price.source.url else []
    assumed = assumed_leaves(estimate)
    if assumed:
        names = ", ".join(f"{term.name} = {shown(term.name, float(term.value), term.unit)}" for term in assumed[:_MOST])
        names += f", and {len(assumed) - _MOST} more (--explain FIGURE shows where)" if len(assumed) > _MOST else ""
        lines += wrap(f"rests on assumed values: {names}", look.width, "  * ", "    ")
    return [look.bold("Notes"), *lines] if lines else []
