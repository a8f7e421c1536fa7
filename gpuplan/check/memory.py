"""Are bandwidth, capacity and power those of one accelerator, in the right unit?

The bounds are wide on purpose: they hold for everything sold since 2014, and are broken by a slip between GB and TB, GFLOP
and TFLOP, or bits and bytes.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpuplan.check.checked_files import Finding, LoadedFile
from gpuplan.check.rates import TOLERANCE
from gpuplan.specs.accelerator import Accelerator
from gpuplan.specs.quantity import Sourced
from gpuplan.units import human

_CAPACITY = (1e9, 1e13)
_BANDWIDTH = (1e10, 1e14)
_FLOP_PER_BYTE = (5.0, 1300.0)
_GFLOP_PER_JOULE = (5.0, 2500.0)
_GIBI = 2**30 / 1e9
_LEAST_REPORTED = 0.88
"""ECC on GDDR takes one sixteenth, the driver some more."""


def memory(one: LoadedFile, spec: Accelerator, wrong: frozenset[str]) -> Iterator[Finding]:
    """What is wrong with memory and power; `wrong` are data types whose rates another rule has refused."""
    bad = list(_bandwidth(one, spec))
    yield from bad
    yield from _capacity(one, spec)
    rates = [
        rate.value
        for name in ("fp32", "bf16", "fp16")
        if name not in wrong and (rate := getattr(spec.compute_dense, name)) is not None
    ]
    if not rates or wrong:
        return
    per_byte = max(rates) / spec.memory.bandwidth.value
    if not bad and not _inside(per_byte, _FLOP_PER_BYTE):
        message = (
            f"the peak of {max(rates) / 1e12:.4g} TFLOP/s is {per_byte:.3g} FLOP for each byte of `{spec.memory.bandwidth.text}`"
        )
        hint = f"nothing on sale is outside {_FLOP_PER_BYTE[0]:g} to {_FLOP_PER_BYTE[1]:g}: is a unit wrong, such as GB/s for TB/s?"
        yield one.bad("spec.flop-per-byte", ("memory", "bandwidth"), message, hint)
    if spec.power is not None:
        per_watt = max(rates) / spec.power.value / 1e9
        if not _inside(per_watt, _GFLOP_PER_JOULE):
            message = f"the peak of {max(rates) / 1e12:.4g} TFLOP/s is {per_watt:.4g} GFLOP/s for each watt of `{spec.power.text}`"
            bounds = f"{_GFLOP_PER_JOULE[0]:g} to {_GFLOP_PER_JOULE[1]:g}"
            hint = f"nothing on sale is outside {bounds}: is the rate sparse, or the power of something else?"
            yield one.bad("spec.flop-per-watt", ("power",), message, hint)


def _bandwidth(one: LoadedFile, spec: Accelerator) -> Iterator[Finding]:
    """Bus width x pin rate is the bandwidth."""
    given, at = spec.memory.bandwidth, ("memory", "bandwidth")
    if spec.memory.bus_bits is not None and spec.memory.pin_rate is not None:
        recount = spec.memory.bus_bits.value * spec.memory.pin_rate.value
        share = given.value / recount
        if abs(recount / given.value - 1) > TOLERANCE:
            message = f"bus width x pin rate is {human(recount, 'B/s', 4)}, not `{given.text}`"
            yield one.bad("spec.bandwidth-recount", at, message, _slip(share))
    elif not _inside(given.value, _BANDWIDTH):
        message = f"no accelerator reads its memory at `{given.text}`"
        yield one.bad("spec.bandwidth", at, message, "write GB/s or TB/s as the datasheet has it")


def _slip(share: float) -> str:
    for factor, hint in (
        (8.0, "are bits taken for bytes?"),
        (1000.0, "is it GB/s for TB/s, or the reverse?"),
        (2.0, "is one of them of two dies, or both directions?"),
    ):
        if abs(share / factor - 1) <= 0.06 or abs(share * factor - 1) <= 0.06:
            return hint
    return "which of the three is of another part?"


def _capacity(one: LoadedFile, spec: Accelerator) -> Iterator[Finding]:
    given, reported = spec.memory.capacity, spec.memory.capacity_reported
    if not _inside(given.value, _CAPACITY):
        hint = "write GB or GiB as the datasheet means it"
        yield one.bad("spec.capacity", ("memory", "capacity"), f"no accelerator has a memory of `{given.text}`", hint)
        return
    for name, other in (("capacity_options", option) for option in spec.memory.capacity_options):
        if not _inside(other.value, _CAPACITY):
            yield one.bad("spec.capacity", ("memory", name), f"no accelerator has a memory of `{other.text}`", "write GB or GiB")
    if reported is None:
        return
    share = reported.value / given.value
    # What is printed as GB often is GiB, so that more is reported than printed; of GiB nothing more can be.
    most = 1.0 if _binary(given) else _GIBI
    if not _LEAST_REPORTED <= share <= most * 1.001:
        message = f"the driver reports `{reported.text}`, {share:.3g} times the printed `{given.text}`"
        hint = "are MB and MiB mixed up, or is one of them of a die and the other of a board?"
        yield one.bad("spec.reported-capacity", ("memory", "capacity_reported"), message, hint)


def _binary(given: Sourced) -> bool:
    return "iB" in given.text


def _inside(value: float, bounds: tuple[float, float]) -> bool:
    return bounds[0] <= value <= bounds[1]
