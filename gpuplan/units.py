"""Text with a unit to a number in base units, and back: the only place that knows 1e12 and 2**30.

Base units inside gpuplan: B, FLOP, s, B/s, FLOP/s, USD, USD/s, W, J, Hz, 1/s, FLOP/B and the plain count 1.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

SI = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50}
SMALL = {"": 1.0, "m": 1e-3, "u": 1e-6, "µ": 1e-6, "n": 1e-9}
HOUR = 3600.0
DAY = 24 * HOUR
YEAR = 365.25 * DAY


def _table() -> dict[str, tuple[float, str]]:
    units: dict[str, tuple[float, str]] = {"1": (1.0, "1"), "": (1.0, "1"), "%": (0.01, "1")}
    for prefix, factor in (SI | BINARY).items():
        units[f"{prefix}B"] = (factor, "B")
        units[f"{prefix}B/s"] = (factor, "B/s")
    for prefix, factor in SI.items():
        units[f"{prefix}FLOP"] = (factor, "FLOP")
        units[f"{prefix}OP"] = (factor, "FLOP")
        units[f"{prefix}FLOP/s"] = (factor, "FLOP/s")
        units[f"{prefix}OP/s"] = (factor, "FLOP/s")
        units[f"{prefix}Hz"] = (factor, "Hz")
        units[f"{prefix}W"] = (factor, "W")
        units[f"{prefix}J"] = (factor, "J")
        units[f"{prefix}bit/s"] = (factor / 8, "B/s")
    for prefix, factor in SMALL.items():
        units[f"{prefix}s"] = (factor, "s")
    units |= {"min": (60.0, "s"), "h": (HOUR, "s"), "day": (DAY, "s"), "days": (DAY, "s"), "year": (YEAR, "s")}
    units |= {"kWh": (3.6e6, "J"), "MWh": (3.6e9, "J"), "USD": (1.0, "USD")}
    for name, seconds in {"s": 1.0, "min": 60.0, "h": HOUR, "day": DAY}.items():
        units[f"/{name}"] = units[f"1/{name}"] = (1 / seconds, "1/s")
    units |= {"FLOP/B": (1.0, "FLOP/B"), "USD/s": (1.0, "USD/s"), "USD/h": (1 / HOUR, "USD/s"), "USD/kWh": (1 / 3.6e6, "USD/J")}
    return units


UNITS = _table()
_QUANTITY = re.compile(r"^\s*([+-]?\d[\d_,]*(?:\.\d+)?(?:[eE][+-]?\d+)?)\s*(1/\w+|[^\s\d].*?)?\s*$")
_COUNT = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "B": 1e9, "G": 1e9, "T": 1e12, "P": 1e15}


class UnitError(ValueError):
    """A text that is not a number with a known unit; the message says what to write."""


@dataclass(frozen=True, slots=True)
class Quantity:
    """A number in base units, its base unit, and the text that it came from."""

    value: float
    unit: str
    text: str


def parse(text: str, unit: str | None = None) -> Quantity:
    """The quantity that a text such as `3.35 TB/s` means, in base units.

    `unit` is the base unit that is wanted; another kind of unit is an error.

    >>> parse("3.35 TB/s")
    Quantity(value=3350000000000.0, unit='B/s', text='3.35 TB/s')
    >>> parse("80 GiB").value, parse("80 GB").value
    (85899345920.0, 80000000000.0)
    >>> parse("400 Gbit/s", "B/s").value
    50000000000.0

    Raises:
        UnitError: no number, no unit, an unknown unit, or a unit of another kind.
    """
    found = _QUANTITY.match(text)
    if not found:
        raise UnitError(f"`{text}` is not a number with a unit, such as `{example(unit)}`")
    number, suffix = float(found[1].replace(",", "").replace("_", "")), found[2] or ""
    if not suffix and unit not in (None, "1"):
        raise UnitError(f"`{text}` has no unit: write for example `{text.strip()} {example(unit).split()[-1]}`")
    if suffix not in UNITS:
        raise UnitError(f"`{suffix}` in `{text}` is not a unit gpuplan knows{_unit_hint(suffix)}")
    factor, base = UNITS[suffix]
    if unit is not None and base != unit:
        raise UnitError(f"`{text}` is in {base}, but {unit} is wanted, such as `{example(unit)}`")
    return Quantity(number * factor, base, text)


def parse_count(text: str) -> float:
    """The count that a text such as `15T`, `4096` or `1.5e9` means (k, M, B or G, T, P).

    >>> parse_count("15T"), parse_count("4_096"), parse_count("2B")
    (15000000000000.0, 4096.0, 2000000000.0)

    Raises:
        UnitError: the text is no count.
    """
    found = _QUANTITY.match(text)
    if not found or (found[2] or "") not in _COUNT:
        raise UnitError(f"`{text}` is not a count, such as `4096`, `300B` or `15T`")
    return float(found[1].replace(",", "").replace("_", "")) * _COUNT[found[2] or ""]


def example(unit: str | None) -> str:
    """A quantity in some base unit as one types it, such as `80 GiB` for `B`."""
    return {
        "B": "80 GiB", "B/s": "3.35 TB/s", "FLOP/s": "989.4 TFLOP/s", "FLOP": "1 TFLOP", "s": "5 us", "W": "700 W",
        "USD/s": "2.50 USD/h", "USD": "3 USD", "Hz": "1.83 GHz", "J": "1 kWh", "1/s": "100/s",
        "FLOP/B": "281 FLOP/B", "USD/J": "0.10 USD/kWh", "1": "80 %",
    }.get(unit or "B/s", f"1 {unit}")  # fmt: skip


def _unit_hint(suffix: str) -> str:
    wrong = {
        "flops": "FLOP/s (a rate) or FLOP (a count)", "gbps": "Gbit/s or GB/s", "tbps": "Tbit/s or TB/s",
        "g": "GB or GiB", "gig": "GB or GiB", "gb": "GB or GiB", "tb": "TB or TiB", "mb": "MB or MiB",
        "tops": "TOP/s", "tflops": "TFLOP/s", "pflops": "PFLOP/s", "gib": "GiB", "tb/s": "TB/s", "gb/s": "GB/s",
        "tokens/s": "100/s", "tok/s": "100/s", "token/s": "100/s", "samples/s": "100/s", "it/s": "100/s", "tps": "100/s",
    }.get(suffix.lower())  # fmt: skip
    return f": write {wrong}" if wrong else ""


_STEPS = {
    "B": [(2.0**50, "PiB"), (2.0**40, "TiB"), (2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B")],
    "s": [(1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")],
}
_PREFIXED = {"B/s", "FLOP", "FLOP/s", "Hz", "W", "J"}


def human(value: float, unit: str, digits: int = 3) -> str:
    """A value in base units as a person reads it, with `digits` significant digits.

    >>> human(85899345920, "B"), human(3.35e12, "B/s"), human(0.00412, "s"), human(6.3e6, "s")
    ('80.0 GiB', '3.35 TB/s', '4.12 ms', '72.9 days')
    >>> human(70.6e9, "1"), human(0.4123, "1"), human(12, "1"), human(1234.5, "USD")
    ('70.6 B', '0.412', '12', '1,234 USD')
    """
    if not math.isfinite(value):
        return f"{value} {unit}".strip()
    size = abs(value)
    if unit == "s" and size >= 120:
        step, name = next(p for p in ((2 * YEAR, "years"), (2 * DAY, "days"), (2 * HOUR, "h"), (60.0, "min")) if size >= p[0])
        return f"{_digits(value / {'years': YEAR, 'days': DAY, 'h': HOUR, 'min': 60.0}[name], digits)} {name}"
    if unit in _STEPS:
        smallest = _STEPS[unit][-1] if size or unit == "B" else _STEPS[unit][0]
        step, name = next((p for p in _STEPS[unit] if size >= p[0] * 0.99995), smallest)
        return f"{_digits(value / step, digits)} {name}"
    if unit == "USD/s":
        return f"{_money(value * HOUR)} USD/h"
    if unit == "USD":
        return f"{_money(value)} USD"
    if unit == "J" and size >= 3.6e6:
        return f"{_digits(value / 3.6e6, digits)} kWh"
    if unit in _PREFIXED:
        return f"{_scaled(value, digits, ['', 'k', 'M', 'G', 'T', 'P', 'E'])}{unit}"
    if unit == "1":
        if value == int(value) and size < 1e4:
            return f"{value:,.0f}"
        return _scaled(value, digits, ["", "", "M", "B", "T", "Q"]).strip()
    return f"{_digits(value, digits)} {unit}"


def _scaled(value: float, digits: int, names: list[str]) -> str:
    step = 0
    while step + 1 < len(names) and abs(value) / 1e3**step >= 999.5:
        step += 1
    if names[step] == "" and step:
        return f"{value:,.0f} "
    return f"{_digits(value / 1e3**step, digits)} {names[step]}"


def _digits(value: float, digits: int) -> str:
    if value == 0:
        return "0"
    size = abs(value)
    if size >= 10 ** (digits - 1):
        return f"{value:,.0f}"
    if size < 1e-4:
        return f"{value:.{digits - 1}e}"
    places = digits - 1
    while size < 1:
        size *= 10
        places += 1
    while size >= 9.9995:
        size /= 10
        places -= 1
    return f"{value:.{max(places, 0)}f}"


def _money(value: float) -> str:
    size = abs(value)
    return f"{value:,.0f}" if size >= 1000 else f"{value:,.2f}" if size >= 0.1 else f"{value:.3g}"
