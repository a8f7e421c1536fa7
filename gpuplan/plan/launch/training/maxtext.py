"""Which settings of MaxText mean a training plan?"""

from __future__ import annotations

from gpuplan.plan.launch.training.words import Trained, Writer, Written
from gpuplan.plan.remat import POLICIES
from gpuplan.specs.launch import Launch

_QUANTISED = {"int8": "int8", "fp8": "fp8"}
_OPTIMIZERS = {"adamw": "adamw", "sgd": "sgd", "muon": "muon"}


def maxtext(launch: Launch, one: Trained) -> Written:
    """The words of a plan: axes within a domain of fast links first, data parallelism beyond it.

    Raises:
        UnknownError: the engine has no configuration of the model.
    """
    said, plan, p = Writer(launch), one.plan, one.plan.parallel
    said.configure(one.card)
    said.ask("run_name", "RUN_NAME", "the name of the run")
    said.ask("base_output_directory", "OUTPUT", "where checkpoints go, such as gs://bucket")
    said.say("dataset_type", "synthetic")
    said.leave("data", "dataset_type is synthetic until you name yours")
    said.say("max_target_length", float(plan.seq_len))
    accumulated = one.micro_batches if p.pp == 1 else 1
    each = float(plan.global_batch) / one.ranks / accumulated
    said.say("per_device_batch_size", each)
    said.say("gradient_accumulation_steps", float(accumulated))
    if one.steps is not None:
        said.say("steps", float(one.steps))
    _axes(said, one)
    if plan.recompute == "full" or plan.recompute in POLICIES:
        said.say("remat_policy", plan.recompute)
    else:
        said.leave("recompute", f"it has no policy called {plan.recompute}")
    if plan.precision in _QUANTISED:
        said.say("quantization", _QUANTISED[plan.precision])
    elif plan.precision not in ("bf16",):
        said.leave("precision", f"it has no setting for {plan.precision}")
    if plan.optimizer in _OPTIMIZERS:
        said.say("opt_type", _OPTIMIZERS[plan.optimizer])
    else:
        said.leave("optimizer", f"it has no {plan.optimizer}")
    if "optimizer" in plan.saving.offload:
        said.say("optimizer_memory_host_offload", "True")
    return said.written()


def _axes(said: Writer, one: Trained) -> None:
    """The mesh: what shards or replicates fits into a domain as far as it goes, the rest is between domains."""
    p = one.plan.parallel
    inner = float(p.tp * p.cp) * (float(p.ep) if one.arch.moes else 1.0)
    room = max(1, int(one.node / inner)) if one.nodes_apart else one.ranks
    data = float(p.dp) / (float(p.ep) if one.arch.moes else 1.0)
    near = next(part for part in range(int(min(room, data)), 0, -1) if data % part == 0)
    axis = "fsdp" if p.zero_stage == 3 else "data"
    for name, size in (("tensor", p.tp), ("context", p.cp), ("expert", p.ep if one.arch.moes else 1.0)):
        said.say(f"ici_{name}_parallelism", float(size))
    said.say("ici_pipeline_parallelism", 1.0 if one.nodes_apart else float(p.pp))
    if p.zero_stage in (1, 2):
        said.say("shard_optimizer_over_data", "True")
        if p.zero_stage == 2:
            said.leave("zero_stage", "gradients are not sharded, optimizer states are")
    for kind in ("data", "fsdp"):
        said.say(f"ici_{kind}_parallelism", float(near) if kind == axis else 1.0)
    if one.nodes_apart:
        said.say("dcn_pipeline_parallelism", float(p.pp))
        beyond = data / near
        replicated = p.shard_group is not None
        said.say("dcn_data_parallelism", beyond if axis == "data" or replicated else 1.0)
        said.say("dcn_fsdp_parallelism", 1.0 if axis == "data" or replicated else beyond)
    if p.pp > 1:
        said.say("num_pipeline_microbatches", float(one.micro_batches))
