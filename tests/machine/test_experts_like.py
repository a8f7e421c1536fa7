"""Products over experts of checkpoints that an engine was not timed with are those of the kernel that it runs of them."""

from __future__ import annotations

from gpuplan.machine.experts_like import with_experts_like
from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.search.library import Library


def test_experts_in_8_bits_run_the_kernel_of_blocks_on_hopper_alone() -> None:
    library = Library.of(ServeAsk(model="", on=""))
    engine, _ = library.engine("vllm")
    hopper, blackwell = (library.machine(on, engine) for on in ("h100", "b200"))
    for name in ("efficiency", "start", "tile_m"):
        assert hopper.parameters[f"grouped.fp8.{name}"].value == hopper.parameters[f"grouped.fp8_block.{name}"].value
    assert blackwell.parameters["grouped.fp8.efficiency"].value != blackwell.parameters["grouped.fp8_block.efficiency"].value


def test_a_kind_that_nobody_measured_stands_for_none() -> None:
    library = Library.of(ServeAsk(model="", on=""))
    engine, _ = library.engine("vllm")
    hw = library.machine("h100", engine)
    assert with_experts_like(hw, {"bf16": "int8"}).parameters == hw.parameters
