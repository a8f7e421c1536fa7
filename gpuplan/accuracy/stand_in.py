"""Which engine's profile answers for the framework that a row names, where that framework has none of its own?"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gpuplan.accuracy.rows import Row

RESEMBLES: Mapping[str, str] = {
    "hf-transformers+deepspeed": "accelerate", "deepspeed-zero3": "deepspeed", "colossal-ai": "deepspeed",
}  # fmt: skip
"""Other names of what profiles describe."""
STANDS_IN: Mapping[str, str] = {
    # Replicas of plain PyTorch.
    "deeplearningexamples": "fsdp",
    # Transformer Engine's kernels.
    "nemo-automodel": "nemo",
    # Fused kernels of their own or of Apex, tensor parallelism and sharded optimizers in the manner of Megatron.
    "flash-attention": "megatron-lm", "llm.c": "megatron-lm", "gpt-neox": "megatron-lm", "primus": "megatron-lm",
    "neuronx-distributed": "megatron-lm", "nemo-megatron-neuronx": "megatron-lm",
    # Compiled whole by XLA.
    "levanter": "maxtext", "t5x": "maxtext", "easylm": "maxtext",
}  # fmt: skip
"""Frameworks without a profile, and the one that works most alike."""
GRAPHS = ("gaudi",)
"""Families of accelerators for which a fork of Megatron compiles graphs with fused attention, whatever its name says of eager."""
USUAL = "megatron-lm"
"""What rows of papers that name no framework mostly are."""
WIDER = 1.2
"""Factor by which a range is wider, down and up, where the profile is another framework's (assumed)."""
DIVIDED = ("tp", "pp", "cp", "ep", "vpp")


def engine_of(row: Row, knows: Callable[[str], bool]) -> tuple[str, bool]:
    """The engine that a row is asked for, with its month, and whether its profile stands in for another framework.

    Megatron-LM that still wrote out the scores of attention is of another era. A framework that nobody knows is what its plan
    is most like.
    """
    words = row.engine.split()
    named = RESEMBLES.get(row.engine, row.engine) or USUAL
    stands_in = row.engine in STANDS_IN
    if stands_in:
        named = STANDS_IN[row.engine]
    elif not knows(named):
        stands_in = not (words and knows(words[0]))
        named = _by_plan(row) if stands_in else words[0]
    if named.startswith("megatron") and str(row.hardware["accelerator"]).startswith(GRAPHS):
        return USUAL, True
    if named == USUAL and row.run.get("attention") == "standard":
        return "megatron-2021", stands_in
    return f"{named}@{row.month}" if row.month is not None else named, stands_in


def _by_plan(row: Row) -> str:
    """The profile of a framework of which only the plan is known."""
    sharding = str(row.run.get("sharding") or "").lower()
    if str(row.hardware["accelerator"]).startswith("tpu"):
        return "maxtext"
    if "zero" in sharding:
        return "deepspeed"
    if "fsdp" in sharding or "hsdp" in sharding:
        return "fsdp"
    if any((row.run.get(degree) or 1) > 1 for degree in DIVIDED):
        return USUAL
    return "accelerate" if row.kind.startswith("finetune") else "fsdp"
