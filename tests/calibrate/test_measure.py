"""Does a calibration of a device with known parameters find them, and does nothing bad get into its figures?"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake import COPY, GRAPH, HOST, LAUNCH, TRUTH, Fake, Troubles

from gpuplan.calibrate.device import DeviceLostError, Identity, Probe
from gpuplan.calibrate.measure import grid, journal, session
from gpuplan.calibrate.measure.session import Listener, Report, Wish, calibrate, plan
from gpuplan.calibrate.measure.speed import Speed
from gpuplan.calibrate.measure.subject import subject_of
from gpuplan.errors import UnknownError, UsageError
from gpuplan.machine.build import hardware_of
from gpuplan.probe.host import Host
from gpuplan.specs.base import load_spec
from gpuplan.specs.catalog import Catalog, shipped_folder
from gpuplan.specs.measured import Measured
from gpuplan.specs.on import parse_target

TODAY = "2026-11-21"
PLAIN = Catalog([shipped_folder()])


class Said(Listener):
    """Keeps what was said."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def say(self, text: str) -> None:
        self.texts.append(text)


def run(folder: Path, said: Listener | None = None, *, fresh: bool = False, kinds: tuple[str, ...] = (), **troubles: Any) -> Report:
    """One quick calibration into a folder."""
    env = {"HOME": str(folder), "XDG_CONFIG_HOME": str(folder / "config"), "XDG_CACHE_HOME": str(folder / "cache")}
    wish = Wish(extent="quick", today=TODAY, version="0", env=env, fresh=fresh, kinds=kinds)
    device = Fake(troubles=Troubles(**troubles))
    catalog = Catalog.open(env=env)
    listener = said or Said()
    return calibrate(device, plan(device, wish, catalog, listener), wish, catalog, listener)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Report, Path]:
    folder = tmp_path_factory.mktemp("whole")
    return run(folder), folder


def test_the_fit_finds_the_true_parameters_within_3_percent(whole: tuple[Report, Path]) -> None:
    report, _ = whole
    for name, true in TRUTH.items():
        place, _, key = name.rpartition(".")
        assert report.made.sets[place].values[key].value == pytest.approx(true, rel=0.03), name
    host = report.made.sets["host"].values
    assert host["efficiency"].value == pytest.approx(HOST, rel=0.03)
    assert host["launch"].value == pytest.approx(COPY, rel=0.03)
    assert report.made.launch == pytest.approx(LAUNCH, rel=0.03)
    assert report.made.graph == pytest.approx(GRAPH, rel=0.03)
    assert report.made.chains == pytest.approx({"norm": 1.0, "activation": 1.0}, rel=0.03)
    assert all(found.median_ape < 0.01 for found in report.made.sets.values())


def test_the_range_of_a_parameter_holds_its_value(whole: tuple[Report, Path]) -> None:
    values = [one for found in whole[0].made.sets.values() for one in found.values.values()]
    fitted = [one for one in values if one.low is not None and one.high is not None]
    assert fitted
    assert all(one.low <= one.value <= one.high for one in fitted)  # type: ignore[operator]
    assert all(one.why for one in values if one.low is None)


def test_the_file_loads_and_estimates_say_where_it_was_measured(whole: tuple[Report, Path]) -> None:
    report, folder = whole
    (path,) = report.written
    assert path == folder / "config" / "gpuplan" / "measured" / "h200-sxm-141gb.yaml"
    spec = load_spec(Measured, path)
    assert spec.machine is not None
    assert spec.machine.driver == "570.1"
    assert spec.machine.state["clock"].high == "1980 MHz"
    catalog = Catalog([shipped_folder(), folder / "config" / "gpuplan"])
    hw = hardware_of(parse_target("h200-sxm-141gb", catalog), catalog=catalog)
    assert hw.parameter("matmul.bf16.efficiency").value == pytest.approx(TRUTH["matmul.bf16.efficiency"], rel=0.03)
    texts = [note.text for note in hw.notes]
    said = next(text for text in texts if text.startswith("kernel parameters measured on this machine by gpuplan calibrate: "))
    assert "2026-11-21, 570.1, fake; ranges are those of its kernels around the fit: matmul 0.9" in said
    assert hw.parameter("grouped.bf16.efficiency").value == pytest.approx(TRUTH["grouped.bf16.efficiency"], rel=0.03)
    residual = spec.residual["matmul"]
    assert hw.parameter("matmul_residual").spread == (residual.low.value, residual.high.value)
    assert hw.parameter("grouped_residual").spread == (spec.residual["grouped"].low.value, spec.residual["grouped"].high.value)
    assert not any("edited" in text for text in texts)


def test_engines_take_what_was_measured_of_the_kernels_that_they_leave_to_pytorch(whole: tuple[Report, Path]) -> None:
    _, folder = whole
    catalog = Catalog([shipped_folder(), folder / "config" / "gpuplan"])
    for engine in ("vllm", "sglang"):
        hw = hardware_of(parse_target("h200-sxm-141gb", catalog), catalog=catalog, engine=engine)
        shipped = hardware_of(parse_target("h200-sxm-141gb", PLAIN), catalog=PLAIN, engine=engine)
        assert hw.parameter("matmul.bf16.efficiency").value == pytest.approx(TRUTH["matmul.bf16.efficiency"], rel=0.03)
        for own in ("matmul.fp8_block.efficiency", "grouped.fp8_block.efficiency"):
            assert hw.parameter(own).value == shipped.parameter(own).value
        assert any(f"kernels that {engine} has of its own are those of the shipped file" in note.text for note in hw.notes)


def test_what_was_not_measured_comes_from_the_shipped_file(whole: tuple[Report, Path]) -> None:
    _, folder = whole
    catalog = Catalog([shipped_folder(), folder / "config" / "gpuplan"])
    with_it = hardware_of(parse_target("8xh200-sxm-141gb", catalog), catalog=catalog)
    shipped = hardware_of(parse_target("8xh200-sxm-141gb", PLAIN), catalog=PLAIN)
    name = next(name for name in shipped.parameters if name.endswith("all_reduce.full"))
    assert with_it.parameter(name).value == shipped.parameter(name).value


def test_collectives_of_several_ranks(tmp_path: Path) -> None:
    report = run(tmp_path, ranks=8)
    spec = load_spec(Measured, report.written[0])
    assert spec.collective is not None
    assert spec.machine is not None
    assert spec.machine.ranks is not None
    assert spec.machine.ranks.value == 8
    truth = hardware_of(parse_target("8xh200-sxm-141gb", PLAIN), catalog=PLAIN)
    level = truth.levels[0].name
    for kind in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all"):
        found = report.made.sets[f"collective.{kind}"]
        assert found.median_ape < 0.01
        assert found.values["start"].value == pytest.approx(truth.parameter(f"fabric.{level}.{kind}.start").value, rel=0.03)
        assert found.values["full"].value == pytest.approx(truth.parameter(f"fabric.{level}.{kind}.full").value, rel=0.03)
    assert spec.launch is not None
    assert spec.launch.graph.value == pytest.approx(GRAPH, rel=0.03)


def test_norms_and_activations_have_a_say_in_what_streams_take(tmp_path: Path) -> None:
    report = run(tmp_path, slow_norms=1.4)
    found = report.made.sets["stream"]
    assert TRUTH["stream.efficiency"] / 1.4 < found.values["efficiency"].value < TRUTH["stream.efficiency"]
    low, _, high = report.made.ranges()["stream"]
    assert high > 1.1
    assert low < 1.0
    assert report.made.chains["norm"] > 1.15 > report.made.chains["activation"]
    residual = load_spec(Measured, report.written[0]).residual["stream"]
    assert residual.high.value == pytest.approx(high, abs=1e-3)


def test_groups_across_nodes_tell_the_network(tmp_path: Path) -> None:
    report = run(tmp_path, ranks=32, near=8, kinds=("collective", "transfer"))
    shapes = {(one.probe.shape["group"], one.probe.shape.get("stride", 1)) for one in report.run.samples.values()}
    assert {(2, 8), (4, 8), (16, 1), (32, 1), (16, 2), (4, 2)} <= shapes
    truth = hardware_of(parse_target("32xh200-sxm-141gb", PLAIN), catalog=PLAIN)
    near, far = truth.levels[0].name, truth.levels[-1].name
    for kind in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all"):
        for place, level in (("collective", near), ("network", far)):
            found = report.made.sets[f"{place}.{kind}"]
            assert found.median_ape < 0.02, found.place
            for key in ("start", "full"):
                told = truth.parameter(f"fabric.{level}.{kind}.{key}").value
                assert found.values[key].value == pytest.approx(told, rel=0.03), (place, kind, key)
    told = truth.parameter(f"fabric.{far}.transfer.pair").value
    assert report.made.sets["network.transfer"].values["pair"].value == pytest.approx(told, rel=0.03)
    catalog = Catalog([shipped_folder(), tmp_path / "config" / "gpuplan"])
    hw = hardware_of(parse_target("32xh200-sxm-141gb", catalog), catalog=catalog)
    written = load_spec(Measured, report.written[0])
    assert written.network is not None
    assert hw.parameter(f"fabric.{far}.all_reduce.full").value == written.network.all_reduce.full.value
    assert any("measured on this machine by gpuplan calibrate" in note.text for note in hw.notes)


def test_the_machine_that_the_devices_are_in_must_be_theirs(tmp_path: Path) -> None:
    device, catalog = Fake(troubles=Troubles(ranks=16, near=8)), Catalog([shipped_folder()])
    for on, what in (("16xh100", "it is 16 x h100"), ("8xh200", "it is 8 x h200"), ("nosuch", "nosuch")):
        wish = Wish(extent="quick", today=TODAY, version="0", env={"HOME": str(tmp_path)}, on=on)
        with pytest.raises((UsageError, UnknownError), match=what):
            plan(device, wish, catalog, Listener())
    assert device.runs == 0


def test_collectives_of_an_unknown_device_give_it_links(tmp_path: Path) -> None:
    report = run(tmp_path, ranks=4, name="NVIDIA X9000")
    assert "collective.all_reduce" in report.made.sets
    catalog = Catalog.open(env={"XDG_CONFIG_HOME": str(tmp_path / "config")})
    hw = hardware_of(parse_target("4xx9000", catalog), catalog=catalog)
    assert hw.levels[0].bandwidth_per_direction.source.kind == "measured"
    spec = load_spec(Measured, next(path for path in report.written if path.parent.name == "measured"))
    assert spec.collective is not None
    assert hw.parameter(f"fabric.{hw.levels[0].name}.all_reduce.full").value == spec.collective.all_reduce.full.value


def test_an_edited_file_is_still_used_and_told(whole: tuple[Report, Path], tmp_path: Path) -> None:
    _, folder = whole
    text = (folder / "config" / "gpuplan" / "measured" / "h200-sxm-141gb.yaml").read_text()
    (tmp_path / "measured").mkdir()
    (tmp_path / "measured" / "h200-sxm-141gb.yaml").write_text(text.replace('tile_m: {value: "64"', 'tile_m: {value: "32"', 1))
    catalog = Catalog([shipped_folder(), tmp_path])
    hw = hardware_of(parse_target("h200-sxm-141gb", catalog), catalog=catalog)
    assert hw.parameter("matmul.bf16.tile_m").value == 32
    assert any(note.code == "hw.measured-edited" and str(tmp_path) in note.text for note in hw.notes)


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
    report = run(tmp_path, said, busy="decode")
    assert any("1 other process uses this device" in text for text in said.texts)
    assert {sample.probe.kind for sample in report.run.samples.values() if "busy" in sample.marks} == {"decode"}


def test_others_on_the_processors_are_told_and_kept(tmp_path: Path) -> None:
    said = Said()
    report = run(tmp_path, said, name="Octocore CPU", architecture="x86_64", units=8, memory=32e9, crowd=0.3)
    assert [text for text in said.texts if "other processes take 30% of the processors" in text]
    machine = load_spec(Measured, report.written[-1]).machine
    assert machine is not None
    assert machine.state["others"].median == "30 %"
    assert any("other processes" in text for text in machine.warnings)


def test_what_others_disturb_too_much_is_left_out(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nothing trustworthy was measured: \d+ probes busy"):
        run(tmp_path, name="Octocore CPU", architecture="x86_64", units=8, memory=32e9, crowd=0.6)
    assert not list((tmp_path / "config").rglob("*.yaml"))


def test_a_handful_of_matmuls_makes_no_spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuplan.calibrate.measure.outcome.FEWEST", 10_000)
    with pytest.raises(UsageError, match="nothing could be fitted: matmul"):
        run(tmp_path, name="Octocore CPU", architecture="x86_64", units=8, memory=32e9)
    assert not list((tmp_path / "config").rglob("*.yaml"))


def test_drift_is_noticed_by_the_anchor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuplan.calibrate.measure.runner.ANCHOR_EVERY_S", 0.02)
    report = run(tmp_path, drift=(1500, 2500))
    assert any("slower while measuring" in text for text in report.run.warnings)
    assert max(report.run.drift) > 1.2
    assert report.made.sets["matmul.bf16"].values["efficiency"].value == pytest.approx(TRUTH["matmul.bf16.efficiency"], rel=0.03)


def test_memory_errors_are_told(tmp_path: Path) -> None:
    said = Said()
    run(tmp_path, said, errors_after=1000)
    assert any(text.startswith("1 uncorrected memory error while measuring") for text in said.texts)


def test_too_little_memory_leaves_out_what_does_not_fit(tmp_path: Path) -> None:
    report = run(tmp_path, memory=2e9)
    assert "too little memory" in report.plan.refused.values()
    assert report.made.sets


def test_a_kernel_that_fails_is_left_out_and_told(tmp_path: Path) -> None:
    report = run(tmp_path, broken="decode")
    failed = [one for one in report.run.skipped.values() if one.why == "its kernel failed: CUBLAS_STATUS_NOT_SUPPORTED"]
    assert {one.probe.kind for one in failed} == {"decode"}
    assert "attention.decode.bf16" not in report.made.sets


def test_a_device_on_which_every_kernel_fails_is_lost(tmp_path: Path) -> None:
    with pytest.raises(UnknownError, match="12 kernels in a row failed, the last with: CUBLAS_STATUS_NOT_SUPPORTED"):
        run(tmp_path, broken="stream", kinds=("stream",))


def test_a_lost_device_keeps_the_journal_and_the_next_run_goes_on(tmp_path: Path) -> None:
    with pytest.raises(UnknownError, match="does not answer any more: Xid 79"):
        run(tmp_path, lost_after=2000)
    (kept,) = (tmp_path / "cache").rglob("*.jsonl")
    before = journal.load(kept)
    assert before is not None
    assert len(before.samples) > 50
    assert not list((tmp_path / "config").rglob("*.yaml"))
    said = Said()
    report = run(tmp_path, said)
    assert report.run.resumed == len(before.samples)
    assert any("going on from" in text for text in said.texts)
    assert len(report.run.samples) == len(report.plan.planned)


def test_fresh_and_another_driver_start_again(tmp_path: Path) -> None:
    with pytest.raises(UnknownError):
        run(tmp_path, lost_after=2000)
    assert run(tmp_path, fresh=True).run.resumed == 0
    with pytest.raises(UnknownError):
        run(tmp_path, lost_after=2000)
    said = Said()
    assert run(tmp_path, said, name="NVIDIA H200", units=131).run.resumed == 0
    assert any("of another device, software or set of probes" in text for text in said.texts)


def test_a_finished_journal_is_not_gone_on_with(tmp_path: Path) -> None:
    run(tmp_path)
    assert run(tmp_path).run.resumed == 0


def test_two_at_once_are_told(tmp_path: Path) -> None:
    first = journal.Journal(tmp_path / "x.jsonl", {"format": 1}, resume=False)
    first.add(begin="a")
    with pytest.raises(UsageError, match=r"another `gpuplan calibrate` measures here: it writes .*x\.jsonl"):
        journal.Journal(tmp_path / "x.jsonl", {"format": 1}, resume=False)
    first.close()
    text = (tmp_path / "x.jsonl").read_text()
    assert text.count("\n") == 2, "the second left the first one's lines alone"
    journal.Journal(tmp_path / "x.jsonl", {"format": 1}, resume=False).close()
    assert (tmp_path / "x.jsonl").read_text().count("\n") == 1


def test_a_long_first_look_leaves_less_time_for_probes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[float] = []
    monkeypatch.setattr(session.Runner, "run", lambda self, *_: seen.append(self.rules.budget) or 1 / 0)
    wish = Wish(extent="quick", today=TODAY, version="0", env={"HOME": str(tmp_path)})
    made = plan(Fake(troubles=Troubles()), wish, PLAIN, Listener())
    for took in (1.0, 30.0):
        with pytest.raises(ZeroDivisionError):
            calibrate(Fake(troubles=Troubles()), replace(made, took=took), wish, PLAIN, Listener())
    assert seen == [pytest.approx(1.15 * 32), pytest.approx(22 / 1.3)]


def test_a_torn_line_is_tolerated(tmp_path: Path) -> None:
    with pytest.raises(UnknownError):
        run(tmp_path, lost_after=2000)
    (kept,) = (tmp_path / "cache").rglob("*.jsonl")
    text = kept.read_bytes()
    kept.write_bytes(text[:-40])
    before = journal.load(kept)
    assert before is not None
    assert run(tmp_path).run.resumed == len(before.samples)


def test_an_unknown_device_gets_a_spec_from_what_was_measured(tmp_path: Path) -> None:
    report = run(tmp_path, name="NVIDIA X9000")
    assert [path.name for path in report.written] == ["x9000.yaml", "x9000.yaml"]
    catalog = Catalog.open(env={"XDG_CONFIG_HOME": str(tmp_path / "config")})
    hw = hardware_of(parse_target("x9000", catalog), catalog=catalog)
    assert hw.family == "hopper"
    assert hw.peaks["bf16"].source.kind == "measured"
    again = run(tmp_path, name="NVIDIA X9000")
    assert again.plan.subject.spec is None


def test_an_unknown_processor_takes_the_family_of_its_kind(tmp_path: Path) -> None:
    name = "Ampersand Octocore 9000 CPU @ 2.00GHz"
    report = run(tmp_path, name=name, architecture="x86_64", units=8, memory=32e9)
    assert report.plan.subject.id == "cpu-ampersand-octocore-9000-8c"
    assert report.plan.subject.family == "x86"
    assert report.usable_as == "cpu-ampersand-octocore-9000-8c"


def test_a_part_of_a_gpu_is_not_taken_for_the_whole(tmp_path: Path) -> None:
    report = run(tmp_path, units=32)
    assert report.plan.subject.id == "h200-32u"
    assert report.plan.subject.family == "hopper"


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


def test_few_rows_leave_parameters_with_the_family(tmp_path: Path) -> None:
    from gpuplan.calibrate.measure.cases import cases
    from gpuplan.calibrate.measure.outcome import found
    from gpuplan.calibrate.measure.subject import ground_of

    report = run(tmp_path)
    matmuls = [sample for key, sample in report.run.samples.items() if key.startswith("matmul:bf16")][:9]
    (case,) = cases(matmuls, ground_of(report.plan.subject, matmuls, PLAIN), "x")
    values = found(case).values
    assert values["tail"].why == "too few rows to fit it"
    assert sum(one.low is not None for one in values.values()) <= 3


def test_unknown_kinds_and_nothing_to_measure_are_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no kind of probe is called `matmull`"):
        run(tmp_path, kinds=("matmull",))
    with pytest.raises(UsageError, match="nothing can be measured"):
        run(tmp_path, kinds=("collective",))


@pytest.mark.parametrize("extent", ["quick", "default", "full"])
def test_probes_keep_to_the_time_and_cover_every_kind(extent: Any) -> None:
    device = Fake(troubles=Troubles())
    wish = Wish(extent=extent, today=TODAY, version="0", env={"HOME": "/nowhere"})
    made = plan(device, wish, Catalog([shipped_folder()]), Listener())
    assert made.seconds <= 1.05 * grid.BUDGET[wish.extent]
    kinds = {one.probe.kind for one in made.planned}
    assert kinds == {*grid.kinds()} - {"collective", "transfer", "prefill_backward"}
    assert len({one.probe.key() for one in made.planned}) == len(made.planned)


def test_where_kernels_are_compiled_first_a_few_kinds_are_measured_well() -> None:
    speed = Speed(flop_per_s={"bf16": 1e12, "fp32": 2e11}, memory_rate=2e10, link=2e10, prepare=1.2)
    probes = list(grid.candidates(["bf16", "fp32"], 1, processor=True))
    chosen, refused = grid.choose(probes, "quick", speed, 1e10, lambda _: None)
    counts = Counter((one.probe.kind, one.probe.dtype) for one in chosen)
    assert counts["matmul", "bf16"] >= 8
    assert all(count >= 4 for (kind, _), count in counts.items() if kind not in ("launch", "graph")), counts
    assert set(refused.values()) == {grid.SLOW}
    quick = speed.replaced(prepare=0.01)
    assert not grid.choose(probes, "quick", quick, 1e10, lambda _: None)[1]


def test_few_rows_are_measured_as_often_as_many() -> None:
    wish = Wish(extent="quick", today=TODAY, version="0", env={"HOME": "/nowhere"})
    made = plan(Slow(troubles=Troubles(name="Slow", architecture="x86_64", memory=16e9)), wish, PLAIN, Listener())
    rows = Counter(one.probe.shape["m"] for one in made.planned if one.probe.kind == "matmul")
    assert rows[1.0] >= 0.6 * sum(rows.values()) / len(rows), rows


def test_a_slow_device_gets_small_probes() -> None:
    device = Slow(troubles=Troubles(name="Slow", architecture="x86_64", memory=16e9))
    wish = Wish(extent="quick", today=TODAY, version="0", env={"HOME": "/nowhere"})
    made = plan(device, wish, Catalog([shipped_folder()]), Listener())
    assert made.seconds <= 1.05 * grid.BUDGET["quick"]
    assert max(one.launch for one in made.planned) <= grid.SLOWEST["quick"]
    assert sum(one.probe.kind == "matmul" for one in made.planned) >= 20


class Slow(Fake):
    """As slow as a few cores."""

    def _run(self, probe: Probe, true: float, launches: int) -> float:
        return 300 * super()._run(probe, true, launches)


def test_a_processor_is_measured_in_32_bits_too() -> None:
    def dtypes(kind: str, *, processor: bool) -> set[str]:
        return {probe.dtype for probe in grid.candidates(["bf16", "fp32"], 1, wanted=[kind], processor=processor)}

    assert [dtypes(kind, processor=True) for kind in ("stream", "prefill", "decode")] == [{"fp32"}, {"bf16", "fp32"}, {"bf16"}]
    assert [dtypes(kind, processor=False) for kind in ("stream", "prefill", "decode")] == [{"bf16"}, {"bf16"}, {"bf16"}]


def test_groups_of_ranks() -> None:
    probes = list(grid.candidates(["bf16"], 6, wanted=["collective"]))
    assert {(probe.shape["group"], probe.shape.get("stride", 1)) for probe in probes} == {(2, 1), (4, 1), (6, 1), (3, 2)}
    assert not list(grid.candidates(["bf16"], 1, wanted=["collective", "transfer"]))


def test_a_full_disk_is_told_and_what_is_there_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import errno
    import os

    write, left = os.write, [200_000]

    def full(number: int, data: bytes) -> int:
        left[0] -= len(data)
        if left[0] < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(number, data)

    monkeypatch.setattr("gpuplan.calibrate.measure.journal.os.write", full)
    with pytest.raises(UsageError, match=r"cannot write the journal .*No space left"):
        run(tmp_path)
    monkeypatch.undo()
    assert not list((tmp_path / "config").rglob("*.yaml"))
    assert run(tmp_path).run.resumed > 5


def test_a_disk_that_fills_up_at_the_end_leaves_no_half_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import errno
    import os

    def full(_half: object, _whole: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("gpuplan.probe.new_file.os.replace", full)
    with pytest.raises(UsageError, match="No space left"):
        run(tmp_path)
    monkeypatch.undo()
    assert [path.name for path in (tmp_path / "config").rglob("*") if path.is_file()] == []
    assert run(tmp_path).run.resumed > 100


def test_a_folder_that_cannot_be_written_is_told_before_measuring(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("a file")
    with pytest.raises(UsageError, match="cannot write"):
        run(tmp_path)
    assert not list(tmp_path.rglob("*.jsonl"))


@pytest.mark.parametrize(
    "line",
    ['{"sample": {}}', '{"sample": {"probe": {"kind": "matmul"}, "seconds": 1}}', '{"skipped": 7}', '{"plan": [1]}'],
)
def test_a_journal_that_somebody_edited_is_started_again(tmp_path: Path, line: str) -> None:
    with pytest.raises(UnknownError):
        run(tmp_path, lost_after=2000)
    (kept,) = (tmp_path / "cache").rglob("*.jsonl")
    lines = kept.read_text().splitlines()
    kept.write_text("\n".join([*lines[:5], line, *lines[5:]]) + "\n")
    report = run(tmp_path)
    assert report.run.resumed == 0
    assert report.made.sets


def test_a_file_that_is_no_measured_file_is_told_before_measuring(tmp_path: Path) -> None:
    place = tmp_path / "mine.yaml"
    place.write_text("hello\n")
    device, catalog = Fake(troubles=Troubles()), Catalog([shipped_folder()])
    wish = Wish(extent="quick", today=TODAY, version="0", env={"HOME": str(tmp_path)}, out=place)
    made = plan(device, wish, catalog, Listener())
    before = device.runs
    with pytest.raises(UsageError, match="no measured file that can be added to"):
        calibrate(device, made, wish, catalog, Listener())
    assert device.runs == before
    assert place.read_text() == "hello\n"


def test_kinds_that_tell_no_parameter_say_so_and_are_measured_anew(tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(UsageError, match="no parameter comes of these kinds"):
            run(tmp_path, kinds=("graph",))
    (kept,) = (tmp_path / "cache").rglob("*.jsonl")
    told = journal.load(kept)
    assert told is not None
    assert told.done


def test_launches_alone_are_worth_a_file(tmp_path: Path) -> None:
    spec = load_spec(Measured, run(tmp_path, kinds=("launch", "graph")).written[0])
    assert spec.launch is not None
    assert spec.launch.eager.value == pytest.approx(LAUNCH, rel=0.03)


def test_a_probe_that_is_far_slower_than_foretold_is_left_out(tmp_path: Path) -> None:
    device, catalog = Stuck(troubles=Troubles()), Catalog([shipped_folder()])
    env = {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    wish = Wish(extent="quick", today=TODAY, version="0", env=env)
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


def test_places(tmp_path: Path) -> None:
    device = Fake(troubles=Troubles(name="NVIDIA X9000"))
    wish = Wish(extent="quick", today=TODAY, version="0", env={"HOME": str(tmp_path)})
    catalog = Catalog([shipped_folder()])
    beside = replace(wish, out=tmp_path / "mine.yaml", kinds=("stream", "matmul"))
    report = calibrate(device, plan(device, beside, catalog, Listener()), beside, catalog, Listener())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine-accelerator.yaml", "mine.jsonl", "mine.yaml"]
    assert report.usable_as == ""
    assert session.target(tmp_path / "specs", "x", {}) == tmp_path / "specs" / "measured" / "x.yaml"


def test_the_lost_device_is_lost_for_good() -> None:
    device = Fake(troubles=Troubles(lost_after=1))
    run_one = device.prepare(Probe(kind="stream", shape={"size": 4096.0}))
    run_one(1)
    with pytest.raises(DeviceLostError):
        run_one(1)
