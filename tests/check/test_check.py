"""`check` finds what loading cannot: clashes, dangling names, and figures that break physics."""

import re
from pathlib import Path

import pytest

import gpuplan
from gpuplan.check.examine import RULES, check
from gpuplan.specs.catalog import shipped_folder
from tests.specs.test_accelerators import GOOD

UNITS = """\
units:
  name: sm
  count: 100
  clock: 2000 MHz
  flop_per_clock: {bf16: 4500}
"""


def written(tmp_path: Path, text: str, name: str = "my-gpu") -> Path:
    path = tmp_path / "accelerators" / f"{name}.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


def test_a_good_file_is_clean(tmp_path: Path) -> None:
    assert check([written(tmp_path, GOOD + UNITS)]) == []
    assert check([tmp_path]) == []


@pytest.mark.parametrize(
    ("old", "new", "code", "line"),
    [
        ("bf16: 900 TFLOP/s", "bf16: 1800 TFLOP/s", "spec.sparse-rate", 19),
        ("bf16: 900 TFLOP/s", "bf16: 1000 TFLOP/s", "spec.rate-recount", 19),
        ("{bf16: 4500}", "{bf16: 4500, fp8: 9000}", "spec.rate-missing", 25),
        ("bandwidth: 3 TB/s", "bandwidth: 3 GB/s", "spec.bandwidth", 17),
        ("bandwidth: 3 TB/s", "bandwidth: 0.3 TB/s", "spec.flop-per-byte", 17),
        ("capacity: 80 GiB", "capacity: 80 MiB", "spec.capacity", 15),
        ("bf16: 900 TFLOP/s", "bf16: 900 TFLOP/s\n  fp8: 3600 TFLOP/s", "spec.rate-ratio", 20),
        ("compute_dense:", "power: 300 W\ncompute_dense:", "spec.flop-per-watt", 18),
        ("compute_dense:", "  bus_bits: 4096\n  pin_rate: 5 GB/s\ncompute_dense:", "spec.bandwidth-recount", 17),
        ("compute_dense:", "  capacity_reported: 60 GiB\ncompute_dense:", "spec.reported-capacity", 18),
        ("bandwidth: 3 TB/s", "bandwidth: {value: 3 TB/s, accept: [2 TB/s, 2.5 TB/s]}", "spec.outside-accept", 17),
        ("https://example.org", "http://example.org", "spec.http-source", 13),
        ("confidence: low", "confidence: low\ndefault_system: dgx-h10", "spec.unknown-reference", 12),
        ("[mine]", "[h100]", "", 0),
        ("capacity: 80 GiB", "capacity: 80", "spec.missing-unit", 15),
    ],
)
def test_finds(tmp_path: Path, old: str, new: str, code: str, line: int) -> None:
    text = GOOD + UNITS
    assert old in text
    path = written(tmp_path, text.replace(old, new))
    found = {(one.code, one.where) for one in check([path])}
    assert found == ({(code, f"{path}:{line}")} if code else set())


def test_two_files_with_one_alias(tmp_path: Path) -> None:
    written(tmp_path, GOOD)
    second = written(tmp_path, GOOD.replace("id: my-gpu", "id: other"), "other")
    found = check([tmp_path])
    assert [(one.code, one.where) for one in found] == [("spec.duplicate-alias", f"{second}:5")]
    assert "`mine`" in found[0].message


def test_two_engines_that_stand_in_for_one(tmp_path: Path) -> None:
    shipped = (shipped_folder() / "engines" / "fsdp.yaml").read_text(encoding="utf-8")
    (tmp_path / "engines").mkdir()
    (tmp_path / "engines" / "fsdp.yaml").write_text(shipped, encoding="utf-8")
    second = tmp_path / "engines" / "other.yaml"
    second.write_text(shipped.replace("id: fsdp\n", "id: other\n").replace("aliases: [", "aliases: []  # ["), encoding="utf-8")
    found = check([tmp_path])
    assert {(one.code, one.where) for one in found} == {("spec.duplicate-alias", f"{second}:6")}
    assert "`deeplearningexamples`" in found[0].message


def test_a_price_of_an_unknown_instance(tmp_path: Path) -> None:
    path = tmp_path / "prices" / "aws.yaml"
    path.parent.mkdir()
    path.write_text(
        "format: 1\nid: aws\nname: AWS\nsources:\n  list: {title: A list, url: https://example.org/list, checked: 2026-11-20}\n"
        "default_region: us-east-1\noffers:\n"
        "  - {instance: p5.48xlarge, region: us-east-1, kind: on_demand, price: 55.04 USD/h, date: unknown, source: list}\n"
        "  - {instance: p5.49xlarge, region: us-east-1, kind: on_demand, price: 55.04 USD/h, date: unknown, source: list}\n"
    )
    found = check([path])
    assert [(one.code, one.where) for one in found] == [("spec.unknown-reference", f"{path}:9")]
    assert "aws:p5.48xlarge" in found[0].hint


def test_places_that_hold_no_spec_file(tmp_path: Path) -> None:
    loose = tmp_path / "gpu.yaml"
    loose.write_text(GOOD)
    assert [one.code for one in check([loose])] == ["spec.unsorted-file"]
    assert [one.code for one in check([tmp_path / "absent"])] == ["spec.no-file"]
    empty = tmp_path / "empty"
    empty.mkdir()
    assert [one.code for one in check([empty])] == ["spec.empty-folder"]


def test_a_broken_file_does_not_hide_the_others(tmp_path: Path) -> None:
    written(tmp_path, "format: 1\nid: [")
    written(tmp_path, GOOD.replace("id: my-gpu", "id: other").replace("80 GiB", "80"), "other")
    assert sorted(one.code for one in check([tmp_path])) == ["spec.missing-unit", "yaml.syntax"]


def test_every_code_that_is_raised_is_listed_with_what_it_catches() -> None:
    package = Path(gpuplan.__file__).parent
    raised: set[str] = set()
    for path in [*(package / "check").glob("*.py"), *(package / "specs" / f"{name}.py" for name in ("base", "price", "quantity"))]:
        raised |= set(re.findall(r'"(spec\.[a-z-]+)"', path.read_text(encoding="utf-8")))
    assert raised - RULES.keys() == set()
    assert all(rule.catches and rule.severity in ("error", "warning") for rule in RULES.values())


def test_a_part_that_only_borrows_a_family_is_not_held_to_its_silicon(tmp_path: Path) -> None:
    text = GOOD.replace("bf16: 900 TFLOP/s", "bf16: 900 TFLOP/s\n  fp4: 1800 TFLOP/s") + UNITS
    ours = re.sub(r"family: .*", "family: hopper", text)
    assert check([written(tmp_path, ours.replace("vendor: nvidia", "vendor: example"))]) == []
    assert [one.code for one in check([written(tmp_path, ours)])] == ["spec.unsupported-dtype", "spec.per-clock"]
    next_one = ours.replace("unit: gpu", 'unit: gpu\ncompute_capability: "13.0"')
    assert check([written(tmp_path, next_one)]) == []
