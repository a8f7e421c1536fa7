"""How do accelerators compare side by side: datasheet, dollars and watts, for a terminal, a page and programs?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gpuplan.browse.per_dollar_and_watt import ValueFigures, best
from gpuplan.render.compare import side_by_side_text
from gpuplan.render.markdown import grid
from gpuplan.render.spec import chips_table
from gpuplan.render.spoken import lines, one_line
from gpuplan.render.text import Look, wrap
from gpuplan.specs.accelerator import RATE_NAMES, Accelerator
from gpuplan.units import human

UNKNOWN = "unknown"
NONE = "–"
"""What the datasheet has no rate for."""
_PRICES = {
    "price_per_half_usd_per_pflop_per_s_h": "USD for a bf16 PFLOP/s·h",
    "price_per_eight_bit_usd_per_pflop_per_s_h": "USD for an fp8 PFLOP/s·h",
    "price_per_memory_usd_per_gib_h": "USD for a GiB·h",
    "price_per_bandwidth_usd_per_tb_per_s_h": "USD for a TB/s·h",
}
_POWER = {
    "half_flop_per_joule": ("bf16 for a watt", "FLOP/s"), "eight_bit_flop_per_joule": ("fp8 for a watt", "FLOP/s"),
    "memory_bytes_per_watt": ("memory for a watt", "B"), "bandwidth_bytes_per_joule": ("bandwidth for a watt", "B/s"),
}  # fmt: skip
_UNIT = "figures are for one"
_OF, _READ = "  of", "  read"
"""Whose price it is, and as of when: too wide for a column on a terminal, where a line below says it."""
BEST = " ◂"
"""Marks the best of a row."""
_NOTE = (
    "rates are dense; bf16 is fp16 where there is no bf16, fp8 is int8 where there is no fp8; "
    "prices are the cheapest current on-demand rate of one accelerator on record, a reference and no offer"
)
_KEY = f"{BEST.strip()} best of the row; {_NOTE}"


def accelerators_text(specs: Sequence[Accelerator], worths: Sequence[ValueFigures], look: Look) -> str:
    """Everything under the names of the accelerators, in as many blocks as the width needs."""
    told = [
        (head, cells) for head, cells in _rows(specs, worths) if head not in (_OF, _READ) and (head != _UNIT or len({*cells}) > 1)
    ]
    rows = [(head, [_padded(cell) for cell in cells]) for head, cells in told]
    names = [_padded(spec.id) for spec in specs]
    rents = [f"{spec.id} {one.rent.instance}, {one.rent.date}" for spec, one in zip(specs, worths, strict=True) if one.rent]
    texts = [_KEY, *([f"prices are of {'; '.join(rents)}"] if rents else [])]
    notes = "\n".join(look.dim(line) for text in texts for line in wrap(text, look.width, "  "))
    return f"{side_by_side_text(names, rows, look)}\n{notes}\n"


def _padded(cell: str) -> str:
    """A cell with room for the mark of the best, so that numbers stand below each other."""
    return cell if cell.endswith(BEST) else f"{cell}{' ' * len(BEST)}"


def accelerators_plain(specs: Sequence[Accelerator], worths: Sequence[ValueFigures]) -> str:
    """The same as `label: value` lines for a screen reader, one after the other, without the rates that it does not have."""
    rows = list(_rows(specs, worths))
    said = []
    for at, spec in enumerate(specs):
        said.append(f"accelerator {at + 1}: {spec.id}")
        for head, row in rows:
            cell = f"{row[at].removesuffix(BEST)}, best of all" if row[at].endswith(BEST) else row[at]
            if cell not in ("", NONE):
                said.append(f"{spec.id}, {'price ' if head.startswith(' ') else ''}{head.strip()}: {cell}")
    return lines([*said, f"note: {_NOTE}"])


def accelerators_brief(specs: Sequence[Accelerator], worths: Sequence[ValueFigures]) -> str:
    """Memory, bandwidth, rate and price of each in one line."""
    rows = dict(_rows(specs, worths))
    told = [(head.partition(",")[0], rows[head]) for head in _BRIEFLY if head in rows]
    facts = [", ".join(f"{head} {row[at]}" for head, row in told if row[at] != NONE) for at in range(len(specs))]
    first, *rest = [f"{spec.id}: {text}" for spec, text in zip(specs, facts, strict=True)]
    return one_line(first, rest)


_BRIEFLY = ("memory", "bandwidth", "bf16, dense", "fp8, dense", "power limit", "price")
"""What one line tells of each."""


def accelerators_markdown(specs: Sequence[Accelerator], worths: Sequence[ValueFigures]) -> str:
    """The same as a Markdown table."""
    rows = [[head, *cells] for head, cells in _rows(specs, worths)]
    return f"{grid(['', *(spec.id for spec in specs)], rows, 'l' + 'r' * len(specs))}\n\n{_KEY}\n"


def _rows(specs: Sequence[Accelerator], worths: Sequence[ValueFigures]) -> Iterator[tuple[str, list[str]]]:
    yield "made by", [spec.vendor for spec in specs]
    yield _UNIT, [spec.unit for spec in specs]
    yield "since", [spec.released for spec in specs]
    for head, cells in chips_table(specs):
        blank = NONE if head.partition(",")[0] in (*RATE_NAMES, "scale-up", "PCIe") or head == "scale-up domain" else UNKNOWN
        yield head, [cell or blank for cell in cells]
    yield "ridge point, bf16", [_shown(one.figures["half_ridge_flop_per_byte"], "FLOP/B", NONE) for one in worths]
    rents = [one.rent for one in worths]
    yield "price", [human(rent.usd_per_s, "USD/s") if rent is not None else UNKNOWN for rent in rents]
    if any(rent is not None for rent in rents):
        yield _OF, [rent.instance if rent is not None else "" for rent in rents]
        yield _READ, [rent.date if rent is not None else "" for rent in rents]
        for key, head in _PRICES.items():
            yield head, list(_cheapest([one.figures[key] for one in worths], worths))
    for key, (head, unit) in _POWER.items():
        values = [one.figures[key] for one in worths]
        marked = best(values, least=False)
        without = [NONE if spec.power is not None else UNKNOWN for spec in specs]
        yield head, [f"{_shown(v, unit, no)}{_mark(at == marked)}" for at, (v, no) in enumerate(zip(values, without, strict=True))]


def _cheapest(values: Sequence[float | None], worths: Sequence[ValueFigures]) -> Iterator[str]:
    """Prices as texts, the cheapest marked; what has no rate is told from what has no price."""
    marked = best(values, least=True)
    for at, (value, one) in enumerate(zip(values, worths, strict=True)):
        if value is None:
            yield f"{NONE if one.rent is not None else UNKNOWN}"
        else:
            yield f"{human(value, 'USD').removesuffix(' USD') if value >= 0.1 else f'{value:.3g}'}{_mark(at == marked)}"


def _mark(wins: bool) -> str:
    return BEST if wins else ""


def _shown(value: float | None, unit: str, without: str) -> str:
    return without if value is None else f"{value:,.0f} {unit}" if unit == "FLOP/B" else human(value, unit)


def accelerators_records(specs: Sequence[Accelerator], worths: Sequence[ValueFigures]) -> list[Mapping[str, object]]:
    """Plain data for JSON and CSV; unknown is null."""
    from gpuplan.render.spec import accelerator_record

    made: list[Mapping[str, object]] = []
    for spec, one in zip(specs, worths, strict=True):
        rent = one.rent
        where = {"price_instance": rent.instance, "price_region": rent.region, "price_date": rent.date} if rent is not None else {}
        blank: dict[str, object] = dict.fromkeys(("price_instance", "price_region", "price_date"))
        made.append({**accelerator_record(spec), "unit": spec.unit, **one.figures, **(blank | where)})
    return made
