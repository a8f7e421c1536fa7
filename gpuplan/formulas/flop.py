"""How much arithmetic is there: floating-point operations of matmuls, attention, training steps, and the utilisation they mean."""

from __future__ import annotations

from gpuplan.num import Count, Flop, FlopPerS, Ratio, Seconds
from gpuplan.term import DEFINITION, Source, formula

_PALM = Source("paper", "PaLM: Scaling Language Modeling with Pathways", "https://arxiv.org/abs/2204.02311", "Appendix B")
_KAPLAN = Source("paper", "Scaling Laws for Neural Language Models", "https://arxiv.org/abs/2001.08361", "section 2.1")


@formula(_KAPLAN)
def forward_flop(*, params: Count, tokens: Count) -> Flop:
    """Forward FLOP of the weight matmuls: two for each parameter and token (attention scores apart).

    >>> forward_flop(params=70e9, tokens=8192)
    1146880000000000.0
    """
    return 2 * params * tokens


@formula(_KAPLAN)
def six_nd_flop(*, params: Count, tokens: Count) -> Flop:
    """Training FLOP by the 6·N·D rule: two forward and four backward for each parameter and token.

    Llama 3 405B on 15.6T tokens, published as 3.8e25:

    >>> six_nd_flop(params=405e9, tokens=15.6e12)
    3.7908e+25
    """
    return 6 * params * tokens


@formula(Source("definition", "as many FLOP for the gradient of an input as forward, none for those of frozen weights"))
def frozen_training_flop(*, params: Count, tokens: Count) -> Flop:
    """Training FLOP where weights are frozen: two forward and two for the gradient of each input; adapters are not counted.

    >>> frozen_training_flop(params=7e9, tokens=1e3)
    28000000000000.0
    """
    return 4 * params * tokens


@formula(_PALM)
def attention_training_flop_per_token(*, layers: Count, heads: Count, head_dim: Count, seq_len: Count) -> Flop:
    """Attention's share of model FLOP a token, forward and backward, mask ignored: the 12·L·H·Q·T convention.

    >>> attention_training_flop_per_token(layers=118, heads=48, head_dim=256, seq_len=2048)
    35634806784
    """
    return 12 * layers * heads * head_dim * seq_len


@formula(DEFINITION)
def causal_visible_tokens(*, visible: Count, seq_len: Count) -> Count:
    """Keys that a query sees on average behind a causal mask, when it sees at most `visible` of a sequence.

    Half of all without a window, and all but the beginning of a sequence with a short one:

    >>> causal_visible_tokens(visible=8192.0, seq_len=8192.0), causal_visible_tokens(visible=1024.0, seq_len=8192.0)
    (4096.0, 960.0)
    """
    return visible * (1 - visible / (2 * seq_len))


@formula(_PALM)
def mfu(*, model_flop: Flop, seconds: Seconds, chips: Count, peak_flop_per_s: FlopPerS) -> Ratio:
    """Model FLOP utilisation: the FLOP that the model needs over what the chips could have done, recomputation not counted.

    >>> mfu(model_flop=100 * 3 * 291648307200, seconds=0.755, chips=1, peak_flop_per_s=312e12)
    0.3714
    """
    return model_flop / (seconds * chips * peak_flop_per_s)


@formula(_PALM)
def hfu(*, hardware_flop: Flop, seconds: Seconds, chips: Count, peak_flop_per_s: FlopPerS) -> Ratio:
    """Hardware FLOP utilisation: all FLOP done, with recomputation, over what the chips could have done.

    >>> hfu(hardware_flop=400e12, seconds=1, chips=1, peak_flop_per_s=989e12)
    0.4044
    """
    return hardware_flop / (seconds * chips * peak_flop_per_s)


@formula(DEFINITION)
def achieved_flop_per_s(*, flop: Flop, seconds: Seconds, chips: Count) -> FlopPerS:
    """FLOP/s that each chip achieved.

    >>> achieved_flop_per_s(flop=1e15, seconds=2.0, chips=5)
    100000000000000.0
    """
    return flop / (seconds * chips)
