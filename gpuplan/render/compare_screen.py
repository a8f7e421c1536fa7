"""What does a comparison look like on one screen: who is best, six figures of each answer, its price, and why it is behind?

`compare` has the rest of it, line for line.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpuplan.estimate.standing import Standing
from gpuplan.estimate.winner import CHEAPEST, FASTEST
from gpuplan.render.compare import (
    NO_PRICE,
    NONE,
    Telling,
    best_lines,
    differing,
    empty_cells,
    no_answers,
    price_rows,
    prices,
    ranges_of,
    reasons,
    times_of,
    unmeasured,
    values_of,
)
from gpuplan.render.narrow import narrow
from gpuplan.render.room import ALWAYS, MOST_LINES, Piece, headed, in_room
from gpuplan.render.screen import first_clause, main_figures
from gpuplan.render.text import Look, columns, known, wrap
from gpuplan.render.words import heading, is_one
from gpuplan.units import so_many

_COLUMNS = 3
"""So many answers stand in columns of their own; more, or wider ones, have a row each."""
_WITH_RANGES = 6
"""Of so many rows each has its ranges below it."""
_ROWS = 12
"""So many answers are told of; `--full` has them all."""
_TELLING = Telling(answers=4, parts=2, inputs=2, against=False)
_SAYS = (4, 3, 2)
"""So many lines a reason may take: more where there is room."""
_DOUBT, _WHY, _PRICES, _CHOSEN = 1, 2, 3, 4
"""What finds room before what."""


_SAME = {"images_per_s": "images_per_hour", "clips_per_s": "clips_per_hour"}
"""Rates that stand on a screen by the hour."""
_Row = tuple[str, list[str], list[str]]
"""A heading, and for each answer a value and its range."""


def comparison_screen(order: Sequence[Standing], look: Look) -> str:
    """The comparison in at most `MOST_LINES` lines of 80 columns; narrower, or with longer names, lines are wrapped."""
    made = [one for one in order if one.answer is not None]
    paint = look.good if any(one.fits for one in order) else look.bad
    best = [paint(part) for line in best_lines(order) for part in wrap(line, look.width, "", "  ")]
    table = _in_columns(made, look) if 0 < len(made) <= _COLUMNS else []
    in_rows = not table
    table = table or (_in_rows(made, look) if made else [])
    behind = reasons(order[1:], _TELLING)
    title = f"Why behind {made[0].name}" if made else ""
    always = [
        [Piece(ALWAYS, best)],
        [Piece(ALWAYS, table)],
        _block("Empty cells", ALWAYS, empty_cells(made, _keys(made)), look, _SAYS[-1]),
        _block("No answer", ALWAYS, no_answers(order)[:_ROWS], look, _SAYS[-1]),
    ]
    doubt = _whole("Not measured, so that which is faster is not sure", _DOUBT, unmeasured(order), look)
    why = next(
        (one for says in _SAYS if not in_room([*always, doubt, one := _block(title, _WHY, behind, look, says)], MOST_LINES - 2)[1]),
        _block(title, _WHY, behind, look, _SAYS[-1]),
    )
    more = [
        _whole("Prices of one accelerator", _PRICES, prices(made) if in_rows else [], look),
        _whole("Differs", _CHOSEN, list(_chosen(made)) if len(made) <= _WITH_RANGES else [], look),
    ]
    lines, _ = in_room([*always[:2], doubt, why, *more, *always[2:]], MOST_LINES - 2)
    return "\n".join([*lines, "", *(look.dim(line) for line in wrap("; ".join(_foot(order, made)), look.width))]) + "\n"


def _block(title: str, rank: int, texts: Sequence[str], look: Look, says: int) -> list[Piece]:
    """Texts below a heading, each in so many lines; where there is no room for all, the first stand."""
    room = says * (look.width - 8)
    pieces = [(rank, wrap(first_clause(text, room), look.width, "  ", "    ")) for text in texts]
    return headed(look.bold(title), pieces)


def _whole(title: str, rank: int, texts: Sequence[str], look: Look) -> list[Piece]:
    """Texts below a heading, all or none."""
    lines = [line for text in texts for line in wrap(text, look.width, "  ", "    ")]
    return [Piece(rank, [look.bold(title), *lines])] if lines else []


def _foot(order: Sequence[Standing], made: Sequence[Standing]) -> Iterator[str]:
    if len(made) > _ROWS:
        yield so_many(len(made) - _ROWS, "more answer")
    figures = [one.answer.figures[key] for one in made if one.answer for key in _keys(made) if key in one.answer.figures]
    if not all(known(term) for term in figures):
        yield "* partly assumed"
    yield "--full: all figures, reasons and prices" if made else f"{so_many(len(order), 'question')} without an answer"


def _keys(made: Sequence[Standing]) -> list[str]:
    """The figures that are compared: what decides, and the six of the first answer."""
    answers = [one.answer for one in made if one.answer is not None]
    deciding = [next((key for one in answers for key in keys if key in one.figures), None) for keys in (FASTEST, CHEAPEST)]
    # What does not fit or keep up has few figures: it does not say which are told of the others.
    beside = [one for one in answers if one.verdict.fits]
    deciding = [_SAME.get(key or "", key) for key in deciding]
    keys = [key for key in (*deciding, *main_figures(answers[0], beside)) if key is not None] if answers else []
    return list(dict.fromkeys(keys))[:6]


def _verdicts(made: Sequence[Standing]) -> list[str]:
    """The word of each verdict; none where all are the same."""
    words = [one.answer.verdict.words for one in made if one.answer is not None]
    return words if set(words) != {"fits"} else []


def _speeds(made: Sequence[Standing]) -> list[str]:
    """The speed of each answer against the first; none where no speed is told."""
    told = any(one.behind is not None and one.behind.figure in FASTEST for one in made)
    return [times_of(one) for one in made] if told else []


def _in_columns(made: Sequence[Standing], look: Look) -> list[str]:
    """A column for each answer, ranges beside the figures or below them; nothing where the width does not hold it."""
    answers = [one.answer for one in made if one.answer is not None]
    rows: list[_Row] = []
    none = [""] * len(made)
    if words := _verdicts(made):
        rows.append(("verdict", words, none))
    if speeds := _speeds(made):
        rows.append(("relative speed", speeds, none))
    rows += [(heading(key), values_of(answers, key), ranges_of(answers, key)) for key in _keys(made)]
    told = [dict(price_rows(one)) for one in answers]
    for head in dict.fromkeys(head for price in told for head in price):
        rows.append((head, [price.get(head, NONE if price else NO_PRICE) for price in told], none))
    for lay_out in (_beside, _below):
        cells: list[list[str]] = [["", *(one.name for one in made)], *lay_out(rows)]
        lines = columns(cells, "l" + "r" * len(made))
        if max(map(len, lines)) <= look.width:
            painted = (line if cell[0] else look.dim(line) for line, cell in zip(lines[1:], cells[1:], strict=True))
            return [look.bold(lines[0]), *painted]
    return []


def _beside(rows: Sequence[_Row]) -> Iterator[list[str]]:
    """Ranges behind the figures."""
    for head, values, ends in rows:
        yield [head, *(f"{value} ({end})" if end else value for value, end in zip(values, ends, strict=True))]


def _below(rows: Sequence[_Row]) -> Iterator[list[str]]:
    """Ranges in a row of their own."""
    for head, values, ends in rows:
        yield [head, *values]
        if any(ends):
            yield ["", *ends]


def _in_rows(made: Sequence[Standing], look: Look) -> list[str]:
    """A row for each answer, with its ranges below it where there are few; as many figures as the width holds."""
    ranged = len(made) <= _WITH_RANGES
    shown_ones = made[:_ROWS]

    def column(first: Sequence[str], second: Sequence[str]) -> list[str]:
        return [cell for pair in zip(first, second, strict=True) for cell in pair] if ranged else list(first)

    blank = [""] * len(shown_ones)
    fixed = [("", column([one.name for one in shown_ones], blank))]
    if any(_verdicts(made)):
        fixed.append(("verdict", column([one.answer.verdict.words for one in shown_ones if one.answer], blank)))
    texts = len(fixed)
    if speeds := _speeds(made):
        fixed.append(("relative speed", column(speeds[:_ROWS], blank)))
    answers = [one.answer for one in shown_ones if one.answer is not None]
    wanted = [(heading(key), column(values_of(answers, key), ranges_of(answers, key))) for key in _keys(made)]
    heads, rows, _ = narrow(fixed, wanted, look, texts=texts)
    told = (look.dim(row) if ranged and at % 2 else row for at, row in enumerate(rows))
    return [*map(look.bold, heads), *(row for row, plain in zip(told, rows, strict=True) if plain.strip())]


def _chosen(made: Sequence[Standing]) -> Iterator[str]:
    """What tells the plans of the answers apart, of each in a line; no degree of 1."""
    rows = list(differing(made, heads=[key for one in made for key in one.changed]))
    for at, one in enumerate(made):
        said = [f"{head} {cells[at]}" for name, head, cells in rows if cells[at] != NONE and not is_one(name, cells[at])]
        if said:
            yield f"{one.name}: {', '.join(said)}"
