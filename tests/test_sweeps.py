"""Does one test of many cases look at all of them, and name those that are wrong?"""

from __future__ import annotations

import inspect

import pytest

from tests.sweeps import each


def test_every_case_is_looked_at_and_those_that_are_wrong_are_named() -> None:
    seen: list[int] = []

    def odd(number: int) -> None:
        seen.append(number)
        assert number % 2, "even"

    with pytest.raises(AssertionError, match=r"(?s)^2 of 4:\n2: .*even.*\n4: .*even") as told:
        each("number", [1, 2, 3, 4])(odd)()
    assert seen == [1, 2, 3, 4]
    assert "3:" not in str(told.value)
    each("number", [1, 3])(odd)()


def test_a_case_that_says_that_it_failed_is_one_of_the_wrong() -> None:
    def fails(number: int) -> None:
        if number == 2:
            pytest.fail("by hand")

    with pytest.raises(AssertionError, match=r"(?s)^1 of 3:\n2: .*by hand"):
        each("number", [1, 2, 3])(fails)()


def test_cases_of_several_values_stand_beside_fixtures() -> None:
    seen: list[tuple[int, str, str]] = []

    def both(number: int, fixture: str, text: str) -> None:
        seen.append((number, text, fixture))

    made = each("number, text", [(1, "a"), (2, "b")])(both)
    assert list(inspect.signature(made).parameters) == ["fixture"]
    made(fixture="f")
    assert seen == [(1, "a", "f"), (2, "b", "f")]


def test_no_case_at_all_is_wrong() -> None:
    with pytest.raises(AssertionError):
        each("number", [])(lambda number: None)()
