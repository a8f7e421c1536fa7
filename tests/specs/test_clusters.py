"""Every shipped cluster loads, says what the table of facts says, and carries its levels into the target."""

import pytest

from gpuplan.check.examine import check
from gpuplan.errors import SpecError, UnknownError, UsageError
from gpuplan.machine.build import hardware_of
from gpuplan.machine.wire import collective_seconds
from gpuplan.schema import read
from gpuplan.specs.accelerator import Accelerator
from gpuplan.specs.catalog import Catalog
from gpuplan.specs.cluster import Cluster
from gpuplan.specs.network import Network
from gpuplan.specs.on import parse_target
from gpuplan.specs.system import System
from gpuplan.strict_yaml import parse_yaml
from gpuplan.term import Source, Term
from gpuplan.work import Collective
from tests.specs.shared_data import table

CATALOG = Catalog.open(env={"HOME": "/nonexistent"})
CLUSTERS = {ident: CATALOG.read(Cluster, path) for ident, path in CATALOG.paths("clusters").items()}
# Levels of the table that are inside a node (our `system` has them), and one without a size of its own.
INSIDE = {"node", "tray", "nvlink-rack", "slice", "instance", "leaf-plane"}


def beyond(text):
    levels = parse_target(text, CATALOG).levels
    return [
        (level.size, level.bandwidth_per_direction.value / 1e9, level.oversubscription)
        for level in levels
        if level.name.startswith("network")
    ]


def test_there_are_the_clusters_of_the_first_catalog():
    assert {"dgx-h100-superpod", "gb200-superpod", "meta-llama3-24k-roce", "frontier", "tpu-v5p-multislice"} <= set(CLUSTERS)
    assert len(CLUSTERS) >= 19


def test_a_cluster_whose_nodes_have_a_link_without_a_public_figure_is_asked_for_by_parts_of_a_node():
    with pytest.raises(UnknownError, match="the bandwidth of `x-bus` of summit-node is not known"):
        parse_target("summit", CATALOG)
    assert parse_target("3xv100-sxm2-16gb@summit", CATALOG).count == 3


@pytest.mark.parametrize("ident", [one for one in CLUSTERS if one != "summit"])
def test_each_cluster_names_known_parts_and_can_be_a_target(ident):
    cluster = CLUSTERS[ident]
    node = CATALOG.load(System, cluster.system)
    assert node.accelerator == cluster.accelerator
    assert cluster.levels[0].size is None or cluster.levels[0].size > node.count
    for level in cluster.levels:
        if level.network is None:
            continue
        ports = level.bandwidth_per_direction.value / CATALOG.load(Network, level.network).port_bandwidth.value
        # Each accelerator has one or two ports, or several share one.
        assert ports * node.count == pytest.approx(round(ports * node.count), rel=0.1)
    count = int(cluster.accelerators.value) if cluster.accelerators is not None else 4 * node.count
    made = parse_target(ident if cluster.accelerators is not None else f"{count}x{cluster.accelerator}@{ident}", CATALOG)
    assert made.count == count
    assert made.levels[-1].size == count
    assert hardware_of(made, catalog=CATALOG).levels[-1].size == count
    for size in cluster.sizes:
        part = parse_target(f"{size}x{cluster.accelerator}@{ident}", CATALOG)
        assert part.count == size
        assert [level.size for level in part.levels][-1] == size


def test_each_cluster_says_what_the_table_says():
    for row in table("systems.yaml")["clusters"]:
        cluster = CLUSTERS[row["id"]]
        assert cluster.accelerator == row["accelerator"]
        assert (cluster.accelerators.value if cluster.accelerators else None) == row["accelerators"]
        assert cluster.system == row.get("node", cluster.system)
        assert cluster.confidence == row["confidence"]
        given = {level["name"]: level for level in row["levels"] if level["name"] not in INSIDE}
        assert [level.name for level in cluster.levels] == list(given)
        for level in cluster.levels:
            rate = given[level.name]["bandwidth_per_direction_gb_s_per_accelerator"]
            assert level.size == given[level.name]["size"]
            assert level.bandwidth_per_direction.value == pytest.approx(rate * 1e9)
            factor = level.oversubscription.value if level.oversubscription else None
            assert factor == given[level.name]["oversubscription"]
        inside = next((level for level in row["levels"] if level["name"] in INSIDE), None)
        rate = CATALOG.load(System, cluster.system).fabric[0].bandwidth_per_direction
        assert inside is not None
        assert rate is not None
        assert rate.value == pytest.approx(inside["bandwidth_per_direction_gb_s_per_accelerator"] * 1e9), row["id"]


def test_the_levels_of_a_fat_tree_are_levels_of_the_target():
    assert beyond("dgx-h100-superpod") == [(256, 50, 1), (1016, 50, 1)]
    assert beyond("meta-24k-roce") == [(16, 50, 1), (3072, 50, 1), (24576, 50, 7)]
    assert beyond("3072xh100@meta-24k-roce") == [(16, 50, 1), (3072, 50, 1)]
    assert beyond("256xdgx-h100@meta-24k-roce") == [(16, 50, 1), (2048, 50, 1)]
    assert beyond("8xh100@meta-24k-roce") == []
    assert [level.size for level in parse_target("gb200-superpod", CATALOG).levels] == [4, 72, 576, 9216]
    assert beyond("frontier")[-1] == (37632, 25, 1.753)


def test_units_as_thick_above_as_below_are_one_level_of_the_machine():
    levels = hardware_of(parse_target("meta-24k-roce", CATALOG), catalog=CATALOG).levels
    assert [(level.size, level.oversubscription) for level in levels] == [(8, 1), (3072, 1), (24576, 7)]
    levels = hardware_of(parse_target("dgx-h100-superpod", CATALOG), catalog=CATALOG).levels
    assert [level.size for level in levels] == [8, 1016]


def test_collectives_cross_the_levels_of_a_cluster():
    def seconds(text, kind, group, stride=1.0):
        hw = hardware_of(parse_target(text, CATALOG), catalog=CATALOG)
        given = {
            name: Term(name, value, unit, Source("user", "test"))
            for name, value, unit in (("size", 1e10, "B"), ("group", group, "1"), ("stride", stride, "1"))
        }
        return collective_seconds(Collective(name="coll", kind=kind, **given), hw).value

    # Across pods an all-to-all has a seventh of the bandwidth; inside one it has all of it.
    across, flat = seconds("meta-24k-roce", "all_to_all", 24576.0), seconds("3072xdgx-h100", "all_to_all", 24576.0)
    assert 5 < across / flat < 7.1
    assert seconds("meta-24k-roce", "all_to_all", 3072.0) == pytest.approx(seconds("384xdgx-h100", "all_to_all", 3072.0), rel=0.02)
    # An all-reduce over neighbours first reduces in its pod; one between pods only, crosses the thin level with all its bytes.
    assert seconds("meta-24k-roce", "all_reduce", 24576.0) < 1.2 * seconds("3072xdgx-h100", "all_reduce", 24576.0)
    between = seconds("meta-24k-roce", "all_reduce", 8.0, 3072.0)
    assert between > 5 * seconds("3072xdgx-h100", "all_reduce", 8.0, 3072.0)


def test_what_is_assumed_of_a_cluster_is_said():
    notes = {note.code: note.text for note in parse_target("meta-24k-roce", CATALOG).notes}
    assert "7:1" in notes["target.cluster"]
    assert "the board of dgx-h100" in notes["target.cluster"]
    assert "target.oversubscription-unknown" in {note.code for note in parse_target("xai-colossus-100k", CATALOG).notes}
    assert "target.oversubscription-unknown" not in notes


@pytest.mark.parametrize(
    ("text", "kind", "code"),
    [
        ("2xdgx-h100-superpod", UsageError, "target.bad-count"),
        ("8xh100@2xdgx-h100-superpod", UsageError, "target.bad-count"),
        ("1024xh100@dgx-h100-superpod", UnknownError, "target.cluster-too-small"),
        ("8xa100@meta-24k-roce", UsageError, "target.other-accelerator"),
        ("tpu-v5e-multislice", UnknownError, "target.no-size"),
        ("8xh100@dgx-h100-superpot", UnknownError, "target.unknown-network"),
        ("dgx-h100-superpot", UnknownError, "target.unknown-name"),
    ],
)
def test_what_a_cluster_cannot_be_says_what_to_write(text, kind, code):
    with pytest.raises(kind) as caught:
        parse_target(text, CATALOG)
    assert caught.value.problems[0].code == code
    assert caught.value.problems[0].hint


def test_the_price_of_a_cluster_is_that_of_all_its_accelerators():
    whole, part = parse_target("dgx-h100-superpod", CATALOG), parse_target("127xdgx-h100@dgx-h100-superpod", CATALOG)
    assert (whole.units, whole.per_unit) == (1, 1016)
    assert (part.units, part.per_unit) == (127, 8)
    assert CATALOG.load(Accelerator, "h100-sxm-80gb") == whole.accelerator


GOOD = """
format: 1
id: big
name: a cluster
sources: {s: {title: t, url: https://example.com/x, checked: 2026-11-20}}
accelerator: h100-sxm-80gb
accelerators: 512
system: dgx-h100
levels:
  - {name: leaf, size: 256, layout: rail, bandwidth_per_direction: 50 GB/s, oversubscription: 1}
  - {name: spine, size: 512, layout: fat-tree, bandwidth_per_direction: 50 GB/s, oversubscription: 2}
confidence: high
"""


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("bandwidth_per_direction: 50 GB/s", "bandwidth_per_direction: 50", "spec.missing-unit"),
        ("size: 512", "size: 256", "spec.level-order"),
        ("accelerators: 512", "accelerators: 1024", "spec.level-order"),
        ("name: spine", "name: leaf", "spec.duplicate-name"),
        ("oversubscription: 2", "oversubscription: 0.5", "spec.physics"),
        ("layout: rail", "layout: star", "spec.unknown-value"),
        ("system: dgx-h100\n", "", "spec.missing-key"),
    ],
)
def test_a_wrong_cluster_is_refused_with_a_line(old, new, code):
    read(Cluster, *parse_yaml(GOOD, "big.yaml"))
    with pytest.raises(SpecError) as caught:
        read(Cluster, *parse_yaml(GOOD.replace(old, new), "big.yaml"))
    assert code in [problem.code for problem in caught.value.problems]
    assert all(problem.where.startswith("big.yaml:") for problem in caught.value.problems)


@pytest.mark.parametrize(
    ("kind", "ident", "old", "new", "code"),
    [
        ("clusters", "meta-llama3-24k-roce", "accelerator: h100-sxm-80gb", "accelerator: a100-sxm-80gb", "spec.cluster-node"),
        (
            "clusters",
            "meta-llama3-24k-roce",
            "name: rack, source: meta, size: 16",
            "name: rack, source: meta, size: 8",
            "spec.cluster-node",
        ),
        (
            "clusters",
            "dgx-h100-superpod",
            "bandwidth_per_direction: 50 GB/s",
            "bandwidth_per_direction: 400 GB/s",
            "spec.network-port",
        ),
        (
            "clusters",
            "dgx-h100-superpod",
            "bandwidth_per_direction: 50 GB/s",
            "bandwidth_per_direction: 7.1 GB/s",
            "spec.network-port",
        ),
        ("clusters", "dgx-h100-superpod", "network: ib-ndr", "network: ib-ndx", "spec.unknown-reference"),
        ("systems", "dgx-h100", "network: ib-ndr", "network: ib-hdr", "spec.network-port"),
        ("systems", "dgx-1-v100-32gb", '"0": {"1": 1', '"0": {"1": 2', "spec.bad-shape"),
    ],
)
def test_a_network_that_does_not_fit_is_found(tmp_path, kind, ident, old, new, code):
    path = tmp_path / kind / f"{ident}.yaml"
    path.parent.mkdir()
    text = CATALOG.paths(kind)[ident].read_text(encoding="utf-8")
    assert old in text
    path.write_text(text, encoding="utf-8")
    assert [found for found in check([path]) if found.severity == "error"] == []
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    found = check([path])
    assert code in {one.code for one in found}
    assert all(one.where.startswith(str(path)) and one.message and one.hint for one in found if one.code == code)
