"""Which options ask for a step of reinforcement learning?"""

from __future__ import annotations

from typing import Annotated, TypeAlias

from typer import Option

from gpuplan.cli.options import Text

RL = "Reinforcement learning (generation, scoring, training in turn)"


def _one(flag: str, metavar: str, meaning: str) -> object:
    return Option(flag, metavar=metavar, rich_help_panel=RL, help=meaning)


Rl: TypeAlias = Annotated[Text, _one("--rl", "METHOD", "ppo or grpo: a step generates responses, scores and trains on them")]
Prompts: TypeAlias = Annotated[Text, _one("--prompts", "N", "Prompts of one step")]
GroupSize: TypeAlias = Annotated[Text, _one("--group-size", "N", "Responses to each prompt")]
PromptLen: TypeAlias = Annotated[Text, _one("--prompt-len", "TOKENS", "Tokens of a prompt")]
ResponseLen: TypeAlias = Annotated[Text, _one("--response-len", "TOKENS", "Tokens of a response, on average")]
ResponseMax: TypeAlias = Annotated[
    Text, _one("--response-max", "TOKENS", "Tokens of the longest response, which the rollout waits for; left out, the mean")
]
PpoEpochs: TypeAlias = Annotated[Text, _one("--ppo-epochs", "N", "How often the responses of a step are trained on (1)")]
RolloutEngine: TypeAlias = Annotated[Text, _one("--rollout-engine", "NAME", "Engine that generates, such as `vllm` or `sglang`")]
RolloutTp: TypeAlias = Annotated[Text, _one("--rollout-tp", "N", "Tensor parallel degree of generation; left out, chosen")]
RewardModel: TypeAlias = Annotated[
    Text, _one("--reward-model", "MODEL", "Model that scores the responses; left out, a rule does, which takes no time")
]
Critic: TypeAlias = Annotated[Text, _one("--critic", "MODEL", "PPO's critic, trained beside the policy; left out, as the policy")]
Idle: TypeAlias = Annotated[
    Text,
    _one("--idle", "WHERE", "Where models wait for their phase: device, or host (they travel); left out, chosen"),
]
