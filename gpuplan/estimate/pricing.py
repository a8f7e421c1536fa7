"""Seconds of a layer's work by kind: matmuls, attention, elementwise, collectives."""

from __future__ import annotations

from collections.abc import Iterable

from gpuplan.formulas.training import unhidden_seconds
from gpuplan.machine.hardware import Hardware
from gpuplan.machine.price import seconds
from gpuplan.num import all_true
from gpuplan.term import Source, Term, numbered, total
from gpuplan.work import Collective, WorkItem

_NOTHING = Source("definition", "does not happen under this plan")


def no_time(name: str) -> Term:
    """A time of zero for something that does not happen."""
    return Term(name, 0.0, "s", _NOTHING)


def happens(seconds: Term) -> bool:
    """Whether a time is of something that is done at all under the plan, be it ever so short."""
    return seconds.source is not _NOTHING


def priced(name: str, items: Iterable[WorkItem], hw: Hardware, *, custom_all_reduce: bool = False, rack: bool = False) -> Term:
    """The time of work items one after the other, or zero when there are none."""
    return in_turn(name, timed(items, hw, custom_all_reduce=custom_all_reduce, rack=rack))


def timed(
    items: Iterable[WorkItem], hw: Hardware, *, custom_all_reduce: bool = False, rack: bool = False
) -> list[tuple[str, Term]]:  # fmt: skip
    """The time of each work item, under its name.

    A collective over a group of one is nothing to do, so that a machine without a fabric can be asked.
    """
    return [
        (item.name, seconds(item, hw, custom_all_reduce=custom_all_reduce, rack=rack))
        for item in items
        if not (isinstance(item, Collective) and alone(item.group))
    ]


def in_turn(name: str, times: Iterable[tuple[str, Term]]) -> Term:
    """Times one after the other, or zero when there are none."""
    parts = numbered(times)
    return total(name, parts) if parts else no_time(name)


def exposed(name: str, items: Iterable[Collective], hw: Hardware, overlap: Term) -> Term:
    """The part of some collectives that does not run beside computation."""
    comm = priced(f"{name}.all", items, hw)
    return unhidden_seconds.term(name, comm=comm, overlap=overlap) if happens(comm) else comm


def alone(group: Term) -> bool:
    """Whether a group is a single rank, in every candidate of a grid."""
    return all_true(group.value == 1)
