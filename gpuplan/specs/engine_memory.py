"""What an engine holds in memory while it trains, beyond what the mathematics of a step needs, as sourced data."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from gpuplan.schema import Schema
from gpuplan.specs.quantity import BytesField, Measure, RatioField, Sourced

Portion: TypeAlias = Annotated[Sourced, Measure("1", zero=True)]
StoredBytes: TypeAlias = Annotated[Sourced, Measure("B", zero=True)]


class TrainingHoldings(Schema):
    """Memory habits of an engine that trains; None: nothing beyond what is needed."""

    logits: BytesField | None = None
    """Bytes that are alive for each logit at the loss; None: `logit_bytes`, which is also what is read and written there."""
    logits_split: BytesField | None = None
    """The same where tensor parallel ranks share the vocabulary and the loss; None: as without."""
    logits_fp16: BytesField | None = None
    """The same where weights are cast to fp16 as a whole, so that nothing widens the loss; None: as in bf16."""
    attention: Portion | None = None
    """Widths of queries, keys and values that are kept once more: before and after rotary, cast or made contiguous."""
    fp8_inputs: bool = False
    """With fp8 matmuls, their inputs are kept in fp8 (Transformer Engine), not cast again in the backward pass."""
    optimizer_extra: StoredBytes | None = None
    """Bytes kept for each parameter beside master weights and moments, sharded as they are."""
    fp8_weight: BytesField | None = None
    """Bytes of a weight's working copies in fp8 training; None: 4, 16 bits and fp8 both ways."""
    gradient_bf16: BytesField | None = None
    """Bytes of gradient kept for each parameter in bf16 training, where fp32 sums live beside them; None: `gradient`."""
    gradient_as_reduced: bool = False
    """Gradients that travel in 16 bits are kept so; the optimizer's step widens its shard of them to fp32."""
    buckets_are_views: bool = False
    """Communication buckets are parts of the buffers of gradients and weights, and take no memory beside them."""
    adapter_moment: BytesField | None = None
    """Bytes of each moment of an adapter; None: as its weight."""
    optimizer_scratch: Portion | None = None
    """Temporaries of an optimizer step that runs over all parameters at once, in multiples of the trained weights."""
    loads_whole: bool = False
    """Each rank holds the whole model before it is cut into shards."""
    summed_whole: BytesField | None = None
    """Bytes of a gradient's sum that every rank keeps whole between the micro-batches of a step under ZeRO-3, since the last one
    alone scatters it (FSDP's no_sync); None: every micro-batch scatters its gradients."""
    gathered_in_pipeline: bool = False
    """With pipeline stages, gathered weights and unsharded gradients stay from the first micro-batch to the last."""
    regathered_in_pipeline: bool = False
    """The same, but each forward pass releases the weights, so that each backward pass gathers them, and what is summed is
    scattered after the last one (PyTorch's stages of fully_shard modules that reshard after the forward pass)."""
    bucket_square: BytesField | None = None
    """Bytes of a communication bucket for each element of a square of the hidden width, in place of `bucket`."""
    gradients_follow: bool = False
    """Gradients go to the host as they are made where the optimizer is offloaded (ZeRO-Offload)."""
    receives_apart: bool = False
    """Pipeline stages have a buffer for the gradient of each micro-batch of the step, and keep what they handed on."""
    edges_in_turn: bool = False
    """Embedding and head are gathered where each is used, one after the other, and not both for the whole pass."""
    frees_quantised_inputs: bool = False
    """Quantised matmuls keep no input where nothing behind them is trained (torchao's NF4); bitsandbytes keeps it."""
    repeats_heads: bool = False
    """Keys and values are written out for every head of the queries before attention, and kept so."""
    new_gradients: bool = False
    """Gradients are freed after each step: where one rank makes a step of one micro-batch, none are there at the loss."""
    residual: RatioField | None = None
    """Measured over counted tensors in the middle of published runs; `accept` holds their 10th and 90th percentile."""
    spread_lengths: Portion | None = None
    """Memory that the allocator keeps beyond tensors because sequences have many lengths, as a share of activations and logits."""
