"""How does what was measured and fitted become a measured file: its text, with the state of the machine and a checksum?"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpuplan.calibrate.device import Identity, Reading
from gpuplan.calibrate.fit import FitResult, Parameter
from gpuplan.calibrate.measure.measured_subject import MeasuredSubject
from gpuplan.calibrate.measure.runner import ProbeRun
from gpuplan.calibrate.measure.sample_fits import SampleFits
from gpuplan.specs.measured_machine import WRITTEN, checksum
from gpuplan.yaml_text import yaml_text

HEAD = f"{WRITTEN} Whoever edits it is told so by every estimate, until it is measured again."
PRINTED_UNITS = {"s": (1e-6, " us"), "B": (1.0, " B"), "1": (1.0, "")}
LEAST = 5e-5
"""Shares and counts below this are written as 0: the fit ran into its bound."""
_NO_SUM = "sha256-" + 64 * "0"
HERE = "here"
"""The source of what a calibration measured."""
RESIDUALS = ("matmul", "grouped", "prefill", "decode", "stream", "collective")


@dataclass(frozen=True)
class MeasuredHead:
    """What a measured file says beside its parameters."""

    id: str
    subject: MeasuredSubject
    identity: Identity
    version: str
    extent: str
    today: str
    memory: Mapping[str, float]
    host: str
    only_here: Sequence[str] = ()


def measured_text(told: MeasuredHead, run: ProbeRun, made: SampleFits) -> str:
    """The text of a measured file.

    What was not determined has the family's value, with the source `family`.
    """
    good = sum(not sample.marks for sample in run.samples.values())
    identity = told.identity
    libraries = [f"{name} {version}" for name, version in identity.libraries.items()]
    title = f"gpuplan calibrate on {told.subject.name}"
    tree: dict[str, Any] = {
        "format": 1, "id": told.id, "name": told.subject.name, "describes": "accelerator", "measured": told.today,
        **({"units": {"value": told.subject.units, "source": HERE}} if told.subject.units else {}),
        "sources": {
            HERE: {
                "title": title,
                "checked": told.today,
                "kind": "measured",
                "note": f"{good} kernels, timed by {identity.backend}",
            },
            "family": {
                "title": f"parameters of {told.subject.family}, which this measurement does not determine", "checked": told.today,
                "kind": "assumed",
            },
        },
        "software": [one for one in (f"driver {identity.driver}" if identity.driver else "", *libraries) if one],
        "machine": _machine(told, run, made, good),
        **_sets(told, made),
    }  # fmt: skip
    ranges = {kind: one for kind, one in made.ranges().items() if kind in RESIDUALS}
    if ranges:
        tree["residual"] = {
            kind: {"source": HERE, "low": round(low, 3), "high": round(high, 3)} for kind, (low, _, high) in ranges.items()
        }  # fmt: skip
    return with_checksum(tree)


def with_checksum(tree: Mapping[str, Any]) -> str:
    """The text of a measured file with the sum over all of it but the sum, where it says on which machine it was made."""
    if "machine" not in tree:
        return yaml_text(tree, HEAD)
    # With the sum in it the section is too long for one line, so that the sum has a line of its own.
    text = yaml_text({**tree, "machine": {"checksum": _NO_SUM, **tree["machine"]}}, HEAD)
    return text.replace(_NO_SUM, checksum(text), 1)


def _machine(told: MeasuredHead, run: ProbeRun, made: SampleFits, good: int) -> dict[str, Any]:
    identity = told.identity
    throttled = Counter(reason for reading in run.readings for reason in reading.throttle)
    left_out = Counter(mark for sample in run.samples.values() for mark in sample.marks)
    skipped = Counter(one.why for one in run.skipped.values())
    sizes = {name: told.memory[name] for name in ("context", "reserved_overhead", "free") if told.memory.get(name)}
    said: dict[str, Any] = {
        "source": HERE, "device": identity.name, "uuid": identity.uuid, "host": told.host, **_limits(identity, run.readings),
        "only_here": list(told.only_here), "backend": identity.backend, "driver": identity.driver,
        "gpuplan": told.version, "extent": told.extent, "date": told.today, "duration": f"{max(run.seconds, 0.1):.1f} s",
        "ranks": identity.ranks if identity.ranks > 1 else None, "state": states(run.readings), "throttled": dict(throttled),
        "probes": good, "left_out": dict(left_out), "skipped": dict(skipped), "unfitted": {**made.unfitted, **made.short},
        "warnings": list(run.warnings),
        **{name: f"{value / 2**20:.1f} MiB" for name, value in sizes.items()},
        "chains": {kind: f"{share:.2f}" for kind, share in made.chains.items()},
        "residual_median": {kind: f"{middle:.3f}" for kind, (_, middle, _) in made.ranges().items()},
    }  # fmt: skip
    return {key: value for key, value in said.items() if value not in ("", None, [], {})}


def _limits(identity: Identity, readings: Sequence[Reading]) -> dict[str, Any]:
    """What was allowed to the device: its power limit, or the threads of a processor."""
    limit = min((one.power_limit_w for one in readings if one.power_limit_w is not None), default=None)
    return {"power_limit": None if limit is None else f"{limit:.0f} W", "threads": identity.threads}


def states(readings: Sequence[Reading]) -> dict[str, dict[str, str]]:
    """How clocks, power and temperature moved, with units."""
    made: dict[str, dict[str, str]] = {}
    for key, name, unit in (
        ("clock", "clock_mhz", "MHz"), ("memory_clock", "memory_clock_mhz", "MHz"), ("power", "power_w", "W"),
        ("power_limit", "power_limit_w", "W"), ("temperature", "temperature_c", "°C"), ("others", "others_load", "%"),
    ):  # fmt: skip
        figures = [value for reading in readings if (value := getattr(reading, name)) is not None]
        figures = [100 * value for value in figures] if unit == "%" else figures
        if figures:
            ends = {"low": min(figures), "median": statistics.median(figures), "high": max(figures)}
            made[key] = {end: f"{value:.0f} {unit}" for end, value in ends.items()}
    return made


def _sets(told: MeasuredHead, made: SampleFits) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for place, one in made.sets.items():
        if place in made.short:
            continue
        at = tree
        *path, last = place.split(".")
        for part in path:
            at = at.setdefault(part, {})
        at[last] = measured_set(one)
    eager, graph = made.launch, made.graph
    if eager and (graph or told.subject.processor):
        none = {} if graph else {"note": "a processor has no graphs: as launched one by one"}
        tree["launch"] = {
            "source": HERE,
            "eager": printed(eager, "s"),
            "graph": {"value": printed(graph or eager, "s"), **none},
        }
    if made.backward is not None:
        share, pairs = made.backward
        note = f"median of {pairs} shapes measured both ways"
        tree.setdefault("attention", {})["backward_share"] = {"value": round(share, 3), "source": HERE, "note": note}
    return tree


def measured_set(one: FitResult) -> dict[str, Any]:
    """A set of parameters that was fitted on a device, with its range and the fit."""
    made: dict[str, Any] = {"source": HERE}
    made |= {key: round(value.value) if key == "ranks" else ranged(value) for key, value in one.values.items()}
    return {**made, "fit": fit_record(one, digits=4)}


def table_set(one: FitResult, source: str) -> dict[str, Any]:
    """A set of parameters that was fitted to a table of kernels, with the fit; `source` is the key of the table."""
    values = {key: printed(value.value, value.unit) for key, value in one.values.items()}
    leaves = {"leaves": {"source": source, **one.leaves}} if one.leaves else {}
    return {"source": source, **values, **leaves, "fit": fit_record(one, digits=3)}


def fit_record(one: FitResult, digits: int) -> dict[str, Any]:
    """What a measured file says of a fit: rows and errors, on the shapes that were held back."""
    least = 10.0**-digits
    errors = {"median_ape": one.errors.median_ape, "p90_ape": one.errors.p90_ape}
    more = {"far_median_ape": one.far_median_ape, "flat_median_ape": one.flat_median_ape}
    return {
        "backend": one.software,
        "rows_fitted": one.rows_fitted,
        "rows_held_back": one.rows_held_back,
        **{key: max(round(value, digits), least) for key, value in errors.items()},
        "bias": f"{100 * one.errors.bias:+.1f} %",
        **{key: round(value, digits) for key, value in more.items() if value is not None},
    }


def ranged(value: Parameter) -> dict[str, Any]:
    """A parameter with its range, or with the family as its source where it was not fitted."""
    text = printed(value.value, value.unit)
    if value.low is None or value.high is None:
        return {"value": text, "source": "family", "note": value.why}
    ends = [min(value.low, value.value), max(value.high, value.value)]
    return {"value": text, "accept": [printed(end, value.unit) for end in ends]}


def printed(value: float, unit: str) -> str | float:
    """A parameter as a measured file prints it: four digits, seconds in us, shares and counts as numbers.

    >>> printed(4.2164e-6, "s"), printed(0.81234, "1"), printed(1e-9, "1"), printed(64.0, "1"), printed(5e5, "B")
    ('4.216 us', 0.8123, 0, 64, '500000 B')
    """
    factor, name = PRINTED_UNITS[unit]
    value /= factor
    if abs(value) < LEAST:
        return f"0{name}" if name else 0
    digits = float(f"{value:.4g}")
    number = int(digits) if digits.is_integer() else digits
    return f"{number}{name}" if name else number
