"""How many bytes do published rules give: host memory under offload, parameters with scales for groups of them?"""

from __future__ import annotations

from gpuplan.num import Bytes, Count, Ratio, maximum
from gpuplan.term import Source, formula

_QLORA = Source(
    "paper", "QLoRA: Efficient Finetuning of Quantized LLMs", "https://arxiv.org/abs/2305.14314", "section 3, Double Quantization"
)


@formula(
    Source(
        "docs",
        "DeepSpeed memory requirements",
        "https://deepspeed.readthedocs.io/en/latest/memory.html",
        "ZeRO-2, offload_optimizer",
    )
)
def offload_host_bytes(
    *, params: Count, gradient_bytes: Bytes, optimizer_bytes: Bytes, gpus_per_node: Count, buffer_factor: Ratio
) -> Bytes:
    """Host memory that ZeRO-2 optimizer offload asks for on a node: the larger of all ranks' gradients and the optimizer state.

    T5-3B on 8 GPUs, published as 127.45 GB (2**30):

    >>> offload_host_bytes(params=2851e6, gradient_bytes=4, optimizer_bytes=16, gpus_per_node=8, buffer_factor=1.5) / 2**30
    127.45
    """
    return params * maximum(gradient_bytes * gpus_per_node, optimizer_bytes) * buffer_factor


@formula(Source("paper", "Microscaling Data Formats for Deep Learning", "https://arxiv.org/abs/2310.10537", "section 2, table 1"))
def quantised_bytes_per_param(*, element_bytes: Bytes, scale_bytes: Bytes, group: Count) -> Bytes:
    """Bytes a parameter with one scale (and zero point, counted in `scale_bytes`) for each group of elements.

    MXFP6, published as 0.78125:

    >>> quantised_bytes_per_param(element_bytes=6 / 8, scale_bytes=1, group=32)
    0.78125
    """
    return element_bytes + scale_bytes / group


@formula(_QLORA)
def double_quantised_bytes_per_param(
    *, element_bytes: Bytes, scale_bytes: Bytes, group: Count, outer_scale_bytes: Bytes, outer_group: Count
) -> Bytes:
    """Bytes a parameter when the scales of groups are quantised too, with one outer scale for `outer_group` of them.

    NF4 with 8-bit scales for each 64 and float32 for each 256 of those, published as 4.127 bits:

    >>> double_quantised_bytes_per_param(element_bytes=0.5, scale_bytes=1, group=64, outer_scale_bytes=4, outer_group=256) * 8
    4.127
    """
    return element_bytes + scale_bytes / group + outer_scale_bytes / (group * outer_group)
