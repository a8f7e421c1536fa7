"""Is an accelerator file that of its product: the die, memory, links, power, form and year that the product has?"""

from __future__ import annotations

from collections.abc import Iterator

from gpuplan.check.checked_files import Finding, LoadedFile, SpecLibrary
from gpuplan.check.product_table import Product
from gpuplan.specs.accelerator import Accelerator
from gpuplan.specs.dates import first_day
from gpuplan.specs.quantity import Sourced
from gpuplan.strict_yaml import Path_

_SAME = 0.02
_MONTHS = 7
"""Sources take a part for released when it was announced, shown, or could be had."""
_HINT = "is it a sibling's, or in another unit? A part that really differs has an id and a name of its own"


def products(one: LoadedFile, spec: Accelerator, library: SpecLibrary) -> Iterator[Finding]:
    """What differs from the product that the file describes by its id or name; nothing where that is not on record."""
    product = library.product(spec)
    if product is None:
        return
    for at, given, right in _figures(spec, product):
        if given is not None and right is not None and abs(given.value / right.value - 1) > _SAME:
            message = f"{'.'.join(map(str, at))}: `{given.text}`, where {product.name} has `{right.text}`"
            yield one.bad("spec.product", at, message, _HINT)
    for at, word, meant in _words(spec, product):
        if word != meant and meant:
            message = f"{'.'.join(map(str, at))}: `{word}`, where {product.name} has `{meant}`"
            yield one.bad("spec.product", at, message, _HINT)
    months = abs(_months(spec.released) - _months(product.released))
    if months > _MONTHS:
        message = f"released {spec.released}, where {product.name} came in {product.released}"
        yield one.bad("spec.product", ("released",), message, "correct the year")
    if spec.memory.unified != product.memory.unified:
        shared = "shares its memory with the processor" if product.memory.unified else "has a memory of its own"
        yield one.bad("spec.product", ("memory", "unified"), f"{product.name} {shared}", "correct `unified`")


def _figures(spec: Accelerator, product: Product) -> Iterator[tuple[Path_, Sourced | None, Sourced | None]]:
    options = {option.value for option in (product.memory.capacity, *product.memory.options)}
    if spec.memory.capacity.value not in options:
        yield ("memory", "capacity"), spec.memory.capacity, product.memory.capacity
    yield ("memory", "bandwidth"), spec.memory.bandwidth, product.memory.bandwidth
    yield ("memory", "bus_bits"), spec.memory.bus_bits, product.memory.bus_bits
    for name in ("l2", "l3", "scratchpad", "power"):
        yield (name,), getattr(spec, name), getattr(product, name)
    if spec.units is not None:
        yield ("units", "count"), spec.units.count, product.units
    if spec.pcie is not None and product.pcie is not None:
        yield ("pcie", "gen"), spec.pcie.gen, product.pcie.gen
        yield ("pcie", "lanes"), spec.pcie.lanes, product.pcie.lanes
    if spec.scale_up is not None and product.link is not None:
        at = "scale_up"
        yield (at, "bandwidth_per_direction"), spec.scale_up.bandwidth_per_direction, product.link.bandwidth_per_direction
        yield (at, "links"), spec.scale_up.links, product.link.links
        yield (at, "domain"), spec.scale_up.domain, product.link.domain


def _words(spec: Accelerator, product: Product) -> Iterator[tuple[Path_, str, str]]:
    yield ("vendor",), spec.vendor, product.vendor
    yield ("family",), spec.family, product.family
    yield ("architecture",), spec.architecture, product.chip
    yield ("unit",), spec.unit, product.unit
    yield ("memory", "type"), spec.memory.type, product.memory.type
    if spec.form_factor:
        yield ("form_factor",), spec.form_factor, product.form
    if spec.compute_capability is not None:
        yield ("compute_capability",), spec.compute_capability, product.capability or ""
    if spec.scale_up is not None and product.link is not None:
        yield ("scale_up", "kind"), spec.scale_up.kind, product.link.kind
        yield ("scale_up", "topology"), spec.scale_up.topology, product.link.topology


def _months(text: str) -> int:
    day = first_day(text)
    return day.year * 12 + day.month
