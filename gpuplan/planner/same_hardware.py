"""Which machines differ in nothing but who offers them, and at which price? What is found of one holds for all of them."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from gpuplan.specs.target import Target
from gpuplan.term import Term


def hardware_key(target: Target, *, hosts: bool = False) -> Hashable:
    """What tells machines apart that train or serve differently, whoever offers them: accelerators, links, those on a host.

    With `hosts` also what else a host has, for what is kept in its memory or on its disks.
    """
    levels = tuple(tuple(_plain(getattr(level, name)) for name in level.field_names()) for level in target.levels)
    host, own = 0.0, ""
    if target.instance is not None:
        host, own = target.per_unit, target.instance.qualified_name
    elif target.system is not None:
        host, own = target.per_unit, target.system.id
    chip = target.accelerator.id, target.memory, target.share, target.local
    apart = 0 if target.unjoined is None else target.unjoined.reach
    return chip, target.count, apart, levels, _plain(target.host_link), host, own if hosts and host else ""


def _plain(value: Any) -> Any:
    """The value of a term, and anything else as it is."""
    return float(value.value) if isinstance(value, Term) else value
