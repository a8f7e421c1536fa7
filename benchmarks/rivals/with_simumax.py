"""What does SimuMax say of a run?

Its B200 file serves for B200 (its own measured kernels and links). For other GPUs docs/system.md says what to do without
measurements: copy the nearest shipped file, and replace peaks, memory bandwidth and networks. So: its A100 file with the
datasheet's rates (its efficiencies by shape and by default kept), for GB200 and later its B200 file; between the GPUs of a node the
measured NVLink efficiencies of its B200 file at the datasheet's bandwidth, between nodes the template's efficiency of 0.5. Its
inter-node bandwidth is that of a whole node. PCIe machines keep its A100-PCIe networks. Where its B200 file has no efficiency for
fp8, that of bf16 is taken.

Transformer Engine 2.11 and its fused cross entropy are set on Blackwell, as in its own B200 results, which this adapter gives
again. The vocabulary is padded as in its examples. Layers that the stages do not divide are spread as Megatron does (embedding and
loss each in place of a layer), or else the first and last stage have fewer. The interleaved schedule is asked in its synchronous
form, the only one that it times. ZeRO-2 and 3 it ignores by its own warning: the time of such rows is that of its ZeRO-1, and no
memory is taken. Where the measurement is of what an allocator holds, its own figure for that is compared (`mem_factor` 0.94).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from wire import Answer, Job, common, holding, refuse, serve

UNITS = {"ms": 1e-3, "s": 1.0}
BETWEEN_NODES = {"efficient_factor": 0.5, "gbps": 200, "latency_us": 30}
"""docs/system.md, "Minimal viable template"."""
FILES = ("a100_pcie", "b200_bf16_ceperm")
KNOWN = ("none", "attention", "full")


def setup(folder: Path) -> Callable[[Job], Answer]:
    """The package and its system files."""
    sys.path.insert(0, str(folder))
    from simumax.core import config, perf_llm

    files = {name: json.loads((folder / "configs" / "system" / f"{name}.json").read_text()) for name in FILES}
    return lambda job: answer(config, perf_llm.PerfLLM, files, job)


def answer(config: Any, perf: Any, files: Any, job: Job) -> Answer:
    """Its time of an iteration and its peaks of one job."""
    model, plan, moe, mla = job["model"], job["plan"], job["model"]["moe"], job["model"]["mla"]
    shared = common(plan)
    refuse(
        (bool(plan["offload"]), "nothing in host memory"),
        (plan["recompute"] not in KNOWN, "no recomputation of these operators"),
    )
    made = perf()
    made.configure(
        strategy_config=config.StrategyConfig.init_from_dict(strategy(model, plan, of_its_b200(job["machine"]))),
        model_config=config.ModelConfig.init_from_dict(
            {
                "model_type": "moe" if moe else "dense", "model_name": job["id"], "hidden_size": model["hidden"],
                "head_num": model["heads"], "kv_head_num": model["kv_heads"], "head_size": model["head_dim"],
                "intermediate_size": model["ffn"] or moe["width"], "layer_num": model["layers"], "vocab_size": model["vocab"],
                "use_swiglu": model["gated"],
            }
            | (
                {
                    "expert_num": moe["experts"], "topk": moe["top_k"], "moe_ffn_hidden_size": moe["width"],
                    "moe_shared_expert_intermediate_size": moe["shared_width"] or None, "dense_layers": moe["dense_layers"],
                }
                if moe
                else {"moe_ffn_hidden_size": model["ffn"]}
            )
            | (
                {
                    "attention_type": "mla", "qk_head_dim": mla["nope_dim"], "qk_pos_emb_head_dim": mla["rope_dim"],
                    "v_head_dim": mla["v_dim"], "q_lora_rank": mla["q_rank"], "kv_lora_rank": mla["kv_rank"],
                }
                if mla
                else {}
            )
        ),
        system_config=config.SystemConfig.init_from_dict(system(files, job["machine"])),
    )  # fmt: skip
    made.model_config.padded_vocab_size = True
    made.model_config.make_vocab_size_divisible_by = 128
    made.run_estimate()
    memory = made.analysis_mem()
    peaks = {key: max(made.get_pp_stage_peak_mem(memory, key).values()) for key in ("peak_mem", "peak_mem_with_reserved")}
    said: dict[str, Any] = {"step_s": seconds(made.analysis_cost().get("duration_time_per_iter"))}
    why = "no ZeRO-2 or 3" if plan["zero"] >= 2 else ""
    if plan["precision"] == "bf16-pure" or not plan["usual_states"]:
        why = "AdamW with fp32 states only"
    found = {"memory_bytes": peaks["peak_mem"], "reserved_bytes": peaks["peak_mem_with_reserved"]}
    said |= {"no_memory": why} if why else found
    bent = shared + holding(
        (plan["mtp"] > 0, "no multi-token prediction"),
        (plan["zero"] >= 2, "ZeRO-2 and 3 as ZeRO-1"),
        (plan["precision"] == "bf16-pure", "bf16 alone as mixed precision"),
        (plan["vpp"] > 1, "the interleaved schedule in its synchronous form"),
        (model["windowed"], "every layer sees all positions"),
    )
    memory_only = holding((model["tied"], "a head of its own where the embedding serves"))
    return {"tools": {"SimuMax": said}, "bent": bent, "bent_memory": memory_only}


def strategy(model: Job, plan: Job, newest: bool) -> dict[str, Any]:
    """Its strategy file for a plan."""
    made: dict[str, Any] = {
        "seq_len": plan["seq_len"], "micro_batch_size": plan["micro_batch"], "micro_batch_num": plan["micro_batches"],
        "dtype": "bf16", "fp8": plan["precision"] == "fp8", "world_size": plan["count"], "tp_size": plan["tp"],
        "cp_size": plan["cp"], "pp_size": plan["pp"], "ep_size": plan["ep"], "etp_size": 1 if plan["ep"] > 1 else plan["tp"],
        "enable_sequence_parallel": plan["sequence_parallel"] and plan["tp"] > 1, "interleaving_size": plan["vpp"],
        "pp_comm_async": plan["vpp"] == 1, "zero_state": min(plan["zero"], 1), "enable_dropout": False,
        "use_flash_sdp": plan["attention"] == "flash", "use_math_sdp": plan["attention"] != "flash",
        "enable_recompute": plan["recompute"] != "none", "overlap_grad_reduce": plan["hides_gradients"],
        "grad_reduce_in_bf16": plan["reduce_in"] == "bf16",
        "dispatch_probs": True, "mem_factor": 0.94,
    }  # fmt: skip
    if newest:
        made |= {"te_version": "2.11.0", "cross_entropy_loss_fusion": True}
    if not model["moe"]:
        made["etp_size"] = 1
    stage = -(-model["layers"] // plan["pp"])
    if plan["recompute"] == "full":
        made |= {"recompute_granularity": "full_block", "recompute_layer_num": plan["recompute_layers"] or stage}
    if plan["recompute"] == "attention":
        made |= {"recompute_granularity": "sdp_only", "recompute_layer_num": stage}
    if plan["first_stage"] is not None:
        made |= {"num_layers_in_first_pipeline_stage": plan["first_stage"], "num_layers_in_last_pipeline_stage": plan["last_stage"]}
    elif model["layers"] % plan["pp"] and (model["layers"] + 2) % plan["pp"] == 0:
        made |= {"account_for_embedding_in_pipeline_split": True, "account_for_loss_in_pipeline_split": True}
    elif model["layers"] % plan["pp"]:
        ends = model["layers"] - stage * (plan["pp"] - 2)
        made |= {"num_layers_in_first_pipeline_stage": ends - ends // 2, "num_layers_in_last_pipeline_stage": ends // 2}
    return made


def of_its_b200(machine: Job) -> bool:
    """Whether its measurements of B200 are the nearest."""
    return bool(machine["family"].startswith("blackwell"))


def system(files: Any, machine: Job) -> Any:
    """Its own file for B200, or the nearest one with another GPU's datasheet."""
    made = json.loads(json.dumps(files["b200_bf16_ceperm" if of_its_b200(machine) else "a100_pcie"]))
    ops, nets = made["accelerator"]["op"], made["networks"]
    for name, op in ops.items():
        if name.startswith("fp8"):
            op["tflops"] = machine["fp8_tflops"] or 2 * machine["bf16_tflops"]
            op["efficient_factor"] = op["efficient_factor"] or ops[name.removeprefix("fp8_")]["efficient_factor"]
        else:
            op["tflops"] = machine["bf16_tflops"]
    if machine["accelerator"].startswith("b200"):
        return made
    for kind in made["accelerator"]["bandwidth"].values():
        kind["gbps"] = machine["memory_gb_s"]
    made["accelerator"]["mem_gbs"] = machine["memory_gib"]
    made["num_per_node"] = machine["per_node"]
    if not machine["pcie"]:
        made["networks"] = nets = json.loads(json.dumps(files["b200_bf16_ceperm"]["networks"]))
        for level in ("low_intra_node", "high_intra_node"):
            nets[level]["bandwidth"]["gbps"] = machine["intra_gb_s"]
        nets["inter_node"]["bandwidth"] = dict(BETWEEN_NODES)
    if machine["inter_gb_s"]:
        nets["inter_node"]["bandwidth"]["gbps"] = machine["inter_gb_s"] * machine["per_node"]
    return made


def seconds(said: str) -> float:
    """Its way of writing a time: `1.2345 s`, `12.3 ms`."""
    number, _, unit = str(said).partition(" ")
    return float(number) * UNITS[unit.strip()]


if __name__ == "__main__":
    serve(setup)
