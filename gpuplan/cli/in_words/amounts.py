"""Which amounts does a question in plain words say (users, rates, tokens, times, money, types), as values of options?"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

NUMBER = r"\d[\d,]*(?:\.\d+)?"
_SHORT = {"thousand": "k", "million": "M", "billion": "B", "trillion": "T", "k": "k", "m": "M", "b": "B", "t": "T", "": ""}
_LARGE = r"(?:thousand|million|billion|trillion|[kmbt])"
_UNITS = {
    "second": "s",
    "sec": "s",
    "s": "s",
    "minute": "min",
    "min": "min",
    "hour": "h",
    "hr": "h",
    "h": "h",
    "day": "d",
    "d": "d",
}
_TIME = r"(?:ms|milliseconds?|s|secs?|seconds?)"
_RATES = r"(?:requests?|reqs?|queries|prompts|calls|rps|qps|embeddings|documents|passages|chunks)"
_LENGTH = r"(?:[ -]?(?:len(?:gth)?|window|size))?"
_PARALLEL = r"(?:concurrent|simultaneous|parallel)"
_ANSWERS = r"(?:outputs?|answers?|responses?|completions?)"
_SEQUENCE = r"(?:context|ctx|seq(?:uence)?s?)"
_STORED = r"(?:q[2-8](?:_(?:k(?:_(?:s|m|l|xl))?|[01]))?|iq[1-4]_[a-z]+|(?:nv|mx)fp4|fp8|bf16|fp16|fp32|int[48]|[48][- ]?bits?)"
_KV = r"(?:q8_0|q5_1|q5_0|q4_1|q4_0|iq4_nl|q8|q4|bf16|fp16|fp8|nvfp4|int8|[48][- ]?bits?)"
_RAM = r"(?:(?:system|host|cpu|main) (?:ram|memory)|(?:sys)?ram\b|l?p?ddr[345]x?(?:[- ]\d+)?(?: ram)?)"
_USERS = r"(?:users?|people|persons|customers|employees|developers|devs|clients|engineers|students|colleagues)"

_ROW = r"sample|example|row|conversation|record|dialogue|instruction"
_WORDS = {"one": "1", "a single": "1", "two": "2", "three": "3", "four": "4", "five": "5"}


class Pattern(NamedTuple):
    """A manner of saying an amount: the option that it is of, how it is said, and how its parts read as the option's value."""

    key: str
    said: re.Pattern[str]
    value: Callable[..., str]


def number(digits: str, large: str = "") -> str:
    """A number as options take it.

    >>> number("1,000"), number("2", "trillion"), number("1.5", "k")
    ('1000', '2T', '1.5k')
    """
    return digits.replace(",", "") + _SHORT[large or ""]


def _span(digits: str, unit: str) -> str:
    """A time as options take it: days up to months, which are of 30.

    >>> _span("2", "weeks"), _span("a", "month"), _span("12", "hours")
    ('14d', '30d', '12h')
    """
    count = "1" if digits in ("a", "one", "an") else digits
    kind = unit.rstrip("s")
    if kind in ("week", "month"):
        return f"{int(count) * {'week': 7, 'month': 30}[kind]}d"
    return count + _UNITS[kind]


def _latency(digits: str, unit: str) -> str:
    return f"{digits}{'ms' if unit.startswith('m') else 's'}"


def _rate(digits: str, unit: str | None) -> str:
    return f"{number(digits)}/{_UNITS[unit.removesuffix('s') or 's'] if unit else 's'}"


def _times(said: str) -> str:
    return _WORDS.get(said) or number(said)


def _gigabytes(digits: str) -> str:
    return f"{number(digits)}GB"


def _bits(digits: str) -> str:
    return f"int{digits}"


def _paced(digits: str) -> str:
    """The time of a token that a rate of tokens of one user leaves."""
    return f"{1000 / float(number(digits)):.3g}ms"


def _bits_each(form: str | None, bits: str) -> str:
    """Weights of ExLlama by their bits each, as options take them."""
    return f"exl3-{bits}bpw" if form == "exl3" else f"exl2-{float(bits):.1f}"


def _cached(kind: str) -> str:
    """A type of a cache as options take it: llama.cpp's `q8` is q8_0, and its only one of 4 bits that is no other's q4_0.

    >>> _cached("q8"), _cached("8-bit"), _cached("4 bits"), _cached("fp8")
    ('q8_0', 'int8', 'q4_0', 'fp8')
    """
    if "bit" in kind:
        return "int8" if kind[0] == "8" else "q4_0"
    return f"{kind}_0" if kind in ("q8", "q4") else kind


def _compared(*kinds: str) -> str:
    """Two types of weights that are compared, as an option takes them."""
    return ",".join(dict.fromkeys(amounts(f" {kind} ").given["weights"] for kind in kinds))


def _pattern(key: str, said: str, value: Callable[..., str]) -> Pattern:
    return Pattern(key, re.compile(said), value)


PATTERNS: tuple[Pattern, ...] = (
    _pattern("p", r"\bp ?(9\d(?:\.\d+)?|[5-8]\d)\b", str),
    _pattern("p", r"\b(9\d(?:\.\d+)?|[5-8]\d)(?:th)? percentile\b", str),
    _pattern("epochs", rf"\b({NUMBER}|{'|'.join(_WORDS)})[- ]?epochs?\b", _times),
    _pattern("context", rf"\b({NUMBER})\s*(k)?[- ]?tok(?:en)?s?\s*(?:each|per (?:{_ROW}))\b", number),
    _pattern("context", rf"(?<=samples )(?:of|with|at|,)\s*(?:about |around |some )?({NUMBER})\s*(k)?[- ]?tok(?:en)?s?\b", number),
    _pattern("context", rf"(?<=examples )(?:of|with|at|,)\s*(?:about |around |some )?({NUMBER})\s*(k)?[- ]?tok(?:en)?s?\b", number),
    _pattern("samples", rf"\b({NUMBER})\s*({_LARGE})?\s*(?:(?:training|instruction|chat)\s+)?(?:{_ROW})s\b", number),
    _pattern("budget", rf"\$\s*({NUMBER})\s*(k|m|thousand|million)?\b(?:\s*(?:usd|dollars))?", number),
    _pattern("budget", rf"\b({NUMBER})\s*(k|m|thousand|million)?\s*(?:usd|dollars|bucks)\b", number),
    _pattern("ttft", rf"(?<!ttft )(?<!tpot )(?<!itl )\b({NUMBER})\s*({_TIME})\s*ttft\b", _latency),
    _pattern("ttft", rf"\b(?:ttft|(?:time to )?(?:the )?first token)\D{{0,20}}?({NUMBER})\s*({_TIME})\b", _latency),
    _pattern("ttft", rf"\b({NUMBER})\s*({_TIME})\s*(?:ttft|(?:to|until|for) (?:the )?first token|first token)\b", _latency),
    _pattern("tpot", rf"\b(?:tpot|itl|inter-?token latency|each token|per token)\D{{0,15}}?({NUMBER})\s*({_TIME})\b", _latency),
    _pattern("tpot", rf"\b({NUMBER})\s*({_TIME})\s*(?:tpot|itl|(?:per|a|each|/)\s*token|between tokens|/\s*tok)\b", _latency),
    _pattern(
        "tpot",
        rf"\b({NUMBER})\s*tok(?:en)?s?\s*(?:/|per|an?)\s*s(?:ec(?:ond)?)?\s*(?:/|per|an?|for each|each)\s*{_USERS[:-1]}|user)\b",
        _paced,
    ),
    _pattern("rate", rf"\b({NUMBER})\s*{_RATES}\s*(?:per|/|an?|each|every)?\s*(seconds?|secs?|s|minutes?|min|hours?|h)?\b", _rate),
    _pattern(
        "concurrency",
        rf"\b({NUMBER})\s*{_PARALLEL}\s*(?:{_USERS}|requests?|sequences|streams|sessions)\b",
        number,
    ),
    _pattern("concurrency", rf"\bconcurrency\s*(?:of|=|:)?\s*({NUMBER})\b", number),
    _pattern("concurrency", rf"\b({NUMBER})\s*concurrency\b", number),
    _pattern("users", rf"\b({NUMBER})\s*(k|thousand|million)?\s*{_USERS}\b", number),
    _pattern("batch", rf"\bbatch(?:es)?(?:[ -]?size)?\s*(?:of|=|:)?\s*({NUMBER})\b", number),
    _pattern(
        "context",
        rf"\b({NUMBER})\s*(k|m|thousand|million)?(?:[- ]tokens?)?(?: of)?[- ]{_SEQUENCE}{_LENGTH}\b",
        number,
    ),
    _pattern(
        "context",
        rf"\b{_SEQUENCE}{_LENGTH}\s*(?:of|=|:)?\s*({NUMBER})\s*(k|m)?\b",
        number,
    ),
    _pattern("context", rf"\b(?:max[- _]model[- _]len|n_?ctx|num_ctx|ctx[- ]size)\s*(?:of|=|:)?\s*({NUMBER})\s*(k)?\b", number),
    _pattern("prompt", rf"\b({NUMBER})\s*(k)?(?:[- ]tokens?)?(?: of)?[- ](?:prompts?|inputs?)(?: tokens)?\b", number),
    _pattern("prompt", rf"\b(?:prompts?|inputs?)(?: of| length)?\s*({NUMBER})\s*(k)?(?:\s*tokens)?\b", number),
    _pattern(
        "output",
        rf"\b({NUMBER})\s*(k)?(?:[- ]tokens?)?(?: of)?[- ]{_ANSWERS}(?: tokens)?\b",
        number,
    ),
    _pattern("output", rf"\b{_ANSWERS}(?: of| length)?\s*({NUMBER})\s*(k)?(?:\s*tokens)?\b", number),
    _pattern("context", rf"\b(?:at|with)\s*({NUMBER})\s*(k)\b(?!\s*(?:users|tokens))", number),
    _pattern("tokens", rf"\b({NUMBER})\s*({_LARGE})?[- ]?tok(?:en)?s?\b(?!\s*(?:per|/|a|each)\s*(?:s|sec))(?!/)", number),
    _pattern(
        "host_memory",
        rf"\b({NUMBER})\s*(?:gi?b?)?\s*(?:of )?{_RAM}",
        _gigabytes,
    ),
    _pattern("deadline", r"\b(?:in|within|under|less than|at most|by)\s+(\d+|an?|one)\s*(hours?|days?|weeks?|months?)\b", _span),
    _pattern("lora", r"\b(?:rank\s*(?:of|=|:)?|r\s*=)\s*(\d+)\b", number),
    _pattern("kv_cache", rf"\b({_KV})[- ]kv(?:[- ]?cache)?\b", _cached),
    _pattern("kv_cache", rf"\bkv[- ]?cache (?:quanti[sz]ed |stored )?(?:in |at |of |to |as )?({_KV})\b", _cached),
    _pattern("weights", r"\b(?:(exl[23])[- ]?)?(\d(?:\.\d+)?) ?bpw\b", _bits_each),
    _pattern("weights", rf"\b({_STORED})\s*(?:vs\.?|versus|or|against)\s*({_STORED})\b", _compared),
    _pattern("weights", r"\b(q[2-8]_(?:k(?:_(?:s|m|l|xl))?|[01])|iq[1-4]_[a-z]+|ud-q\w+|(?:nv|mx)fp4|fp8|bf16|fp16|fp32)\b", str),
    _pattern("weights", r"\b(4|8)[- ]?bits?\b", _bits),
    _pattern("weights", r"\b(?:int(4|8)|(?<=\s)(?:awq|gptq))\b", lambda bits: _bits(bits or "4")),
    _pattern("weights", r"\bq([2-6])\b", lambda bits: f"q{bits}_k" if bits in ("2", "6") else f"q{bits}_k_m"),
    _pattern("weights", r"\b(q8)\b", lambda _: "q8_0"),
)
"""In the order in which they are tried: what is said first takes its words, and a later manner of the same option is not asked."""


class Amounts(NamedTuple):
    """The options that were said, and the text without the words that said them."""

    given: dict[str, str]
    text: str


def amounts(text: str) -> Amounts:
    """The amounts in a question in small letters.

    >>> amounts("serve it to 200 users with 500 ms to first token").given
    {'ttft': '500ms', 'users': '200'}
    >>> amounts("train on 1.5 trillion tokens within 2 weeks for $50k").given
    {'budget': '50k', 'tokens': '1.5T', 'deadline': '14d'}
    >>> amounts("how many tokens per second").given
    {}
    """
    given: dict[str, str] = {}
    for key, said, value in PATTERNS:
        if key not in given and (found := said.search(text)):
            given[key] = value(*found.groups())
            text = f"{text[: found.start()]} , {text[found.end() :]}"
    return Amounts(given, text)


def manners() -> Iterator[str]:
    """The options that can be said in plain words."""
    yield from dict.fromkeys(pattern.key for pattern in PATTERNS)
