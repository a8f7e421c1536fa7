"""Power limits: a chip whose kernels were measured on another of its family is held back as its own rate and watts say."""

from __future__ import annotations

import pytest

from gpuplan.machine.build import hardware_of
from gpuplan.specs.catalog import Catalog
from gpuplan.specs.on import parse_target

CATALOG = Catalog.open()


def throttle(name: str) -> float:
    return float(hardware_of(parse_target(name, CATALOG), catalog=CATALOG).parameter("matmul.bf16.throttle").value)  # type: ignore[arg-type]


def test_a_card_of_half_the_rate_and_more_watts_is_not_held_back() -> None:
    """RTX 4090: 165 TFLOP/s at 450 W, after an L40S of 362 at 350 W."""
    assert throttle("l40s") > 0.3
    assert throttle("rtx-4090") == 0


def test_a_card_of_few_watts_is_held_back_more() -> None:
    """H100 PCIe: 756 TFLOP/s at 350 W, after an SXM part of 989 at 700 W; L4: 121 at 72 W."""
    assert throttle("h100-pcie-80gb") > throttle("h100-sxm-80gb")
    assert throttle("l4") > throttle("l40s")


@pytest.mark.parametrize("own", ["h100-sxm-80gb", "a100-sxm-80gb", "l40s", "b200-sxm-180gb"])
def test_what_was_measured_stays_as_measured(own: str) -> None:
    assert hardware_of(parse_target(own, CATALOG), catalog=CATALOG).parameter("matmul.bf16.throttle").formula is None
