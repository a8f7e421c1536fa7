"""Weights that serving keeps in the memory of the host: read there by its processors, or copied over for every pass."""

from __future__ import annotations

from gpuplan.num import Bytes, BytesPerS, Count, Ratio, Seconds, maximum, minimum
from gpuplan.term import DEFINITION, Source, formula

_SPLIT = Source(
    "engine",
    "llama.cpp: HTTP server README, common parameters",
    "https://github.com/ggml-org/llama.cpp/blob/00dc8057ab28c9cb4c79a6dd6dfce07fe779f63b/tools/server/README.md",
    "--gpu-layers: the layers that are kept on the accelerator are the last ones, and the head counts as one more",
)
_READ = Source("definition", "a decode step reads each weight once, as fast as processors read their memory")
_COPIED = Source(
    "engine",
    "ggml: ggml_backend_cuda_device_offload_op",
    "https://github.com/ggml-org/llama.cpp/blob/master/ggml/src/ggml-cuda/ggml-cuda.cu",
    "products of 32 rows or more run on the accelerator, whose weights are copied there for each pass",
)


@formula(_SPLIT)
def layers_left_share(*, layers: Count, kept: Count) -> Ratio:
    """Share of the layers that are not among the `kept` ones.

    >>> layers_left_share(layers=40, kept=32), layers_left_share(layers=40, kept=99)
    (0.2, 0.0)
    """
    return maximum(layers - kept, 0.0) / layers


@formula(DEFINITION)
def moved_share(*, layers: Count, moved: Count) -> Ratio:
    """Share of the layers that are moved, all of them at most.

    >>> moved_share(layers=48, moved=36), moved_share(layers=48, moved=99)
    (0.75, 1.0)
    """
    return minimum(moved, layers) / layers


@formula(DEFINITION)
def moved_layers(*, share: Ratio, layers: Count) -> Count:
    """Layers of a share of them.

    >>> moved_layers(share=0.75, layers=48)
    36.0
    """
    return share * layers


@formula(DEFINITION)
def moved_bytes(*, share: Ratio, size: Bytes) -> Bytes:
    """Bytes of a share of something.

    >>> moved_bytes(share=0.25, size=8e9)
    2000000000.0
    """
    return share * size


@formula(DEFINITION)
def stayed_share(*, share: Ratio) -> Ratio:
    """What is not of the share that is moved.

    >>> stayed_share(share=0.25)
    0.75
    """
    return 1.0 - share


@formula(DEFINITION)
def capped_bytes(*, size: Bytes, most: Bytes) -> Bytes:
    """A size, or all that there is where that is less.

    >>> capped_bytes(size=8e9, most=5e9)
    5000000000.0
    """
    return minimum(size, most)


@formula(DEFINITION)
def stayed_seconds(*, seconds: Seconds, share: Ratio) -> Seconds:
    """Time of what is not of the share that is moved.

    >>> stayed_seconds(seconds=0.02, share=0.25)
    0.015
    """
    return seconds * (1.0 - share)


@formula(_READ)
def processor_seconds(*, size: Bytes, bandwidth: BytesPerS, reached: Ratio) -> Seconds:
    """Time in which processors read that much of their memory, at the share of its bandwidth that their kernels reach.

    >>> processor_seconds(size=2.4e9, bandwidth=80e9, reached=0.6)
    0.05
    """
    return size / (bandwidth * reached)


@formula(_COPIED)
def copied_seconds(*, size: Bytes, bandwidth: BytesPerS, reached: Ratio) -> Seconds:
    """Time to copy that much from the host's memory over the link to an accelerator.

    >>> copied_seconds(size=6e9, bandwidth=31.5e9, reached=0.5)  # doctest: +ELLIPSIS
    0.380...
    """
    return size / (bandwidth * reached)
