"""What does aiconfigurator say of a serving run?

`pip install --target DIR aiconfigurator` makes its folder. It is asked through `cli_estimate` in its default mode, SILICON: tables
of kernels that NVIDIA measured with TensorRT-LLM, vLLM and SGLang, each row with the tables of its own engine (other engines with
those of TensorRT-LLM) in their newest version. Fixed batches are asked as `static`, requests under load as `agg`, the default for
in-flight batching. The model is told as a config.json of Llama's or Mixtral's shape, the two that rows of dense models and plain
experts fit; weights, cache and division of the accelerators as the run states them.

Throughput is its output tokens a second (`tokens/s`: all requests, first tokens included), memory its own sum (`memory`, GiB).
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from wire import Answer, Job, holding, refuse, serve, shipped

SYSTEMS = (
    ("a100-sxm-80gb", "a100_sxm"), ("h100-sxm-80gb", "h100_sxm"), ("h200-sxm", "h200_sxm"), ("b200-sxm", "b200_sxm"),
    ("b300-sxm", "b300_sxm"), ("gb200", "gb200"), ("gb300", "gb300"), ("l40s", "l40s"),
    ("rtx-pro-6000-blackwell-server", "rtx_pro_6000_server"),
)  # fmt: skip
BACKENDS = {"tensorrt-llm": "trtllm", "vllm": "vllm", "sglang": "sglang"}
WEIGHTS = {"bf16": "bfloat16", "fp16": "bfloat16", "fp8": "fp8", "int8": "int8_wo", "int4": "int4_wo", "nvfp4": "nvfp4"}
UNSAID = 128
"""Tokens of an answer where a run says nothing: the rate of single streams hardly depends on it."""
EXPERTS = {"bfloat16", "fp8", "int4_wo", "nvfp4"}
CACHE = {"bf16": "bfloat16", "fp16": "bfloat16", "fp8": "fp8", "int8": "int8"}


def setup(folder: Path) -> Callable[[Job], Answer]:
    """The package, and a folder for the models."""
    sys.path.insert(0, str(folder))
    from aiconfigurator.cli.api import cli_estimate

    models = Path(tempfile.mkdtemp(prefix="models-"))
    return lambda job: answer(cli_estimate, models, job)


def answer(estimate: Any, models: Path, job: Job) -> Answer:
    """Its rate, latencies and memory of one job."""
    model, plan, moe = job["model"], job["plan"], job["model"]["moe"]
    system, weights = shipped(job["machine"]["accelerator"], SYSTEMS), WEIGHTS.get(plan["weights"])
    refuse(
        (system is None, "no measured kernels of this accelerator"),
        (weights is None, "no such weights"),
        (plan["batch"] is None, "the run does not say how many requests ran at once"),
        (not model["gated"] or model["mla"] is not None or model["windowed"], "not of Llama's or Mixtral's shape"),
        (moe is not None and (moe["shared_width"] > 0 or moe["dense_layers"] > 0), "experts of one kind only"),
        (moe is not None and weights not in EXPERTS, "no experts with such weights"),
    )
    experts = {"moe_tp_size": plan["tp"], "moe_quant_mode": weights} if moe else {}
    made = estimate(
        str(folder_of(models, model)), system, mode=plan["mode"], backend_name=BACKENDS.get(plan["engine"], "trtllm"),
        isl=plan["prompt"], osl=plan["output"] or UNSAID, batch_size=plan["batch"], tp_size=plan["tp"], pp_size=plan["pp"],
        gemm_quant_mode=weights, kvcache_quant_mode=CACHE[plan["kv_cache"]], **experts,
    )  # fmt: skip
    bent = holding(
        (plan["engine"] not in BACKENDS, "another engine's kernels"),
        (plan["output"] is None, f"answers of {UNSAID} tokens, where the run does not say"),
    )
    said = {
        "tokens_per_s": made.raw["tokens/s"], "ttft_s": made.ttft * 1e-3, "tpot_s": made.tpot * 1e-3,
        "memory_bytes": made.raw["memory"] * 2**30,
    }  # fmt: skip
    return {"tools": {"aiconfigurator": said}, "bent": bent}


def folder_of(models: Path, model: Job) -> Path:
    """A folder with the config.json of a model."""
    moe = model["moe"]
    config = {
        "architectures": ["MixtralForCausalLM" if moe else "LlamaForCausalLM"], "model_type": "mixtral" if moe else "llama",
        "hidden_size": model["hidden"], "intermediate_size": moe["width"] if moe else model["ffn"],
        "num_attention_heads": model["heads"], "num_key_value_heads": model["kv_heads"], "head_dim": model["head_dim"],
        "num_hidden_layers": model["layers"], "vocab_size": model["vocab"], "max_position_embeddings": 131072,
    }  # fmt: skip
    if moe:
        config |= {"num_local_experts": moe["experts"], "num_experts_per_tok": moe["top_k"]}
    name = "-".join(str(value) for value in config.values() if isinstance(value, int))
    folder = models / name
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder


if __name__ == "__main__":
    serve(setup)
