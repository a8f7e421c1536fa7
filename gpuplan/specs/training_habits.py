"""How fast does an engine run kinds of work in whole steps, over the same kernels measured one by one?"""

from __future__ import annotations

from typing import Annotated, TypeAlias

from gpuplan.schema import Schema
from gpuplan.specs.quantity import FactorField, Measure, RatioField, SecondsField, Sourced

Share: TypeAlias = Annotated[Sourced, Measure("1", zero=True)]


class Pace(Schema):
    """How long kinds of work take in whole steps of an engine, over the same kernels measured one by one."""

    matmul: RatioField | None = None
    """Matmuls in 16 or 32 bits."""
    matmul_fp8: RatioField | None = None
    """Matmuls in 8 bits or less, with casts, scales and transposes."""
    attention: RatioField | None = None
    """Forward attention: an engine's era may have older kernels than those that were measured."""
    attention_backward: RatioField | None = None
    elementwise: RatioField | None = None
    """Memory-bound work: norms, activations, loss."""
    matmul_fp4: RatioField | None = None
    """Matmuls in 4 bits, likewise."""
    grouped: RatioField | None = None
    """Matmuls over many experts, beyond what other matmuls take; a rank with one expert takes no longer."""
    attention_depth: RatioField | None = None
    """Head dimension at which training attention reaches half of its rate; None: as the measured kernels."""


class Samples(Schema):
    """How it trains a model that is given by its samples alone."""

    passes: RatioField
    """How often a byte that is kept for the backward pass is read or written in a step."""
    host: SecondsField
    """Time of a step that belongs to no kernel."""
    residual: FactorField
    """Measured over counted time of computation in the middle of published runs; `accept` holds their ends."""
