"""The going rate of machines that nobody named a cloud for: only offers that make the machine, and instances paid whole."""

from __future__ import annotations

import pytest

from gpuplan.errors import UnknownError
from gpuplan.specs.catalog import Catalog
from gpuplan.specs.going_rate import Shape, going_rate
from gpuplan.specs.offers import instances_with, street_price
from gpuplan.specs.on import parse_target
from gpuplan.units import HOUR
from tests.sweeps import each

CATALOG = Catalog.open()
BARE = sorted(CATALOG.paths("accelerators"))


def rate(on: str):
    return going_rate(parse_target(on, CATALOG), CATALOG)


def test_one_accelerator_is_the_cheapest_pod():
    one, street = rate("h100"), street_price("h100-sxm-80gb", CATALOG)
    assert one.instance.accelerators == 1
    assert one.price.value == pytest.approx(street.price.value)


@pytest.mark.parametrize("on", ["8xh100", "64xh100", "2xdgx-h100"])
def test_pods_of_one_accelerator_make_no_node_and_no_cluster(on):
    found = rate(on)
    assert found.instance.accelerators == 8
    assert found.price.value > street_price("h100-sxm-80gb", CATALOG).price.value


def test_nodes_of_a_cluster_have_its_network():
    found = rate("64xh100")
    network = found.instance.shape.network
    assert network.kind in ("infiniband", "efa", "rdma-roce")
    assert network.bandwidth.value / 8 >= 50e9


def test_instances_are_paid_whole():
    ten, eight = rate("10xl40s"), rate("8xl40s")
    if ten.instance.qualified_name == eight.instance.qualified_name:
        assert ten.price.value * 10 == pytest.approx(2 * eight.price.value * 8)
    three = rate("3xa100")
    per_s = three.offer.price.value if three.offer.per == "instance" else three.offer.price.value * three.instance.accelerators
    assert three.price.value * 3 == pytest.approx(per_s)


def test_what_nobody_sells_together_has_no_rate_and_the_reason_is_said():
    with pytest.raises(UnknownError, match="2 x rtx-3090 in one node"):
        rate("2xrtx-3090")
    with pytest.raises(UnknownError, match="in nodes of 8, each with"):
        rate("64xrtx-4090@ib-ndr")


def test_slices_are_priced_by_the_chip():
    assert rate("tpu-v5p-256").price.value * HOUR == pytest.approx(4.2)


@each("accelerator", BARE)
def test_an_offer_that_is_taken_always_makes_the_machine(accelerator):
    for count in (1, 8):
        try:
            target = parse_target(f"{count}x{accelerator}", CATALOG)
            found = going_rate(target, CATALOG)
        except UnknownError:
            continue
        instance = found.instance
        assert instance.accelerators * max(1, -(-count // int(instance.accelerators))) >= count
        assert count == 1 or instance.shape.scale_up.kind != "none"


def test_no_instance_of_one_accelerator_makes_more_than_one():
    for instance in instances_with("h100-sxm-80gb", CATALOG):
        if instance.shape.scale_up.kind == "none":
            assert not Shape("h100-sxm-80gb", 2).made_of(instance)
