"""Text with a unit to a number in base units, and back: the only place that knows 1e12 and 2**30.

Base units inside gpuplan: B, FLOP, s, B/s, FLOP/s, USD, USD/s, USD/J, W, J, Hz, 1/s, FLOP/B, kg, kg/J and
the plain count 1.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

from gpuplan.record import Record

SI = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50}
SMALL = {"": 1.0, "m": 1e-3, "u": 1e-6, "µ": 1e-6, "n": 1e-9}
HOUR = 3600.0
DAY = 24 * HOUR
YEAR = 365.25 * DAY
MONTH = YEAR / 12


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
    units |= {"d": (DAY, "s"), "week": (7 * DAY, "s"), "weeks": (7 * DAY, "s")}
    units |= {"kWh": (3.6e6, "J"), "MWh": (3.6e9, "J"), "USD": (1.0, "USD")}
    for name, factor in {"g": 1e-3, "kg": 1.0, "t": 1e3}.items():
        units |= {name: (factor, "kg"), f"{name}/kWh": (factor / 3.6e6, "kg/J")}
    for name, seconds in {"s": 1.0, "min": 60.0, "h": HOUR, "day": DAY}.items():
        units[f"/{name}"] = units[f"1/{name}"] = (1 / seconds, "1/s")
    units |= {"FLOP/B": (1.0, "FLOP/B"), "USD/s": (1.0, "USD/s"), "USD/h": (1 / HOUR, "USD/s"), "USD/kWh": (1 / 3.6e6, "USD/J")}
    return units


UNITS = _table()
WINDOWS: Mapping[str, tuple[float, float]] = {
    "1": (1e-30, 1e30), "B": (1e-6, 1e24), "B/s": (1e-6, 1e21), "FLOP": (1e-6, 1e36), "FLOP/s": (1e-6, 1e27), "s": (1e-18, 1e15),
    "W": (1e-9, 1e18), "J": (1e-18, 1e30), "Hz": (1e-9, 1e18), "USD": (1e-18, 1e18), "USD/s": (1e-18, 1e12), "1/s": (1e-18, 1e24),
    "FLOP/B": (1e-9, 1e12), "USD/J": (1e-18, 1e6), "kg": (1e-18, 1e18), "kg/J": (1e-18, 1e3),
}  # fmt: skip
"""The smallest amount above zero and the largest that a text may give, in base units: far beyond what can be meant, and close
enough that no figure made of several of them leaves the range of a float."""
WIDEST = (1e-30, 1e36)
"""The window of a number whose unit is not said."""

_QUANTITY = re.compile(r"\s*([+-]?\.?\d[\d_,.]*(?:[eE][+-]?\d+)?)\s*(1/\w+|[^\s\d].*?)?\s*", re.ASCII)
_PLAIN = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_GROUPED = re.compile(r"[+-]?\d{1,3}(?:(?:_\d{3})+|(?:,\d{3}){2,}|,\d{3}(?=\.\d))(?:\.\d+)?", re.ASCII)
_COUNT = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "B": 1e9, "G": 1e9, "T": 1e12, "P": 1e15}


class UnitError(ValueError):
    """A text that is not a number with a known unit; the message says what to write."""


class Quantity(Record):
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
    found = _QUANTITY.fullmatch(text)
    if not found:
        raise UnitError(f"`{brief(text)}` is not a number with a unit, such as `{example(unit)}`")
    amount, suffix = number(found[1]), found[2] or ""
    if not suffix and unit not in (None, "1"):
        raise UnitError(f"`{text}` has no unit: write for example `{text.strip()} {example(unit).split()[-1]}`")
    if suffix not in UNITS:
        raise UnitError(f"`{brief(suffix)}` in `{brief(text)}` is not a unit gpuplan knows{_unit_hint(suffix)}")
    factor, base = UNITS[suffix]
    if unit is not None and base != unit:
        raise UnitError(f"`{text}` is in {base}, but {unit} is wanted, such as `{example(unit)}`")
    return Quantity(within(amount * factor, base, text), base, text)


def number(text: str) -> float:
    """The number that digits mean, which every option and every file write alike.

    The point is decimal. A comma parts thousands only where it can mean nothing else: in groups of three of which there are
    several, or before a point. `1_000` and `1e3` may be written too.

    >>> number("3.5"), number("1,000,000"), number("1,234.5"), number("4_096"), number("1e3")
    (3.5, 1000000.0, 1234.5, 4096.0, 1000.0)
    >>> number("3,5")
    Traceback (most recent call last):
    gpuplan.units.UnitError: `3,5`: a comma is no decimal point: write `3.5`

    Raises:
        UnitError: no number, or one that could mean two.
    """
    bare = text.strip()
    if _GROUPED.fullmatch(bare):
        bare = bare.replace(",", "").replace("_", "")
    if _PLAIN.fullmatch(bare):
        value = float(bare)
        if value == 0 and re.search("[1-9]", re.split("[eE]", bare)[0]):
            raise UnitError(f"`{brief(text)}` is out of range: it is too small a number")
        if not math.isfinite(value):
            raise UnitError(f"`{brief(text)}` is out of range: it is too large a number")
        return value
    raise UnitError(f"`{brief(text)}`: {_instead(bare)}")


def is_number(text: str) -> bool:
    """Whether a text is a number without a unit, as `number` reads it."""
    try:
        number(text)
    except UnitError:
        return False
    return True


def _instead(text: str) -> str:
    """What to write instead of a number that is none, or that could mean two."""
    digits = text.lstrip("+-")
    if re.fullmatch(r"\d{1,3},\d{3}", digits):
        return (
            f"the comma could be a decimal point or part thousands: write `{text.replace(',', '.')}` or `{text.replace(',', '')}`"
        )
    if re.fullmatch(r"\d+,\d+", digits):
        return f"a comma is no decimal point: write `{text.replace(',', '.')}`"
    if re.fullmatch(r"\d{1,3}(\.\d{3})+,\d+", digits):
        return f"the point is decimal here: write `{text.replace('.', '').replace(',', '.')}`"
    if re.fullmatch(r"\d{1,3}(\.\d{3}){2,}", digits):
        return f"the point is decimal here: write `{text.replace('.', '')}`"
    if "," in digits or "_" in digits:
        return "groups of digits are of three: write `1000000` or `1_000_000`"
    return "that is no number, such as `3.5` or `1e9`"


def within(value: float, unit: str, text: object) -> float:
    """A value in base units that a text gave, which is in the window of its unit.

    Raises:
        UnitError: it is beyond.
    """
    low, high = WINDOWS.get(unit, WIDEST)
    if value and not low <= abs(value) <= high:
        limit = f"at most {high:g}" if abs(value) > high else f"at least {low:g}"
        raise UnitError(f"`{brief(text)}` is out of range: {limit}{'' if unit in ('', '1') else f' {unit}'} can be worked with")
    return value


def brief(text: object, most: int = 40) -> str:
    """A text as a message repeats it: shortened where it is long.

    >>> brief("9" * 400)
    '9999999999999999… (400 characters)'
    """
    whole = str(text)
    return whole if len(whole) <= most else f"{whole[:16]}… ({len(whole)} characters)"


def parse_count(text: str) -> float:
    """The count that a text such as `15T`, `4096` or `1.5e9` means (k, M, B or G, T, P).

    >>> parse_count("15T"), parse_count("4_096"), parse_count("2B")
    (15000000000000.0, 4096.0, 2000000000.0)

    Raises:
        UnitError: the text is no count.
    """
    found = _QUANTITY.fullmatch(text)
    if not found or (found[2] or "") not in _COUNT:
        meant = f"`{text.upper()}`" if found and (found[2] or "").upper() in _COUNT else "`4096`, `300B` or `15T`"
        raise UnitError(f"`{brief(text)}` is not a count, such as {meant}")
    return within(number(found[1]) * _COUNT[found[2] or ""], "1", text)


def example(unit: str | None) -> str:
    """A quantity in some base unit as one types it, such as `80 GiB` for `B`."""
    return {
        "B": "80 GiB", "B/s": "3.35 TB/s", "FLOP/s": "989.4 TFLOP/s", "FLOP": "1 TFLOP", "s": "5 s", "W": "700 W",
        "USD/s": "2.50 USD/h", "USD": "3 USD", "Hz": "1.83 GHz", "J": "1 kWh", "1/s": "100/s",
        "FLOP/B": "281 FLOP/B", "USD/J": "0.10 USD/kWh", "kg": "10 kg", "kg/J": "0.35 kg/kWh", "1": "80 %",
    }.get(unit or "B/s", f"1 {unit}")  # fmt: skip


def _unit_hint(suffix: str) -> str:
    wrong = {
        "flops": "FLOP/s (a rate) or FLOP (a count)", "gbps": "Gbit/s or GB/s", "tbps": "Tbit/s or TB/s",
        "g": "GB or GiB", "gig": "GB or GiB", "gb": "GB or GiB", "tb": "TB or TiB", "mb": "MB or MiB",
        "tops": "TOP/s", "tflops": "TFLOP/s", "pflops": "PFLOP/s", "gib": "GiB", "tb/s": "TB/s", "gb/s": "GB/s",
        "watt": "W", "watts": "W", "kilowatt": "kW", "kilowatts": "kW",
        "tokens/s": "100/s", "tok/s": "100/s", "token/s": "100/s", "samples/s": "100/s", "it/s": "100/s", "tps": "100/s",
    }.get(suffix.lower())  # fmt: skip
    return f": write {wrong}" if wrong else ""


_STEPS = {
    "B": [(2.0**50, "PiB"), (2.0**40, "TiB"), (2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B")],
    "s": [(1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns")],
}
_PREFIXED = {"B/s", "FLOP", "FLOP/s", "Hz", "W", "J"}


def so_many(count: float, noun: str, one: str = "", many: str = "") -> str:
    """A count with its noun, and what follows it for one and for many.

    >>> so_many(1, "probe"), so_many(0, "probe", " is", " are"), so_many(1200, "machine")
    ('1 probe', '0 probes are', '1,200 machines')
    """
    return f"{count:,.0f} {noun}{one}" if count == 1 else f"{count:,.0f} {noun}s{many}"


def human(value: float, unit: str, digits: int = 3, *, like: float | None = None) -> str:
    """A value in base units as a person reads it, with `digits` significant digits; in the unit of another value, `like`.

    >>> human(85899345920, "B"), human(3.35e12, "B/s"), human(0.00412, "s"), human(6.3e6, "s")
    ('80.0 GiB', '3.35 TB/s', '4.12 ms', '72.9 days')
    >>> human(70.6e9, "1"), human(0.4123, "1"), human(12, "1"), human(1234.5, "USD")
    ('70.6 B', '0.412', '12', '1,234 USD')
    >>> human(2.48e6, "J"), human(2.48e4, "J"), human(2.48e4, "J", like=3.64e6)
    ('0.689 kWh', '24.8 kJ', '0.00689 kWh')
    >>> human(0.35 / 3.6e6, "kg/J"), human(812.0, "kg"), human(0.1 / 3.6e6, "USD/J")
    ('0.350 kg/kWh', '812 kg', '0.10 USD/kWh')
    >>> human(0.9996, "s"), human(9.996, "s"), human(99.96 * 2**30, "B"), human(0.9996 * 2**30, "B", like=2**31)
    ('1.00 s', '10.0 s', '100 GiB', '1.00 GiB')
    """
    if not math.isfinite(value):
        return f"{value} {unit}".strip()
    base = value if like is None else like
    size = abs(base)
    if unit == "s" and size >= 120:
        step, name = next(p for p in ((2 * YEAR, "years"), (2 * DAY, "days"), (2 * HOUR, "h"), (60.0, "min")) if size >= p[0])
        return f"{_digits(value / {'years': YEAR, 'days': DAY, 'h': HOUR, 'min': 60.0}[name], digits)} {name}"
    if unit in _STEPS:
        smallest = _STEPS[unit][-1] if size or unit == "B" else _STEPS[unit][0]
        step, name = next((p for p in _STEPS[unit] if size >= p[0] * (1 - 0.5 * 10**-digits)), smallest)
        return f"{_digits(value / step, digits)} {name}"
    if unit == "USD/s":
        return f"{_money(value * HOUR)} USD/h"
    if unit == "USD":
        return f"{_money(value)} USD"
    if unit == "USD/J":
        return f"{_money(value * 3.6e6)} USD/kWh"
    if unit == "kg/J":
        return f"{_digits(value * 3.6e6, digits)} kg/kWh"
    if unit == "kg":
        step, name = next((p for p in ((1e3, "t"), (1.0, "kg")) if size >= p[0]), (1e-3, "g"))
        return f"{_digits(value / step, digits)} {name}"
    if unit == "J" and size >= 3.6e5:  # a tenth, below which nobody's meter counts
        return f"{_digits(value / 3.6e6, digits)} kWh"
    if unit in _PREFIXED:
        return f"{_scaled(value, digits, ['', 'k', 'M', 'G', 'T', 'P', 'E'], base)}{unit}"
    if unit == "1":
        if value == int(value) and size < 1e4:
            return f"{value:,.0f}"
        return _scaled(value, digits, ["", "", "M", "B", "T", "Q"], base).strip()
    return f"{_digits(value, digits)} {unit}"


def _scaled(value: float, digits: int, names: list[str], like: float) -> str:
    step = 0
    while step + 1 < len(names) and abs(like) / 1e3**step >= 999.5:
        step += 1
    if names[step] == "" and step:
        return f"{value:,.0f} "
    return f"{_digits(value / 1e3**step, digits)} {names[step]}"


def _digits(value: float, digits: int) -> str:
    if value == 0:
        return "0"
    size = abs(float(f"{value:.{digits - 1}e}"))
    if size >= 10 ** (digits - 1):
        return f"{value:,.0f}"
    if size < 1e-4:
        return f"{value:.{digits - 1}e}"
    return f"{value:.{digits - 1 - math.floor(math.log10(size) + 1e-9)}f}"


def _money(value: float) -> str:
    size = abs(value)
    return f"{value:,.0f}" if size >= 1000 else f"{value:,.2f}" if size >= 0.1 else f"{value:.3g}"
