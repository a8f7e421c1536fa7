"""Products and shares that need no source beyond arithmetic, one for each unit."""

from __future__ import annotations

from gpuplan.num import Bytes, Count, Flop, PerS, Ratio, Seconds, ceil_div, maximum, minimum, where
from gpuplan.term import DEFINITION, formula


@formula(DEFINITION)
def share(*, amount: Count, ways: Count) -> Count:
    """A count cut evenly.

    >>> share(amount=4096, ways=8)
    512.0
    """
    return amount / ways


@formula(DEFINITION)
def product(*, a: Count, b: Count) -> Count:
    """The product of two counts.

    >>> product(a=3, b=4)
    12
    """
    return a * b


@formula(DEFINITION)
def difference(*, whole: Count, part: Count) -> Count:
    """What is left of a count.

    >>> difference(whole=8, part=3)
    5
    """
    return whole - part


@formula(DEFINITION)
def smaller(*, a: Count, b: Count) -> Count:
    """The smaller of two counts.

    >>> smaller(a=8.0, b=3.0)
    3.0
    """
    return minimum(a, b)


@formula(DEFINITION)
def whole_pieces(*, amount: Count, piece: Count) -> Count:
    """Pieces that an amount fills, the last of them perhaps in part: groups of layers, pages of tokens, patches of pixels.

    >>> whole_pieces(amount=52, piece=10), whole_pieces(amount=100, piece=16)
    (6.0, 7.0)
    """
    return ceil_div(amount, piece)


@formula(DEFINITION)
def seconds_of_several(*, seconds: Seconds, count: Count) -> Seconds:
    """Time that only passes where there are several: stages of a pipeline, ranks that tell each other what they run.

    >>> seconds_of_several(seconds=2.0, count=1), seconds_of_several(seconds=2.0, count=4)
    (0.0, 2.0)
    """
    return where(count > 1, seconds, 0.0 * seconds)


@formula(DEFINITION)
def larger(*, a: Count, b: Count) -> Count:
    """The larger of two counts.

    >>> larger(a=8.0, b=3.0)
    8.0
    """
    return maximum(a, b)


@formula(DEFINITION)
def repeated_seconds(*, count: Count, seconds: Seconds) -> Seconds:
    """The time of something that happens `count` times, one after the other.

    >>> repeated_seconds(count=32, seconds=0.5)
    16.0
    """
    return count * seconds


@formula(DEFINITION)
def repeated_bytes(*, count: Count, size: Bytes) -> Bytes:
    """The bytes of `count` equal things.

    >>> repeated_bytes(count=32, size=2)
    64
    """
    return count * size


@formula(DEFINITION)
def repeated_flop(*, count: Count, flop: Flop) -> Flop:
    """The FLOP of `count` equal things.

    >>> repeated_flop(count=3, flop=2)
    6
    """
    return count * flop


@formula(DEFINITION)
def part_of_bytes(*, size: Bytes, ratio: Ratio) -> Bytes:
    """A fraction of some bytes.

    >>> part_of_bytes(size=80.0, ratio=0.9)
    72.0
    """
    return size * ratio


@formula(DEFINITION)
def part_of_seconds(*, seconds: Seconds, ratio: Ratio) -> Seconds:
    """A fraction of a time.

    >>> part_of_seconds(seconds=2.0, ratio=0.5)
    1.0
    """
    return seconds * ratio


@formula(DEFINITION)
def remaining_bytes(*, budget: Bytes, used: Bytes) -> Bytes:
    """What a budget leaves after use; negative when it is exceeded.

    >>> remaining_bytes(budget=80, used=90)
    -10
    """
    return budget - used


@formula(DEFINITION)
def unspared_bytes(*, capacity: Bytes, margin: Ratio) -> Bytes:
    """What of a capacity may be used where a share of it is to stay free.

    >>> unspared_bytes(capacity=80, margin=0.25)
    60.0
    """
    return capacity * (1 - margin)


@formula(DEFINITION)
def remaining_seconds(*, whole: Seconds, hidden: Seconds) -> Seconds:
    """The part of a time that something else does not hide, never below zero.

    >>> remaining_seconds(whole=3.0, hidden=5.0)
    0.0
    """
    return maximum(whole - hidden, 0.0 * whole)


@formula(DEFINITION)
def rate(*, count: Count, seconds: Seconds) -> PerS:
    """How many of something happen a second.

    >>> rate(count=4e6, seconds=8.0)
    500000.0
    """
    return count / seconds


@formula(DEFINITION)
def rate_each(*, rate: PerS, ways: Count) -> PerS:
    """The even share of one in a rate.

    >>> rate_each(rate=4000.0, ways=8)
    500.0
    """
    return rate / ways


@formula(DEFINITION)
def lesser_bytes(*, size: Bytes, most: Bytes) -> Bytes:
    """A size, or all that there is where that is less.

    >>> lesser_bytes(size=80e9, most=79e9)
    79000000000.0
    """
    return minimum(size, most)
