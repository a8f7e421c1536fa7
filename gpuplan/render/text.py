"""How does a number, a range or a column of text look on a terminal, in a pipe, with and without colour?"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import IO

from gpuplan.errors import Note
from gpuplan.record import Record
from gpuplan.term import Term
from gpuplan.units import human

ASSUMED = " *"
"""What marks a figure that rests on an assumed value."""
_ACRONYMS = {
    "mfu", "hfu", "mbu", "ttft", "tpot", "itl", "kv", "usd", "flop", "tp", "pp", "dp", "cp", "ep", "vpp", "hbm", "p2p", "moe",
}  # fmt: skip
_SPELT = {"co2e": "CO2e", "api": "API"}
_UNITS = {
    "bytes_per_s": "", "flop_per_s": "", "bytes": "", "flop": "", "usd_per_s": "", "usd": "", "joules": "", "watts": "", "s": "",
    "j": "", "w": "", "kg": "",
}  # fmt: skip
LARGE = {"M": "million", "B": "billion", "T": "trillion", "Q": "quadrillion"}
"""Counts in words: a B beside bytes could be either."""
_SHARES = {"mfu", "hfu", "mbu"}
_SHARE_ENDS = ("_fraction", "_share", "_utilisation")


class Look(Record):
    """What the place of output offers: columns, and whether it shows colours."""

    width: int = 80
    colour: bool = False
    drawn: bool = False
    """Whether it is a terminal that draws lines: a tree has branches there, and a pipe indents."""

    def bold(self, text: str) -> str:
        """Text that stands out."""
        return self._paint("1", text)

    def dim(self, text: str) -> str:
        """Text that steps back."""
        return self._paint("2", text)

    def good(self, text: str) -> str:
        """Text that says yes."""
        return self._paint("1;32", text)

    def bad(self, text: str) -> str:
        """Text that says no."""
        return self._paint("1;31", text)

    def _paint(self, code: str, text: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if self.colour and text else text


UNADORNED = Look()
"""Of what is written to no terminal: 80 columns, neither colours nor lines."""


def look_of(stream: IO[str], environ: Mapping[str, str] = os.environ) -> Look:
    """The look for a stream: colour only on a terminal and without NO_COLOR; a pipe has COLUMNS or 80 columns."""
    terminal = stream.isatty()
    colour = terminal and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"
    drawn = terminal and environ.get("TERM") != "dumb"
    return Look(max(40, columns_of_terminal()), colour, drawn)


def columns_of_terminal() -> int:
    """The columns that `shutil.get_terminal_size((80, 24))` tells, without importing all kinds of archives first."""
    said = os.environ.get("COLUMNS", "")
    with suppress(ValueError):
        if (columns := int(said)) > 0:
            return columns
    try:
        return os.get_terminal_size(sys.__stdout__.fileno()).columns or 80  # type: ignore[union-attr]
    except (AttributeError, ValueError, OSError):  # It is closed, or no terminal.
        return 80


def label(key: str) -> str:
    """A JSON key or term name as a person says it, without its unit.

    >>> label("step_time_s"), label("tokens_per_s"), label("peak_memory_bytes"), label("mfu"), label("cost_per_million_tokens_usd")
    ('step time', 'tokens/s', 'peak memory', 'MFU', 'cost per million tokens')
    >>> label("model_flop_per_s_per_accelerator"), label("energy_joules_per_token")
    ('model FLOP/s per accelerator', 'energy per token')
    """
    words = key
    rate = _rate(key)
    if rate:
        words = rate
    else:
        for unit in ("bytes", "usd", "joules", "kg", "flop"):
            words = words if words.endswith(f"_{unit}_per_s") else words.replace(f"_{unit}_per_", "_per_")
        for unit in _UNITS:
            if words.endswith(f"_{unit}"):
                words = words.removesuffix(f"_{unit}")
                break
    return " ".join(word.upper() if word in _ACRONYMS else _SPELT.get(word, word) for word in words.replace("_", " ").split(" "))


def _rate(key: str) -> str:
    """`tokens_per_s_per_accelerator` as `tokens/s per accelerator`; nothing for bytes and money, whose unit says it."""
    what, found, after = key.partition("_per_s")
    if not found or what.endswith(("bytes", "usd")) or (after and not after.startswith("_")):
        return ""
    return f"{what.removesuffix('flop')}FLOP/s{after}" if what.endswith("flop") else f"{what}/s{after}"


NO_BOUND = "no bound"
"""The high end of what grows without end."""


def amount(key: str, value: float, unit: str, *, like: float | None = None) -> tuple[str, str]:
    """The number and the unit of a figure as a person reads them; shares become percent. `like` is whose unit is taken.

    >>> amount("mfu", 0.4123, "1"), amount("step_time_s", 4.123, "s"), amount("tokens_per_s", 127_345.0, "1/s")
    (('41.2', '%'), ('4.12', 's'), ('127,345', ''))
    >>> amount("model.params_total", 8.03e9, "1"), amount("accelerator_time_s", 7.2e6, "s")
    (('8.03', 'billion'), ('2,000', 'h'))
    """
    last = key.rpartition(".")[2]
    value += 0.0  # a negative zero is a zero
    if unit == "1" and (last.partition("_")[0] in _SHARES or key.endswith(_SHARE_ENDS)):
        return f"{value * 100:.1f}", "%"
    if unit == "s" and "accelerator_time" in key:
        return f"{human(value / 3600, 'h', 4).removesuffix(' h')}", "h"
    text = human(value, "1" if unit == "1/s" and _rate(last) else unit, like=like)
    number, _, suffix = text.partition(" ")
    return number, LARGE.get(suffix, suffix) if unit in ("1", "1/s") else suffix


def shown(key: str, value: float, unit: str) -> str:
    """A figure as one text."""
    return " ".join(amount(key, value, unit)).strip()


def span(key: str, ends: tuple[float, float], unit: str, expected: float) -> tuple[str, str]:
    """The two ends of a range in the unit that the expected value is shown in; it stands once.

    >>> span("step_time_s", (3.9, 4.5), "s", 4.1), span("step_time_s", (0.9, 1.2), "s", 1.1)
    (('3.90', '4.50 s'), ('0.900', '1.20 s'))
    >>> span("max_sequences", (51.4, 55.4), "1", 53), span("ttft_s", (0.25, math.inf), "s", 0.3)
    (('51', '55'), ('250 ms', 'no bound'))
    """
    low, high = ends
    if high == math.inf:
        return shown(key, low, unit), NO_BOUND
    whole = max(map(abs, (low, high, expected))) if expected == 0 else expected
    (a, unit_a), (b, unit_b) = (amount(key, end, unit, like=whole) for end in ends)
    if unit == "1" and not unit_a and not unit_b and (high >= 10 or (expected == int(expected) and high >= 1)):
        a, b = f"{low:,.0f}", f"{high:,.0f}"
    return (a if unit_a == unit_b else f"{a} {unit_a}".strip()), f"{b} {unit_b}".strip()


def times(factor: float) -> str:
    """How many times as much, for a person to read.

    >>> times(1.04), times(22.51), times(111734.2)
    ('1.04 x', '23 x', '112,000 x')
    """
    if factor < 2:
        return f"{factor:.3g} x"
    return f"{factor:.2g} x" if factor < 99.5 else f"{float(f'{factor:.3g}'):,.0f} x"


def percent(part: float, whole: float) -> str:
    """A part of a whole, or nothing where the whole is zero.

    >>> percent(1, 3), percent(1, 1e6), percent(0, 3)
    ('33.3 %', '<0.1 %', '0.0 %')
    """
    if whole == 0:
        return ""
    share = part / whole * 100
    return "<0.1 %" if 0 < share < 0.05 else f"{share:.1f} %"


def bar(part: float, whole: float, cells: int) -> str:
    """A share as a bar of at most `cells` characters.

    >>> bar(1, 2, 8)
    '████'
    """
    eighths = round(max(0.0, min(1.0, part / whole if whole else 0.0)) * cells * 8)
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()


def noted(note: Note) -> str:
    """A note with what can be done about it."""
    return f"{note.text}; {note.hint}" if note.hint else note.text


def known(term: Term, told: dict[int, bool] | None = None) -> bool:
    """Whether no leaf below a term is assumed.

    Who asks of every term of a graph gives `told`: what was found of each, by its identity, for as long as the graph lives.
    """
    if told is None:
        return all(part.formula is not None or part.source.kind != "assumed" for part in term.walk())
    todo = [term]
    while todo:
        one = todo[-1]
        untold = [part for _, part in one.args if id(part) not in told]
        todo += untold
        if not untold:
            itself = one.formula is not None or one.source.kind != "assumed"
            told[id(one)] = itself and all(told[id(part)] for _, part in one.args)
            todo.pop()
    return told[id(term)]


def wrap(text: str, width: int, first: str = "", rest: str | None = None) -> list[str]:
    """Text wrapped to the width at spaces; only a word that is longer than a whole line is broken, and a URL never."""
    if text and len(first) + len(text) <= width and text.isprintable() and text == text.strip():
        return [first + text]
    rest = " " * len(first) if rest is None else rest
    width = max(width, len(first) + 10, len(rest) + 10)
    broken = any(len(word) > width - len(rest) and not word.startswith("http") for word in text.split(" "))
    import textwrap

    lines = textwrap.wrap(
        text, width, initial_indent=first, subsequent_indent=rest, break_long_words=broken, break_on_hyphens=False
    )
    return lines or [first.rstrip()]


def columns(rows: Sequence[Sequence[str]], aligned: str, gap: str = "  ", indent: str = "  ") -> list[str]:
    """Rows with aligned columns; `aligned` has one `l` or `r` a column. No cell is ever cut.

    >>> columns([["a", "1"], ["bb", "10"]], "lr")
    ['  a    1', '  bb  10']
    """
    if not rows:
        return []
    sizes = [max(len(row[at]) for row in rows) for at in range(len(aligned))]
    lines = []
    for row in rows:
        cells = [
            f"{cell:>{size}}" if side == "r" else f"{cell:<{size}}" for cell, size, side in zip(row, sizes, aligned, strict=True)
        ]
        kept = [cell for cell, size in zip(cells, sizes, strict=True) if size]
        lines.append((indent + gap.join(kept)).rstrip())
    return lines


def pairs(rows: Iterable[tuple[str, str]], width: int, most: int) -> list[str]:
    """Two columns, the second wrapped; where the first has more than `most` characters, the second goes below it.

    >>> pairs([("--on", "where it runs"), ("--batch", "sequences")], 20, 8)
    ['  --on     where it', '           runs', '  --batch  sequences']
    """
    rows = list(rows)
    left = min(max((len(first) for first, _ in rows), default=0), most)
    lines = []
    for first, second in rows:
        long = len(first) > left or not second
        lines += [f"  {first}"] if long else []
        lines += wrap(second, width, f"  {'' if long else first:<{left}}  ", " " * (left + 4)) if second else []
    return lines


def beside(left: Sequence[str], right: Sequence[str], gap: int = 4) -> list[str]:
    """Two blocks of lines next to each other."""
    size = max((len(line) for line in left), default=0) + gap
    height = max(len(left), len(right))
    padded = [*left, *[""] * (height - len(left))], [*right, *[""] * (height - len(right))]
    return [f"{a:<{size}}{b}".rstrip() for a, b in zip(*padded, strict=True)]


def short_names(names: Sequence[str]) -> list[str]:
    """Dotted names by their last words where these differ, otherwise without the beginning that all share.

    >>> short_names(["memory.weights", "engine.graphs"]), short_names(["step.a.time", "step.b.time"])
    (['weights', 'graphs'], ['a.time', 'b.time'])
    """
    last = [name.rpartition(".")[2] for name in names]
    return last if len(set(last)) == len(last) else without_prefix(names)


def without_prefix(names: Sequence[str]) -> list[str]:
    """Dotted names without the dotted beginning that all share.

    >>> without_prefix(["memory.weights", "memory.kv.cache"])
    ['weights', 'kv.cache']
    """
    parts = [name.split(".") for name in names]
    while len(parts) > 1 and all(len(part) > 1 for part in parts) and len({part[0] for part in parts}) == 1:
        parts = [part[1:] for part in parts]
    return [".".join(part) for part in parts] if len(names) > 1 else list(names)
