"""Every shipped cloud instance loads, names known parts and can be a target."""

import pytest

from gpuplan.errors import GpuplanError
from gpuplan.specs.accelerator import Accelerator
from gpuplan.specs.catalog import Catalog
from gpuplan.specs.instance import Instance, InstanceFamily
from gpuplan.specs.on import parse_target
from gpuplan.specs.system import System
from gpuplan.specs.target_by_name import find_instance
from tests.sweeps import each

CATALOG = Catalog.open(env={"HOME": "/nonexistent"})
FAMILIES = {ident: CATALOG.read(InstanceFamily, path) for ident, path in CATALOG.paths("instances").items()}
INSTANCES = [Instance(family, shape) for family in FAMILIES.values() for shape in family.instances]


def test_there_are_the_instances_of_the_first_catalog():
    names = {one.qualified_name for one in INSTANCES}
    wanted = {
        "aws:p3.16xlarge", "aws:p4d.24xlarge", "aws:p5.48xlarge", "aws:g3.16xlarge", "aws:g4dn.xlarge", "aws:g5.48xlarge",
        "azure:Standard_NV12", "azure:Standard_NV24s_v3", "azure:Standard_NC4as_T4_v3", "azure:Standard_NV6ads_A10_v5",
        "azure:Standard_ND96isr_H100_v5", "gcp:a2-highgpu-8g", "gcp:g2-standard-4", "gcp:a3-highgpu-8g", "gcp:v5litepod-8",
        "aws-sagemaker:ml.p5.48xlarge", "colab:t4", "snowflake:GPU_NV_S",
    }  # fmt: skip
    assert wanted <= names
    assert len(names) == len(INSTANCES) >= 329


@each("ident", FAMILIES)
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


@each("ident", FAMILIES)
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
