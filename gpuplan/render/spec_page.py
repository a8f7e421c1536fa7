"""What does a spec file say, as a page: every value in its group with the number of its source, and the sources below?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from gpuplan.browse.related import Related
from gpuplan.record import Record
from gpuplan.render.compare import side_by_side_text
from gpuplan.render.place import place_of
from gpuplan.render.spec import source_text
from gpuplan.render.text import Look, columns, wrap
from gpuplan.schema import Schema, default_of, required
from gpuplan.specs.base import Section, SpecFile
from gpuplan.specs.quantity import Sourced, SourcedText
from gpuplan.term import NOT_ON_RECORD
from gpuplan.units import human

_TITLES = {
    "": "General", "compute_dense": "Dense peak rates", "other_rates": "Other rates (no estimate uses them unasked)",
    "units": "Compute units, from which the peaks can be recounted", "scale_up": "Links between accelerators, one way",
    "pcie": "PCIe", "mig": "Multi-instance profiles (MIG)", "fabric": "Fabric, innermost level first, one way for one accelerator",
    "scale_out": "Network cards", "slices": "Slices that can be rented", "list_price": "List price",
    "sparsity": "Sparsity (no estimate counts on it)",
}  # fmt: skip
_HIDDEN = {"format", "id", "name", "aliases", "driver_names", "sources", "notes"}
_PROSE = {"note", "notes", "commitments", "links", "layout", "peer to peer"}
"""Long words that stand below a table, not in it."""
_PLAINS = (str, int, bool)
_UNKNOWN = "[?]"
"""The mark of a value whose source is not on record."""
_MOST = 24
"""How many names a line of names shows."""


class _Page(Record, eq=False):
    """What the parts of a page share: the file, the numbers of its sources, the look."""

    spec: SpecFile
    numbers: Mapping[str, int]
    look: Look
    used: set[str]

    def mark(self, value: Any) -> str:
        """The number of a value's source in brackets; nothing for plain words."""
        if not isinstance(value, (Sourced, SourcedText)):
            return ""
        return self.number(value.source)

    def number(self, key: str) -> str:
        """The number of a source in brackets, `[?]` where none is on record."""
        self.used.add(key)
        return f"[{self.numbers[key]}]" if key else _UNKNOWN

    def other_mark(self, value: Any, usual: str | None) -> str:
        """The mark of a cell of a table: nothing where the source is that of the whole record."""
        mark = self.mark(value)
        return f" {mark}" if mark and value.source != usual else ""


def spec_page(spec: SpecFile, path: Path, more: Related, look: Look) -> str:
    """Everything that a spec file says and what other files say about it: groups of values, notes, and sources."""
    page = _Page(spec, {key: at for at, key in enumerate(spec.sources, 1)}, look, set())
    blocks = ["\n".join(_head(spec, look))]
    for key, fields in _groups(spec).items():
        lines = list(_group(page, fields, key))
        if lines:
            blocks.append("\n".join([look.bold(_TITLES.get(key) or _words(key).capitalize()), *lines]))
    blocks += _related(more, look)
    if spec.notes:
        blocks.append(
            "\n".join([look.bold("Notes"), *(line for note in spec.notes for line in wrap(note, look.width, "  - ", "    "))])
        )
    blocks.append("\n".join(_sources(page)))
    blocks.append("\n".join(wrap(f"from {place_of(path)}", look.width, "  ", "    ")))
    return "\n\n".join(blocks) + "\n"  # fmt: skip


def _head(spec: SpecFile, look: Look) -> list[str]:
    lines = wrap(f"{spec.id}  {spec.name}", look.width, "", "  ")
    lines[0] = lines[0].replace(spec.id, look.bold(spec.id), 1)
    aliases = list(spec.aliases)
    if aliases:
        more = f" and {len(aliases) - _MOST} more" if len(aliases) > _MOST else ""
        lines += wrap(f"{', '.join(aliases[:_MOST])}{more}", look.width, "  also called ", "    ")
    drivers = getattr(spec, "driver_names", ())
    if drivers:
        lines += wrap(", ".join(f"`{name}`" for name in drivers), look.width, "  drivers say ", "    ")
    facts = [
        f"{_words(key)} {_text(value)}"
        for key in spec.field_names()
        if key not in _HIDDEN and isinstance(value := getattr(spec, key), _PLAINS) and _stated(spec, key)
    ]
    return lines + (wrap(", ".join(facts), look.width, "  ", "    ") if facts else [])


def _stated(record: Schema, key: str) -> bool:
    """Whether a field says anything: it has no default, or is not at it."""
    value = getattr(record, key)
    return value not in (None, "", (), {}) and (required(type(record), key) or value != default_of(type(record), key))


def _groups(spec: SpecFile) -> dict[str, list[tuple[str, Any]]]:
    """The fields of a file by the heading under which they stand: those with parts by themselves, single values together."""
    made: dict[str, list[tuple[str, Any]]] = {}
    for key in spec.field_names():
        value = getattr(spec, key)
        if key in _HIDDEN or isinstance(value, _PLAINS) or not _stated(spec, key):
            continue
        single = isinstance(value, (Sourced, SourcedText)) or (isinstance(value, (tuple, Mapping)) and not _items(value))
        made.setdefault("" if single and not isinstance(value, Mapping) else key, []).append((key, value))
    return made


def _group(page: _Page, fields: Sequence[tuple[str, Any]], title: str) -> Iterator[str]:
    rows: list[tuple[str, Any]] = []
    for key, value in fields:
        items = _items(value)
        if items:
            yield from _table(page, items, "" if key == title else key)
        else:
            rows += _leaves(value, (key,) if not title else ())
            for inner, table in _inner_tables(value):
                rows = [row for row in rows if row[0] != inner]
                yield from _rows(page, rows)
                rows = []
                yield f"  {_words(inner)}"
                yield from _table(page, table, inner)
    yield from _rows(page, rows)


def _items(value: Any) -> list[tuple[str, Schema]]:
    """The named records of a list or mapping of records; nothing for anything else."""
    if isinstance(value, tuple) and value and all(isinstance(item, Schema) for item in value):
        return [(str(getattr(item, "name", "") or getattr(item, "instance", "") or at), item) for at, item in enumerate(value, 1)]
    if isinstance(value, Mapping) and value and all(isinstance(item, Schema) for item in value.values()):
        return [(str(key), item) for key, item in value.items()]
    return []


def _inner_tables(value: Any, at: tuple[str, ...] = ()) -> Iterator[tuple[str, list[tuple[str, Schema]]]]:
    """Lists of records inside a record, however deep, each with its name in words."""
    if isinstance(value, Schema):
        for key in value.field_names():
            inner = getattr(value, key)
            items = _items(inner)
            if items:
                yield _words(" ".join((*at, key))), items
            else:
                yield from _inner_tables(inner, (*at, key))


def _leaves(value: Any, at: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    """Every value below a field with its name in words; lists and mappings of records are left to tables."""
    if isinstance(value, Schema):
        for key in value.field_names():
            if key != "source" and _stated(value, key) and not _items(getattr(value, key)):
                yield from _leaves(getattr(value, key), (*at, key))
    elif isinstance(value, Mapping) and not _matrix(value):
        for key, item in value.items():
            yield from _leaves(item, (*at, str(key)))
    else:
        yield _words(" ".join(at)), value


def _long(value: Any) -> bool:
    """Whether plain words are too long for a column."""
    return not isinstance(value, (Sourced, SourcedText)) and len(_text(value)) > 34


def _matrix(value: Mapping[Any, Any]) -> bool:
    """Whether a mapping holds mappings of plain words, such as the links of each pair."""
    return bool(value) and all(
        isinstance(one, Mapping) and all(isinstance(x, _PLAINS) for x in one.values()) for one in value.values()
    )


def _rows(page: _Page, rows: Sequence[tuple[str, Any]]) -> Iterator[str]:
    """Names, values and sources below each other, each with its remark."""
    short = [(name, value) for name, value in rows if not _long(value)]
    side = "r" if all(isinstance(value, Sourced) for _, value in short) else "l"
    lines = _in_columns(page, short, side)
    while len(short) > 1 and any(len(line) > page.look.width for line in lines):
        short.remove(max(short, key=lambda row: len(_text(row[1]))))
        lines = _in_columns(page, short, side)
    left = max((len(line) for line in lines), default=0) + 2
    for line, (_, value) in zip(lines, short, strict=True):
        remark = _remark(value)
        if not remark:
            yield line
        elif left + len(remark) <= page.look.width:
            yield f"{line:<{left}}{page.look.dim(remark)}"
        else:
            yield line
            yield from (page.look.dim(more) for more in wrap(remark, page.look.width, "      "))
    for name, value in rows:
        if (name, value) not in short:
            yield from wrap(f"{name}: {_text(value)} {page.mark(value)}".rstrip(), page.look.width, "  ", "      ")


def _in_columns(page: _Page, rows: Sequence[tuple[str, Any]], side: str) -> list[str]:
    """Names, values and the marks of sources below each other, values on the left or right side of their column."""
    return columns([[name, _text(value), page.mark(value)] for name, value in rows], f"l{side}l")


def _remark(value: Any) -> str:
    """What a reader must know of a value: its note, the range of other sources, and large byte counts in words."""
    parts = []
    if isinstance(value, Sourced):
        if value.unit == "B" and value.text.endswith(" B") and value.value >= 2**20:
            parts.append(human(value.value, "B", 4))
        if value.accept is not None and value.accept[0] != value.accept[1]:
            low, high = (human(end, value.unit, 4) for end in value.accept)
            spread = f"sources from {low} to {high}"
            parts.append(spread if "FLOP" in value.text else spread.replace("FLOP/s", "OP/s"))
    note = getattr(value, "note", "")
    return "; ".join([*parts, note] if note else parts)


def _table(page: _Page, items: Sequence[tuple[str, Schema]], key: str) -> Iterator[str]:
    """Records with the same keys as a table, or each as a column where that is too wide; prose and inner lists below it."""
    cells: list[dict[str, tuple[str, bool]]] = []
    prose: list[str] = []
    inner: list[tuple[str, str, list[tuple[str, Schema]]]] = []
    for name, item in items:
        row: dict[str, tuple[str, bool]] = {}
        usual = _source_of_all(item)
        for head, value in _leaves(item, ()):
            if (head.rpartition(" ")[2] in _PROSE and isinstance(value, (str, tuple))) or _long(value):
                told = name if head.endswith(("note", "notes")) else f"{name}, {head}"
                prose.append(f"{told}: {_text(value)}")
            elif head not in ("name", "instance"):
                row[head] = (f"{_text(value)}{page.other_mark(value, usual)}", isinstance(value, (Sourced, int)))
                if _remark(value):
                    prose.append(f"{name}, {head}: {_remark(value)}")
        if usual is not None:
            row["source"] = (page.number(usual), False)
        cells.append(row)
        inner += [(name, key, found) for key, found in _inner_tables(item)]
    heads = list(dict.fromkeys(head for row in cells for head in row))
    same = {head: cells[0][head][0] for head in heads if len(cells) > 2 and len({row.get(head) for row in cells}) == 1}
    heads = [head for head in heads if head not in same]
    names = [name for name, _ in items]
    if same:
        yield from wrap(f"all: {', '.join(f'{head} {text}' for head, text in same.items())}", page.look.width, "  ", "    ")
    yield from _laid_out(names, heads, cells, page.look.width)
    for text in prose:
        yield from (page.look.dim(line) for line in wrap(text, page.look.width, "    ", "      "))
    for name, head, found in inner:
        yield f"  {name}: {head}"
        yield from _table(page, found, head)  # fmt: skip


def _source_of_all(item: Schema) -> str | None:
    """The source that a record names for its values, or that all of them name; None where they differ."""
    if isinstance(item, Section) and item.source:
        return item.source
    named = {value.source for _, value in _leaves(item, ()) if isinstance(value, (Sourced, SourcedText))}
    return named.pop() if len(named) == 1 else None


def _laid_out(
    names: Sequence[str], heads: Sequence[str], cells: Sequence[Mapping[str, tuple[str, bool]]], width: int
) -> Iterator[str]:
    """Records as a table; where that is too wide, few of them as columns, and many with what is usual said once.

    Many records whose figures alone are too wide have a paragraph each.
    """
    texts = [{head: cell[0] for head, cell in row.items()} for row in cells]
    figures = {head for head in heads if all(row[head][1] for row in cells if head in row)}
    lines = _lines(names, heads, texts, figures)
    if all(len(line) <= width for line in lines):
        yield from lines if heads else wrap(", ".join(names), width, "  ")
    elif len(names) <= _MANY:
        by_head = [(head, [row.get(head, "") for row in texts]) for head in heads]
        yield from side_by_side_text(names, by_head, Look(width)).rstrip("\n").splitlines()
    elif any(len(line) > width for line in _lines(names, [head for head in heads if head in figures], texts, figures)[1:]):
        for name, row in zip(names, texts, strict=True):
            said = ", ".join(f"{head} {row[head]}" for head in heads if head in row)
            yield from wrap(f"{name}: {said}" if said else name, width, "  ", "      ")
    else:
        usual = {head: _usual([row.get(head, "") for row in texts]) for head in heads if head not in figures}
        said = ", ".join(f"{head} {word}" for head, word in usual.items() if word)
        yield from wrap(f"where nothing else stands behind: {said}", width, "  ", "    ")
        odd = [
            ", ".join(
                row.get(head, f"no {head}") or f"no {head}"
                for head in heads
                if row.get(head, "") != usual.get(head, row.get(head, ""))
            )
            for row in texts
        ]
        kept = [head for head in heads if head not in usual]
        for line, rest in zip(_lines(names, kept, texts, figures)[1:], odd, strict=True):
            whole = f"{line}  {rest}".rstrip()
            yield from [whole] if len(whole) <= width else [line, *wrap(rest, width, "      ")]


_MANY = 12
"""More records than this are never laid out as columns."""


def _usual(words: Sequence[str]) -> str | None:
    """The word that at least a third of them are."""
    word = max(words, key=words.count)
    return word if words.count(word) * 3 >= len(words) else None


def _lines(names: Sequence[str], heads: Sequence[str], texts: Sequence[Mapping[str, str]], figures: set[str]) -> list[str]:
    rows = [[name, *(row.get(head, "") for head in heads)] for name, row in zip(names, texts, strict=True)]
    return columns([["", *heads], *rows], "l" + "".join("r" if head in figures else "l" for head in heads))


def _text(value: Any) -> str:
    """A value as the file prints it."""
    if isinstance(value, (Sourced, SourcedText)):
        return value.text
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        whole = all(isinstance(item, int) and not isinstance(item, bool) for item in value)
        return ("x" if whole and len(value) < 5 else ", ").join("unknown" if item is None else _text(item) for item in value)
    if isinstance(value, Mapping) and _matrix(value):
        # What stands for a pair stands for it the other way round, too, and is said once where it is the same.
        pairs = [
            (a, b, item) for a, row in value.items() for b, item in row.items() if not (value.get(b, {}).get(a) == item and b < a)
        ]
        return ", ".join(f"{a}-{b} {_text(item)}" for a, b, item in pairs)
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {_text(item)}" for key, item in value.items())
    return str(value)


def _words(key: str) -> str:
    return key.replace("_", " ").strip()


def _related(more: Related, look: Look) -> list[str]:
    blocks = []
    if more.measured is not None:
        rows = [[f"measured/{name}", how] for name, how in more.measured] or [["nothing is measured of it or its family", ""]]
        lines = columns(rows, "ll")
        if any(len(line) > look.width for line in lines):
            lines = [line for name, how in rows for line in wrap(f"{name}: {how}", look.width, "  ", "      ")]
        blocks.append("\n".join([look.bold("Measured kernels that apply, nearest first"), *lines]))
    lines = []
    for title, names in (("systems", more.systems), ("instances", more.instances)):
        if names:
            rest = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
            lines += wrap(f"{', '.join(names[:_MOST])}{rest}", look.width, f"  {title} ", "    ")
    if lines:
        blocks.append("\n".join([look.bold("Where it is"), *lines]))
    if more.prices or more.old:
        blocks.append("\n".join([look.bold("Prices"), *_price_lines(more, look)]))
    return blocks


def _price_lines(more: Related, look: Look) -> Iterator[str]:
    """Current offers with what they come to for one accelerator, their dates, and who says so."""
    sources = list(dict.fromkeys(one.source for one in more.prices))
    rows = [["instance", "price", "per", "for each", "terms", "region", "date", ""]] if more.prices else []
    for one in more.prices:
        entry = one.offer.entry
        amount = (
            entry.price.text
            if entry.price is not None
            else human(float(one.offer.price.value), "USD/s")
            if one.offer.price
            else "free"
        )
        each = human(one.each_usd_per_s, "USD/s") if one.each_usd_per_s is not None else ""
        where = f"[p{sources.index(one.source) + 1}]"
        place = f"{entry.region} +{one.other_regions}" if one.other_regions else entry.region
        rows.append([one.instance, amount, entry.per, each, entry.kind.replace("_", " "), place, one.offer.date, where])
    lines = columns(rows, "lrlrllll")
    if all(len(line) <= look.width for line in lines):
        yield from lines
    else:
        # Too wide: instances as headings, and what the price is for only where it is not for the instance.
        rows = [[row[0], f"{row[1]}{' an ' + row[2] if row[2] not in ('per', 'instance') else ''}", *row[3:]] for row in rows]
        rows = [["undated" if cell == "date unknown" else cell for cell in row] for row in rows]
        lines = columns([row[1:] for row in rows], "rrllll", indent="  ")
        if any(len(line) > look.width for line in lines):
            lines = columns([row[1:] for row in rows], "rrllll", indent="")
        last = ""
        for row, line in zip(rows, lines, strict=True):
            if row[0] not in (last, "instance"):
                yield f"  {row[0]}"
            last = row[0]
            yield line
    if any(one.other_regions for one in more.prices):
        provider = more.prices[0].offer.provider
        told = f"+3: in three more regions, which `gpuplan prices list {provider}:{more.prices[0].instance}` shows"
        yield from wrap(told, look.width, "  ")
    if more.old:
        yield from wrap(f"{more.old} more are historical, promotional or doubtful, and not used", look.width, "  ")
    for at, source in enumerate(sources, 1):
        yield from wrap(source_text(source), look.width, f"  [p{at}] ", "       ")
        if source.url:
            yield f"       {source.url}"


def _sources(page: _Page) -> Iterator[str]:
    """The sources with their numbers; those that no value names were read beside them."""
    size = len(str(len(page.numbers))) + 2
    for title, wanted in (("Sources", True), ("Also read, named by no value", False)):
        keys = [key for key in page.numbers if (key in page.used) == wanted]
        if keys:
            yield from [page.look.bold(title)] if wanted else ["", page.look.bold(title)]
        for key in keys:
            entry = page.spec.sources[key]
            mark = f"  {f'[{page.numbers[key]}]':>{size}} "
            yield from wrap(source_text(entry), page.look.width, mark)
            if entry.url:
                yield f"{' ' * len(mark)}{entry.url}"
    if "" in page.used:
        yield from wrap(source_text(NOT_ON_RECORD), page.look.width, f"  {_UNKNOWN:>{size}} ")
