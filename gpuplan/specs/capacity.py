"""How much memory does the user's part have, where one product is sold with several sizes of it?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gpuplan.errors import Problem, UsageError
from gpuplan.specs.accelerator import Accelerator
from gpuplan.specs.catalog import Catalog
from gpuplan.units import human

PROCESSOR = "socket"
NEAR = 0.08
"""Vendors print GB and mean GiB, which is 7 % more."""


def capacity_of(part: Accelerator, memory: float, catalog: Catalog, said: str = "") -> float:
    """The capacity on file, in bytes, that a user means by `memory`; a processor has as much as its user put in.

    `said` is how the user wrote it, where that was not `--memory`.

    Raises:
        UsageError: the part is not sold with as much.
    """
    sizes = _sizes(part)
    nearest = _nearest(sizes, memory)
    if nearest is not None:
        return nearest
    if part.unit == PROCESSOR:
        return memory
    *others, last = (sizes[size] for size in sorted(sizes))
    sold = f"{', '.join(others)} or {last}" if others else f"{last} alone"
    what = f"{said or '--memory ' + human(memory, 'B')}: {part.id} comes with {sold}"
    alike = [one.id for one in _of_its_family(part, catalog) if _nearest(_sizes(one), memory) is not None]
    from gpuplan.specs.mig import slice_near  # Only a size that nothing has may be that of a slice.

    if (cut := slice_near(part, memory, NEAR)) is not None:
        raise UsageError(Problem("target.no-such-capacity", what, f"the nearest on record is `{cut}`, a slice of it by MIG"))
    hint = f"--on {alike[0]}, which comes with it" if alike else f"a part not on file: --set 'hw.memory_capacity={memory:.0f} B'"
    raise UsageError(Problem("target.no-such-capacity", what, hint))


def _sizes(part: Accelerator) -> dict[float, str]:
    """The capacities of a part in bytes, as its file writes them."""
    return {float(one.value): one.text for one in (*part.memory.capacity_options, part.memory.capacity)}


def _nearest(sizes: Iterable[float], memory: float) -> float | None:
    nearest = min(sizes, key=lambda size: abs(size - memory))
    return nearest if abs(nearest / memory - 1) <= NEAR else None


def _of_its_family(part: Accelerator, catalog: Catalog) -> Iterator[Accelerator]:
    """The other parts of its vendor and architecture, those first whose names have most words in common."""
    others = (catalog.load(Accelerator, ident) for ident in catalog.paths("accelerators") if ident != part.id)
    near = [one for one in others if (one.vendor, one.architecture) == (part.vendor, part.architecture)]
    yield from sorted(near, key=lambda one: -len({*one.id.split("-")} & {*part.id.split("-")}))
