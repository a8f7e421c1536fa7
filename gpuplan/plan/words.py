"""Which words does an option take, where it takes one of a few? The types are read by the options, the plans and their formulas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from gpuplan import optimizers

Recompute: TypeAlias = Literal[
    "none", "selective", "selective-op", "mlp", "moe", "full", "custom",
    "minimal_with_context", "minimal", "save_dot_with_context_except_mlp", "save_dot_except_mlpwi", "save_dot_except_mlp",
    "save_qkv_proj", "save_out_proj", "qkv_proj_offloaded", "minimal_offloaded", "minimal_flash",
    "nothing_saveable", "dots_saveable", "checkpoint_dots", "dots_with_no_batch_dims_saveable",
    "checkpoint_dots_with_no_batch_dims", "offload_dot_with_no_batch_dims",
    "save_nothing", "save_dot_only", "save_dot_with_no_batch_dims", "save_qkv_out_proj", "save_qkv_out_proj_separate",
    "save_context", "save_encoded_and_out_proj", "save_dot_for_mlperf_200b", "save_dot_except_logits_ffn1",
    "save_dot_except_logits",
]  # fmt: skip
"""What is made again; the names with underscores are policies of MaxText, then of JAX itself, then of Praxis (Paxml)."""
RecomputeModule: TypeAlias = Literal["core_attn", "layernorm", "mla_up_proj", "mlp", "moe", "moe_act", "shared_experts"]
"""Modules that Megatron-Core's selective recomputation can name; `gpuplan.plan.again` says what each stands for."""
Precision: TypeAlias = Literal["bf16", "fp16", "fp32", "tf32", "fp8", "int8", "nvfp4", "bf16-pure"]
Optimizer: TypeAlias = optimizers.Optimizer
LoraTargets: TypeAlias = Literal["qv", "attention", "mlp", "all"]
BaseWeights: TypeAlias = Literal["fp32", "bf16", "fp16", "fp8", "int8", "int4", "nf4", "nf4-dq"]
AttentionKernel: TypeAlias = Literal["flash", "flash1", "flash2", "masked", "eager"]
Scaling: TypeAlias = Literal["tensorwise", "rowwise", "blockwise"]
Offload: TypeAlias = Literal["optimizer", "params", "activations"]
OffloadTo: TypeAlias = Literal["host", "nvme"]
Schedule: TypeAlias = Literal["1f1b", "gpipe", "zb-h1", "zb-h2", "zb-v", "dualpipe", "naive"]
ContextKind: TypeAlias = Literal["ring", "all-gather", "ulysses"]
Overlap: TypeAlias = Literal["tp", "dp", "pp", "ep"]
Dispatcher: TypeAlias = Literal["alltoall", "deepep", "hybridep"]
ReduceIn: TypeAlias = Literal["fp32", "bf16"]
Emit: TypeAlias = Literal["command", "compose", "k8s", "slurm"]
Router: TypeAlias = Literal["round-robin", "least-loaded"]
Arrival: TypeAlias = Literal["closed", "poisson", "burst"]
WeightFormat: TypeAlias = Literal[
    "fp32", "bf16", "fp16", "fp8", "fp8-block", "int8", "int4", "nvfp4", "mxfp4",
    "q2_k", "q2_k_s", "q3_k_s", "q3_k_m", "q3_k_l", "q4_0", "q4_1", "q4_k_s", "q4_k_m", "q5_0", "q5_1", "q5_k_s", "q5_k_m", "q6_k",
    "q8_0", "iq1_s", "iq1_m", "iq2_xxs", "iq2_xs", "iq2_s", "iq2_m", "iq3_xxs", "iq3_xs", "iq3_s", "iq3_m", "iq4_xs", "iq4_nl",
    "tq1_0", "tq2_0", "mxfp4_moe",
    "nf4", "nf4-dq", "int8-bnb", "mlx-2bit", "mlx-3bit", "mlx-4bit", "mlx-5bit", "mlx-6bit", "mlx-8bit",
    "exl2-2.5", "exl2-3.0", "exl2-3.5", "exl2-4.0", "exl2-4.25", "exl2-4.5", "exl2-4.65", "exl2-5.0", "exl2-6.0", "exl2-6.5",
    "exl2-8.0",
]  # fmt: skip
"""From `q2_k` on those of llama.cpp's files, then of bitsandbytes, MLX and ExLlamaV2 (by bits)."""
_EXL_BITS = ("2.5", "3.0", "3.5", "4.0", "4.25", "4.5", "4.65", "5.0", "6.0", "6.5", "8.0")
"""Bits a weight that files of ExLlama are mostly made with."""
ALSO_CALLED: Mapping[str, str] = {
    "f16": "fp16", "float16": "fp16", "half": "fp16", "bfloat16": "bf16", "f32": "fp32", "float32": "fp32", "fp8_e4m3": "fp8",
    "fp8_e5m2": "fp8", "awq": "int4", "gptq": "int4", "bnb-nf4": "nf4", "bnb-nf4-dq": "nf4-dq", "bnb-int8": "int8-bnb",
    **{f"exl2{gap}{bits}{end}": f"exl2-{bits}" for bits in _EXL_BITS for gap in ("-", " ", "_") for end in ("bpw", "")},
    **{f"exl2{gap}{bits.removesuffix('.0')}bpw": f"exl2-{bits}" for bits in _EXL_BITS for gap in ("-", " ", "_")},
}  # fmt: skip
"""Other names of types of numbers, in lower case."""
NEAREST: Mapping[str, str] = {
    **{f"exl3{gap}{bits}{end}": f"exl2-{bits}" for bits in _EXL_BITS for gap in ("-", " ", "_") for end in ("bpw", "")},
    **{f"exl3{gap}{bits.removesuffix('.0')}bpw": f"exl2-{bits}" for bits in _EXL_BITS for gap in ("-", " ", "_")},
    "q2": "q2_k", "q3": "q3_k_m", "q4": "q4_k_m", "q5": "q5_k_m", "q6": "q6_k", "q8": "q8_0",  # What people call them.
    "q4_k_l": "q4_k_m", "q5_k_l": "q5_k_m", "q6_k_l": "q6_k",
    **{f"{made}{name}_k_xl": plain for made in ("", "ud-") for name, plain in (
        ("q2", "q2_k"), ("q3", "q3_k_m"), ("q4", "q4_k_m"), ("q5", "q5_k_m"), ("q6", "q6_k"), ("q8", "q8_0"),
    )},
    **{f"ud-{name}": name for name in (
        "q2_k", "q3_k_s", "q3_k_m", "q4_k_s", "q4_k_m", "q5_k_s", "q5_k_m", "q6_k", "q8_0", "iq1_s", "iq1_m", "iq2_xxs", "iq2_m",
        "iq3_xxs", "iq3_s", "iq4_xs", "iq4_nl",
    )},
}  # fmt: skip
"""Types of files that give some tensors other bits than the type here, which llama.cpp prints of them (`Q4_K - Medium` of
UD-Q4_K_XL), or of ExLlamaV3, whose files of as many bits are as large: which bits each tensor has is in the file alone, so an
answer says what was taken."""
SoldAs: TypeAlias = Literal[
    "on_demand", "spot", "reserved_1yr", "reserved_3yr", "capacity_block", "credits", "market", "subscription"
]  # fmt: skip
KvFormat: TypeAlias = Literal[
    "bf16", "fp16", "fp8", "int8", "fp32", "nvfp4", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl"
]  # fmt: skip
"""From `q8_0` on llama.cpp's, in blocks of 32 with their scales."""
SHARED_FORMATS = frozenset(
    {"fp32", "bf16", "fp16", "fp8", "fp8-block", "int8", "int4", "nvfp4", "mxfp4", "nf4", "nf4-dq", "int8-bnb"}
)
"""Types of weights that checkpoints of many engines have; each of the others is of one engine's own files."""
SHARED_KV_FORMATS = frozenset({"bf16", "fp16", "fp8", "int8", "fp32", "nvfp4"})
"""The same of the KV cache."""
ExpertExchange: TypeAlias = Literal["gathered", "all-to-all"]
"""How tokens of ranks that attend apart reach the experts that they share."""
DraftKind: TypeAlias = Literal["mtp", "eagle", "model"]
"""What drafts tokens: a module of multi-token prediction, a head of one layer, or a model of its own."""
RlMethod: TypeAlias = Literal["ppo", "grpo"]
Idle: TypeAlias = Literal["device", "host"]
Task: TypeAlias = Literal["serve", "train"]
Guidance: TypeAlias = Literal["none", "batched", "in-turn"]
"""Classifier-free guidance: not done (or distilled into the model), both halves in one batch, or one after the other."""
OffloadComponents: TypeAlias = Literal["none", "encoders", "model", "sequential"]
"""All components stay; those that read the text are taken off once they have; each is there while it runs; each layer is."""
ResultName: TypeAlias = Literal[
    "decoder_layer_input", "query_wa_proj", "mla_q", "kv_wa_proj", "mla_kv", "query_proj", "key_proj", "value_proj", "kv_proj",
    "qkv_proj", "context", "out_proj", "mlpwi", "mlpwi_0", "mlpwi_1", "mlpwo", "moe_mlpwi_0", "moe_mlpwi_1", "moe_mlpwo",
]  # fmt: skip
"""What MaxText calls the results of a layer; `gpuplan.plan.remat` says what each stands for."""
