"""What does Megatron-LM's own report of theoretical memory say of a run?

Its file megatron/training/theoretical_memory_usage.py is run as it is; the two helpers that it takes from the rest of Megatron
(which wants torch and Apex) are stood in for: one prints, the other says that no model here has state-space layers. It is asked
what `--report-theoretical-memory` asks: the weights, gradients and optimizer of the most loaded shard plus the activations of
the first pipeline stage, with the number of micro-batches known.

It has no time, no ZeRO-2 or 3, no context parallelism, no adapters, and knows 18 bytes a parameter or 6 + 12 / dp only. Full
recomputation, and recomputation of nothing with sequence parallelism, take its other formula, which forgets neither scores nor
checkpoints but counts no recomputation: such rows are marked as bent.
"""

from __future__ import annotations

import importlib.util
import sys
import types
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

from wire import Answer, Job, common, holding, refuse, serve

FILE = Path("megatron") / "training" / "theoretical_memory_usage.py"
PADDED_TO = 128
"""Megatron pads the vocabulary to a multiple of this and of the tensor-parallel size (`--make-vocab-size-divisible-by`)."""


def setup(folder: Path) -> Callable[[Job], Answer]:
    """The file of the report, loaded without the rest of Megatron."""
    package = types.ModuleType("megatron_training")
    package.__path__ = []
    helpers: Any = types.ModuleType("megatron_training.utils")
    helpers.is_hybrid_model = lambda args: False
    helpers.print_rank_0 = print
    sys.modules |= {"megatron_training": package, "megatron_training.utils": helpers}
    spec = importlib.util.spec_from_file_location("megatron_training.report", folder / FILE)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{folder} holds no {FILE}")
    report = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(report)
    return lambda job: answer(report, job)


def answer(report: Any, job: Job) -> Answer:
    """The report's total for one job."""
    model, plan = job["model"], job["plan"]
    shared = common(plan)
    refuse(
        (not plan["usual_states"], "AdamW in fp32 only"),
        (bool(plan["offload"]), "nothing in host memory"),
        (plan["zero"] >= 2, "no ZeRO-2 or 3"),
        (plan["cp"] > 1, "no context parallelism"),
        (plan["precision"] == "bf16-pure", "18 bytes a parameter, or 6 + 12 / dp: no training in bf16 alone"),
    )
    moe, mla = model["moe"] or {}, model["mla"] or {}
    multiple = PADDED_TO * plan["tp"]
    args = Namespace(
        hidden_size=model["hidden"], num_layers=model["layers"], ffn_hidden_size=model["ffn"] or moe.get("width"),
        num_attention_heads=model["heads"], kv_channels=model["head_dim"],
        group_query_attention=model["kv_heads"] != model["heads"] and not mla, num_query_groups=model["kv_heads"],
        swiglu=model["gated"], normalization="RMSNorm" if model["norm"] == "rms" else "LayerNorm", add_bias_linear=False,
        padded_vocab_size=-(-model["vocab"] // multiple) * multiple, untie_embeddings_and_output_weights=not model["tied"],
        num_experts=moe.get("experts"), moe_router_topk=moe.get("top_k"), moe_ffn_hidden_size=moe.get("width"),
        moe_shared_expert_intermediate_size=moe.get("shared_width") or None,
        moe_layer_freq=[0] * moe.get("dense_layers", 0) + [1] * (model["layers"] - moe.get("dense_layers", 0)),
        moe_latent_size=None, mtp_num_layers=plan["mtp"] or None, multi_latent_attention=bool(mla), q_lora_rank=mla.get("q_rank"),
        kv_lora_rank=mla.get("kv_rank"), qk_head_dim=mla.get("nope_dim"), qk_pos_emb_head_dim=mla.get("rope_dim"),
        v_head_dim=mla.get("v_dim"),
        seq_length=plan["seq_len"], micro_batch_size=plan["micro_batch"], tensor_model_parallel_size=plan["tp"],
        pipeline_model_parallel_size=plan["pp"], data_parallel_size=plan["dp"], world_size=plan["count"],
        virtual_pipeline_model_parallel_size=plan["vpp"] if plan["vpp"] > 1 else None,
        expert_model_parallel_size=plan["ep"], expert_tensor_parallel_size=plan["tp"] if plan["ep"] == 1 else 1,
        use_distributed_optimizer=plan["zero"] == 1, sequence_parallel=plan["sequence_parallel"] and plan["tp"] > 1,
        recompute_granularity="selective" if plan["recompute"] == "attention" or plan["attention"] == "flash" else None,
    )  # fmt: skip
    if plan["recompute"] == "full":
        args.recompute_granularity = "full"
    _, _, total = report.report_theoretical_memory(args, num_microbatches=plan["micro_batches"])
    bent = shared + holding(
        (plan["recompute"] not in ("none", "attention"), "recomputation is not counted"),
        (plan["precision"] == "fp8", "fp8 counted as bf16"),
        (plan["first_stage"] is not None, "even stages"),
        (plan["attention"] == "eager" and plan["recompute"] == "none", "scores of attention are not counted"),
    )
    return {"tools": {"Megatron-LM report": {"memory_bytes": total * 2**20}}, "bent": bent}


if __name__ == "__main__":
    serve(setup)
