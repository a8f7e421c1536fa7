"""Does everything that is fitted come by one gate: what was measured here, imports, and published tables?"""

from __future__ import annotations

import numpy as np
import pytest

from gpuplan.calibrate.device import Probe
from gpuplan.calibrate.fit import FitResult, Parameter, errors_of
from gpuplan.calibrate.gate import doubts, refusal
from gpuplan.calibrate.measure.cases import FitBasis
from gpuplan.calibrate.measure.sample import Sample
from gpuplan.calibrate.measure.sample_fits import fit_samples
from gpuplan.calibrate.table_fits import Fitted
from gpuplan.cli.calibrate_fit_run import refused, report
from gpuplan.term import USER, Term

PEAK, BANDWIDTH = 2e11, 2e10


def fitted(ratios: list[float]) -> FitResult:
    values = {"efficiency": Parameter(0.5, "1", 0.4, 0.6)}
    made = np.array(ratios)
    return FitResult(values, "fake", len(ratios), len(ratios), errors_of(made), made, "matmul")


@pytest.mark.parametrize(
    ("ratios", "why"),
    [
        ([1.0, 1.1, 0.9, 1.2, 0.8], ""), ([0.3, 0.3, 0.3, 1.0, 1.0], "every second shape is off by a factor of 3.3 or more"),
        ([1.0] * 6 + [400.0] * 4, "measured times are 1 to 4e"),
    ],
)  # fmt: skip
def test_a_set_that_says_nothing_of_its_kernels_is_believed_nowhere(ratios: list[float], why: str) -> None:
    one = fitted(ratios)
    assert refusal(one).startswith(why)
    assert bool(refusal(one)) == bool(why)
    assert list(refused(Fitted(sets={"matmul.bf16": one}))) == (["matmul.bf16"] if why else [])


def test_the_report_of_published_tables_says_the_doubts() -> None:
    one = fitted([1.0, 1.0, 1.0, 1.0, 0.4])
    assert one.errors.p90_ape > 0.5
    assert list(doubts(one)) == ["every tenth shape is off by 90% or more"]
    assert "every tenth shape is off by 90% or more" in report("chip", Fitted(sets={"matmul.bf16": one}))


def processor(probes: list[tuple[float, float, float]], packed: float) -> list[Sample]:
    """What a processor takes that copies the weights of products of several rows."""
    made = []
    for m, n, k in probes:
        traffic = 4 * (m * k + n * k * (1 + (packed if m > 1 else 0)) + m * n) / (0.9 * BANDWIDTH)
        seconds = 2e-6 + traffic + 2 * m * n * k / (0.95 * PEAK)
        probe = Probe(kind="matmul", dtype="fp32", shape={"m": m, "n": n, "k": k, "batch": 1.0})
        made.append(Sample(probe=probe, seconds=seconds, low=seconds, high=seconds, samples=5, launches=1))
    return made


def test_what_a_processor_copies_before_it_multiplies_is_found() -> None:
    shapes = [(m, n, k) for m in (1.0, 4.0, 16.0, 64.0, 256.0) for n, k in ((1024.0, 1024.0), (4096.0, 1024.0), (512.0, 2048.0),
              (768.0, 3072.0), (2048.0, 2048.0), (4096.0, 4096.0))]  # fmt: skip
    ground = FitBasis(
        peaks={"fp32": Term("hw.fp32_flop_per_s", PEAK, "FLOP/s", USER)},
        bandwidth=Term("hw.hbm_bandwidth", BANDWIDTH, "B/s", USER),
        units=Term("hw.sm_count", 1.0, "1", USER), measured_peaks=True, processor=True,
    )  # fmt: skip
    found = fit_samples(processor(shapes, 1.2), ground, "fake").sets["matmul.fp32"]
    # Fits take tiles of 4 rows or more, so that they are not exact.
    assert found.values["pack"].value == pytest.approx(1.2, rel=0.3)
    assert found.errors.p90_ape < 0.15
    plain = fit_samples(processor(shapes, 0.0), ground, "fake").sets["matmul.fp32"]
    assert plain.values["pack"].value == pytest.approx(0.0, abs=0.2)
    gpu = fit_samples(processor(shapes, 1.2), FitBasis(ground.peaks, ground.bandwidth, ground.units), "fake")
    assert "pack" not in gpu.sets["matmul.fp32"].values
