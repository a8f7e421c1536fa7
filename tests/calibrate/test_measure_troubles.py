"""Is nothing that went wrong on the device taken for a figure, and is it told?"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gpuplan.calibrate.device import DeviceLostError, Probe, TimedLaunches
from gpuplan.calibrate.measure.anchor import Anchor
from gpuplan.calibrate.measure.session import CalibrationWish, Listener, calibrate, plan
from gpuplan.errors import UnknownError, UsageError
from gpuplan.specs.base import load_spec
from gpuplan.specs.catalog import Catalog, shipped_folder
from gpuplan.specs.measured import Measured
from tests.calibrate.fake import TRUTH, Fake, Troubles
from tests.calibrate.fake_runs import STREAMS, TODAY, Said, run


def test_throttled_samples_are_measured_again(tmp_path: Path) -> None:
    said = Said()
    report = run(tmp_path, said, throttle=(500, 900))
    assert any("throttled (thermal)" in text for text in said.texts)
    assert any(sample.retries for sample in report.run.samples.values())
    assert not any(sample.marks for sample in report.run.samples.values())
    assert report.made.sets["matmul.bf16"].values["efficiency"].value == pytest.approx(TRUTH["matmul.bf16.efficiency"], rel=0.03)


def test_what_stays_throttled_is_left_out_and_told(tmp_path: Path) -> None:
    report = run(tmp_path, throttle_always="decode")
    marked = [sample for sample in report.run.samples.values() if sample.marks]
    assert marked
    assert {sample.probe.kind for sample in marked} == {"decode"}
    assert not any("decode" in place for place in report.made.sets)
    assert any("prefill" in place for place in report.made.sets)
    machine = load_spec(Measured, report.written[0]).machine
    assert machine is not None
    assert machine.left_out["thermal"].value == len(marked)
    assert machine.warnings


def test_another_process_is_told_and_its_noise_left_out(tmp_path: Path) -> None:
    said = Said()
    report = run(tmp_path, said, busy="norm", kinds=STREAMS)
    assert any("1 other process uses this device" in text for text in said.texts)
    assert {sample.probe.kind for sample in report.run.samples.values() if "busy" in sample.marks} == {"norm"}


def test_others_on_the_processors_are_told_and_kept(tmp_path: Path) -> None:
    said = Said()
    report = run(tmp_path, said, name="Octocore CPU", architecture="x86_64", units=8, memory=32e9, crowd=0.3, kinds=STREAMS)
    assert [text for text in said.texts if "other processes take 30% of the processors" in text]
    machine = load_spec(Measured, report.written[-1]).machine
    assert machine is not None
    assert machine.state["others"].median == "30 %"
    assert any("other processes" in text for text in machine.warnings)


def test_what_others_disturb_too_much_is_left_out(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nothing trustworthy was measured: \d+ probes busy"):
        run(tmp_path, name="Octocore CPU", architecture="x86_64", units=8, memory=32e9, crowd=0.6, kinds=STREAMS)
    assert not list((tmp_path / "config").rglob("*.yaml"))


def test_a_handful_of_matmuls_makes_no_spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuplan.calibrate.measure.sample_fits.FEWEST", 10_000)
    with pytest.raises(UsageError, match="nothing could be fitted: matmul"):
        run(tmp_path, name="Octocore CPU", architecture="x86_64", units=8, memory=32e9)
    assert not list((tmp_path / "config").rglob("*.yaml"))


def test_drift_is_noticed_by_the_anchor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuplan.calibrate.measure.runner.ANCHOR_EVERY_S", 0.0)
    report = run(tmp_path, drift=(1500, 2500))
    assert any("slower" in text for text in report.run.warnings)
    assert max(report.run.drift) > 1.2
    assert report.made.sets["matmul.bf16"].values["efficiency"].value == pytest.approx(TRUTH["matmul.bf16.efficiency"], rel=0.03)


def test_a_slow_down_that_lasts_begins_again_and_is_no_mixture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuplan.calibrate.measure.runner.ANCHOR_EVERY_S", 0.0)
    report = run(tmp_path, drift=(700, 10**9), kinds=("stream", "norm", "activation"))
    (change,) = report.run.changes
    assert re.fullmatch(r"the device became (2[89]|3[0-2])% slower and stayed so", change)
    assert not [one for one in report.run.samples.values() if one.marks]
    found = report.made.sets["stream"].values["efficiency"].value
    assert found == pytest.approx(TRUTH["stream.efficiency"] / 1.3, rel=0.03), "one state of the device, not two"
    assert any("stayed so while it was measured" in why for why in report.only_here)


def drifting(before: float, after: float, at: int) -> TimedLaunches:
    """A kernel that takes another time from some call on."""
    calls = iter(range(10**9))
    return lambda launches: launches * (before if next(calls) < at else after)


def test_an_anchor_soaks_until_times_agree() -> None:
    def figures(run: TimedLaunches) -> list[float]:
        return [run(1) for _ in range(7)]

    warm = Anchor(drifting(1e-3, 1.2e-3, 30), figures, contended=False, clock=lambda: 0.0)
    warm.soak(5.0)
    assert warm.settled
    assert warm.sank == pytest.approx(0.2, abs=0.01)
    assert warm.soaked > 0.7
    assert warm.check() == pytest.approx(1.0)
    cold = Anchor(drifting(1e-3, 1.2e-3, 60), figures, contended=False, clock=lambda: 0.0)
    cold.soak(0.0)
    shares = [cold.check() for _ in range(8)]
    assert max(shares) == pytest.approx(1.2)
    assert cold.has_changed(), "what is off does not become what is right"


def test_memory_errors_are_told(tmp_path: Path) -> None:
    said = Said()
    run(tmp_path, said, errors_after=300, kinds=STREAMS)
    assert any(text.startswith("1 uncorrected memory error while measuring") for text in said.texts)


def test_too_little_memory_leaves_out_what_does_not_fit(tmp_path: Path) -> None:
    report = run(tmp_path, memory=2e9)
    assert "too little memory" in report.plan.refused.values()
    assert report.made.sets


def test_a_kernel_that_fails_is_left_out_and_told(tmp_path: Path) -> None:
    report = run(tmp_path, broken="norm", kinds=STREAMS)
    failed = [one for one in report.run.skipped.values() if one.why == "its kernel failed: CUBLAS_STATUS_NOT_SUPPORTED"]
    assert {one.probe.kind for one in failed} == {"norm"}
    assert "norm" not in report.made.chains
    assert "stream" in report.made.sets


def test_a_device_on_which_every_kernel_fails_is_lost(tmp_path: Path) -> None:
    with pytest.raises(UnknownError, match="12 kernels in a row failed, the last with: CUBLAS_STATUS_NOT_SUPPORTED"):
        run(tmp_path, broken="stream", kinds=("stream",))


def test_a_probe_that_is_far_slower_than_foretold_is_left_out(tmp_path: Path) -> None:
    device, catalog = Stuck(troubles=Troubles()), Catalog([shipped_folder()])
    env = {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    wish = CalibrationWish(extent="quick", today=TODAY, version="0", env=env, kinds=STREAMS)
    report = calibrate(device, plan(device, wish, catalog, Listener()), wish, catalog, Listener())
    slow = [one for one in report.run.skipped.values() if one.why == "far slower than predicted"]
    assert {one.probe.kind for one in slow} == {"norm"}


class Stuck(Fake):
    """Some of its norms take seconds."""

    def _run(self, probe: Probe, true: float, launches: int) -> float:
        slow = probe.kind == "norm" and probe.shape["size"] > 1e7
        return super()._run(probe, 3.0 if slow else true, launches)


def test_why_no_matmul_runs_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no matmul runs on NVIDIA H200: CUBLAS_STATUS_NOT_SUPPORTED"):
        run(tmp_path, broken="matmul")
    with pytest.raises(UsageError, match="does not say that any memory is free"):
        run(tmp_path, memory=0.0)


def test_the_lost_device_is_lost_for_good() -> None:
    device = Fake(troubles=Troubles(lost_after=1))
    run_one = device.prepare(Probe(kind="stream", shape={"size": 4096.0}))
    run_one(1)
    with pytest.raises(DeviceLostError):
        run_one(1)
