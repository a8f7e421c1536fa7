"""What a step of reinforcement learning is: prompts and groups of responses, the models that take part, and the rules."""

from __future__ import annotations

from collections.abc import Iterator

from gpuplan.errors import Problem
from gpuplan.plan.parallelism import Rule
from gpuplan.plan.serve import ServePlan
from gpuplan.plan.train import TrainPlan
from gpuplan.plan.words import Idle, RlMethod
from gpuplan.record import Record

PADDED = 64
"""Sequences are padded to a multiple of this before they are packed, as in NeMo RL's recipes (`sequence_length_round`)."""


class RlPlan(Record, kw_only=True):
    """A complete plan of PPO or GRPO: all models on the same accelerators, one phase after the other, or generators apart.

    With `generators`, so many of the accelerators generate and do nothing else, while the rest score and train; responses may be of
    a policy that is `staleness` steps older than the one that trains on them.
    `prompts` prompts a step have `group` responses each, of `response` tokens on average and `longest` at most. `policy` trains
    on them in batches of `policy.global_batch`, `epochs` times; `rollout` generates them (its batch is chosen by the estimate).
    """

    method: RlMethod
    prompts: int
    group: int
    prompt: int
    response: int
    longest: int
    epochs: int
    policy: TrainPlan
    rollout: ServePlan
    reference: bool
    reward: TrainPlan | None = None
    """How the reward model is divided; None: a rule gives the reward."""
    critic: TrainPlan | None = None
    idle: Idle = "device"
    generators: int = 0
    staleness: int = 0

    @property
    def responses(self) -> int:
        """Responses of one step."""
        return self.prompts * self.group


def rl_rules(plan: RlPlan) -> Iterator[Rule]:
    """What a step of reinforcement learning must keep beyond the rules of its training and serving plans."""
    all_of_them, batch = plan.responses, plan.policy.global_batch
    yield Rule(
        all_of_them % batch == 0,
        lambda: Problem(
            "rl.batch",
            f"global batch {batch:g} does not divide the {all_of_them} responses of a step ({plan.prompts} prompts x {plan.group})",
            f"use a global batch of {all_of_them}, or a part of it",
        ),
    )
    yield Rule(
        plan.longest >= plan.response,
        lambda: Problem(
            "rl.longest",
            f"the longest response, {plan.longest} tokens, is shorter than the mean of {plan.response}",
            f"use --response-max {plan.response} or more",
        ),
    )
    yield Rule(
        plan.method != "grpo" or plan.group > 1,
        lambda: Problem(
            "rl.group",
            "GRPO compares the responses of a group, and a group of one has nothing to compare",
            "use --group-size 2 or more",
        ),
    )


__all__ = ["PADDED", "RlPlan", "rl_rules"]
