"""Names of machines that nothing on record has: what they say of seller, family, accelerator and number."""

import pytest

from gpuplan.errors import UnknownError
from gpuplan.specs.catalog import Catalog
from gpuplan.specs.on import parse_target
from gpuplan.specs.providers import providers
from gpuplan.specs.read_names import family_of, reading

CATALOG = Catalog.open(env={"HOME": "/nowhere"})


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("gpu-mi300x8-1536gb", "8xmi300x"), ("gx3d-160x1792x8gaudi3", "8xgaudi3-oam"), ("h100-80gb-sxm-ib.8x", "8xh100-sxm-80gb"),
        ("H100-SXM-8-80G", "8xh100-sxm-80gb"), ("1B200.30V", "1xb200-sxm-180gb"), ("vbm-256c-2048gb-8-mi300x-gpu", "8xmi300x"),
        ("vcg-b200-248c-2826g-1536vram", "b200-sxm-180gb"), ("zero-a10g", "a10g"), ("l40s-48gb.10x", "10xl40s"),
    ],
)  # fmt: skip
def test_an_accelerator_is_read_out_of_the_name_of_a_machine(name, target):
    found = reading(name, CATALOG)
    assert found is not None
    assert found.target == target


@pytest.mark.parametrize("name", ["GN7.5XLARGE80", "4xh1000", "c7g.16xlarge", "hello", "rtx-9999", "p5.999xlarge"])
def test_what_only_looks_alike_is_not_read(name):
    assert reading(name, CATALOG) is None


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("EC2 P4d", "aws:p4d.24xlarge"), ("Amazon EC2 p5.48xlarge", "aws:p5.48xlarge"), ("A4000 paperspace", "paperspace:A4000"),
        ("ND96isr H100 v5", "azure:Standard_ND96isr_H100_v5"),
        ("lambda 8xH100", "lambda:gpu_8x_h100_sxm5"), ("Kaggle T4 x2", "kaggle:gpu-t4-x2"),
        ("SageMaker HyperPod p5.48xlarge", "aws-sagemaker:ml.p5.48xlarge"),
        ("Azure NDm A100 v4 series", "azure:Standard_ND96amsr_A100_v4"),
        ("aws/p5.48xlarge", "aws:p5.48xlarge"), ("aws-p5.48xlarge", "aws:p5.48xlarge"), ("g5.48xl", "aws:g5.48xlarge"),
        ("n1-standard-8 with v100", "gcp:n1-standard-8+1xnvidia-tesla-v100"),
        ("gcp n1-standard-16 2x t4", "gcp:n1-standard-16+2xnvidia-tesla-t4"),
        ("lambdalabs H100", "lambda:gpu_1x_h100_sxm5"), ("Nebius AI Cloud H100", "nebius:gpu-h100-sxm_1gpu-16vcpu-200gb"),
    ],
)  # fmt: skip
def test_a_name_with_its_seller_or_of_a_family_is_taken(name, meant):
    target = parse_target(name, CATALOG)
    assert target.instance is not None
    assert target.instance.qualified_name == meant
    assert any(note.code == "target.taken-as" for note in target.notes)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("ND H100 v5", "of which 2 sizes are on record\n  hint: name one: `azure:Standard_ND96isr_H100_v5`"),
        ("aws p5 instance", "`aws:p5.48xlarge`"),
        ("gpu-mi210x8-512gb", "by its name take `8xmi210`"),
        ("Baseten H100", "`baseten` names no machine"),
        ("GN7vw.2XLARGE32", "a size of Tencent Cloud"),
        ("ecs.gn8v.6xlarge", "nearest on record is `h20-96gb`"),
        ("latitude g3.h100.large", "none on record has h100-sxm-80gb"),
        ("verda 8xB300", "none on record has 8 of its accelerator"),
        ("n1-standard-4 t4", "such as `gcp:n1-standard-8+1xnvidia-tesla-t4`"),
        ("m7i.4xlarge", "a machine without accelerators"),
        ("GPU-T4-S", "by its name take `t4`"),
    ],
)
def test_what_is_not_on_record_is_told_what_comes_next(name, said):
    with pytest.raises(UnknownError) as error:
        parse_target(name, CATALOG)
    assert said in str(error.value)


def test_a_family_is_known_by_the_letters_of_its_sizes():
    names = [one.name for one in family_of("NCads H100 v5", CATALOG.paths("instances"), CATALOG)]
    assert names == ["Standard_NC40ads_H100_v5"]


def test_a_provider_is_known_without_what_companies_end_in():
    table = providers()
    known = {"latitude", "massedcompute", "genesis-cloud"}
    said = ["Crusoe Cloud", "latitude.sh", "massed compute", "genesiscloud", "Digital Ocean", "Amazon Web Services", "nobody"]
    meant = [table.id_of(one, {*known, "crusoe"}) for one in said]
    assert meant == ["crusoe", "latitude", "massedcompute", "genesis-cloud", "digitalocean", "aws", "nobody"]
