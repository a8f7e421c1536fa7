"""How much arithmetic is there: floating-point operations of matmuls, attention, training steps, and the utilisation they mean."""

from __future__ import annotations

from gpuplan.num import Count, Flop, FlopPerS, Ratio, Seconds
from gpuplan.term import DEFINITION, Source, formula

_BOOK = "https://jax-ml.github.io/scaling-book/"
_SCALING_BOOK = Source("paper", "How to Scale Your Model", f"{_BOOK}transformers", "Counting Dots")
_PALM = Source("paper", "PaLM: Scaling Language Modeling with Pathways", "https://arxiv.org/abs/2204.02311", "Appendix B")
_KAPLAN = Source("paper", "Scaling Laws for Neural Language Models", "https://arxiv.org/abs/2001.08361", "section 2.1")
_KORTHIKANTI = Source(
    "paper", "Reducing Activation Recomputation in Large Transformer Models", "https://arxiv.org/abs/2205.05198", "Appendix A"
)
_NARAYANAN = Source(
    "paper",
    "Efficient Large-Scale Language Model Training on GPU Clusters",
    "https://arxiv.org/abs/2104.04473",
    "section 5.1, Appendix",
)
_LORA = Source("paper", "LoRA: Low-Rank Adaptation of Large Language Models", "https://arxiv.org/abs/2106.09685", "section 4")


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


@formula(Source("paper", "LoRA: Low-Rank Adaptation of Large Language Models", "https://arxiv.org/abs/2106.09685", "4.2"))
def frozen_training_flop(*, params: Count, tokens: Count) -> Flop:
    """Training FLOP where weights are frozen: two forward and two for the gradient of each input; adapters are not counted.

    >>> frozen_training_flop(params=7e9, tokens=1e3)
    28000000000000.0
    """
    return 4 * params * tokens


@formula(_SCALING_BOOK)
def backward_flop(*, forward_flop: Flop) -> Flop:
    """Backward FLOP when both input and weight gradients are computed: twice the forward.

    >>> backward_flop(forward_flop=1e12)
    2000000000000.0
    """
    return 2 * forward_flop


@formula(_LORA)
def frozen_backward_flop(*, forward_flop: Flop) -> Flop:
    """Backward FLOP through frozen weights: only input gradients, as much as the forward.

    >>> frozen_backward_flop(forward_flop=1e12)
    1000000000000.0
    """
    return 1 * forward_flop


@formula(_LORA)
def lora_training_flop(*, frozen_forward_flop: Flop, trained_forward_flop: Flop) -> Flop:
    """Training FLOP with adapters: frozen weights cost forward and input gradients, trained ones three forwards.

    >>> lora_training_flop(frozen_forward_flop=100.0, trained_forward_flop=1.0)
    203.0
    """
    return frozen_forward_flop + frozen_backward_flop(forward_flop=frozen_forward_flop) + 3 * trained_forward_flop


@formula(_KORTHIKANTI)
def training_flop(*, forward_flop: Flop, recomputed_forward_flop: Flop) -> Flop:
    """FLOP that the hardware does in a training step: forward, backward, and what is recomputed of the forward.

    Full recomputation of one token costs eight FLOP a parameter:

    >>> training_flop(forward_flop=forward_flop(params=1, tokens=1), recomputed_forward_flop=forward_flop(params=1, tokens=1))
    8
    """
    return forward_flop + backward_flop(forward_flop=forward_flop) + recomputed_forward_flop


@formula(_PALM)
def attention_training_flop_per_token(*, layers: Count, heads: Count, head_dim: Count, seq_len: Count) -> Flop:
    """Attention's share of model FLOP a token, forward and backward, mask ignored: the 12·L·H·Q·T convention.

    >>> attention_training_flop_per_token(layers=118, heads=48, head_dim=256, seq_len=2048)
    35634806784
    """
    return 12 * layers * heads * head_dim * seq_len


@formula(Source("paper", "How to Scale Your Model", f"{_BOOK}transformers", "Fractional cost of attention"))
def causal_attention_training_flop_per_token(*, layers: Count, heads: Count, head_dim: Count, seq_len: Count) -> Flop:
    """Attention's share of model FLOP a token when the causal mask halves it: the 6·L·H·Q·T convention.

    >>> causal_attention_training_flop_per_token(layers=118, heads=48, head_dim=256, seq_len=2048)
    17817403392
    """
    return 6 * layers * heads * head_dim * seq_len


@formula(DEFINITION)
def causal_visible_tokens(*, visible: Count, seq_len: Count) -> Count:
    """Keys that a query sees on average behind a causal mask, when it sees at most `visible` of a sequence.

    Half of all without a window, and all but the beginning of a sequence with a short one:

    >>> causal_visible_tokens(visible=8192.0, seq_len=8192.0), causal_visible_tokens(visible=1024.0, seq_len=8192.0)
    (4096.0, 960.0)
    """
    return visible * (1 - visible / (2 * seq_len))


@formula(_PALM)
def training_flop_per_token(*, params: Count, layers: Count, heads: Count, head_dim: Count, seq_len: Count) -> Flop:
    """Model FLOP a token of training, attention counted without the mask: 6·N + 12·L·H·Q·T.

    PaLM 540B:

    >>> training_flop_per_token(params=540.35e9, layers=118, heads=48, head_dim=256, seq_len=2048)
    3277734806784.0
    """
    return 6 * params + attention_training_flop_per_token(layers=layers, heads=heads, head_dim=head_dim, seq_len=seq_len)


@formula(Source("paper", "How to Scale Your Model", f"{_BOOK}transformers", "Fractional cost of attention"))
def causal_training_flop_per_token(*, params: Count, layers: Count, heads: Count, head_dim: Count, seq_len: Count) -> Flop:
    """Model FLOP a token of training, attention halved by the causal mask: 6·N + 6·L·H·Q·T.

    >>> causal_training_flop_per_token(params=540.35e9, layers=118, heads=48, head_dim=256, seq_len=2048)
    3259917403392.0
    """
    return 6 * params + causal_attention_training_flop_per_token(layers=layers, heads=heads, head_dim=head_dim, seq_len=seq_len)


@formula(Source("paper", "How to Scale Your Model", f"{_BOOK}transformers", "Fractional cost of attention"))
def attention_parity_tokens(*, layer_matmul_params: Count, heads: Count, head_dim: Count) -> Count:
    """Sequence length at which attention's FLOP (mask ignored) equal those of a layer's weight matmuls.

    A gated MLP of 4·d with multi-head attention has 16·d² matmul parameters, so parity is at 8·d:

    >>> attention_parity_tokens(layer_matmul_params=16 * 8192**2, heads=64, head_dim=128)
    65536.0
    """
    return layer_matmul_params / (2 * heads * head_dim)


@formula(_KORTHIKANTI)
def gpt_model_flop(*, global_batch: Count, seq_len: Count, layers: Count, hidden: Count, vocab: Count) -> Flop:
    """Model FLOP of a training step of a GPT with a 4·h MLP: 72·B·L·s·h²·(1 + s/6h + V/12hL).

    GPT-3 at batch 64 takes 13.75 s on 64 A100, published as 51.4 % MFU:

    >>> gpt_model_flop(global_batch=64, seq_len=2048, layers=96, hidden=12288, vocab=51200)
    1.41092e+17
    """
    return 72 * global_batch * layers * seq_len * hidden**2 * (1 + seq_len / (6 * hidden) + vocab / (12 * hidden * layers))


@formula(_KORTHIKANTI)
def gpt_selective_recompute_flop(*, global_batch: Count, seq_len: Count, layers: Count, hidden: Count, vocab: Count) -> Flop:
    """Hardware FLOP of that step with selective recomputation as the paper defines it: s/3h in place of s/6h.

    The paper's factor counts the whole of attention twice, where only its forward is redone.

    >>> gpt_selective_recompute_flop(global_batch=64, seq_len=2048, layers=96, hidden=12288, vocab=51200)
    1.44891e+17
    """
    return 72 * global_batch * layers * seq_len * hidden**2 * (1 + seq_len / (3 * hidden) + vocab / (12 * hidden * layers))


@formula(_NARAYANAN)
def gpt_full_recompute_flop(*, global_batch: Count, seq_len: Count, layers: Count, hidden: Count, vocab: Count) -> Flop:
    """Hardware FLOP of that step with full recomputation: 96·B·s·L·h²·(1 + s/6h + V/16Lh).

    Megatron-Turing 530B at batch 1920, 44.4 s on 3360 A100, published as 113 TFLOP/s a GPU:

    >>> gpt_full_recompute_flop(global_batch=1920, seq_len=2048, layers=105, hidden=20480, vocab=51200) / 44.4 / 3360 / 1e12
    113.460
    """
    return 96 * global_batch * seq_len * layers * hidden**2 * (1 + seq_len / (6 * hidden) + vocab / (16 * layers * hidden))


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


@formula(_NARAYANAN)
def achieved_flop_per_s(*, flop: Flop, seconds: Seconds, chips: Count) -> FlopPerS:
    """FLOP/s that each chip achieved.

    >>> achieved_flop_per_s(flop=1e15, seconds=2.0, chips=5)
    100000000000000.0
    """
    return flop / (seconds * chips)
