"""What a pipeline schedule costs: idle time and micro-batches in flight."""

from __future__ import annotations

from gpuplan.num import Bytes, Count, Ratio, Seconds, ceil_div, minimum
from gpuplan.term import DEFINITION, Source, formula

_NARAYANAN_TITLE = "Efficient Large-Scale Language Model Training on GPU Clusters"
_NARAYANAN_URL = "https://arxiv.org/abs/2104.04473"
_NARAYANAN = Source("paper", _NARAYANAN_TITLE, _NARAYANAN_URL, "section 2.2.1, Default Schedule")
_INTERLEAVED = Source("paper", _NARAYANAN_TITLE, _NARAYANAN_URL, "section 2.2.2, Schedule with Interleaved Stages")
_KORTHIKANTI = Source(
    "paper", "Reducing Activation Recomputation in Large Transformer Models", "https://arxiv.org/abs/2205.05198", "section 4.2.3"
)
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
def bubble_overhead(*, pp: Count, micro_batches: Count) -> Ratio:
    """Idle time over ideal time of GPipe and of 1F1B: (p - 1)/m.

    >>> bubble_overhead(pp=8, micro_batches=64)
    0.109375
    """
    return (pp - 1) / micro_batches


@formula(_INTERLEAVED)
def interleaved_bubble_overhead(*, pp: Count, micro_batches: Count, vpp: Count) -> Ratio:
    """Idle time over ideal time of interleaved 1F1B with `vpp` chunks on each stage: (p - 1)/(v·m).

    >>> interleaved_bubble_overhead(pp=8, micro_batches=64, vpp=2)
    0.0546875
    """
    return (pp - 1) / (vpp * micro_batches)


@formula(_NARAYANAN)
def bubble_fraction(*, bubble_overhead: Ratio) -> Ratio:
    """Share of the whole step that is idle, from idle time over ideal time.

    Eight stages and eight micro-batches idle 7/15 of the step:

    >>> bubble_fraction(bubble_overhead=7 / 8)
    0.46667
    """
    return bubble_overhead / (1 + bubble_overhead)


@formula(_ZERO_BUBBLE)
def zb_h1_bubble_seconds(*, pp: Count, forward_s: Seconds, backward_input_s: Seconds, backward_weight_s: Seconds) -> Seconds:
    """Idle time of a step under the ZB-H1 schedule, with the three passes of one micro-batch on one stage: (p - 1)(F + B - W).

    >>> zb_h1_bubble_seconds(pp=4, forward_s=1.0, backward_input_s=1.0, backward_weight_s=1.0)
    3.0
    """
    return (pp - 1) * (forward_s + backward_input_s - backward_weight_s)


@formula(_ZERO_BUBBLE)
def one_f_one_b_bubble_seconds(*, pp: Count, forward_s: Seconds, backward_input_s: Seconds, backward_weight_s: Seconds) -> Seconds:
    """Idle time of a step under 1F1B, with the three passes of one micro-batch on one stage: (p - 1)(F + B + W).

    >>> one_f_one_b_bubble_seconds(pp=4, forward_s=1.0, backward_input_s=1.0, backward_weight_s=1.0)
    9.0
    """
    return (pp - 1) * (forward_s + backward_input_s + backward_weight_s)


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
def interleaved_activation_factor(*, pp: Count, vpp: Count) -> Ratio:
    """First-stage activations of interleaved 1F1B over those of plain 1F1B: 1 + (p - 1)/(p·v).

    >>> interleaved_activation_factor(pp=8, vpp=3)
    1.2917
    """
    return 1 + (pp - 1) / (pp * vpp)


@formula(_KORTHIKANTI)
def in_flight_interleaved(*, pp: Count, stage: Count, micro_batches: Count, vpp: Count) -> Count:
    """Micro-batches' worth of a stage's activations held at once under interleaved 1F1B; a chunk is 1/v of a micro-batch.

    The warm-up runs (v - 1)·p + 2·(p - stage - 1) chunks before the first backward, and one more is in work.
    On the first stage that is p + p/v - 1/v micro-batches, p·(1 + (p - 1)/(p·v)) as in the source.

    >>> in_flight_interleaved(pp=8, stage=0, micro_batches=64, vpp=3) / 8
    1.2917
    """
    return minimum(((vpp - 1) * pp + 2 * (pp - stage - 1) + 1) / vpp, micro_batches)


@formula(Source("paper", _NARAYANAN_TITLE, _NARAYANAN_URL, "section 3.2"))
def stage_transfer_bytes(*, micro_batch: Count, seq_len: Count, hidden: Count, element_bytes: Bytes, shards: Count) -> Bytes:
    """Bytes that cross a stage boundary for each micro-batch and direction; `shards` > 1 when each rank sends a part.

    >>> stage_transfer_bytes(micro_batch=1, seq_len=2048, hidden=12288, element_bytes=2, shards=1) / 1e6
    50.33
    """
    return micro_batch * seq_len * hidden * element_bytes / shards


@formula(_NARAYANAN)
def pipeline_seconds(*, stage_s: Seconds, micro_batches: Count, bubble_overhead: Ratio) -> Seconds:
    """Time of a step's pipeline, from one micro-batch's forward and backward on the slowest stage and the schedule's idle share.

    >>> pipeline_seconds(stage_s=1.0, micro_batches=64, bubble_overhead=0.109375)
    71.0
    """
    return stage_s * micro_batches * (1 + bubble_overhead)
