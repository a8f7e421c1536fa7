"""Which value does a data file print, in which unit, and which source says so? The field types of the spec schemas."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Annotated, Any, TypeAlias

from gpuplan import physics
from gpuplan.record import Record
from gpuplan.schema import Fault, commas
from gpuplan.units import UnitError, brief, is_number, parse, within

_KEYS = ("value", "source", "note", "accept")


class Sourced(Record):
    """A value in base units as a data file gives it.

    `text` is the value as printed; `source` the key in the file's `sources` ("": not on record); `accept` the
    (low, high) in base units inside which credible sources differ.
    """

    value: float
    unit: str
    text: str
    source: str = ""
    note: str = ""
    accept: tuple[float, float] | None = None

    def printed(self) -> Any:
        """The value as a data file would write it: plain text, or a mapping when it has a source, a note or a range."""
        extra: dict[str, Any] = {key: text for key, text in (("source", self.source), ("note", self.note)) if text}
        if self.accept is not None:
            extra["accept"] = list(self.accept)
        return {"value": self.text, **extra} if extra else self.text


class SourcedText(Record):
    """A word or sentence as a data file gives it, with the key of its source ("": not on record)."""

    text: str
    source: str = ""
    note: str = ""

    def printed(self) -> Any:
        """The text as a data file would write it."""
        extra = {key: text for key, text in (("source", self.source), ("note", self.note)) if text}
        return {"value": self.text, **extra} if extra else self.text


class Measure(Record):
    """Makes a key of `Annotated[Sourced, Measure("B/s")]`: text with a unit of that kind, or a mapping.

    Accepted are `3.35 TB/s` and `{value: 3.35 TB/s, source: key, note: …, accept: [3.35 TB/s, 3.36 TB/s]}`.
    Counts and ratios (unit `1`) may be bare numbers. `zero` allows 0; `whole` wants a whole number; `within` are the values that
    physics allows.
    """

    unit: str
    zero: bool = False
    whole: bool = False
    within: physics.Window | None = None

    def read(self, given: Any) -> Sourced:
        """The value that a file's entry means.

        >>> Measure("B/s").read("3.35 TB/s")
        Sourced(value=3350000000000.0, unit='B/s', text='3.35 TB/s', source='', note='', accept=None)
        >>> Measure("1").read({"value": 132, "source": "whitepaper"}).source
        'whitepaper'

        Raises:
            Fault: no unit, a unit of another kind, or a mapping with other keys.
        """
        if isinstance(given, Sourced):
            if given.unit != self.unit:
                raise Fault("spec.wrong-unit", f"`{given.text}` is in {given.unit}, but {self.unit} is wanted")
            return given
        if not isinstance(given, Mapping):
            return Sourced(self.number(given), self.unit, str(given))
        source, note = _extras(given)
        accept = given.get("accept")
        if accept is not None:
            if not isinstance(accept, (tuple, list)) or len(accept) != 2:
                raise Fault("spec.bad-accept", "`accept` is not a pair", "write `accept: [low, high]`, each with its unit")
            low, high = (self.number(end) for end in accept)
            if low > high:
                raise Fault("spec.bad-accept", f"`accept` runs from {accept[0]} down to {accept[1]}", "write the lower value first")
            accept = (low, high)
        return Sourced(self.number(given["value"]), self.unit, str(given["value"]), source, note, accept)

    def number(self, given: Any) -> float:
        """The number in base units of one text, or of a bare count where the unit is `1`."""
        if isinstance(given, bool) or not isinstance(given, (str, int, float)):
            raise Fault("spec.bad-quantity", f"`{given}` is not a value with a unit", f"write it as {self.example()}")
        if not isinstance(given, str):
            if self.unit != "1":
                raise Fault("spec.missing-unit", f"`{given}` has no unit", f"write it as {self.example(given)}")
            value = self._plain(given)
        else:
            value = self._parsed(given)
        if not math.isfinite(value) or value < 0 or (value == 0 and not self.zero):
            bound = "zero or above" if self.zero else "above zero"
            raise Fault("spec.out-of-range", f"`{given}` is not {bound}", "leave the key out where the value is not known")
        if self.whole and value != int(value):
            raise Fault("spec.not-whole", f"`{given}` is not a whole number")
        if self.within is not None and not self.within.holds(value):
            raise Fault("spec.physics", f"`{given}` is no {self.within.says}", "is it in percent, or in another unit?")
        return value

    def _plain(self, given: int | float) -> float:
        try:
            return within(float(given), self.unit, given)
        except (UnitError, OverflowError):
            raise Fault("spec.out-of-range", f"`{brief(given)}` is beyond what can be meant") from None

    def _parsed(self, text: str) -> float:
        try:
            return parse(text, self.unit).value
        except UnitError as error:
            if is_number(text):
                raise Fault("spec.missing-unit", f"`{text}` has no unit", f"write it as {self.example(text.strip())}") from None
            try:
                found = parse(text)
            except UnitError:
                message, _, hint = str(error).partition(": write ")
                advice = f"write {hint}" if hint else (self.unit == "USD/s" and _paid(text)) or f"write it as {self.example()}"
                raise Fault("spec.bad-unit", message, advice) from None
            same = f"`{text.strip()}{'/h' if found.unit == 'USD' else '/s'}`" if f"{found.unit}/s" == self.unit else self.example()
            raise Fault("spec.wrong-unit", str(error).partition(", such as")[0], f"write it as {same}") from None

    def example(self, number: object = None) -> str:
        """What a value of this unit looks like, in backquotes."""
        figure, unit = _EXAMPLES.get(self.unit, ("1", self.unit))
        if number is not None and self.unit == "B":
            return f"`{number} GB` (1e9) or `{number} GiB` (2**30), whichever the source means"
        return f"`{number if number is not None else figure} {unit}`".replace(" `", "`")

    def json_schema(self) -> dict[str, Any]:
        """For the generated JSON Schema."""
        plain: dict[str, Any] = {"type": "string", "pattern": r"^\s*\d.*[A-Za-z]", "examples": [self.example().strip("`")]}
        if self.unit == "1":
            plain = {"type": ["number", "string"]}
        return _either(plain, {"accept": {"type": "array", "items": plain, "minItems": 2, "maxItems": 2}})


_PAID = re.compile(
    r"\s*(?:US)?(?P<sign>\$|USD|EUR|€|GBP|£)?\s*(?P<number>[\d.,]+)\s*(?P<after>\$|USD|EUR|€|GBP|£)?\s*(?:/|per|an?)\s*"
    r"(?P<each>gpu|accelerator|chip|card)?\s*(?:/|per|an?|-)?\s*"
    r"(?:(?:h|hrs?|hours?)|(?P<long>mo|mth|months?|monthly|days?|daily|y|yrs?|years?|yearly))\s*",
    re.I,
)
_HOURS = {"mo": 730, "mt": 730, "da": 24, "y": 8760, "yr": 8760, "ye": 8760}
"""Hours of longer spans by their first letters; clouds print a month as 730 h."""


def _paid(text: str) -> str | None:
    """What to write for a price as pages print it.

    >>> _paid("$23.92/hr"), _paid("$2.10 per GPU hour")
    ('write it as `23.92 USD/h`', 'write it as `2.10 USD/h`, with `per: accelerator` beside it')
    >>> _paid("$1,460/month")
    'write it as `2 USD/h`, of 730 h, with what the page prints in `note`'
    >>> _paid("2.10 EUR/h")
    'prices are in US dollars: write those, and the rate of exchange with its day in `note`'
    """
    found = _PAID.fullmatch(text)
    if found is None:
        return None
    if (found["sign"] or found["after"] or "$").upper() not in ("$", "USD"):
        hours = f" an hour, of {_hours(found)} h" if found["long"] else ""
        return f"prices are in US dollars: write those{hours}, and the rate of exchange with its day in `note`"
    if found["long"]:
        each = ", with `per: accelerator` beside it" if found["each"] else ""
        try:
            price = float(found["number"].replace(",", "")) / _hours(found)
        except ValueError:
            return None
        return f"write it as `{price:.5g} USD/h`, of {_hours(found)} h{each}, with what the page prints in `note`"
    return f"write it as `{found['number']} USD/h`" + (", with `per: accelerator` beside it" if found["each"] else "")


def _hours(found: re.Match[str]) -> int:
    """The hours of the span that a price is for."""
    return _HOURS[found["long"][:2].lower()]


class Words(Record):
    """Makes a key of `Annotated[SourcedText, Words()]`: text, or `{value: text, source: key, note: …}`."""

    def read(self, given: Any) -> SourcedText:
        """The text that a file's entry means.

        >>> Words().read({"value": "HBM3", "source": "whitepaper"})
        SourcedText(text='HBM3', source='whitepaper', note='')
        """
        if isinstance(given, SourcedText):
            return given
        source = note = ""
        if isinstance(given, Mapping):
            source, note = _extras(given, ("value", "source", "note"))
            given = given["value"]
        if not isinstance(given, str) or not given.strip():
            raise Fault("spec.wrong-type", f"`{given}` is not text", "write it in quotes")
        return SourcedText(given, source, note)

    def json_schema(self) -> dict[str, Any]:
        """For the generated JSON Schema."""
        return _either({"type": "string"}, {})


def _extras(given: Mapping[Any, Any], known: tuple[str, ...] = _KEYS) -> tuple[str, str]:
    odd = [str(key) for key in given if key not in known]
    if odd:
        raise Fault("spec.unknown-key", f"`{odd[0]}` is not a key of a value", commas(odd[0]) or f"known are {', '.join(known)}")
    if "value" not in given:
        raise Fault("spec.missing-key", "`value` is missing", "write `{value: …, source: …}`")
    texts = [given.get(key, "") for key in ("source", "note")]
    if not all(isinstance(text, str) for text in texts):
        raise Fault("spec.wrong-type", "`source` and `note` are text", "write them in quotes")
    return texts[0], texts[1]


def _either(plain: dict[str, Any], more: dict[str, Any]) -> dict[str, Any]:
    properties = {"value": plain, "source": {"type": "string"}, "note": {"type": "string"}, **more}
    return {"anyOf": [plain, {"type": "object", "properties": properties, "required": ["value"], "additionalProperties": False}]}


_EXAMPLES = {
    "B": ("80", "GiB"), "B/s": ("3.35", "TB/s"), "FLOP/s": ("989.4", "TFLOP/s"), "FLOP": ("1", "TFLOP"), "s": ("5", "us"),
    "W": ("700", "W"), "Hz": ("1.83", "GHz"), "USD": ("3", "USD"), "USD/s": ("2.50", "USD/h"),
    "USD/J": ("0.10", "USD/kWh"), "kg/J": ("0.35", "kg/kWh"), "J": ("1", "kWh"), "1": ("8", ""),
}  # fmt: skip

BytesField: TypeAlias = Annotated[Sourced, Measure("B")]
BytesPerSField: TypeAlias = Annotated[Sourced, Measure("B/s")]
FlopPerSField: TypeAlias = Annotated[Sourced, Measure("FLOP/s")]
HertzField: TypeAlias = Annotated[Sourced, Measure("Hz")]
WattsField: TypeAlias = Annotated[Sourced, Measure("W")]
SecondsField: TypeAlias = Annotated[Sourced, Measure("s", zero=True)]
UsdField: TypeAlias = Annotated[Sourced, Measure("USD", zero=True)]
UsdPerSField: TypeAlias = Annotated[Sourced, Measure("USD/s", zero=True)]
UsdPerJouleField: TypeAlias = Annotated[Sourced, Measure("USD/J", zero=True)]
KgPerJouleField: TypeAlias = Annotated[Sourced, Measure("kg/J", zero=True)]
PueField: TypeAlias = Annotated[Sourced, Measure("1", within=physics.PUE)]
RatioField: TypeAlias = Annotated[Sourced, Measure("1", zero=True)]
ShareField: TypeAlias = Annotated[Sourced, Measure("1", zero=True, within=physics.SHARE)]
PartField: TypeAlias = Annotated[Sourced, Measure("1", zero=True, within=physics.PART)]
FactorField: TypeAlias = Annotated[Sourced, Measure("1", within=physics.RESIDUAL)]
LatencyField: TypeAlias = Annotated[Sourced, Measure("s", zero=True, within=physics.LATENCY)]
OverField: TypeAlias = Annotated[Sourced, Measure("1", within=physics.OVER)]
CountField: TypeAlias = Annotated[Sourced, Measure("1", whole=True)]
TextField: TypeAlias = Annotated[SourcedText, Words()]
