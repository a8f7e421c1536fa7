"""The network that a page names is the one that its row is asked for."""

from __future__ import annotations

from typing import Any

import pytest

from gpuplan.accuracy.judge import training_question
from gpuplan.accuracy.rows import Row
from gpuplan.cli.accuracy_run import answers


@pytest.mark.parametrize(
    ("count", "per_node", "network", "on"),
    [
        (2, 1, "20 Gb/s Ethernet", "2x1xh200-sxm-141gb@2xethernet-10"),
        (16, 8, "100 Gb/s Ethernet", "2x8xh200-sxm-141gb@ethernet-100"),
        (8, 8, "10 Gb/s Ethernet", "8xh200-sxm-141gb"),
        (16, 8, "100 Gb/s InfiniBand", "2x8xh200-sxm-141gb@1xib-edr"),
        (8, 8, "100 Gb/s InfiniBand", "8xh200-sxm-141gb"),
        (16, 8, "800 Gb/s per node", "16xh200-sxm-141gb@4xroce-200"),
        (16, 8, "400 Gb/s per GPU InfiniBand", "16xh200-sxm-141gb"),
    ],
)
def test_a_stated_network_is_asked_for(count: int, per_node: int, network: str, on: str) -> None:
    run: dict[str, Any] = {
        "seq_len": 4096,
        "global_batch": 16,
        "micro_batch": 1,
        "tp": 1,
        "pp": 1,
        "dp": count,
        "precision": "bf16",
    }
    row = Row(
        id="one", set="mine", task="training", model={"id": "qwen3-1.7b"}, run=run, measured={}, engine="megatron-lm",
        hardware={"accelerator": "h200-sxm-141gb", "count": count, "per_node": per_node, "inter_node": network},
    )  # fmt: skip
    assert training_question(row, answers()).on == on
