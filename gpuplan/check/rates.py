"""Are the dense peak rates those of the silicon: not sparse, not of another accumulation, not outside the matrix units?

Every rate gets at most one finding, the most telling one that its evidence supports.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from statistics import median

from gpuplan.check.checked_files import Finding, LoadedFile, SpecLibrary
from gpuplan.check.silicon import PartLine, SiliconArchitecture
from gpuplan.record import Record
from gpuplan.specs.accelerator import RATE_NAMES, Accelerator
from gpuplan.specs.quantity import Sourced

TOLERANCE = 0.03
_LOOSE = 0.06
"""How far ratios may be off where clocks are not known: datasheets round, and bins differ."""
_VECTOR = ("fp64", "fp64_tensor", "fp32")
_CLOCKS = (0.86, 1.06)
"""What the matrix clock may be, over the clock outside matrix units."""
_SPARSE = 2.0
_PATTERN = re.compile(r"(\d+):(\d+)")
_SPARSE_SHORT = 0.1
"""How much less than its pattern a printed sparse rate may be worth."""
_TIMES = (1.0, 2.0, 4.0)
"""How much faster than fp32 narrow types are outside matrix units."""

_BORROWED = "A part that only borrows the `family` states its own `compute_capability`"
_RATIOS = (("fp8", "bf16", 0.95, 2.1), ("fp4", "fp8", 0.95, 4.2), ("tf32", "bf16", 0.2, 1.05), ("int8", "fp8", 0.02, 2.1))


class _Rate(Record):
    """A rate and all that is known about what it should be."""

    dtype: str
    given: Sourced
    own: float | None
    """The rate over units x FLOP per clock x clock of the file."""
    clocked: float | None
    """FLOP per clock of the file over that of the architecture."""
    against: float | None
    """The rate over what the architecture lets expect."""


def rates(one: LoadedFile, spec: Accelerator, library: SpecLibrary) -> tuple[list[Finding], frozenset[str]]:
    """What is wrong with the rates, and the data types that no other rule needs to judge."""
    found = library.silicon.of(spec)
    architecture, line = found if found is not None else (None, None)
    findings = [*_capability(one, spec, library), *_units(one, spec, architecture, line)]
    wrong: set[str] = set()
    # Figures of two devices are wrong in every rate for one reason.
    for rate in () if any(one_of.code == "spec.units" for one_of in findings) else _evidence(spec, architecture, line):
        finding = _diagnosis(one, spec, architecture, line, rate)
        if finding is not None:
            findings.append(finding)
            wrong.add(rate.dtype)
    findings += _rest(one, spec)
    findings += _doubles(one, spec, line)
    if line is None:
        findings += _plausible(one, spec, wrong)
    return findings, frozenset(wrong)


def _capability(one: LoadedFile, spec: Accelerator, library: SpecLibrary) -> Iterator[Finding]:
    """A compute capability that no part of the architecture has."""
    known = library.silicon.capabilities(spec)
    if known and spec.compute_capability is not None and spec.compute_capability not in known:
        message = f"compute capability {spec.compute_capability}, where {spec.family} has {' or '.join(dict.fromkeys(known))}"
        yield one.bad("spec.capability", ("compute_capability",), message, "correct it, or the `family`")


def _given(spec: Accelerator) -> dict[str, Sourced]:
    return {name: rate for name in RATE_NAMES if (rate := getattr(spec.compute_dense, name)) is not None}


def _clock(spec: Accelerator, dtype: str) -> float:
    if spec.units is None:
        return 0.0
    vector = spec.units.tensor_clock is None or dtype in _VECTOR
    return (spec.units.clock if vector or spec.units.tensor_clock is None else spec.units.tensor_clock).value


def _evidence(spec: Accelerator, architecture: SiliconArchitecture | None, line: PartLine | None) -> list[_Rate]:
    given = _given(spec)
    units = spec.units
    same = units is not None and architecture is not None and units.name == architecture.unit
    made = []
    recounted: Mapping[str, Sourced] = {str(name): one for name, one in units.flop_per_clock.items()} if units is not None else {}
    expected: Mapping[str, Sourced] = {str(name): one for name, one in line.per_clock.items()} if line is not None else {}
    owns: dict[str, float] = {}
    if units is not None:
        counts = {name: units.count.value * one.value * _clock(spec, name) for name, one in recounted.items() if name in given}
        owns = {name: given[name].value / count for name, count in counts.items()}
    # What its own units contradict says nothing about the others.
    wide = max(_LOOSE, units.tolerance.value if units is not None and units.tolerance is not None else 0.0)
    sound = {name: rate.value for name, rate in given.items() if name not in owns or _near(owns[name], 1, wide)}
    ratios = _ratios(sound, {name: one.value for name, one in expected.items()})
    for name, rate in given.items():
        own, clocked, against = owns.get(name), None, None
        if own is None:
            against = ratios.get(name)
        elif same and name in expected:
            clocked = recounted[name].value / expected[name].value
            against = own * clocked
        made.append(_Rate(name, rate, own, clocked, against))
    return made


def _ratios(given: Mapping[str, float], expected: Mapping[str, float]) -> dict[str, float]:
    """Each rate over what the others let expect of it: 1 where all agree.

    The matrix types are compared with their own middle; if that is off from fp32, all of them are.

    >>> _ratios({"fp32": 1.0, "bf16": 32.0, "fp8": 32.0}, {"fp32": 1.0, "bf16": 16.0, "fp8": 32.0})
    {'bf16': 2.0, 'fp8': 1.0}
    """
    shares = {name: given[name] / expected[name] for name in expected if name in given and name not in _VECTOR}
    if not shares:
        return {}
    middle = median(shares.values())
    if "fp32" in given and "fp32" in expected:
        base = given["fp32"] / expected["fp32"]
        # The matrix types may run at another clock than fp32, and export parts have fewer of their units: where they agree with
        # each other, only twice the rate tells against all of them.
        fitting = [share for share in shares.values() if _CLOCKS[0] <= share / base <= _CLOCKS[1]]
        agree = max(shares.values()) <= min(shares.values()) * (1 + _LOOSE)
        if fitting:
            middle = median(fitting)
        elif not agree:
            middle = base
        elif _CLOCKS[0] <= middle / base / _SPARSE <= _CLOCKS[1]:
            middle /= _SPARSE
    return {name: share / middle for name, share in shares.items()}


def _near(value: float | None, target: float, tolerance: float = TOLERANCE) -> bool:
    return value is not None and abs(target / value - 1) <= tolerance


def _diagnosis(
    one: LoadedFile, spec: Accelerator, architecture: SiliconArchitecture | None, line: PartLine | None, rate: _Rate
) -> Finding | None:
    name, at = rate.dtype, ("compute_dense", rate.dtype)
    tolerance = TOLERANCE
    if spec.units is not None and spec.units.tolerance is not None:
        tolerance = max(tolerance, spec.units.tolerance.value)
    if line is not None and architecture is not None and not line.supports(name):
        if rate.given.note:
            return None
        has = ", ".join(dtype for dtype in RATE_NAMES if line.supports(dtype))
        message = f"{architecture.name} has no {name} hardware, so there is no rate of `{rate.given.text}`"
        return one.bad("spec.unsupported-dtype", at, message, f"take it out: there is {has}. {_BORROWED}")
    wide = tolerance if rate.own is not None else _LOOSE
    off = rate.against if rate.against is not None else rate.own
    if off is None or (_near(off, 1, wide) and (rate.own is None or _near(rate.own, 1, tolerance))):
        return None
    return _explained(one, spec, architecture, line, rate, off, wide) or _unexplained(one, spec, architecture, rate, off, tolerance)


def _explained(
    one: LoadedFile,
    spec: Accelerator,
    architecture: SiliconArchitecture | None,
    line: PartLine | None,
    rate: _Rate,
    off: float,
    wide: float,
) -> Finding | None:
    """What the rate really is, where its distance from the right one says so."""
    name, at = rate.dtype, ("compute_dense", rate.dtype)
    factor = _factor(spec, architecture)
    if line is not None and name in line.half_accumulate and _near(off, 2, wide):
        message = f"{name}: `{rate.given.text}` is the rate with 16-bit accumulation, twice that with 32 bits"
        hint = f"write half of it here, and this one as `{name}_fp16_accumulate` in `other_rates`"
        return one.bad("spec.half-accumulate", at, message, hint)
    if factor is not None and (
        _near(off, factor, wide) or (line is not None and name in line.half_accumulate and _near(off, 2 * factor, wide))
    ):
        of = f" of {architecture.name}" if architecture is not None and rate.against is not None else ""
        message = f"{name}: `{rate.given.text}` is {off:.3g} times the dense rate{of}: it is the rate with sparsity"
        unit = "TOP/s" if name.startswith("int") else "TFLOP/s"
        hint = f"write the dense rate, `{rate.given.value / off / 1e12:.4g} {unit}`; `sparsity` says what it is worth"
        if rate.clocked is not None and not _near(rate.clocked, 1, wide):
            hint += f", and `flop_per_clock: {{{name}: …}}` is dense too"
        return one.bad("spec.sparse-rate", at, message, hint)
    fp32 = spec.compute_dense.fp32
    if (
        name not in _VECTOR
        and fp32 is not None
        and off < 0.6
        and any(_near(rate.given.value / fp32.value, times) for times in _TIMES)
    ):
        times = rate.given.value / fp32.value
        message = f"{name}: `{rate.given.text}` is {times:.3g} times fp32, the rate outside the matrix units"
        hint = f"the matrix units do {1 / off:.3g} times as much; `{name}_vector` in `other_rates` has room for this one"
        return one.bad("spec.vector-rate", at, message, hint)
    return None


def _factor(spec: Accelerator, architecture: SiliconArchitecture | None) -> float | None:
    """How much faster sparsity is printed for the part, or None where its architecture has no such mode."""
    if spec.sparsity is not None:
        return spec.sparsity.factor.value
    if architecture is not None:
        return None if architecture.sparsity is None else architecture.sparsity.value
    return _SPARSE


def _unexplained(
    one: LoadedFile, spec: Accelerator, architecture: SiliconArchitecture | None, rate: _Rate, off: float, tolerance: float
) -> Finding | None:
    name, at, units = rate.dtype, ("compute_dense", rate.dtype), spec.units
    if units is not None and rate.clocked is not None and architecture is not None and not _near(rate.clocked, 1):
        given = units.flop_per_clock[name].value  # type: ignore[index]
        message = (
            f"{name}: {given:g} FLOP per clock, where one {units.name} of {architecture.name} does {given / rate.clocked:g} (dense)"
        )
        return one.bad(
            "spec.per-clock", ("units", "flop_per_clock", name), message, f"is it with sparsity, or of other units? {_BORROWED}"
        )
    if units is not None and rate.own is not None:
        recount = rate.given.value / rate.own
        message = (
            f"{name}: units x FLOP per clock x clock is {recount / 1e12:.4g}e12, not the `{rate.given.text}` of `compute_dense`"
        )
        hint = "is it the rate of another part or another clock? State a `tolerance` with a note where sources disagree"
        return None if _near(rate.own, 1, tolerance) else one.bad("spec.rate-recount", at, message, hint)
    if spec.source_of(rate.given).kind == "measured":
        return None  # The best that kernels reached is no peak, and keeps no ratio to others.
    of = architecture.name if architecture is not None else "the architecture"
    message = f"{name}: `{rate.given.text}` is {off:.3g} times what the other rates and {of} let expect"
    return one.bad("spec.rate-ratio", at, message, "is it sparse, of another part, or outside the matrix units?")


def _plausible(one: LoadedFile, spec: Accelerator, wrong: set[str]) -> Iterator[Finding]:
    """Ratios that no architecture has, for those that the table lacks."""
    given = _given(spec)
    for name, other, low, high in _RATIOS:
        if name not in given or other not in given or given[name].note or {name, other} & wrong:
            continue
        ratio = given[name].value / given[other].value
        if not low <= ratio <= high:
            message = (
                f"{name}: `{given[name].text}` is {ratio:.3g} times {other}, and no architecture is outside {low:g} to {high:g}"
            )
            yield one.bad("spec.rate-ratio", ("compute_dense", name), message, "is it sparse? A `note` at the rate explains it")


def _units(
    one: LoadedFile, spec: Accelerator, architecture: SiliconArchitecture | None, line: PartLine | None
) -> Iterator[Finding]:
    devices = spec.devices.value if spec.devices is not None else 1.0
    if spec.unit in ("gpu", "die") and devices > 1:
        message = f"a `{spec.unit}` is one device, not {devices:g}"
        yield one.bad("spec.devices", ("devices",), message, "write `unit: board`, or the figures of one device")
    if spec.unit == "board" and devices == 1:
        yield one.bad(
            "spec.devices", ("unit",), "a `board` holds several devices", "write `unit: gpu`, or how many `devices` it has"
        )
    if spec.units is None or line is None or architecture is None or spec.units.name != architecture.unit:
        return
    count = spec.units.count.value
    if count > line.most_units * devices:
        most = line.most_units * devices
        message = f"{count:g} {spec.units.name} are more than the {most:g} that a {spec.unit} of {architecture.name} can have"
        hint = (
            "are these the figures of a board, a pair or a superchip? Write those of one device, or how many `devices` the unit has"
        )
        yield one.bad("spec.units", ("units", "count"), message, hint)


def _rest(one: LoadedFile, spec: Accelerator) -> Iterator[Finding]:
    given = _given(spec)
    if not {"fp32", "bf16", "fp16"} & given.keys():
        yield one.bad(
            "spec.no-rates", ("compute_dense",), "there is no fp32, bf16 or fp16 rate", "write the dense rates of the datasheet"
        )
    for name in spec.units.flop_per_clock if spec.units is not None else ():
        if name not in given:
            message = f"{name} has FLOP per clock, but no rate in `compute_dense`"
            yield one.bad("spec.rate-missing", ("units", "flop_per_clock", name), message, "write the rate, or take this out")
    for name in spec.sparsity.dtypes if spec.sparsity is not None else ():
        if name not in given and (spec.units is None or name not in spec.units.flop_per_clock):
            message = f"sparsity of {name}, which has no dense rate"
            yield one.bad("spec.sparse-base", ("sparsity", "dtypes"), message, "write the dense rate, or take the data type out")
    printed = spec.sparsity.printed if spec.sparsity is not None else {}
    for dtype, rate in printed.items():
        if dtype in given and given[dtype].value >= rate.value:
            message = f"{dtype}: the dense rate `{given[dtype].text}` is not below the sparse one, `{rate.text}`"
            yield one.bad("spec.sparse-rate", ("compute_dense", dtype), message, "write the dense rate here")


def _doubles(one: LoadedFile, spec: Accelerator, line: PartLine | None) -> Iterator[Finding]:
    """The rate of fp64 where it is no multiple of units and clock, and what sparsity is worth."""
    fp64, fp32 = spec.compute_dense.fp64, spec.compute_dense.fp32
    if line is not None and line.fp32_per_fp64 and fp64 is not None and fp32 is not None and not fp64.note:
        times = fp32.value / fp64.value
        if not any(_near(times, each.value, _LOOSE) for each in line.fp32_per_fp64):
            known = " or ".join(each.text for each in line.fp32_per_fp64)
            message = f"fp64: fp32 is {times:.3g} times `{fp64.text}`, and of these parts {known} times"
            yield one.bad("spec.rate-ratio", ("compute_dense", "fp64"), message, "is it in GFLOP/s, or of another part?")
    if spec.sparsity is not None and (of := _PATTERN.match(spec.sparsity.pattern)) is not None:
        worth = float(of[2]) / float(of[1])
        if abs(spec.sparsity.factor.value / worth - 1) > _SPARSE_SHORT:
            message = f"`{spec.sparsity.factor.text}` for a pattern of {of[1]} in {of[2]}, which is worth {worth:g}"
            yield one.bad("spec.sparsity", ("sparsity", "factor"), message, "write what the printed rate is over the dense one")
