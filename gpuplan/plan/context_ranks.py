"""How many tensor parallel ranks may share the caches of sequences along their context, and on which engines?"""

from __future__ import annotations

from collections.abc import Iterator

from gpuplan.errors import Problem
from gpuplan.num import any_true, maximum
from gpuplan.plan.parallelism import Parallelism, Rule, Shape, at_least_one, divisors, nearest


def context_rules(p: Parallelism, shape: Shape, can: frozenset[str]) -> Iterator[Rule]:
    """What decode context parallelism wants: an engine that knows it for the model (`can`), and ranks that hold the same heads.

    Tensor parallel ranks beyond the key and value heads hold copies of them; of latents all ranks do.
    """
    if not any_true(p.decode_cp != 1):
        return
    yield at_least_one("plan.degree", "decode-cp", p.decode_cp)
    yield Rule(
        (p.decode_cp == 1) | ("decode_cp" in can),
        lambda: Problem(
            "plan.decode-cp-engine", f"{shape.engine} does not divide the caches of this model along the context",
            "leave --decode-cp out, or name vllm and a model whose layers all see the whole context",
        ),
    )  # fmt: skip
    for heads in (1,) if shape.latent else shape.kv_heads:
        yield _copies(p, heads)


def _copies(p: Parallelism, heads: int) -> Rule:
    return Rule(
        (p.decode_cp == 1) | (p.tp % maximum(heads * p.decode_cp, 1.0) == 0),
        lambda: Problem(
            "plan.decode-cp-copies",
            f"decode-cp = {p.decode_cp:g}, but of tp {p.tp:g} only {max(float(p.tp) / heads, 1.0):g} hold the same head",
            f"use decode-cp {nearest(float(p.decode_cp), divisors(max(int(p.tp) // heads, 1)))}, or a larger tp",
        ),
    )
