"""Which adapters does a row's run train, on weights of which type?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuplan.accuracy.rows import Row, Skip
from gpuplan.plan.words import BaseWeights, LoraTargets

ATTENTION = ("qkv", "attn", "attention", "q_proj", "k_proj", "v_proj", "o_proj")
FEED_FORWARD = ("mlp", "up_proj", "gate_proj", "down_proj")
"""How rows write matrices of attention and of feed-forward layers."""


def adapters_of(row: Row) -> dict[str, Any]:
    """The adapters of a row's plan; their rank and their matrices are left to the engine where the row does not say them.

    LLaMA-Adapter's prompts in attention are asked for as the least low-rank adapters of it: what the frozen layers keep to pass
    gradients on is the same, and neither adds anything to speak of. Its second version trains a bias and a scale behind every
    matrix, which keep what that makes.

    Raises:
        Skip: they are of a kind that no plan has.
    """
    if row.kind == "finetune-adapter":
        if row.run.get("adapter") == "adapter-v2":
            return {"scales": True, "base_weights": _base_weights(row)}
        if row.run.get("adapter") != "adapter":
            raise Skip(f"no plan for adapters of the kind `{row.run.get('adapter')}`")
        return {"lora": 1, "lora_targets": "qv", "base_weights": _base_weights(row)}
    if not row.kind.endswith(("lora", "qlora")):
        return {}
    said = row.run.get("lora")
    stated: Mapping[str, Any] = said if isinstance(said, Mapping) else {}
    rank = stated.get("rank") or row.run.get("lora_rank")
    where = f"{stated.get('targets') or ''} {row.run.get('lora_targets') or ''}".lower()
    targets: LoraTargets | None = None
    ours, fed = any(name in where for name in ATTENTION), any(name in where for name in FEED_FORWARD)
    if "all" in where or (ours and fed):
        targets = "all"
    elif fed:
        targets = "mlp"
    elif "query and value" in where or ("q_proj" in where and "v_proj" in where and "k_proj" not in where):
        targets = "qv"
    elif ours:
        targets = "attention"
    return {
        "lora": int(rank) if rank else None,
        "lora_targets": targets, "base_weights": _base_weights(row), "train_edges": True if "embedding" in where else None,
        # Low-rank adapters without magnitudes: said where nothing else of them is, so that they are asked for.
        "dora": True if "dora" in row.id else None if rank or targets else False,
    }  # fmt: skip


def _base_weights(row: Row) -> BaseWeights | None:
    """How the frozen weights are stored, as the row says it."""
    said = str(row.run.get("params_dtype") or "").lower()
    if "int4" in said or "4bit" in said or "4-bit" in said:
        return "int4" if "gptq" in said or "awq" in said else "nf4"
    if any(name in said for name in ("fp8", "float8", "e4m3", "e5m2")):
        return "fp8"
    if "int8" in said:
        return "int8"
    if "nf4" in said:
        return "nf4-dq" if "dq" in said else "nf4"
    if "32" in said:
        return "fp32"
    return "nf4-dq" if row.kind == "finetune-qlora" else None
