"""The accelerator files: all load, agree with the table that they were made from, and bad ones are refused."""

from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuplan.errors import Exit, SpecError, UnknownError
from gpuplan.specs.accelerator import RATE_NAMES, Accelerator
from gpuplan.specs.base import load_spec
from gpuplan.specs.catalog import shipped_folder
from gpuplan.specs.quantity import Sourced

ROOT = Path(__file__).parents[2]
TABLE = ROOT.parent / "shared" / "data" / "accelerators.yaml"
FILES = sorted((shipped_folder() / "accelerators").rglob("*.yaml"))


@cache
def loaded(path: Path) -> Accelerator:
    return load_spec(Accelerator, path)


def test_there_are_many() -> None:
    assert len(FILES) >= 114


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_loads_and_every_value_has_a_source(path: Path) -> None:
    spec = loaded(path)
    assert path.parent.name == spec.vendor
    assert path.read_text().startswith("# yaml-language-server: $schema=../../schema/accelerator.schema.json\nformat: 1\n")
    assert spec.dtypes()
    for name, value in spec.values():
        source = spec.source_of(value)
        assert source.title, name
        assert source.checked, name
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
    low, high = accept or (theirs * 0.999, theirs * 1.001)
    return low * 0.999 <= ours.value / scale <= high * 1.001


@pytest.mark.skipif(not TABLE.exists(), reason="the table of accelerator facts is not beside the checkout")
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_agrees_with_the_table(path: Path) -> None:
    spec = loaded(path)
    row = table().get(spec.id)
    if row is None:
        pytest.skip("newer than the table")
    accept = row.get("accept") or {}
    for name in RATE_NAMES:
        assert agree(getattr(spec.compute_dense, name), row["dense_tflops"][name], 1e12, accept.get(name)), name
    assert agree(spec.memory.bandwidth, row["memory_bandwidth_gb_s"], 1e9, accept.get("memory_bandwidth_gb_s"))
    assert agree(spec.power, row["tdp_w"], 1, accept.get("tdp_w"))
    capacity = spec.memory.capacity
    assert float(capacity.text.split()[0]) == row["memory_gb"]
    link = row["scale_up"] or {}
    ours = spec.scale_up.bandwidth_per_direction if spec.scale_up else None
    assert agree(ours, link.get("gb_s_per_direction"), 1e9, accept.get("gb_s_per_direction"))


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
"""

BAD = [
    ("capacity: 80 GiB", "capacity: 80", "spec.missing-unit", 15, "`80 GB` (1e9) or `80 GiB` (2**30)"),
    ("capacity: 80 GiB", 'capacity: "80"', "spec.missing-unit", 15, "`80 GB` (1e9) or `80 GiB` (2**30)"),
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
    ("vendor: nvidia", "vendor: nvidea", "spec.unknown-value", 6, "did you mean `nvidia`?"),
    ('released: "2026-01"', "released: 2026", "spec.wrong-type", 9, "write it in quotes"),
    ("format: 1", "format: 2", "spec.unknown-value", 2, "write 1"),
    ("id: my-gpu", "id: my-cpu", "spec.id-not-file-name", 3, "rename the file"),
    ("name: My GPU\n", "", "spec.missing-key", 1, "What people call it."),
    ("checked: 2026-11-20", "checked: yesterday", "spec.bad-format", 13, "it must match"),
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
