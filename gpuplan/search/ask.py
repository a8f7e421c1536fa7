"""The three questions, answered: the one entry that every command and the Python API call."""

from __future__ import annotations

from gpuplan.estimate.result import Estimate
from gpuplan.plan.ask import FitAsk, ServeAsk, TrainAsk


def fit(ask: FitAsk) -> Estimate:
    """Does it fit, and what binds? Errors as `serve` and `train`."""
    if ask.task == "train":
        from dataclasses import fields

        common = {one.name: getattr(ask, one.name) for one in fields(TrainAsk) if hasattr(ask, one.name)}
        return train(TrainAsk(**common | {"seq_len": ask.context, "global_batch": ask.batch}))
    from gpuplan.search.serving import answer_fit

    return answer_fit(ask)


def train(ask: TrainAsk) -> Estimate:
    """How fast, how long, how dear is a training run?

    Raises:
        GpuplanError: what is wrong with the question or unknown to the data.
    """
    from gpuplan.search.training import answer_training

    return answer_training(ask)


def serve(ask: ServeAsk) -> Estimate:
    """How fast is serving, how many sequences fit, and what does a token cost?

    Raises:
        GpuplanError: what is wrong with the question or unknown to the data.
    """
    from gpuplan.search.serving import answer_serving

    return answer_serving(ask)
