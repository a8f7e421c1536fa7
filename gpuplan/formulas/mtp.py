"""What does a module of multi-token prediction hold beside its layer?"""

from __future__ import annotations

from gpuplan.num import Count
from gpuplan.term import Source, formula

_MTP = Source(
    "paper", "DeepSeek-V3 Technical Report", "https://arxiv.org/abs/2412.19437",
    "2.2: a projection of two normed inputs to one, a transformer block, and the shared embedding and head",
)  # fmt: skip


@formula(_MTP)
def module_projection_params(*, hidden: Count) -> Count:
    """Parameters of the matrix that projects the last hidden state and the next token's embedding, side by side, to one width.

    >>> module_projection_params(hidden=7168)
    102760448
    """
    return 2 * hidden * hidden


@formula(_MTP)
def module_norm_params(*, hidden: Count) -> Count:
    """Parameters of a module's own norms: of both inputs, and before the shared head.

    With its block, the module that Qwen3-Next stores takes 1,650,471,424 parameters:

    >>> 1642076672 + module_projection_params(hidden=2048) + module_norm_params(hidden=2048)
    1650471424
    """
    return 3 * hidden
