"""Of which models and engines is no load modelled?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuplan.errors import Problem, UsageError

if TYPE_CHECKING:
    from gpuplan.estimate.serving import ServingModel


def refuse_without_steps(model: ServingModel) -> None:
    """Refuse models whose steps under a load are not modelled; errors as `under_load`."""
    if model.subject.arch.two_stacks:
        raise UsageError(
            Problem("load.two-stacks", "no load of an encoder-decoder is modelled", "ask with --batch, without a load")
        )
    refuse_without_schedule(model)
    if model.plan.beams != 1:
        what = "no load of beams is modelled"
        raise UsageError(Problem("load.beams", what, "ask with --batch, or leave --beams out"))
    if model.plan.images is not None and model.plan.images.across:
        what = f"no load of images that layers of attention across see is modelled, as of {model.subject.model_name}"
        raise UsageError(Problem("load.across", what, "ask with --batch, without a load"))
    if model.plan.settings.uses_host:
        what = "no load of a model that is partly in the host's memory is modelled"
        raise UsageError(Problem("load.host", what, "keep all of it on accelerators, or ask with --batch, without a load"))


def refuse_without_schedule(model: ServingModel) -> None:
    """Refuse engines of which nobody knows what they do with a stream of requests.

    Raises:
        UsageError: the engine is one.
    """
    if model.profile.schedule is None:
        what = f"how `{model.subject.engine.id}` schedules a stream of requests is not on record: it serves batches"
        raise UsageError(Problem("load.no-schedule", what, "name an engine that does, such as `vllm`, or leave the load out"))
