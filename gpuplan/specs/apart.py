"""What are accelerators of which nothing is known that joins all? Machines apart from each other, as replicas may have them."""

from __future__ import annotations

from gpuplan.errors import Note, UnknownError
from gpuplan.specs.catalog import Catalog
from gpuplan.specs.fabric import NoNetwork
from gpuplan.specs.on import parse_target
from gpuplan.specs.target import MOST_ACCELERATORS, Target, Unjoined, counted


def target_or_apart(text: str, catalog: Catalog) -> Target:
    """What `--on` names; accelerators that nothing is known to join are told as machines apart (`Target.unjoined`).

    Raises:
        GpuplanError: as `parse_target`, but for a network that is not known between machines.
    """
    try:
        return parse_target(text, catalog)
    except NoNetwork as error:
        found = _apart(text, catalog, error)
        if found is None:
            raise
        return found


def _apart(text: str, catalog: Catalog, error: NoNetwork) -> Target | None:
    """So many of a machine by themselves, each with the links inside it; None where one of it is not known to be joined either."""
    units, name = counted(text)
    if units == 1 or "@" in text:
        return None
    try:
        one = parse_target(name, catalog)
        part = parse_target(f"{error.reached}x{name}", catalog) if one.count == 1 and one.instance is None else one
    except UnknownError:
        return None
    count = units * one.count
    if count > MOST_ACCELERATORS:
        return None
    each = f"{part.count} of them reach each other" if part.count > 1 else "each is by itself"
    problem = error.problems[0]
    told = Note("target.apart", f"{problem.message}: {each}, which is enough for replicas that stay there", problem.hint)
    return part.replaced(
        text=text, count=count, units=units * one.units, per_unit=one.per_unit, notes=(*part.notes, told),
        unjoined=Unjoined(part.count, error.with_traceback(None)),
    )  # fmt: skip


def joined(target: Target) -> Target:
    """A target whose accelerators all reach each other.

    Raises:
        GpuplanError: nothing is known that joins them.
    """
    if target.unjoined is not None:
        raise target.unjoined.error
    return target
