"""How much of a long run is lost: failures, checkpoints, and the time that is left for training."""

from __future__ import annotations

from gpuplan.num import Bytes, BytesPerS, Count, Flop, FlopPerS, PerS, Ratio, Seconds, exp, floor, sqrt, where
from gpuplan.term import DEFINITION, Source, formula

_RELIABILITY = Source(
    "paper",
    "Revisiting Reliability in Large-Scale Machine Learning Research Clusters",
    "https://arxiv.org/abs/2410.21680",
    "mean time to failure by job size",
)
_YOUNG = Source(
    "paper", "A first order approximation to the optimum checkpoint interval", "https://doi.org/10.1145/361147.361115", "p. 531"
)
_DALY = Source(
    "paper",
    "A higher order estimate of the optimum checkpoint interval for restart dumps",
    "https://doi.org/10.1016/j.future.2004.11.016",
    "equation 37",
)
_DALY_WALL = Source(
    "paper",
    "A higher order estimate of the optimum checkpoint interval for restart dumps",
    "https://doi.org/10.1016/j.future.2004.11.016",
    "equation 20: total wall-clock time",
)
_NARAYANAN = Source(
    "paper",
    "Efficient Large-Scale Language Model Training on GPU Clusters",
    "https://arxiv.org/abs/2104.04473",
    "section 5.1, equation 4",
)
_LLAMA3 = Source("paper", "The Llama 3 Herd of Models", "https://arxiv.org/abs/2407.21783", "section 3.3.4")


@formula(_RELIABILITY)
def mtbf_seconds(*, failures_per_s: PerS, parts: Count) -> Seconds:
    """Mean time between failures of a job, from the failure rate of one part (a node, a chip) and their number.

    6.50 failures for 1000 node-days and 2048 nodes, published as 1.8 h:

    >>> mtbf_seconds(failures_per_s=6.5 / (1000 * 86400), parts=2048) / 3600
    1.80
    """
    return 1 / (failures_per_s * parts)


@formula(_LLAMA3)
def failure_rate(*, failures: Count, parts: Count, seconds: Seconds) -> PerS:
    """Failures of one part a second, from those seen among many parts over some time.

    419 unexpected interruptions in 54 days on 16,384 GPUs, in failures for 1000 GPU-days:

    >>> failure_rate(failures=419, parts=16384, seconds=54 * 86400) * 1000 * 86400
    0.474
    """
    return failures / (parts * seconds)


@formula(_YOUNG)
def young_interval_seconds(*, save: Seconds, mtbf: Seconds) -> Seconds:
    """Best time between checkpoints to first order: the root of twice the save time times the time between failures.

    >>> young_interval_seconds(save=40, mtbf=3.1 * 3600)
    944.9
    """
    return sqrt(2 * save * mtbf)


@formula(_DALY)
def daly_interval_seconds(*, save: Seconds, mtbf: Seconds) -> Seconds:
    """Best time between checkpoints to higher order; the time between failures itself where saving takes twice as long or longer.

    >>> daly_interval_seconds(save=40, mtbf=3.1 * 3600)
    918.4
    """
    return where(
        save < 2 * mtbf,
        young_interval_seconds(save=save, mtbf=mtbf) * (1 + sqrt(save / (2 * mtbf)) / 3 + save / (18 * mtbf)) - save,
        mtbf,
    )


@formula(_YOUNG)
def lost_fraction(*, save: Seconds, interval: Seconds, mtbf: Seconds, restart: Seconds) -> Ratio:
    """Share of the time lost: saving, and for each failure half an interval of work and the restart.

    >>> lost_fraction(save=40, interval=944.9, mtbf=3.1 * 3600, restart=0)
    0.0847
    """
    return save / interval + (interval / 2 + restart) / mtbf


@formula(_RELIABILITY)
def job_mtbf_seconds(*, part_mtbf: Seconds, parts: Count) -> Seconds:
    """Mean time between interruptions of a job on so many parts, any one of which stops all.

    >>> job_mtbf_seconds(part_mtbf=16384 * 54 * 86400 / 419, parts=16384) / 3600
    3.09
    """
    return part_mtbf / parts


@formula(_DALY_WALL)
def daly_wall_seconds(*, training: Seconds, save: Seconds, interval: Seconds, mtbf: Seconds, restart: Seconds) -> Seconds:
    """Expected wall-clock time of a run under random interruptions: saving, lost work and restarts, which may fail as well.

    Interruptions come at random (exponential gaps); each costs the work since the last checkpoint and a restart.

    >>> daly_wall_seconds(training=90 * 86400, save=40, interval=944.9, mtbf=3.1 * 3600, restart=0) / 86400
    98.07
    >>> daly_wall_seconds(training=1e6, save=0, interval=1e3, mtbf=1e12, restart=600)
    1000000.0
    """
    return mtbf * exp(restart / mtbf) * (exp((interval + save) / mtbf) - 1) * training / interval


@formula(_LLAMA3)
def effective_share(*, training: Seconds, wall: Seconds) -> Ratio:
    """Share of the wall-clock time that is useful training, as Llama 3 counts its effective training time.

    >>> effective_share(training=90.0, wall=100.0)
    0.9
    """
    return training / wall


@formula(_LLAMA3)
def interruptions(*, wall: Seconds, mtbf: Seconds) -> Count:
    """Expected interruptions in a time.

    54 days on 16,384 GPUs:

    >>> interruptions(wall=54 * 86400, mtbf=16384 * 54 * 86400 / 419 / 16384)
    419.0
    """
    return wall / mtbf


@formula(_LLAMA3)
def effective_training_fraction(*, lost_fraction: Ratio) -> Ratio:
    """Share of the wall-clock time that is left for training.

    >>> effective_training_fraction(lost_fraction=0.1)
    0.9
    """
    return 1 - lost_fraction


@formula(_LLAMA3)
def wall_clock_seconds(*, training: Seconds, lost_fraction: Ratio) -> Seconds:
    """Wall-clock time of a run whose training alone takes so long.

    >>> wall_clock_seconds(training=90.0, lost_fraction=0.1)
    100.0
    """
    return training / (1 - lost_fraction)


@formula(_NARAYANAN)
def flop_run_seconds(*, flop: Flop, chips: Count, achieved_flop_per_s: FlopPerS) -> Seconds:
    """Training time from the FLOP of the run and what each chip achieves.

    1.008T parameters, 450B tokens, full recomputation, 3072 A100 at 163 TFLOP/s, published as 84 days:

    >>> flop_run_seconds(flop=8 * 1.008e12 * 450e9, chips=3072, achieved_flop_per_s=163e12) / 86400
    83.88
    """
    return flop / (chips * achieved_flop_per_s)


@formula(DEFINITION)
def tokens_seconds(*, tokens: Count, tokens_per_s: PerS, chips: Count) -> Seconds:
    """Training time from the tokens of the run and what each chip trains a second.

    LLaMA 65B, 1.4T tokens at 380 a GPU on 2048 A100, published as 21 days:

    >>> tokens_seconds(tokens=1.4e12, tokens_per_s=380, chips=2048) / 86400
    20.8
    """
    return tokens / (tokens_per_s * chips)


@formula(DEFINITION)
def checkpoint_bytes(*, params: Count, bytes_per_param: Bytes) -> Bytes:
    """Bytes of a checkpoint with so many bytes a parameter (weights, master weights, moments).

    BLOOM at 14 bytes a parameter, published as 2.3 TB (2**40):

    >>> checkpoint_bytes(params=176247271424, bytes_per_param=14) / 2**40
    2.24
    """
    return params * bytes_per_param


@formula(DEFINITION)
def checkpoint_seconds(*, size: Bytes, bandwidth: BytesPerS) -> Seconds:
    """Time to write or read a checkpoint at the bandwidth of the storage.

    >>> checkpoint_seconds(size=2.3e12, bandwidth=57.5e9)
    40.0
    """
    return size / bandwidth


@formula(DEFINITION)
def job_bandwidth(*, part_bandwidth: BytesPerS, parts: Count) -> BytesPerS:
    """What all parts of a job write together.

    >>> job_bandwidth(part_bandwidth=122e6, parts=16384) / 1e12
    2.0
    """
    return part_bandwidth * parts


@formula(DEFINITION)
def checkpoint_count(*, seconds: Seconds, interval: Seconds) -> Count:
    """Checkpoints written in a time.

    One every three hours for 90 days, published as 720:

    >>> checkpoint_count(seconds=90 * 86400, interval=3 * 3600)
    720.0
    """
    return floor(seconds / interval)


@formula(DEFINITION)
def saving_fraction(*, save: Seconds, interval: Seconds) -> Ratio:
    """Share of the time spent on saving when training waits for it.

    >>> saving_fraction(save=200, interval=3 * 3600)
    0.0185
    """
    return save / interval
