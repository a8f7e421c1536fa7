"""Which optimizers are there, and what do other tools call them? Questions, engines' habits and model cards read this one table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias, get_args

Optimizer: TypeAlias = Literal[
    "adamw", "adamw-8bit", "adamw-4bit", "adafactor", "muon", "lion", "lion-8bit", "sgd", "adagrad", "rmsprop", "rmsprop-8bit",
    "ademamix", "ademamix-8bit", "adam-mini", "lomo", "adalomo",
]  # fmt: skip
OPTIMIZERS: tuple[Optimizer, ...] = get_args(Optimizer)
FUSED_UPDATES: tuple[Optimizer, ...] = ("lomo", "adalomo")
"""Optimizers that update each 16-bit weight as soon as its gradient is there, without copies in fp32."""
OPTIMIZERS_ALSO_CALLED: Mapping[str, Optimizer] = {
    **dict.fromkeys(
        ("adam", "adamw_torch", "adamw_torch_fused", "adamw_torch_xla", "adamw_torch_npu_fused", "adamw_apex_fused", "adamw_hf",
         "adamw_32bit", "adamw_bnb_32bit", "paged_adamw", "paged_adamw_32bit", "fused_adamw", "cpu_adam", "stable_adamw", "adopt",
         "schedule_free_adamw", "schedule_free_radam", "adamw_fp32"),
        "adamw",
    ),
    **dict.fromkeys(("adam8bit", "adam_8bit", "adamw8bit", "adamw_bnb_8bit", "adamw_torch_8bit", "paged_adamw_8bit"), "adamw-8bit"),
    **dict.fromkeys(("adamw4bit", "adam4bit", "adamw_torch_4bit"), "adamw-4bit"),
    **dict.fromkeys(("lion_32bit", "paged_lion_32bit", "lion_pytorch"), "lion"),
    **dict.fromkeys(("lion8bit", "paged_lion_8bit"), "lion-8bit"),
    **dict.fromkeys(("rmsprop_bnb", "rmsprop_bnb_32bit"), "rmsprop"), "rmsprop_bnb_8bit": "rmsprop-8bit",
    "paged_ademamix_32bit": "ademamix", "paged_ademamix_8bit": "ademamix-8bit", "adammini": "adam-mini",
    "schedule_free_sgd": "sgd", "adam_mini": "adam-mini",
}  # fmt: skip
"""What Transformers (`OptimizerNames`), bitsandbytes and torchao call them. Paged states are in managed memory, which they leave
where there is no room: they count as if they stayed."""
