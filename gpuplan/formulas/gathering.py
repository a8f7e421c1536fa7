"""How long do new requests wait so that their prompts are read together?"""

from __future__ import annotations

from gpuplan.num import Count, Ratio, floor, log2, maximum, minimum
from gpuplan.term import DEFINITION, Source, formula

_WAIT = Source(
    "docs", "TensorRT-LLM: LLM API reference", "https://nvidia.github.io/TensorRT-LLM/llm-api/reference.html",
    "TorchLlmArgs: batch_wait_timeout_iters, batch_wait_max_tokens_ratio: requests wait for others until they are so many tokens",
)  # fmt: skip
_BALANCE = Source(
    "docs", "TensorRT-LLM: AttentionDpConfig", "https://nvidia.github.io/TensorRT-LLM/llm-api/reference/AttentionDpConfig.html",
    "enable_balance, timeout_iters: prompts wait until every rank of attention has one",
)  # fmt: skip
_LOOK = Source(
    "docs", "SGLang: server arguments", "https://docs.sglang.io/advanced_features/server_arguments.html",
    "scheduler-recv-interval: how seldom the scheduler looks at new requests, for more throughput",
)  # fmt: skip


@formula(_WAIT)
def others_of_pass(*, tokens: Count, prompt: Count) -> Count:
    """Whole prompts that a pass of so many tokens has room for beside a first one.

    >>> others_of_pass(tokens=16384, prompt=1024), others_of_pass(tokens=1024, prompt=8192)
    (15.0, 0.0)
    """
    return maximum(floor(tokens / prompt) - 1, 0.0)


@formula(_BALANCE)
def others_of_ranks(*, ranks: Count) -> Count:
    """Requests after a first one until each rank has one, where each comes to any of them: ranks·H(ranks) - 1 in the mean.

    >>> round(others_of_ranks(ranks=1), 1), round(others_of_ranks(ranks=8), 1)
    (0.1, 20.8)
    """
    return ranks * (0.5772 + 0.693147 * log2(ranks)) + 0.5 - 1


@formula(DEFINITION)
def come_a_step(*, running: Count, ranks: Count, tokens: Ratio, output: Count) -> Ratio:
    """Requests that come in a step: as many as end, of which each makes so many `tokens` of its output in a step.

    >>> come_a_step(running=16, ranks=8, tokens=1, output=1024)
    0.125
    """
    return running * ranks * tokens / output


@formula(_WAIT)
def gathering_steps(*, most: Count, others: Count, each: Ratio) -> Count:
    """Steps from the first of the requests that are read together to their pass, where `each` step brings that many.

    >>> gathering_steps(most=20, others=15, each=0.1), gathering_steps(most=20, others=15, each=3)
    (20, 5.0)
    """
    return minimum(most, others / maximum(each, 1e-9))


@formula(DEFINITION)
def gathered_wait(*, steps: Count, each: Ratio) -> Count:
    """Steps that such a request waits in the mean: the first all of them, the others half.

    >>> gathered_wait(steps=20, each=0), gathered_wait(steps=20, each=0.05)
    (20.0, 15.0)
    """
    return steps * (1 + each * steps / 2) / (1 + each * steps)


@formula(DEFINITION)
def gathered(*, steps: Count, each: Ratio, ranks: Count) -> Count:
    """Requests that are taken up together on a rank, after as many steps from the first of them.

    >>> gathered(steps=20, each=0.05, ranks=1), gathered(steps=20, each=0.05, ranks=8)
    (2.0, 1.0)
    """
    return maximum((1 + steps * each) / ranks, 1.0)


@formula(_LOOK)
def looked_at(*, steps: Count, each: Ratio) -> Count:
    """Requests that are taken up together where the engine looks at new ones after as many steps.

    >>> looked_at(steps=30, each=0.1), looked_at(steps=30, each=0.01)
    (3.0, 1.0)
    """
    return maximum(steps * each, 1.0)


@formula(DEFINITION)
def of_pass(*, come: Count, others: Count) -> Count:
    """Those of them whose prompts are read in one pass, which has room for some `others` beside one.

    >>> of_pass(come=3.0, others=15.0), of_pass(come=3.0, others=0.0)
    (3.0, 1.0)
    """
    return minimum(come, others + 1)
