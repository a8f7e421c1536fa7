"""Where does a busy chip's clock settle, where siblings of the same silicon were measured under other power limits?

A busy chip runs as fast as its power limit lets its silicon run. Benchmarks of short kernels see only the beginning of the fall,
so that two chips of one family, measured each by itself, may come out in the wrong order: the one with more watts as the slower.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import get_args

from gpuplan.formulas.power import no_faster_throttle, no_slower_throttle
from gpuplan.machine.hardware import settled
from gpuplan.machine.overlay import Link, matmul_terms
from gpuplan.specs.accelerator import Accelerator
from gpuplan.specs.catalog import Catalog
from gpuplan.specs.measured import Measured
from gpuplan.term import Term
from gpuplan.work import Dtype


def with_sibling_clock(
    chip: Accelerator, changes: Mapping[str, Term], parameters: Mapping[str, Term], chain: Sequence[Link], catalog: Catalog,
    *, engine: str | None, matmuls_of: Mapping[str, str],
) -> dict[str, Term]:  # fmt: skip
    """The parameters that are otherwise under load (`changes`), with clocks in the order of the power limits of siblings.

    What was measured on the user's own machine stands as it is.
    """
    found = dict(changes)
    if chip.power is None or any(link.file.machine is not None and not link.borrowed for link in chain):
        return found
    power = chip.power.value
    for link in siblings(chip, chain, catalog):
        other = catalog.load(Accelerator, link.file.id)
        if other.family != chip.family or other.power is None or other.power.value == power:
            continue
        lower = other.power.value < power
        pool = no_slower_throttle if lower else no_faster_throttle
        both = [one for one in get_args(Dtype) if one in chip.dtypes() and one in other.dtypes()]
        less, more = (other, chip) if lower else (chip, other)
        dtypes = [one for one in both if less.peak(one).value <= more.peak(one).value]
        its = matmul_terms((link,), dtypes, engine, matmuls_of)[0]
        its |= settled(its)
        for dtype in dtypes:
            for prefix in (f"matmul.{dtype}", f"matmul.{dtype}_block"):
                name, rate = f"{prefix}.throttle", f"{prefix}.efficiency"
                own = found.get(name) or parameters.get(name)
                if own is None or name not in its:
                    continue
                found[name] = pool.term(
                    f"hw.{name}", throttle=own, efficiency=parameters[rate], sibling_throttle=its[name],
                    sibling_efficiency=its[rate], peak=chip.term(f"hw.{dtype}_flop_per_s", chip.peak(dtype)),
                    sibling_peak=other.term(f"hw.sibling.{dtype}_flop_per_s", other.peak(dtype)),
                )  # fmt: skip
    return found


def siblings(chip: Accelerator, chain: Sequence[Link], catalog: Catalog) -> Iterator[Link]:
    """The measured files of other chips that a chip's own file names: those that it is like, and those beside it."""
    seen, paths = {chip.id}, catalog.paths("measured")
    named = [name for link in chain[:1] for name in link.file.siblings]
    files = [link.file for link in chain if link.borrowed] + [catalog.read(Measured, paths[name]) for name in named]
    for file in files:
        if file.id not in seen and file.describes == "accelerator" and file.matmul and file.machine is None:
            seen.add(file.id)
            yield Link(file, 1.0, True)
