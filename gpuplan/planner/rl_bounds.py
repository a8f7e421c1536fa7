"""What does reinforcement learning take at least on a machine: generation, scoring and training, whoever of them does what?

No plan is below these. Tokens are multiplied at the dense peak at most, or, in training, as fast as the estimator says of one
accelerator that has room for everything and waits for nobody; weights are read once in each decode step of a replica, which holds
no more sequences than its engine allows; and the longest response takes its steps one after the other, each of which reads all
weights over as many ranks as there are heads to share.
"""

from __future__ import annotations

from math import inf

from gpuplan.estimate.subject import Subject
from gpuplan.formulas.flop import forward_flop
from gpuplan.models.card import ModelCard
from gpuplan.plan.ask import TrainAsk
from gpuplan.planner.bounds import fastest, least_work
from gpuplan.planner.where import Chip
from gpuplan.record import Record
from gpuplan.search.rl import Wanted
from gpuplan.search.shape import shape_of

WIDE = ("half", "tf32")
"""Rates at which the rollout engine may multiply: its weights have 16 bits."""
WEIGHT_BYTES = 2.0
"""Of a weight that generates: it is updated in every step, so that nobody quantises it."""


class Least(Record, kw_only=True):
    """What a step takes at least: accelerator-seconds that any number shares, and seconds that none makes shorter."""

    training: float
    """Accelerator-seconds of training and scoring."""
    generating: float
    """Accelerator-seconds of generation."""
    longest: float
    """Seconds of the longest response's own steps, but for weights that are read."""
    reading: float
    """Accelerator-seconds of the weights that are read in the longest response's steps."""
    ranks: float
    """Ranks that may share what is read."""
    residual: float = 1.0
    """By how much whole steps are longer than what is counted."""
    staleness: int = 0

    def step(self, count: int) -> float:
        """Seconds of a step on so many accelerators at least, with or without some that only generate."""
        alone = self.longest + self.reading / min(count, self.ranks)
        work = self.training + self.generating
        if not self.staleness:  # one after the other, on all or on part of them
            return self.residual * (self.training / count + max(self.generating / count, alone))
        return self.residual * max(work / count, alone / self.staleness)


def least_of(
    ask: TrainAsk, wanted: Wanted, card: ModelCard, chip: Chip, rollout: Subject, trained: float
) -> Least:  # fmt: skip
    """The least of a step on an accelerator; `trained` are accelerator-seconds that the estimator says of its training alone.

    With the user's own values of terms nothing is bounded: they may carry an estimate below physics.
    """
    staleness = 1 if ask.staleness is None and ask.rollout_gpus is not None else ask.staleness or 0
    if ask.pins or len(card.architecture.stacks) > 1:
        return Least(training=0.0, generating=0.0, longest=0.0, reading=0.0, ranks=inf, staleness=staleness)
    counts, serving = card.count(), rollout.engine.serving
    used = float(counts.params_active.value) - float(counts.embedding.value)
    responses = wanted.prompts * wanted.group
    tokens = float(responses * (wanted.prompt + wanted.response))
    work = least_work(ask, card, tokens)
    peak = fastest(chip, work)
    scored = float(forward_flop(params=used, tokens=tokens)) * (2 if wanted.reference else 1) / peak
    learned = max(trained, work.flop / peak) * (ask.ppo_epochs or 1)
    written = float(responses * wanted.response + wanted.prompts * wanted.prompt)
    multiplied = float(forward_flop(params=used, tokens=written)) / max(chip.rates[one] for one in WIDE if one in chip.rates)
    loop = None if serving is None else serving.rollout
    most = responses if serving is None else min(float(serving.max_sequences.value), responses)
    read = 0.0 if rollout.has_experts() or not chip.bandwidth else WEIGHT_BYTES * used / chip.bandwidth
    residual = 1.0 if loop is None else float((loop.expert_residual if rollout.has_experts() else loop.residual).value)
    return Least(
        training=learned + scored, generating=max(multiplied, read * responses * wanted.response / most),
        longest=0.0 if loop is None else wanted.longest * float(loop.host.value), reading=wanted.longest * read,
        ranks=float(shape_of(rollout.arch, 1, rollout.engine).heads) or inf, residual=max(residual, 1.0), staleness=staleness,
    )  # fmt: skip
