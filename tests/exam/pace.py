"""Answers about how long, how fast and for how much: training, decoding, money, failures."""

from __future__ import annotations

from typing import Any

from gpuplan.formulas.cost import accelerator_seconds, energy_joules, run_usd, wall_seconds
from gpuplan.formulas.flop import (
    achieved_flop_per_s,
    forward_flop,
    gpt_full_recompute_flop,
    gpt_model_flop,
    gpt_selective_recompute_flop,
    hfu,
    mfu,
    six_nd_flop,
    training_flop,
    training_flop_per_token,
)
from gpuplan.formulas.memory import state_bytes
from gpuplan.formulas.mesh import nodes_for, tokens_per_chip
from gpuplan.formulas.reliability import (
    checkpoint_bytes,
    checkpoint_count,
    failure_rate,
    flop_run_seconds,
    lost_fraction,
    mtbf_seconds,
    saving_fraction,
    tokens_seconds,
    young_interval_seconds,
)
from gpuplan.formulas.roofline import compute_bound_seconds, throughput_gain
from gpuplan.formulas.serving import (
    decode_bytes,
    decode_tokens_per_s,
    exchange_latency_seconds,
    fitting,
    mbu,
    per_chip,
    prefill_per_decode_servers,
    prefill_seconds,
    requests_per_s,
    speculative_tokens,
)
from gpuplan.formulas.training import step_tokens
from gpuplan.units import DAY, HOUR, YEAR

from .bounds import chips_of, pooled_peak, read_seconds
from .shapes import ELEMENT_BYTES
from .work import Answers, Inputs, free_beside_weights, full_recompute_flop, kv_of

GB = 1e9


def _read_weights(i: Inputs) -> Any:
    element = i.bytes if hasattr(i, "bytes") else ELEMENT_BYTES[i.dtype]
    return read_seconds(i, state_bytes(params=i.params, bytes_per_param=element, shards=1))


def _kv_and_weights(i: Inputs) -> Any:
    weights = i.weights_gb * GB if hasattr(i, "weights_gb") else state_bytes(
        params=i.params, bytes_per_param=i.bytes_per_param, shards=1
    )  # fmt: skip
    caches = i.kv_gb_per_seq * GB * i.batch if hasattr(i, "kv_gb_per_seq") else kv_of(i, "context")
    return decode_bytes(weights_bytes=weights, kv_bytes=caches)


def _decode(i: Inputs) -> Any:
    return read_seconds(i, _kv_and_weights(i))


def _decode_compute(i: Inputs) -> Any:
    return compute_bound_seconds(flop=forward_flop(params=i.params, tokens=i.batch), peak_flop_per_s=pooled_peak(i))


def _decode_rate(i: Inputs) -> Any:
    return decode_tokens_per_s(batch=i.batch, step=_decode(i))


def _queries_per_chip(i: Inputs, batch: Any) -> Any:
    rate = decode_tokens_per_s(batch=batch, step=i.step_ms * 1e-3)
    return per_chip(tokens_per_s=requests_per_s(tokens_per_s=rate, output_tokens=i.output_tokens), chips=i.chips)


def _prefill(i: Inputs, share: Any) -> Any:
    return prefill_seconds(flop=forward_flop(params=i.params, tokens=i.tokens), peak_flop_per_s=pooled_peak(i), mfu=share)


def _step(i: Inputs) -> Any:
    tokens = step_tokens(global_batch=i.global_batch, seq_len=i.seq)
    return flop_run_seconds(flop=full_recompute_flop(i.params, tokens), chips=i.gpus, achieved_flop_per_s=i.achieved_flop_per_s)


def _gpt_shape(i: Inputs) -> dict[str, Any]:
    return {"seq_len": i.seq, "layers": i.layers, "hidden": i.d_model, "vocab": i.vocab}


def _gpt_mfu(i: Inputs) -> Any:
    flop = gpt_model_flop(global_batch=i.global_batch, **_gpt_shape(i))
    return mfu(model_flop=flop, seconds=i.seconds, chips=i.gpus, peak_flop_per_s=i.peak_flop_per_s)


def _gain(i: Inputs) -> Any:
    return throughput_gain(before=i.full_s, after=i.present_s)


def _rate_mfu(i: Inputs) -> Any:
    return mfu(model_flop=i.achieved_flop_per_s, seconds=1, chips=1, peak_flop_per_s=i.peak_flop_per_s)


def _token_flop(i: Inputs) -> Any:
    heads, head_dim = getattr(i, "heads", 1), getattr(i, "head_dim", None) or i.d_model
    return training_flop_per_token(params=i.params, layers=i.layers, heads=heads, head_dim=head_dim, seq_len=i.seq)


def _token_mfu(i: Inputs) -> Any:
    return mfu(model_flop=_token_flop(i) * i.tokens_per_s, seconds=1, chips=chips_of(i), peak_flop_per_s=i.peak_flop_per_s)


def _token_hfu(i: Inputs) -> Any:
    forward = _token_flop(i) / 3
    done = training_flop(forward_flop=forward, recomputed_forward_flop=forward)
    return hfu(hardware_flop=done * i.tokens_per_s, seconds=1, chips=chips_of(i), peak_flop_per_s=i.peak_flop_per_s)


def _single_chip(i: Inputs) -> Any:
    return flop_run_seconds(flop=i.flop, chips=1, achieved_flop_per_s=i.achieved_flop_per_s)


def _hours(i: Inputs) -> Any:
    return sum(accelerator_seconds(chips=1, seconds=h * HOUR) for h in i.hours)


def _tokens_per_gpu(i: Inputs) -> Any:
    return tokens_per_chip(tokens=step_tokens(global_batch=i.global_batch, seq_len=i.seq), chips=i.gpus)


def _run_cost(i: Inputs) -> Any:
    return run_usd(chips=i.gpus, seconds=i.days * DAY, price=i.price_per_hour / HOUR)


TRAINING_TIME: Answers = {
    "sb-tf-q7": lambda i: mfu(
        model_flop=six_nd_flop(params=i.active_params, tokens=i.tokens),
        seconds=i.gpu_hours * HOUR,
        chips=1,
        peak_flop_per_s=i.peak_flop_per_s,
    ),
    "sb-at-435": lambda i: flop_run_seconds(flop=i.flop, chips=i.chips, achieved_flop_per_s=i.peak_flop_per_s * i.mfu),
    "sb-at-1752": lambda i: wall_seconds(
        accelerator_seconds=accelerator_seconds(chips=i.chips_from, seconds=i.days * DAY), chips=i.chips_to
    ),
    "sb-gpu-40d": lambda i: flop_run_seconds(
        flop=six_nd_flop(params=i.params, tokens=i.tokens), chips=i.gpus, achieved_flop_per_s=i.peak_flop_per_s * i.mfu
    ),
    "sb-gpu-q3": _tokens_per_gpu,
    "sb-gpu-ds": _tokens_per_gpu,
    "mle-hfu": lambda i: hfu(hardware_flop=i.achieved_flop_per_s, seconds=1, chips=1, peak_flop_per_s=i.peak_flop_per_s),
    "mle-042": _step,
    "mle-idf-comp": _step,
    "mle-idf-90": _step,
    "kor-mfu-k175": _gpt_mfu,
    "kor-mfu-k530": _gpt_mfu,
    "kor-inc-k22": _gain,
    "kor-inc-k530": _gain,
    "kor-inc-k1t": _gain,
    "kor-hfu": lambda i: (
        i.mfu * gpt_selective_recompute_flop(global_batch=1, **_gpt_shape(i)) / gpt_model_flop(global_batch=1, **_gpt_shape(i))
    ),
    "nar-84": lambda i: flop_run_seconds(
        flop=full_recompute_flop(i.params, i.tokens), chips=i.gpus, achieved_flop_per_s=i.achieved_flop_per_s
    ),
    "mtnlg-113": lambda i: achieved_flop_per_s(
        flop=gpt_full_recompute_flop(global_batch=i.global_batch, **_gpt_shape(i)), seconds=i.seconds, chips=i.gpus
    ),
    "palm-462": _token_mfu,
    "palm-457": lambda i: mfu(
        model_flop=six_nd_flop(params=i.params, tokens=i.tokens_per_s), seconds=1, chips=i.chips, peak_flop_per_s=i.peak_flop_per_s
    ),
    "gpt3-355": _single_chip,
    "gpt3-665": _single_chip,
    "ll1-21": lambda i: tokens_seconds(tokens=i.tokens, tokens_per_s=i.tokens_per_s_per_gpu, chips=i.gpus),
    "ll2-hours": _hours,
    "ll3-mfu-430": _rate_mfu,
    "ll3-mfu-400": _rate_mfu,
    "ll3-mfu-380": _rate_mfu,
    "ll31-393": _hours,
    "ds3-37": lambda i: wall_seconds(accelerator_seconds=i.gpu_hours * HOUR, chips=i.gpus),
    "fdy-mfu-30b": _token_mfu,
    "fdy-hfu-30b": _token_hfu,
    "fdy-mfu-70b": _token_mfu,
    "fdy-hfu-70b": _token_hfu,
    "fdy-hfu-30b-32": _token_hfu,
    "nano-mfu": lambda i: mfu(
        model_flop=i.flop_per_seq * i.sequences, seconds=i.seconds, chips=1, peak_flop_per_s=i.peak_flop_per_s
    ),
}

LATENCY: Answers = {
    "sb-tpu-q1": _read_weights,
    "sb-inf-t16": _decode,
    "sb-inf-t240": _decode,
    "sb-inf-g64": _decode_rate,
    "sb-inf-365": _read_weights,
    "sb-ai-17": _decode,
    "sb-ai-235": lambda i: per_chip(tokens_per_s=_decode_rate(i), chips=i.chips),
    "sb-ai-qps-bf16": lambda i: _queries_per_chip(i, i.batch),
    "sb-ai-qps-int8": lambda i: _queries_per_chip(i, i.batch),
    "sb-ai-2x": lambda i: _queries_per_chip(i, fitting(free=free_beside_weights(i), each=kv_of(i))),
    "sb-ai-091": lambda i: _prefill(i, i.mfu),
    "sb-ai-3": lambda i: prefill_per_decode_servers(
        prefill=i.prefill_s, step=i.step_ms * 1e-3, batch=i.batch, output_tokens=i.output_tokens
    ),
    "kip-22": _read_weights,
    "kip-comm": lambda i: exchange_latency_seconds(layers=i.layers, exchanges=i.exchanges, latency=i.latency_us * 1e-6),
    "kip-53": _decode_compute,
    "kip-21": _decode_compute,
    "base-39": lambda i: _prefill(i, 1),
    "dbx-50": lambda i: mbu(
        bytes_read=state_bytes(params=i.params, bytes_per_param=i.bytes, shards=1), step=i.tpot_ms * 1e-3, peak_bandwidth=i.hbm_bw
    ),
    "spec-369": lambda i: speculative_tokens(acceptance=i.alpha, draft_tokens=i.gamma),
}

MONEY_AND_FAILURES: Answers = {
    "sb-tpu-q2-hosts": lambda i: nodes_for(chips=i.chips, chips_per_node=i.chips_per_host),
    "gpt3-46": lambda i: run_usd(chips=1, seconds=i.gpu_years * YEAR, price=i.price_per_hour / HOUR),
    "ll1-mwh": lambda i: energy_joules(accelerator_seconds=i.gpu_hours * HOUR, watts=i.watts, pue=i.pue),
    "ds3-238": lambda i: run_usd(chips=1, seconds=i.gpu_hours * HOUR, price=i.price_per_hour / HOUR),
    "cost-mpt7": _run_cost,
    "cost-mpt30h": _run_cost,
    "cost-mpt30a": _run_cost,
    "cost-llmc2": lambda i: run_usd(chips=1, seconds=i.hours * HOUR, price=i.node_price_per_hour / HOUR),
    "bloom-full": lambda i: checkpoint_bytes(params=i.params, bytes_per_param=i.bytes_per_param),
    "mle-ck-n": lambda i: checkpoint_count(seconds=i.days * DAY, interval=i.interval_h * HOUR),
    "mle-ck-h": lambda i: checkpoint_count(seconds=i.days * DAY, interval=i.interval_h * HOUR) * i.save_s,
    "mle-ck-5x": lambda i: saving_fraction(save=i.save_s, interval=i.interval_h * HOUR),
    "mle-ck-tb": lambda i: checkpoint_count(seconds=DAY, interval=i.interval_h * HOUR) * i.ckpt_tb * 1e12,
    "rely-18": lambda i: mtbf_seconds(
        failures_per_s=failure_rate(failures=i.failures_per_1000_node_days, parts=1000, seconds=DAY),
        parts=nodes_for(chips=i.gpus, chips_per_node=i.gpus_per_node),
    ),
    "young-o": lambda i: lost_fraction(
        save=i.save_s,
        interval=young_interval_seconds(save=i.save_s, mtbf=i.mtbf_h * HOUR),
        mtbf=i.mtbf_h * HOUR,
        restart=0,
    ),
}

PACE = TRAINING_TIME | LATENCY | MONEY_AND_FAILURES
