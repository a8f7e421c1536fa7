"""Which question do texts and numbers ask? Each becomes what its option takes, and every wrong one is reported together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf, isfinite, isnan, nan, prod
from pathlib import Path
from typing import Any, TypeVar

from gpuplan.errors import GpuplanError, Note, Problem, UsageError, did_you_mean
from gpuplan.optimizers import OPTIMIZERS_ALSO_CALLED
from gpuplan.plan.ask import ASKS
from gpuplan.plan.ask_goal import GOALS
from gpuplan.plan.option import WHOLE, Entry, Option, by_key, entries
from gpuplan.plan.words import ALSO_CALLED, NEAREST
from gpuplan.record import Record
from gpuplan.units import HOUR, UnitError, brief, human, parse, parse_count, within
from gpuplan.units import number as number_of

Ask = TypeVar("Ask", bound=Record)
MOST_PIXELS = 65_535
"""Of a side: what the commonest formats of images can say."""
ENGINES_OWN = ("engine_args", "command")
"""The options whose texts are the words of an engine, and stand for other options."""


def question(kind: type[Ask], given: Mapping[str, Any]) -> Ask:
    """The question that options ask, by their names in Python; None stands for what is left out.

    A text means what it means on the command line; a number is in base units (seconds, bytes), or what the command line counts.

    Raises:
        UsageError: every name that no option has, and every value that is wrong.
    """
    known, heard = by_key(kind), dict[str, Any]()
    if any(given.get(name) is not None for name in ENGINES_OWN if name in known):
        from gpuplan.plan.launch.commanded import HIDDEN, commanded

        made = commanded(given)
        heard = {name: made.pop(name) for name in HIDDEN if name in made}
        given = made
    values: dict[str, Any] = {}
    problems = [_unknown(key, kind) for key in given if key not in known]
    for key, entry in known.items():
        typed = given.get(key)
        if typed is None or (key == "on" and not typed):
            continue
        try:
            values[entry.name] = read(entry, typed)
        except GpuplanError as error:
            problems += error.problems
    if "on" in known and known["on"].required and not given.get("on"):
        hint = "such as `--on h100`, `--on 8xh100` or `--on aws:p5.48xlarge`; `gpuplan specs list` shows them all"
        problems.insert(0, Problem("usage.missing", "--on is missing: what should it run on?", hint))
    if "model" in known and not given.get("model") and not any(problem.message.startswith("MODEL ") for problem in problems):
        hint = "a card, a Hugging Face id, an Ollama name or a checkpoint; `gpuplan models list` shows the cards"
        problems.insert(0, Problem("usage.missing", "MODEL is missing", hint))
    if problems:
        raise UsageError(*problems)
    if (nearly := _nearly(kind, given)) and "heard" in kind.field_names():
        heard["heard"] = (*heard.get("heard", ()), *nearly)
    return kind(**values, **heard)


def _nearly(kind: type[Any], given: Mapping[str, Any]) -> tuple[Note, ...]:
    """What is to be said of types of files that are taken as a type that they are near."""
    known, hint = by_key(kind), "its file says which bits each tensor has"
    return tuple(
        Note("weights.nearest", f"{known[key].flag} {text} is taken as `{meant}`", hint)
        for key, text in given.items()
        if key in known and isinstance(text, str) and (meant := NEAREST.get(text.lower())) in known[key].words
    )


def read(entry: Entry, given: Any) -> Any:
    """The value of an option, from the text that the command line takes or from a value in Python.

    >>> from gpuplan.plan.ask import TrainAsk
    >>> options = entries(TrainAsk)
    >>> read(options["seq_len"], "8k"), read(options["global_batch"], "4k"), read(options["tokens"], "15T")
    (8192, 4000, 15000000000000.0)
    >>> read(options["mtbf"], "2h"), read(options["overlap"], "dp, pp"), read(options["samples"], "1.28M*90")
    (7200.0, ('dp', 'pp'), 115200000.0)

    Raises:
        UsageError: it is of the wrong kind, in the wrong unit, too small, or no word that the option takes.
    """
    if entry.option.reads == "pins":
        return {name: value for name, value, _ in pins(given)}
    if entry.kind == "texts":
        return _folders(entry, given)
    if entry.kind == "switch":
        return _switch(entry, given)
    if entry.kind == "words":
        return _words(entry, given)
    if entry.kind in ("whole", "number"):
        return _number(entry, given)
    text = str(given) if isinstance(given, Path) else given
    if not isinstance(text, str):
        raise _wrong(entry, given, "a text is wanted")
    if not text.strip():
        raise _wrong(entry, given, "nothing is named")
    return _word(entry, text) if entry.kind == "word" else _text(entry, text)


def pins(given: Any) -> list[tuple[str, float, str]]:
    """The term, the value in base units and its base unit of every `TERM=VALUE`, or of a mapping of terms to values.

    Zero, and a number of Python, may stand without a unit, which is "" then.

    >>> pins(["hw.hbm_bandwidth=3 TB/s", "step.comm=0"])
    [('hw.hbm_bandwidth', 3000000000000.0, 'B/s'), ('step.comm', 0.0, '')]
    >>> pins({"hw.hbm_bandwidth": 3e12})
    [('hw.hbm_bandwidth', 3000000000000.0, '')]

    Raises:
        UsageError: no `=`, or a value that is no number with a known unit.
    """
    made: list[tuple[str, float, str]] = []
    problems: list[Problem] = []
    for name, value, text in _pairs(given):
        if not name or value == "" or isnan(_plain(value) if not isinstance(value, str) else 0.0):
            hint = "write for example `--set hw.hbm_bandwidth='3 TB/s'`"
            problems.append(Problem("usage.set", f"`--set {brief(text)}` is not TERM=VALUE", hint))
            continue
        if name in (one[0] for one in made):
            problems.append(Problem("usage.twice", f"--set {name} is given twice", "leave one of them out"))
        try:
            made.append((name, *_pinned(value)))
        except UnitError as error:
            problems.append(Problem("usage.set", f"--set {brief(name)}: {error}"))
    if problems:
        raise UsageError(*problems)
    return made


def echo(entry: Entry, value: Any) -> str:
    """A value of an option as an answer repeats it.

    >>> from gpuplan.plan.ask import TrainAsk
    >>> options = entries(TrainAsk)
    >>> echo(options["tokens"], 15e12), echo(options["overlap"], ()), echo(options["nvme_bandwidth"], 1.6e9)
    ('15.0 T', 'none', '1.60 GB/s')
    >>> from gpuplan.plan.ask_serving import ServeAsk
    >>> rate = entries(ServeAsk)["rate"]
    >>> echo(rate, 1e9), echo(rate, 2500.0), echo(rate, 0.598)
    ('1,000,000,000/s', '2,500/s', '0.598/s')
    """
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or "none"
    if entry.option.reads == "rate":
        # A billion a second would be read as bytes.
        return f"{value:,.0f}/s" if value >= 1000 else f"{human(value, '1')}/s"
    if entry.kind == "number" and (entry.option.unit or abs(value) >= 1000):
        return human(value, entry.option.unit or "1")
    return str(value) if entry.kind == "text" else str(value).lower().removesuffix(".0")


def said(ask: Record) -> dict[str, str]:
    """What the user said, in order and as text: every option but the terms that are pinned and the folders of specs."""
    return {
        name: echo(entry, value)
        for name, entry in entries(type(ask)).items()
        if entry.kind != "texts" and (value := getattr(ask, name)) is not None
    }


def count(name: str, given: Any, least: float = 1, most: float = WHOLE) -> int:
    """A whole number that is no option of a question.

    >>> count("depth", "3")
    3

    Raises:
        UsageError: no number, not whole, or too small.
    """
    return int(_number(Entry(name, Option("", least=least, most=most), "whole"), given))


def _folders(entry: Entry, given: Any) -> tuple[Path, ...]:
    every: list[Any] = [given] if isinstance(given, (str, Path)) else list(given) if isinstance(given, Iterable) else [None]
    if not all(isinstance(one, (str, Path)) for one in every):
        raise _wrong(entry, given, "a path, or a sequence of them, is wanted")
    return tuple(Path(one) for one in every)


def _unknown(key: str, kind: type[Record]) -> Problem:
    from gpuplan.plan.other_words import meant

    task = next((task for task, ask in {**ASKS, **GOALS}.items() if ask is kind), "")
    page = f"`gpuplan {task} --help` shows what there is" if task else "`gpuplan --help` shows what there is"
    hint = meant(key, by_key(kind), task) or did_you_mean(key, by_key(kind)) or page
    return Problem("usage.no-such-option", f"no option `{key}`", hint)


def _wrong(entry: Entry, given: Any, wanted: str, hint: str = "") -> UsageError:
    return UsageError(Problem("usage.value", f"{entry.flag} {brief(repr(given))}: {wanted}", hint))


def _switch(entry: Entry, given: Any) -> bool:
    if type(given).__name__ not in ("bool", "bool_"):
        raise _wrong(entry, given, "true or false is wanted")
    return bool(given)


def _words(entry: Entry, given: Any) -> tuple[str, ...]:
    """The words of a list such as `dp,pp`; `none` is an empty one."""
    if not isinstance(given, str) and not (isinstance(given, Iterable) and all(isinstance(one, str) for one in given)):
        raise _wrong(entry, given, "a text of words, or a sequence of them, is wanted")
    text = given if isinstance(given, str) else ",".join(given)
    words = tuple(text.replace(",", " ").split())
    if words == ("none",):
        return ()
    if "none" in words:
        raise UsageError(
            Problem("usage.word", f"{entry.flag} {text}: none, and something too", "write `none` alone, or leave it out")
        )
    words = tuple(_as_known(entry, word) for word in words)
    if any(word not in entry.words for word in words) or (not words and isinstance(given, str)):
        raise UsageError(Problem("usage.word", f"{entry.flag} {text}: no such choice", f"use {', '.join(entry.words)} or none"))
    return words


def _as_known(entry: Entry, word: str) -> str:
    """A word as the option has it: types are typed in either case (`Q4_K_M`), and by the names that files have for them."""
    folded = word.lower()
    if word in entry.words or folded in entry.words:
        return word if word in entry.words else folded
    for other in (folded.replace("_", "-"), OPTIMIZERS_ALSO_CALLED.get(folded.replace("-", "_")), ALSO_CALLED.get(folded)):
        if other in entry.words:
            return other
    other = NEAREST.get(folded, word)
    return other if other in entry.words else word


_FEW = 12
"""So many choices are all told where none of them was meant: what is nearest by its letters may be another thing."""


def _word(entry: Entry, text: str) -> str:
    word = text.replace("-", "_") if all("-" not in known for known in entry.words) else text
    word = _as_known(entry, word)
    if word not in entry.words:
        near, all_ = did_you_mean(text, entry.words), f"{', '.join(entry.words[:-1])} or {entry.words[-1]}"
        hint = f"{near} it takes {all_}" if near and len(entry.words) <= _FEW else near or f"use {all_}"
        raise UsageError(Problem("usage.word", f"{entry.flag} {text}: no such choice", hint))
    return word


def _text(entry: Entry, text: str) -> str:
    if entry.option.reads == "day":
        from gpuplan.specs.dates import checked_day

        return checked_day(entry.flag, text)
    return "x".join(map(str, pixels(text, entry.flag))) if entry.option.reads == "pixels" else text


def pixels(text: str, flag: str) -> tuple[int, int]:
    """Width and height of an image.

    >>> pixels("1024x768", "--image-size"), pixels("640 X 480", "--image-size")
    ((1024, 768), (640, 480))

    Raises:
        UsageError: it is no two whole numbers of pixels, or one that no image has.
    """
    found = [one.strip() for one in text.lower().replace("×", "x").split("x")]
    if len(found) != 2 or not all(one.isascii() and one.isdigit() for one in found):
        hint = "write width x height, such as `--image-size 1024x768`"
        raise UsageError(Problem("usage.pixels", f"{flag} {brief(text)}: the pixels of two sides are wanted", hint))
    if any(len(one) > len(str(MOST_PIXELS)) or not 1 <= int(one) <= MOST_PIXELS for one in found):
        raise UsageError(Problem("usage.pixels", f"{flag} {brief(text)}: a side has 1 to {MOST_PIXELS:,} pixels"))
    width, height = map(int, found)
    return width, height


def _number(entry: Entry, given: Any) -> float | int:
    """A number that is large enough, and whole where it must be; what numbers mean on the command line, or in base units."""
    whole = entry.kind == "whole"
    if isinstance(given, str):
        number = _typed(entry, given)
    else:
        number = _plain(given) / (HOUR if entry.option.reads == "price" else 1.0)
        if isnan(number):
            raise _wrong(entry, given, "a number is wanted")
    low, high = entry.window
    if number > high:
        raise UsageError(
            Problem(
                "usage.window", f"{entry.flag} {brief(given)}: {_end(entry, high)} at most", _large_hint(entry, given, number, high)
            )
        )
    if whole and (not isfinite(number) or number != int(number) or number < low):
        raise UsageError(Problem("usage.count", f"{entry.flag} {brief(given)}: a whole number of at least {low:g} is wanted"))
    if number <= 0 if entry.option.least is None else number < low:
        raise UsageError(Problem("usage.count", f"{entry.flag} {brief(given)}: {_wanted(entry)}", _small_hint(entry)))
    if number < low:
        raise UsageError(Problem("usage.window", f"{entry.flag} {brief(given)}: {_end(entry, low)} at least"))
    return int(number) if whole else number


def _end(entry: Entry, end: float) -> str:
    """One end of what an option takes, as its user would write it."""
    if entry.option.reads == "price":
        return f"{end * HOUR:g} USD/h"
    unit = "" if entry.option.unit == "1" else entry.option.unit
    return f"{end:,.0f} {unit}".strip() if 1 <= end <= 1e9 else f"{end:g} {unit}".strip()


def _plain(given: Any) -> float:
    """A number of Python or numpy; what is none is no number."""
    try:
        return nan if type(given).__name__ in ("bool", "bool_") or isinstance(given, str) else float(given)
    except OverflowError:
        return inf
    except (TypeError, ValueError):
        return nan


def _wanted(entry: Entry) -> str:
    option = entry.option
    if option.reads == "price":
        return "a price is above zero"
    kind = {"s": "a time", "B": "a quantity", "B/s": "a rate"}.get(option.unit, "a number")
    least = (
        "above zero" if option.least is None else f"of at least {_end(entry, option.least)}" if option.least else "of zero or more"
    )
    return option.too_small or f"{kind} {least} is wanted"


def _large_hint(entry: Entry, given: Any, number: float, high: float) -> str:
    """What a number above the most means where it is a share that was said in percent without saying so."""
    if entry.option.unit not in ("", "1") or entry.kind == "whole" or high != 1.0 or not 1 < number <= 100:
        return ""
    return f"a share is written `{number / 100:g}` or `{number:g}%`"


def _small_hint(entry: Entry) -> str:
    return "leave --price out where it is not known" if entry.option.reads == "price" else ""


def _typed(entry: Entry, text: str) -> float:
    """The number that a text means in base units."""
    option = entry.option
    try:
        if option.reads == "price":
            return _price(text)
        if option.reads == "product":
            return _product(text)
        if option.reads == "count":
            return parse_count(text.strip().removesuffix(option.unit).strip())
        if option.reads == "capacity":
            return _capacity(text)
        if option.reads == "rate":
            return _rate(text)
        if option.unit:
            return _of_kwh(text) if option.unit == "USD/J" else parse(text, option.unit).value
        if option.length and text.strip()[-1:] in ("k", "K"):
            return number_of(text.strip()[:-1]) * 1024
        return parse_count(text)
    except UnitError as error:
        hint = f"write it with its unit, such as `{entry.flag} {entry.example}`" if option.unit and option.reads == "" else ""
        hint = "write USD an hour, such as `--price 2.50`" if option.reads == "price" else hint
        raise UsageError(Problem("usage.quantity", f"{entry.flag}: {error}", hint)) from None


def _price(text: str) -> float:
    """USD a second from `2.50` (USD an hour) or a text with its unit."""
    try:
        return parse_count(text) / HOUR
    except UnitError:
        return parse(text, "USD/s").value


def _of_kwh(text: str) -> float:
    """USD a joule from `0.12` (USD a kWh, as bills have it) or a text with its unit."""
    try:
        return parse(f"{parse_count(text):.17g} USD/kWh", "USD/J").value
    except UnitError:
        return parse(text, "USD/J").value


def _capacity(text: str) -> float:
    """Bytes of a memory as it is sold: its GB are GiB, as vendors mean them, and a plain number is as many."""
    plain = text.strip().upper().removesuffix("B").removesuffix("I")
    size, unit = (plain[:-1], plain[-1:]) if plain[-1:] in ("M", "G", "T") else (plain, "G")
    return parse_count(size) * {"M": 2.0**20, "G": 2.0**30, "T": 2.0**40}[unit]


def _rate(text: str) -> float:
    """How many a second, from a plain number or a text with its unit, such as `300/min`."""
    try:
        return parse_count(text)
    except UnitError:
        if text.strip()[-1:].isdigit():
            raise  # a plain number, with something else the matter than its unit
        return parse(text, "1/s").value


def _product(text: str) -> float:
    """A number of samples, or images by epochs."""
    texts = text.replace("x", "*").replace("×", "*").split("*")
    if not all(one.strip() for one in texts):
        raise UnitError(f"`{brief(text)}` is not a count, nor several multiplied, such as `1.28M*90`")
    factors = [parse_count(factor) for factor in texts]
    return prod(factors) if min(factors) > 0 else 0.0


def _pinned(given: Any) -> tuple[float, str]:
    """The value in base units that a text or a number gives a term, and its base unit; errors as `parse`."""
    if not isinstance(given, str):
        value, unit = within(_plain(given), "", given), ""
    else:
        try:
            found = parse(given)
            value, unit = found.value, "" if found.value == 0 and found.unit == "1" else found.unit
        except UnitError as error:
            try:
                value, unit = parse_count(given), "1"
            except UnitError:
                raise error from None
    return value, unit


def _pairs(given: Any) -> Iterable[tuple[str, Any, str]]:
    """Name, value and the whole as text of what is pinned."""
    if isinstance(given, Mapping):
        return [(str(name).strip(), value, f"{name}={value}") for name, value in given.items()]
    made = []
    for text in [given] if isinstance(given, str) or not isinstance(given, Iterable) else given:
        name, equals, value = (part.strip() for part in str(text).partition("="))
        made.append((name if equals else "", value, str(text)))
    return made
