"""Which cases of a wide sweep does `pytest` run, and which only `pytest -m slow`, as CI does?"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest


def thinned(cases: Iterable[Any], *, every: int) -> list[Any]:
    """All cases for `pytest.mark.parametrize`: each `every`-th, from the first, as it is, the others marked `slow`."""
    return [case if at % every == 0 else marked(case) for at, case in enumerate(cases)]


def marked(case: Any) -> Any:
    """A case, of one value or of several, for `pytest -m slow`."""
    return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow)
