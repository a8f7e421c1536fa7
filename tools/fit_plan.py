"""Which parameters of which training engines are fitted to which published runs, and what does each of them mean?

A parameter stands at a path of an engine's `training` section, of several engines where they share what it stands for: one power
limit for all who multiply on a chip, one collective library beside their kernels, one kernel for all who call it. What is in
no list here is counted, cited or assumed in the engines' files.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

TORCH = ("fsdp", "torchtune", "litgpt", "torchtitan", "kempnerforge")
FULLY_SHARD = ("torchtune", "torchtitan", "kempnerforge", "nemo-automodel")
MEGATRON = ("megatron-lm", "nemo")
TRANSFORMERS = ("accelerate", "trl", "peft", "ms-swift", "axolotl", "llama-factory")
OTHERS = ("deepspeed", "torch-eager", "torch-loop", "unsloth")
"""Engines that nothing else is fitted of, beside whose kernels the same collectives run."""
ON_AMPERE = ("composer", *TRANSFORMERS, "deepspeed")
"""Engines that leave products to cuBLAS, of which runs on A100 were fitted to."""
ON_ROCM = (*TORCH, *TRANSFORMERS, "deepspeed", "torch-eager", "torch-loop")
"""Engines that leave products and attention to PyTorch's libraries there."""
ON_GPUS = ("composer", *TORCH, *MEGATRON, "nanotron", "nemo-automodel")
JAX = ("maxtext",)


class Parameter(NamedTuple):
    """A fitted value: where it starts, the width of its prior in logarithms, who takes it, and at which paths."""

    start: float
    width: float
    engines: tuple[str, ...]
    paths: tuple[str, ...]
    meaning: str
    eras: Mapping[str, str] = {}
    """Engines that no longer do what it stands for, and the last month that they did."""

    def paths_of(self, engine: str) -> tuple[str, ...]:
        """Where an engine's file has it, the era of it first where there is one."""
        era = self.eras.get(engine)
        return self.paths if era is None else tuple(f"era.{era}.{path}" for path in self.paths)


class Group(NamedTuple):
    """Parameters that are fitted together, and the sets of rows that they are fitted to."""

    sets: tuple[str, ...]
    parameters: Mapping[str, Parameter]
    experts: bool | None = None
    """Only rows of models with experts, or with state-space layers, or only of others; None: all."""
    spread: str = "residual"
    """Which range takes the spread of the rows of sources that were left out."""

    @property
    def engines(self) -> tuple[str, ...]:
        """The engines that take any of its values."""
        return tuple(dict.fromkeys(engine for one in self.parameters.values() for engine in one.engines))

    def paths(self, engine: str) -> dict[str, str]:
        """The parameter that each path of an engine takes its value from."""
        return {path: name for name, one in self.parameters.items() if engine in one.engines for path in one.paths_of(engine)}


def _pace(family: str, *kinds: str) -> tuple[str, ...]:
    return tuple(f"pace.{family}.{kind}" for kind in kinds)


PLAN: Mapping[str, Group] = {
    "gpus": Group(
        (
            "llm-foundry",
            "llm-foundry-2023",
            "fms-fsdp",
            "torchtitan",
            "torchao",
            "dgxc-benchmarking",
            "megatron-bridge",
            "nanotron",
        ),
        {
            "hopper.matmul": Parameter(
                1.05,
                0.08,
                tuple(one for one in ON_GPUS if one != "kempnerforge"),
                _pace("hopper", "matmul"),
                "the clock in whole steps under the power limit, over that of kernels",
            ),
            "ampere.matmul": Parameter(
                1.0, 0.05, ON_AMPERE, _pace("ampere", "matmul"), "the same of A100, whose kernels were measured at another site"
            ),
            "cdna3": Parameter(
                1.2, 0.2, ON_ROCM, _pace("cdna3", "matmul", "attention", "attention_backward"), "libraries and clock of CDNA 3"
            ),
            "cdna3.matmul_fp8": Parameter(1.2, 0.2, ON_ROCM, _pace("cdna3", "matmul_fp8"), "the same, with casts"),
            "flash-2.hopper": Parameter(
                1.33,
                0.15,
                ("torchtitan", "composer"),
                _pace("hopper", "attention"),
                "FlashAttention-2, written for Ampere, over the kernels for Hopper that were measured",
                {"torchtitan": "2025-09"},
            ),
            "flash-2.hopper.backward": Parameter(
                1.8,
                0.15,
                ("torchtitan", "composer"),
                _pace("hopper", "attention_backward"),
                "the same, backward",
                {"torchtitan": "2025-09"},
            ),
            "flash-1.ampere": Parameter(
                1.5,
                0.2,
                ("composer",),
                _pace("ampere", "attention", "attention_backward"),
                "FlashAttention 1 and Triton's over FlashAttention-2, which was measured",
            ),
            "flash-1.depth": Parameter(
                40, 0.5, ("composer",), _pace("ampere", "attention_depth"), "head dimension at which they reach half of their rate"
            ),
            "eager.passes": Parameter(
                28,
                0.25,
                TORCH,
                ("eager.hidden_passes",),
                "passes of norms, rotary positions and residuals written operator by operator",
            ),
            "switched.tp": Parameter(0.6, 0.3, MEGATRON, ("switched.tp",), "what pipelined collectives of tensor parallelism hide"),
            "nanotron.straggle": Parameter(
                0.005, 0.5, ("nanotron",), ("straggle",), "the slowest of more ranks, where every step waits for its logs"
            ),
        },
        experts=False,
    ),
    "experts": Group(
        ("dgxc-benchmarking", "megatron-bridge"),
        {
            "hopper.grouped": Parameter(1.15, 0.12, MEGATRON, _pace("hopper", "grouped"), "grouped matmuls over those measured"),
            "blackwell.grouped": Parameter(1.15, 0.12, MEGATRON, _pace("blackwell", "grouped"), "the same"),
            "switched.ep": Parameter(0.8, 0.2, MEGATRON, ("switched.ep",), "what the exchange of tokens hides"),
            "2026-05.blackwell.grouped": Parameter(
                1.25, 0.12, MEGATRON, ("era.2026-05.pace.blackwell.grouped",), "the same in software up to May 2026"
            ),
            "2026-05.experts.start": Parameter(2e-5, 0.5, MEGATRON, ("era.2026-05.experts.start",), "the same up to May 2026"),
        },
        experts=True,
        spread="residual_experts",
    ),
    "megatron-deepspeed": Group(
        ("bigscience",),
        {
            "site": Parameter(
                1.0,
                0.3,
                ("megatron-deepspeed",),
                _pace("ampere", "matmul"),
                "all else is counted from its code; what is left is the nodes of the one site with published runs",
            ),
        },
    ),
    "maxtext": Group(
        ("maxtext", "tpu-recipes", "jax-toolbox"),
        {
            "tpu.grouped": Parameter(1.2, 0.25, JAX, _pace("tpu", "grouped"), "grouped matmuls, no kernel of which was measured"),
            "tpu": Parameter(1.0, 0.08, JAX, _pace("tpu", "matmul"), "matmuls, no kernel of which was measured"),
            "v5e": Parameter(1.0, 0.15, JAX, _pace("tpu-v5e", "matmul"), "the clock that the chip holds, over the datasheet's"),
            "v6e": Parameter(1.1, 0.15, JAX, _pace("tpu-v6e", "matmul"), "the same"),
            "v7": Parameter(1.1, 0.15, JAX, _pace("tpu-v7-ironwood", "matmul", "matmul_fp8"), "the same"),
            "v6e.fp8": Parameter(1.3, 0.2, JAX, _pace("tpu-v6e", "matmul_fp8"), "the same in 8 bits, with casts"),
            "contention": Parameter(0.2, 0.7, JAX, ("contention",), "what computation loses to transfers beside it"),
            "straggle": Parameter(0.02, 0.5, JAX, ("straggle",), "the slowest of more chips, for each doubling beyond a slice"),
            "overlap.tp": Parameter(0.5, 0.3, JAX, ("overlap.tp",), "what collective matmuls hide"),
        },
    ),
    "transformers": Group(
        ("qwen", "ml-engineering"),
        {
            "host.layer": Parameter(4e-4, 0.4, TRANSFORMERS, ("host.layer",), "launches of an eager layer's forward pass"),
            "host.tensor": Parameter(1.2e-4, 0.5, TRANSFORMERS, ("host.tensor",), "launches of clipping and optimizer of a tensor"),
            "gather_host": Parameter(
                2e-4, 0.5, TRANSFORMERS, ("sharding.gather_host",), "a collective of ZeRO-3 beside its hooks, which are timed"
            ),
            "adapters.host": Parameter(8e-5, 0.5, TRANSFORMERS, ("adapters.host",), "launches of an adapted matrix"),
            "dequantise": Parameter(25, 0.5, TRANSFORMERS, ("adapters.dequantise",), "passes that widen a stored weight"),
        },
    ),
}
