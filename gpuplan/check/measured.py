"""Do measured parameters belong to the accelerator or family that they are filed under?"""

from __future__ import annotations

from collections.abc import Iterator

from gpuplan.check.checked_files import Finding, LoadedFile, SpecLibrary
from gpuplan.specs.accelerator import Accelerator
from gpuplan.specs.measured import CollectiveFit, Measured


def measured(one: LoadedFile, spec: Measured, library: SpecLibrary) -> Iterator[Finding]:
    """What is wrong between a measured file and what it is about."""
    in_families = one.path.parent.name == "families"
    if in_families and spec.describes == "accelerator":
        hint = "write `describes: family` or `describes: fabric`, or move the file out of families/"
        yield one.bad("spec.measured-subject", ("describes",), "a file of one accelerator stands in families/", hint)
    if not in_families and spec.describes != "accelerator":
        hint = "move it to measured/families/, or write `describes: accelerator`"
        yield one.bad("spec.measured-subject", ("describes",), f"a file of a {spec.describes} stands beside families/", hint)
    if spec.like == spec.id:
        yield one.bad("spec.measured-subject", ("like",), "the file is like itself", "name another one, or take it out")
    if spec.measured is not None and spec.measured > library.today.isoformat():
        hint = f"today is {library.today}"
        yield one.bad("spec.future-date", ("measured",), f"measured on {spec.measured}, which has not come yet", hint)
    about = library.accelerator(spec.id) if spec.describes == "accelerator" else None
    if about is not None:
        yield from _of_accelerator(one, spec, about)


def _of_accelerator(one: LoadedFile, spec: Measured, about: Accelerator) -> Iterator[Finding]:
    if spec.units is not None and about.units is not None and spec.machine is None:
        counts = {about.units.count.value, about.units.count.value / (about.devices.value if about.devices is not None else 1.0)}
        if spec.units.value not in counts:
            message = f"{spec.units.text} units were measured, and {about.id} has {about.units.count.value:g}"
            yield one.bad("spec.measured-units", ("units",), message, "was it another part, or a part of one?")
    has = set(about.dtypes())
    for section in ("matmul", "grouped"):
        for dtype in getattr(spec, section):
            plain = dtype.removesuffix("_block")
            if not dtype.endswith("_wo") and plain not in has:
                message = f"{dtype} products were measured, and {about.id} has no {plain} rate"
                yield one.bad("spec.measured-dtype", (section, dtype), message, f"it has {', '.join(sorted(has))}")
    domain = about.scale_up.domain if about.scale_up is not None else None
    for kind in spec.collective.field_names() if spec.collective is not None else ():
        fit = getattr(spec.collective, kind)
        if isinstance(fit, CollectiveFit) and domain is not None and fit.ranks.value > domain.value:
            message = f"{fit.ranks.text} ranks on links that join {domain.text} accelerators"
            yield one.bad(
                "spec.measured-ranks", ("collective", kind, "ranks"), message, "collectives between nodes stand in `network`"
            )
