"""The three questions, answered: the one entry that every command and the Python API call."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeVar

from gpuplan.errors import Problem, UsageError
from gpuplan.estimate.result import Change, Estimate
from gpuplan.plan.ask import RL_FIELDS, SAMPLE_FIELDS, Common, FitAsk, ServeAsk, TrainAsk
from gpuplan.search.library import Library

Question = TypeVar("Question", bound=Common)


def fit(ask: FitAsk) -> Estimate:
    """Does it fit, what binds, and what would change the answer?

    Raises:
        GpuplanError: what is wrong with the question or unknown to the data.
    """
    _only_of_task(ask)
    if ask.task == "train":
        common = {name: getattr(ask, name) for name in TrainAsk.field_names() if hasattr(ask, name)}
        made = train(TrainAsk(**common | {"seq_len": ask.context, "global_batch": ask.batch}), options=_OF_FIT)
        return made.replaced(changes=tuple(_as_fit(one) for one in made.changes))
    from gpuplan.search.serving import answer_fit

    return _advised(ask, answer_fit, "max_sequences")


_OF_FIT = frozenset({"on", "precision", "optimizer", "seq-len", "global-batch", "tp", "pp"})
"""Options of a training question that `fit` has too."""


def train(ask: TrainAsk, *, options: Collection[str] | None = None) -> Estimate:
    """How fast, how long, how dear is a training run? Changes that help are told in `options`; None: in all.

    Raises:
        GpuplanError: what is wrong with the question or unknown to the data.
    """
    if _by_samples(ask):
        from gpuplan.search.samples import answer_samples

        return _advised(ask, answer_samples, "samples_per_s", options)
    if ask.rl is not None:
        from gpuplan.search.rl import answer_rl

        return _advised(ask, answer_rl, "tokens_per_s", options)
    _only_with_rl(ask)
    from gpuplan.search.training import answer_training

    return _advised(ask, answer_training, "tokens_per_s", options)


def _by_samples(ask: TrainAsk) -> bool:
    """Whether the model is given by its samples: described in the question, or of a card of that kind."""
    if any(getattr(ask, name) is not None for name in SAMPLE_FIELDS):
        return True
    from gpuplan.models.catalog import CARDS

    if (CARDS / f"{ask.model.lower()}.yaml").is_file():
        return False
    from gpuplan.models.generic import generic_path
    from gpuplan.specs.catalog import Catalog

    return generic_path(ask.model, [folder / "models" for folder in Catalog.open(ask.specs).folders[1:]]) is not None


def serve(ask: ServeAsk) -> Estimate:
    """How fast is serving, how many sequences fit, and what does a token cost?

    Raises:
        GpuplanError: what is wrong with the question or unknown to the data.
    """
    from gpuplan.search.serving import answer_serving

    return _advised(ask, answer_serving, "tokens_per_s")


def _as_fit(change: Change) -> Change:
    """A change of a training question in the options of `fit`."""
    names = {"seq-len": "context", "global-batch": "batch"}
    return Change({names.get(flag, flag): value for flag, value in change.flags.items()}, change.effect)


def _only_of_task(ask: FitAsk) -> None:
    """Refuse values that belong to the other task, rather than leave them out of the answer.

    Raises:
        UsageError: all of them together.
    """
    other = {"serve": ("precision", "optimizer"), "train": ("weights", "kv_cache")}[ask.task]
    hint = "add --task train" if ask.task == "serve" else "use --precision and --optimizer, or leave --task out"
    wrong = [name.replace("_", "-") for name in other if getattr(ask, name) is not None]
    if wrong:
        raise UsageError(*(Problem("fit.other-task", f"--{name} means nothing to `fit --task {ask.task}`", hint) for name in wrong))


def _only_with_rl(ask: TrainAsk) -> None:
    """Refuse options of reinforcement learning without `--rl`.

    Raises:
        UsageError: all of them together.
    """
    named = [name for name in RL_FIELDS if getattr(ask, name) is not None]
    if named:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in named)
        raise UsageError(
            Problem("rl.no-method", f"{flags}: of reinforcement learning", "add --rl grpo or --rl ppo, or leave it out")
        )


def _advised(
    ask: Question, answer: Callable[[Question, Library], Estimate], figure: str, options: Collection[str] | None = None
) -> Estimate:  # fmt: skip
    """The answer with the three smallest changes that help: towards fitting, or towards more of a figure."""
    from gpuplan.search.changes import better_changes, fitting_changes

    library = Library.of(ask)

    def again(changed: Question) -> Estimate:
        return answer(changed, library)

    made = again(ask)
    changes = (
        better_changes(ask, made, again, figure, options) if made.verdict.fits else fitting_changes(ask, again, options)
    )  # fmt: skip
    return made.replaced(changes=changes)
