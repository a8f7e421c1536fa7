"""How a step of reinforcement learning composes: responses, their generation with a tail, and what moves between phases."""

from __future__ import annotations

from gpuplan.num import Bytes, BytesPerS, Count, Ratio, Seconds, ceil_div, maximum, minimum
from gpuplan.term import DEFINITION, Source, formula

_GRPO = Source(
    "paper",
    "DeepSeekMath: Pushing the Limits of Mathematical Reasoning in Open Language Models",
    "https://arxiv.org/abs/2402.03300",
    "4.1.1: a group of outputs is sampled for each question",
)
_HYBRID = Source(
    "paper",
    "HybridFlow: A Flexible and Efficient RLHF Framework",
    "https://arxiv.org/abs/2409.19256",
    "5.3: weights are gathered within the training ranks that one generation rank stands for",
)
_PREFIX = Source(
    "paper",
    "SGLang: Efficient Execution of Structured Language Model Programs",
    "https://arxiv.org/abs/2312.07104",
    "3: sequences with the same beginning share its cache",
)

_ASYNC = Source(
    "docs",
    "verl: One Step Off Policy Async Trainer",
    "https://verl.readthedocs.io/en/latest/advance/one_step_off.html",
    "step = waiting for the previous generation + old log-probabilities + update of the actor",
    "2026-11-23",
)
_LEAD = Source(
    "docs",
    "NeMo RL: Train with Async GRPO",
    "https://github.com/NVIDIA-NeMo/RL/blob/7ea279abfbeb698b092856d0dab61e7cf39bc909/docs/guides/async-grpo.md",
    "Weight Version Tracking; trajectory_collector.py: prompts of as many steps ahead as a trajectory may be old run at once",
    "2026-11-30",
)
_STALE = Source(
    "paper",
    "AReaL: A Large-Scale Asynchronous Reinforcement Learning System for Language Reasoning",
    "https://arxiv.org/abs/2505.24298",
    "5.1: no batch is begun more than the permitted staleness before the step that trains on it",
)


@formula(_GRPO)
def responses(*, prompts: Count, group: Count) -> Count:
    """Responses of one step: a group of them for each prompt.

    >>> responses(prompts=128, group=8)
    1024
    """
    return prompts * group


@formula(DEFINITION)
def replica_share(*, amount: Count, replicas: Count) -> Count:
    """What the fullest rollout replica has of prompts or responses.

    >>> replica_share(amount=1024, replicas=3)
    342.0
    """
    return ceil_div(amount, replicas)


@formula(_LEAD)
def responses_in_flight(*, waiting: Count, batches: Count) -> Count:
    """Responses that a replica may have begun at once: those of as many batches as may be on the way, of each its share.

    >>> responses_in_flight(waiting=64, batches=1), responses_in_flight(waiting=64, batches=8)
    (64, 512)
    """
    return waiting * batches


@formula(DEFINITION)
def running_sequences(*, waiting: Count, room: Count, limit: Count) -> Count:
    """Sequences that a replica generates at once: all that wait, as far as cache and engine allow; never less than one.

    >>> running_sequences(waiting=256, room=180.0, limit=1024)
    180.0
    """
    return maximum(minimum(minimum(waiting, room), limit), 1.0)


@formula(DEFINITION)
def waves(*, waiting: Count, running: Count) -> Count:
    """How often the places of a replica are filled, at least once: a place takes the next response as soon as it is free.

    >>> waves(waiting=256, running=128), waves(waiting=64, running=128)
    (2.0, 1.0)
    """
    return maximum(waiting / running, 1.0)


@formula(_LEAD)
def waves_of_batch(*, waiting: Count, running: Count) -> Count:
    """The part of the places that one batch takes where others run beside it, in waves: its places are taken by the next one.

    >>> waves_of_batch(waiting=64, running=512), waves_of_batch(waiting=256, running=128)
    (0.125, 2.0)
    """
    return waiting / running


@formula(DEFINITION)
def full_decode_seconds(*, waves: Count, mean: Count, step: Seconds) -> Seconds:
    """Decode time in which all places of a replica are taken: as many steps as responses have tokens on average, a wave.

    >>> full_decode_seconds(waves=2.0, mean=500, step=0.02)
    20.0
    """
    return waves * mean * step


@formula(DEFINITION)
def tail_seconds(*, longest: Count, mean: Count, alone: Seconds) -> Seconds:
    """Decode time that the longest response adds.

    A decode step takes `alone` and a part for every sequence that is running. The parts add up to the same whatever the
    lengths (they follow the tokens), and `alone` is paid once for every step until the longest response ends. So beside
    full steps over the mean, `alone` is paid for the steps between mean and longest.

    >>> tail_seconds(longest=4096, mean=1096, alone=0.01)
    30.0
    """
    return maximum(longest - mean, 0.0) * alone


@formula(_LEAD)
def tail_of_batch_seconds(*, waves: Count, mean: Count, longest: Count, step: Seconds) -> Seconds:
    """What the longest response of a batch takes beyond the batch's part of the decode steps, while others run beside it.

    >>> [tail_of_batch_seconds(waves=waves, mean=1000, longest=4000, step=0.02) for waves in (0.5, 4.0)]
    [70.0, 0.0]
    """
    return maximum(longest - waves * mean, 0.0) * step


@formula(DEFINITION)
def decode_steps(*, waves: Count, mean: Count, longest: Count) -> Count:
    """Decode steps of a replica: those in which all places are taken, and those until the longest response ends.

    >>> decode_steps(waves=2.0, mean=500, longest=800)
    1300.0
    """
    return waves * mean + maximum(longest - mean, 0.0)


@formula(DEFINITION)
def moved_seconds(*, size: Bytes, bandwidth: BytesPerS) -> Seconds:
    """Time in which bytes are taken over.

    >>> moved_seconds(size=16e9, bandwidth=4e9)
    4.0
    """
    return size / bandwidth


@formula(_PREFIX)
def shared_cache_bytes(*, whole: Bytes, prompt: Bytes, group: Count) -> Bytes:
    """Cache of one sequence where the responses of a group share that of their prompt.

    >>> shared_cache_bytes(whole=100, prompt=40, group=8)
    65.0
    """
    return whole - prompt + prompt / group


@formula(DEFINITION)
def updates(*, responses: Count, epochs: Count, batch: Count) -> Count:
    """Optimizer steps of one step of reinforcement learning.

    >>> updates(responses=2048, epochs=1, batch=512)
    4.0
    """
    return responses * epochs / batch


@formula(_HYBRID)
def gather_ranks(*, cut: Count, tp: Count) -> Count:
    """Ranks over which weights are gathered for generation: what training cuts finer than generation does.

    >>> gather_ranks(cut=16, tp=2), gather_ranks(cut=1, tp=2)
    (8.0, 1.0)
    """
    return maximum(cut / tp, 1.0)


@formula(DEFINITION)
def share_of_seconds(*, part: Seconds, whole: Seconds) -> Ratio:
    """The share of a time.

    >>> share_of_seconds(part=3.0, whole=4.0)
    0.75
    """
    return part / whole


@formula(_ASYNC)
def waited_seconds(*, generating: Seconds, training: Seconds) -> Seconds:
    """What trainers wait in a step for responses that others generate meanwhile.

    >>> waited_seconds(generating=501.0, training=467.0), waited_seconds(generating=100.0, training=467.0)
    (34.0, 0.0)
    """
    return maximum(generating - training, 0.0)


@formula(_STALE)
def pace_of_generators(*, busy: Seconds, whole: Seconds, staleness: Count) -> Seconds:
    """Time between two batches of responses from generators that may be some steps ahead.

    `busy` is the time in which all their places are taken, `whole` that until the longest response of a batch has ended: with more
    than one batch on the way only the first sets the pace, and the second is as many steps as may be between the policy that began
    a response and the one that trains on it.

    >>> pace_of_generators(busy=60.0, whole=100.0, staleness=1), pace_of_generators(busy=60.0, whole=100.0, staleness=4)
    (100.0, 60.0)
    """
    return maximum(busy, whole / staleness)


@formula(DEFINITION)
def idle_share(*, busy: Seconds, whole: Seconds) -> Ratio:
    """The share of a step in which accelerators wait.

    >>> idle_share(busy=3.0, whole=4.0)
    0.25
    """
    return maximum(1.0 - busy / whole, 0.0)
