"""How do fitted parameters become a measured file that the catalog loads?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gpuplan.calibrate.chips import Fitted
from gpuplan.calibrate.fit import Outcome

SCHEMA = "# yaml-language-server: $schema=../schema/measured.schema.json"
SMALL = {"s": (1e-6, " us"), "B": (1.0, " B"), "1": (1.0, "")}
RESIDUALS = {
    "matmul": "matmul", "prefill": "attention.prefill", "decode": "attention.decode", "stream": "stream",
    "collective": "collective", "all_reduce": "collective.all_reduce", "all_gather": "collective.all_gather",
    "reduce_scatter": "collective.reduce_scatter", "all_to_all": "collective.all_to_all",
}  # fmt: skip
"""Kinds of work whose spread is written, and the sets that tell it; the ranges of `collective` stand for what is not told apart."""
LEAST = 5e-5
"""Shares and counts below this are written as 0: the fit ran into its bound."""


@dataclass(frozen=True)
class Head:
    """What a measured file says beside its parameters."""

    id: str
    name: str
    measured: str
    units: int
    software: Sequence[str]
    sources: Mapping[str, Mapping[str, str]]
    stream_source: str = ""
    notes: Sequence[str] = ()
    like: str = ""
    widen: str = ""


def measured_yaml(head: Head, made: Fitted) -> str:
    """The text of a measured file: its head, its parameters with their fits, and the residual of each kind of work."""
    lines = [SCHEMA, "format: 1", f"id: {head.id}", f"name: {head.name}", "describes: accelerator", f'measured: "{head.measured}"']
    lines += [f"units: {head.units}"]
    lines += [f"{key}: {value}" for key, value in (("like", head.like), ("widen", head.widen)) if value]
    lines += ["sources:"]
    for key, source in head.sources.items():
        lines += [f"  {key}:", *(f'    {word}: "{text}"' for word, text in source.items())]
    lines += ["software:", *(f'  - "{text}"' for text in head.software)]
    if head.notes:
        lines += ["notes:", *(f'  - "{text}"' for text in head.notes)]
    tree: dict[str, object] = {}
    for key, outcome in made.sets.items():
        place = tree
        *path, last = key.split(".")
        for part in path:
            place = place.setdefault(part, {})  # type: ignore[assignment]
        place[last] = outcome
    lines += _block(tree, 0, head)
    residual = {kind: spread for kind, prefix in RESIDUALS.items() if (spread := made.spread(prefix)) is not None}
    if residual:
        lines += ["residual:"]
        lines += [f"  {kind}: {{low: {low:.3f}, high: {high:.3f}}}" for kind, (low, high) in residual.items()]
    return "\n".join(lines) + "\n"


def _block(tree: Mapping[str, object], depth: int, head: Head) -> list[str]:
    pad = "  " * depth
    lines: list[str] = []
    for key, value in tree.items():
        if isinstance(value, Outcome):
            source = head.stream_source if key == "stream" else ""
            lines += [f"{pad}{key}:", *(f"{pad}  {line}" for line in block(value, source))]
        elif isinstance(value, Mapping):
            lines += [f"{pad}{key}:", *_block(value, depth + 1, head)]
    return lines


def block(outcome: Outcome, source: str = "") -> list[str]:
    """The lines of one set of parameters and its fit, without an indent."""
    lines = []
    for key, value in outcome.values.items():
        factor, unit = SMALL[outcome.units[key]]
        text = f"{_rounded(value / factor)}{unit}"
        lines.append(f"{key}: {{value: {text}, source: {source}}}" if source else f"{key}: {text}")
    lines += [
        "fit:",
        f'  backend: "{outcome.backend}"',
        f"  rows_fitted: {outcome.rows_fitted}",
        f"  rows_held_back: {outcome.rows_held_back}",
        f"  median_ape: {outcome.median_ape:.3f}",
        f"  p90_ape: {outcome.p90_ape:.3f}",
        f'  bias: "{100 * outcome.bias:+.1f} %"',
    ]
    if outcome.far_median_ape is not None:
        lines.append(f"  far_median_ape: {outcome.far_median_ape:.3f}")
    if outcome.flat_median_ape is not None:
        lines.append(f"  flat_median_ape: {outcome.flat_median_ape:.3f}")
    return lines


def _rounded(value: float) -> str:
    if abs(value) < LEAST:
        return "0"
    text = f"{value:.4g}"
    return f"{float(text):.10f}".rstrip("0").rstrip(".") if "e" in text else text
