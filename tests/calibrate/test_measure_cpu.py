"""Does a calibration of this machine's processor with PyTorch run to its end, and do estimates use it?"""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuplan.calibrate.measure import probe_list
from gpuplan.calibrate.measure.opening import open_device
from gpuplan.calibrate.measure.session import CalibrationWish, Listener, calibrate, plan
from gpuplan.machine.build import hardware_of
from gpuplan.specs.base import load_spec
from gpuplan.specs.catalog import Catalog
from gpuplan.specs.measured import Measured
from gpuplan.specs.on import parse_target

pytest.importorskip("torch", reason="PyTorch is not installed")


def test_the_processor_is_measured_and_estimates_use_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setattr(probe_list, "BUDGET", {"quick": 10.0})
    monkeypatch.setattr(probe_list, "SLOWEST", {"quick": 0.03})
    # The machines of CI are shared: how steady its figures are is not what is tested.
    monkeypatch.setattr("gpuplan.calibrate.measure.runner.STEADY", 10.0)
    monkeypatch.setattr("gpuplan.calibrate.measure.anchor.CONTENDED_DRIFT", 10.0)
    monkeypatch.setattr("gpuplan.calibrate.measure.session.BUSY", 10.0)
    env = {"XDG_CONFIG_HOME": str(tmp_path / "config"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    wish = CalibrationWish(extent="quick", kinds=("matmul", "stream"), today="2026-11-21", version="0", env=env)
    device = open_device("torch", None)
    catalog = Catalog.open(env=env)
    report = calibrate(device, plan(device, wish, catalog, Listener()), wish, catalog, Listener())
    device.close()
    assert report.run.seconds < 60
    path = tmp_path / "config" / "gpuplan" / "measured" / f"{report.plan.subject.id}.yaml"
    assert path in report.written
    machine = load_spec(Measured, path).machine
    assert machine is not None
    assert machine.backend == "torch"
    found = Catalog.open(env=env)
    hw = hardware_of(parse_target(report.usable_as, found), catalog=found)
    assert any(note.code == "hw.measured-here" for note in hw.notes)
    assert 0 < hw.hbm_bandwidth.value < 1e13
