"""One rule for numbers with and without units: what is read, what is refused, and what stands in between."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuplan.plan.ask import ASKS
from gpuplan.plan.option import entries
from gpuplan.units import UNITS, WINDOWS, UnitError, human, is_number, number, parse, parse_count


@given(st.floats(allow_nan=False, allow_infinity=False).filter(lambda value: value == 0 or abs(value) > 1e-300))
def test_what_python_prints_is_read_as_it_is(value: float) -> None:
    assert number(repr(value)) == value


@given(st.integers(-(10**15), 10**15))
def test_groups_of_thousands_are_read_where_they_mean_one_thing(value: int) -> None:
    for text in (f"{value:_}", f"{value:,}.0", *([f"{value:,}"] if abs(value) >= 10**6 else [])):
        assert number(text) == value
    if 1000 <= abs(value) < 10**6:
        with pytest.raises(UnitError, match="could be a decimal point or part thousands"):
            number(f"{value:,}")


@given(st.text(alphabet="0123456789.,_eE+- ", max_size=12))
def test_a_number_is_finite_or_refused(text: str) -> None:
    if is_number(text):
        assert math.isfinite(number(text))
    else:
        with pytest.raises(UnitError, match="`"):
            parse_count(text)


@given(st.integers(0, 9999), st.integers(0, 99))
def test_a_comma_before_decimals_is_refused_with_what_to_write(whole: int, part: int) -> None:
    with pytest.raises(UnitError, match=f"`{whole}.{part}`"):
        number(f"{whole},{part}")


@given(st.sampled_from(sorted(UNITS)), st.floats(1e-320, 1e308))
def test_every_quantity_that_is_read_is_in_its_window(unit: str, value: float) -> None:
    try:
        found = parse(f"{value!r} {unit}")
    except UnitError:
        return
    low, high = WINDOWS[found.unit]
    assert found.value == 0 or low <= found.value <= high
    assert "inf" not in human(found.value, found.unit)


def test_every_unit_has_a_window() -> None:
    assert {base for _, base in UNITS.values()} <= set(WINDOWS)


def test_every_option_that_takes_a_number_has_a_window_far_from_what_a_float_holds() -> None:
    seen = 0
    for ask in ASKS.values():
        for one in entries(ask).values():
            if one.kind in ("whole", "number"):
                low, high = one.window
                assert 0 <= low < high <= 1e24, one.flag
                seen += 1
    assert seen > 50
