"""Where do the parameters of a probe stand in a measured file, and in how many bytes are its weights or its keys stored?

Probes of plain kernels have no name. The name of others is what serving engines store: weights by blocks or narrower than what is
multiplied, a cache in pages, one in 8 bits, or one latent for all heads.
"""

from __future__ import annotations

from gpuplan.calibrate.device import Probe

ELEMENT = {
    "fp64": 8.0, "fp32": 4.0, "tf32": 4.0, "bf16": 2.0, "fp16": 2.0, "fp8": 1.0, "int8": 1.0, "fp6": 0.75, "fp4": 0.5625,
    "int4": 0.5,
}  # fmt: skip
"""Bytes of one element; 4-bit floats have a scale for every 16 elements."""
STORED = {"int8_wo": 1.0, "int4_wo": 0.53125, "paged_fp8": 1.0}
"""Bytes of an element of weights or keys that are stored narrower than they are multiplied; of 4-bit integers with 32 bits of scale
and zero for every group of 128."""
BLOCKED = "fp8_block"
LATENT = "latent"
PAGED = "paged"
SERVED = (BLOCKED, "int8_wo", "int4_wo", PAGED, "paged_fp8", LATENT)
"""The names of all such probes."""


def stored(probe: Probe) -> float:
    """Bytes of an element of the weights or of the cache.

    >>> stored(Probe(kind="matmul", dtype="fp8", name="fp8_block")), stored(Probe(kind="decode", name="paged_fp8"))
    (1.0, 1.0)
    """
    return STORED.get(probe.name, ELEMENT[probe.dtype])


def matmul_place(probe: Probe) -> str:
    """The key of the parameters of a product under `matmul` or `grouped`.

    >>> matmul_place(Probe(kind="matmul", dtype="fp8", name="fp8_block")), matmul_place(Probe(kind="matmul", dtype="fp8"))
    ('fp8_block', 'fp8')
    """
    return probe.name or probe.dtype


def decode_place(probe: Probe) -> str:
    """The key of the parameters of decode attention under `attention`; pages count with plain caches, which they replace.

    >>> [decode_place(Probe(kind="decode", name=name)) for name in ("", "paged", "paged_fp8", "latent")]
    ['decode.bf16', 'decode.bf16', 'decode.fp8', 'latent.bf16']
    """
    kind = "fp8" if stored(probe) < ELEMENT["bf16"] else "bf16"
    return f"latent.{kind}" if probe.name == LATENT else f"decode.{kind}"
