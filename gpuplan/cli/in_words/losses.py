"""Which loss does a question train by: preferences beside a frozen reference, or rewards of its own responses?"""

from __future__ import annotations

import re

_LOSS = re.compile(r"\b(?:using |by |via )?(dpo|kto|grpo|ppo)\b")
REWARDED = ("grpo", "ppo")
"""Losses that train on responses which the model makes as it learns (`gpuplan train --rl`)."""


def loss_of(text: str) -> str:
    """The loss that a question names; "" where it names none.

    >>> loss_of("dpo fine-tune llama 3.1 8b"), loss_of("train qwen2.5 7b with grpo"), loss_of("train a 7b")
    ('dpo', 'grpo', '')
    """
    found = _LOSS.search(text)
    return found[1] if found else ""


def without_loss(text: str) -> str:
    """The question without the words of its loss.

    >>> without_loss("train qwen2.5 7b by grpo on 8 h100")
    'train qwen2.5 7b  on 8 h100'
    """
    return _LOSS.sub("", text)


_TRAINS = ("train", "compare train", "plan train", "plan finetune")


def by_loss(command: str, text: str) -> tuple[str, list[str], list[str]]:
    """The command that trains by the loss of a question, with its options, and the words of a loss that a command has none of.

    >>> by_loss("plan train", "grpo on a 7b"), by_loss("train", "dpo of a 7b"), by_loss("fit", "a 7b for dpo")
    (('plan rl', ['--rl', 'grpo'], []), ('train', ['--reference'], []), ('fit', [], ['dpo']))
    """
    loss = loss_of(text)
    if not loss or command not in _TRAINS:
        return command, [], [loss] if loss else []
    if loss not in REWARDED:
        return command, ["--reference"], []
    return "plan rl" if command.startswith("plan") else command, ["--rl", loss], []
