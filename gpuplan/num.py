"""The numbers that formulas work on: a float, or a float64 array of candidates; nothing here asks which until it must.

Whether a number is a plain float is asked first, by its very type: an answer asks so a hundred thousand times, in half the time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias, TypeGuard

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Num: TypeAlias = float | NDArray[np.float64]
else:
    Num: TypeAlias = Any

Count: TypeAlias = Annotated[Num, "1"]
Ratio: TypeAlias = Annotated[Num, "1"]
Bytes: TypeAlias = Annotated[Num, "B"]
Flop: TypeAlias = Annotated[Num, "FLOP"]
Seconds: TypeAlias = Annotated[Num, "s"]
BytesPerS: TypeAlias = Annotated[Num, "B/s"]
FlopPerS: TypeAlias = Annotated[Num, "FLOP/s"]
FlopPerByte: TypeAlias = Annotated[Num, "FLOP/B"]
PerS: TypeAlias = Annotated[Num, "1/s"]
Usd: TypeAlias = Annotated[Num, "USD"]
UsdPerS: TypeAlias = Annotated[Num, "USD/s"]
UsdPerJoule: TypeAlias = Annotated[Num, "USD/J"]
Kilograms: TypeAlias = Annotated[Num, "kg"]
KgPerJoule: TypeAlias = Annotated[Num, "kg/J"]
Watts: TypeAlias = Annotated[Num, "W"]
Joules: TypeAlias = Annotated[Num, "J"]
Hertz: TypeAlias = Annotated[Num, "Hz"]


class Apart(Exception):
    """Candidates that cannot share their formulas: `kinds` has one value for each candidate, equal for those that can."""

    def __init__(self, kinds: Sequence[object]) -> None:
        super().__init__(f"{len(set(kinds))} kinds among {len(kinds)} candidates")
        self.kinds = kinds


def is_array(value: Num) -> TypeGuard[NDArray[np.float64]]:
    """Whether a value holds many candidates rather than one."""
    return not isinstance(value, (int, float))


@cache
def _numpy() -> Any:
    """numpy, once there is an array: asking the interpreter for it each time would take as long as adding up a small one."""
    import numpy

    return numpy


def maximum(a: Num, b: Num) -> Num:
    """The larger of two numbers, candidate by candidate.

    >>> maximum(2.0, 3.0)
    3.0
    """
    if type(a) is float is type(b) or (isinstance(a, (int, float)) and isinstance(b, (int, float))):
        return a if a >= b else b
    made: Num = _numpy().maximum(a, b)
    return made


def minimum(a: Num, b: Num) -> Num:
    """The smaller of two numbers, candidate by candidate.

    >>> minimum(2.0, 3.0)
    2.0
    """
    if type(a) is float is type(b) or (isinstance(a, (int, float)) and isinstance(b, (int, float))):
        return a if a <= b else b
    made: Num = _numpy().minimum(a, b)
    return made


def ceil(a: Num) -> Num:
    """The smallest whole number that is not below `a`.

    >>> ceil(2.1)
    3.0
    """
    if type(a) is float or isinstance(a, (int, float)):
        return float(math.ceil(a)) if math.isfinite(a) else a
    made: Num = _numpy().ceil(a)
    return made


def floor(a: Num) -> Num:
    """The largest whole number that is not above `a`.

    >>> floor(2.9)
    2.0
    """
    if type(a) is float or isinstance(a, (int, float)):
        return float(math.floor(a)) if math.isfinite(a) else a
    made: Num = _numpy().floor(a)
    return made


def ceil_div(a: Num, b: Num) -> Num:
    """How many pieces of size `b` cover `a`.

    >>> ceil_div(10.0, 4.0)
    3.0
    """
    return ceil(a / b)


def sqrt(a: Num) -> Num:
    """The square root.

    >>> sqrt(9.0)
    3.0
    """
    if type(a) is float or isinstance(a, (int, float)):
        return math.sqrt(a)
    made: Num = _numpy().sqrt(a)
    return made


def log2(a: Num) -> Num:
    """The logarithm to base 2.

    >>> log2(8.0)
    3.0
    """
    if type(a) is float or isinstance(a, (int, float)):
        return math.log2(a)
    made: Num = _numpy().log2(a)
    return made


def exp(a: Num) -> Num:
    """The exponential.

    >>> exp(1.0)
    2.718
    """
    if type(a) is float or isinstance(a, (int, float)):
        return math.exp(a)
    made: Num = _numpy().exp(a)
    return made


def where(condition: Any, yes: Num, no: Num) -> Num:
    """`yes` where the condition holds, otherwise `no`, candidate by candidate; both must be computable everywhere.

    >>> where(2.0 > 1.0, 5.0, 7.0)
    5.0
    """
    if type(condition) is bool or isinstance(condition, int):
        return yes if condition else no
    made: Num = _numpy().where(condition, yes, no)
    return made


def agreed(condition: Any) -> bool:
    """What a condition that formulas are chosen by says of the plan, or of every candidate of a list.

    >>> agreed(2.0 > 1.0)
    True

    Raises:
        Apart: it holds for some candidates only.
    """
    if type(condition) is bool or isinstance(condition, int):
        return bool(condition)
    kinds = [bool(one) for one in _numpy().ravel(condition)]
    if len(set(kinds)) > 1:
        raise Apart(kinds)
    return kinds[0]


def all_true(condition: Any) -> bool:
    """Whether a rule holds for the plan, or for every candidate of a grid.

    >>> all_true(True)
    True
    """
    return bool(condition) if type(condition) is bool or isinstance(condition, int) else bool(_numpy().all(condition))


def any_true(condition: Any) -> bool:
    """Whether a rule holds for the plan, or for any candidate of a grid.

    >>> any_true(False)
    False
    """
    return bool(condition) if type(condition) is bool or isinstance(condition, int) else bool(_numpy().any(condition))
