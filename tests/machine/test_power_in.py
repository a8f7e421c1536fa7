"""What a part may draw is said by the system that it is in, and a processor on its module takes its part first."""

from __future__ import annotations

import pytest

from gpuplan.machine.borrowed_clock import own_watts
from gpuplan.machine.build import hardware_of
from gpuplan.specs.accelerator import Accelerator
from gpuplan.specs.catalog import Catalog
from gpuplan.specs.on import parse_target

CATALOG = Catalog.open()


def test_a_module_of_jupiter_leaves_its_gpu_what_the_processor_does_not_take() -> None:
    # JSC, JUPITER configuration: 680 W for a whole superchip of a booster node, 900 W in a login node.
    chip = CATALOG.load(Accelerator, "gh200-96gb")
    alone, quad = own_watts(chip, None), own_watts(chip, "gh200-quad")
    assert alone is not None
    assert quad is not None
    assert (alone.value, quad.value) == (800.0, 580.0)


def test_an_accelerator_whose_limit_is_its_own_has_all_of_it() -> None:
    chip = CATALOG.load(Accelerator, "h100-sxm-80gb")
    power = own_watts(chip, "dgx-h100")
    assert power is not None
    assert power.value == 700.0


def test_busy_matmuls_are_held_back_where_the_limit_is_lower() -> None:
    def throttle(on: str) -> float:
        return float(hardware_of(parse_target(on, CATALOG)).under_load().parameters["matmul.bf16.throttle"].value)

    # The same chip: as the square root of what it may draw (formulas.power), which is all that differs.
    alone, quad = throttle("gh200"), throttle("4xgh200")
    assert (1.0 + quad) / (1.0 + alone) == pytest.approx((800.0 / 580.0) ** 0.5)
    assert throttle("h100") < quad


def test_energy_counts_what_the_module_draws() -> None:
    def power(on: str) -> float:
        found = hardware_of(parse_target(on, CATALOG)).power
        assert found is not None
        return float(found.value)

    assert (power("gh200"), power("4xgh200")) == (900.0, 680.0)
