"""What was measured of an accelerator's kernels and fabric: fitted parameters, and how far they are from what was measured."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from gpuplan.schema import field
from gpuplan.specs.base import Date, Id, Section, SpecFile
from gpuplan.specs.measured_machine import MeasuredMachine
from gpuplan.specs.quantity import CountField, Measure, RatioField, SecondsField, Sourced

Dtype: TypeAlias = Literal["fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "int8", "fp4", "int4"]
MatmulKind: TypeAlias = Literal[
    "fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "int8", "fp4", "int4", "fp8_block", "int8_wo", "int4_wo"
]  # fmt: skip
"""A data type that is multiplied; fp8 with scales by blocks; 8- or 4-bit weights that are widened to 16 bits on the way."""
Extra: TypeAlias = Annotated[Sourced, Measure("B", zero=True)]
Kind: TypeAlias = Literal[
    "matmul", "grouped", "attention", "prefill", "decode", "stream", "collective", "all_reduce", "all_gather", "reduce_scatter",
    "all_to_all", "transfer",
]  # fmt: skip
Number: TypeAlias = Annotated[Sourced, Measure("1", zero=True)]


class Fit(Section):
    """How well a set of parameters meets the rows it was fitted to and the rows that were held back."""

    backend: str = ""
    """The library or engine whose kernels were timed, with its version."""
    rows_fitted: CountField
    """Rows that the parameters were fitted to."""
    rows_held_back: CountField
    """Rows of other shapes, on which the errors are."""
    median_ape: RatioField
    """Median of |predicted / measured - 1|."""
    p90_ape: RatioField
    """Its 90th percentile."""
    bias: str
    """Median of predicted / measured - 1, with its sign, in %."""
    far_median_ape: RatioField | None = None
    """The median error on those held-back rows of decode whose keys and values no cache holds, as in a model's step."""
    flat_median_ape: RatioField | None = None
    """The median error, on the same held-back rows, of a roofline with one efficiency for arithmetic and one for memory."""


class Residual(Section):
    """The range of measured / predicted for a kind of work, on the rows that were held back: the 10th and the 90th percentile."""

    low: RatioField
    """10th percentile, or a stated assumption."""
    high: RatioField
    """90th percentile, or a stated assumption."""


class MatmulFit(Section):
    """Parameters of matmuls in one data type; see gpuplan/formulas/kernels.py for what each does."""

    efficiency: RatioField
    """Share of the dense peak on large shapes, before the losses below."""
    memory_efficiency: RatioField
    """Share of the datasheet bandwidth."""
    start: SecondsField
    """Constant time of one kernel inside a CUDA graph."""
    unhidden: Number
    """Share of the shorter of arithmetic and traffic that the longer does not hide."""
    tail: Number
    """Unfilled end of the last wave, in tiles of 128 x 128 results on every unit."""
    throttle: Number
    """How much longer arithmetic takes once the power limit holds the clock down."""
    settle: SecondsField
    """How long that takes to set in."""
    short_depth: Number
    """Contraction length at which filling the pipeline takes as long as the products."""
    tile_m: CountField
    """Rows of results that are computed together."""
    tile_n: CountField
    """Columns of results that are computed together."""
    walk: Annotated[Sourced, Measure("s", zero=True)] | None = None
    """Time that each element of the contraction takes however few results there are: products of one result wait for each other."""
    fine: Number | None = None
    """How much longer arithmetic takes in small tiles, of `tile_m` by `tile_n`, than in large ones of 128 by 256."""
    whole: Number | None = None
    """Share of the large tiles that run in whole waves: the last of them keeps its units waiting."""
    straddle: Number | None = None
    """Of matmuls over experts: tiles of `tile_m` rows that each of them takes more because its rows begin amid a tile."""
    quantise: Extra | None = None
    """Traffic of quantising one element of the left matrix at run time, at full datasheet bandwidth."""
    fit: Fit | None = None
    """How well it fits."""


class PrefillFit(Section):
    """Parameters of fused attention over many queries in one data type."""

    efficiency: RatioField
    """Share of the dense peak for long sequences and wide heads."""
    memory_efficiency: RatioField
    """Share of the datasheet bandwidth."""
    start: SecondsField
    """Constant time of one kernel."""
    unhidden: Number
    """Share of the shorter of arithmetic and traffic that the longer does not hide."""
    tail: Number
    """Unfilled end of the last wave, in tiles of `rows` queries against all keys."""
    throttle: Number
    """How much longer arithmetic takes once the power limit holds the clock down."""
    settle: SecondsField
    """How long that takes to set in."""
    short_depth: Number
    """Head dimension at which softmax takes as long as the products; see `attention_compute_seconds`."""
    rows: CountField
    """Queries of one tile."""
    per_tile: SecondsField
    """Time that a unit needs to start a tile and to write its result."""
    cached: Extra
    """Bytes of queries, keys and results that a cache passes on from kernel to kernel; see `far_bytes`."""
    append: Number
    """Traffic of copying new keys and values into the pages of a cache, in their own size, at full datasheet bandwidth."""
    per_token: SecondsField
    """Time that copying takes for each token however few its keys are."""
    array: CountField | None = None
    """Side of a systolic array: head dimensions take up whole multiples of it. None: as wide as they are."""
    fit: Fit | None = None
    """How well it fits."""


class DecodeFit(Section):
    """Parameters of decode attention by the data type of the stored keys and values."""

    efficiency: RatioField
    """Share of the dense 16-bit peak, with the queries of a key head padded to `rows`."""
    memory_efficiency: RatioField
    """Share of the datasheet bandwidth for caches that no on-chip memory holds."""
    start: SecondsField
    """Constant time of one attention: kernel and reduction."""
    per_group: SecondsField
    """Time that each group (one sequence, one key head) adds."""
    ramp: SecondsField
    """What middle sizes lose while the chip fills; see `decode_seconds`."""
    rows: CountField
    """Rows of the tile that holds the queries of one key head."""
    page: CountField
    """Keys that are read together."""
    walk: SecondsField
    """Time that each key of a group takes when the chip is idle otherwise: keys are cut into so many pieces at most."""
    reach: Number
    """Share of the last-level cache that stays when the kernel alone runs again and again on the same keys, as benchmarks do."""
    near: Number
    """Rate of that cache in units of the datasheet bandwidth; in a model's step other layers and weights have replaced the keys."""
    fit: Fit | None = None
    """How well it fits."""


class AttentionFits(Section):
    """Fused attention."""

    prefill: dict[Dtype, PrefillFit] = field(default_factory=dict)
    """Many queries, by the data type that is multiplied."""
    decode: dict[Dtype, DecodeFit] = field(default_factory=dict)
    """One or a few queries, by the data type that is stored: bf16 stands for 16 bits, fp8 for 8."""
    latent: dict[Dtype, DecodeFit] = field(default_factory=dict)
    """The same where all heads share one latent that is key and value in one (MLA); left out, as above."""
    backward_share: RatioField | None = None
    """Efficiency of the backward kernel as a share of the forward one."""
    backward_extra: Extra | None = None
    """Traffic of the kernels around the backward one for each element of the queries; see `backward_prepare_bytes`."""


class StreamFit(Section):
    """Memory-bound kernels: norms, activations, casts, optimizer."""

    efficiency: RatioField
    """Share of the datasheet bandwidth."""
    launch: SecondsField
    """Constant time of one kernel."""
    fit: Fit | None = None
    """How well it fits."""


class HostFit(Section):
    """Copies between the accelerator and pinned memory of its host."""

    efficiency: RatioField
    """Share of the link's rate on the way to the accelerator."""
    launch: SecondsField
    """Constant time of one copy."""
    back: RatioField | None = None
    """Share of the link's rate on the way to the host; left out, the same."""
    fit: Fit | None = None
    """How well it fits."""


class LaunchFit(Section):
    """What the host needs to start one kernel, however short it is."""

    eager: SecondsField
    """Launched one by one, without waiting for each."""
    graph: SecondsField
    """Inside a CUDA graph (or a program compiled as a whole): the distance of empty kernels."""


class CollectiveFit(Section):
    """One kind of collective on one level of a fabric; see gpuplan/formulas/collectives.py."""

    pair: RatioField
    """Share of the link rate that two ranks reach on large buffers."""
    full: RatioField
    """Share of the link rate that `ranks` ranks or more reach."""
    ranks: CountField
    """How many ranks `full` was measured with."""
    start: SecondsField
    """Latency of two ranks."""
    per_doubling: SecondsField
    """Latency that each doubling of the ranks adds."""
    ramp: SecondsField
    """What middle sizes lose; see `level_seconds`."""
    bulk: SecondsField
    """What messages beyond `switch` take more: a protocol with the full rate that synchronises; see `level_start_seconds`."""
    switch: Extra
    """Size of the message, divided by the ranks, at which the library changes over; 1 B where it has no other protocol."""
    fit: Fit | None = None
    """How well it fits."""


class Fabric(Section):
    """Collectives on the links between accelerators, or on a network."""

    all_reduce: CollectiveFit
    """Sum to all."""
    all_gather: CollectiveFit
    """Also what broadcasts are taken for."""
    reduce_scatter: CollectiveFit
    """Sum, each rank keeps its part."""
    all_to_all: CollectiveFit
    """Each rank to each."""
    custom_all_reduce: CollectiveFit | None = None
    """One- and two-shot all-reduce kernels of serving engines inside a CUDA graph; `bulk` is what the second shot costs."""
    transfer: CollectiveFit | None = None
    """Point to point; `pair` and `start` count."""


class EngineFits(Section):
    """What differs when an engine's own kernels run."""

    matmul: dict[MatmulKind, MatmulFit] = field(default_factory=dict)
    """Instead of the matmuls above."""
    grouped: dict[MatmulKind, MatmulFit] = field(default_factory=dict)
    """Instead of the matmuls over experts above."""
    prefill: dict[Dtype, PrefillFit] = field(default_factory=dict)
    """Instead of the prefill attention above; for a training engine, the attention that it trains with."""
    decode: dict[Dtype, DecodeFit] = field(default_factory=dict)
    """Instead of the decode attention above."""


class Measured(SpecFile):
    """Fitted parameters of an accelerator, of an architecture family, or of a kind of fabric."""

    describes: Literal["accelerator", "family", "fabric"]
    """What the file is about; a family lends its parameters to accelerators that have no file."""
    measured: Date | None = None
    """When the rows were published or taken."""
    software: tuple[str, ...] = ()
    """Libraries and versions that were timed."""
    like: Id | None = None
    """Another file of this folder that gives what is missing here."""
    machine: MeasuredMachine | None = None
    """How it was measured, in files that `gpuplan calibrate` wrote; what these lack comes from a shipped file of the same id."""
    widen: RatioField | None = None
    """Factor by which the residual ranges grow when they come from `like`."""
    units: CountField | None = None
    """Compute units (SMs, CUs, cores) of the chip that was measured."""
    matmul: dict[MatmulKind, MatmulFit] = field(default_factory=dict)
    """Matmuls by the data type that is multiplied."""
    grouped: dict[MatmulKind, MatmulFit] = field(default_factory=dict)
    """Matmuls over the experts of a rank in one kernel, beside the traffic of routing; left out, priced as batched ones."""
    attention: AttentionFits | None = None
    """Fused attention."""
    stream: StreamFit | None = None
    """Memory-bound kernels."""
    collective: Fabric | None = None
    """Collectives on the accelerator's own links (NVLink, xGMI, ICI), or on the fabric that the file describes."""
    network: Fabric | None = None
    """Collectives between nodes, as measured here: shares of what the network of the machine carries for one accelerator."""
    host: HostFit | None = None
    """Copies over the host link."""
    launch: LaunchFit | None = None
    """Starts of kernels by the host."""
    engines: dict[Id, EngineFits] = field(default_factory=dict)
    """Exceptions by serving or training engine."""
    residual: dict[Kind, Residual] = field(default_factory=dict)
    """How far measurements of each kind of work lie from the prediction; `attention` and `collective` stand for all their kinds."""
