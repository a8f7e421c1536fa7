"""Every shipped system loads and is possible; a wrong one is refused."""

import pytest

from gpuplan.errors import SpecError
from gpuplan.schema import read
from gpuplan.specs.catalog import Catalog
from gpuplan.specs.network import Network
from gpuplan.specs.system import System, slice_key
from gpuplan.strict_yaml import parse_yaml
from tests.sweeps import each

CATALOG = Catalog.open(env={"HOME": "/nonexistent"})
SYSTEMS = {ident: CATALOG.read(System, path) for ident, path in CATALOG.paths("systems").items()}


def test_there_are_the_systems_of_the_first_catalog():
    wanted = {
        "dgx-1-v100-16gb", "dgx-1-v100-32gb", "dgx-a100-320gb", "dgx-a100-640gb", "dgx-h100", "dgx-h200", "dgx-b200", "gb200-nvl72",
        "mi300x-8", "tpu-v5e-pod", "tpu-v5p-pod", "l40s-8", "a100-pcie-80gb-8", "h100-pcie-8",
    }  # fmt: skip
    assert wanted <= set(SYSTEMS)
    assert len(SYSTEMS) >= 171


@each("ident", SYSTEMS)
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
        for one, others in level.pair_links.items():
            assert all(level.pair_links[other][one] == count for other, count in others.items())
    out = system.scale_out
    if out is not None and out.network is not None:
        network = CATALOG.load(Network, out.network)
        assert out.bandwidth_each is not None
        assert network.port_bandwidth.value == out.bandwidth_each.value
    for part in system.slices:
        assert system.link_bandwidth is not None
        if part.links is not None:
            assert part.links <= 2 * len(part.dims)


def test_every_source_can_be_followed_or_is_marked():
    for system in SYSTEMS.values():
        for source in system.sources.values():
            assert source.url or source.kind in {"assumed", "derived", "measured", "definition"}
            assert source.checked


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
