"""What does a datasheet say about one accelerator: memory, dense peak rates, links, power?"""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

from gpuplan.errors import Problem, UnknownError, did_you_mean
from gpuplan.schema import field
from gpuplan.specs.base import Id, Month, Section, SpecFile
from gpuplan.specs.quantity import (
    BytesField,
    BytesPerSField,
    CountField,
    FlopPerSField,
    HertzField,
    RatioField,
    ShareField,
    Sourced,
    TextField,
    WattsField,
)

RateName: TypeAlias = Literal["fp64", "fp64_tensor", "fp32", "tf32", "bf16", "fp16", "fp8", "int8", "fp6", "fp4", "int4"]
RATE_NAMES: tuple[str, ...] = get_args(RateName)


class Wired(Section):
    """How much of a shared memory the system lets a graphics processor hold at a time."""

    small: RatioField
    """The share of a small memory."""
    up_to: BytesField
    """The largest memory that counts as small."""
    large: RatioField
    """The share of a larger one."""


class Memory(Section):
    """The memory that weights and activations live in."""

    capacity: BytesField
    """The capacity as the vendor means it; where the vendor prints GB and means GiB, the note says so."""
    capacity_reported: BytesField | None = None
    """What the driver reports as the total, where someone has printed it."""
    capacity_visible: BytesField | None = None
    """What CUDA or its like tells programs is there (cudaMemGetInfo), of which engines take their shares, where it is less."""
    capacity_options: tuple[BytesField, ...] = ()
    """Other capacities that the same part is sold with."""
    type: str
    """HBM3, GDDR6, LPDDR5 …"""
    bandwidth: BytesPerSField
    """The datasheet bandwidth."""
    bus_bits: CountField | None = None
    """The width of the memory bus."""
    pin_rate: BytesPerSField | None = None
    """The data rate of one pin, such as `5.24 Gbit/s`."""
    unified: bool = False
    """Whether CPU and operating system share it."""
    wired: Wired | None = None
    """The share that the system gives to the accelerator, where it sets a bound."""
    kept: BytesField | None = None
    """What the operating system and its programs take of it."""


class DenseRates(Section):
    """Dense peak rates with 32-bit accumulation; a data type that is left out or `null` is not supported."""

    fp64: FlopPerSField | None = None
    """64-bit, outside matrix units."""
    fp64_tensor: FlopPerSField | None = None
    """64-bit on matrix units."""
    fp32: FlopPerSField | None = None
    """32-bit, the fastest dense path that keeps 24 bits of mantissa."""
    tf32: FlopPerSField | None = None
    """19-bit inputs on matrix units."""
    bf16: FlopPerSField | None = None
    """bfloat16 on matrix units."""
    fp16: FlopPerSField | None = None
    """16-bit on matrix units, accumulating in 32 bits."""
    fp8: FlopPerSField | None = None
    """8-bit floating point on matrix units."""
    int8: FlopPerSField | None = None
    """8-bit integers, in OP/s."""
    fp6: FlopPerSField | None = None
    """6-bit floating point."""
    fp4: FlopPerSField | None = None
    """4-bit floating point."""
    int4: FlopPerSField | None = None
    """4-bit integers, in OP/s."""


class Sparsity(Section):
    """Structured sparsity, which no estimate counts on."""

    pattern: str
    """Such as `2:4`."""
    factor: RatioField
    """How much the printed sparse rate exceeds the dense one."""
    dtypes: tuple[RateName, ...]
    """The data types that have it."""
    printed: dict[str, FlopPerSField] = field(default_factory=dict)
    """Sparse rates where they are not the factor times the dense one."""
    note: str = ""
    """What is odd about it."""


class Units(Section):
    """The compute units that the peak rates can be recounted from."""

    name: Literal["sm", "cu", "core", "xe-core", "mme"]
    """What the vendor calls one unit."""
    count: CountField
    """How many are enabled."""
    clock: HertzField
    """The clock of the peak rates; where there is `tensor_clock`, that of fp64, fp64_tensor and fp32 only."""
    tensor_clock: HertzField | None = None
    """The clock of the matrix rates where it differs."""
    flop_per_clock: dict[RateName, CountField]
    """FLOP (or OP) of one unit in one clock, dense."""
    tolerance: RatioField | None = None
    """How far the recounted rates may be from the printed ones where clocks and rates do not belong together; the note says why."""


class ScaleUp(Section):
    """The vendor's own link between accelerators."""

    kind: str
    """NVLink 4, xGMI, ICI, NeuronLink …"""
    bandwidth_per_direction: BytesPerSField | None = None
    """What one accelerator can send on all its links together."""
    links: CountField | None = None
    """How many links one accelerator has."""
    link_bandwidth_per_direction: BytesPerSField | None = None
    """What one link carries one way."""
    peer_bandwidth: BytesPerSField | None = None
    """What one accelerator can send to one other, where that is less than the whole."""
    domain: CountField
    """How many accelerators the largest normal group has."""
    topology: Literal["switched", "ring", "mesh", "hybrid-mesh", "torus"]
    """How the group is wired; a bridge is a mesh."""
    layout: str
    """The wiring in words."""
    note: str = ""
    """What is odd about it."""


class Pcie(Section):
    """The link to the host, where it is PCIe."""

    gen: CountField
    """The generation."""
    lanes: CountField
    """The width."""
    bandwidth_per_direction: BytesPerSField
    """One way, after encoding: of 16 lanes 15.75 GB/s in generation 3, 31.5 in 4 and 63 in 5."""


class MigProfile(Section):
    """One way to cut a part of an NVIDIA GPU off as a device of its own (multi-instance GPU)."""

    memory: BytesField
    """What one instance has: as the driver lists it, otherwise as the name of the profile prints it."""
    memory_share: ShareField
    """The share of memory, memory bandwidth and L2 that goes with it."""
    compute_share: ShareField
    """The share of the compute units as NVIDIA prints it, such as 1/7 as 0.142857; `units` is exact where it is known."""
    units: CountField | None = None
    """The compute units of one instance, where the driver's list has been printed."""
    count: CountField
    """How many of them one GPU can hold at once."""


class Accelerator(SpecFile):
    """One accelerator as its vendor describes it; every figure is for one `unit`."""

    vendor: Id
    """Who makes it; also the folder of the file."""
    architecture: str
    """The vendor's name of the architecture and chip."""
    family: Id
    """The architecture family, which lends its measurements to parts that have none."""
    silicon: Id | None = None
    """Its chip, where kernels of that were fitted apart from the family's: they are nearer than those."""
    released: Month
    """When it was announced or could be had, to within some months."""
    unit: Literal["gpu", "die", "board", "chip", "soc", "socket"]
    """What all figures of the file are for."""
    devices: CountField | None = None
    """How many devices software sees in one unit, where it is not one."""
    memory: Memory
    """The memory that weights and activations live in."""
    compute_dense: DenseRates
    """Dense peak rates."""
    other_rates: dict[str, FlopPerSField] = field(default_factory=dict)
    """Rates that no estimate uses unasked: accumulation in 16 bits, vector units, other clocks."""
    sparsity: Sparsity | None = None
    """Structured sparsity."""
    units: Units | None = None
    """The compute units that the peak rates can be recounted from."""
    l2: BytesField | None = None
    """The cache that all units share."""
    l3: BytesField | None = None
    """A further cache behind it."""
    scratchpad: BytesField | None = None
    """On-chip memory that software manages."""
    power: WattsField | None = None
    """The power limit that the vendor prints (TDP)."""
    power_in: dict[Id, WattsField] = field(default_factory=dict)
    """Other limits, by the system whose parts are set to them."""
    processor_power: WattsField | None = None
    """What a busy processor on the same module takes of the limit, where that is of both; None: the limit is the accelerator's."""
    scale_up: ScaleUp | None = None
    """The vendor's own link between accelerators."""
    pcie: Pcie | None = None
    """The link to the host."""
    compute_capability: str | None = None
    """NVIDIA's version of the instruction set."""
    driver_names: tuple[str, ...] = ()
    """The strings that drivers report; they find the file as aliases do."""
    form_factor: str = ""
    """SXM5, OAM, PCIe dual-slot …"""
    mig: dict[str, MigProfile] = field(default_factory=dict)
    """The MIG profiles by name (`1g.10gb`), without those that differ only in video engines (`+me`, `-me`, `+gfx`)."""
    serves_only: TextField | None = None
    """What its vendor says where it is made for inference and nothing trains on it; no plan of training takes it unasked."""
    default_system: Id | None = None
    """The system that is meant when only the accelerator is named."""
    default_system_of_several: Id | None = None
    """The one that is meant when more of it are named, where `default_system` holds one alone and no network."""
    default_engines: dict[Literal["train", "serve", "alone"], Id] = field(default_factory=dict)
    """The engine that is meant for a task when none is named, where the usual ones do not run on it; `alone`: the one that a single
    user of a single one mostly serves with, where they do."""
    confidence: Literal["high", "medium", "low"]
    """How well the sources agree: `low` where a main figure rests on one weak source."""

    def home_of(self, count: int) -> Id | None:
        """The system that so many accelerators are taken as part of where only they are named; None: none is known."""
        return self.default_system if count == 1 else self.default_system_of_several or self.default_system

    def limit_in(self, system: str | None) -> Sourced | None:
        """The power limit of a part of a system; None: it is not on record."""
        return self.power if system is None else self.power_in.get(system, self.power)

    def peak(self, dtype: str) -> Sourced:
        """The dense peak rate of a data type in FLOP/s.

        Raises:
            UnknownError: the accelerator has no such rate, or there is no such data type.
        """
        rate: Sourced | None = getattr(self.compute_dense, dtype) if dtype in RATE_NAMES else None
        if rate is not None:
            return rate
        if dtype not in RATE_NAMES:
            hint = did_you_mean(dtype, RATE_NAMES) or f"known are {', '.join(RATE_NAMES)}"
            raise UnknownError(Problem("spec.unknown-dtype", f"`{dtype}` is not a data type that gpuplan has rates for", hint))
        hint = f"it has {', '.join(self.dtypes())}"
        raise UnknownError(Problem("spec.no-rate", f"{self.id} has no {dtype} rate", hint))

    def multiplied_as(self, dtype: str) -> str:
        """The type whose rate products of a type have: fp32 where 16 bits are slower, as on GP102, since kernels widen them there.

        cuBLAS and llama.cpp do so on chips of compute capability 6.1 (CUDA C++ Programming Guide, Arithmetic Instructions: 2 fp16
        results a clock and multiprocessor, 128 of fp32).

        Raises:
            UnknownError: as `peak`.
        """
        rate, wide = self.peak(dtype), self.compute_dense.fp32
        return "fp32" if dtype in ("fp16", "bf16") and wide is not None and rate.value < wide.value else dtype

    def dtypes(self) -> tuple[str, ...]:
        """The data types that have a dense rate."""
        return tuple(name for name in RATE_NAMES if getattr(self.compute_dense, name) is not None)

    def usable_memory(self) -> Sourced:
        """The memory in bytes that software can use: what the driver reports, otherwise the capacity with a note that says so."""
        if self.memory.capacity_reported is not None:
            return self.memory.capacity_reported
        capacity = self.memory.capacity
        notes = [capacity.note, "the nominal capacity: what the driver reports is not on record, and is often less"]
        return capacity.replaced(note="; ".join(note for note in notes if note))
