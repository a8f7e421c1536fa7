"""Which arguments of Megatron-LM mean a training plan?"""

from __future__ import annotations

from gpuplan.errors import Problem, UnknownError
from gpuplan.models.architecture import Attention, Block, Mla, Mlp, Moe, Run
from gpuplan.plan.launch.training.words import Trained, Writer, Written
from gpuplan.specs.launch import Launch

_CP = {"ring": "p2p", "all-gather": "allgather", "ulysses": "a2a"}
_OPTIMIZERS = {"adamw": "adam", "sgd": "sgd", "muon": "muon", "lion": "lion"}
_RECIPES = {"tensorwise": "tensorwise", "blockwise": "mxfp8"}
_SHARDED = {2: "optim_grads", 3: "optim_grads_params"}


def megatron(launch: Launch, one: Trained) -> Written:
    """The words of a plan.

    Raises:
        UnknownError: the model is none of those whose dimensions Megatron's arguments can say.
    """
    said = Writer(launch)
    _model(said, one)
    _division(said, one)
    _sharding(said, one)
    _batches(said, one)
    _numbers(said, one)
    _recomputing(said, one)
    said.ask("--lr", "LR", "the learning rate")
    said.ask("--data-path", "DATA_PATH", "the tokenized data")
    said.say("--tokenizer-type", "HuggingFaceTokenizer")
    said.say("--tokenizer-model", one.model)
    return said.written()


def _model(said: Writer, one: Trained) -> None:
    arch = one.arch
    blocks = arch.decoder.blocks
    kinds = {name: block for name, block in blocks.items() if name in arch.decoder.counts()}
    mixers = [block.mixer for block in kinds.values()]
    dense = [block.mlp for block in kinds.values() if isinstance(block.mlp, Mlp)]
    if arch.two_stacks or not arch.generates or not all(isinstance(mixer, (Attention, Mla)) for mixer in mixers) or arch.positions:
        what = f"no arguments of {said.launch.name} are on file for a model such as {one.card}"
        raise UnknownError(Problem("launch.model", what, "name another engine, or write its own model options"))
    said.say("--num-layers", float(arch.decoder.depth))
    said.say("--hidden-size", float(arch.hidden))
    mixer = mixers[0]
    if isinstance(mixer, Mla):
        _latent(said, mixer)
    elif isinstance(mixer, Attention):
        _attention(said, mixer, {repr(other) for other in mixers})
    first = dense[0] if dense else next(block.mlp for block in kinds.values() if block.mlp is not None)
    said.say("--ffn-hidden-size", float(first.width))
    if first.gated:
        said.say("--swiglu")
    if not first.bias:
        said.say("--disable-bias-linear")
    said.say("--normalization", "RMSNorm" if next(iter(kinds.values())).norm == "rms" else "LayerNorm")
    said.say("--position-embedding-type", "rope")
    said.leave("rotary base", "the estimate does not rest on it: add --rotary-base as the model's config.json has it")
    if not arch.tied:
        said.say("--untie-embeddings-and-output-weights")
    said.say("--max-position-embeddings", max(float(arch.max_context or 0), float(one.plan.seq_len)))
    _experts(said, arch.decoder.layers, kinds)


def _attention(said: Writer, mixer: Attention, kinds: set[str]) -> None:
    said.say("--num-attention-heads", float(mixer.heads))
    if mixer.kv_heads != mixer.heads:
        said.say("--group-query-attention")
        said.say("--num-query-groups", float(mixer.kv_heads))
    said.say("--kv-channels", float(mixer.head_dim))
    if mixer.qkv_bias:
        said.say("--add-qkv-bias")
    if mixer.qk_norm != "none":
        said.say("--qk-layernorm")
    if len(kinds) > 1 or mixer.window or mixer.chunk:
        said.leave("windows", "attention in windows, and layers that differ, have arguments of their own: --window-size and others")


def _latent(said: Writer, mixer: Mla) -> None:
    said.say("--num-attention-heads", float(mixer.heads))
    said.say("--multi-latent-attention")
    if mixer.q_rank is not None:
        said.say("--q-lora-rank", float(mixer.q_rank))
    said.say("--kv-lora-rank", float(mixer.kv_rank))
    said.say("--qk-head-dim", float(mixer.nope_dim))
    said.say("--qk-pos-emb-head-dim", float(mixer.rope_dim))
    said.say("--v-head-dim", float(mixer.v_dim))


def _experts(said: Writer, layers: tuple[Run, ...], kinds: dict[str, Block]) -> None:
    moe = next((block.moe for block in kinds.values() if block.moe is not None), None)
    if moe is None:
        return
    said.say("--num-experts", float(moe.experts))
    said.say("--moe-router-topk", float(moe.top_k))
    said.say("--moe-ffn-hidden-size", float(moe.width))
    said.say("--moe-grouped-gemm")
    if moe.shared_experts or moe.shared_width:
        said.say("--moe-shared-expert-intermediate-size", float(_shared(moe)))
    marks = [(1 if kinds[run.block].moe is not None else 0, run.count) for run in layers]
    if len({mark for mark, _ in marks}) > 1:
        said.say("--moe-layer-freq", "(" + "+".join(f"[{mark}]*{count}" for mark, count in marks) + ")")


def _shared(moe: Moe) -> int:
    return moe.shared_experts * (moe.shared_width or moe.width) if moe.shared_experts else moe.shared_width


def _division(said: Writer, one: Trained) -> None:
    p = one.plan.parallel
    said.say("--tensor-model-parallel-size", float(p.tp))
    said.say("--pipeline-model-parallel-size", float(p.pp))
    if p.sequence_parallel and p.tp > 1:
        said.say("--sequence-parallel")
    if one.plan.how.stages_inside and p.pp > 1:
        said.say("--use-tp-pp-dp-mapping")
    if p.cp > 1:
        said.say("--context-parallel-size", float(p.cp))
        said.say("--cp-comm-type", _CP[p.cp_kind])
    if p.vpp > 1:
        said.say("--num-virtual-stages-per-pipeline-rank", float(p.vpp))
    if p.first_stage_layers is not None:
        said.say("--decoder-first-pipeline-num-layers", float(p.first_stage_layers))
    if p.last_stage_layers is not None:
        said.say("--decoder-last-pipeline-num-layers", float(p.last_stage_layers))
    if one.arch.decoder.depth % float(p.pp * p.vpp) and p.first_stage_layers is None and p.last_stage_layers is None:
        stages = f"{one.arch.decoder.depth} layers on {float(p.pp * p.vpp):g} chunks"
        said.leave("stages", f"{stages} are not even: say which go where with --pipeline-model-parallel-layout")
    if p.schedule != "1f1b" and p.pp > 1:
        said.leave("schedule", f"its pipelines run 1F1B, interleaved with virtual stages, and not {p.schedule}")
    if one.arch.moes:
        said.say("--expert-model-parallel-size", float(p.ep))
        said.say("--expert-tensor-parallel-size", float(p.etp or (1.0 if p.ep > 1 else p.tp)))
        said.say("--moe-token-dispatcher-type", "flex" if one.plan.how.dispatcher in ("deepep", "hybridep") else "alltoall")
        if one.plan.how.dispatcher == "deepep":
            said.say("--moe-enable-deepep")


def _sharding(said: Writer, one: Trained) -> None:
    p = one.plan.parallel
    if p.zero_stage == 1:
        said.say("--use-distributed-optimizer")
    elif p.zero_stage in _SHARDED:
        said.say("--use-distributed-optimizer")
        said.say("--use-megatron-fsdp")
        said.say("--data-parallel-sharding-strategy", _SHARDED[p.zero_stage])
    if p.shard_group is not None and p.zero_stage and float(p.dp * p.cp) > float(p.shard_group):
        said.say("--num-distributed-optimizer-instances", float(p.dp * p.cp / p.shard_group))
    for what in ("sync_every", "reshard_group"):
        if getattr(p, what) is not None:
            said.leave(what, "it has no argument for it")
    overlap = one.plan.how.overlap
    if overlap is None or "dp" in overlap:
        said.say("--overlap-grad-reduce")
        if p.zero_stage:
            said.say("--overlap-param-gather")
    if overlap is not None and "tp" in overlap and p.tp > 1:
        said.say("--tp-comm-overlap")


def _batches(said: Writer, one: Trained) -> None:
    plan = one.plan
    said.say("--micro-batch-size", float(plan.micro_batch))
    said.say("--global-batch-size", float(plan.global_batch))
    said.say("--seq-length", float(plan.seq_len))
    if one.steps is None:
        said.ask("--train-samples", "TRAIN_SAMPLES", "sequences of the whole run")
    else:
        said.say("--train-samples", float(one.steps) * float(plan.global_batch))
    if plan.mtp:
        said.say("--mtp-num-layers", float(plan.mtp))


def _numbers(said: Writer, one: Trained) -> None:
    plan = one.plan
    if plan.precision in ("bf16", "fp8", "nvfp4"):
        said.say("--bf16")
    elif plan.precision == "fp16":
        said.say("--fp16")
    else:
        said.leave("precision", f"it has no argument for {plan.precision}")
    if plan.precision == "fp8":
        said.say("--fp8-format", "hybrid" if plan.how.scaling in (None, "tensorwise") else "e4m3")
        said.say("--fp8-recipe", _RECIPES.get(plan.how.scaling or "tensorwise", "tensorwise"))
        if plan.how.scaling == "rowwise":
            said.leave("scaling", "scales by row have no recipe of its own: tensorwise is said")
    if plan.precision == "nvfp4":
        said.say("--fp4-format", "e2m1")
    if plan.how.reduce_in == "bf16":
        said.say("--grad-reduce-in-bf16")
    if plan.optimizer in _OPTIMIZERS:
        said.say("--optimizer", _OPTIMIZERS[plan.optimizer])
    else:
        said.leave("optimizer", f"it has no {plan.optimizer}")
    if "optimizer" in plan.saving.offload:
        said.say("--optimizer-cpu-offload")
    for what in ("params", "activations"):
        if what in plan.saving.offload:
            said.leave("offload", f"{what} in the host's memory have no argument")


def _recomputing(said: Writer, one: Trained) -> None:
    plan, layers = one.plan, one.plan.saving.recompute_layers
    if plan.recompute == "full":
        said.say("--recompute-granularity", "full")
        said.say("--recompute-method", "uniform" if layers is None else "block")
        said.say("--recompute-num-layers", 1.0 if layers is None else float(layers))
    elif plan.recompute == "selective":
        said.say("--recompute-granularity", "selective")
        if plan.saving.recompute_modules:
            said.say("--recompute-modules", *plan.saving.recompute_modules)
    elif plan.recompute in ("mlp", "moe"):
        said.say("--recompute-granularity", "selective")
        said.say("--recompute-modules", plan.recompute)
    elif plan.recompute != "none":
        said.leave("recompute", f"it has no argument for {plan.recompute}")
