"""Which formulas does a piece of code call, and what does it say when one of them gives another result?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from gpuplan.formulas import every_formula
from gpuplan.term import Formula


@contextmanager
def _replaced(make: Callable[[Formula[...], Any], Any], names: set[str]) -> Iterator[None]:
    """The formulas of these names with other functions; terms that exist already see them when they are worked out anew."""
    before = {name: every_formula()[name].fn for name in names}
    try:
        for name, fn in before.items():
            made = every_formula()[name]
            object.__setattr__(made, "fn", wraps(fn)(make(made, fn)))
        yield
    finally:
        for name, fn in before.items():
            object.__setattr__(every_formula()[name], "fn", fn)


@contextmanager
def recorded() -> Iterator[set[str]]:
    """The names of formulas that are called, by code or inside other formulas."""
    called: set[str] = set()

    def noting(made: Formula[...], fn: Any) -> Any:
        def noted(*args: Any, **values: Any) -> Any:
            called.add(made.name)
            return fn(*args, **values)

        return noted

    with _replaced(noting, set(every_formula())):
        yield called


@contextmanager
def doubled(name: str) -> Iterator[None]:
    """One formula that gives twice what it should."""

    def twice(_: Formula[...], fn: Any) -> Any:
        return lambda *args, **values: 2.0 * fn(*args, **values)

    with _replaced(twice, {name}):
        yield
