"""What does calculon say of a run?

Its own system files serve for A100 and H100, the bandwidth between nodes replaced where the run states another; for other GPUs its
H100 file with the datasheet's peaks, memory bandwidth and links, its efficiency curves kept. Its check of the capacity is lifted
as in its own a100_80e.json, so that an estimate is made of every run that ran. Settings follow its validation against Megatron:
`rs_ag` and the gather done again where the run shards sequences, all-reduce where not; activations not fused; the reduction of
gradients hidden where the engine hides it. Groups of ranks are put inside a node as far as they fit, in Megatron's order.

What it cannot say is bent towards the run rather than refused, and counted apart: a gated feed-forward layer and fewer key and
value heads become a plain layer of the same number of weights, hence of FLOPs; fused attention is its attention without
recomputation for the time, and with its `attn_only` recomputation, which stores no scores, for the memory; ZeRO-2 and 3 become a
sharded optimizer, for the time only. It has no vocabulary, so that neither embedding nor head is in its answers.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from wire import Answer, Job, common, holding, refuse, serve, shipped

FILES = (("a100", "a100_80g"), ("h100", "h100_80g_nvl8"))
THE_SAME = ("a100-sxm-80gb", "h100-sxm-80gb")
"""The very GPUs that its files are of; their siblings have another memory."""
NO_LIMIT = 80_000_000_000
"""GiB, as in its a100_80e.json."""
RECOMPUTE = {"none": "none", "attention": "attn_only", "full": "full"}


def setup(folder: Path) -> Callable[[Job], Answer]:
    """The package and its system files."""
    sys.path.insert(0, str(folder))
    import logging

    import calculon.llm

    files = {name: json.loads((folder / "systems" / f"{name}.json").read_text()) for _, name in FILES}
    return lambda job: answer(calculon, files, logging.getLogger("calculon"), job)


def answer(calculon: Any, files: Any, log: Any, job: Job) -> Answer:
    """Its time of a batch and its memory of one job."""
    model, plan, machine = job["model"], job["plan"], job["machine"]
    shared = common(plan)
    refuse(
        (model["moe"] is not None, "no experts"),
        (model["mla"] is not None, "no latent attention"),
        (plan["cp"] > 1, "no context parallelism"),
        (
            plan["recompute"] not in RECOMPUTE or plan["recompute_layers"] is not None,
            "no recomputation of some layers or operators",
        ),
    )
    kind = calculon.llm.Llm
    app = kind.Application({
        "hidden": model["hidden"], "feedforward": plain_width(model, plan["tp"]), "seq_size": plan["seq_len"],
        "attn_heads": model["heads"], "attn_size": model["head_dim"], "num_blocks": model["layers"],
    })  # fmt: skip
    fused = plan["attention"] == "flash" and plan["recompute"] == "none"
    system = system_of(files, machine)

    def run(recompute: str) -> Any:
        made = kind(app, log)
        settings = execution(plan, recompute, networks(plan, size=machine["per_node"]))
        made.compile(calculon.System(system), kind.Execution.from_json(settings))
        made.run(calculon.System(system))
        return made

    made = run(RECOMPUTE[plan["recompute"]])
    holds = run("attn_only") if fused else made
    bent = shared + holding(
        (model["gated"], "a gated layer as a plain one of the same weights"),
        (model["kv_heads"] != model["heads"], "fewer key and value heads as a narrower plain layer"),
        (fused, "fused attention as one that writes scores"),
        (plan["zero"] >= 2, "ZeRO-2 and 3 as a sharded optimizer"),
        (plan["precision"] == "fp8", "everything in 8 bits"),
        (plan["first_stage"] is not None, "even stages"),
        (model["windowed"], "every layer sees all positions"),
    )
    said: dict[str, Any] = {"step_s": made.get_total_time()}
    why = "no ZeRO-2 or 3" if plan["zero"] >= 2 else "no mixed 8-bit training" if plan["precision"] == "fp8" else ""
    if plan["precision"] == "bf16-pure" or not plan["usual_states"]:
        why = "AdamW with fp32 states only"
    said |= {"no_memory": why} if why else {"memory_bytes": holds.get_mem_tier1_cap_req()}
    return {"tools": {"calculon": said}, "bent": bent}


def execution(plan: Job, recompute: str, nets: dict[str, int]) -> dict[str, Any]:
    """Its execution file for a plan."""
    sharded = plan["sequence_parallel"] and plan["tp"] > 1
    return {
        "num_procs": plan["count"], "tensor_par": plan["tp"], "pipeline_par": plan["pp"], "data_par": plan["dp"], **nets,
        "batch_size": plan["global_batch"], "microbatch_size": plan["micro_batch"],
        "datatype": "float8" if plan["precision"] == "fp8" else "float16", "fused_activation": False,
        "attention_type": "multihead", "activation_recompute": recompute, "pipeline_interleaving": plan["vpp"],
        "optimizer_sharding": plan["zero"] >= 1 and plan["dp"] > 1, "tensor_par_comm_type": "rs_ag" if sharded else "ar",
        "tensor_par_overlap": "none", "seq_par_ag_redo": sharded and recompute != "full",
        "data_par_overlap": plan["dp"] > 1 and plan["hides_gradients"], "weight_offload": "params" in plan["offload"],
        "activations_offload": "activations" in plan["offload"], "optimizer_offload": "optimizer" in plan["offload"],
        "training": True,
    }  # fmt: skip


def plain_width(model: Job, tp: int) -> int:
    """The width of a plain layer that makes a block of as many weights, a multiple of the tensor-parallel size."""
    saved = model["head_dim"] * (model["heads"] - model["kv_heads"])
    width = model["ffn"] * (3 if model["gated"] else 2) // 2 - saved
    return round(width / tp) * tp


def networks(plan: Job, size: int) -> dict[str, int]:
    """Which of the two networks each group is on: inside a node as far as tensor, data and pipeline groups fit, in that order."""
    inside, found = 1, {}
    for group, degree in (("tensor", plan["tp"]), ("data", plan["dp"]), ("pipeline", plan["pp"])):
        inside *= degree
        found[f"{group}_par_net"] = int(inside > 1 and (inside > size or size % inside > 0))
    return found


def system_of(files: Any, machine: Job) -> Any:
    """Its own file for the accelerator, or its H100 file with another GPU's datasheet."""
    own = shipped(machine["accelerator"], FILES)
    made = json.loads(json.dumps(files[own or "h100_80g_nvl8"]))
    inside, outside = made["networks"]
    made["mem1"]["GiB"] = made["mem2"]["GiB"] = NO_LIMIT
    if machine["inter_gb_s"]:
        outside["bandwidth"] = machine["inter_gb_s"]
    if own is None:
        made["matrix"]["float16"]["tflops"] = machine["bf16_tflops"]
        made["matrix"]["float8"]["tflops"] = machine["fp8_tflops"] or 2 * machine["bf16_tflops"]
        for kind in made["vector"].values() if machine["fp32_tflops"] else ():
            kind["tflops"] = 2 * machine["fp32_tflops"]
        inside |= {"bandwidth": machine["intra_gb_s"] or 1.0, "size": machine["per_node"]}
    if machine["accelerator"] not in THE_SAME:
        made["mem1"]["GBps"] = machine["memory_gb_s"]
    return made


if __name__ == "__main__":
    serve(setup)
