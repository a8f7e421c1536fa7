"""What has a calibration found so far: of each kernel the best rate, and the share of what the hardware can do?"""

from __future__ import annotations

from dataclasses import dataclass, replace

from gpuplan.calibrate.device import Probe
from gpuplan.calibrate.measure.cases import FitBasis
from gpuplan.calibrate.measure.measured_subject import MeasuredSubject, ground_of, levels_of
from gpuplan.calibrate.measure.sample import Sample
from gpuplan.calibrate.possible import bound
from gpuplan.errors import UnknownError
from gpuplan.specs.catalog import Catalog


@dataclass(frozen=True)
class Achieved:
    """What one kernel reached at best in so many probes."""

    kernel: str
    """As `called` names it, with its data type."""
    probes: int
    best: float | None
    """In `unit`; None where the probes so far tell no rate, such as traffic that a cache may have held."""
    unit: str
    """FLOP/s, B/s, or s of one launch."""
    share: float | None
    """Of what the datasheet says; None where nobody knows that."""


class FoundSoFar:
    """Gathers samples as they are measured; those that are to be measured again count no longer."""

    def __init__(self, ground: FitBasis) -> None:
        self._ground = ground
        self._samples: dict[str, dict[str, Sample]] = {}

    def add(self, sample: Sample) -> None:
        """Take a sample, in the place of an earlier one of the same probe."""
        kept = self._samples.setdefault(kernel_of(sample.probe), {})
        if sample.marks:
            kept.pop(sample.probe.key(), None)
        else:
            kept[sample.probe.key()] = sample

    def rows(self) -> list[Achieved]:
        """Every kernel that was measured, by name."""
        return [self._row(name, list(kept.values())) for name, kept in sorted(self._samples.items()) if kept]

    def _row(self, name: str, samples: list[Sample]) -> Achieved:
        if samples[0].probe.kind in ("launch", "graph"):
            return Achieved(name, len(samples), min(one.seconds / one.probe.shape["launches"] for one in samples), "s", None)
        bounds = [(one.seconds, bound(one.probe, self._ground)) for one in samples]
        best = max(amount / seconds for seconds, (amount, *_) in bounds)
        shares = [amount / seconds / most for seconds, (amount, most, *_) in bounds if most]
        return Achieved(name, len(samples), best or None, bounds[0][1][2], max(shares) if best and shares else None)


def ground_so_far(subject: MeasuredSubject, ranks: int, catalog: Catalog, on: str) -> FitBasis | None:
    """What shares are taken of, before anything is measured; None where nothing is on record of the device's family.

    Raises:
        UsageError: `on` is another accelerator, or not so many of them.
    """
    try:
        return replace(ground_of(subject, (), catalog, on), levels=levels_of(subject, ranks, catalog, on))
    except UnknownError:
        return None


def called(probe: Probe) -> str:
    """What a probe is called in a list: collectives by their own names."""
    return probe.name if probe.kind == "collective" else " ".join(part for part in (probe.kind, probe.name) if part)


def kernel_of(probe: Probe) -> str:
    """What a probe is called together with its data type.

    >>> kernel_of(Probe(kind="matmul", dtype="bf16", shape={}))
    'matmul bf16'
    """
    return f"{called(probe)} {probe.dtype}"
