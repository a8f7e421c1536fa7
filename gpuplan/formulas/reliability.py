"""How much of a long run is lost: failures, checkpoints, and the time that is left for training."""

from __future__ import annotations

from gpuplan.num import Bytes, BytesPerS, Count, Ratio, Seconds, exp, sqrt, where
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
_LLAMA3 = Source("paper", "The Llama 3 Herd of Models", "https://arxiv.org/abs/2407.21783", "section 3.3.4")


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


@formula(DEFINITION)
def interruptions(*, wall: Seconds, mtbf: Seconds) -> Count:
    """Expected interruptions in a time.

    54 days on 16,384 GPUs:

    >>> interruptions(wall=54 * 86400, mtbf=16384 * 54 * 86400 / 419 / 16384)
    419.0
    """
    return wall / mtbf


@formula(DEFINITION)
def checkpoint_bytes(*, params: Count, bytes_per_param: Bytes) -> Bytes:
    """Bytes of a checkpoint with so many bytes a parameter (weights, master weights, moments).

    BLOOM at 14 bytes a parameter, published as 2.3 TB (2**40):

    >>> checkpoint_bytes(params=176247271424, bytes_per_param=14) / 2**40
    2.24
    """
    return params * bytes_per_param


@formula(DEFINITION)
def job_bandwidth(*, part_bandwidth: BytesPerS, parts: Count) -> BytesPerS:
    """What all parts of a job write together.

    >>> job_bandwidth(part_bandwidth=122e6, parts=16384) / 1e12
    2.0
    """
    return part_bandwidth * parts
