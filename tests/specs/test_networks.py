"""Every shipped network loads, says what the table of facts says, and joins nodes behind an `@`."""

import pytest

from gpuplan.errors import GpuplanError, UnknownError, UsageError
from gpuplan.machine.build import hardware_of
from gpuplan.schema import read
from gpuplan.specs.catalog import Catalog
from gpuplan.specs.network import Network
from gpuplan.specs.on import parse_target
from gpuplan.specs.target_by_name import find_instance
from gpuplan.strict_yaml import parse_yaml
from tests.specs.shared_data import table

CATALOG = Catalog.open(env={"HOME": "/nonexistent"})
NETWORKS = {ident: CATALOG.read(Network, path) for ident, path in CATALOG.paths("networks").items()}
PROTOCOLS = {"tcpx": "gpudirect-tcpx", "tcpxo": "gpudirect-tcpxo", "ethernet-uec": "roce"}


def network_level(text):
    return parse_target(text, CATALOG).levels[-1]


def test_there_are_the_networks_of_the_first_catalog():
    wanted = {
        "ib-edr",
        "ib-hdr",
        "ib-ndr",
        "ib-xdr",
        "roce-400",
        "efa-v1",
        "efa-v4",
        "gpudirect-tcpx",
        "slingshot-11",
        "ethernet-10",
    }
    assert wanted <= set(NETWORKS)
    assert len(NETWORKS) >= 30


READ_SINCE = {"ethernet-1", "ib-hdr100", "slingshot-10"}
"""Networks that the table has from memory, and ours from a page."""


@pytest.mark.parametrize("ident", NETWORKS)
def test_each_network_joins_nodes_and_is_not_published_out_of_nothing(ident):
    network = NETWORKS[ident]
    level = network_level(f"4xdgx-h100@{ident}")
    assert level.name == "network"
    assert level.size is None
    assert level.in_network_reduction == network.in_network_reduction
    leaf = level.bandwidth_per_direction.find("hw.fabric.network.port_bandwidth")
    assert leaf is not None
    assert leaf.value == network.port_bandwidth.value
    assert leaf.source.title
    # Only InfiniBand switches add; a generation of EFA or a rate of Ethernet says nothing of the kind.
    assert network.in_network_reduction == (network.protocol == "infiniband")
    for name in network.clouds:
        assert find_instance(name, CATALOG) is not None


def test_each_network_says_what_the_table_says():
    rows = {row["id"]: row for row in table("systems.yaml")["networks"]}
    assert set(rows) <= set(NETWORKS)
    for ident, row in rows.items():
        network = NETWORKS[ident]
        assert network.protocol == PROTOCOLS.get(row["kind"], row["kind"])
        assert network.port_bandwidth.value == pytest.approx(row["port_gbps"] * 1e9 / 8)
        assert network.port_bandwidth.value == pytest.approx(row["gb_s_per_direction"] * 1e9)
        assert network.in_network_reduction == row["in_network_reduction"]
        assert network.confidence == row["confidence"] or ident in READ_SINCE
        for key, value in (("end_to_end_latency_us", network.latency), ("switch_hop_latency_us", network.switch_latency)):
            assert (value is None) == (row[key] is None)
            if value is not None:
                assert value.value == pytest.approx(row[key] * 1e-6)
        fraction = row["measured_effective_fraction"]
        assert (network.effective_share.value if network.effective_share else None) == fraction
        if "total_gbps_per_instance" in row:
            assert network.ports_per_instance == row["total_gbps_per_instance"] / row["port_gbps"]
        assert network.ports_per_accelerator == row.get("ports_per_gpu")
        assert [name.partition(":")[2] for name in network.clouds] == row.get("instances", [])


@pytest.mark.parametrize(
    ("text", "rate", "why"),
    [
        ("2xdgx-h100@ib-ndr", 50, "as many as dgx-h100 has"),
        ("2xdgx-h100@4xib-ndr", 25, "as asked"),
        ("2 x dgx-h100 @ 4 x ndr", 25, "as asked"),
        ("16xh100@roce-200", 25, "as many as dgx-h100 has"),
        ("2xlambda:gpu_8x_h100_sxm5@1xethernet-100", 12.5 / 8, "as asked"),
        ("2xaws:p5.48xlarge@efa-v2", 50, "as the network is sold"),
        ("2xoci-h100-8@ultra-ethernet-roce-oci-2x200", 50, "as the network is sold"),
        ("20xgb200-tray@ib-xdr", 100, "as many as gb200-tray has"),
    ],
)
def test_ports_are_shared_by_the_accelerators_of_a_node(text, rate, why):
    made = parse_target(text, CATALOG)
    assert made.levels[-1].bandwidth_per_direction.value == pytest.approx(rate * 1e9)
    assert why in next(note.text for note in made.notes if note.code == "target.network")


def test_a_network_keeps_the_inside_of_a_node_and_is_not_used_inside_one():
    joined, alone = parse_target("2xdgx-h100@roce-100", CATALOG).levels[0], parse_target("dgx-h100", CATALOG).levels[0]
    assert (joined.name, joined.size, joined.latency_of) == (alone.name, alone.size, alone.latency_of)
    assert joined.bandwidth_per_direction.value == alone.bandwidth_per_direction.value
    assert [level.size for level in parse_target("20xgb200-tray@ib-ndr", CATALOG).levels] == [4, 72, None]
    inside = parse_target("4xh100@ib-ndr", CATALOG)
    assert [level.name for level in inside.levels] == ["nvlink4-nvswitch"]
    assert "target.network-unused" in {note.code for note in inside.notes}


def test_a_message_that_is_late_makes_every_collective_late():
    def start(text):
        return hardware_of(parse_target(text, CATALOG), catalog=CATALOG).parameters["fabric.network.all_reduce.start"]

    fast, slow = start("2xdgx-h100@ib-hdr"), start("2xdgx-h100@ethernet-100")
    assert fast.value == pytest.approx(20e-6)
    assert slow.value == pytest.approx(40e-6)
    assert slow.find("hw.fabric.network.latency") is not None
    assert fast.find("hw.fabric.network.latency") is None


def test_counts_and_units_are_those_before_the_sign():
    made = parse_target("3xaws:p5.48xlarge@ib-ndr", CATALOG)
    assert (made.count, made.units, made.per_unit) == (24, 3, 8)
    assert made.instance is not None


@pytest.mark.parametrize(
    ("text", "kind", "code"),
    [
        ("2xdgx-h100@", UsageError, "target.no-name"),
        ("@ib-ndr", UsageError, "target.no-name"),
        ("2xdgx-h100@ib-ndr@ib-ndr", UsageError, "target.no-name"),
        ("2xdgx-h100@0xib-ndr", UsageError, "target.bad-count"),
        ("2xdgx-h100@ib-ndx", UnknownError, "target.unknown-network"),
        ("2xdgx-h10@ib-ndr", UnknownError, "target.unknown-name"),
        ("64xk80@ib-edr", UnknownError, "target.no-node"),
        ("2xazure:Standard_NV6ads_A10_v5@ib-edr", UsageError, "target.shared-many"),
    ],
)
def test_what_cannot_be_joined_says_why(text, kind, code):
    with pytest.raises(kind) as caught:
        parse_target(text, CATALOG)
    assert caught.value.problems[0].code == code
    assert caught.value.problems[0].hint


def test_an_unknown_network_offers_one():
    with pytest.raises(GpuplanError) as caught:
        parse_target("2xlambda:gpu_8x_h100_sxm5", CATALOG)
    hint = caught.value.problems[0].hint
    assert "`2xlambda:gpu_8x_h100_sxm5@ib-ndr`" in hint
    assert parse_target(hint.split("`")[1], CATALOG).count == 16


GOOD = """
format: 1
id: net
name: a network
sources: {s: {title: t, url: https://example.com/x, checked: 2026-11-20}}
protocol: roce
port_bandwidth: 400 Gbit/s
confidence: high
"""


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("400 Gbit/s", "400", "spec.missing-unit"),
        ("400 Gbit/s", "400 Gbit", "spec.bad-unit"),
        ("protocol: roce", "protocol: token-ring", "spec.unknown-value"),
        ("port_bandwidth", "port_bandwith", "spec.unknown-key"),
    ],
)
def test_a_wrong_network_is_refused_with_a_line(old, new, code):
    read(Network, *parse_yaml(GOOD, "net.yaml"))
    with pytest.raises(GpuplanError) as caught:
        read(Network, *parse_yaml(GOOD.replace(old, new), "net.yaml"))
    assert code in [problem.code for problem in caught.value.problems]
    assert all(problem.where.startswith("net.yaml:") for problem in caught.value.problems)
