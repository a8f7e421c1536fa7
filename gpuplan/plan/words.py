"""Which words does an option take, where it takes one of a few? The types are read by the options, the plans and their formulas."""

from __future__ import annotations

from typing import Literal, TypeAlias

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
Optimizer: TypeAlias = Literal["adamw", "adamw-8bit", "adafactor", "muon", "lion", "sgd"]
LoraTargets: TypeAlias = Literal["qv", "attention", "mlp", "all"]
BaseWeights: TypeAlias = Literal["fp32", "bf16", "fp16", "fp8", "int8", "int4", "nf4", "nf4-dq"]
AttentionKernel: TypeAlias = Literal["flash", "flash1", "flash2", "eager"]
Scaling: TypeAlias = Literal["tensorwise", "rowwise", "blockwise"]
Offload: TypeAlias = Literal["optimizer", "params", "activations"]
OffloadTo: TypeAlias = Literal["host", "nvme"]
Schedule: TypeAlias = Literal["1f1b", "gpipe", "zb-h1", "zb-h2", "zb-v", "dualpipe"]
ContextKind: TypeAlias = Literal["ring", "all-gather", "ulysses"]
Overlap: TypeAlias = Literal["tp", "dp", "pp", "ep"]
Dispatcher: TypeAlias = Literal["alltoall", "deepep", "hybridep"]
ReduceIn: TypeAlias = Literal["fp32", "bf16"]
WeightFormat: TypeAlias = Literal[
    "fp32", "bf16", "fp16", "fp8", "fp8-block", "int8", "int4", "nvfp4", "mxfp4", "q4_k_m", "q5_k_m", "q6_k", "q8_0"
]  # fmt: skip
"""The last four are llama.cpp's."""
SoldAs: TypeAlias = Literal[
    "on_demand", "spot", "reserved_1yr", "reserved_3yr", "capacity_block", "credits", "market", "subscription"
]  # fmt: skip
KvFormat: TypeAlias = Literal["bf16", "fp16", "fp8", "int8"]
RlMethod: TypeAlias = Literal["ppo", "grpo"]
Idle: TypeAlias = Literal["device", "host"]
Task: TypeAlias = Literal["serve", "train"]
ResultName: TypeAlias = Literal[
    "decoder_layer_input", "query_wa_proj", "mla_q", "kv_wa_proj", "mla_kv", "query_proj", "key_proj", "value_proj", "kv_proj",
    "qkv_proj", "context", "out_proj", "mlpwi", "mlpwi_0", "mlpwi_1", "mlpwo", "moe_mlpwi_0", "moe_mlpwi_1", "moe_mlpwo",
]  # fmt: skip
"""What MaxText calls the results of a layer; `gpuplan.plan.remat` says what each stands for."""
