"""What a calibration has found so far: shares of what the datasheet says, without what is to be measured again."""

from __future__ import annotations

import pytest

from gpuplan.calibrate.device import Identity, Probe
from gpuplan.calibrate.measure.achieved import FoundSoFar, ground_so_far
from gpuplan.calibrate.measure.measured_subject import MeasuredSubject, last_cache_of, subject_of
from gpuplan.calibrate.measure.sample import Sample
from gpuplan.probe.host import Host
from tests.calibrate.fake_runs import PLAIN

SQUARE = Probe(kind="matmul", dtype="bf16", shape={"m": 4096.0, "n": 4096.0, "k": 4096.0, "batch": 1.0})


def subject(name: str) -> MeasuredSubject:
    return subject_of(Identity(name=name, backend="fake", architecture="9.0", memory_bytes=140e9, units=132), PLAIN, Host())


def found(name: str) -> FoundSoFar:
    ground = ground_so_far(subject(name), 1, PLAIN, "")
    assert ground is not None
    return FoundSoFar(ground)


def sample(probe: Probe, seconds: float, *marks: str) -> Sample:
    return Sample(probe=probe, seconds=seconds, low=seconds, high=seconds, samples=5, launches=1, marks=marks)


def test_the_best_of_a_kernel_and_its_share_of_the_datasheet() -> None:
    made = found("NVIDIA H200")
    other = SQUARE.replaced(shape={**SQUARE.shape, "m": 64.0})
    made.add(sample(SQUARE, 2 * 4096**3 / 494.5e12))
    made.add(sample(other, 2 * 64 * 4096**2 / 1e12))
    (row,) = made.rows()
    assert (row.kernel, row.probes, row.unit) == ("matmul bf16", 2, "FLOP/s")
    assert row.best == pytest.approx(494.5e12)
    assert row.share == pytest.approx(0.5, abs=0.001)  # of 989 TFLOP/s


def test_what_is_to_be_measured_again_counts_no_longer() -> None:
    made = found("NVIDIA H200")
    made.add(sample(SQUARE, 1e-3))
    made.add(sample(SQUARE, 1e-3, "thermal"))
    assert made.rows() == []


def test_traffic_that_a_cache_may_hold_tells_no_rate() -> None:
    made = found("NVIDIA H200")
    cache = last_cache_of(subject("NVIDIA H200"))
    made.add(sample(Probe(kind="stream", dtype="bf16", shape={"size": cache / 2}), 1e-6))
    (row,) = made.rows()
    assert (row.best, row.share) == (None, None)


def test_nobody_knows_the_peak_of_an_unknown_device() -> None:
    made = found("NVIDIA X9000")
    made.add(sample(SQUARE, 1e-3))
    made.add(sample(Probe(kind="launch", dtype="bf16", shape={"launches": 10.0}), 4e-5))
    launch, matmul = made.rows()
    assert (launch.best, launch.unit, launch.share) == (pytest.approx(4e-6), "s", None)
    assert (matmul.best, matmul.share) == (pytest.approx(2 * 4096**3 / 1e-3), None)
