"""Does `gpuplan calibrate import` put into the measured file what was imported, and lose nothing of what was there?"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from types import SimpleNamespace

import pytest

from gpuplan.calibrate.device import Probe
from gpuplan.cli.calibrate_import_run import ImportFilesRequest, import_files
from gpuplan.errors import GpuplanError, UsageError
from gpuplan.machine.build import hardware_of
from gpuplan.machine.hardware import Hardware
from gpuplan.specs.catalog import Catalog, shipped_folder
from gpuplan.specs.measured import Measured
from gpuplan.specs.on import parse_target
from tests.calibrate.fake import seconds, truth

pytest.importorskip("scipy", reason="fits need SciPy")

ASKED = ImportFilesRequest("", (), "h200-sxm-141gb", None, None, None, None, None, (), False)
SHAPES = [
    (m, n, k)
    for m in (16, 128, 512, 2048, 8192)
    for n, k in ((1024, 4096), (4096, 4096), (8192, 2048), (4096, 14336), (28672, 8192))
]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    monkeypatch.delenv("GPUPLAN_SPECS", raising=False)
    return tmp_path


def hardware(path: Path) -> Hardware:
    catalog = Catalog([shipped_folder(), path.parent.parent])
    catalog.calibrated = True
    return hardware_of(parse_target("8xh200-sxm-141gb", catalog), catalog=catalog)


def mamf(folder: Path, name: str = "mamf.txt", factor: float = 1.0) -> str:
    """What mamf-finder would print on the machine of `fake.truth`."""
    lines = ["python mamf-finder.py --dtype bfloat16"]
    for at, (m, n, k) in enumerate(SHAPES):
        taken = factor * seconds(Probe(kind="matmul", shape={"m": float(m), "n": float(n), "k": float(k), "batch": 1.0}), truth())
        lines.append(f"{at + 1:>6} | {2 * m * n * k / taken / 1e12:.3f} TFLOPS @ {m}x{n}x{k} | best: 1.0 TFLOPS @ 1x1x1 (MxNxK)")
    (folder / name).write_text("\n".join(lines))
    return str(folder / name)


def nccl(folder: Path) -> str:
    """What all_reduce_perf would print on the same machine."""
    lines = ["# Collective test starting: all_reduce_perf"]
    lines += [f"#  Rank  {rank} Group  0 Pid 1 on node device  {rank} [0000:18:00] NVIDIA H200" for rank in range(8)]
    lines += ["#       size         count      type   redop    root     time   algbw   busbw  #wrong"]
    for power in range(10, 33):
        taken = seconds(Probe(kind="collective", name="all_reduce", shape={"size": 2.0**power, "group": 8.0}), truth())
        lines.append(f"{2**power} {2**power // 4} float sum -1 {1.05e6 * taken:.2f} 1.0 1.0 0")
    (folder / "all_reduce.txt").write_text("\n".join(lines))
    return str(folder / "all_reduce.txt")


def nccl_hosts(folder: Path, near: int, factor: float = 1.0) -> str:
    """What all_reduce_perf would print on two hosts of the same machine, on `near` ranks of each."""
    lines = ["# Collective test starting: all_reduce_perf"]
    lines += [
        f"#  Rank  {rank} Group  0 Pid 1 on node-{rank // near} device  {rank % near} [0000:18:00] NVIDIA H200"
        for rank in range(2 * near)
    ]
    lines += ["#       size         count      type   redop    root     time   algbw   busbw  #wrong"]
    for power in range(10, 33):
        shape = {"size": 2.0**power, "group": 2.0 * near, "stride": 8.0 / near}
        taken = factor * seconds(Probe(kind="collective", name="all_reduce", shape=shape), truth(16))
        lines.append(f"{2**power} {2**power // 4} float sum -1 {1e6 * taken:.2f} 1.0 1.0 0")
    (folder / f"hosts{near}.txt").write_text("\n".join(lines))
    return str(folder / f"hosts{near}.txt")


@pytest.mark.parametrize(("near", "factor"), [(8, 1.0), (4, 1.4), (1, 1.4)])
def test_collectives_over_hosts_tell_of_the_network(
    home: Path, near: int, factor: float, capsys: pytest.CaptureFixture[str]
) -> None:
    out = home / "specs" / "measured" / "h200-sxm-141gb.yaml"
    asked = dataclasses.replace(ASKED, kind="nccl-tests", out=str(out), accelerator=None)
    import_files(dataclasses.replace(asked, files=(nccl_hosts(home, near, factor),)))
    assert "network.all_reduce" in capsys.readouterr().out
    catalog = Catalog([shipped_folder(), out.parent.parent], calibrated=True)
    made = hardware_of(parse_target("16xh200-sxm-141gb", catalog), catalog=catalog)
    for power in (14, 22, 31):
        shape = {"size": 2.0**power, "group": 2.0 * near, "stride": 8.0 / near}
        probe = Probe(kind="collective", name="all_reduce", shape=shape)
        assert seconds(probe, made) == pytest.approx(factor * seconds(probe, truth(16)), rel=0.12)
    inside = Probe(kind="collective", name="all_reduce", shape={"size": 2.0**28, "group": 8.0})
    assert seconds(inside, made) == pytest.approx(seconds(inside, truth(16)), rel=1e-6), "the links inside were not measured"
    assert "network" in Catalog([shipped_folder()]).read(Measured, out).field_names()


def test_hosts_that_no_known_machine_has_are_told(home: Path) -> None:
    asked = dataclasses.replace(ASKED, kind="nccl-tests", files=(nccl_hosts(home, 5),), accelerator=None)
    with pytest.raises(UsageError, match="5 ranks on each host, but a machine of NVIDIA H200 SXM has 8"):
        import_files(asked)
    with pytest.raises(UsageError, match="it is 8 x h200-sxm-141gb"):
        import_files(dataclasses.replace(asked, files=(nccl_hosts(home, 8),), accelerator="8xh200-sxm-141gb"))


def test_matmuls_are_fitted_and_used(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import_files(dataclasses.replace(ASKED, kind="mamf-finder", files=(mamf(home),)))
    said = capsys.readouterr().out
    path = home / "xdg_config_home" / "gpuplan" / "measured" / "h200-sxm-141gb.yaml"
    assert f"wrote {path}: {len(SHAPES)} rows" in said
    assert "estimates for --on h200-sxm-141gb use it with --calibrated" in said
    made, true = hardware(path), truth()
    for m, n, k in SHAPES:
        probe = Probe(kind="matmul", shape={"m": float(m), "n": float(n), "k": float(k), "batch": 1.0})
        assert seconds(probe, made) == pytest.approx(seconds(probe, true), rel=0.05)
    shipped = hardware_of(parse_target("8xh200-sxm-141gb", Catalog([shipped_folder()])), catalog=Catalog([shipped_folder()]))
    assert any("kernel parameters taken from what was imported by gpuplan calibrate" in note.text for note in made.notes)
    fp8 = "matmul.fp8.efficiency"
    assert made.parameters[fp8].value == shipped.parameters[fp8].value
    assert "mamf-finder: mamf.txt" in made.parameters["matmul.bf16.efficiency"].source.title
    assert len((path.parent / "h200-sxm-141gb.points.jsonl").read_text().splitlines()) == len(SHAPES)


def test_a_second_import_keeps_the_first(home: Path) -> None:
    out = home / "specs" / "measured" / "h200-sxm-141gb.yaml"
    asked = dataclasses.replace(ASKED, out=str(out))
    import_files(dataclasses.replace(asked, kind="mamf-finder", files=(mamf(home),)))
    matmuls = Catalog([shipped_folder()]).read(Measured, out).matmul
    import_files(dataclasses.replace(asked, kind="nccl-tests", files=(nccl(home),), accelerator=None))
    both = Catalog([shipped_folder()]).read(Measured, out)
    assert both.matmul == matmuls
    assert both.collective is not None
    made = hardware(out)
    for size in (2.0**20, 2.0**28):
        probe = Probe(kind="collective", name="all_reduce", shape={"size": size, "group": 8.0})
        assert seconds(probe, made) == pytest.approx(1.05 * seconds(probe, truth()), rel=0.08)
    assert both.machine is not None
    assert [one.split(" imported")[0].split(": ")[1] for one in both.machine.warnings] == [
        "mamf-finder mamf.txt",
        "nccl-tests all_reduce.txt",
    ]
    gathered = "fabric.scale-up.all_gather.full"
    before = hardware_of(parse_target("8xh200-sxm-141gb", Catalog([shipped_folder()])), catalog=Catalog([shipped_folder()]))
    name = next((key for key in made.parameters if key.endswith("all_gather.full")), gathered)
    assert made.parameters[name].value == pytest.approx(before.parameters[name].value, rel=1e-3)
    assert not [note for note in made.notes if note.code == "hw.measured-edited"]


def test_the_same_file_again_changes_nothing(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = home / "specs" / "measured" / "h200-sxm-141gb.yaml"
    asked = dataclasses.replace(ASKED, kind="mamf-finder", out=str(out))
    import_files(dataclasses.replace(asked, files=(mamf(home),)))
    points, before = out.with_suffix(".points.jsonl").read_text(), out.read_text()
    import_files(dataclasses.replace(asked, files=(mamf(home),)))
    assert out.with_suffix(".points.jsonl").read_text() == points
    assert out.read_text() == before
    assert "the present parameters stay" in capsys.readouterr().out


def test_rates_of_copies_leave_the_start_of_a_copy(home: Path) -> None:
    (home / "nv.txt").write_text(
        "Device 0: NVIDIA H200 (00000000:18:00)\n\nRunning host_to_device_memcpy_ce.\nmemcpy CE CPU(row) -> GPU(column) bandwidth "
        "(GB/s)\n           0\n 0     55.40\n\nSUM host_to_device_memcpy_ce 55.40\n"
    )
    out = home / "specs" / "measured" / "h200-sxm-141gb.yaml"
    before = hardware_of(parse_target("h200-sxm-141gb", Catalog([shipped_folder()])), catalog=Catalog([shipped_folder()]))
    import_files(dataclasses.replace(ASKED, kind="nvbandwidth", files=(str(home / "nv.txt"),), out=str(out), accelerator=None))
    made = hardware(out)
    assert made.host_link is not None
    assert made.parameters["host.efficiency"].value == pytest.approx(55.4e9 / float(made.host_link.value), rel=1e-3)  # type: ignore[arg-type]
    assert made.parameters["host.launch"].value == pytest.approx(before.parameters["host.launch"].value, rel=1e-3)


def test_too_few_rows_say_so_and_write_nothing(home: Path) -> None:
    (home / "few.txt").write_text("1 | 600.0 TFLOPS @ 4096x4096x4096\n")
    with pytest.raises(UsageError, match=r"matmul\.bf16: only 1 trustworthy rows"):
        import_files(dataclasses.replace(ASKED, kind="mamf-finder", files=(str(home / "few.txt"),), dtype="bf16"))
    assert not (home / "xdg_config_home").exists()


def test_a_full_disk_leaves_what_was_there(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = home / "specs" / "measured" / "h200-sxm-141gb.yaml"
    asked = dataclasses.replace(ASKED, kind="mamf-finder", out=str(out))
    import_files(dataclasses.replace(asked, files=(mamf(home),)))
    before = out.read_text()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(UsageError, match="No space left"):
        import_files(dataclasses.replace(asked, kind="nccl-tests", files=(nccl(home),)))
    assert out.read_text() == before


def test_who_the_device_is_must_be_known(home: Path) -> None:
    asked = dataclasses.replace(ASKED, kind="mamf-finder", files=(mamf(home),), accelerator=None)
    with pytest.raises(UsageError, match="--accelerator"):
        import_files(asked)
    with pytest.raises(GpuplanError, match="acme-1"):
        import_files(dataclasses.replace(asked, accelerator="acme-1"))
    with pytest.raises(UsageError, match="cannot read"):
        import_files(dataclasses.replace(asked, files=(str(home / "none.txt"),)))


def test_tables_go_to_the_command_that_fits_them(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from gpuplan.cli import calibrate_fit_run

    asked = dataclasses.replace(ASKED, kind="aiconfigurator", files=("h100_sxm",))
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(UsageError, match="pip install aiconfigurator-core"):
        import_files(asked)
    package = SimpleNamespace(submodule_search_locations=[str(home)])
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: package)
    seen: list[calibrate_fit_run.FitTablesRequest] = []
    monkeypatch.setattr(calibrate_fit_run, "fit_tables", seen.append)
    import_files(asked)
    assert (seen[0].source, seen[0].system) == (str(home / "systems" / "data"), "h100_sxm")


def test_a_later_calibration_keeps_what_was_imported(home: Path) -> None:
    from gpuplan.calibrate.imports.merge import with_earlier

    out = home / "specs" / "measured" / "h200-sxm-141gb.yaml"
    asked = dataclasses.replace(ASKED, out=str(out))
    import_files(dataclasses.replace(asked, kind="nccl-tests", files=(nccl(home),)))
    fresh = home / "fresh" / "measured" / "h200-sxm-141gb.yaml"
    import_files(dataclasses.replace(asked, kind="mamf-finder", files=(mamf(home),), out=str(fresh)))
    before, text = Catalog([shipped_folder()]).read(Measured, out), fresh.read_text()
    assert with_earlier(text, home / "none.yaml") == text
    out.write_text(with_earlier(text, out))
    made = Catalog([shipped_folder()]).read(Measured, out)
    assert made.collective is not None
    assert before.collective is not None
    assert made.collective.all_reduce.pair.value == before.collective.all_reduce.pair.value
    assert made.matmul == Catalog([shipped_folder()]).read(Measured, fresh).matmul
    assert made.machine is not None
    assert "kept from the file before" in made.machine.warnings[-1]


def test_what_is_faster_than_the_hardware_is_refused_and_nothing_is_written(home: Path) -> None:
    out = home / "specs" / "measured" / "h200-sxm-141gb.yaml"
    asked = dataclasses.replace(ASKED, out=str(out))
    with pytest.raises(UsageError, match=r"mamf\.txt:\d+: .*FLOP/s is above the peak of bf16, 989"):
        import_files(dataclasses.replace(asked, kind="mamf-finder", files=(mamf(home, factor=0.1),)))
    table = Path(nccl(home)).read_text().replace(" 1.0 1.0 0", " 45000.0 45000.0 0")
    (home / "fast.txt").write_text("\n".join(_hundredth(line) for line in table.splitlines()))
    with pytest.raises(UsageError, match=r"fast\.txt:\d+: .*B/s is above what a link carries, 450 GB/s"):
        import_files(dataclasses.replace(asked, kind="nccl-tests", files=(str(home / "fast.txt"),)))
    rates = "Running host_to_device_memcpy_ce.\n 0\n 0 5540.0\n"
    (home / "copies.txt").write_text(rates)
    with pytest.raises(UsageError, match=r"5\.54 TB/s to the accelerator is above what the link carries"):
        import_files(dataclasses.replace(asked, kind="nvbandwidth", files=(str(home / "copies.txt"),)))
    assert not out.parent.exists()


def _hundredth(line: str) -> str:
    """A row of nccl-tests with a hundredth of its time."""
    words = line.split()
    return line if line.startswith("#") else " ".join([*words[:5], f"{float(words[5]) / 100:.4f}", *words[6:]])


def test_rows_that_no_kernel_can_have_together_are_not_believed(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = Path(nccl(home)).read_text().splitlines()
    for at in range(10, len(lines)):
        words = lines[at].split()
        words[5] = f"{float(words[5]) * (1 if at % 2 else 9):.2f}"
        lines[at] = " ".join(words)
    (home / "all_reduce.txt").write_text("\n".join(lines))
    with pytest.raises(UsageError, match="not believed: every second shape is off by"):
        import_files(dataclasses.replace(ASKED, kind="nccl-tests", files=(str(home / "all_reduce.txt"),)))
    import_files(dataclasses.replace(ASKED, kind="nccl-tests", files=(nccl(home),), out=str(home / "good.yaml")))
    assert "90 % below" in capsys.readouterr().out
