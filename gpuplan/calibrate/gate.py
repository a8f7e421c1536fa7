"""Which fitted sets of parameters are believed nowhere, and what makes others true of this machine in this state alone?

All that is fitted comes by here: of what `gpuplan calibrate` measured, of imports, and of published tables. What is faster than
the hardware is taken out before (`possible`). Imports are of no known machine and tables are for all, so that of these nothing is
taken that would be kept for one machine alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from gpuplan.calibrate.device import Identity, Reading
from gpuplan.calibrate.fit import FitResult
from gpuplan.calibrate.measure.measured_subject import MeasuredSubject
from gpuplan.calibrate.measure.runner import CROWDED, ProbeRun
from gpuplan.physics import RESIDUAL

HOPELESS = 2.0
"""A set that misses every second shape by more than this factor says nothing of the kernels that were measured."""
FAR = 0.5
"""A set of parameters that misses every tenth shape by more than this describes something else than the kernels of the part."""
CLOCK = 0.9
"""A device whose clock never came up to this share of its highest was held down: short kernels reach that on any that is not."""
LIMIT = 0.97
"""A power limit below this share of the datasheet's was lowered."""
WORTH = 0.25
"""Others that were there in so many of the readings had a part in the figures."""


def reasons(identity: Identity, subject: MeasuredSubject, run: ProbeRun, sets: Mapping[str, FitResult]) -> tuple[str, ...]:
    """Every reason not to take the figures for those of other machines with this part, in words; none where all is well."""
    return (
        *_of_state(identity, subject, run.readings),
        *_of_others(run.readings),
        *(f"{change} while it was measured" for change in run.changes),
        *(f"{place}: {why}" for place, one in sets.items() for why in doubts(one)),
    )


def refusal(one: FitResult) -> str:
    """Why a set of parameters is believed nowhere, not even where it was measured; nothing where it may be."""
    factor = float(np.exp(np.median(np.abs(np.log(one.ratios)))))
    if factor > HOPELESS:
        return f"every second shape is off by a factor of {factor:.2g} or more"
    low, high = (float(end) for end in np.quantile(one.ratios, [0.1, 0.9]))
    if not (RESIDUAL.holds(low) and RESIDUAL.holds(high)):
        return f"measured times are {low:.2g} to {high:.2g} of what is foretold"
    return ""


def doubts(one: FitResult) -> Iterator[str]:
    """What speaks against a set of parameters: errors that no kernel of the kind has, and parameters at their bounds."""
    if one.errors.p90_ape > FAR:
        yield f"every tenth shape is off by {one.errors.p90_ape:.0%} or more"
    for key, value in one.values.items():
        if value.at_bound:
            yield f"{key} is {value.at_bound}"


def _of_state(identity: Identity, subject: MeasuredSubject, readings: Sequence[Reading]) -> Iterator[str]:
    clocks = [one.clock_mhz for one in readings if one.clock_mhz is not None]
    most = max((one.max_clock_mhz for one in readings if one.max_clock_mhz is not None), default=None)
    if clocks and most is not None and max(clocks) < CLOCK * most:
        yield f"its clock never passed {max(clocks):.0f} MHz of the {most:.0f} that it has"
    limit = min((one.power_limit_w for one in readings if one.power_limit_w is not None), default=None)
    power = None if subject.spec is None or subject.spec.power is None else float(subject.spec.power.value)
    if limit is not None and power is not None and limit < LIMIT * power:
        yield f"its power limit is {limit:.0f} W, below the {power:.0f} W of the part"
    if identity.threads is not None and identity.units is not None and identity.threads < identity.units:
        yield f"{identity.threads} threads on {identity.units} cores were measured"
    if identity.cores is not None and identity.units is not None and identity.units < identity.cores:
        yield f"only {identity.units} of the {identity.cores} cores could be used"


def _of_others(readings: Sequence[Reading]) -> Iterator[str]:
    loads = [one.others_load for one in readings if one.others_load is not None]
    crowded = sum(one > CROWDED for one in loads)
    if crowded and crowded >= WORTH * len(loads):
        yield f"other processes took up to {max(loads):.0%} of the processors"
    counts = [one.other_processes for one in readings if one.other_processes is not None]
    shared = sum(one > 0 for one in counts)
    if shared and shared >= WORTH * len(counts):
        yield f"up to {max(counts)} other processes used the device"
