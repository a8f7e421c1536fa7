"""Which cases of a sweep does `pytest` run, which only `pytest -m slow`, as CI does, and which are one test together?"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from traceback import format_exception
from typing import Any

import pytest


def thinned(cases: Iterable[Any], *, every: int) -> list[Any]:
    """All cases for `pytest.mark.parametrize`: each `every`-th, from the first, as it is, the others marked `slow`."""
    return [case if at % every == 0 else marked(case) for at, case in enumerate(cases)]


def marked(case: Any) -> Any:
    """A case, of one value or of several, for `pytest -m slow`."""
    return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow)


def each(names: str, cases: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A test that looks at every one of many small cases and names all that are wrong.

    As tests of their own they are collected by every process and reported one by one, which takes ten times what they look at.
    """
    every, keys = list(cases), [name.strip() for name in names.split(",")]

    def gathered(test: Callable[..., None]) -> Callable[..., None]:
        def whole(**fixtures: Any) -> None:
            assert every
            wrong: list[str] = []
            for case in every:
                values = case if len(keys) > 1 else (case,)
                try:
                    test(**dict(zip(keys, values, strict=True)), **fixtures)
                except (Exception, pytest.fail.Exception) as error:
                    # Whatever it is, it is told with its case, and the others are looked at.
                    wrong.append(f"{', '.join(map(str, values))}: {''.join(format_exception(error)[-2:])}")
            assert not wrong, f"{len(wrong)} of {len(every)}:\n" + "\n".join(wrong[:20])

        wraps(test)(whole)
        signature = inspect.signature(test)
        left = [one for name, one in signature.parameters.items() if name not in keys]
        whole.__signature__ = signature.replace(parameters=left)  # type: ignore[attr-defined]
        return whole

    return gathered
