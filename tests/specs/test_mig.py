"""Slices of a card by MIG as machines: what each has of the card, how their names are read, and what they are not."""

import pytest

from gpuplan.errors import GpuplanError, UnknownError
from gpuplan.machine.build import hardware_of
from gpuplan.specs.catalog import Catalog
from gpuplan.specs.going_rate import going_rate
from gpuplan.specs.on import parse_target

CATALOG = Catalog.open(env={"HOME": "/nonexistent"})


@pytest.mark.parametrize(
    ("name", "card", "profile", "count"),
    [
        ("a100-40gb:1g.5gb", "a100-sxm-40gb", "1g.5gb", 1),
        ("h100 3g.40gb", "h100-sxm-80gb", "3g.40gb", 1),
        ("NVIDIA A100-SXM4-80GB MIG 3g.40gb", "a100-sxm-80gb", "3g.40gb", 1),
        ("nvidia.com/gpu.product=NVIDIA-H100-80GB-HBM3-MIG-1g.10gb", "h100-sxm-80gb", "1g.10gb", 1),
        ("gpu:a100_3g.20gb:2", "a100-sxm-40gb", "3g.20gb", 2),
        ("4xh200:1g.18gb", "h200-sxm-141gb", "1g.18gb", 4),
        ("a30 mig 1g.6gb+me", "a30", "1g.6gb", 1),
    ],
)
def test_a_slice_is_read_in_the_ways_that_drivers_and_schedulers_write_it(name, card, profile, count):
    target = parse_target(name, CATALOG)
    assert (target.accelerator.id, target.cut.profile, target.count) == (card, profile, count)


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("nvidia.com/mig-1g.5gb", "a100-sxm-40gb:1g.5gb"), ("gpu:1g.5gb:2", "a100-sxm-40gb:1g.5gb"), ("h100:1g.99gb", "1g.10gb"),
        ("v100 1g.5gb", "a100-sxm-40gb:1g.5gb"), ("8xh100 1g.99gb", "1g.10gb"), ("dgx-h100:1g.10gb", "h100-sxm-80gb:1g.10gb"),
        ("H100_40GB", "h100-sxm-80gb:3g.40gb"), ("a100-40gb:3g.40gb", "4g.20gb"), ("A100-SXM4-40GB-MIG-7g.80gb", "7g.40gb"),
    ],
)  # fmt: skip
def test_what_names_no_slice_of_one_card_is_told_what_to_name(name, told):
    with pytest.raises(GpuplanError) as error:
        parse_target(name, CATALOG)
    assert told in (error.value.problems[0].hint or "")


def test_a_slice_has_its_units_its_share_of_bandwidth_and_the_memory_that_the_driver_lists():
    whole = hardware_of(parse_target("h100-sxm-80gb", CATALOG), catalog=CATALOG)
    part = hardware_of(parse_target("h100-sxm-80gb:1g.10gb", CATALOG), catalog=CATALOG)
    assert part.sm_count.value == pytest.approx(16)
    assert part.peaks["bf16"].value / whole.peaks["bf16"].value == pytest.approx(16 / 132)
    assert part.hbm_bandwidth.value / whole.hbm_bandwidth.value == pytest.approx(1 / 8)
    assert part.memory_capacity.value == pytest.approx(9.75 * 2**30)


def test_slices_reach_no_other_and_none_is_sold_alone():
    several = parse_target("2xh100:3g.40gb", CATALOG)
    assert several.unjoined is not None
    assert several.unjoined.reach == 1
    with pytest.raises(UnknownError, match="no price of a MIG slice"):
        going_rate(parse_target("h100:3g.40gb", CATALOG), CATALOG)
