"""`gpuplan specs probe`: captured outputs of drivers in, named specs and drafts out, which `check` refuses until filled in."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from gpuplan.check.examine import check
from gpuplan.cli.main import run
from gpuplan.errors import UnknownError, UsageError
from gpuplan.files.write import write_all as write_new
from gpuplan.probe.host import CommandOutput, Host, ReportedDevice
from gpuplan.probe.match import matching_spec
from gpuplan.probe.survey import Survey, survey
from gpuplan.specs.accelerator import Accelerator
from gpuplan.specs.base import load_spec
from gpuplan.specs.catalog import Catalog
from gpuplan.specs.on import parse_target

SAID = Path(__file__).parent / "probe_said"
TODAY = "2026-11-21"


class Pretended(Host):
    """A host whose programs print captured texts; a program is named by its first words."""

    def __init__(
        self,
        programs: dict[str, str | CommandOutput],
        files: dict[str, str] | None = None,
        env: dict[str, str] | None = None,
        devices: list[str] | None = None,
    ) -> None:
        self.programs, self.files, self.env, self.devices = programs, files or {}, env or {}, devices or []

    def run(self, *command: str) -> CommandOutput | None:
        line = " ".join(command)
        for start, said in self.programs.items():
            if line.startswith(start):
                return said if isinstance(said, CommandOutput) else CommandOutput(0, (SAID / said).read_text())
        return None if command[0] not in {start.split()[0] for start in self.programs} else CommandOutput(2, "", "no such thing")

    def read(self, path: str) -> str:
        return (SAID / self.files[path]).read_text() if path in self.files else ""

    def paths(self, pattern: str) -> list[str]:
        return [path for path in self.devices if path.startswith(pattern.partition("[")[0])]


EPYC = {"lscpu": "epyc.lscpu"}
MEMORY = {"/proc/meminfo": "epyc.meminfo"}
H100 = {"nvidia-smi -q -x": "h100.xml", "nvidia-smi --query-gpu": "h100.csv", "nvidia-smi nvlink": "h100.nvlink"}


def looked(host: Host) -> Survey:
    return survey(host, Catalog.open(env={}), TODAY)


def codes(made: Survey) -> list[str]:
    return [note.code for note in made.notes]


def written(made: Survey, folder: Path) -> list[Path]:
    paths = {folder / draft.place: draft.text for draft in made.drafts}
    write_new(paths)
    return list(paths)


def test_h100s_are_known_and_what_differs_is_told() -> None:
    made = looked(Pretended(H100 | EPYC, MEMORY))
    assert [(count, ident, there) for _, count, ident, there in made.found] == [(2, "h100-sxm-80gb", True)]
    assert made.on == "2xh100-sxm-80gb"
    assert parse_target(made.on, Catalog.open(env={})).count == 2
    texts = [note.text for note in made.notes]
    assert codes(made) == ["probe.power", "probe.pcie", "probe.home"]
    assert "those of dgx-h100" in texts[2]
    assert "set to 500.00 W, the spec h100-sxm-80gb has 700 W" in texts[0]
    assert "runs on 8 lanes of PCIe, the spec h100-sxm-80gb has 16" in texts[1]
    assert [draft.place for draft in made.drafts] == ["systems/node-2x-h100-sxm-80gb.yaml"]
    assert "vcpus: 384, memory: 1511.5 GiB" in made.drafts[0].text
    assert "6 links of 26.562 GB/s" in made.drafts[0].text


def test_an_old_driver_that_only_the_query_works_with() -> None:
    programs: dict[str, str | CommandOutput] = {
        "nvidia-smi -q -x": CommandOutput(9, "", "broken"),
        "nvidia-smi --query-gpu": "h100.csv",
    }
    made = looked(Pretended(programs | EPYC, MEMORY))
    device, count, ident, there = made.found[0]
    assert (count, ident, there) == (2, "h100-sxm-80gb", True)
    assert (device.memory, device.compute_capability, device.pcie_gen) == ("81559 MiB", "9.0", 5)


def test_mig_is_told() -> None:
    made = looked(Pretended({"nvidia-smi -q -x": "a100-mig.xml"} | EPYC, MEMORY))
    assert made.found[0][2:] == ("a100-sxm-80gb", True)
    assert codes(made) == ["probe.mig"]
    assert "2: 3g.40gb (42 SMs and 40192 MiB); 1g.10gb (14 SMs and 9728 MiB)" in made.notes[0].text
    assert made.drafts[0].left == 0


@pytest.mark.parametrize(
    ("command", "file", "count"), [("amd-smi static", "mi300x.amd-smi.json", 1), ("rocm-smi", "mi300x.rocm-smi.json", 2)]
)
def test_mi300x(command: str, file: str, count: int) -> None:
    made = looked(Pretended({command: file} | EPYC, MEMORY))
    device, many, ident, there = made.found[0]
    assert (many, ident, there) == (count, "mi300x", True)
    assert set(codes(made)) <= {"probe.home"}
    assert device.memory in ("196592 MiB", "206141652992 B")


def test_amd_smi_in_the_form_of_newer_releases_and_a_partition() -> None:
    old = json.loads((SAID / "mi300x.amd-smi.json").read_text())
    old[0]["asic"]["market_name"] = "AMD Instinct MI300X VF"
    old[0]["vram"]["size"]["value"] = 24574
    old[0]["asic"]["num_compute_units"] = "38"
    made = looked(Pretended({"amd-smi static": CommandOutput(0, json.dumps({"gpu_data": old}))} | EPYC))
    assert made.found[0][2:] == ("mi300x", True)
    assert codes(made) == ["probe.memory", "probe.units"]


FILLED = {
    "architecture": "Newton", "family": "newton", "released": "2027-03", "confidence": "medium",
    "title": "NVIDIA X900 datasheet", "url": "https://example.com/x900", "checked": "2026-11-20",
    "capacity": "288 GiB", "type": "HBM4", "bandwidth": "13 TB/s", "kind": "NVLink 6", "topology": "switched",
    "bandwidth_per_direction": "1.8 TB/s", "domain": "72", "layout": "rack", "count": "192", "fp8": "5 PFLOP/s",
    "name": "nvlink6",
}  # fmt: skip


def test_a_gpu_that_nobody_knows_becomes_a_draft_that_is_refused_until_filled_in(tmp_path: Path) -> None:
    made = looked(Pretended({"nvidia-smi -q -x": "future.xml"} | EPYC, MEMORY))
    assert made.found[0][1:] == (4, "x900-sxm7-288gb", False)
    assert made.on == ""
    chip, node = written(made, tmp_path)
    assert chip == tmp_path / "accelerators/nvidia/x900-sxm7-288gb.yaml"
    assert node == tmp_path / "systems/node-4x-x900-sxm7-288gb.yaml"
    findings = check([tmp_path])
    assert {found.code for found in findings} == {"spec.fill-in"}
    assert len(findings) == sum(draft.left for draft in made.drafts) > 10
    assert any(found.message == "fill this in: `memory.bandwidth`" for found in findings)
    assert all(re.search(r"\.yaml:\d+$", found.where) for found in findings)
    for path in (chip, node):
        text = path.read_text().replace('fp32: "?", bf16: "?"}', "fp32: 256, bf16: 6200}")
        text = re.sub(r'(fp32): "\?"', r"\1: 103.2 TFLOP/s", text)
        text = re.sub(r'(bf16|fp16): "\?"', r"\1: 2500 TFLOP/s", text)
        path.write_text(re.sub(r'(\w+): "\?"', lambda found: f"{found[1]}: {FILLED[found[1]]}", text))
    assert [found for found in check([tmp_path]) if found.severity == "error"] == []
    spec = load_spec(Accelerator, chip)
    assert (spec.usable_memory().text, spec.power.value if spec.power else 0) == ("289000 MiB", 1400)
    assert spec.pcie is not None
    assert spec.pcie.bandwidth_per_direction.text == "63 GB/s"
    catalog = Catalog.open([tmp_path], env={})
    assert parse_target("node-4x-x900-sxm7-288gb", catalog).count == 4
    assert catalog.find("accelerators", "NVIDIA X900 SXM7 288GB").id == spec.id


def test_a_capability_on_record_gives_the_family() -> None:
    csv = (SAID / "h100.csv").read_text().replace("NVIDIA H100 80GB HBM3", "NVIDIA H177")
    made = looked(Pretended({"nvidia-smi -q -x": CommandOutput(9, ""), "nvidia-smi --query-gpu": CommandOutput(0, csv)} | EPYC))
    assert "family: hopper # as other parts of compute capability 9.0" in made.drafts[0].text


def test_every_string_of_a_driver_on_record_is_known() -> None:
    catalog = Catalog.open(env={})
    for path in catalog.paths("accelerators").values():
        spec = catalog.read(Accelerator, path)
        memory = f"{spec.usable_memory().value:.0f} B"
        for name in spec.driver_names:
            found = matching_spec(ReportedDevice(name=name, vendor=spec.vendor, said_by="a test", memory=memory), catalog)
            assert found is not None, name
            assert found.id == spec.id


def test_two_kinds_of_gpus_make_no_node() -> None:
    xml = (SAID / "h100.xml").read_text().replace("NVIDIA H100 80GB HBM3", "NVIDIA H200", 1)
    made = looked(Pretended({"nvidia-smi -q -x": CommandOutput(0, xml)} | EPYC))
    assert [ident for _, _, ident, _ in made.found] == ["h200-sxm-141gb", "h100-sxm-80gb"]
    assert "probe.mixed" in codes(made)
    assert "probe.memory" in codes(made)
    assert made.drafts == ()
    assert made.on == ""


def test_a_host_of_a_known_tpu_slice() -> None:
    devices = [f"/dev/accel{at}" for at in range(8)]
    made = looked(Pretended(EPYC, MEMORY, {"TPU_ACCELERATOR_TYPE": "v5litepod-8"}, devices))
    assert made.on == "tpu-v5litepod-8"
    assert made.found[0][1:] == (8, "tpu-v5e", True)
    assert made.drafts == ()


def test_a_tpu_that_nobody_knows() -> None:
    made = looked(Pretended(EPYC, MEMORY, {"TPU_ACCELERATOR_TYPE": "v99-16"}, ["/dev/vfio/0", "/dev/vfio/1"]))
    assert "probe.unknown-slice" in codes(made)
    assert made.found[0][1:] == (2, "v99-16", False)
    assert made.drafts[0].place == "accelerators/google/v99-16.yaml"


def test_processors_only() -> None:
    made = looked(Pretended(EPYC, MEMORY))
    device, count, ident, there = made.found[0]
    assert (device.name, count, ident, there) == ("AMD EPYC 9654", 2, "cpu-epyc-9654", True)
    assert "probe.cpu-only" in codes(made)


def test_a_processor_that_nobody_knows(tmp_path: Path) -> None:
    made = looked(Pretended({"lscpu": "arm.lscpu"}, MEMORY))
    assert made.found[0][2:] == ("cpu-neoverse-v9", False)
    assert made.drafts[0].place == "accelerators/arm/cpu-neoverse-v9.yaml"
    written(made, tmp_path)
    assert {found.code for found in check([tmp_path])} == {"spec.fill-in"}


def test_without_lscpu_the_kernel_is_read(tmp_path: Path) -> None:
    block = (
        "processor\t: {}\nvendor_id\t: GenuineIntel\nmodel name\t: Intel(R) Xeon(R) Platinum 8480+\n"
        "physical id\t: {}\ncpu cores\t: 1\nflags\t\t: fpu amx_bf16\n"
    )

    class Bare(Pretended):
        def read(self, path: str) -> str:
            return "\n".join(block.format(at, at) for at in range(2)) if path == "/proc/cpuinfo" else ""

    made = looked(Bare({}))
    assert made.found[0][1:3] == (2, "cpu-xeon-8480plus")


def test_a_broken_driver_is_told_and_an_empty_host_is_an_error() -> None:
    broken: dict[str, str | CommandOutput] = {
        "nvidia-smi": CommandOutput(9, "NVIDIA-SMI has failed because it couldn't communicate with the driver")
    }
    made = looked(Pretended(broken | EPYC, MEMORY))
    assert made.notes[0].text.startswith("nvidia-smi is installed but failed: NVIDIA-SMI has failed")
    with pytest.raises(UnknownError, match="says nothing"):
        looked(Pretended({}))


JUNK = [
    "",
    "No devices were found",
    "{}",
    "[]",
    '{"gpu_data": [1, {}, {"asic": "N/A"}]}',
    '{"card0": "N/A", "system": 3}',
    "<a/>",
    "a, b\n1, 2",
]


@pytest.mark.parametrize("text", JUNK)
@pytest.mark.parametrize("tool", ["nvidia-smi", "amd-smi", "rocm-smi"])
def test_what_no_tool_should_print_is_no_device(tool: str, text: str) -> None:
    made = looked(Pretended({tool: CommandOutput(0, text)} | EPYC, MEMORY))
    assert made.found[0][2] == "cpu-epyc-9654"


def test_a_host_that_only_nvidia_smi_knows() -> None:
    made = looked(Pretended({"nvidia-smi -q -x": "a100-mig.xml"}))
    assert '{title: "nvidia-smi, driver 525.147.05, on this host", kind: measured' in made.drafts[0].text
    assert "host:" not in made.drafts[0].text.replace("  host:", "")


def test_files_are_written_whole_and_not_over_others(tmp_path: Path) -> None:
    first, second = tmp_path / "a/b.yaml", tmp_path / "a/c.yaml"
    write_new({first: "1\n"})
    with pytest.raises(UsageError, match="is there already"):
        write_new({second: "2\n", first: "2\n"})
    assert first.read_text() == "1\n"
    assert not second.exists()
    write_new({first: "3\n"}, force=True)
    assert first.read_text() == "3\n"
    assert [path.name for path in first.parent.iterdir()] == ["b.yaml"]
    with pytest.raises(UsageError, match="cannot write"):
        write_new({first / "d.yaml": ""})


def test_it_runs_here(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    monkeypatch.delenv("GPUPLAN_SPECS", raising=False)
    if run(["specs", "probe", "--json"]) == 5:
        pytest.skip("this host says nothing about itself")
    said = json.loads(capsys.readouterr().out)
    assert said["accelerators"][0]["count"] >= 1
    assert run(["specs", "probe"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"# {said['accelerators'][0]['count']} x ")
    folder = tmp_path / "mine"
    assert run(["specs", "probe", "--out", str(folder)]) == 0
    kept = {path: path.read_text() for path in folder.rglob("*.yaml")}
    assert {str(path.relative_to(folder)) for path in kept} == {draft["path"] for draft in said["drafts"]}
    assert run(["specs", "probe", "--out", str(folder)]) == (2 if kept else 0)
    assert run(["specs", "probe", "--out", str(folder), "--force"]) == 0
    assert {path: path.read_text() for path in kept} == kept
    single = tmp_path / "accelerators" / "my-own.yaml"
    if kept:
        assert run(["specs", "probe", "--out", str(single)]) == 0
        assert "\nid: my-own\n" in f"\n{single.read_text()}"
        assert run(["specs", "probe", "--out", str(tmp_path / "My Own.yaml")]) == 2
