"""Is a link's bandwidth one direction, of all links of one accelerator, at the rate of its generation?"""

from __future__ import annotations

from collections.abc import Iterator

from gpuplan.check.checked_files import Finding, LoadedFile, SpecLibrary
from gpuplan.check.rates import TOLERANCE
from gpuplan.check.silicon import LinkKind
from gpuplan.specs.accelerator import Accelerator, ScaleUp
from gpuplan.specs.quantity import Sourced
from gpuplan.strict_yaml import Path_
from gpuplan.units import human

_BOTH = "write what goes one way: vendors print both directions together, which is twice as much"


def links(one: LoadedFile, spec: Accelerator, library: SpecLibrary) -> Iterator[Finding]:
    """Links to other accelerators and to the host."""
    if spec.scale_up is not None:
        kind = next((kind for kind in library.silicon.links if spec.scale_up.kind.startswith(kind.kind)), None)
        yield from _scale_up(one, spec.scale_up, kind)
    if spec.pcie is None:
        return
    lane = next((lane for lane in library.silicon.pcie if lane.generation == spec.pcie.gen.value), None)
    given, at = spec.pcie.bandwidth_per_direction, ("pcie", "bandwidth_per_direction")
    rate = lane.lane.value if lane is not None else 2**spec.pcie.gen.value / 8 * 1e9
    right = spec.pcie.lanes.value * rate
    what = f"PCIe {spec.pcie.gen.value:g} with {spec.pcie.lanes.value:g} lanes"
    if twice(given.value, right):
        yield one.bad(
            "spec.link-direction",
            at,
            f"`{given.text}` is both directions of {what}, which carries {human(right, 'B/s')} one way",
            _BOTH,
        )
    elif abs(given.value / right - 1) > TOLERANCE:
        hint = "is the generation or the number of lanes another one, or is it the rate before encoding?"
        yield one.bad("spec.pcie-rate", at, f"{what} carries {human(right, 'B/s')} one way, not `{given.text}`", hint)


def twice(value: float, right: float) -> bool:
    """Whether a value is both directions of what should be one."""
    return abs(value / right / 2 - 1) <= TOLERANCE


def _scale_up(one: LoadedFile, link: ScaleUp, kind: LinkKind | None) -> Iterator[Finding]:
    whole, each, count = link.bandwidth_per_direction, link.link_bandwidth_per_direction, link.links
    at: Path_ = ("scale_up", "bandwidth_per_direction")
    if kind is not None:
        bad = list(_generation(one, link, kind))
        yield from bad
        if bad:
            return
    if whole is not None and each is not None and count is not None:
        yield from _product(one, whole, count.value * each.value, f"{count.value:g} links of `{each.text}`", at)
    if whole is not None and link.peer_bandwidth is not None and link.peer_bandwidth.value > whole.value * (1 + TOLERANCE):
        message = f"`{link.peer_bandwidth.text}` to one other accelerator is more than `{whole.text}` to all"
        yield one.bad("spec.link-recount", ("scale_up", "peer_bandwidth"), message, "is one of them both directions?")


def _product(one: LoadedFile, whole: Sourced, right: float, of: str, at: Path_) -> Iterator[Finding]:
    if twice(whole.value, right):
        yield one.bad(
            "spec.link-direction",
            at,
            f"`{whole.text}` is both directions of {of}, which carry {human(right, 'B/s')} one way",
            _BOTH,
        )
    elif abs(whole.value / right - 1) > TOLERANCE:
        yield one.bad(
            "spec.link-recount", at, f"{of} carry {human(right, 'B/s')}, not `{whole.text}`", "which of them is of another part?"
        )


def _generation(one: LoadedFile, link: ScaleUp, kind: LinkKind) -> Iterator[Finding]:
    """What one link carries and how many there are belongs to the generation."""
    each, whole, count = link.link_bandwidth_per_direction, link.bandwidth_per_direction, link.links
    rates = [rate.value for rate in kind.each]
    shown = " or ".join(rate.text for rate in kind.each)
    if count is not None and count.value > kind.most:
        message = f"{count.value:g} links are more than the {kind.most} that a part with {kind.kind} has"
        yield one.bad("spec.link-generation", ("scale_up", "links"), message, "are these both directions, or two devices?")
        return
    if each is not None:
        at: Path_ = ("scale_up", "link_bandwidth_per_direction")
        if any(twice(each.value, rate) for rate in rates):
            yield one.bad(
                "spec.link-direction",
                at,
                f"`{each.text}` is both directions of one link of {kind.kind}, which carries {shown} one way",
                _BOTH,
            )
        elif all(abs(each.value / rate - 1) > TOLERANCE for rate in rates):
            message = f"one link of {kind.kind} carries {shown} one way, not `{each.text}`"
            yield one.bad("spec.link-generation", at, message, "is it another generation?")
    elif whole is not None and whole.value > kind.most * max(rates) * (1 + TOLERANCE):
        message = f"`{whole.text}` is more than all {kind.most} links of {kind.kind} carry one way"
        code = "spec.link-direction" if whole.value <= 2 * kind.most * max(rates) * (1 + TOLERANCE) else "spec.link-generation"
        yield one.bad(code, ("scale_up", "bandwidth_per_direction"), message, _BOTH)
