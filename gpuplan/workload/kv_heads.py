"""How many more parameters does a rank hold where tensor parallel ranks are more than the key and value heads?"""

from __future__ import annotations

from gpuplan.formulas.layers import kv_copy_params
from gpuplan.models.architecture import Architecture, Attention
from gpuplan.num import all_true
from gpuplan.term import Term, total
from gpuplan.workload.context import Leaves, Split
from gpuplan.workload.stages import block_keys


def kv_copies(arch: Architecture, leaves: Leaves, split: Split) -> dict[str, Term]:
    """Parameters of one layer on one rank beyond an even share, by the key of each kind of block that has any."""
    if split.kv_heads != "replicated":
        return {}
    found: dict[str, Term] = {}
    hidden = leaves("hidden", arch.hidden)
    for key, (index, name) in block_keys(arch).items():
        block = arch.stacks[index].blocks[name]
        parts: dict[str, Term] = {}
        for place, mixer in (("mixer", block.mixer), ("mixer2", block.mixer2), ("cross", block.cross)):
            if not isinstance(mixer, Attention) or all_true(split.tp.value <= mixer.kv_heads):
                continue
            at = f"{key}.{place}"
            kv_heads = leaves(f"{at}.kv_heads", mixer.kv_heads)
            inputs = total(f"{at}.kv_inputs", {"hidden": hidden, "bias": leaves(f"{at}.biases", 1)}) if mixer.qkv_bias else hidden
            parts[place] = kv_copy_params.term(
                f"{at}.kv_copies", inputs=inputs, kv_heads=kv_heads, tp=split.tp,
                k_dim=leaves(f"{at}.head_dim", mixer.head_dim),
                v_dim=leaves(f"{at}.own_v_dim", 0 if mixer.shared_kv else (mixer.v_head_dim or mixer.head_dim)),
                ways=leaves.least(f"{at}.kv_ways", split.tp, kv_heads),
            )  # fmt: skip
        if parts:
            found[key] = total(f"{key}.kv_copies", parts)
    return found
