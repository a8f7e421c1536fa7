"""What does the comparison of a real model with its prediction look like in a terminal?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from gpuplan.render.text import columns, wrap
from gpuplan.units import human

CROWDED = 0.10
"""Others that take this share of the processors make times uncertain."""
WHY: Mapping[str, str] = {
    "matmuls": "efficiencies of matmuls: `gpuplan calibrate show --kind matmul`",
    "attention": "efficiencies of attention: `gpuplan calibrate show --kind prefill,decode`",
    "streams": "norms, activations, the optimizer: all are priced by their bytes at one rate",
    "host": "starting kernels, and waiting",
}
"""Where to look when the time of a kind of kernel is off."""


class VerifyRowView(Protocol):
    """One comparison; see `gpuplan.calibrate.verify.VerifyRow`."""

    @property
    def case(self) -> VerifyCaseView:
        """What was run."""

    @property
    def what(self) -> str:
        """`time` or `memory`."""

    @property
    def measured(self) -> float:
        """In seconds or bytes."""

    @property
    def low(self) -> float:
        """Least that was foretold."""

    @property
    def expected(self) -> float:
        """What was foretold."""

    @property
    def high(self) -> float:
        """Most that was foretold."""

    @property
    def error(self) -> float:
        """Foretold over measured, less 1."""

    @property
    def within(self) -> bool:
        """Whether the measured figure lies between low and high."""

    @property
    def parts(self) -> Mapping[str, tuple[float, float]]:
        """Seconds of each kind of kernel, measured and foretold; nothing where nobody measured it."""

    @property
    def others(self) -> float | None:
        """The share of the processors that other processes took."""


class VerifyCaseView(Protocol):
    """What was run."""

    @property
    def name(self) -> str:
        """In a few words."""


def verify_text(device: str, on: str, lines: Sequence[VerifyRowView], tolerance: float, replaced: Mapping[str, float]) -> str:
    """The table, the median errors, and what the bare loop does otherwise than the engine profile."""
    rows = [["", "measured", "low", "expected", "high", "error", ""]]
    for line in lines:
        unit = "s" if line.what == "time" else "B"
        figures = [human(value, unit) for value in (line.measured, line.low, line.expected, line.high)]
        name = line.case.name if line.what == "time" else "  its memory"
        rows.append([name, *figures, f"{line.error:+.1%}", ("" if line.within else "outside") + ("*" if _busy(line) else "")])
    made = [f"{device} ({on}): a real model beside its prediction", "", *columns(rows, "lrrrrrl"), ""]
    for what in ("time", "memory"):
        errors = sorted(abs(line.error) for line in lines if line.what == what)
        if errors:
            middle = (errors[(len(errors) - 1) // 2] + errors[len(errors) // 2]) / 2
            inside = sum(line.within for line in lines if line.what == what)
            verdict = "" if what != "time" else f", {'within' if middle <= tolerance else 'above'} the tolerance of {tolerance:.0%}"
            made.append(f"{what}: median error {middle:.1%}{verdict}; {inside} of {len(errors)} within the range")
    made += _where(lines)
    crowd = [line.others for line in lines if line.others is not None and _busy(line)]
    if crowd:
        text = f"* other processes took up to {max(crowd):.0%} of the processors meanwhile, so that what was measured is too long"
        made += ["", *wrap(f"{text}: verify, and calibrate too, on a machine with nothing else to do", 80, "  ")]
    values = ", ".join(
        f"{name} = {human(value, 's') if name.endswith('_host') else f'{value:g}'}" for name, value in replaced.items()
    )
    made += ["", *wrap(f"the loop has no loader, clipping or sampler, so the engine's habits are replaced: {values}", 80, "  ")]
    return "\n".join(line.rstrip() for line in made) + "\n"


def _busy(line: VerifyRowView) -> bool:
    return line.others is not None and line.others > CROWDED


def _where(lines: Sequence[VerifyRowView]) -> list[str]:
    """The error of each time by kind of kernel, as shares of what was measured: they add up to the error above."""
    told = [line for line in lines if line.parts]
    if not told:
        return []
    kinds = list(told[0].parts)
    rows = [["foretold less measured", *kinds, "error"]]
    sums = dict.fromkeys(kinds, 0.0)
    for line in told:
        shares = {kind: (foretold - measured) / line.measured for kind, (measured, foretold) in line.parts.items()}
        sums = {kind: sums[kind] + abs(share) for kind, share in shares.items()}
        rows.append([line.case.name, *(f"{share:+.1%}" for share in shares.values()), f"{line.error:+.1%}"])
    worst = max(sums, key=lambda kind: sums[kind])
    said = wrap(f"most of it: {worst} ({WHY[worst]})", 80, "")
    return ["", *columns(rows, "l" + "r" * (len(kinds) + 1)), "", *said]
