"""Every shipped system loads, and says what the table of facts says."""

import pytest

from gpuplan.errors import SpecError
from gpuplan.schema import read
from gpuplan.specs.catalog import Catalog
from gpuplan.specs.system import System, slice_key
from gpuplan.strict_yaml import parse_yaml
from tests.specs.shared_data import table

CATALOG = Catalog.open(env={"HOME": "/nonexistent"})
SYSTEMS = {ident: CATALOG.read(System, path) for ident, path in CATALOG.paths("systems").items()}


def test_there_are_the_systems_of_the_first_catalog():
    wanted = {
        "dgx-1-v100-16gb", "dgx-1-v100-32gb", "dgx-a100-320gb", "dgx-a100-640gb", "dgx-h100", "dgx-h200", "dgx-b200", "gb200-nvl72",
        "mi300x-8", "tpu-v5e-pod", "tpu-v5p-pod", "l40s-8", "a100-pcie-80gb-8", "h100-pcie-8",
    }  # fmt: skip
    assert wanted <= set(SYSTEMS)
    assert len(SYSTEMS) >= 171


@pytest.mark.parametrize("ident", SYSTEMS)
def test_each_system_names_known_parts_and_is_possible(ident):
    system = SYSTEMS[ident]
    assert system.accelerator in CATALOG.paths("accelerators")
    for level in system.fabric:
        rate, peer = level.bandwidth_per_direction, level.peer_bandwidth_per_direction
        if rate is not None and peer is not None:
            assert peer.value <= rate.value * 1.001
        for run in level.measured:
            if rate is not None and run.collective != "all_reduce":
                assert run.bus_bandwidth.value <= rate.value
    for part in system.slices:
        assert system.link_bandwidth is not None
        if part.links is not None:
            assert part.links <= 2 * len(part.dims)


def test_every_source_can_be_followed_or_is_marked():
    for system in SYSTEMS.values():
        for source in system.sources.values():
            assert source.url or source.kind in {"assumed", "derived", "measured"}
            assert source.checked


def test_every_level_says_what_the_table_says():
    rows = {row["id"]: row for row in table("systems.yaml")["systems"]}
    assert set(rows) == set(SYSTEMS)
    compared = 0
    for ident, row in rows.items():
        system = SYSTEMS[ident]
        assert system.count == row["accelerators"]
        levels = {level.name: level for level in system.fabric}
        for given in row["fabric"]:
            if given["size"] == 1:
                continue
            level = levels[given["name"]]
            assert level.size == given["size"]
            assert level.in_network_reduction == given["in_network_reduction"]
            for key, value in (
                ("bandwidth_per_direction_gb_s", level.bandwidth_per_direction),
                ("peer_bandwidth_per_direction_gb_s", level.peer_bandwidth_per_direction),
            ):
                if given[key]:
                    assert value is not None
                    assert value.value == pytest.approx(given[key] * 1e9)
                    compared += 1
            if given["latency_us"] is not None:
                assert level.latency is not None
                assert level.latency.value == pytest.approx(given["latency_us"] * 1e-6)
            best = given["measured_all_reduce_busbw_gb_s"]
            if best is not None:
                assert best * 1e9 in [pytest.approx(run.bus_bandwidth.value) for run in level.measured]
    assert compared > 400


def test_every_slice_says_what_the_table_says():
    for generation, given in table("systems.yaml")["tpu_topologies"].items():
        pod = SYSTEMS[f"tpu-{generation}-pod"]
        assert len(pod.slices) == len(given["topologies"])
        for row in given["topologies"]:
            part = pod.slice_named(row["name"])
            assert part is not None
            assert part.chips == row["chips"]
            assert "x".join(map(str, part.dims)) == row["topology"]
            assert list(part.wrap) == row["wrap"]


@pytest.mark.parametrize(
    ("name", "chips"),
    [("v5p-256", 128), ("v5e-256", 256), ("v6e-8", 8), ("v4-128", 64), ("v3-2048", 1024), ("v2-8", 4), ("tpu7x-128", 64)],
)
def test_names_of_v2_to_v5p_and_v7_count_cores_and_those_of_v5e_and_v6e_count_chips(name, chips):
    pod = SYSTEMS[f"tpu-{slice_key(name).partition('-')[0]}-pod"]
    part = pod.slice_named(name)
    assert part is not None
    assert part.chips == chips


GOOD = """
format: 1
id: box
name: a box
sources: {s: {title: t, url: https://example.com/x, checked: 2026-11-20}}
form: node
accelerator: h100-sxm-80gb
accelerators: 8
fabric:
  - {name: inner, size: 8, topology: switched, bandwidth_per_direction: 450 GB/s}
"""


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        ("450 GB/s", "450", "spec.missing-unit"),
        ("450 GB/s", "450 GB", "spec.wrong-unit"),
        ("topology: switched", "topology: torus", "spec.missing-key"),
        ("topology: switched", "topology: torus, dims: [2, 2], wrap: [true, true]", "spec.bad-shape"),
        ("topology: switched", "topology: torus, dims: [2, 4], wrap: [true]", "spec.bad-shape"),
        ("topology: switched", "topology: star", "spec.unknown-value"),
        ("size: 8", "sise: 8", "spec.unknown-key"),
        ("fabric:\n", "fabric:\n  - {name: outer, topology: switched, bandwidth_per_direction: 50 GB/s}\n", "spec.level-order"),
    ],
)
def test_a_wrong_system_is_refused_with_a_line(old, new, code):
    read(System, *parse_yaml(GOOD, "box.yaml"))
    with pytest.raises(SpecError) as caught:
        read(System, *parse_yaml(GOOD.replace(old, new), "box.yaml"))
    assert code in [problem.code for problem in caught.value.problems]
    assert all(problem.where.startswith("box.yaml:") for problem in caught.value.problems)
