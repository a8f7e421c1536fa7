"""What does llm-analysis say of a run?

Set as its README says under "How to Set FLOPS and Memory Efficiency": 0.5 of the peak for training and 0.9 of the memory
bandwidth (its defaults of 1 are a lower bound by its own words). Its own GPU files serve where it has one; where not, a GPUConfig
with the datasheet's figures, as its class invites. Both of its times are shown: that of FLOPs alone
(`latency_per_iter_using_flops`, which its examples quote) and that of its layer model (`latency_per_iter`). Flash attention, the
stage of ZeRO, expert and sequence parallelism and recomputation are its own arguments. Memory is its
`estimated_peak_memory_per_gpu`.

Sharding that does not span all ranks is left to it as it is. It takes only the floor of layers / stages, knows no pipeline
bubble, context parallelism, shared experts or latent attention, and counts one embedding matrix; fp8 is on its list of things to
do, so that such runs are not asked.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from wire import Answer, Job, common, holding, refuse, serve, shipped

FILES = (
    ("a100-sxm-80gb", "a100-sxm-80gb"), ("a100-sxm-40gb", "a100-sxm-40gb"), ("a100-pcie-80gb", "a100-pcie-80gb"),
    ("a100-pcie-40gb", "a100-pcie-40gb"), ("h100-sxm-80gb", "h100-sxm-80gb"), ("h100-pcie", "h100-pcie-80gb"),
    ("v100-sxm-32gb", "v100-sxm-32gb"), ("v100-sxm-16gb", "v100-sxm-16gb"), ("a10g", "a10g-pcie-24gb"),
)  # fmt: skip
OF_PEAK, OF_BANDWIDTH = 0.5, 0.9
NO_LINK = 1.0
"""GB/s of a GPU alone, which sends nothing: the tool divides by it."""
RECOMPUTE = {"none": 0, "attention": 1, "full": 4}


def setup(folder: Path) -> Callable[[Job], Answer]:
    """The package and its GPU files."""
    sys.path.insert(0, str(folder))
    from llm_analysis import analysis, config

    config.populate_model_and_gpu_configs()
    return lambda job: answer(analysis, config, job)


def answer(analysis: Any, config: Any, job: Job) -> Answer:
    """Its time of a step and its peak of one job."""
    model, plan, moe = job["model"], job["plan"], job["model"]["moe"]
    shared = common(plan)
    refuse(
        (bool(plan["offload"]), "nothing in host memory"),
        (plan["precision"] == "fp8", "no fp8 (its README)"),
        (plan["cp"] > 1, "no context parallelism"),
        (model["mla"] is not None, "no latent attention"),
        (moe is not None and (moe["shared_width"] > 0 or moe["dense_layers"] > 0), "experts of one kind only"),
        (
            plan["recompute"] not in RECOMPUTE or plan["recompute_layers"] is not None,
            "no recomputation of some layers or operators",
        ),
    )
    asked = analysis.LLMAnalysis(
        config.ModelConfig(
            name=job["id"], num_layers=model["layers"], n_head=model["heads"], hidden_dim=model["hidden"],
            vocab_size=model["vocab"], max_seq_len=plan["seq_len"], num_key_value_heads=model["kv_heads"],
            ffn_embed_dim=moe["width"] if moe else model["ffn"], mlp_gated_linear_units=model["gated"],
            moe_num_experts=moe["experts"] if moe else 1, moe_top_k=moe["top_k"] if moe else 1,
        ),
        gpu(config, job["machine"]),
        config.DtypeConfig(name="w16a16e16", weight_bits=16, activation_bits=16, embedding_bits=16),
        config.ParallelismConfig(
            tp_size=plan["tp"], pp_size=plan["pp"], dp_size=plan["dp"], ep_size=plan["ep"],
            sp_size=plan["tp"] if plan["sequence_parallel"] else 1,
        ),
        flops_efficiency=OF_PEAK, hbm_memory_efficiency=OF_BANDWIDTH,
    )  # fmt: skip
    bytes_of = {"master_weights_dtype_bytes": 2, "other_op_bytes": 2} if plan["precision"] == "bf16-pure" else {}
    made = asked.training(
        batch_size_per_gpu=plan["micro_batch"], gradient_accumulation_steps=plan["micro_batches"],
        global_batch_size=plan["global_batch"], seq_len=plan["seq_len"], ds_zero=analysis.DSZeRO(plan["zero"]),
        activation_recomputation=analysis.ActivationRecomputation(RECOMPUTE[plan["recompute"]]),
        flash_attn=plan["attention"] == "flash", **bytes_of,
    )  # fmt: skip
    bent = shared + holding(
        (model["heads"] * model["head_dim"] != model["hidden"], "heads times their width is taken as the hidden width"),
        (plan["pp"] > 1, "no pipeline bubble"),
        (model["layers"] % plan["pp"] > 0 or plan["first_stage"] is not None, "the floor of layers / stages"),
        (model["windowed"], "every layer sees all positions"),
    )
    peak = {"memory_bytes": made["estimated_peak_memory_per_gpu"]}
    holds = peak if plan["usual_states"] else {"no_memory": "AdamW in fp32 only"}
    return {
        "tools": {
            "llm-analysis (FLOPs)": {"step_s": made["latency_per_iter_using_flops"], **holds},
            "llm-analysis (layers)": {"step_s": made["latency_per_iter"]},
        },
        "bent": bent,
    }


def gpu(config: Any, machine: Job) -> Any:
    """Its own file, or the datasheet in its form. Its inter-node bandwidth is that of all GPUs of a node together."""
    own = shipped(machine["accelerator"], FILES)
    if own is not None:
        return config.gpu_configs[own]
    inside = machine["intra_gb_s"] or NO_LINK
    return config.GPUConfig(
        name=machine["accelerator"], mem_per_GPU_in_GB=machine["memory_gib"],
        hbm_bandwidth_in_GB_per_sec=machine["memory_gb_s"], intra_node_bandwidth_in_GB_per_sec=inside,
        intra_node_min_message_latency=8e-6, peak_fp16_TFLOPS=machine["bf16_tflops"],
        inter_node_bandwidth_in_GB_per_sec=machine["inter_gb_s"] * machine["per_node"] or inside,
    )  # fmt: skip


if __name__ == "__main__":
    serve(setup)
