"""A promise of percentiles that are not told says which are."""

from __future__ import annotations

import pytest

from gpuplan.errors import UsageError
from gpuplan.planner.promise import Promise


@pytest.mark.parametrize(
    ("told", "hint"),
    [
        (("ttft_p90_s", "ttft_p99_s", "tokens_per_s"), "promise it of 90, 99 in a hundred"),
        (("ttft_s", "tokens_per_s", "highest_rate_per_s"), "leave --p out: it is kept in the mean"),
    ],
)
def test_which_percentiles_are_told(told: tuple[str, ...], hint: str) -> None:
    with pytest.raises(UsageError) as error:
        Promise(ttft=1.0, percent=95).told(dict.fromkeys(told))
    assert error.value.problems[0].hint == hint
