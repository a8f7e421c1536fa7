"""Which settings of torchtitan mean a training plan?"""

from __future__ import annotations

from gpuplan.plan.launch.training.words import Trained, Writer, Written
from gpuplan.specs.launch import Launch

_SCHEDULES = {"1f1b": "1F1B", "gpipe": "GPipe", "zb-v": "ZBVZeroBubble"}
_KEPT = {"none": "none", "selective": "selective", "selective-op": "selective", "full": "full"}


def torchtitan(launch: Launch, one: Trained) -> Written:
    """The words of a plan, over the engine's own configuration of the model.

    Raises:
        UnknownError: the engine has no configuration of the model.
    """
    said, plan, p = Writer(launch), one.plan, one.plan.parallel
    said.configure(one.card)
    said.say("--training.num_tokens_per_microbatch_per_dp_rank", float(plan.micro_batch * plan.seq_len))
    said.say("--training.num_tokens_per_train_step", float(plan.global_batch * plan.seq_len))
    said.say("--training.max_context_length", float(plan.seq_len))
    if one.steps is not None:
        said.say("--training.steps", float(one.steps))
    shards = float(p.shard_group / p.cp) if p.shard_group is not None else float(p.dp)
    replicas = float(p.dp) / shards
    if p.zero_stage == 0:
        shards, replicas = 1.0, float(p.dp)
    said.say("--parallelism.data_parallel_replicate_degree", replicas)
    said.say("--parallelism.data_parallel_shard_degree", shards)
    if p.zero_stage in (1, 2) and shards > 1:
        said.say("--parallelism.fsdp_reshard_after_forward", "never")
        if p.zero_stage == 1:
            said.leave("zero_stage", "gradients are sharded too")
    said.say("--parallelism.tensor_parallel_degree", float(p.tp))
    said.say("--parallelism.pipeline_parallel_degree", float(p.pp))
    if p.tp > 1 and not p.sequence_parallel:
        said.leave("sequence_parallel", "it is on unless a configuration of yours turns it off")
    if p.pp > 1 and one.plan.how.stages_inside:
        said.leave("stages_inside", "its stages lie outside of replicas")
    if p.pp > 1:
        interleaved = p.vpp > 1 and p.schedule == "1f1b"
        known = "Interleaved1F1B" if interleaved else _SCHEDULES.get(p.schedule)
        if known is None:
            said.leave("schedule", f"it is not told of {p.schedule}")
        else:
            said.say("--parallelism.pipeline_parallel_schedule", known)
        said.say("--parallelism.num_pp_microbatches", float(one.micro_batches))
    said.say("--parallelism.context_parallel_degree", float(p.cp))
    if one.arch.moes:
        said.say("--parallelism.expert_parallel_degree", float(p.ep))
    _manner(said, one)
    return said.written()


def _manner(said: Writer, one: Trained) -> None:
    """Compilation, types, the optimizer, and what is computed again."""
    plan = one.plan
    if plan.how.compiled:
        said.say("--compile.enable")
    if plan.precision == "bf16-pure":
        said.say("--training.dtype", "bfloat16")
    elif plan.precision != "bf16":
        said.leave("precision", f"{plan.precision} is a configuration of its own in config_registry.py")
    if plan.optimizer != "adamw":
        said.leave("optimizer", f"{plan.optimizer} is a configuration of its own")
    if plan.saving.offload:
        said.say("--training.enable_cpu_offload")
    if plan.recompute in _KEPT and plan.saving.recompute_layers is None:
        said.say(f"activation-checkpoint:{_KEPT[plan.recompute]}")
    else:
        said.leave("recompute", f"{plan.recompute} of some layers has no setting")
