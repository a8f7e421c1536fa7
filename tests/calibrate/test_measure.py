"""Does a calibration of a device with known parameters find them, and do estimates take them?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gpuplan.calibrate.measure import session
from gpuplan.calibrate.measure.session import CalibrationReport, CalibrationWish, Listener, calibrate, plan
from gpuplan.machine.build import hardware_of
from gpuplan.specs.base import load_spec
from gpuplan.specs.catalog import Catalog, shipped_folder
from gpuplan.specs.measured import Measured
from gpuplan.specs.on import parse_target
from tests.calibrate.fake import COPY, GRAPH, HOST, LAUNCH, TRUTH, Fake, Troubles
from tests.calibrate.fake_runs import PLAIN, STREAMS, TODAY, here, run

RATES = ("matmul", "stream")
"""Kinds of probes that a spec of an unknown device needs."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[CalibrationReport, Path]:
    folder = tmp_path_factory.mktemp("whole")
    return run(folder), folder


def test_the_fit_finds_the_true_parameters_within_3_percent(whole: tuple[CalibrationReport, Path]) -> None:
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
    assert all(found.errors.median_ape < 0.01 for found in report.made.sets.values())


def test_the_range_of_a_parameter_holds_its_value(whole: tuple[CalibrationReport, Path]) -> None:
    values = [one for found in whole[0].made.sets.values() for one in found.values.values()]
    fitted = [one for one in values if one.low is not None and one.high is not None]
    assert fitted
    assert all(one.low <= one.value <= one.high for one in fitted)  # type: ignore[operator]
    assert all(one.why for one in values if one.low is None)


def test_the_file_loads_and_estimates_say_where_it_was_measured(whole: tuple[CalibrationReport, Path]) -> None:
    report, folder = whole
    (path,) = report.written
    assert path == folder / "config" / "gpuplan" / "measured" / "h200-sxm-141gb.yaml"
    spec = load_spec(Measured, path)
    assert spec.machine is not None
    assert spec.machine.driver == "570.1"
    assert spec.machine.state["clock"].high == "1980 MHz"
    catalog = Catalog([shipped_folder(), folder / "config" / "gpuplan"])
    hw = hardware_of(here("h200-sxm-141gb", catalog), catalog=catalog)
    assert hw.parameter("matmul.bf16.efficiency").value == pytest.approx(TRUTH["matmul.bf16.efficiency"], rel=0.03)
    texts = [note.text for note in hw.notes]
    said = next(text for text in texts if text.startswith("kernel parameters measured on this machine by gpuplan calibrate: "))
    assert "2026-11-21, 570.1, fake, GPU-0, power limit 700 W; ranges are those of its kernels around the fit: matmul 0.9" in said
    assert hw.parameter("grouped.bf16.efficiency").value == pytest.approx(TRUTH["grouped.bf16.efficiency"], rel=0.03)
    residual = spec.residual["matmul"]
    assert hw.parameter("matmul_residual").spread == (residual.low.value, residual.high.value)
    assert hw.parameter("grouped_residual").spread == (spec.residual["grouped"].low.value, spec.residual["grouped"].high.value)
    assert not any("edited" in text for text in texts)


def test_engines_take_what_was_measured_of_the_kernels_that_they_leave_to_pytorch(whole: tuple[CalibrationReport, Path]) -> None:
    _, folder = whole
    catalog = Catalog([shipped_folder(), folder / "config" / "gpuplan"])
    for engine in ("vllm", "sglang"):
        hw = hardware_of(here("h200-sxm-141gb", catalog), catalog=catalog, engine=engine)
        shipped = hardware_of(parse_target("h200-sxm-141gb", PLAIN), catalog=PLAIN, engine=engine)
        assert hw.parameter("matmul.bf16.efficiency").value == pytest.approx(TRUTH["matmul.bf16.efficiency"], rel=0.03)
        for own in ("matmul.fp8_block.efficiency", "grouped.fp8_block.efficiency"):
            assert hw.parameter(own).value == shipped.parameter(own).value
        assert any(f"kernels that {engine} has of its own are those of the shipped file" in note.text for note in hw.notes)


def test_what_was_not_measured_comes_from_the_shipped_file(whole: tuple[CalibrationReport, Path]) -> None:
    _, folder = whole
    catalog = Catalog([shipped_folder(), folder / "config" / "gpuplan"])
    with_it = hardware_of(here("8xh200-sxm-141gb", catalog), catalog=catalog)
    shipped = hardware_of(parse_target("8xh200-sxm-141gb", PLAIN), catalog=PLAIN)
    name = next(name for name in shipped.parameters if name.endswith("all_reduce.full"))
    assert with_it.parameter(name).value == shipped.parameter(name).value


def test_collectives_of_several_ranks(tmp_path: Path) -> None:
    report = run(tmp_path, ranks=8, kinds=("collective", "transfer", "launch", "graph"))
    spec = load_spec(Measured, report.written[0])
    assert spec.collective is not None
    assert spec.machine is not None
    assert spec.machine.ranks is not None
    assert spec.machine.ranks.value == 8
    truth = hardware_of(parse_target("8xh200-sxm-141gb", PLAIN), catalog=PLAIN)
    level = truth.levels[0].name
    for kind in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all"):
        found = report.made.sets[f"collective.{kind}"]
        assert found.errors.median_ape < 0.01
        assert found.values["start"].value == pytest.approx(truth.parameter(f"fabric.{level}.{kind}.start").value, rel=0.03)
        assert found.values["full"].value == pytest.approx(truth.parameter(f"fabric.{level}.{kind}.full").value, rel=0.03)
    assert spec.launch is not None
    assert spec.launch.graph.value == pytest.approx(GRAPH, rel=0.03)


def test_norms_and_activations_have_a_say_in_what_streams_take(tmp_path: Path) -> None:
    report = run(tmp_path, slow_norms=1.4, kinds=STREAMS)
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
            assert found.errors.median_ape < 0.02, f"{place}.{kind}"
            for key in ("start", "full"):
                told = truth.parameter(f"fabric.{level}.{kind}.{key}").value
                assert found.values[key].value == pytest.approx(told, rel=0.03), (place, kind, key)
    told = truth.parameter(f"fabric.{far}.transfer.pair").value
    assert report.made.sets["network.transfer"].values["pair"].value == pytest.approx(told, rel=0.03)
    catalog = Catalog([shipped_folder(), tmp_path / "config" / "gpuplan"])
    hw = hardware_of(here("32xh200-sxm-141gb", catalog), catalog=catalog)
    written = load_spec(Measured, report.written[0])
    assert written.network is not None
    assert hw.parameter(f"fabric.{far}.all_reduce.full").value == written.network.all_reduce.full.value
    assert any("measured on this machine by gpuplan calibrate" in note.text for note in hw.notes)


def test_collectives_of_an_unknown_device_give_it_links(tmp_path: Path) -> None:
    report = run(tmp_path, ranks=4, name="NVIDIA X9000", kinds=("matmul", "stream", "collective", "transfer"))
    assert "collective.all_reduce" in report.made.sets
    catalog = Catalog.open(env={"XDG_CONFIG_HOME": str(tmp_path / "config")})
    hw = hardware_of(parse_target("4xx9000", catalog), catalog=catalog)
    assert hw.levels[0].bandwidth_per_direction.source.kind == "measured"
    spec = load_spec(Measured, next(path for path in report.written if path.parent.name == "measured"))
    assert spec.collective is not None
    assert hw.parameter(f"fabric.{hw.levels[0].name}.all_reduce.full").value == spec.collective.all_reduce.full.value


def test_an_edited_file_is_still_used_and_told(whole: tuple[CalibrationReport, Path], tmp_path: Path) -> None:
    _, folder = whole
    text = (folder / "config" / "gpuplan" / "measured" / "h200-sxm-141gb.yaml").read_text()
    (tmp_path / "measured").mkdir()
    (tmp_path / "measured" / "h200-sxm-141gb.yaml").write_text(text.replace("tile_m: {value: 64", "tile_m: {value: 32", 1))
    catalog = Catalog([shipped_folder(), tmp_path])
    hw = hardware_of(here("h200-sxm-141gb", catalog), catalog=catalog)
    assert hw.parameter("matmul.bf16.tile_m").value == 32
    assert any(note.code == "hw.measured-edited" and str(tmp_path) in note.text for note in hw.notes)


def test_an_unknown_device_gets_a_spec_from_what_was_measured(tmp_path: Path) -> None:
    report = run(tmp_path, name="NVIDIA X9000", kinds=RATES)
    assert [path.name for path in report.written] == ["x9000.yaml", "x9000.yaml"]
    catalog = Catalog.open(env={"XDG_CONFIG_HOME": str(tmp_path / "config")})
    hw = hardware_of(parse_target("x9000", catalog), catalog=catalog)
    assert hw.family == "hopper"
    assert hw.peaks["bf16"].source.kind == "measured"
    again = run(tmp_path, name="NVIDIA X9000", kinds=RATES)
    assert again.plan.subject.spec is None


def test_an_unknown_processor_takes_the_family_of_its_kind(tmp_path: Path) -> None:
    name = "Ampersand Octocore 9000 CPU @ 2.00GHz"
    report = run(tmp_path, name=name, architecture="x86_64", units=8, memory=32e9, kinds=RATES)
    assert report.plan.subject.id == "cpu-ampersand-octocore-9000-8c"
    assert report.plan.subject.family == "x86"
    assert report.usable_as == "cpu-ampersand-octocore-9000-8c"


def test_a_part_of_a_gpu_is_not_taken_for_the_whole(tmp_path: Path) -> None:
    report = run(tmp_path, units=32, kinds=RATES)
    assert report.plan.subject.id == "h200-32u"
    assert report.plan.subject.family == "hopper"


def test_few_rows_leave_parameters_with_the_family(tmp_path: Path) -> None:
    from gpuplan.calibrate.cross_fit import cross_fit
    from gpuplan.calibrate.measure.cases import cases
    from gpuplan.calibrate.measure.measured_subject import ground_of

    report = run(tmp_path, kinds=("matmul",))
    matmuls = [sample for key, sample in report.run.samples.items() if key.startswith("matmul:bf16")][:9]
    (case,) = cases(matmuls, ground_of(report.plan.subject, matmuls, PLAIN), "x")
    values = cross_fit(case).values
    assert values["tail"].why == "too few rows to fit it"
    assert sum(one.low is not None for one in values.values()) <= 3


def test_launches_alone_are_worth_a_file(tmp_path: Path) -> None:
    spec = load_spec(Measured, run(tmp_path, kinds=("launch", "graph")).written[0])
    assert spec.launch is not None
    assert spec.launch.eager.value == pytest.approx(LAUNCH, rel=0.03)


def test_places(tmp_path: Path) -> None:
    device = Fake(troubles=Troubles(name="NVIDIA X9000"))
    wish = CalibrationWish(extent="quick", today=TODAY, version="0", env={"HOME": str(tmp_path)})
    catalog = Catalog([shipped_folder()])
    beside = replace(wish, out=tmp_path / "mine.yaml", kinds=("stream", "matmul"))
    report = calibrate(device, plan(device, beside, catalog, Listener()), beside, catalog, Listener())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine-accelerator.yaml", "mine.jsonl", "mine.yaml"]
    assert report.usable_as == ""
    assert session.target(tmp_path / "specs", "x", {}) == tmp_path / "specs" / "measured" / "x.yaml"
