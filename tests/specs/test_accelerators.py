"""The accelerator files: all load, agree with the table that they were made from, and bad ones are refused."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuplan.errors import Exit, SpecError, UnknownError
from gpuplan.specs.accelerator import RATE_NAMES, Accelerator
from gpuplan.specs.base import load_spec
from gpuplan.specs.catalog import Catalog, shipped_folder
from gpuplan.specs.quantity import Sourced
from tests.sweeps import each

ROOT = Path(__file__).parents[2]
TABLE = ROOT.parent / "shared" / "data" / "accelerators.yaml"
FILES = sorted((shipped_folder() / "accelerators").rglob("*.yaml"))


@cache
def loaded(path: Path) -> Accelerator:
    return load_spec(Accelerator, path)


def test_there_are_many() -> None:
    assert len(FILES) >= 220


@each("path", FILES)
def test_loads_and_every_value_has_its_own_source_or_none(path: Path) -> None:
    spec = loaded(path)
    assert path.parent.name == spec.vendor
    assert path.read_text().startswith("# yaml-language-server: $schema=../../schema/accelerator.schema.json\nformat: 1\n")
    assert spec.dtypes()
    for name, value in spec.values():
        source = spec.source_of(value)
        if not value.source:
            assert (source.kind, source.title) == ("assumed", "source not on record"), name
            continue
        assert (source.title, source.checked) == (spec.sources[value.source].title, spec.sources[value.source].checked), name
        assert source.url.startswith("https://") or source.kind in {"derived", "assumed"}, name
    memory = spec.term("hw.memory", spec.usable_memory())
    assert memory.unit == "B"
    assert memory.source.note.startswith("printed as")


@cache
def table() -> dict[str, Any]:
    return yaml.load(TABLE.read_text(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # type: ignore[no-any-return]


def agree(ours: Sourced | None, theirs: float | None, scale: float, accept: list[float] | None) -> bool:
    if ours is None or theirs is None:
        return ours is None and theirs is None
    low, high = accept or (theirs * 0.975, theirs * 1.025)
    return low * 0.999 <= ours.value / scale <= high * 1.001


# Where a file says other than the table, and why the file is right.
EXCEPTIONS = {
    (name, "memory_reported"): "the table has none; the total of nvidia-smi was found, with its source"
    for name in (
        "k80-die", "v100-pcie-32gb", "rtx-3060-12gb", "rtx-3090", "rtx-4090", "rtx-5090", "h100-nvl-94gb", "a40", "rtx-6000-ada",
        "rtx-4060-ti-16gb",
    )
} | {("gaudi2", "memory_reported"): "the table has none; what programs are told was found, with its source"}  # fmt: skip
EXCEPTIONS |= {(name, "fp64"): "the table has 1/32 of FP32, NVIDIA's programming guide 1/64" for name in ("a10", "a16-gpu")}
EXCEPTIONS[("h20-96gb", "tdp_w")] = (
    "the table has the 400 W of before its launch; the cards in use are held to 500 W, as NVIDIA's DCGM expects"
)
# Keys of a row that hold no value of the accelerator, or one that the files carry as a note or in `system` files.
PROSE = {
    "accept", "architecture", "audited", "confidence", "conflicts", "form_factor", "name", "notes", "release_year", "sources",
    "unit", "unverified", "vendor", "dla", "host_memory", "network", "measured_power_w", "cmem_mib", "vmem_mib_per_core",
    "tensorcores_per_chip", "neuroncores",
}  # fmt: skip


def compared(spec: Accelerator, row: dict[str, Any]) -> Iterator[tuple[str, Sourced | None, float | None, float]]:
    """Each value of a row as (key, ours, theirs, the unit of theirs), for the keys that are numbers."""
    memory, link, pcie, units = spec.memory, spec.scale_up, spec.pcie, spec.units
    for name in RATE_NAMES:
        yield name, getattr(spec.compute_dense, name), row["dense_tflops"][name], 1e12
    yield "memory_bandwidth_gb_s", memory.bandwidth, row["memory_bandwidth_gb_s"], 1e9
    yield "memory_bus_bits", memory.bus_bits, row.get("memory_bus_bits"), 1
    yield "memory_gbps_per_pin", memory.pin_rate, row.get("memory_gbps_per_pin"), 1e9 / 8
    in_mib = row.get("memory_reported_mib")
    yield "memory_reported", memory.capacity_reported, row.get("memory_reported_bytes") or (in_mib and in_mib * 2**20), 1
    yield "tdp_w", spec.power, row["tdp_w"], 1
    for name, ours in (("l2_mib", spec.l2), ("l3_mib", spec.l3), ("infinity_cache_mib", spec.l3), ("sram_mib", spec.scratchpad)):
        if name == "l2_mib" or name in row:
            yield name, ours, row.get(name), 2**20
    links = row["scale_up"] or {}
    yield "gb_s_per_direction", link.bandwidth_per_direction if link else None, links.get("gb_s_per_direction"), 1e9
    per_link = link.link_bandwidth_per_direction if link else None
    yield "gb_s_per_link_per_direction", per_link, links.get("gb_s_per_link_per_direction"), 1e9
    yield "links", link.links if link else None, links.get("links"), 1
    yield "max_domain", link.domain if link else None, links.get("max_domain"), 1
    bus = row["pcie"] or {}
    yield "pcie.gen", pcie.gen if pcie else None, bus.get("gen"), 1
    yield "pcie.lanes", pcie.lanes if pcie else None, bus.get("lanes"), 1
    yield "pcie.gb_s_per_direction", pcie.bandwidth_per_direction if pcie else None, bus.get("gb_s_per_direction"), 1e9
    derivation = row.get("derivation") or {}
    for name in ("sm", "cu", "gpu_cores", "cores", "xe_cores"):
        if name in derivation:
            yield name, units.count if units else None, derivation[name], 1


def differences(spec: Accelerator, row: dict[str, Any]) -> Iterator[str]:
    """The keys of a row whose value the file does not have, within what the row accepts (otherwise 2.5 %)."""
    accept = row.get("accept") or {}
    for name, ours, theirs, scale in compared(spec, row):
        if not agree(ours, theirs, scale, accept.get(name)):
            yield name
    if float(spec.memory.capacity.text.split()[0]) != row["memory_gb"]:
        yield "memory_gb"
    words = (("compute_capability", "cuda_compute_capability"), ("released", "release"))
    for ours_name, name in words:
        if str(getattr(spec, ours_name))[:7] != str(row.get(name))[:7]:
            yield name
    if spec.memory.type != row["memory_type"]:
        yield "memory_type"
    options = {option.value / 2**30 for option in (*spec.memory.capacity_options, spec.memory.capacity)}
    if "memory_options_gb" in row and options != set(row["memory_options_gb"]):
        yield "memory_options_gb"
    pattern = row["sparsity"]
    if sorted(pattern["dtypes"] if pattern else ()) != sorted(spec.sparsity.dtypes if spec.sparsity else ()):
        yield "sparsity"
    others = [rate.value / 1e12 for rate in spec.other_rates.values()]
    for name, value in (row.get("dense_tflops_alt") or {}).items():
        for key, rate in value.items() if isinstance(value, dict) else [(name, value)]:
            if not key.startswith("memory_") and not any(abs(rate / other - 1) < 0.001 for other in others):
                yield f"dense_tflops_alt.{name}"


@pytest.mark.skipif(not TABLE.exists(), reason="the table of accelerator facts is not beside the checkout")
def test_every_accelerator_of_the_table_has_a_file() -> None:
    assert set(table()) <= {path.stem for path in FILES}


@pytest.mark.parametrize("path", [path for path in FILES if TABLE.exists() and path.stem in table()], ids=lambda path: path.stem)
def test_agrees_with_the_table(path: Path) -> None:
    row = table()[path.stem]
    spec = loaded(path)
    excepted = {key for name, key in EXCEPTIONS if name == spec.id}
    assert set(differences(spec, row)) == excepted
    numbers = {
        "dense_tflops", "dense_tflops_alt", "derivation", "infinity_cache_mib", "l2_mib", "l3_mib", "memory_bandwidth_gb_s",
        "memory_bus_bits", "memory_gb", "memory_gbps_per_pin", "memory_options_gb", "memory_reported_bytes", "memory_reported_mib",
        "memory_type", "memory_unit", "pcie", "release", "scale_up", "sparsity", "sram_mib", "tdp_w", "cuda_compute_capability",
    }  # fmt: skip
    assert set(row) <= numbers | PROSE, "a key of the table that nothing compares"


NAMED = [
    "rtx-3070-8gb", "rtx-4070-ti-12gb", "rtx-4000-ada-20gb", "h100-sxm-96gb-hbm2e", "mi250x-1gcd", "cpu-xeon-spr-48c", "t4g-16gb",
    "rtx-pro-4500-32gb", "radeon-mi25", "gaudi1", "gb200-192gb", "gh200-480gb", "h800-sxm5-80gb", "rtx-6000-ada-generation",
    "rtx-pro-6000-blackwell-server-96gb", "NVIDIA GeForce RTX 3080 Ti", "NVIDIA RTX A5000",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMED)
def test_names_of_measured_runs_and_clouds_are_found(name: str) -> None:
    assert Catalog.open([], {}).find("accelerators", name).path.is_file()


def test_laptop_parts_are_kept_apart() -> None:
    catalog = Catalog.open([], {})
    for number in ("3070", "3080", "4060", "4070", "4080", "4090"):
        desk = catalog.load(Accelerator, f"NVIDIA GeForce RTX {number}")
        laptop = catalog.load(Accelerator, f"NVIDIA GeForce RTX {number} Laptop GPU")
        assert laptop.id == f"rtx-{number}-laptop" != desk.id
        assert laptop.peak("bf16").value < desk.peak("bf16").value
        assert laptop.peak("bf16").accept is not None


GEFORCE = [path for path in FILES if path.stem.startswith(("rtx-20", "rtx-30", "rtx-40", "rtx-50")) and "ada" not in path.stem]


@each("path", GEFORCE)
def test_geforce_has_half_the_rate_with_32_bit_accumulation(path: Path) -> None:
    spec = loaded(path)
    if spec.name.startswith("NVIDIA GeForce"):
        assert spec.other_rates["fp16_fp16_accumulate"].value / spec.peak("fp16").value == pytest.approx(2, rel=0.005)


WITH_MIG = [path for path in FILES if "\nmig:\n" in path.read_text()]


def test_the_cards_that_have_mig_say_so() -> None:
    wanted = {
        "a100-sxm-40gb", "a100-sxm-80gb", "a100-pcie-40gb", "a100-pcie-80gb", "a800-sxm-80gb", "a30", "h100-sxm-80gb", "h20-96gb",
        "h100-pcie-80gb", "h100-nvl-94gb", "h100-sxm-96gb", "h800-sxm-80gb", "gh200-96gb", "gh200-144gb", "h200-sxm-141gb",
        "h200-nvl-141gb", "b200-sxm-180gb", "gb200-186gb", "b300-sxm-270gb", "gb300-279gb", "rtx-pro-6000-blackwell-server",
        "rtx-pro-6000-blackwell-workstation", "rtx-pro-6000-blackwell-max-q",
    }  # fmt: skip
    assert wanted <= {path.stem for path in WITH_MIG}


@each("path", WITH_MIG)
def test_mig_profiles_fit_into_their_card(path: Path) -> None:
    spec = loaded(path)
    for name, profile in spec.mig.items():
        slices, memory = name.removesuffix("gb").split("g.")
        count = profile.count.value
        assert count * profile.memory_share.value <= 1, name
        assert count * profile.compute_share.value <= 1.001, name
        assert count * profile.memory.value <= spec.memory.capacity.value, name
        assert 0.85 <= profile.memory.value / (float(memory) * 2**30) <= 1, name
        if profile.units is not None and spec.units is not None:
            assert count * profile.units.value <= spec.units.count.value, name
        whole = max(int(one.split("g.")[0]) for one in spec.mig)
        if whole in (4, 7):
            assert profile.compute_share.value == pytest.approx(int(slices) / whole, rel=0.001), name


def test_peak_of_an_unsupported_type() -> None:
    spec = loaded(next(path for path in FILES if path.stem == "a100-sxm-80gb"))
    assert spec.peak("bf16").value == 312e12
    with pytest.raises(UnknownError, match="a100-sxm-80gb has no fp8 rate") as caught:
        spec.peak("fp8")
    assert caught.value.exit_code is Exit.UNKNOWN
    assert "bf16" in caught.value.problems[0].hint
    with pytest.raises(UnknownError) as caught:
        spec.peak("bf61")
    assert caught.value.problems[0].code == "spec.unknown-dtype"
    assert "bf16" in caught.value.problems[0].hint


def test_usable_memory_is_what_the_driver_reports() -> None:
    by_id = {path.stem: path for path in FILES}
    assert loaded(by_id["h100-sxm-80gb"]).usable_memory().value == 84942979072
    nominal = loaded(by_id["mi300x"]).usable_memory()
    assert nominal.value == 192 * 2**30
    assert "not on record" in nominal.note


GOOD = """\
# yaml-language-server: $schema=../../schema/accelerator.schema.json
format: 1
id: my-gpu
name: My GPU
aliases: [mine]
vendor: nvidia
architecture: Nova
family: nova
released: "2026-01"
unit: gpu
confidence: low
sources:
  sheet: {title: A sheet, url: https://example.org/sheet, checked: 2026-11-20}
memory:
  capacity: 80 GiB
  type: HBM9
  bandwidth: 3 TB/s
compute_dense:
  bf16: 900 TFLOP/s
l2: {value: 50 MiB, source: sheet}
"""

BAD = [
    ("capacity: 80 GiB", "capacity: 80", "spec.missing-unit", 15, "`80 GB` (1e9) or `80 GiB` (2**30)"),
    ("capacity: 80 GiB", 'capacity: "80"', "spec.missing-unit", 15, "`80 GB` (1e9) or `80 GiB` (2**30)"),
    ("bandwidth: 3 TB/s", "bandwidth: 3.35 TiB", "spec.wrong-unit", 17, "write it as `3.35 TiB/s`"),
    ("capacity: 80 GiB", "capacity: 80 TB/s", "spec.wrong-unit", 15, "write it as `80 GiB`"),
    ("capacity: 80 GiB", "capacity: 80 Gb", "spec.bad-unit", 15, "GB or GiB"),
    ("capacity: 80 GiB", "capacity: -80 GiB", "spec.out-of-range", 15, "leave the key out"),
    ("capacity: 80 GiB", "capacity: 0 GiB", "spec.out-of-range", 15, "leave the key out"),
    ("capacity: 80 GiB", "capacity: 080", "yaml.trap", 15, "in quotes"),
    ("capacity: 80 GiB", "capacity: [80 GiB]", "spec.bad-quantity", 15, "write it as `80 GiB`"),
    ("capacity: 80 GiB", "capacity: {value: 80 GiB, sorce: sheet}", "spec.unknown-key", 15, "known are value, source"),
    ("capacity: 80 GiB", "capacity: {value: 80 GiB, source: shet}", "spec.unknown-source", 15, "`sheet`"),
    ("capacity: 80 GiB", "capacity: {value: 80 GiB, accept: [90 GiB, 80 GiB]}", "spec.bad-accept", 15, "lower value first"),
    ("bandwidth: 3 TB/s", "bandwith: 3 TB/s", "spec.unknown-key", 17, "did you mean `bandwidth`?"),
    ("bf16: 900 TFLOP/s", "bf16: 989e12", "spec.missing-unit", 19, "TFLOP/s"),
    ("bf16: 900 TFLOP/s", "bf16: 900 TFLOPS", "spec.bad-unit", 19, "write TFLOP/s"),
    ("confidence: low", "confidence: hihg", "spec.unknown-value", 11, "did you mean `high`?"),
    ('released: "2026-01"', "released: 2026", "spec.wrong-type", 9, "write it in quotes"),
    ("format: 1", "format: 2", "spec.unknown-value", 2, "write 1"),
    ("id: my-gpu", "id: my-cpu", "spec.id-not-file-name", 3, "rename the file"),
    ("name: My GPU\n", "", "spec.missing-key", 1, "What people call it."),
    ("checked: 2026-11-20", "checked: yesterday", "spec.bad-format", 13, "write a day: 2026-10-31"),
    ("url: https://example.org/sheet, ", "", "spec.source-without-url", 13, "kind: assumed"),
    ("url: https://example.org/sheet", "url: nowhere", "spec.bad-url", 13, "https://"),
    ("aliases: [mine]", "aliases: mine", "spec.wrong-type", 5, "write `[…]`"),
]


@pytest.mark.parametrize(
    ("old", "new", "code", "line", "hint"), BAD, ids=[f"{case[2]}-{case[3]}-{at}" for at, case in enumerate(BAD)]
)
def test_refuses(tmp_path: Path, old: str, new: str, code: str, line: int, hint: str) -> None:
    path = tmp_path / "my-gpu.yaml"
    assert old in GOOD
    path.write_text(GOOD.replace(old, new))
    with pytest.raises(SpecError) as caught:
        load_spec(Accelerator, path)
    problem = next(one for one in caught.value.problems if one.code == code)
    assert problem.where == f"{path}:{line}"
    assert hint in problem.hint
    assert caught.value.exit_code is Exit.USAGE


def test_the_good_one_is_good(tmp_path: Path) -> None:
    path = tmp_path / "my-gpu.yaml"
    path.write_text(GOOD)
    assert load_spec(Accelerator, path).memory.capacity == Sourced(80 * 2**30, "B", "80 GiB")


@pytest.mark.parametrize("keep", [0.3, 0.6, 0.9])
def test_truncated_files_are_refused_with_a_line(tmp_path: Path, keep: float) -> None:
    path = tmp_path / "my-gpu.yaml"
    path.write_text(GOOD[: int(len(GOOD) * keep)])
    with pytest.raises(SpecError) as caught:
        load_spec(Accelerator, path)
    assert all(problem.where.startswith(f"{path}:") for problem in caught.value.problems)


def test_all_problems_come_together(tmp_path: Path) -> None:
    path = tmp_path / "my-gpu.yaml"
    path.write_text(GOOD.replace("80 GiB", "80").replace("bandwidth: 3 TB/s", "bandwith: 3"))
    with pytest.raises(SpecError) as caught:
        load_spec(Accelerator, path)
    assert {problem.code for problem in caught.value.problems} == {"spec.missing-unit", "spec.missing-key", "spec.unknown-key"}
