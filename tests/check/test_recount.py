"""tools/recount.py: what other databases say, by field, with tolerances and what is known to be odd."""

import csv
import importlib.util
from pathlib import Path
from types import SimpleNamespace

import pytest

from gpuplan.models.catalog import find
from gpuplan.specs.accelerator import Accelerator
from gpuplan.specs.catalog import Catalog
from gpuplan.strict_yaml import load_yaml

TOOL = Path(__file__).parents[2] / "tools" / "recount.py"


@pytest.fixture(scope="module")
def tool():
    spec = importlib.util.spec_from_file_location("recount", TOOL)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


@pytest.fixture(scope="module")
def catalog():
    return Catalog.open(env={"HOME": "/nowhere"})


def _page(catalog, ident, **other):
    part = catalog.load(Accelerator, ident)
    said = {
        "tpu_url": part.sources["techpowerup"].url, "memory_size_gb": 8.0, "memory_bandwidth_gb_s": 448.0, "memory_bus_bits": 256,
        "thermal_design_power_w": 150, "boost_clock_mhz": 1560.0, "single_float_performance_gflop_s": 9585.0,
    }  # fmt: skip
    return SimpleNamespace(**{**said, **other})


def test_a_part_that_agrees_with_its_page_is_not_named(tool, catalog):
    assert [one for one in tool.parts(catalog, [_page(catalog, "rtx-2080-super-laptop")]) if one.share > 0.001] == []


def test_a_part_that_does_not_is(tool, catalog):
    page = _page(catalog, "rtx-2080-super-laptop", memory_bandwidth_gb_s=224.0, thermal_design_power_w=None)
    found = [one for one in tool.parts(catalog, [page]) if one.share > 0.001]
    assert [(one.ident, one.field, one.theirs) for one in found] == [("rtx-2080-super-laptop", "memory.bandwidth", 224e9)]


def test_a_model_is_counted_against_the_ids_among_its_aliases(tool):
    card = find("qwen1.5-32b")
    right = float(card.count().params_total.value)
    rows = [{"name": "Qwen/Qwen1.5-32B", "parameters_raw": 1.1 * right}]
    assert [(one.ident, one.theirs) for one in tool.models(rows, "list")] == [("qwen1.5-32b", pytest.approx(1.1 * right))]
    [one] = tool.models([*rows, {"name": "Qwen/Qwen1.5-32B-Chat", "parameters_raw": right}], "list")
    assert one.share == 0


HUNTED = ("instance_name", "location", "price", "cpu", "memory", "gpu_count", "gpu_name", "gpu_memory", "spot", "gpu_vendor")


def _hunted(tmp_path, name, *rows):
    """A catalog of gpuhunt of some rows."""
    path = tmp_path / name
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(HUNTED)
        writer.writerows(rows)
    return path


def _told(tool, catalog, path):
    provider, shapes, prices = tool.hunted(path)
    found = tool.instances(catalog, provider, path.name, shapes, prices)
    return {(one.ident, one.field): (one.ours, one.theirs) for one in found}


def test_instances_are_counted_against_a_catalog(tool, catalog, tmp_path):
    told = _told(
        tool, catalog, _hunted(tmp_path, "aws.csv", ("p5.48xlarge", "nowhere-1", 1, 192, 2048, 4, "H100", 80, False, "nvidia"))
    )
    assert told == {
        ("aws:p5.48xlarge", "accelerators"): (8, 4),
        ("aws:p5.48xlarge", "vcpus"): (192, 192),
        ("aws:p5.48xlarge", "host.memory"): (2**41, 2**41),
    }


def test_a_catalog_is_called_by_our_name_and_its_zones_are_regions(tool, catalog, tmp_path):
    lambda_ = _hunted(tmp_path, "lambdalabs.csv", ("gpu_8x_h100_sxm5", "us-east-1", 77, 208, 1800, 8, "H100", 80, False, "nvidia"))
    assert ("lambda:gpu_8x_h100_sxm5", "vcpus") in _told(tool, catalog, lambda_)
    zones = _hunted(
        tmp_path, "gcp.csv",
        ("a2-ultragpu-1g", "us-central1-a", 77, 12, 170, 1, "A100", 80, False, "nvidia"),
        ("n2-standard-8", "us-central1-a", 1, 8, 32, 0, "", "", False, ""),
        ("v5litepod-8", "us-central1-a", 9.6, 224, 384, 1, "v5litepod", 128, False, "google"),
    )  # fmt: skip
    told = _told(tool, catalog, zones)
    assert told["gcp:a2-ultragpu-1g in us-central1", "price"][1] == 77
    assert told["gcp:v5litepod-8 in us-central1", "price"] == (pytest.approx(9.6), 9.6)  # a list price per chip, of eight
    assert ("gcp:v5litepod-8", "accelerators") not in told  # a slice there, chips here
    assert not [one for one, field in told if field == "missing"]  # what has no accelerator is not ours to have


def test_a_file_of_which_nothing_can_be_compared_is_a_finding(tool, tmp_path, capsys):
    path = tmp_path / "instance-types.md"
    path.write_text("## Another format\n", "utf-8")
    assert tool.main(["shapes", str(path)]) == 0
    assert tool.main(["shapes", str(path), "--strict"]) == 1
    assert "Nothing could be compared" in capsys.readouterr().out
    assert tool.main(["instances", str(tmp_path / "aws.csv"), "--strict"]) == 1
    assert "Could not be read: SpecError" in capsys.readouterr().out


SHAPES = """## p5 Family
### `p5.48xlarge`
#### Labels
 | Label | Value |
 |karpenter.k8s.aws/instance-cpu|96|
 |karpenter.k8s.aws/instance-gpu-count|8|
 |karpenter.k8s.aws/instance-gpu-manufacturer|nvidia|
 |karpenter.k8s.aws/instance-local-nvme|30400|
 |karpenter.k8s.aws/instance-memory|2097152|
### `p99.xlarge`
 |karpenter.k8s.aws/instance-cpu|4|
 |karpenter.k8s.aws/instance-accelerator-count|2|
 |karpenter.k8s.aws/instance-memory|16384|
### `m7i.large`
 |karpenter.k8s.aws/instance-cpu|2|
 |karpenter.k8s.aws/instance-memory|8192|
"""


def test_shapes_of_karpenter_differ_field_by_field_and_what_is_not_on_record_is_told(tool, catalog, tmp_path):
    path = tmp_path / "instance-types.md"
    path.write_text(SHAPES, "utf-8")
    found = tool.instances(catalog, "aws", path.name, tool.karpenter_shapes(path), {})
    told = [(one.ident, one.field, one.ours, one.theirs) for one in found if one.share > 0.01]
    assert told == [("aws:p5.48xlarge", "vcpus", 192, 96), ("aws:p99.xlarge", "missing", 0, 2)]


@pytest.mark.parametrize(
    ("name", "text", "provider", "instance"),
    [
        ("aws.go", 'var x = map{\n\t"us-east-1": {\n\t\t"p5.48xlarge": 11.5, "m5.large": 0.1,\n\t},\n}', "aws", "p5.48xlarge"),
        (
            "azure.go",
            '\tinitialOnDemandPrices["eastus"] = map[string]float64{\n\t\t"Standard_NC40ads_H100_v5":    11.5,\n\t}',
            "azure", "Standard_NC40ads_H100_v5",
        ),
        ("gcp.json", '{"prices": {"us-central1": {"on_demand": {"a2-highgpu-1g": 11.5}}}}', "gcp", "a2-highgpu-1g"),
    ],
)  # fmt: skip
def test_prices_of_karpenter_are_read_by_region(tool, catalog, tmp_path, name, text, provider, instance):
    path = tmp_path / name
    path.write_text(text, "utf-8")
    prices = tool.karpenter_prices(path)
    assert {usd for (what, _), usd in prices.items() if what == instance} == {11.5}
    found = list(tool.instances(catalog, provider, name, {}, prices))
    assert [(one.field, one.theirs) for one in found] == [("price", 11.5)]
    assert found[0].ident.startswith(f"{provider}:{instance} in ")


def test_what_is_known_is_told_apart_and_every_reason_is_of_something_there(tool, catalog):
    rules = load_yaml(TOOL.with_suffix(".yaml"))[0]
    odd = tool.Compared("k80-die", "units.clock", 875e6, 824e6, "")
    new = tool.Compared("p40", "units.clock", 1531e6, 1e9, "")
    small = tool.Compared("p40", "units.clock", 1531e6, 1530e6, "")
    left, known = tool.sorted_out([odd, new, small], rules)
    assert left == [new]
    assert [one for one, _ in known] == [odd]
    assert "| p40 | units.clock |" in tool.report("Parts", 3, left, known)
    for field, reasons in rules["known"].items():
        assert field in rules["tolerances"]
        for ident in reasons if field not in ("missing", "imported") else ():
            assert ident in catalog.paths("accelerators") or find(ident, cards_only=True).id == ident


def test_words_that_mean_nothing_are_answered_with_what_there_is(tool, capsys):
    assert tool.main(["houses"]) == 2
    assert "python tools/recount.py parts" in capsys.readouterr().err
