"""How does what was measured and fitted become a measured file: its text, with the state of the machine and a checksum?"""

from __future__ import annotations

import json
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpuplan.calibrate.device import Identity, Reading
from gpuplan.calibrate.measure.outcome import Found, Outcome, Value
from gpuplan.calibrate.measure.runner import Measured
from gpuplan.calibrate.measure.subject import Subject
from gpuplan.specs.measured_machine import checksum

HEAD = "# Written by gpuplan calibrate. Whoever edits it is told so by every estimate, until it is measured again."
SMALL = {"s": (1e-6, " us"), "B": (1.0, " B"), "1": (1.0, "")}
LEAST = 5e-5
"""Shares and counts below this are written as 0: the fit ran into its bound."""
RESIDUALS = ("matmul", "grouped", "prefill", "decode", "stream", "collective")


@dataclass(frozen=True)
class Told:
    """What a measured file says beside its parameters."""

    id: str
    subject: Subject
    identity: Identity
    version: str
    extent: str
    today: str
    memory: Mapping[str, float]


def measured_text(told: Told, run: Measured, made: Outcome) -> str:
    """The text of a measured file.

    What was not determined has the family's value, with the source `family`.
    """
    good = sum(not sample.marks for sample in run.samples.values())
    identity = told.identity
    libraries = [f"{name} {version}" for name, version in identity.libraries.items()]
    title = f"gpuplan calibrate on {told.subject.name}"
    tree: dict[str, Any] = {
        "format": 1, "id": told.id, "name": told.subject.name, "describes": "accelerator", "measured": told.today,
        **({"units": told.subject.units} if told.subject.units else {}),
        "sources": {
            "here": {
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
            kind: {"low": f"{low:.3f}", "high": f"{high:.3f}"} for kind, (low, _, high) in ranges.items()
        }  # fmt: skip
    text = f"{HEAD}\n" + "\n".join(_block(tree, 0)) + "\n"
    return text.replace("\nmachine:\n", f"\nmachine:\n  checksum: {checksum(text)}\n", 1)


def _machine(told: Told, run: Measured, made: Outcome, good: int) -> dict[str, Any]:
    identity = told.identity
    throttled = Counter(reason for reading in run.readings for reason in reading.throttle)
    left_out = Counter(mark for sample in run.samples.values() for mark in sample.marks)
    skipped = Counter(one.why for one in run.skipped.values())
    sizes = {name: told.memory[name] for name in ("context", "reserved_overhead", "free") if told.memory.get(name)}
    said: dict[str, Any] = {
        "device": identity.name, "uuid": identity.uuid, "backend": identity.backend, "driver": identity.driver,
        "gpuplan": told.version, "extent": told.extent, "date": told.today, "duration": f"{max(run.seconds, 0.1):.1f} s",
        "ranks": identity.ranks if identity.ranks > 1 else None, "state": states(run.readings), "throttled": dict(throttled),
        "probes": good, "left_out": dict(left_out), "skipped": dict(skipped), "unfitted": {**made.unfitted, **made.short},
        "warnings": list(run.warnings),
        **{name: f"{value / 2**20:.1f} MiB" for name, value in sizes.items()},
        "chains": {kind: f"{share:.2f}" for kind, share in made.chains.items()},
        "residual_median": {kind: f"{middle:.3f}" for kind, (_, middle, _) in made.ranges().items()},
    }  # fmt: skip
    return {key: value for key, value in said.items() if value not in ("", None, [], {})}


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


def _sets(told: Told, made: Outcome) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for place, one in made.sets.items():
        if place in made.short:
            continue
        at = tree
        *path, last = place.split(".")
        for part in path:
            at = at.setdefault(part, {})
        at[last] = _set(one, told)
    eager, graph = made.launch, made.graph
    if eager and (graph or told.subject.processor):
        none = {} if graph else {"note": "a processor has no graphs: as launched one by one"}
        tree["launch"] = {
            "eager": f"{_number(eager / 1e-6)} us",
            "graph": {"value": f"{_number((graph or eager) / 1e-6)} us", **none},
        }
    if made.backward is not None:
        share, pairs = made.backward
        note = f"median of {pairs} shapes measured both ways"
        tree.setdefault("attention", {})["backward_share"] = {"value": f"{share:.3f}", "note": note}
    return tree


def _set(one: Found, told: Told) -> dict[str, Any]:
    made: dict[str, Any] = {key: f"{value.value:.0f}" if key == "ranks" else _value(value) for key, value in one.values.items()}
    made["fit"] = {
        "backend": one.software,
        "rows_fitted": one.rows,
        "rows_held_back": one.rows,
        "median_ape": f"{max(one.median_ape, 1e-4):.4f}",
        "p90_ape": f"{max(one.p90_ape, 1e-4):.4f}",
        "bias": f"{100 * one.bias:+.1f} %",
    }
    return made


def _value(value: Value) -> dict[str, str | list[str]]:
    factor, unit = SMALL[value.unit]
    text = f"{_number(value.value / factor)}{unit}"
    if value.low is None or value.high is None:
        return {"value": text, "source": "family", "note": value.why}
    ends = [min(value.low, value.value), max(value.high, value.value)]
    return {"value": text, "accept": [f"{_number(end / factor)}{unit}" for end in ends]}


def _number(value: float) -> str:
    if abs(value) < LEAST:
        return "0"
    text = f"{value:.4g}"
    return f"{float(text):.10f}".rstrip("0").rstrip(".") if "e" in text else text


def _block(tree: Mapping[str, Any], depth: int) -> Iterable[str]:
    """Block style down to the parameters, whose own parts stand on one line."""
    pad = "  " * depth
    for key, value in tree.items():
        if isinstance(value, Mapping) and value and not ({"value", "low"} & set(value)):
            yield f"{pad}{_text(key)}:"
            yield from _block(value, depth + 1)
        elif isinstance(value, Mapping):
            yield f"{pad}{_text(key)}: {{{', '.join(f'{name}: {_flow(part)}' for name, part in value.items())}}}"
        elif isinstance(value, list):
            yield f"{pad}{key}:"
            yield from (f"{pad}  - {_flow(part)}" for part in value)
        else:
            yield f"{pad}{_text(key)}: {_flow(value)}"


def _flow(value: object) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_flow(part) for part in value)}]"
    return json.dumps(value, ensure_ascii=False)


def _text(key: str) -> str:
    return key if key.replace("_", "").replace("-", "").isalnum() and not key[0].isdigit() else json.dumps(key, ensure_ascii=False)
