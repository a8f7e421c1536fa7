"""Is an assertion read, never run; does unknown stay unknown; and are units held apart?"""

from __future__ import annotations

from contextlib import suppress
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuplan.errors import UsageError
from gpuplan.scenarios.expression import Assertion, Facts, Known

FACTS = Facts(
    flags={"fits": True, "narrowly": False},
    figures={
        "ttft_s": Known(0.25, 0.2, 0.5, "s"), "tokens_per_s": Known(5000.0, 4e3, 6e3, "1/s"), "mfu": Known(0.4, 0.3, 0.45, "1"),
        "headroom_bytes": Known(2.0**30, 0.0, 2.0**31, "B"), "cost_usd": Known(1000.0, 900.0, float("inf"), "USD"),
    },
    lacking={"energy_joules": "no power is on record"},
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("fits", True),
        ("not narrowly and fits", True),
        ("ttft_s < 300 ms", True),
        ("ttft_s.high < 300 ms", False),
        ("0.1 < ttft_s <= 0.25 s", True),
        ("headroom_bytes >= 1 GiB", True),
        ("headroom_bytes > 1.1GB and headroom_bytes > 1 GiB", False),
        ("mfu > 39 % and mfu < 41%", True),
        ("tokens_per_s > 4.9k", True),
        ("tokens_per_s >= 5000/s", True),
        ("cost_usd / 2 + 100 USD == 600", True),
        ("max(ttft_s, 1 s) == 1", True),
        ("abs(-ttft_s) * 4 == 1 s", True),
        ("ttft_s * tokens_per_s == 1250", True),
        ("ttft_s / ttft_s.low > 1.2", True),
        ("true and not false", True),
        ("energy_joules < 1", None),
        ("energy_joules < 1 and not fits", False),
        ("energy_joules < 1 or fits", True),
        ("not (energy_joules < 1)", None),
        ("ttft_s / (ttft_s - ttft_s) < 1", None),
        ("cost_usd.high < 1e9", None),
        ("1 < energy_joules < 0.5 and fits", None),
    ],
)
def test_what_holds(text: str, holds: bool | None) -> None:
    outcome = Assertion.of(text).judged(FACTS)
    assert outcome.holds is holds
    assert bool(outcome.unknown) == (holds is None)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "an assertion is wanted"),
        ("ttft_s", "this is a number, not true or false"),
        ("fits < 3", "`fits` is true or false, not a number"),
        ("ttft_s and fits", "`ttft_s` is a number, not true or false"),
        ("fits && ttft_s < 1", "write `and`, `or` and `not`"),
        ("ttft_s = 1", "write `==` for equal"),
        ("ttft_s < 1,000", "write numbers without commas"),
        ("headroom_bytes < 80 gb", "write GB or GiB"),
        ("__import__('os')", "the language has no call"),
        ("().__class__ == 1", "the language has no attribute"),
        ("ttft_s.__class__ == 1", "the ends of a figure are `.low` and `.high`"),
        ("_0 < 1", "is no figure"),
        ("2 ** 999999 > 1", "the language has no binop"),
        ("(lambda: 1) == 1", "the language has no lambda"),
        ("[1] == 1", "the language has no list"),
        ("ttft_s in (1, 2)", "the language has no compare"),
        ("'a' < 'b'", "the language has no constant"),
        ("1e999 > ttft_s", "a number is too large"),
        ("min() < 1", "`min` of 0 numbers"),
        ("fits.low", "the ends of a figure"),
        ("(" * 60 + "fits" + ")" * 60 + " and" * 1, "is no assertion"),
        ("not " * 60 + "fits", "nested too deeply"),
        ("fits and " * 400 + "fits", "2,000 at most"),
    ],
)
def test_what_is_no_assertion(text: str, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        Assertion.of(text, "here:3")
    assert said in str(caught.value)
    assert str(caught.value).startswith("here:3: ")


def test_names_and_units_that_are_wrong() -> None:
    with pytest.raises(UsageError, match="did you mean `ttft_s`"):
        Assertion.of("ttfts < 1").judged(FACTS)
    with pytest.raises(UsageError, match="what is in s is set against what is in B"):
        Assertion.of("ttft_s < 80 GiB").judged(FACTS)
    with pytest.raises(UsageError, match="set against"):
        Assertion.of("ttft_s + cost_usd < 1").judged(FACTS)
    with pytest.raises(UsageError, match="no answer has a figure"):
        Assertion.of("fits or ttfts < 1").judged(FACTS)  # never overlooked because the rest decides


def test_the_three_truths_are_kleenes() -> None:
    said = {True: "fits", False: "narrowly", None: "energy_joules < 1"}
    for a, b in product(said, repeat=2):
        both, either = (Assertion.of(f"{said[a]} {word} {said[b]}").judged(FACTS).holds for word in ("and", "or"))
        assert both is (False if False in (a, b) else None if None in (a, b) else True)
        assert either is (True if True in (a, b) else None if None in (a, b) else False)


@given(st.text(max_size=60) | st.text("fits andorttft_s.<>=()0123456789 %*/-,'[]", max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(UsageError):
        Assertion.of(text).judged(FACTS)
