"""Where does a busy chip's clock settle, where siblings of the same silicon were measured under other power limits?

A busy chip runs as fast as its power limit lets its silicon run. Benchmarks of short kernels see only the beginning of the fall,
so that two chips of one family, measured each by itself, may come out in the wrong order: the one with more watts as the slower.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, get_args

from gpuplan.formulas.power import rate_with_sibling, settled_throttle, sustained_flop_per_s
from gpuplan.machine.hardware import UNSEEN_S, settled
from gpuplan.machine.overlay import Link, matmul_terms
from gpuplan.specs.accelerator import Accelerator
from gpuplan.specs.catalog import Catalog
from gpuplan.specs.measured import Measured
from gpuplan.term import Source, Term
from gpuplan.work import Dtype

USUAL: Dtype = "bf16"
"""The type whose rate says how many units of silicon there are: chips that multiply another type at the same multiple of it are
alike in that type."""
SAME = 0.05
"""How far multiples may be apart that datasheets print in round figures."""
BY_CLOCK = 1.25
"""How much more one chip may do than another by its clock and a few units: what does more has more silicon."""
_COUNTED = Source("definition", "chips whose measurements are in the mean so far")


def with_sibling_clock(
    chip: Accelerator, changes: Mapping[str, Term], parameters: Mapping[str, Term], chain: Sequence[Link], catalog: Catalog,
    *, engine: str | None, matmuls_of: Mapping[str, str],
) -> dict[str, Term]:  # fmt: skip
    """The parameters that are otherwise under load (`changes`), with clocks in the order of the power limits of siblings.

    Where two come out in another order neither is believed more: both sustain the mean. Where one of them was not seen to settle,
    its measurement says little, and all siblings together say what the silicon sustains under this chip's limit. What was measured
    on the user's own machine stands as it is, and so does a clock of a chip that nobody measured (`borrowed_clock`).
    """
    found = dict(changes)
    own_machine = any(link.file.machine is not None and not link.borrowed for link in chain)
    if chip.power is None or own_machine or not chain or chain[0].borrowed:
        return found
    others = list(_others(chip, chain, catalog, engine, matmuls_of))
    dtypes: list[Dtype] = [one for one in get_args(Dtype) if one in chip.dtypes()]
    for dtype in dtypes:
        for prefix in (f"matmul.{dtype}", f"matmul.{dtype}_block"):
            name, rate = f"{prefix}.throttle", f"{prefix}.efficiency"
            own = found.get(name) or parameters.get(name)
            alike = [one for one in others if name in one.held and _alike(dtype, chip, one.chip)]
            if own is None or not alike:
                continue
            given = {"peak": chip.term(f"hw.{dtype}_flop_per_s", chip.peak(dtype)), "efficiency": parameters[rate]}
            rated = sustained_flop_per_s.term(f"hw.{prefix}.sustained_alone", **given, throttle=own)
            theirs = [one.sustained(dtype, prefix, number) for number, one in enumerate(alike, start=1)]
            # What is borrowed from a sibling is its measurement, which counts where the sibling's turn comes.
            measured = prefix.removeprefix("matmul.") in chain[0].file.matmul
            upside_down = [_upside_down(chip, rated, one.chip, its) for one, its in zip(alike, theirs, strict=True)]
            if measured and not any(upside_down):
                continue
            count, unseen = float(measured), not (_seen(prefix, parameters) and all(_seen(prefix, one.raw) for one in alike))
            for one, its, wrong in zip(alike, theirs, upside_down, strict=True):
                if not (unseen or wrong):
                    continue
                limit = one.power(its.name)
                rated = rate_with_sibling.term(
                    f"{its.name}.pooled", rate=rated, count=Term(f"{its.name}.before", count, "1", _COUNTED), sibling_rate=its,
                    power=chip.term("hw.power", chip.power) if unseen else limit, sibling_power=limit,
                )  # fmt: skip
                count += 1.0
            given["rate"] = rated
            found[name] = settled_throttle.term(f"hw.{name}", **given)
    return found


class _Other(NamedTuple):
    """A sibling, and what its matmuls reach: as kernels were measured, and under load."""

    chip: Accelerator
    raw: Mapping[str, Term]
    held: Mapping[str, Term]

    def sustained(self, dtype: Dtype, prefix: str, number: int) -> Term:
        """What its matmuls sustain, in FLOP/s; `number` tells siblings apart."""
        who = f"hw.{prefix}.sibling_{number}"
        peak = self.chip.term(f"{who}.flop_per_s", self.chip.peak(dtype))
        held = {key: self.held[f"{prefix}.{key}"] for key in ("efficiency", "throttle")}
        return sustained_flop_per_s.term(who, peak=peak, **held)

    def power(self, who: str) -> Term:
        """Its limit."""
        assert self.chip.power is not None
        return self.chip.term(f"{who}.power", self.chip.power)


def _others(
    chip: Accelerator, chain: Sequence[Link], catalog: Catalog, engine: str | None, matmuls_of: Mapping[str, str]
) -> Iterator[_Other]:
    """Siblings with another power limit, with parameters of their own measurements."""
    assert chip.power is not None
    for link in siblings(chip, chain, catalog):
        other = catalog.load(Accelerator, link.file.id)
        if other.family != chip.family or other.power is None or other.power.value == chip.power.value:
            continue
        both = [one for one in get_args(Dtype) if one in chip.dtypes() and one in other.dtypes()]
        its = matmul_terms((link,), both, engine, matmuls_of)[0]
        yield _Other(other, its, its | settled(its))


def _alike(dtype: str, chip: Accelerator, other: Accelerator) -> bool:
    """Whether two chips multiply a type on the same silicon: at the same multiple of the usual type, and at about the same rate."""
    if any(one not in each.dtypes() for one in (dtype, USUAL) for each in (chip, other)):
        return False
    own, its = (float(each.peak(dtype).value) / float(each.peak(USUAL).value) for each in (chip, other))
    rates = float(chip.peak(dtype).value) / float(other.peak(dtype).value)
    return abs(own / its - 1.0) < SAME and 1.0 / BY_CLOCK < rates < BY_CLOCK


def _seen(prefix: str, parameters: Mapping[str, Term]) -> bool:
    """Whether a benchmark saw the clock settle in these matmuls."""
    return float(parameters[f"{prefix}.settle"].value) < UNSEEN_S


def _upside_down(chip: Accelerator, rate: Term, other: Accelerator, its: Term) -> bool:
    """Whether the chip with the higher power limit was found to sustain less."""
    assert chip.power is not None
    assert other.power is not None
    return (chip.power.value < other.power.value) == bool(rate.value > its.value)


def siblings(chip: Accelerator, chain: Sequence[Link], catalog: Catalog) -> Iterator[Link]:
    """The measured files of other chips that a chip's own file names: those that it is like, and those beside it."""
    seen, paths = {chip.id}, catalog.paths("measured")
    named = [name for link in chain[:1] for name in link.file.siblings]
    files = [link.file for link in chain if link.borrowed] + [catalog.read(Measured, paths[name]) for name in named]
    for file in files:
        if file.id not in seen and file.describes == "accelerator" and file.matmul and file.machine is None:
            seen.add(file.id)
            yield Link(file, 1.0, True)
