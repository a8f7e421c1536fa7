"""Answers about how long, how fast and for how much: training, decoding, money, failures."""

from __future__ import annotations

from typing import Any

from gpuplan.formulas.basic import rate, repeated_bytes, repeated_seconds, share
from gpuplan.formulas.cost import accelerator_seconds, energy_joules, run_usd
from gpuplan.formulas.flop import achieved_flop_per_s, attention_training_flop_per_token, forward_flop, hfu, mfu, six_nd_flop
from gpuplan.formulas.inference import mbu
from gpuplan.formulas.memory import state_bytes
from gpuplan.formulas.reference.checkpoints import checkpoint_count, lost_fraction
from gpuplan.formulas.reference.gpt import gpt_model_flop, gpt_selective_recompute_flop
from gpuplan.formulas.reference.servers import prefill_per_decode_servers, speculative_tokens
from gpuplan.formulas.reliability import checkpoint_bytes, interruptions, job_mtbf_seconds, young_interval_seconds
from gpuplan.formulas.rl import share_of_seconds
from gpuplan.formulas.training import run_seconds, step_tokens
from gpuplan.units import DAY, HOUR, YEAR

from .asked import cache_read, term
from .bounds import chips_of, read_seconds, seconds_at, solved
from .shapes import ELEMENT_BYTES
from .work import Answers, Inputs, free_beside_weights, full_recompute_flop, kv_of, sequences_in

GB = 1e9


def _read_weights(i: Inputs) -> Any:
    element = i.bytes if hasattr(i, "bytes") else ELEMENT_BYTES[i.dtype]
    return read_seconds(i, state_bytes(params=i.params, bytes_per_param=element, shards=1))


def _kv_and_weights(i: Inputs) -> Any:
    weights = i.weights_gb * GB if hasattr(i, "weights_gb") else state_bytes(
        params=i.params, bytes_per_param=i.bytes_per_param, shards=1
    )  # fmt: skip
    if hasattr(i, "kv_gb_per_seq"):
        return weights + repeated_bytes(count=i.batch, size=i.kv_gb_per_seq * GB)
    return weights + cache_read(i.model, i.hardware, i.chips, i.kv_dtype, i.context, i.batch)


def _decode(i: Inputs) -> Any:
    return read_seconds(i, _kv_and_weights(i))


def _decode_compute(i: Inputs) -> Any:
    return seconds_at(i, forward_flop(params=i.params, tokens=i.batch))


def _decode_rate(i: Inputs) -> Any:
    return rate(count=i.batch, seconds=_decode(i))


def _queries_per_chip(i: Inputs, batch: Any) -> Any:
    answered = repeated_seconds(count=i.output_tokens, seconds=i.step_ms * 1e-3)
    return share(amount=rate(count=batch, seconds=answered), ways=i.chips)


def _prefill(i: Inputs, share_of_peak: Any) -> Any:
    return seconds_at(i, forward_flop(params=i.params, tokens=i.tokens), share_of_peak)


def _run(i: Inputs, flop: Any, chips: Any) -> Any:
    """Time of a run, from what each chip achieves."""
    return solved(achieved_flop_per_s, "seconds", i.achieved_flop_per_s, flop=flop, chips=chips)


def _step(i: Inputs) -> Any:
    return _run(i, full_recompute_flop(i.params, step_tokens(global_batch=i.global_batch, seq_len=i.seq)), i.gpus)


def _gpt_shape(i: Inputs) -> dict[str, Any]:
    return {"seq_len": i.seq, "layers": i.layers, "hidden": i.d_model, "vocab": i.vocab}


def _trained(i: Inputs, model: str, what: str, *, recompute: str = "none", on: str = "") -> float:
    """FLOP of a step of the question's batch, as `train` counts them."""
    batch = getattr(i, "global_batch", chips_of(i))
    line = f"train {model} --on {chips_of(i)}x{on or i.hardware} --seq-len {i.seq} --global-batch {batch} --recompute {recompute}"
    return term(line, what)


def _gpt_mfu(i: Inputs, model: str) -> Any:
    flop = _trained(i, f"{model} --tp 8 --engine megatron-lm", "step.model_flop")
    return mfu(model_flop=flop, seconds=i.seconds, chips=i.gpus, peak_flop_per_s=i.peak_flop_per_s)


def _gain(i: Inputs) -> Any:
    return rate(count=1.0, seconds=i.present_s) / rate(count=1.0, seconds=i.full_s) - 1.0


def _rate_mfu(i: Inputs) -> Any:
    return mfu(model_flop=i.achieved_flop_per_s, seconds=1, chips=1, peak_flop_per_s=i.peak_flop_per_s)


def _model_mfu(i: Inputs, model: str, on: str = "") -> Any:
    """MFU at a measured rate of tokens, with the FLOP of a token as `train` counts them."""
    flop = _trained(i, model, "step.model_flop", on=on) / _trained(i, model, "step.all_tokens", on=on)
    return mfu(model_flop=flop * i.tokens_per_s, seconds=1, chips=chips_of(i), peak_flop_per_s=i.peak_flop_per_s)


def _token_hfu(i: Inputs) -> Any:
    """HFU as the source has it: forward, backward and a second forward of everything, the output head too."""
    attention = attention_training_flop_per_token(layers=i.layers, heads=1, head_dim=i.d_model, seq_len=i.seq)
    done = full_recompute_flop(i.params, 1) + attention * 4 / 3
    return hfu(hardware_flop=done * i.tokens_per_s, seconds=1, chips=chips_of(i), peak_flop_per_s=i.peak_flop_per_s)


def _hours(i: Inputs) -> Any:
    return sum(accelerator_seconds(chips=1, seconds=h * HOUR) for h in i.hours)


def _tokens_per_gpu(i: Inputs) -> Any:
    return share(amount=step_tokens(global_batch=i.global_batch, seq_len=i.seq), ways=i.gpus)


def _run_cost(i: Inputs) -> Any:
    return run_usd(chips=i.gpus, seconds=i.days * DAY, price=i.price_per_hour / HOUR)


TRAINING_TIME: Answers = {
    "sb-tf-q7": lambda i: mfu(
        model_flop=six_nd_flop(params=i.active_params, tokens=i.tokens),
        seconds=i.gpu_hours * HOUR,
        chips=1,
        peak_flop_per_s=i.peak_flop_per_s,
    ),
    "sb-at-435": lambda i: seconds_at(i, i.flop, i.mfu),
    "sb-at-1752": lambda i: solved(
        accelerator_seconds, "seconds", accelerator_seconds(chips=i.chips_from, seconds=i.days * DAY), chips=i.chips_to
    ),
    "sb-gpu-40d": lambda i: seconds_at(i, six_nd_flop(params=i.params, tokens=i.tokens), i.mfu),
    "sb-gpu-q3": _tokens_per_gpu,
    "sb-gpu-ds": _tokens_per_gpu,
    "mle-hfu": lambda i: hfu(hardware_flop=i.achieved_flop_per_s, seconds=1, chips=1, peak_flop_per_s=i.peak_flop_per_s),
    "mle-042": _step,
    "mle-idf-comp": _step,
    "mle-idf-90": _step,
    "kor-mfu-k175": lambda i: _gpt_mfu(i, "gpt-3-175b"),
    "kor-mfu-k530": lambda i: _gpt_mfu(i, "megatron-gpt-530b"),
    "kor-inc-k22": _gain,
    "kor-inc-k530": _gain,
    "kor-inc-k1t": _gain,
    "kor-hfu": lambda i: (
        i.mfu * gpt_selective_recompute_flop(global_batch=1, **_gpt_shape(i)) / gpt_model_flop(global_batch=1, **_gpt_shape(i))
    ),
    "nar-84": lambda i: _run(i, full_recompute_flop(i.params, i.tokens), i.gpus),
    "mtnlg-113": lambda i: achieved_flop_per_s(
        flop=_trained(i, "megatron-gpt-530b --tp 8 --engine megatron-lm", "step.hardware_flop", recompute="full"),
        seconds=i.seconds,
        chips=i.gpus,
    ),
    "palm-462": lambda i: _model_mfu(i, "palm-540b"),
    "palm-457": lambda i: mfu(
        model_flop=six_nd_flop(params=i.params, tokens=i.tokens_per_s), seconds=1, chips=i.chips, peak_flop_per_s=i.peak_flop_per_s
    ),
    "gpt3-355": lambda i: _run(i, i.flop, 1),
    "gpt3-665": lambda i: _run(i, i.flop, 1),
    "ll1-21": lambda i: run_seconds(tokens=i.tokens, tokens_per_step=i.tokens_per_s_per_gpu * i.gpus, step=1.0),
    "ll2-hours": _hours,
    "ll3-mfu-430": _rate_mfu,
    "ll3-mfu-400": _rate_mfu,
    "ll3-mfu-380": _rate_mfu,
    "ll31-393": _hours,
    "ds3-37": lambda i: solved(accelerator_seconds, "seconds", i.gpu_hours * HOUR, chips=i.gpus),
    "fdy-mfu-30b": lambda i: _model_mfu(i, "mpt-30b"),
    "fdy-hfu-30b": _token_hfu,
    "fdy-mfu-70b": lambda i: _model_mfu(i, "mpt-70b"),
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
    "sb-ai-235": lambda i: share(amount=_decode_rate(i), ways=i.chips),
    "sb-ai-qps-bf16": lambda i: _queries_per_chip(i, i.batch),
    "sb-ai-qps-int8": lambda i: _queries_per_chip(i, i.batch),
    "sb-ai-2x": lambda i: _queries_per_chip(i, sequences_in(free_beside_weights(i), kv_of(i))),
    "sb-ai-091": lambda i: _prefill(i, i.mfu),
    "sb-ai-3": lambda i: prefill_per_decode_servers(
        prefill=i.prefill_s, step=i.step_ms * 1e-3, batch=i.batch, output_tokens=i.output_tokens
    ),
    "kip-22": _read_weights,
    "kip-comm": lambda i: repeated_seconds(count=i.layers * i.exchanges, seconds=i.latency_us * 1e-6),
    "kip-53": _decode_compute,
    "kip-21": _decode_compute,
    "base-39": lambda i: _prefill(i, 1),
    "dbx-50": lambda i: mbu(
        bytes_read=state_bytes(params=i.params, bytes_per_param=i.bytes, shards=1), step=i.tpot_ms * 1e-3, peak_bandwidth=i.hbm_bw
    ),
    "spec-369": lambda i: speculative_tokens(acceptance=i.alpha, draft_tokens=i.gamma),
}

MONEY_AND_FAILURES: Answers = {
    "sb-tpu-q2-hosts": lambda i: share(amount=i.chips, ways=i.chips_per_host),
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
    "mle-ck-5x": lambda i: share_of_seconds(part=i.save_s, whole=i.interval_h * HOUR),
    "mle-ck-tb": lambda i: checkpoint_count(seconds=DAY, interval=i.interval_h * HOUR) * i.ckpt_tb * 1e12,
    "rely-18": lambda i: job_mtbf_seconds(
        part_mtbf=solved(interruptions, "mtbf", i.failures_per_1000_node_days, wall=1000 * DAY),
        parts=share(amount=i.gpus, ways=i.gpus_per_node),
    ),
    "young-o": lambda i: lost_fraction(
        save=i.save_s,
        interval=young_interval_seconds(save=i.save_s, mtbf=i.mtbf_h * HOUR),
        mtbf=i.mtbf_h * HOUR,
        restart=0,
    ),
}

PACE = TRAINING_TIME | LATENCY | MONEY_AND_FAILURES
