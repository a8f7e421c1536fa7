"""How many parameters does a token mixer hold: attention, latent attention, state-space and linear attention layers?

All widths are those of the stored matrices; every formula counts one layer's part.
"""

from __future__ import annotations

from gpuplan.num import Count
from gpuplan.term import Source, formula

_GQA = Source(
    kind="paper",
    title="GQA: Training Generalized Multi-Query Transformer Models",
    url="https://arxiv.org/abs/2305.13245",
    section="2.2",
)
_QWEN2 = Source(kind="paper", title="Qwen2 Technical Report", url="https://arxiv.org/abs/2407.10671", section="2.2.1")
_QK_NORM = Source(
    kind="paper", title="Scaling Vision Transformers to 22 Billion Parameters", url="https://arxiv.org/abs/2302.05442", section="2"
)
_T5 = Source(
    kind="paper",
    title="Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer",
    url="https://arxiv.org/abs/1910.10683",
    section="2.1",
)
_GPT_OSS = Source(
    kind="paper", title="gpt-oss-120b & gpt-oss-20b Model Card", url="https://arxiv.org/abs/2508.10925", section="2.2, 2.3"
)
_GATED_ATTENTION = Source(
    kind="paper", title="Gated Attention for Large Language Models", url="https://arxiv.org/abs/2505.06708", section="2.2"
)
_GEMMA4 = Source(
    kind="docs",
    title="transformers: Gemma4TextAttention",
    url="https://github.com/huggingface/transformers/blob/main/src/transformers/models/gemma4/modeling_gemma4.py",
)
_MLA = Source(kind="paper", title="DeepSeek-V2", url="https://arxiv.org/abs/2405.04434", section="2.1, appendix C")
_DSA = Source(
    kind="docs",
    title="DeepSeek-V3.2-Exp reference inference code: class Indexer",
    url="https://github.com/deepseek-ai/DeepSeek-V3.2-Exp/blob/main/inference/model.py",
)
_MAMBA = Source(
    kind="docs",
    title="state-spaces/mamba: class Mamba",
    url="https://github.com/state-spaces/mamba/blob/main/mamba_ssm/modules/mamba_simple.py",
)
_JAMBA = Source(kind="paper", title="Jamba", url="https://arxiv.org/abs/2403.19887", section="2, 6.4")
_MAMBA2 = Source(
    kind="docs",
    title="state-spaces/mamba: class Mamba2",
    url="https://github.com/state-spaces/mamba/blob/main/mamba_ssm/modules/mamba2.py",
)
_GATED_DELTA = Source(
    kind="docs",
    title="transformers: Qwen3NextGatedDeltaNet",
    url="https://github.com/huggingface/transformers/blob/main/src/transformers/models/qwen3_next/modeling_qwen3_next.py",
)
_DEEPSEEK_V4 = Source(
    kind="docs",
    title="transformers: DeepseekV4Attention, DeepseekV4CSACompressor, DeepseekV4Indexer, DeepseekV4HyperConnection",
    url="https://github.com/huggingface/transformers/blob/v5.23.0/src/transformers/models/deepseek_v4/modeling_deepseek_v4.py",
)
_MINIMAX_M3 = Source(
    kind="docs", title="Transformers 5.23.0: models/minimax_m3_vl/modeling_minimax_m3_vl.py",
    url="https://github.com/huggingface/transformers/blob/v5.23.0/src/transformers/models/minimax_m3_vl/modeling_minimax_m3_vl.py",
    section="class MiniMaxM3VLIndexer", checked="2026-11-23",
)  # fmt: skip
_STEP = Source(
    kind="docs",
    title="transformers: Step3p7Attention, gate_per_head",
    url="https://github.com/huggingface/transformers/blob/v5.23.0/src/transformers/models/step3p7/modeling_step3p7.py",
)
_ALTUP = Source(
    kind="docs",
    title="transformers: Gemma3nTextAltUp",
    url="https://github.com/huggingface/transformers/blob/v5.23.0/src/transformers/models/gemma3n/modeling_gemma3n.py",
)
_PARAKEET = Source(
    kind="docs",
    title="transformers: ParakeetEncoderConvolutionModule",
    url="https://github.com/huggingface/transformers/blob/v5.23.0/src/transformers/models/parakeet/modeling_parakeet.py",
)
_KIMI_DELTA = Source(
    kind="docs",
    title="transformers: KimiLinearDeltaAttention",
    url="https://github.com/huggingface/transformers/blob/v5.23.0/src/transformers/models/kimi_linear/modeling_kimi_linear.py",
)
_SHORT_CONV = Source(
    kind="docs",
    title="transformers: Lfm2ShortConv",
    url="https://github.com/huggingface/transformers/blob/v5.23.0/src/transformers/models/lfm2/modeling_lfm2.py",
)
_LIGHTNING = Source(
    kind="paper",
    title="MiniMax-01: Scaling Foundation Models with Lightning Attention",
    url="https://arxiv.org/abs/2501.08313",
    section="2",
)


@formula(_GQA)
def attention_projection_params(*, hidden: Count, heads: Count, kv_heads: Count, head_dim: Count, v_head_dim: Count) -> Count:
    """The query, key, value and output matrices of one attention layer.

    Llama 3 8B (hidden 4096, 32 query and 8 key-value heads of 128):

    >>> attention_projection_params(hidden=4096.0, heads=32.0, kv_heads=8.0, head_dim=128.0, v_head_dim=128.0)
    41943040.0
    """
    return hidden * (heads + kv_heads) * (head_dim + v_head_dim)


@formula(_GEMMA4)
def attention_shared_kv_params(*, hidden: Count, heads: Count, kv_heads: Count, head_dim: Count) -> Count:
    """The query, output, and one matrix that makes both keys and values (Gemma 4's global layers).

    >>> attention_shared_kv_params(hidden=2816.0, heads=16.0, kv_heads=2.0, head_dim=512.0)
    49020928.0
    """
    return hidden * head_dim * (2.0 * heads + kv_heads)


@formula(_QWEN2)
def attention_qkv_bias_params(*, heads: Count, kv_heads: Count, head_dim: Count, v_head_dim: Count) -> Count:
    """The bias vectors of the query, key and value projections of one layer.

    >>> attention_qkv_bias_params(heads=28.0, kv_heads=4.0, head_dim=128.0, v_head_dim=128.0)
    4608.0
    """
    return (heads + kv_heads) * head_dim + kv_heads * v_head_dim


@formula(_GATED_ATTENTION)
def attention_gate_params(*, hidden: Count, heads: Count, v_head_dim: Count) -> Count:
    """The matrix that makes an elementwise gate for the attention output (Qwen3-Next keeps it in the query projection).

    >>> attention_gate_params(hidden=2048.0, heads=16.0, v_head_dim=256.0)
    8388608.0
    """
    return hidden * heads * v_head_dim


@formula(_QK_NORM)
def qk_norm_head_params(*, head_dim: Count) -> Count:
    """Two norm vectors, one for queries and one for keys, that all heads share (Qwen3, Gemma 3).

    >>> qk_norm_head_params(head_dim=128.0)
    256.0
    """
    return 2.0 * head_dim


@formula(_QK_NORM)
def qk_norm_width_params(*, heads: Count, kv_heads: Count, head_dim: Count) -> Count:
    """Norm vectors over the whole projected width of queries and keys (OLMo 2, MiniMax-M2).

    >>> qk_norm_width_params(heads=32.0, kv_heads=32.0, head_dim=128.0)
    8192.0
    """
    return (heads + kv_heads) * head_dim


@formula(_T5)
def relative_bias_params(*, buckets: Count, heads: Count) -> Count:
    """The learned relative position biases of a stack: one value a bucket and head.

    >>> relative_bias_params(buckets=32.0, heads=64.0)
    2048.0
    """
    return buckets * heads


@formula(_GPT_OSS)
def attention_sink_params(*, heads: Count) -> Count:
    """One learned logit a head that joins the softmax denominator.

    >>> attention_sink_params(heads=64.0)
    64.0
    """
    return 1.0 * heads


@formula(_MLA)
def mla_query_params(*, hidden: Count, heads: Count, nope_dim: Count, rope_dim: Count) -> Count:
    """The query matrix of latent attention without query compression (DeepSeek-V2-Lite).

    >>> mla_query_params(hidden=2048.0, heads=16.0, nope_dim=128.0, rope_dim=64.0)
    6291456.0
    """
    return hidden * heads * (nope_dim + rope_dim)


@formula(_MLA)
def mla_low_rank_query_params(*, hidden: Count, heads: Count, q_rank: Count, nope_dim: Count, rope_dim: Count) -> Count:
    """The compressed query of latent attention: down matrix, norm, up matrix.

    DeepSeek-V3 (hidden 7168, 128 heads, rank 1536):

    >>> mla_low_rank_query_params(hidden=7168.0, heads=128.0, q_rank=1536.0, nope_dim=128.0, rope_dim=64.0)
    48760320.0
    """
    return q_rank * (hidden + 1.0 + heads * (nope_dim + rope_dim))


@formula(_MLA)
def mla_kv_params(*, hidden: Count, heads: Count, kv_rank: Count, nope_dim: Count, rope_dim: Count, v_dim: Count) -> Count:
    """The latent of keys and values: down matrix with the rotary part, norm, up matrix.

    >>> mla_kv_params(hidden=7168.0, heads=128.0, kv_rank=512.0, nope_dim=128.0, rope_dim=64.0, v_dim=128.0)
    20906496.0
    """
    return hidden * (kv_rank + rope_dim) + kv_rank * (1.0 + heads * (nope_dim + v_dim))


@formula(_MLA)
def mla_output_params(*, hidden: Count, heads: Count, v_dim: Count) -> Count:
    """The output matrix of latent attention.

    >>> mla_output_params(hidden=7168.0, heads=128.0, v_dim=128.0)
    117440512.0
    """
    return heads * v_dim * hidden


@formula(_MLA)
def mla_bias_params(*, hidden: Count, q_rank: Count, kv_rank: Count, rope_dim: Count) -> Count:
    """The biases of the two down projections and of the output, where a model has them.

    >>> mla_bias_params(hidden=7168.0, q_rank=1536.0, kv_rank=512.0, rope_dim=64.0)
    9280.0
    """
    return q_rank + kv_rank + rope_dim + hidden


@formula(_DSA)
def indexer_params(*, hidden: Count, q_rank: Count, heads: Count, head_dim: Count) -> Count:
    """The sparse-attention indexer of one layer: queries from the compressed query, one key, its norm, head weights.

    61 of them are the 851,524,864 parameters that DeepSeek-V3.2 has more than DeepSeek-V3:

    >>> indexer_params(hidden=7168.0, q_rank=1536.0, heads=64.0, head_dim=128.0) * 61
    851524864.0
    """
    return q_rank * heads * head_dim + hidden * (head_dim + heads) + 2.0 * head_dim


@formula(_MINIMAX_M3)
def block_indexer_params(*, hidden: Count, heads: Count, head_dim: Count) -> Count:
    """An indexer of blocks of keys: queries and one key from the hidden state, and a norm of each.

    One of the 57 of MiniMax-M3:

    >>> block_indexer_params(hidden=6144.0, heads=4.0, head_dim=128.0)
    3932416.0
    """
    return hidden * (heads + 1.0) * head_dim + 2.0 * head_dim


@formula(_STEP)
def head_gate_params(*, hidden: Count, heads: Count) -> Count:
    """A gate for the output of each head.

    A layer with a window of Step-3.5-Flash:

    >>> head_gate_params(hidden=4096.0, heads=96.0)
    393216.0
    """
    return hidden * heads


@formula(_DEEPSEEK_V4)
def compressed_attention_params(
    *, hidden: Count, heads: Count, head_dim: Count, q_rank: Count, out_groups: Count, out_rank: Count
) -> Count:
    """Queries through a latent with its norm, one key head with its norm, the output by groups of heads and then at once.

    DeepSeek-V4-Flash (hidden 4096, 64 heads of 512, ranks 1024, 8 groups):

    >>> compressed_attention_params(hidden=4096.0, heads=64.0, head_dim=512.0, q_rank=1024.0, out_groups=8.0, out_rank=1024.0)
    106956288.0
    """
    return (
        q_rank * (hidden + heads * head_dim + 1.0)
        + head_dim * (hidden + 1.0)
        + heads * head_dim * out_rank
        + out_groups * out_rank * hidden
    )


@formula(_DEEPSEEK_V4)
def compressor_params(*, hidden: Count, rate: Count, width: Count, head_dim: Count) -> Count:
    """What makes compressed keys: keys and weights of `width`, a place of each of `rate` tokens, and a norm of the key.

    The compressor of 128 tokens to a key of 512 in DeepSeek-V4-Flash:

    >>> compressor_params(hidden=4096.0, rate=128.0, width=512.0, head_dim=512.0)
    4260352.0
    """
    return 2.0 * hidden * width + rate * width + head_dim


@formula(_DEEPSEEK_V4)
def compressed_indexer_params(*, hidden: Count, q_rank: Count, heads: Count, head_dim: Count) -> Count:
    """Queries of an indexer from the query's latent, and the weights of its heads; its keys have a compressor of their own.

    DeepSeek-V4-Flash:

    >>> compressed_indexer_params(hidden=4096.0, q_rank=1024.0, heads=64.0, head_dim=128.0)
    8650752.0
    """
    return heads * (q_rank * head_dim + hidden)


@formula(_DEEPSEEK_V4)
def hyper_connection_params(*, hidden: Count, streams: Count, halves: Count) -> Count:
    """What mixes residual streams before and behind each half of a layer: a product of all streams, a bias, three scales.

    DeepSeek-V4-Flash (4 streams of 4096, two halves):

    >>> hyper_connection_params(hidden=4096.0, streams=4.0, halves=2.0)
    786486.0
    """
    return halves * ((streams + 2.0) * streams * (streams * hidden + 1.0) + 3.0)


@formula(_ALTUP)
def altup_params(*, hidden: Count, streams: Count) -> Count:
    """What mixes residual streams by AltUp: a router with its norm, a scale, and matrices that predict and correct.

    Gemma 3n (4 streams of 2048):

    >>> altup_params(hidden=2048.0, streams=4.0)
    12368.0
    """
    return hidden * (streams + 2.0) + streams**3 + streams**2


@formula(_MAMBA)
def mamba1_params(*, hidden: Count, inner: Count, state: Count, dt_rank: Count, conv_kernel: Count) -> Count:
    """One Mamba mixer without conv bias: in, conv, x, dt (with its bias), A, D and out.

    Mamba-130m (hidden 768, inner 1536, state 16, rank 48, kernel 4):

    >>> mamba1_params(hidden=768.0, inner=1536.0, state=16.0, dt_rank=48.0, conv_kernel=4.0)
    3769344.0
    """
    return inner * (3.0 * hidden + conv_kernel + 2.0 * dt_rank + 3.0 * state + 2.0)


@formula(_JAMBA)
def mamba1_inner_norm_params(*, dt_rank: Count, state: Count) -> Count:
    """The norms on dt, B and C that Jamba adds.

    >>> mamba1_inner_norm_params(dt_rank=256.0, state=16.0)
    288.0
    """
    return dt_rank + 2.0 * state


@formula(_MAMBA2)
def mamba2_params(*, hidden: Count, inner: Count, state: Count, groups: Count, heads: Count, conv_kernel: Count) -> Count:
    """One Mamba-2 mixer without conv bias and norm: in (z, x, B, C, dt), conv over x, B and C, A, D, dt bias, out.

    Mamba2-130m (hidden 768, inner 1536, state 128, 24 heads):

    >>> mamba2_params(hidden=768.0, inner=1536.0, state=128.0, groups=1.0, heads=24.0, conv_kernel=4.0)
    3761224.0
    """
    return hidden * (3.0 * inner + 2.0 * groups * state + heads) + conv_kernel * (inner + 2.0 * groups * state) + 3.0 * heads


@formula(_MAMBA2)
def conv_bias_params(*, inner: Count, groups: Count, state: Count) -> Count:
    """The bias of the convolution over values and B/C groups (or keys and queries).

    >>> conv_bias_params(inner=1536.0, groups=1.0, state=128.0)
    1792.0
    """
    return inner + 2.0 * groups * state


@formula(_GATED_DELTA)
def gated_delta_params(*, hidden: Count, inner: Count, state: Count, groups: Count, heads: Count, conv_kernel: Count) -> Count:
    """One gated delta rule mixer: q, k, v, z, beta and alpha projections, conv over q, k and v, A, dt bias, norm, out.

    `groups` key heads of `state`, `heads` value heads with `inner` wide values; the norm is one value head wide.
    Qwen3-Next-80B-A3B (hidden 2048, 16 key heads and 32 value heads of 128, kernel 4):

    >>> gated_delta_params(hidden=2048.0, inner=4096.0, state=128.0, groups=16.0, heads=32.0, conv_kernel=4.0)
    33718464.0
    """
    return (
        hidden * (2.0 * groups * state + 3.0 * inner + 2.0 * heads)
        + conv_kernel * (2.0 * groups * state + inner)
        + 2.0 * heads
        + inner / heads
    )


@formula(_KIMI_DELTA)
def kimi_delta_params(
    *, hidden: Count, inner: Count, state: Count, groups: Count, heads: Count, conv_kernel: Count, decay_rank: Count
) -> Count:
    """Kimi Delta Attention without its output gate: q, k, v, beta, a decay of each key channel, conv, A, dt bias, norm, out.

    `groups` key heads of `state`, `heads` value heads with `inner` wide values; the norm is one value head wide.
    Kimi-Linear-48B-A3B (hidden 2304, 32 heads of 128, kernel 4, rank 128):

    >>> kimi_delta_params(hidden=2304.0, inner=4096.0, state=128.0, groups=32.0, heads=32.0, conv_kernel=4.0, decay_rank=128.0)
    38695072.0
    """
    return (
        hidden * (2.0 * groups * state + 2.0 * inner + heads)
        + decay_rank * (hidden + groups * state)
        + conv_kernel * (2.0 * groups * state + inner)
        + groups * state
        + heads
        + inner / heads
    )


@formula(_KIMI_DELTA)
def low_rank_params(*, fan_in: Count, rank: Count, fan_out: Count) -> Count:
    """Two matrices in a row, the first to `rank` values.

    The gate of Kimi-Linear-48B-A3B:

    >>> low_rank_params(fan_in=2304.0, rank=128.0, fan_out=4096.0)
    819200.0
    """
    return rank * (fan_in + fan_out)


@formula(_SHORT_CONV)
def short_conv_params(*, hidden: Count, width: Count, conv_kernel: Count) -> Count:
    """One gated short convolution: a projection to two gates and the input, one kernel a channel, and the projection out.

    LFM2-1.2B (hidden and width 2048, kernel 3):

    >>> short_conv_params(hidden=2048.0, width=2048.0, conv_kernel=3.0)
    16783360.0
    """
    return 4.0 * hidden * width + conv_kernel * width


@formula(_PARAKEET)
def conformer_conv_params(*, hidden: Count, width: Count, conv_kernel: Count) -> Count:
    """The convolution of a Conformer: a projection to a gate and the input, one kernel a channel, and the projection out.

    Parakeet (hidden and width 1024, kernel 9):

    >>> conformer_conv_params(hidden=1024.0, width=1024.0, conv_kernel=9.0)
    3154944.0
    """
    return 3.0 * hidden * width + conv_kernel * width


@formula(_LIGHTNING)
def linear_attention_params(*, hidden: Count, inner: Count, state: Count, groups: Count) -> Count:
    """One lightning attention mixer: q and k (`groups` heads of `state`), v, output gate and out.

    MiniMax-Text-01 (hidden 6144, 64 heads of 128):

    >>> linear_attention_params(hidden=6144.0, inner=8192.0, state=128.0, groups=64.0)
    251658240.0
    """
    return hidden * (2.0 * groups * state + 3.0 * inner)
