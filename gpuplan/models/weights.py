"""How does a quantised checkpoint store its weights, by its `quantization_config` or `hf_quant_config.json`?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuplan.errors import Note
from gpuplan.models.card import Dtype, NumberKind, WeightsFormat
from gpuplan.models.plain_parts import folded

DTYPES: dict[str, Dtype] = {
    "bfloat16": "bf16", "float16": "fp16", "half": "fp16", "float32": "fp32", "float": "fp32", "bf16": "bf16", "fp16": "fp16",
    "fp32": "fp32", "float8_e4m3fn": "fp8",
}  # fmt: skip

_BITS = {
    "fp8": 8,
    "fbgemm_fp8": 8,
    "nvfp4": 4,
    "w4a16_nvfp4": 4,
    "mxfp4": 4,
    "w4a16_awq": 4,
    "int8": 8,
    "int8_sq": 8,
    "w4a8_awq": 4,
}
_FLOAT = {"fp8", "fbgemm_fp8", "nvfp4", "w4a16_nvfp4", "mxfp4"}


def weights_format(config: Mapping[str, Any], notes: list[Note]) -> WeightsFormat | None:
    """The format that a quantisation block describes, or None when it says nothing known (with a note)."""
    method = str(config.get("quant_method") or config.get("quant_algo") or "").lower()
    algo = str(config.get("quant_algo") or "").lower()
    if algo and method in ("modelopt", "", "fp8"):
        method = algo
    weights = _first_group(config, "weights")
    bits = _int(config.get("bits")) or _int(weights.get("num_bits")) or _BITS.get(method)
    if method == "bitsandbytes":
        bits = 4 if config.get("load_in_4bit") or config.get("_load_in_4bit") else 8
    if method == "compressed-tensors" and weights.get("type") == "float" and bits == 4:
        method = "mxfp4" if "mxfp4" in str(config.get("format")) else method
    mixed = method == "mixed_precision"
    if not method or (bits is None and not mixed):
        notes.append(Note("model.unknown-quantisation", f"the quantisation `{method or 'unnamed'}` is not known and was not read"))
        return None
    kind = weights.get("type")
    number: NumberKind = "float" if kind == "float" or (kind != "int" and method in _FLOAT) else "int"
    kv_cache = config.get("kv_cache_quant_algo") or config.get("kv_cache_scheme")
    block = config.get("weight_block_size")
    return WeightsFormat(
        method=method,
        bits=None if mixed else bits,
        number=None if mixed else number,
        group_size=_int(config.get("group_size")) or _int(weights.get("group_size")) or (32 if method == "mxfp4" else None),
        block=tuple(one for one in block if _int(one)) if isinstance(block, list) else (),
        activation_bits=_int(_first_group(config, "input_activations").get("num_bits")),
        kv_cache=str(kv_cache).lower() if isinstance(kv_cache, str) else "fp8" if isinstance(kv_cache, Mapping) else None,
        excluded=_excluded(config),
    )


def _first_group(config: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    groups = config.get("config_groups")
    for group in groups.values() if isinstance(groups, Mapping) else ():
        found = group.get(key) if isinstance(group, Mapping) else None
        if isinstance(found, Mapping):
            return found
    return {}


def _excluded(config: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of what is left out; those of many layers are one, for long lists repeat a name for each."""
    for key in ("modules_to_not_convert", "ignore", "exclude_modules", "exclude", "llm_int8_skip_modules"):
        found = config.get(key)
        if isinstance(found, list):
            return folded(str(name) for name in found)
    return ()


def _int(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
