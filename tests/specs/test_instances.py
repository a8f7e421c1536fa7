"""Every shipped cloud instance loads, names known parts, can be a target, and says what the table of facts says."""

import pytest

from gpuplan.errors import GpuplanError
from gpuplan.specs.accelerator import Accelerator
from gpuplan.specs.catalog import Catalog
from gpuplan.specs.instance import Instance, InstanceFamily
from gpuplan.specs.system import System
from gpuplan.specs.target import find_instance, parse_target
from tests.specs.shared_data import table

CATALOG = Catalog.open(env={"HOME": "/nonexistent"})
FAMILIES = {ident: CATALOG.read(InstanceFamily, path) for ident, path in CATALOG.paths("instances").items()}
INSTANCES = [Instance(family, shape) for family in FAMILIES.values() for shape in family.instances]
# The table spells some accelerators otherwise, and has four that the catalog lacks.
SPELLED = {
    "t4-16gb": "t4", "a10-24gb": "a10", "a10g-24gb": "a10g", "l4-24gb": "l4", "l40s-48gb": "l40s", "a40-48gb": "a40",
    "rtx-a6000-48gb": "rtx-a6000", "rtx-4090-24gb": "rtx-4090", "rtx-pro-6000-bse-96gb": "rtx-pro-6000-blackwell-server",
    "p4-8gb": "p4", "k80": "k80-die", "m60": "m60-die", "a100-sxm4-40gb": "a100-sxm-40gb", "a100-sxm4-80gb": "a100-sxm-80gb",
    "h100-sxm5-80gb": "h100-sxm-80gb", "b300-sxm-288gb": "b300-sxm-270gb", "gb200-nvl72": "gb200-186gb", "mi300x-192gb": "mi300x",
}  # fmt: skip
PROVIDERS = {"gcp-tpu": "gcp", "snowflake-spcs": "snowflake"}


def test_there_are_the_instances_of_the_first_catalog():
    names = {one.qualified_name for one in INSTANCES}
    wanted = {
        "aws:p3.16xlarge", "aws:p4d.24xlarge", "aws:p5.48xlarge", "aws:g3.16xlarge", "aws:g4dn.xlarge", "aws:g5.48xlarge",
        "azure:Standard_NV12", "azure:Standard_NV24s_v3", "azure:Standard_NC4as_T4_v3", "azure:Standard_NV6ads_A10_v5",
        "azure:Standard_ND96isr_H100_v5", "gcp:a2-highgpu-8g", "gcp:g2-standard-4", "gcp:a3-highgpu-8g", "gcp:v5litepod-8",
        "aws-sagemaker:ml.p5.48xlarge", "colab:t4", "snowflake:GPU_NV_S",
    }  # fmt: skip
    assert wanted <= names
    assert len(names) == len(INSTANCES) >= 312


@pytest.mark.parametrize("ident", FAMILIES)
def test_each_instance_names_known_parts_and_can_be_a_target(ident):
    family = FAMILIES[ident]
    assert ident.startswith(f"{family.provider}/")
    for shape in family.instances:
        assert shape.accelerator in CATALOG.paths("accelerators")
        if shape.system is not None:
            system = CATALOG.load(System, shape.system)
            assert system.accelerator == shape.accelerator
            assert system.slices or system.count >= shape.accelerators.value
        target = parse_target(f"{family.provider}:{shape.name}", CATALOG)
        assert target.count == max(1, shape.accelerators.value)
        assert target.share == min(1.0, shape.accelerators.value)
        assert target.instance is not None
        assert target.instance.shape is shape


@pytest.mark.parametrize("ident", FAMILIES)
def test_two_of_each_instance_have_a_network_or_one_clear_error(ident):
    family = FAMILIES[ident]
    for shape in family.instances:
        codes, sizes = [], []
        try:
            target = parse_target(f"2x{family.provider}:{shape.name}", CATALOG)
            sizes = [level.size for level in target.levels]
        except GpuplanError as error:
            codes = [problem.code for problem in error.problems]
        assert codes in (["target.no-network"], ["target.shared-many"]) or sizes[-1] in (None, target.count)


def test_the_rate_inside_an_instance_is_that_of_its_system():
    for one in INSTANCES:
        given = one.shape.scale_up.bandwidth_per_direction
        if given is None or one.shape.system is None or CATALOG.load(System, one.shape.system).slices:
            continue
        rate = CATALOG.load(System, one.shape.system).fabric[0].bandwidth_per_direction
        accelerator = CATALOG.load(Accelerator, one.shape.accelerator)
        assert rate is not None
        own = accelerator.scale_up.bandwidth_per_direction if accelerator.scale_up else None
        close = pytest.approx(given.value, rel=0.05)
        # AWS prints the ring of Trainium 2 with the UltraServer's links, and pairs of a mesh have fewer links.
        assert rate.value == close or (own is not None and own.value == close), one.qualified_name


def test_each_instance_says_what_the_table_says():
    rows = table("instances.yaml")["instances"]
    by_name = {one.qualified_name: one for one in INSTANCES}
    compared = 0
    for row in rows:
        one = by_name.get(f"{PROVIDERS.get(row['provider'], row['provider'])}:{row['name']}")
        if one is None:
            continue
        shape = one.shape
        assert shape.accelerator == SPELLED.get(row["accelerator"], row["accelerator"])
        assert shape.accelerators.value == pytest.approx(row["accelerator_count"])
        assert shape.vcpus == row["vcpus"]
        if row["ram_gib"]:
            assert shape.memory is not None
            assert shape.memory.value == pytest.approx(row["ram_gib"] * 2**30)
        if row["network"]["gbps"]:
            assert shape.network.bandwidth is not None
            assert shape.network.bandwidth.value == pytest.approx(row["network"]["gbps"] * 1e9 / 8)
        compared += 1
    assert compared > 270


def test_a_short_name_is_enough_where_it_is_unique():
    named = find_instance("p5.48xlarge", CATALOG)
    assert named is not None
    assert named.qualified_name == "aws:p5.48xlarge"
    assert find_instance("sagemaker:ml.p5.48xlarge", CATALOG) is not None
    assert find_instance("AZURE:standard_nd96isr_h100_v5", CATALOG) is not None
    assert find_instance("gcp:a3-highgpu-8g", CATALOG) is not None
    assert find_instance("p5.48xlarg", CATALOG) is None
    with pytest.raises(GpuplanError) as caught:
        find_instance("a100-sxm-80gb", CATALOG)
    assert caught.value.problems[0].code == "target.ambiguous-name"
    assert "runpod:a100-sxm-80gb" in caught.value.problems[0].hint
