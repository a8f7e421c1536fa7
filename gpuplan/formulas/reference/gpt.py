"""How many FLOP and kept activations has a GPT in the closed forms of its papers?"""

from __future__ import annotations

from gpuplan.num import Bytes, Count, Flop
from gpuplan.term import Source, formula

_TITLE = "Reducing Activation Recomputation in Large Transformer Models"
_URL = "https://arxiv.org/abs/2205.05198"
_KORTHIKANTI_FLOP = Source("paper", _TITLE, _URL, "Appendix A")
_KORTHIKANTI = Source("paper", _TITLE, _URL, "section 4.1, equation 1")
_KORTHIKANTI_TP = Source("paper", _TITLE, _URL, "section 4.2.1, equation 2")
_KORTHIKANTI_SP = Source("paper", _TITLE, _URL, "section 4.2.2, equation 4")
_NARAYANAN = Source(
    "paper",
    "Efficient Large-Scale Language Model Training on GPU Clusters",
    "https://arxiv.org/abs/2104.04473",
    "section 5.1, Appendix",
)


@formula(_KORTHIKANTI_FLOP)
def gpt_model_flop(*, global_batch: Count, seq_len: Count, layers: Count, hidden: Count, vocab: Count) -> Flop:
    """Model FLOP of a training step of a GPT with a 4·h MLP: 72·B·L·s·h²·(1 + s/6h + V/12hL).

    GPT-3 at batch 64 takes 13.75 s on 64 A100, published as 51.4 % MFU:

    >>> gpt_model_flop(global_batch=64, seq_len=2048, layers=96, hidden=12288, vocab=51200)
    1.41092e+17
    """
    return 72 * global_batch * layers * seq_len * hidden**2 * (1 + seq_len / (6 * hidden) + vocab / (12 * hidden * layers))


@formula(_KORTHIKANTI_FLOP)
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


@formula(_KORTHIKANTI)
def gpt_layer_activation_bytes(
    *, seq_len: Count, micro_batch: Count, hidden: Count, heads: Count, element_bytes: Bytes, mask_bytes: Bytes
) -> Bytes:
    """Activations of one GPT layer, nothing recomputed or sharded: s·b·h·(34 + 5·a·s/h) at 2-byte elements.

    A layer of GPT-3:

    >>> gpt_layer_activation_bytes(seq_len=2048, micro_batch=1, hidden=12288, heads=96, element_bytes=2, mask_bytes=1) / 1e9
    2.869
    """
    return seq_len * micro_batch * hidden * (16 * element_bytes + 2 * mask_bytes) + gpt_attention_core_bytes(
        seq_len=seq_len, micro_batch=micro_batch, heads=heads, element_bytes=element_bytes, mask_bytes=mask_bytes
    )


@formula(_KORTHIKANTI)
def gpt_attention_core_bytes(*, seq_len: Count, micro_batch: Count, heads: Count, element_bytes: Bytes, mask_bytes: Bytes) -> Bytes:
    """The part of a GPT layer's activations that grows with s²: softmax, its dropout mask and output, 5·a·s²·b at 2-byte elements.

    >>> gpt_attention_core_bytes(seq_len=2048, micro_batch=1, heads=96, element_bytes=2, mask_bytes=1)
    2013265920
    """
    return heads * seq_len**2 * micro_batch * (2 * element_bytes + mask_bytes)


@formula(_KORTHIKANTI_TP)
def gpt_layer_activation_bytes_tp(
    *, seq_len: Count, micro_batch: Count, hidden: Count, heads: Count, element_bytes: Bytes, mask_bytes: Bytes, tp: Count
) -> Bytes:
    """Activations of one GPT layer under tensor parallelism: s·b·h·(10 + 24/t + 5·a·s/(h·t)).

    >>> gpt_layer_activation_bytes_tp(
    ...     seq_len=2048, micro_batch=1, hidden=12288, heads=96, element_bytes=2, mask_bytes=1, tp=8) / 1e9
    0.579
    """
    return (
        seq_len * micro_batch * hidden * (4 * element_bytes + 2 * mask_bytes + 12 * element_bytes / tp)
        + gpt_attention_core_bytes(
            seq_len=seq_len, micro_batch=micro_batch, heads=heads, element_bytes=element_bytes, mask_bytes=mask_bytes
        )
        / tp
    )


@formula(_KORTHIKANTI_SP)
def gpt_layer_activation_bytes_sp(
    *, seq_len: Count, micro_batch: Count, hidden: Count, heads: Count, element_bytes: Bytes, mask_bytes: Bytes, tp: Count
) -> Bytes:
    """Activations of one GPT layer under tensor and sequence parallelism: all of it divided by the degree.

    >>> gpt_layer_activation_bytes_sp(
    ...     seq_len=2048, micro_batch=1, hidden=12288, heads=96, element_bytes=2, mask_bytes=1, tp=8) / 1e9
    0.359
    """
    return (
        gpt_layer_activation_bytes(
            seq_len=seq_len, micro_batch=micro_batch, hidden=hidden, heads=heads, element_bytes=element_bytes, mask_bytes=mask_bytes
        )
        / tp
    )
