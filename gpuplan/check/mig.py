"""Do the MIG profiles of a GPU cut it as their names say, and not into more than there is?"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuplan.check.checked_files import Finding, LoadedFile
from gpuplan.specs.accelerator import Accelerator, MigProfile
from gpuplan.strict_yaml import Path_

_NAME = re.compile(r"(\d+)g\.(\d+)gb")
_NAMED = (0.88, 1.04)
"""Memory of an instance in GiB, over the number in its name."""
_CLOSE = 0.03
_PART = 0.13
"""How far the memory of an instance may be from its share: names and drivers round, and ECC takes some."""
_UNITS = (0.75, 1.5)
"""Units of an instance, over its share of all: units come in whole groups, and a small instance may have more."""


def mig(one: LoadedFile, spec: Accelerator) -> Iterator[Finding]:
    """What is wrong with the profiles."""
    named = {name: found for name in spec.mig if (found := _NAME.fullmatch(name)) is not None}
    slices = max((int(found[1]) for found in named.values()), default=0)
    for name, found in named.items():
        yield from _profile(one, spec, name, (int(found[1]), slices, int(found[2])))
    for name in spec.mig.keys() - named.keys():
        yield one.bad("spec.mig", ("mig", name), f"`{name}` is no profile", "profiles are called `1g.10gb`")


def _profile(one: LoadedFile, spec: Accelerator, name: str, said: tuple[int, int, int]) -> Iterator[Finding]:
    profile: MigProfile = spec.mig[name]
    part, slices, gigabytes = said
    at: Path_ = ("mig", name)
    share, compute, memory = profile.memory_share.value, profile.compute_share.value, profile.memory
    if not _NAMED[0] <= memory.value / 2**30 / gigabytes <= _NAMED[1]:
        yield one.bad("spec.mig", (*at, "memory"), f"`{memory.text}` for `{name}`", "it is about what the name says, in GiB")
    if abs(compute / (part / slices) - 1) > _CLOSE:
        message = f"{compute:g} of the units for `{name}`, which is {part} of {slices} slices"
        yield one.bad("spec.mig", (*at, "compute_share"), message, f"write {part / slices:.6g}")
    whole = spec.memory.capacity.value * share
    if abs(memory.value / whole - 1) > _PART:
        message = f"{share:g} of the memory of `{spec.memory.capacity.text}` is not the `{memory.text}` of `{name}`"
        yield one.bad("spec.mig", (*at, "memory_share"), message, "which of the two is wrong?")
    fit = min(slices // part, int(1 / share + _CLOSE)) if share > 0 else 0
    if profile.count.value != fit:
        message = f"{profile.count.text} instances of `{name}`, of which {fit} fit"
        yield one.bad("spec.mig", (*at, "count"), message, "correct the count, or the share of the memory")
    if profile.units is not None and spec.units is not None:
        expected = spec.units.count.value * part / slices
        if not _UNITS[0] <= profile.units.value / expected <= _UNITS[1] or profile.units.value > spec.units.count.value:
            of_all = f"{part} of {slices} slices of {spec.units.count.text}"
            message = f"{profile.units.text} units for `{name}`, where {of_all} are {expected:.3g}"
            yield one.bad("spec.mig", (*at, "units"), message, "is it the count of another profile?")
