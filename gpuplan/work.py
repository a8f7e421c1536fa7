"""What must be done, as work items that name no hardware: the vocabulary between `workload` and `machine`."""

from __future__ import annotations

from typing import Literal, TypeAlias

from gpuplan.record import Record
from gpuplan.term import Term

Dtype: TypeAlias = Literal["fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "int8", "fp4", "int4"]
CollectiveKind: TypeAlias = Literal["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast"]
Path: TypeAlias = Literal["scale_up", "scale_out", "host", "disk"]


class Matmul(Record, kw_only=True):
    """`batch` products of [m, k] by [k, n]; m counts rows of activations (tokens), k is contracted.

    `dtype` is the type that the tensor cores multiply; the byte terms are per element of the left matrix, of the right
    matrix (weights, which may be stored narrower than they are multiplied) and of the result.
    """

    name: str
    m: Term
    n: Term
    k: Term
    batch: Term
    dtype: Dtype
    left_bytes: Term
    right_bytes: Term
    out_bytes: Term
    sums_rows: bool = False
    """The gradient of weights: `k` counts rows of activations, which the product sums over, and `m` a width."""
    grouped: bool = False
    """The products are of experts, one kernel over all of them, and `m` is their mean."""
    by_heads: bool = False
    """The products are of heads, of which each has its own weights, one kernel of a library over all of them."""
    uneven: Term | None = None
    """Of products over experts: 1 where these have uneven numbers of rows. None: all have `m`."""
    tokens: Term | None = None
    """Of products over experts: tokens of the step on all ranks, by which engines choose a kernel."""
    ungated: bool = False
    """Of products over experts: these have one matrix up and no gate, for which an engine may have another kernel."""
    elsewhere: Term | None = None
    """Of products over experts: rows of tokens that are here too, and whose experts other ranks hold. None: there are none."""
    blocked: bool = False
    """Operands carry a scale for each block of 128 (weights: 128 x 128), as DeepSeek-V3's fp8 does."""
    micro: bool = False
    """Stored weights carry a scale for each block of 32 (the MX formats)."""
    coded: bool = False
    """Stored weights are put together of several fields and scales of scales, or looked up (GGUF's K and I types)."""


class Attention(Record, kw_only=True):
    """Fused attention of `sequences` sequences; `kv_len` positions are visible to the last query.

    Prefill and training: q_len = kv_len, `causal`. Decode: q_len = 1 (or the draft length). `window` limits the
    positions that a query sees (None: all). `k_dim` and `v_dim` are per head. MLA decode reads one latent of
    `k_dim` for all heads: kv_heads = 1 and values are part of the keys (`v_shared`). `appends`: the new keys and values
    are also copied into a cache for later steps (prefill of a serving engine).
    """

    name: str
    sequences: Term
    q_len: Term
    kv_len: Term
    heads: Term
    kv_heads: Term
    k_dim: Term
    v_dim: Term
    kv_element_bytes: Term
    dtype: Dtype
    causal: bool
    window: Term | None = None
    v_shared: bool = False
    backward: bool = False
    appends: bool = False


class Stream(Record, kw_only=True):
    """`size` bytes read and written by `launches` memory-bound kernels (norms, activations, casts, optimizer)."""

    name: str
    size: Term
    launches: Term
    scan: bool = False
    """The kernels of a scan over the tokens (convolution, states of chunks), which keep less of the memory busy than a copy."""


class Collective(Record, kw_only=True):
    """One collective over `group` ranks; `size` is the whole buffer in bytes, as nccl-tests counts it.

    `stride` is the distance between neighbouring ranks of the group in the machine's rank order
    (1 = neighbours on the fastest level), which decides the fabric levels that the group spans.
    """

    name: str
    kind: CollectiveKind
    size: Term
    group: Term
    stride: Term
    copies: Term | None = None
    """All-to-all of experts: how many copies of each token `size` holds, where copies for one unit cross the fabric once."""
    reach: Term | None = None
    """With `copies`: the share of the group that the copies of one token may go to (node-limited routing)."""
    by_owners: bool = False
    """An all-gather whose ranks broadcast what is theirs: a node receives each byte from elsewhere once."""
    calls: Term | None = None
    """How many equal calls send `size` bytes together, one after the other; None: one."""


class Transfer(Record, kw_only=True):
    """`size` bytes from one rank to the rank `stride` away, or from the host or its disks; `back`: to them."""

    name: str
    size: Term
    path: Path
    stride: Term
    back: bool = False


WorkItem: TypeAlias = Matmul | Attention | Stream | Collective | Transfer
