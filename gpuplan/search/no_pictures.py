"""Which options mean something for models of pictures and clips alone? Asked of every other model, so little is loaded for it."""

from __future__ import annotations

from gpuplan.errors import Problem, UsageError
from gpuplan.plan.ask_diffusion import PictureAsk
from gpuplan.plan.option import entries, grouped
from gpuplan.plan.read import said as told


def refuse_pictures(ask: PictureAsk) -> None:
    """Refuse options of diffusion models in a question about another model.

    Raises:
        UsageError: all of them together.
    """
    kind = type(ask)
    given = told(ask)
    wrong = [f"{entries(kind)[name].flag} {given[name]}" for name in grouped(kind, "pictures") if getattr(ask, name) is not None]
    if wrong:
        what = f"{', '.join(wrong)}: of models that make pictures or clips, which `{ask.model}` is not known to be"
        raise UsageError(Problem("diffusion.no-model", what, "leave them out, or name a model such as `flux.1-dev`"))
