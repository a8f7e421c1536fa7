"""How many parameters do the parts of a model hold, but for its token mixers?

All widths are those of the stored matrices; every formula counts one layer's part, a whole matrix, or says otherwise.
"""

from __future__ import annotations

from gpuplan.num import Count, Ratio, maximum
from gpuplan.term import DEFINITION, Source, formula

_TRANSFORMER = Source(
    kind="paper", title="Attention Is All You Need", url="https://arxiv.org/abs/1706.03762", section="3.2.2, 3.3, 3.4"
)
_LATENT_MOE = Source(
    kind="docs",
    title="transformers: NemotronHMoE",
    url="https://github.com/huggingface/transformers/blob/main/src/transformers/models/nemotron_h/modeling_nemotron_h.py",
)
_GLU = Source(kind="paper", title="GLU Variants Improve Transformer", url="https://arxiv.org/abs/2002.05202", section="2")
_MIXTRAL = Source(kind="paper", title="Mixtral of Experts", url="https://arxiv.org/abs/2401.04088", section="2.1")
_QWEN_MOE = Source(
    kind="docs",
    title="transformers: Qwen2MoeSparseMoeBlock",
    url="https://github.com/huggingface/transformers/blob/main/src/transformers/models/qwen2_moe/modeling_qwen2_moe.py",
)
_RMS = Source(kind="paper", title="Root Mean Square Layer Normalization", url="https://arxiv.org/abs/1910.07467", section="3")
_OPT = Source(
    kind="docs",
    title="transformers: OPTDecoder",
    url="https://github.com/huggingface/transformers/blob/main/src/transformers/models/opt/modeling_opt.py",
)


@formula(_GLU)
def mlp_params(*, hidden: Count, width: Count, matrices: Count) -> Count:
    """The matrices of one feed-forward layer: two, or three when gated.

    Llama 3 8B (hidden 4096, width 14336):

    >>> mlp_params(hidden=4096.0, width=14336.0, matrices=3.0)
    176160768.0
    """
    return matrices * hidden * width


@formula(_TRANSFORMER)
def mlp_bias_params(*, hidden: Count, width: Count, matrices: Count) -> Count:
    """The biases of one feed-forward layer: one of the hidden width, the others of the layer's own.

    >>> mlp_bias_params(hidden=768.0, width=3072.0, matrices=2.0)
    3840.0
    """
    return (matrices - 1.0) * width + hidden


@formula(_MIXTRAL)
def experts_params(*, experts: Count, expert: Count) -> Count:
    """All experts of one layer, of `expert` parameters each.

    Mixtral 8x7B (8 experts of 3 x 4096 x 14336):

    >>> experts_params(experts=8.0, expert=mlp_params(hidden=4096.0, width=14336.0, matrices=3.0))
    1409286144.0
    """
    return experts * expert


@formula(_MIXTRAL)
def router_params(*, hidden: Count, experts: Count) -> Count:
    """The matrix that scores the experts.

    >>> router_params(hidden=4096.0, experts=8.0)
    32768.0
    """
    return hidden * experts


@formula(_QWEN_MOE)
def shared_gate_params(*, hidden: Count) -> Count:
    """The learned gate of the shared experts: one scalar a token.

    >>> shared_gate_params(hidden=2048.0)
    2048.0
    """
    return 1.0 * hidden


@formula(_LATENT_MOE)
def latent_projection_params(*, hidden: Count, latent: Count) -> Count:
    """The projections into and out of the narrower width in which the routed experts work.

    >>> latent_projection_params(hidden=4096.0, latent=1024.0)
    8388608.0
    """
    return 2.0 * hidden * latent


@formula(_RMS)
def norm_params(*, norms: Count, width: Count, vectors: Count) -> Count:
    """`norms` norms over `width`: one vector each (a scale), or two (a scale and a bias).

    >>> norm_params(norms=2.0, width=4096.0, vectors=1.0)
    8192.0
    """
    return norms * width * vectors


@formula(_TRANSFORMER)
def bias_params(*, width: Count) -> Count:
    """One bias vector.

    >>> bias_params(width=4096.0)
    4096.0
    """
    return 1.0 * width


@formula(_TRANSFORMER)
def embedding_params(*, rows: Count, width: Count) -> Count:
    """A table of vectors: token embedding, learned positions, token types, or the output head.

    Llama 3 (128,256 tokens, 4096 wide):

    >>> embedding_params(rows=128256.0, width=4096.0)
    525336576.0
    """
    return rows * width


@formula(_OPT)
def embedding_projection_params(*, hidden: Count, width: Count, projections: Count) -> Count:
    """The matrices between narrower embedding rows and the hidden width (OPT-350M has two, ALBERT one).

    >>> embedding_projection_params(hidden=1024.0, width=512.0, projections=2.0)
    1048576.0
    """
    return projections * hidden * width


@formula(_TRANSFORMER)
def layers_params(*, layers: Count, layer: Count) -> Count:
    """`layers` layers of `layer` parameters each.

    >>> layers_params(layers=32.0, layer=218112000.0)
    6979584000.0
    """
    return layers * layer


@formula(_MIXTRAL)
def idle_expert_params(*, layers: Count, routed: Count, experts: Count, top_k: Count) -> Count:
    """The routed experts that one token does not visit, over `layers` layers with `routed` expert parameters each.

    Mixtral 8x7B visits 2 of 8 in 32 layers, which leaves 12.9 billion active:

    >>> idle_expert_params(layers=32.0, routed=1409286144.0, experts=8.0, top_k=2.0)
    33822867456.0
    >>> 46702792704.0 - 33822867456.0
    12879925248.0
    """
    return layers * routed * (experts - top_k) / experts


@formula(DEFINITION)
def dropped_expert_params(*, layers: Count, routed: Count, experts: Count, top_k: Count, capacity: Ratio) -> Count:
    """The routed experts that a token should visit and does not, in the mean, since they take `capacity` of theirs at most.

    >>> dropped_expert_params(layers=32.0, routed=1409286144.0, experts=8.0, top_k=2.0, capacity=0.5)
    5637144576.0
    >>> dropped_expert_params(layers=32.0, routed=1409286144.0, experts=8.0, top_k=2.0, capacity=1.25)
    0.0
    """
    return layers * routed * top_k / experts * maximum(1 - capacity, 0.0)


@formula(_MIXTRAL)
def active_params(*, params: Count, idle: Count) -> Count:
    """The parameters that take part in one token's forward pass; the input embedding counts, as in models' own counts.

    >>> active_params(params=46702792704.0, idle=33822867456.0)
    12879925248.0
    """
    return params - idle
