"""What a pipeline schedule costs: idle time and micro-batches in flight."""

from __future__ import annotations

from gpuplan.num import Bytes, Count, ceil_div, minimum, where
from gpuplan.term import DEFINITION, Source, formula

_NARAYANAN_TITLE = "Efficient Large-Scale Language Model Training on GPU Clusters"
_NARAYANAN_URL = "https://arxiv.org/abs/2104.04473"
_NARAYANAN = Source("paper", _NARAYANAN_TITLE, _NARAYANAN_URL, "section 2.2.1, Default Schedule")
_KORTHIKANTI = Source(
    "paper", "Reducing Activation Recomputation in Large Transformer Models", "https://arxiv.org/abs/2205.05198", "section 4.2.3"
)
_RUNS = Source(
    "docs", "Megatron-Core: model_parallel_config.py, microbatch_group_size_per_vp_stage",
    "https://github.com/NVIDIA/Megatron-LM/blob/60e039626/megatron/core/model_parallel_config.py",
    "the number of contiguous micro-batches of a virtual stage is pipeline_model_parallel_size unless it is set",
)  # fmt: skip
_ZERO_BUBBLE = Source(
    "paper", "Zero Bubble Pipeline Parallelism", "https://arxiv.org/abs/2401.10241", "section 2, quantitative analyses"
)


@formula(DEFINITION)
def micro_batches(*, global_batch: Count, micro_batch: Count, dp: Count) -> Count:
    """Micro-batches that each data-parallel replica runs in a step.

    >>> micro_batches(global_batch=512, micro_batch=1, dp=1)
    512.0
    """
    return ceil_div(global_batch, micro_batch * dp)


@formula(_NARAYANAN)
def in_flight_1f1b(*, pp: Count, stage: Count, micro_batches: Count) -> Count:
    """Micro-batches whose activations stage `stage` (0 is the first) holds at once under 1F1B.

    >>> in_flight_1f1b(pp=8, stage=0, micro_batches=64), in_flight_1f1b(pp=8, stage=7, micro_batches=64)
    (8, 1)
    """
    return minimum(pp - stage, micro_batches)


@formula(Source("paper", "GPipe: Easy Scaling with Micro-Batch Pipeline Parallelism", "https://arxiv.org/abs/1811.06965", "2.3"))
def in_flight_gpipe(*, micro_batches: Count) -> Count:
    """Micro-batches whose activations every stage holds when all forward passes run first: all of them.

    >>> in_flight_gpipe(micro_batches=32)
    32
    """
    return micro_batches


@formula(_RUNS)
def run_length(*, pp: Count, vpp: Count, micro_batches: Count) -> Count:
    """Micro-batches that pass through a chunk of a stage one after the other: as many as there are stages, one of undivided stages.

    >>> run_length(pp=16, vpp=8, micro_batches=64), run_length(pp=16, vpp=1, micro_batches=64)
    (16, 1.0)
    """
    return where(vpp > 1, minimum(pp, micro_batches), 1.0)


@formula(_RUNS)
def chunk_bytes(*, size: Bytes, vpp: Count) -> Bytes:
    """What one chunk of a stage holds of it while the micro-batches of a run are summed; nothing where stages are undivided.

    >>> chunk_bytes(size=16e9, vpp=8), chunk_bytes(size=16e9, vpp=1)
    (2000000000.0, 0.0)
    """
    return where(vpp > 1, size / vpp, 0.0 * size)


@formula(_ZERO_BUBBLE)
def in_flight_zb_h1(*, pp: Count, micro_batches: Count) -> Count:
    """Micro-batches' worth of activations of any stage under ZB-H1, which puts weight gradients off: as the first of 1F1B at most.

    >>> in_flight_zb_h1(pp=8, micro_batches=64)
    8
    """
    return minimum(pp, micro_batches)


@formula(_ZERO_BUBBLE)
def in_flight_zb_h2(*, pp: Count, micro_batches: Count) -> Count:
    """The same under ZB-H2, which fills the whole bubble: 2·p - 1.

    >>> in_flight_zb_h2(pp=8, micro_batches=64)
    15
    """
    return minimum(2 * pp - 1, micro_batches)


@formula(
    Source("paper", "DeepSeek-V3 Technical Report", "https://arxiv.org/abs/2412.19437", "table 2: DualPipe, activation PP + 1")
)
def in_flight_dualpipe(*, pp: Count, micro_batches: Count) -> Count:
    """Micro-batches' worth of activations that every rank of DualPipe holds: p + 1.

    >>> in_flight_dualpipe(pp=16, micro_batches=64)
    17
    """
    return minimum(pp + 1, micro_batches)


@formula(_KORTHIKANTI)
def in_flight_interleaved(*, pp: Count, stage: Count, micro_batches: Count, vpp: Count) -> Count:
    """Micro-batches' worth of a stage's activations held at once under interleaved 1F1B; a chunk is 1/v of a micro-batch.

    The warm-up runs (v - 1)·p + 2·(p - stage - 1) chunks before the first backward, and one more is in work.
    On the first stage that is p + p/v - 1/v micro-batches, p·(1 + (p - 1)/(p·v)) as in the source.

    >>> in_flight_interleaved(pp=8, stage=0, micro_batches=64, vpp=3) / 8
    1.2917
    """
    return minimum(((vpp - 1) * pp + 2 * (pp - stage - 1) + 1) / vpp, micro_batches)
