"""What was measured of an accelerator's kernels and fabric: fitted parameters, and how far they are from what was measured."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, TypeAlias

from gpuplan import physics
from gpuplan.schema import Fault, PositiveInt, field
from gpuplan.specs.base import Date, Id, Section, SpecFile
from gpuplan.specs.measured_base import (
    Added,
    Depth,
    Dtype,
    Fit,
    Kind,
    MatmulKind,
    Message,
    More,
    OfElement,
    Operations,
    Part,
    PerElement,
    PerTile,
    Ranks,
    Ratio,
    Reach,
    Residual,
    Settles,
    Share,
    Slower,
    Start,
    Tile,
    Tokens,
    Waves,
)
from gpuplan.specs.measured_machine import MeasuredMachine
from gpuplan.specs.quantity import FactorField, Measure, Sourced


class MatmulFit(Section):
    """Parameters of matmuls in one data type; see gpuplan/formulas/kernels.py for what each does."""

    efficiency: Share
    """Share of the dense peak on large shapes, before the losses below."""
    memory_efficiency: Share
    """Share of the datasheet bandwidth."""
    start: Start
    """Constant time of one kernel inside a CUDA graph."""
    unhidden: Part
    """Share of the shorter of arithmetic and traffic that the longer does not hide."""
    tail: Waves
    """Unfilled end of the last wave, in tiles of 128 x 128 results on every unit."""
    throttle: Slower
    """How much longer arithmetic takes once the power limit holds the clock down."""
    settle: Settles
    """How long that takes to set in."""
    short_depth: Depth
    """Contraction length at which filling the pipeline takes as long as the products."""
    tile_m: Tile
    """Rows of results that are computed together."""
    tile_n: Tile
    """Columns of results that are computed together."""
    walk: PerElement | None = None
    """Time that each element of the contraction takes however few results there are: products of one result wait for each other."""
    split: Reach | None = None
    """Longest piece of a contraction that is walked along: longer ones are cut, and their pieces run side by side (split-K)."""
    fine: Slower | None = None
    """How much longer arithmetic takes in small tiles, of `tile_m` by `tile_n`, than in large ones of 128 by 256."""
    pack: More | None = None
    """On processors: what copying the right matrix into the order in which it is multiplied costs, in shares of its bytes; products
    of one row copy nothing."""
    whole: Part | None = None
    """Share of the large tiles that run in whole waves: the last of them keeps its units waiting."""
    straddle: More | None = None
    """Of matmuls over experts: tiles of `tile_m` rows that each of them takes more because its rows begin amid a tile."""
    zeroed: Operations | None = None
    """Of matmuls over experts: passes over the result of each row whose expert another rank holds, at full datasheet bandwidth:
    kernels that keep a place for every copy of a token write zeros there, and sum them."""
    half_sums: Share | None = None
    """The same as `efficiency` of products that are summed in 16 bits, of the rate that the chip has for these; None: the same."""
    quantise: OfElement | None = None
    """Traffic of quantising one element of the left matrix at run time, at full datasheet bandwidth."""
    issue: Start | None = None
    """Time from launch to launch where the host started each kernel of the benchmark by itself, so that shorter ones waited for it:
    in an engine's graph nothing waits."""
    quantise_row: PerElement | None = None
    """Time that quantising takes for each row of the left matrix at least, however short the row is."""
    quantise_start: Start | None = None
    """Constant time of the kernels that quantise, where they were timed by themselves; otherwise `start` has it too."""
    reach: Annotated[Sourced, Measure("1", zero=True, within=physics.REACHED)] | None = None
    """Share of the last-level cache that stays when the kernel alone runs again and again on the same weights, as benchmarks do."""
    near: Annotated[Sourced, Measure("1", within=physics.CACHED)] | None = None
    """Rate of that cache in units of the datasheet bandwidth; in a model's step other layers have replaced the weights."""
    unit_rate: Annotated[Sourced, Measure("B/s")] | None = None
    """Bytes a second that one compute unit has under way at most; left out, the bandwidth is all that limits."""
    widen: Operations | None = None
    """Operations that widening one stored weight takes, at the rate of plain fp32 arithmetic; left out, they hide."""
    most_tokens: Tokens | None = None
    """Of a kernel for few tokens: the most tokens of a step that an engine takes it for."""
    fit: Fit | None = None
    """How well it fits."""


AttentionKind: TypeAlias = Literal["fp64", "fp32", "tf32", "bf16", "fp16", "fp8", "int8", "fp4", "int4", "bf16_on_fp8"]
"""A data type that is multiplied, or 16-bit queries over keys and values that are stored in 8 bits."""


class Leaves(Section):
    """Shapes that an attention kernel leaves to another one of the same engine, which stands under `…_beyond`."""

    widths: tuple[PositiveInt, ...] = ()
    """Head dimensions."""
    windows: bool = False
    """Whatever has a sliding window."""
    alone: Tile | None = None
    """Key heads that so many heads share at most (1: those of plain multi-head attention)."""
    beyond: Tile | None = None
    """Key heads that more heads share than this."""
    idle: Share | None = None
    """Decode that has fewer blocks of keys than this share of the compute units."""
    block_keys: Tile | None = None
    """Keys of one such block."""

    def faults(self) -> Iterator[Fault]:
        """A share of idle units without the size of a block, or the other way round."""
        if (self.idle is None) != (self.block_keys is None):
            yield Fault("spec.incomplete", "`idle` and `block_keys` belong together", "give both or none of them")


class PrefillFit(Section):
    """Parameters of fused attention over many queries in one data type."""

    efficiency: Share
    """Share of the dense peak for long sequences and wide heads."""
    memory_efficiency: Share
    """Share of the datasheet bandwidth."""
    start: Start
    """Constant time of one kernel."""
    unhidden: Part
    """Share of the shorter of arithmetic and traffic that the longer does not hide."""
    tail: Waves
    """Unfilled end of the last wave, in tiles of `rows` queries against all keys."""
    throttle: Slower
    """How much longer arithmetic takes once the power limit holds the clock down."""
    settle: Settles
    """How long that takes to set in."""
    short_depth: Depth
    """Head dimension at which softmax takes as long as the products; see `attention_compute_seconds`."""
    rows: Tile
    """Queries of one tile."""
    per_tile: PerTile
    """Time that a unit needs to start a tile and to write its result."""
    cached: Annotated[Sourced, Measure("B", zero=True, within=physics.CACHE)]
    """Bytes of queries, keys and results that a cache passes on from kernel to kernel; see `far_bytes`."""
    append: More
    """Traffic of copying new keys and values into the pages of a cache, in their own size, at full datasheet bandwidth."""
    per_token: PerElement
    """Time that copying takes for each token however few its keys are."""
    array: Tile | None = None
    """Side of a systolic array: head dimensions take up whole multiples of it. None: as wide as they are."""
    masks: Part | None = None
    """1: keys outside a sliding window are computed and masked; left out, they are skipped."""
    leaves: Leaves | None = None
    """Shapes that another kernel takes."""
    fit: Fit | None = None
    """How well it fits."""


class DecodeFit(Section):
    """Parameters of decode attention by the data type of the stored keys and values."""

    efficiency: Share
    """Share of the dense 16-bit peak, with the queries of a key head padded to `rows`."""
    memory_efficiency: Share
    """Share of the datasheet bandwidth for caches that no on-chip memory holds."""
    start: Start
    """Constant time of one attention: kernel and reduction."""
    per_group: PerTile
    """Time that each group (one sequence, one key head) adds once every unit has one."""
    unhidden: Part | None = None
    """Share of the shorter of keys and groups that the longer does not hide; left out, all of it."""
    packs: Tile | None = None
    """Heads of one key head that read its keys together; left out, all of them."""
    leaves: Leaves | None = None
    """Shapes that another kernel takes."""
    ramp: Added
    """What middle sizes lose while the chip fills; see `decode_seconds`."""
    rows: Tile
    """Rows of the tile that holds the queries of one key head."""
    page: Tile
    """Keys that are read together."""
    walk: PerElement
    """Time that each key of a group takes when the chip is idle otherwise: keys are cut into so many pieces at most."""
    reach: Annotated[Sourced, Measure("1", zero=True, within=physics.REACHED)]
    """Share of the last-level cache that stays when the kernel alone runs again and again on the same keys, as benchmarks do."""
    near: Annotated[Sourced, Measure("1", within=physics.CACHED)]
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
    backward_share: Annotated[Sourced, Measure("1", within=physics.BACKWARD)] | None = None
    """Efficiency of the backward kernel as a share of the forward one."""
    backward_extra: OfElement | None = None
    """Traffic of the kernels around the backward one for each element of the queries; see `backward_prepare_bytes`."""


class StreamFit(Section):
    """Memory-bound kernels: norms, activations, casts, optimizer."""

    efficiency: Share
    """Share of the datasheet bandwidth."""
    launch: Start
    """Constant time of one kernel."""
    fit: Fit | None = None
    """How well it fits."""


class ScanFit(Section):
    """Kernels of scans over tokens, as state-space layers have them: convolution along the tokens, states of chunks."""

    memory_efficiency: Share
    """Share of the datasheet bandwidth."""
    fit: Fit | None = None
    """How well it fits."""


class HostFit(Section):
    """Copies between the accelerator and pinned memory of its host."""

    efficiency: Share
    """Share of the link's rate on the way to the accelerator."""
    launch: Start
    """Constant time of one copy."""
    back: Share | None = None
    """Share of the link's rate on the way to the host; left out, the same."""
    fit: Fit | None = None
    """How well it fits."""


class LaunchFit(Section):
    """What the host needs to start one kernel, however short it is."""

    eager: Start
    """Launched one by one, without waiting for each."""
    graph: Start
    """Inside a CUDA graph (or a program compiled as a whole): the distance of empty kernels."""
    slower: Ratio | None = None
    """How many times as long PyTorch's host takes to issue an operator as with CUDA, where the host times of engines were counted;
    None: as long."""


class BesideFit(Section):
    """What collectives take of the chip from the kernels that run beside them."""

    channels: Annotated[Sourced, Measure("1", whole=True, within=physics.UNITS)]
    """Units that a collective inside a node has to itself: one for each of its blocks."""
    channels_between: Annotated[Sourced, Measure("1", whole=True, within=physics.UNITS)]
    """The same of a collective between nodes."""
    waves: Annotated[Sourced, Measure("1", within=physics.WIDER)] | None = None
    """Waves in which products run meanwhile whose blocks are as many as there are units; left out, blocks wait for any unit."""


class RingFit(Section):
    """Rings through all ranks of all nodes, where the library knows no other way; see `ring_start_seconds`."""

    share: Share
    """Share of the network's rate that they reach."""
    hop: Start
    """A step of a large message, whichever node it goes to: the ring has the pace of its slowest."""
    flagged_hop: Start
    """A step of a small message to another node, with a flag beside every few words."""
    flagged_hop_inside: Start
    """The same inside one."""
    switch: Message
    """Size of the message, divided by the ranks, beyond which it is large."""


class CollectiveFit(Section):
    """One kind of collective on one level of a fabric; see gpuplan/formulas/collectives.py."""

    pair: Share
    """Share of the link rate that two ranks reach on large buffers."""
    full: Annotated[Sourced, Measure("1", within=physics.ADDED)]
    """Share of the link rate that `ranks` ranks or more reach."""
    ranks: Ranks
    """How many ranks `full` was measured with."""
    start: Start
    """Latency of two ranks."""
    per_doubling: Added
    """Latency that each doubling of the ranks adds."""
    ramp: Added
    """What middle sizes lose; see `level_seconds`."""
    bulk: Added
    """What messages beyond `switch` take more: a protocol with the full rate that synchronises; see `level_start_seconds`."""
    switch: Message
    """Size of the message, divided by the ranks, at which the library changes over; 1 B where it has no other protocol."""
    ring: RingFit | None = None
    """Of a network between nodes: how rings through all their ranks go; None: the library has other ways."""
    fit: Fit | None = None
    """How well it fits."""


class OwnAllReduceFit(CollectiveFit):
    """The all-reduce kernel of a serving engine; `bulk` is what the second shot costs."""

    most_ranks: Ranks
    """Ranks up to which the engine runs it: those of one host, or two without a switch between them."""
    up_to: Message
    """The largest message that the engine gives to it, as far as the rows tell; what is larger goes to the library."""
    issue: Start | None = None
    """What the host needs to call it by itself, without a graph; in a step the host runs ahead."""


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
    custom_all_reduce: OwnAllReduceFit | None = None
    """One- and two-shot all-reduce kernels of serving engines inside a CUDA graph."""
    engines: dict[Id, OwnAllReduceFit] = field(default_factory=dict)
    """The same of engines that bring another one."""
    transfer: CollectiveFit | None = None
    """Point to point; `pair` and `start` count."""

    def faults(self) -> Iterator[Fault]:
        """More than a link carries, where no switch can add."""
        for kind in self.field_names():
            fit = getattr(self, kind)
            if isinstance(fit, CollectiveFit) and kind != "all_reduce" and not physics.SHARE.holds(fit.full.value):
                message = f"`{fit.full.text}` is no {physics.SHARE.says}"
                yield Fault("spec.physics", message, "only all-reduces pass the rate of a link, where switches add", (kind, "full"))


class EngineFits(Section):
    """What differs when an engine's own kernels run."""

    matmul: dict[MatmulKind, MatmulFit] = field(default_factory=dict)
    """Instead of the matmuls above."""
    grouped: dict[MatmulKind, MatmulFit] = field(default_factory=dict)
    """Instead of the matmuls over experts above."""
    grouped_ungated: dict[MatmulKind, MatmulFit] = field(default_factory=dict)
    """Parameters of the kernel that the engine takes for experts without a gate, where it takes another one for those with one."""
    grouped_few: dict[MatmulKind, MatmulFit] = field(default_factory=dict)
    """Another kernel over experts that the engine takes for steps of few tokens, `most_tokens` at most."""
    batched: dict[MatmulKind, MatmulFit] = field(default_factory=dict)
    """Products that each head has for itself, by a library's batched kernels; otherwise matmuls speak for them."""
    prefill: dict[AttentionKind, PrefillFit] = field(default_factory=dict)
    """Instead of the prefill attention above; for a training engine, the attention that it trains with."""
    prefill_beyond: dict[AttentionKind, PrefillFit] = field(default_factory=dict)
    """The kernel for what the one under `prefill` leaves."""
    encoder: dict[Dtype, PrefillFit] = field(default_factory=dict)
    """Attention without a mask, as encoders of images and sound run it; otherwise prefill speaks for it."""
    encoder_beyond: dict[Dtype, PrefillFit] = field(default_factory=dict)
    """The kernel for what the one under `encoder` leaves."""
    widened: dict[AttentionKind, PrefillFit] = field(default_factory=dict)
    """Prefill over keys and values widened from a latent; otherwise that of plain heads speaks for it."""
    decode: dict[Dtype, DecodeFit] = field(default_factory=dict)
    """Instead of the decode attention above."""
    decode_beyond: dict[Dtype, DecodeFit] = field(default_factory=dict)
    """The kernel for what the one under `decode` leaves."""
    latent: dict[Dtype, DecodeFit] = field(default_factory=dict)
    """Instead of the decode over a latent above."""
    stream: StreamFit | None = None
    """Instead of the memory-bound kernels below; for kernels of a graph, say, where those below are issued one by one."""
    residual: dict[Kind, Residual] = field(default_factory=dict)
    """How far measurements lie from these predictions, where it differs from what is said below."""


class ServingRuns(Section):
    """What a user's own benchmark of an engine tells of one model: in place of the factors in the engine's profile."""

    prefill: FactorField | None = None
    """Measured over counted prefill time; `accept` holds what the runs scatter."""
    decode: FactorField | None = None
    """Measured over counted time of a decode step, likewise."""


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
    siblings: tuple[Id, ...] = ()
    """Files of chips of the same silicon under other power limits, beside the one that this is like."""
    machine: MeasuredMachine | None = None
    """How it was measured, in files that `gpuplan calibrate` wrote; what these lack comes from a shipped file of the same id."""
    widen: Annotated[Sourced, Measure("1", within=physics.WIDER)] | None = None
    """Factor by which the residual ranges grow when they come from `like`."""
    units: Annotated[Sourced, Measure("1", whole=True, within=physics.UNITS)] | None = None
    """Compute units (SMs, CUs, cores) of the chip that was measured."""
    matmul: dict[MatmulKind, MatmulFit] = field(default_factory=dict)
    """Matmuls by the data type that is multiplied."""
    grouped: dict[MatmulKind, MatmulFit] = field(default_factory=dict)
    """Matmuls over the experts of a rank in one kernel, beside the traffic of routing; left out, priced as batched ones."""
    attention: AttentionFits | None = None
    """Fused attention."""
    stream: StreamFit | None = None
    """Memory-bound kernels."""
    scan: ScanFit | None = None
    """Kernels of scans over tokens; left out, as fast as other memory-bound ones."""
    collective: Fabric | None = None
    """Collectives on the accelerator's own links (NVLink, xGMI, ICI), or on the fabric that the file describes."""
    network: Fabric | None = None
    """Collectives between nodes, as measured here: shares of what the network of the machine carries for one accelerator."""
    host: HostFit | None = None
    """Copies over the host link."""
    launch: LaunchFit | None = None
    """Starts of kernels by the host."""
    beside: BesideFit | None = None
    """What collectives take from kernels that run beside them; left out, nothing but memory bandwidth."""
    engines: dict[Id, EngineFits] = field(default_factory=dict)
    """Exceptions by serving or training engine."""
    serving: dict[Id, dict[str, ServingRuns]] = field(default_factory=dict)
    """The user's own serving runs, by engine and model."""
    residual: dict[Kind, Residual] = field(default_factory=dict)
    """How far measurements of each kind of work lie from the prediction; `attention` and `collective` stand for all their kinds."""

    def tells_kernels(self) -> bool:
        """Whether any parameter of a kernel stands in the file."""
        sections = (
            self.matmul,
            self.grouped,
            self.attention,
            self.stream,
            self.scan,
            self.collective,
            self.network,
            self.host,
            self.launch,
        )
        return any(sections)
