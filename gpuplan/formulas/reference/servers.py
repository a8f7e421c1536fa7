"""What do speculation, turnover of caches and servers for prefill alone give in the closed forms that were published?"""

from __future__ import annotations

from gpuplan.num import Count, Ratio, Seconds
from gpuplan.term import Source, formula

_BOOK = "https://jax-ml.github.io/scaling-book/"
_SPECULATIVE = Source(
    "paper", "Fast Inference from Transformers via Speculative Decoding", "https://arxiv.org/abs/2211.17192", "equation 1"
)


@formula(_SPECULATIVE)
def speculative_tokens(*, acceptance: Ratio, draft_tokens: Count) -> Count:
    """Tokens expected of one pass of the target model with independent acceptances below 1: (1 - a^(g+1))/(1 - a).

    Acceptance 0.8 and five draft tokens, published as 3.69:

    >>> speculative_tokens(acceptance=0.8, draft_tokens=5)
    3.69
    """
    return (1 - acceptance ** (draft_tokens + 1)) / (1 - acceptance)


@formula(Source("paper", "How to Scale Your Model", f"{_BOOK}applied-inference", "Prefill: eviction and the ratio of servers"))
def kv_turnover_per_step(*, batch: Count, prompt_tokens: Count, output_tokens: Count) -> Count:
    """Cache tokens freed (and filled anew) by each decode step in steady state: each sequence leaves after its output.

    Prefill 8192, decode 4096, batch 32, published as 96:

    >>> kv_turnover_per_step(batch=32, prompt_tokens=8192, output_tokens=4096)
    96.0
    """
    return batch * (prompt_tokens + output_tokens) / output_tokens


@formula(Source("paper", "How to Scale Your Model", f"{_BOOK}applied-inference", "Prefill: eviction and the ratio of servers"))
def prefill_per_decode_servers(*, prefill: Seconds, step: Seconds, batch: Count, output_tokens: Count) -> Ratio:
    """Prefill servers that keep one decode server busy when the two are apart.

    0.91 s a prefill, 19 ms steps at batch 32, 512 tokens, published as 3:

    >>> prefill_per_decode_servers(prefill=0.91, step=0.019, batch=32, output_tokens=512)
    2.99
    """
    return prefill * batch / (step * output_tokens)
