"""Names of providers that people use are understood, and offerings without instances are answered with what to name."""

import pytest

from gpuplan.errors import Exit, UnknownError
from gpuplan.specs.catalog import Catalog, key
from gpuplan.specs.on import parse_target
from gpuplan.specs.providers import providers

CATALOG = Catalog.open(env={"HOME": "/nonexistent"})
FOLDERS = {ident.partition("/")[0] for ident in CATALOG.paths("instances")}


def test_every_name_is_of_a_provider_and_nobody_elses():
    table = providers()
    assert set(table.names) <= FOLDERS
    names = [name for others in table.names.values() for name in others] + [name for one in table.without for name in one.names]
    assert len(names) == len(set(names))
    assert not set(names) & FOLDERS, "their sizes are on record: take them out of `without` in hardware_specs/rules/providers.yaml"
    assert all(name == key(name) for name in names)


def test_sizes_of_the_users_own_are_taken_whatever_the_table_says_of_their_seller(tmp_path):
    folder = tmp_path / "instances" / "linode"
    folder.mkdir(parents=True)
    (folder / "mine.yaml").write_text(
        "format: 1\nid: mine\nname: Mine\nsources: {own: {title: own, checked: 2026-11-20, kind: user}}\nprovider: linode\n"
        "instances:\n- {name: g9-x, source: own, accelerator: l40s, accelerators: 1, scale_up: {kind: none},"
        " network: {kind: ethernet}}\n",
        encoding="utf-8",
    )
    catalog = Catalog.open(env={"HOME": "/nonexistent", "GPUPLAN_SPECS": str(tmp_path)})
    assert parse_target("linode l40s", catalog).instance.name == "g9-x"
    with pytest.raises(UnknownError, match="names no machine"):
        parse_target("linode l40s", CATALOG)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("datacrunch:8A100.176V", "verda:8A100.176V"),
        ("azure-ml:Standard_NC24ads_A100_v4", "azure:Standard_NC24ads_A100_v4"),
        ("Oracle:BM.GPU.B300.8", "oci:BM.GPU.B300.8"),
        ("modal:H100", "modal:h100-sxm-80gb"),
        ("vast-ai:h100", "vast:h100-sxm-80gb"),
        ("together:b200", "together:1x-b200-180gb"),
        ("colab a100", "colab:a100"),
        ("colab pro a100", "colab:a100"),
        ("datacrunch:1B200.30V", "verda:1B200.30V"),
        ("databricks:g5.xlarge", "databricks:g5.xlarge.jobs"),
        ("Azure Databricks Standard_NC24ads_A100_v4", "databricks:Standard_NC24ads_A100_v4.jobs"),
        ("runpod h100 secure", "runpod:1x_H100-SXM_SECURE"),
        ("hot aisle 8x MI300X", "hotaisle:8x-mi300x"),
        ("digitalocean droplet mi300x", "digitalocean:mi300x"),
    ],
)
def test_other_names_mean_the_provider(text, meant):
    target = parse_target(text, CATALOG)
    assert target.instance is not None
    assert target.instance.qualified_name == meant
    assert any(meant in note.text for note in target.notes)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("bedrock", ("tokens", "gpuplan serve")),
        ("8xtensorwave:mi300x", ("no sizes of this provider", "own-specs")),
        ("runpod", ("is a provider", "`runpod:")),
        ("azure", ("is a provider", "`azure:Standard_", "`gpuplan specs list instances azure`")),  # whose systems begin so too
        ("azure:4", ("is a provider", "with 4 accelerators: `azure:Standard_NC96ads_A100_v4` (a100-pcie-80gb)")),
        ("lambda:8", ("is a provider", "with 8 accelerators: `lambda:gpu_8x_", "lambda --count 8`")),
        ("hyperstack:h900", ("no instance of hyperstack is called `h900`", "its instances on record have")),
        ("fluidstack:h100", ("no instance of fluidstack is called `h100`", "with h100-pcie-80gb it has `fluidstack:")),
        ("vultr:h100", ("no instance of vultr is called `h100`", "with h100-sxm-80gb it has `vultr:vcg-h100-")),
        ("lambda:a100", ("with a100-sxm-40gb it has `lambda:gpu_1x_a100_sxm4`",)),
        ("linode gpu", ("`linode` names no machine",)),
        ("runpod gpu", ("is a provider", "`runpod:")),
        ("lambda instance", ("is a provider", "`lambda:")),
        ("kaggle p100", ("with p100-pcie-16gb it has `kaggle:gpu-p100`",)),
        ("aws:r7i.metal-48xl", ("no instance of aws is called", "gpuplan specs list instances aws")),
    ],
)
def test_what_has_no_instances_is_answered_with_what_to_name(text, words):
    with pytest.raises(UnknownError) as caught:
        parse_target(text, CATALOG)
    assert caught.value.exit_code is Exit.UNKNOWN
    (problem,) = caught.value.problems
    for word in words:
        assert word in f"{problem.message} {problem.hint}"
