"""Which probes are planned for a device, in the time that there is, and what is refused before anything runs?"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpuplan.calibrate.device import Identity, Probe
from gpuplan.calibrate.measure import probe_list, session
from gpuplan.calibrate.measure.measured_subject import subject_of
from gpuplan.calibrate.measure.session import CalibrationWish, Listener, calibrate, plan
from gpuplan.calibrate.measure.speed import Speed
from gpuplan.errors import UnknownError, UsageError
from gpuplan.probe.host import Host
from gpuplan.specs.catalog import Catalog, shipped_folder
from tests.calibrate.fake import Fake, Troubles
from tests.calibrate.fake_runs import PLAIN, TODAY, run


@pytest.mark.parametrize("extent", ["quick", "default", "full"])
def test_probes_keep_to_the_time_and_cover_every_kind(extent: Any) -> None:
    device = Fake(troubles=Troubles())
    wish = CalibrationWish(extent=extent, today=TODAY, version="0", env={"HOME": "/nowhere"})
    made = plan(device, wish, Catalog([shipped_folder()]), Listener())
    assert made.seconds <= 1.05 * probe_list.BUDGET[wish.extent]
    kinds = {one.probe.kind for one in made.planned}
    assert kinds == {*probe_list.kinds()} - {"collective", "transfer", "prefill_backward"}
    assert len({one.probe.key() for one in made.planned}) == len(made.planned)


def test_where_kernels_are_compiled_first_a_few_kinds_are_measured_well() -> None:
    speed = Speed(flop_per_s={"bf16": 1e12, "fp32": 2e11}, memory_rate=2e10, link=2e10, prepare=1.2)
    probes = list(probe_list.candidates(["bf16", "fp32"], 1, processor=True))
    chosen, refused = probe_list.choose(probes, "quick", speed, 1e10, lambda _: None)
    counts = Counter((one.probe.kind, one.probe.dtype) for one in chosen)
    assert counts["matmul", "bf16"] >= 8
    assert all(count >= 4 for (kind, _), count in counts.items() if kind not in ("launch", "graph")), counts
    assert set(refused.values()) == {probe_list.SLOW}
    quick = speed.replaced(prepare=0.01)
    assert not probe_list.choose(probes, "quick", quick, 1e10, lambda _: None)[1]


def test_few_rows_are_measured_as_often_as_many() -> None:
    wish = CalibrationWish(extent="quick", today=TODAY, version="0", env={"HOME": "/nowhere"})
    made = plan(Slow(troubles=Troubles(name="Slow", architecture="x86_64", memory=16e9)), wish, PLAIN, Listener())
    rows = Counter(one.probe.shape["m"] for one in made.planned if one.probe.kind == "matmul")
    assert rows[1.0] >= 0.6 * sum(rows.values()) / len(rows), rows


def test_a_slow_device_gets_small_probes() -> None:
    device = Slow(troubles=Troubles(name="Slow", architecture="x86_64", memory=16e9))
    wish = CalibrationWish(extent="quick", today=TODAY, version="0", env={"HOME": "/nowhere"})
    made = plan(device, wish, Catalog([shipped_folder()]), Listener())
    assert made.seconds <= 1.05 * probe_list.BUDGET["quick"]
    assert max(one.launch for one in made.planned) <= probe_list.SLOWEST["quick"]
    assert sum(one.probe.kind == "matmul" for one in made.planned) >= 20


class Slow(Fake):
    """As slow as a few cores."""

    def _run(self, probe: Probe, true: float, launches: int) -> float:
        return 300 * super()._run(probe, true, launches)


def test_a_processor_is_measured_in_32_bits_too() -> None:
    def dtypes(kind: str, *, processor: bool) -> set[str]:
        return {probe.dtype for probe in probe_list.candidates(["bf16", "fp32"], 1, wanted=[kind], processor=processor)}

    assert [dtypes(kind, processor=True) for kind in ("stream", "prefill", "decode")] == [{"fp32"}, {"bf16", "fp32"}, {"bf16"}]
    assert [dtypes(kind, processor=False) for kind in ("stream", "prefill", "decode")] == [{"bf16"}, {"bf16"}, {"bf16"}]


def test_groups_of_ranks() -> None:
    probes = list(probe_list.candidates(["bf16"], 6, wanted=["collective"]))
    assert {(probe.shape["group"], probe.shape.get("stride", 1)) for probe in probes} == {(2, 1), (4, 1), (6, 1), (3, 2)}
    assert not list(probe_list.candidates(["bf16"], 1, wanted=["collective", "transfer"]))


def test_unknown_kinds_and_nothing_to_measure_are_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no kind of probe is called `matmull`"):
        run(tmp_path, kinds=("matmull",))
    with pytest.raises(UsageError, match="nothing can be measured"):
        run(tmp_path, kinds=("collective",))


def test_the_machine_that_the_devices_are_in_must_be_theirs(tmp_path: Path) -> None:
    device, catalog = Fake(troubles=Troubles(ranks=16, near=8)), Catalog([shipped_folder()])
    for on, what in (("16xh100", "it is 16 x h100"), ("8xh200", "it is 8 x h200"), ("nosuch", "nosuch")):
        wish = CalibrationWish(extent="quick", today=TODAY, version="0", env={"HOME": str(tmp_path)}, on=on)
        with pytest.raises((UsageError, UnknownError), match=what):
            plan(device, wish, catalog, Listener())
    assert device.runs == 0


def test_a_long_first_look_leaves_less_time_for_probes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[float] = []
    monkeypatch.setattr(session.Runner, "run", lambda self, *_: seen.append(self.rules.budget) or 1 / 0)
    wish = CalibrationWish(extent="quick", today=TODAY, version="0", env={"HOME": str(tmp_path)})
    made = plan(Fake(troubles=Troubles()), wish, PLAIN, Listener())
    for took in (1.0, 30.0):
        with pytest.raises(ZeroDivisionError):
            calibrate(Fake(troubles=Troubles()), replace(made, took=took), wish, PLAIN, Listener())
    assert seen == [pytest.approx(1.15 * 32), pytest.approx(22 / 1.3)]


@pytest.mark.parametrize(
    ("name", "architecture", "memory", "units", "ident"),
    [
        ("NVIDIA H100 80GB HBM3", "9.0", 85e9, 132, "h100-sxm-80gb"),
        ("NVIDIA A100-SXM4-40GB", "8.0", 42e9, 108, "a100-sxm-40gb"),
        ("NVIDIA GeForce RTX 3080", "8.6", 10.5e9, 68, "rtx-3080-10gb"),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", "9.0", 10.4e9, 16, "h100-80gb-hbm3-mig-1g.10gb"),
        ("AMD Instinct MI250X", "gfx90a", 68e9, 110, "mi250x-gcd"),
        ("AMD Instinct MI300X", "gfx942", 206e9, 304, "mi300x"),
        ("AMD EPYC 9654 96-Core Processor", "x86_64", 700e9, 96, "cpu-epyc-9654"),
        ("AMD EPYC 9654 96-Core Processor", "x86_64", 60e9, 8, "cpu-epyc-9654-8c"),
    ],
)
def test_devices_are_known_by_their_drivers_words(name: str, architecture: str, memory: float, units: int, ident: str) -> None:
    identity = Identity(name=name, backend="torch", architecture=architecture, memory_bytes=memory, units=units)
    assert subject_of(identity, PLAIN, Host()).id == ident
