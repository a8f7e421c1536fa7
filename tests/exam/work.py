"""Answers about what must be done and held: parameters, FLOP, training memory, caches, weights."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, TypeAlias

from gpuplan.formulas.flop import attention_parity_tokens, forward_flop, six_nd_flop, training_flop
from gpuplan.formulas.memory import (
    attention_score_bytes,
    checkpoint_activation_bytes,
    double_quantised_bytes_per_param,
    gpt_attention_core_bytes,
    gpt_layer_activation_bytes,
    inference_rule_bytes,
    kv_bytes_per_token,
    kv_cache_bytes,
    logits_bytes,
    lora_params,
    mla_bytes_per_token,
    model_state_bytes,
    offload_host_bytes,
    quantised_bytes_per_param,
    shard_bytes,
    state_bytes,
    tensor_bytes,
    windowed_tokens,
)
from gpuplan.formulas.mesh import replication, slice_for, tokens_per_chip
from gpuplan.formulas.params import attention_projection_params, experts_params, layers_params, mlp_params
from gpuplan.formulas.pipeline import (
    bubble_overhead,
    interleaved_activation_factor,
    interleaved_bubble_overhead,
    micro_batches,
    stage_transfer_bytes,
)
from gpuplan.formulas.roofline import chips_to_hold, memory_share, pooled_bytes
from gpuplan.formulas.serving import fitting, free_bytes, kv_turnover_per_step, max_batch, power_of_two_below
from gpuplan.formulas.training import step_tokens
from gpuplan.models.count import Part

from .shapes import ELEMENT_BYTES, counted, plain_gpt

Inputs: TypeAlias = SimpleNamespace
"""The inputs of a case, by name."""
Answers: TypeAlias = dict[str, Callable[[Inputs], Any]]
"""What answers each case."""
GB = 1e9


def _total(i: Inputs) -> Any:
    return counted(i.model).params_total.value


def _active(i: Inputs) -> Any:
    return counted(i.model).params_active.value


def _gpt(i: Inputs) -> Any:
    return counted(plain_gpt(vars(i))).params_total.value


def _full_mha(i: Inputs, **more: Any) -> dict[str, Any]:
    return {"heads": 1, "kv_heads": 1, "head_dim": i.d_model, **vars(i), **more}


def _layer_sum(i: Inputs, part: Part) -> Any:
    parts: list[Any] = [layers_params(layers=one.layers.value, layer=one.layer[part].value) for one in counted(i.model).blocks]
    return sum(parts)


def _mha(i: Inputs, matrices: float) -> tuple[Any, Any]:
    attention = attention_projection_params(hidden=i.d_model, heads=1, kv_heads=1, head_dim=i.d_model, v_head_dim=i.d_model)
    return attention, mlp_params(hidden=i.d_model, width=getattr(i, "d_ff", 4 * i.d_model), matrices=matrices)


def _kv(i: Inputs) -> Any:
    """Cache bytes a token, from a whole shape or from layers and the width of all key-value heads together."""
    element = ELEMENT_BYTES[getattr(i, "kv_dtype", None) or i.dtype] if hasattr(i, "dtype") or hasattr(i, "kv_dtype") else i.bytes
    if hasattr(i, "model"):
        m = i.model
        return kv_bytes_per_token(layers=m["layers"], kv_heads=m["kv_heads"], head_dim=m["head_dim"], element_bytes=element)
    return kv_bytes_per_token(layers=i.layers, kv_heads=1, head_dim=i.kv_heads_x_dim, element_bytes=element)


def kv_of(i: Inputs, tokens: str = "seq") -> Any:
    """Cache bytes of all sequences of a question."""
    return kv_cache_bytes(bytes_per_token=_kv(i), tokens=getattr(i, tokens), sequences=getattr(i, "batch", 1))


def _weights(i: Inputs) -> Any:
    return state_bytes(params=i.params, bytes_per_param=ELEMENT_BYTES[i.dtype], shards=1)


def free_beside_weights(i: Inputs) -> Any:
    """What the chips have left beside the weights."""
    chips = getattr(i, "chips", None) or i.gpus
    weights = i.weights_gb * GB if hasattr(i, "weights_gb") else _weights(i)
    return free_bytes(capacity=pooled_bytes(chip_bytes=i.hbm_gb * GB, chips=chips), used=weights)


def _states(i: Inputs) -> Any:
    return state_bytes(params=i.params, bytes_per_param=i.bytes_per_param, shards=getattr(i, "dp", 1))


def _zero3(i: Inputs) -> Any:
    live = state_bytes(params=i.largest_layer, bytes_per_param=i.live_bytes, shards=1)
    return live + state_bytes(params=i.params, bytes_per_param=i.state_bytes, shards=i.gpus)


def _saved(i: Inputs, copies: float, layers: int) -> Any:
    return checkpoint_activation_bytes(
        layers=layers, saved_per_layer=copies, tokens=i.tokens, hidden=i.model["d_model"], element_bytes=i.bytes
    )


def _core(i: Inputs) -> Any:
    return gpt_attention_core_bytes(seq_len=i.seq, micro_batch=1, heads=i.heads, element_bytes=i.bytes, mask_bytes=i.mask_bytes)


def _layer(i: Inputs) -> Any:
    return gpt_layer_activation_bytes(
        seq_len=i.seq, micro_batch=1, hidden=i.d_model, heads=i.heads, element_bytes=i.bytes, mask_bytes=i.mask_bytes
    )


def _scores(i: Inputs) -> Any:
    return attention_score_bytes(sequences=1, heads=i.heads, q_tokens=i.seq, kv_tokens=i.seq, element_bytes=i.bytes)


def _six_nd(i: Inputs) -> Any:
    return six_nd_flop(params=i.params, tokens=getattr(i, "tokens", 1))


def full_recompute_flop(params: Any, tokens: Any) -> Any:
    """Training FLOP when the whole forward pass is done twice."""
    once = forward_flop(params=params, tokens=tokens)
    return training_flop(forward_flop=once, recomputed_forward_flop=once)


def _saved_by_double_quantisation(i: Inputs) -> Any:
    value, scale, small = i.value_bits / 8, i.scale_bits / 8, i.small_scale_bits / 8
    plain = quantised_bytes_per_param(element_bytes=value, scale_bytes=scale, group=i.block)
    return plain - double_quantised_bytes_per_param(
        element_bytes=value, scale_bytes=small, group=i.block, outer_scale_bytes=scale, outer_group=i.block2
    )


def _mixed_precision_file(i: Inputs) -> Any:
    m = i.model
    expert = mlp_params(hidden=m["d_model"], width=m["moe_ff"], matrices=3)
    routed = layers_params(layers=m["layers"], layer=experts_params(experts=m["experts"], expert=expert))
    return state_bytes(params=routed, bytes_per_param=i.expert_bits / 8, shards=1) + state_bytes(
        params=_total(i) - routed, bytes_per_param=i.other_bytes, shards=1
    )


PARAMS: Answers = {
    "sb-tf-q1a": lambda i: counted(_full_mha(i, norms=1)).params_total.value,
    "sb-tf-q1b": lambda i: _mha(i, 3)[0] / (_mha(i, 3)[0] + _mha(i, 3)[1]),
    "sb-at-params": _total,
    "sb-at-ffw": lambda i: _layer_sum(i, "mlp"),
    "sb-at-att": lambda i: _layer_sum(i, "mixer"),
    "sb-at-vocab": lambda i: counted(i.model).embedding.value + counted(i.model).head.value,  # type: ignore[union-attr]
    "sb-inf-q1": lambda i: counted(vars(i)).params_total.value,
    "nar-p-310b": _gpt,
    "card-l2-7b": _total,
    "card-l2-13b": _total,
    "card-l2-70b": _total,
    "card-l3-70b": _total,
    "card-l3-405b": _total,
    "card-mistral-7b": _total,
    "card-qwen72": _total,
    "card-mixtral": _total,
    "card-qwen3-30": _total,
    "card-dsv3-a": _active,
    "card-dsv2-a": _active,
    "oss-120b": _total,
    "fdy-7b": _gpt,
    "fdy-30b": _gpt,
    "card-neox": _gpt,
    "lora-377": lambda i: lora_params(in_features=i.d_model, out_features=i.d_model, rank=i.rank, matrices=i.layers * i.targets),
}

FLOP: Answers = {
    "sb-tf-8d": lambda i: attention_parity_tokens(layer_matmul_params=sum(_mha(i, 3)), heads=1, head_dim=i.d_model),
    "sb-tf-rematflops": lambda i: full_recompute_flop(1, 1),
    "sb-at-fpt": _six_nd,
    "mle-65": lambda i: full_recompute_flop(
        i.params, tokens_per_chip(tokens=step_tokens(global_batch=i.global_batch, seq_len=i.seq), chips=i.gpus)
    ),
    "gpt3-flops": _six_nd,
    "chin": _six_nd,
    "ll3-38": _six_nd,
    "kip-f": lambda i: forward_flop(params=layers_params(layers=i.layers, layer=sum(_mha(i, 2))), tokens=1),
}

TRAINING_MEMORY: Answers = {
    "sb-sh-q1": lambda i: replication(chips=math.prod(i.mesh.values()), shards=math.prod(i.mesh[axis] for axis in i.sharded_over)),
    "sb-tf-remat": lambda i: checkpoint_activation_bytes(
        layers=i.layers, saved_per_layer=i.saved_per_layer, tokens=i.tokens, hidden=i.d_model, element_bytes=i.bytes
    ),
    "sb-at-mem": lambda i: (
        state_bytes(params=i.params, bytes_per_param=i.bytes_weights + i.bytes_optimizer, shards=1)
        + checkpoint_activation_bytes(
            layers=i.layers, saved_per_layer=i.checkpoints_per_layer, tokens=i.tokens, hidden=i.d_model, element_bytes=i.bytes
        )
    ),
    "sb-at-min": lambda i: chips_to_hold(total_bytes=i.bytes, chip_bytes=i.hbm_gb * GB),
    "sb-at-perchip": lambda i: shard_bytes(size=i.bytes, shards=i.chips),
    "sb-tr-q2a": _states,
    "sb-tr-q3b": lambda i: pooled_bytes(chip_bytes=i.hbm_gb * GB, chips=i.chips),
    "sb-gpu-700": _states,
    "sb-gpu-9": lambda i: chips_to_hold(total_bytes=i.bytes, chip_bytes=i.hbm_gb * GB),
    "sb-gpu-875": lambda i: shard_bytes(size=i.bytes, shards=i.ways),
    "mle-layer": lambda i: _saved(i, i.copies, 1),
    "mle-ckpt": lambda i: _saved(i, 1, i.model["layers"]),
    "mle-nock": lambda i: _saved(i, i.copies, i.model["layers"]),
    "mle-logits": lambda i: logits_bytes(tokens=i.tokens, vocab=i.vocab, element_bytes=i.bytes, copies=1),
    "mle-31": lambda i: (
        _saved(i, i.copies, 1)
        + _saved(i, 1, i.model["layers"])
        + logits_bytes(tokens=i.tokens, vocab=i.model["vocab"], element_bytes=i.logit_bytes, copies=1)
    ),
    "ds-z2o": _states,
    "ds-z3": _zero3,
    "ds-z3o": _zero3,
    "ds-t5l": _zero3,
    "ds-cpu": lambda i: offload_host_bytes(
        params=i.params,
        gradient_bytes=i.gradient_bytes,
        optimizer_bytes=i.optimizer_bytes,
        gpus_per_node=i.gpus_per_node,
        buffer_factor=i.buffer,
    ),
    "zero-1": lambda i: model_state_bytes(
        params=i.params,
        weight_bytes=i.bytes[0],
        gradient_bytes=i.bytes[1],
        optimizer_bytes=i.bytes[2],
        weight_shards=1,
        gradient_shards=1,
        optimizer_shards=i.dp,
    ),
    "zero-1t": _states,
    "ultra-16-7b": _states,
    "ultra-16-70b": _states,
    "ultra-16-405b": _states,
    "kor-64": lambda i: _core(i) / tensor_bytes(tokens=i.seq, width=i.d_model, element_bytes=1),
    "kor-65": lambda i: memory_share(used=_core(i), capacity=_layer(i)),
    "kor-act22": _layer,
    "kor-il": lambda i: interleaved_activation_factor(pp=i.pp, vpp=i.interleave),
    "nar-p2p": lambda i: stage_transfer_bytes(
        micro_batch=i.micro_batch, seq_len=i.seq, hidden=i.d_model, element_bytes=i.bytes, shards=1
    ),
    "nar-bub1": lambda i: bubble_overhead(pp=i.pp, micro_batches=i.micro_batches),
    "nar-bub2": lambda i: interleaved_bubble_overhead(pp=i.pp, micro_batches=i.micro_batches, vpp=i.interleave),
    "nar-bub5": lambda i: bubble_overhead(
        pp=i.pp, micro_batches=micro_batches(global_batch=i.global_batch, micro_batch=i.micro_batch, dp=i.dp)
    ),
    "lora-350": lambda i: state_bytes(params=i.params, bytes_per_param=i.bytes, shards=1),
    "qlora-780": _states,
    "qlora-0373": _saved_by_double_quantisation,
    "qlora-3": lambda i: state_bytes(params=i.params, bytes_per_param=i.bits / 8, shards=1),
    "qlora-48": lambda i: state_bytes(params=i.params, bytes_per_param=i.bits / 8, shards=1),
}

CACHE: Answers = {
    "sb-tf-q1c": _kv,
    "sb-tf-kv8": kv_of,
    "sb-inf-kv13": kv_of,
    "sb-ai-kv240": kv_of,
    "mle-kv128": kv_of,
    "vllm-800": _kv,
    "vllm-16": kv_of,
    "hfkv-5": kv_of,
    "nv-2": kv_of,
    "hf31-kv-70b": kv_of,
    "hf31-kv-405b": kv_of,
    "jamba-mi": kv_of,
    "kip-kv": _kv,
    "sb-ai-seqs-int8": lambda i: fitting(free=free_beside_weights(i), each=kv_of(i)),
    "sb-ai-seqs-int4": lambda i: fitting(free=free_beside_weights(i), each=kv_of(i)),
    "kip-8000": lambda i: fitting(free=free_beside_weights(i), each=i.kv_bytes_per_token),
    "kip-23000": lambda i: fitting(free=free_beside_weights(i), each=i.kv_bytes_per_token),
    "sb-ai-96": lambda i: kv_turnover_per_step(batch=i.batch, prompt_tokens=i.prefill, output_tokens=i.decode),
    "isca-466": lambda i: (
        kv_bytes_per_token(element_bytes=i.bytes, **i.qwen2_5_72b)
        / mla_bytes_per_token(
            layers=i.deepseek_v3["layers"],
            kv_lora_rank=i.deepseek_v3["kv_lora"],
            rope_head_dim=i.deepseek_v3["qk_rope"],
            element_bytes=i.bytes,
        )
    ),
    "mistral-8": lambda i: i.seq / windowed_tokens(tokens=i.seq, window=i.window),
}

INFERENCE_MEMORY: Answers = {
    "sb-inf-w13": _weights,
    "sb-inf-act": lambda i: tensor_bytes(tokens=i.tokens, width=i.d_model, element_bytes=ELEMENT_BYTES[i.dtype]),
    "sb-inf-fit": lambda i: power_of_two_below(
        count=max_batch(
            free=free_bytes(capacity=pooled_bytes(chip_bytes=i.hbm_gib * 2**30, chips=i.chips), used=i.weights_gb * GB),
            sequence_bytes=i.kv_gb_per_seq * GB,
        )
    ),
    "sb-ai-8": lambda i: slice_for(chips=chips_to_hold(total_bytes=i.bytes, chip_bytes=i.hbm_gb * GB)),
    "sb-ai-min-int8": lambda i: memory_share(used=_weights(i), capacity=i.hbm_gb * GB),
    "sb-ai-min-int4": lambda i: memory_share(used=_weights(i), capacity=i.hbm_gb * GB),
    "mle-mx6": lambda i: quantised_bytes_per_param(element_bytes=i.bits / 8, scale_bytes=i.scale_bits / 8, group=i.block),
    "em-12": lambda i: inference_rule_bytes(weights_bytes=i.weights_gb * GB, overhead_factor=i.factor),
    "vllm-65": lambda i: memory_share(used=_weights(i), capacity=i.hbm_gb * GB),
    "hf31-w-405b-fp8": _weights,
    "hf31-w-405b-int4": _weights,
    "hf31-node": lambda i: chips_to_hold(
        total_bytes=_weights(i), chip_bytes=pooled_bytes(chip_bytes=i.hbm_gb * GB, chips=i.gpus_per_node)
    ),
    "hfopt-oc": _weights,
    "hfopt-16k": _scores,
    "hfopt-1k": _scores,
    "oss-ck-20b": _mixed_precision_file,
}

WORK = PARAMS | FLOP | TRAINING_MEMORY | CACHE | INFERENCE_MEMORY
