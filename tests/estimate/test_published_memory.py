"""Peak memory of fine-tuning recipes, flag by flag, against what their makers printed."""

from __future__ import annotations

from typing import Any

import pytest

from gpuplan.plan.ask import TrainAsk
from gpuplan.search.ask import train

GIB = 2**30
CHUNKED: dict[str, Any] = {"compiled": True, "chunked_loss": True}
CHECKPOINTED: dict[str, Any] = CHUNKED | {"recompute": "full"}
ADAPTED: dict[str, Any] = CHECKPOINTED | {"lora": 8, "lora_targets": "qv", "offload": ("activations",)}


@pytest.mark.parametrize(
    ("printed", "given"),
    [
        (60.0, {"recompute": "none", "compiled": False}),
        (51.0, {"recompute": "none", "compiled": True}),
        (42.9, {"recompute": "none", **CHUNKED}),
        (24.9, CHECKPOINTED),
        (23.1, CHECKPOINTED | {"step_in_backward": True}),
        (21.8, CHECKPOINTED | {"step_in_backward": True, "offload": ("activations",)}),
        (8.5, ADAPTED),
        (4.6, ADAPTED | {"base_weights": "nf4-dq"}),
    ],
)
def test_each_flag_of_torchtune_takes_what_its_readme_says(printed: float, given: dict[str, Any]) -> None:
    # meta-pytorch/torchtune bd2a0fc7, README, Optimization flags: Llama 3.2 3B on an A100, 2 packed sequences of 4096 in bf16,
    # peak memory active in GiB; each flag on top of the one before, LoRA and QLoRA with AdamW.
    # What its recipes switch on besides is off where the table does not name it.
    off: dict[str, Any] = {"chunked_loss": False, "step_in_backward": False, "optimizer": "adamw", "offload": ()}
    ask = TrainAsk(
        model="llama-3.2-3b", on="1xa100-sxm-80gb", engine="torchtune", precision="bf16-pure", seq_len=4096, global_batch=2,
        micro_batch=2, tp=1, pp=1, cp=1, **off | given,
    )  # fmt: skip
    tensors: Any = train(ask).figures["allocated_memory_bytes"].value
    assert float(tensors) / GIB == pytest.approx(printed, rel=0.04)
