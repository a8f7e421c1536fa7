"""How do several answers differ, side by side: who is best, what does each take, and why is it behind?"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from gpuplan.estimate.result import Estimate
from gpuplan.estimate.slower import Behind, Dearer, Input
from gpuplan.estimate.standing import Standing
from gpuplan.estimate.winner import CHEAPEST, FASTEST, ROOMIEST, price_of, winners
from gpuplan.render.markdown import grid
from gpuplan.render.narrow import narrow
from gpuplan.render.text import ASSUMED, Look, amount, columns, known, label, shown, span, wrap
from gpuplan.render.words import input_name, part_of_phase
from gpuplan.units import so_many

COLUMNS_AT_MOST = 3
"""So many answers stand in columns of their own, with all figures; more have a row each."""
_SMALLEST = 0.005
"""A smaller difference is none."""
_TELLING = 0.02
"""An input that moves the answer by less is not told."""
_FAR_APART = 1000.0
"""Values of a row so many times apart are shown each in its own unit."""
_MADE = ("a sample", "an image", "a clip")
"""What a rate counts, where that is no token."""
NO_PRICE, NONE = "no price", "–"
"""What stands in an empty cell; `empty_cells` says why."""


class Telling(NamedTuple):
    """Of how many answers it is told why they are behind, and of each how many parts and inputs; JSON has them all."""

    answers: int = 10
    parts: int = 5
    inputs: int = 3
    against: bool = True
    """Whether each says which answer it is behind."""


ALL_TOLD = Telling()


def comparison(order: Sequence[Standing], look: Look) -> str:
    """Who is best, the answers in columns (many: in rows), why each is behind the first, and why a cell is empty."""
    made = [one for one in order if one.answer is not None]
    blocks = [
        "\n".join(look.bold(part) for line in best_lines(order) for part in wrap(line, look.width, "", "  ")),
        _in_columns(made, look) if len(made) <= COLUMNS_AT_MOST else _in_rows(made, look),
    ]
    told = prices(made) if len(made) > COLUMNS_AT_MOST else []
    for title, lines in (
        ("Not measured, so that which is faster is not sure", unmeasured(order)),
        ("Why", reasons(order)),
        ("Prices of one accelerator", told),
        ("Empty cells", empty_cells(made)),
        ("No answer", no_answers(order)),
    ):
        if lines:
            body = [part for line in lines for part in wrap(line, look.width, "  ", "    ")]
            blocks.append("\n".join([look.bold(title), *body]))
    if any(not known(term) for one in made for term in (one.answer.figures.values() if one.answer else ())):
        blocks.append(
            "\n".join(wrap("rests on an assumed value (`--explain` of the single command shows which)", look.width, "* "))
        )
    return "\n\n".join(block for block in blocks if block) + "\n"


MANNERS = {"fastest": "fast", "quickest": "quick", "cheapest": "cheap"}
"""What the best answer is, for each word that calls it so."""


def winner_lines(order: Sequence[Standing]) -> list[str]:
    """Who is best in what, by how much, and whether the ranges leave that open."""
    lines = []
    for one in winners({one.name: one.answer for one in order if one.answer is not None}):
        manner = MANNERS.get(one.word, "")
        if one.tied and manner:
            lines.append(f"equally {manner}: {', '.join(one.level[:-1])} and {one.level[-1]}")
            continue
        ahead = f", {one.times:.3g} times as {manner} as {one.next}"
        if one.key in ROOMIEST:
            ahead = ""
        elif manner == "cheap":  # Nothing is some times as cheap.
            ahead = f"; {one.next} costs {one.times:.3g} times as much"
        doubt = "" if one.sure else "; their ranges overlap"
        lines.append(f"{one.word}: {one.name}{ahead}{doubt}")
    return lines + _unlike_batches(order) if any(one.startswith("fastest") for one in lines) else lines


def unmeasured(order: Sequence[Standing]) -> list[str]:
    """Which kernels of the fastest and of the next were not measured, where their ranges leave open which of them is faster."""
    fastest = [one for one in winners({one.name: one.answer for one in order if one.answer is not None}) if one.word in MANNERS]
    names = {name for one in fastest if not one.sure and MANNERS[one.word] != "cheap" for name in (one.name, one.next)}
    notes = (note for one in order if one.answer is not None and one.name in names for note in one.answer.notes)
    said = (note.text.partition(" were measured")[0] for note in notes if note.code == "hw.not-measured")
    return list(dict.fromkeys(text.removeprefix("no ") for text in said))


def _unlike_batches(order: Sequence[Standing]) -> list[str]:
    """That one engine is asked for one sequence and another for as many as it holds, as their users have them: unlike questions."""
    some = [(one.name, one.answer) for one in order if one.answer is not None and one.fits]
    asked = {name: one.question.get("batch", "") for name, one in some if any(each.name == "batch" for each in one.chosen)}
    alone = [name for name, batch in asked.items() if batch == "1"]
    many = [name for name, batch in asked.items() if batch not in ("", "1")]
    if not alone or not many:
        return []
    return [f"of one user with {' and '.join(alone)}, of a full batch with {' and '.join(many)}: --batch 1 compares them for one"]


def best_lines(order: Sequence[Standing]) -> list[str]:
    """Who is best; where fewer than two can be told apart, who fits at all."""
    fit = [one.name for one in order if one.fits]
    alone = "none fits" if not fit else f"only {fit[0]} fits" if len(fit) == 1 else f"{len(fit)} fit, {fit[0]} first"
    return winner_lines(order) or [alone if any(one.answer is not None for one in order) else "no answer"]


def reasons(order: Sequence[Standing], telling: Telling = ALL_TOLD) -> list[str]:
    """Why each answer is behind the first, and why it is dearer than the cheapest; those that are as good are left out."""
    lines = []
    behind = [one for one in order if one.answer is not None and (one.behind is not None or one.dearer is not None)]
    for one in behind[: telling.answers]:
        said = [*_behind(one.behind, telling), *_dearer(one.dearer)]
        if not one.fits and one.answer is not None:
            said.insert(0, one.answer.verdict.headline)
        if said:
            lines.append(f"{one.name}: {'; '.join(said)}")
    if len(behind) > telling.answers:
        lines.append(f"and {len(behind) - telling.answers} more{' (`--json` has them all)' if telling.against else ''}")
    return lines


def empty_cells(made: Sequence[Standing], shown_keys: Collection[str] | None = None) -> list[str]:
    """Why some answers do not have a figure that others have: each reason once, with whom it is about.

    `shown_keys` are the figures that are told, where not all are.
    """
    found: dict[str, list[str]] = {}
    for one in made:
        for note in one.answer.notes if one.answer is not None else ():
            if note.code == "price.unknown" and any(_priced(other) for other in made):
                found.setdefault(f"{note.text}; {note.hint}", []).append(one.name)
    lines = [f"{NO_PRICE} ({', '.join(names)}): {text}" for text, names in found.items()]
    keys = [{*one.answer.figures} & {*(shown_keys or one.answer.figures)} for one in made if one.answer is not None]
    if keys and any(key not in mine and not is_money(key) for mine in keys for key in set().union(*keys)):
        lines.append(f"{NONE}: a figure that the plan, engine or load of that answer does not have")
    return lines


def no_answers(order: Sequence[Standing]) -> list[str]:
    """Why there is no answer to some of the questions."""
    lines = []
    for one in order:
        for problem in () if one.error is None else one.error.problems:
            lines.append(f"{one.name}: {problem.message}{f' ({problem.hint})' if problem.hint else ''}")
    return lines


def _behind(one: Behind | None, telling: Telling) -> list[str]:
    if one is None:
        return []
    told = [part for part in one.parts if part.share * (one.times - 1) > 0][: telling.parts]
    parts = "; ".join(f"{part_of_phase(part.name)} {_signed(part.share)}" for part in told)
    if one.figure in ROOMIEST:
        said = [_instead(put) for put in one.inputs]
        if abs(one.times - 1) >= _SMALLEST:
            said.append(f"it needs {one.times:.3g} times the memory of {one.best}{f' ({parts})' if parts else ''}")
        return said
    if abs(one.times - 1) < _SMALLEST:
        return []
    what = next((noun for noun in _MADE if f"{noun.split()[-1]}s_per" in one.figure), "a token")
    against = f" against {one.best}" if telling.against else ""
    said = [f"{_signed(one.times - 1)} time for {what}{against}: {parts}"] if parts else []
    alone = [put for put in one.inputs if (put.times - 1) * (one.times - 1) > 0 and abs(put.times - 1) >= _TELLING][
        : telling.inputs
    ]
    if alone:
        said.append("inputs: " + ", ".join(f"{_instead(put)} (alone {put.times:.3g} times as fast)" for put in alone))
    return said


def _instead(put: Input) -> str:
    return f"{input_name(put.name)} {shown(put.name, put.own, put.unit)}, not {shown(put.name, put.best, put.unit)}"


def _dearer(one: Dearer | None) -> list[str]:
    if one is None or abs(one.times - 1) < _SMALLEST:
        return []
    made_of = f"{one.price_times:.3g} times its price an hour, {one.time_times:.3g} times its time"
    return [f"{one.times:.3g} times the cost of {one.best}: {made_of}"]


def _signed(share: float) -> str:
    """A share as a signed percentage.

    >>> _signed(0.4567), _signed(-0.012), _signed(38.9)
    ('+46 %', '-1.2 %', '+3,890 %')
    """
    amount = share * 100
    return f"{amount:+,.1f} %" if abs(amount) < 9.95 else f"{amount:+,.0f} %"


def prices(made: Sequence[Standing]) -> list[str]:
    """Of whose offers the prices are, and of which kind and date: each once, with the answers that rest on it."""
    found: dict[str, list[str]] = {}
    for one in made:
        rows = price_rows(one.answer) if one.answer is not None else []
        if rows:
            found.setdefault(", ".join(text for _, text in rows), []).append(one.name)
    return [f"{text}: {'; '.join(names)}" for text, names in found.items()]


def price_rows(answer: Estimate) -> list[tuple[str, str]]:
    """What one accelerator costs an hour, and of which offer that is: whose, of which kind, as of when."""
    price = price_of(answer)
    if price is None:
        return []
    about = next((dict(note.about) for note in answer.notes if note.about), {})
    rows = [("price of one accelerator", shown(price.name, float(price.value), price.unit))]
    if not about:
        return [*rows, ("price by", "you")]
    return [
        *rows,
        ("price by", about["provider"]),
        ("price kind", about["kind"].replace("_", " ")),
        ("price date", about["date"] or "unknown"),
    ]


def _priced(one: Standing) -> bool:
    return one.answer is not None and any(is_money(key) for key in one.answer.figures)


def is_money(key: str) -> bool:
    """Whether a figure is one that a price is needed for."""
    return "usd" in key


def side_by_side_text(names: Sequence[str], rows: Sequence[tuple[str, list[str]]], look: Look) -> str:
    """Rows of texts under names, in as many blocks as the width needs."""
    return "\n".join(_grid(names, rows, look, bold_first=True)) + "\n"


def comparison_markdown(order: Sequence[Standing]) -> str:
    """The same as Markdown."""
    made = [one for one in order if one.answer is not None]
    rows = [[head, *cells] for head, cells in _rows(made)]
    table = grid(["", *(one.name for one in made)], rows, "l" + "r" * len(made)) + "\n" if made else ""
    said = [
        *winner_lines(order),
        *(f"not measured: {one}" for one in unmeasured(order)),
        *reasons(order),
        *empty_cells(made),
        *(f"no answer: {line}" for line in no_answers(order)),
    ]
    return table + ("".join(f"\n- {line}" for line in said) + "\n" if said else "")


def _in_columns(made: Sequence[Standing], look: Look) -> str:
    return "\n".join(_grid([one.name for one in made], list(_rows(made)), look, bold_first=True)) if made else ""


def _in_rows(made: Sequence[Standing], look: Look) -> str:
    """A row for each answer: as many of the main figures as the width holds, the rest is in CSV and JSON."""
    first = next(one.answer for one in made if one.answer is not None)
    speed = next((key for key in FASTEST if key in first.figures), None)
    cost = next((key for one in made if one.answer for key in CHEAPEST if key in one.answer.figures), None)
    wanted = [key for key in (speed, cost) if key is not None]
    wanted += [key for key in first.figures if key not in wanted]
    fixed = [("", [one.name for one in made]), ("verdict", [one.answer.verdict.words for one in made if one.answer])]
    if speed is not None:
        fixed.append(("relative speed", [times_of(one) for one in made]))
    told = [(label(key), values_of([one.answer for one in made if one.answer], key)) for key in wanted]
    heads, rows, left_out = narrow(fixed, told, look)
    said = f"{so_many(left_out, 'more figure')} with --csv and --json, or beside each other for {COLUMNS_AT_MOST} answers"
    return "\n".join([*map(look.bold, heads), *rows, *(wrap(said, look.width, "  ") if left_out else ())])


def times_of(one: Standing) -> str:
    """How much of the speed of the best an answer has."""
    if one.behind is None or not one.behind.times or one.behind.figure not in FASTEST:
        return "1" if one.behind is None else NONE
    return f"{1 / one.behind.times:.3g}"


def _rows(made: Sequence[Standing]) -> Iterator[tuple[str, list[str]]]:
    answers = [one.answer for one in made if one.answer is not None]
    yield "verdict", [answer.verdict.words for answer in answers]
    times = [times_of(one) for one in made]
    if any(one.behind is not None and one.behind.figure in FASTEST for one in made):
        yield "relative speed", times
    for key in dict.fromkeys(key for answer in answers for key in answer.figures):
        yield label(key), values_of(answers, key)
        ends = ranges_of(answers, key)
        if any(ends):
            yield "", [f"({end})" if end else "" for end in ends]
    told = [dict(price_rows(answer)) for answer in answers]
    for head in dict.fromkeys(head for rows in told for head in rows):
        yield head, [rows.get(head, NO_PRICE if not rows else NONE) for rows in told]
    yield from ((head, said) for _, head, said in differing(made))


def differing(made: Sequence[Standing], heads: Collection[str] = ()) -> Iterator[tuple[str, str, list[str]]]:
    """What the questions, with all that was chosen, do not have in common: its key, its name, and how each answer has it.

    The keys of `heads` are left out: they name the answers.
    """
    answers = [one.answer for one in made if one.answer is not None]
    for name in dict.fromkeys(name for answer in answers for name in answer.question):
        said = [answer.question.get(name, NONE) for answer in answers]
        if name != "on" and name not in heads and len(set(said)) > 1:
            yield name, label(name), said


def _empty(estimate: Estimate, key: str) -> str:
    return NO_PRICE if is_money(key) and any(note.code == "price.unknown" for note in estimate.notes) else NONE


def values_of(answers: Sequence[Estimate], key: str) -> list[str]:
    """A figure of each answer, in one unit."""
    like = _like(answers, key)
    made = []
    for one in answers:
        term = one.figures.get(key)
        if term is None:
            made.append(_empty(one, key))
        else:
            made.append(f"{' '.join(amount(key, float(term.value), term.unit, like=like)).strip()}{'' if known(term) else ASSUMED}")
    return made


def ranges_of(answers: Sequence[Estimate], key: str) -> list[str]:
    """The range of a figure of each answer, in the same unit; "" where there is none."""
    like = _like(answers, key)
    made = []
    for one in answers:
        term, (low, high) = one.figures.get(key), one.ranges.get(key, (0.0, 0.0))
        said = term is not None and low != high
        made.append(" – ".join(span(key, (low, high), term.unit, like or float(term.value))) if said and term is not None else "")
    return made


def _like(answers: Sequence[Estimate], key: str) -> float | None:
    """The value in whose unit all of a row are shown: the smallest, unless they are too far apart; None: each in its own."""
    found = [abs(float(one.figures[key].value)) for one in answers if key in one.figures]
    sizes = [one for one in found if one]
    return min(sizes) if sizes and max(sizes) < _FAR_APART * min(sizes) else None


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
