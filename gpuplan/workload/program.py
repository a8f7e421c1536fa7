"""What does a layer do, as one immutable list of typed operations that everything else about the layer is folded from?

An operation says what it is for (its role), where in the layer it stands (its part), in which pass it runs, what hardware has to do
(a work item), which tensors it makes that a backward pass may read, and which matrices of weights it multiplies with. Forward and
backward work, recomputation, kept activations, adapters, weights that are read and exchanges are folds over that list: a new kind
of layer is written once. No number depends on a label; labels are made of roles, for people.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum

from gpuplan.plan.remat import Result
from gpuplan.record import Record
from gpuplan.term import Term
from gpuplan.work import Attention, Collective, Matmul, Stream, WorkItem
from gpuplan.workload.context import ONE


class Phase(Enum):
    """The pass in which an operation runs."""

    FORWARD = "forward"
    BACKWARD = "backward"
    AGAIN = "recompute"


class Part(Enum):
    """Where in a layer an operation stands."""

    LAYER = ""
    MIXER = "mixer"
    MIXER2 = "mixer2"
    CROSS = "cross"
    CHANNELS = "mlp"
    """A dense feed-forward layer."""
    EXPERTS = "experts"
    SHARED = "shared"
    """Dense feed-forward layers beside experts."""


MIXERS = (Part.MIXER, Part.MIXER2, Part.CROSS)
FEED_FORWARD = (Part.CHANNELS, Part.EXPERTS, Part.SHARED)


class Role(Enum):
    """What an operation is for."""

    QKV = "qkv"
    LATENTS = "latents"
    QUERY_UP = "query_up"
    KEY_VALUE_UP = "key_value_up"
    ABSORBED_KEYS = "absorbed_keys"
    ABSORBED_VALUES = "absorbed_values"
    INDEX_QUERIES = "index_queries"
    INDEX_KEYS = "index_keys"
    INDEX_SCORES = "index_scores"
    CHOICE = "choice"
    """Of the tokens that sparse attention sees."""
    ATTENTION = "attention"
    STATE_IN = "state_in"
    STATE_STEPS = "state_steps"
    STEP_SIZES = "step_sizes"
    DECAYS = "decays"
    OUTPUT_GATE = "output_gate"
    """Products of low rank to the decay of each channel and to the gate; a gate beside latent attention."""
    SCAN = "scan"
    WITHIN_CHUNKS = "within_chunks"
    OVER_CHUNKS = "over_chunks"
    GROUPED_OUT = "grouped_out"
    """The output of groups of heads to fewer values, before `OUT`."""
    STREAMS = "streams"
    """How residual streams are mixed."""
    OUT = "out"
    """The product that leads from a mixer back to the hidden width."""
    UP = "up"
    DOWN = "down"
    ROUTER = "router"
    NARROWED = "narrowed"
    WIDENED = "widened"
    """Experts that work in a narrower space: the products before and behind them."""
    WRITTEN_OUT = "written_out"
    """Narrow weights, in 16 bits for the product that follows."""
    EXPERTS_UP = "experts_up"
    EXPERTS_DOWN = "experts_down"
    MASKS = "masks"
    SLOTTED = "slotted"
    UNSLOTTED = "unslotted"
    """One-hot masks of tokens and slots, and the products with them before and behind experts of a fixed capacity."""
    EMBEDDED = "embedded"
    """Pixels to patches."""
    PROJECTED = "projected"
    """What an encoder makes to the width of a language model."""
    ADAPTER_DOWN = "adapter_down"
    ADAPTER_UP = "adapter_up"
    SCALES = "scales"
    ELEMENTWISE = "elementwise"
    STATE = "state"
    PERMUTE = "permute"
    GATE = "gate"
    SLICES = "slices"
    BIASES = "biases"
    """Of experts, where they are added expert by expert behind the products."""
    SUM = "sum"
    GATHERED_QKV = "gathered_qkv"
    GATHERED_INPUT = "gathered_input"
    COPIED_INPUT = "copied_input"
    DISPATCH = "dispatch"
    COMBINE = "combine"
    GATHERED_COPIES = "gathered_copies"
    GATHERED_QUERIES = "gathered_queries"
    GATHERED_SCALES = "gathered_scales"
    MERGED = "merged"
    """Attention of ranks that each see a stripe of the context."""


ENDS = frozenset((Role.OUT, Role.DOWN, Role.EXPERTS_DOWN))
"""Products that are cut by rows over tensor parallel ranks: what they make is summed."""
WITHOUT_WEIGHTS = frozenset((Role.SCAN, Role.WITHIN_CHUNKS, Role.OVER_CHUNKS, Role.INDEX_SCORES))
"""Products of activations and states alone."""
MASKED = frozenset((Role.SLOTTED, Role.UNSLOTTED))
"""Products of a mask with activations."""
OVER_SEQUENCES = frozenset((Role.ATTENTION, Role.INDEX_SCORES, Role.CHOICE))
"""What sees sequences as a whole, however many passes their tokens take."""
ADAPTERS = frozenset((Role.ADAPTER_DOWN, Role.ADAPTER_UP, Role.SCALES))
TENSOR_PARALLEL = frozenset((Role.SUM, Role.GATHERED_QKV, Role.GATHERED_INPUT))
CONTEXT_PARALLEL = frozenset((Role.GATHERED_QUERIES, Role.GATHERED_SCALES, Role.MERGED))
EXPERT_PARALLEL = frozenset((Role.DISPATCH, Role.COMBINE, Role.GATHERED_COPIES))


class Tensor(Record, kw_only=True):
    """What an operation makes on one rank: rows of `width` elements, for each of `rows` tokens or copies of tokens."""

    result: Result
    part: Part
    width: Term
    rows: Term
    multiplied: bool = False
    """In the backward pass only products of weights read it, so that it may be kept in the type that they multiply."""
    element: Term | None = None
    """Bytes of an element that is kept in a type of its own; None: as activations are."""
    repeated: Term | None = None
    """The width where keys or values are written out for every head of the queries; None: nothing is repeated."""
    columns: Term | None = None
    """Columns of the product that makes it, where it is stored wider or narrower than it is made; None: its width."""
    alternate: bool = False
    """Kept where all but every other product is run again."""
    normed: bool = False
    """A norm of its own makes it of what a product made (queries and keys of Qwen3, OLMo 2 or Gemma 3)."""


class Matrix(Record, kw_only=True):
    """One matrix of weights of a rank, `copies` of it (experts): [fan_in, fan_out]."""

    name: str
    fan_in: Term
    fan_out: Term
    copies: Term = ONE
    adapted_as: tuple[str, ...] = ("all",)
    """The choices of `--lora-targets` that adapt it."""


class Op(Record, kw_only=True):
    """One operation of a layer on one rank."""

    role: Role
    part: Part
    phase: Phase
    item: WorkItem
    reads: tuple[Tensor, ...] = ()
    """What it reads that no product made: an activation's result, tokens that have travelled."""
    makes: tuple[Tensor, ...] = ()
    needed_again: bool = True
    """The backward pass reads what it makes, so that it runs again where that is not kept."""
    matrices: tuple[Matrix, ...] = ()
    beside: str = ""
    """The matrix that an adapter stands beside, such as `q`: a part has adapters of one role beside several."""

    def called(self, phase: Phase, key: str) -> str:
        """What it is called in a pass of a kind of block: no two operations of a layer share a label."""
        name = label(phase, key, self.part, self.role)
        return f"{name}.{self.beside}" if self.beside else name

    @property
    def ends(self) -> bool:
        """What it makes on a rank is a part of a sum over tensor parallel ranks."""
        return self.role in ENDS


class LayerProgram(Record):
    """The operations of one layer on one rank in one pass, in order."""

    ops: tuple[Op, ...] = ()

    def __add__(self, other: LayerProgram) -> LayerProgram:
        """Both, one after the other."""
        return LayerProgram((*self.ops, *other.ops))

    def having(self, wanted: Callable[[Op], bool]) -> LayerProgram:
        """The operations that something holds for."""
        return LayerProgram(tuple(op for op in self.ops if wanted(op)))

    def of(self, *roles: Role) -> LayerProgram:
        """The operations of some roles."""
        return self.having(lambda op: op.role in roles)

    def within(self, parts: Iterable[Part]) -> LayerProgram:
        """The operations in some parts of the layer."""
        found = frozenset(parts)
        return self.having(lambda op: op.part in found)

    @property
    def matmuls(self) -> list[Matmul]:
        """All products."""
        return [op.item for op in self.ops if isinstance(op.item, Matmul)]

    @property
    def attentions(self) -> list[Attention]:
        """All attention."""
        return [op.item for op in self.ops if isinstance(op.item, Attention)]

    @property
    def streams(self) -> list[Stream]:
        """All passes over memory between products."""
        return [op.item for op in self.ops if isinstance(op.item, Stream)]

    @property
    def tensor_collectives(self) -> list[Collective]:
        """What tensor parallel ranks exchange."""
        return [op.item for op in self.ops if op.role in TENSOR_PARALLEL and isinstance(op.item, Collective)]

    @property
    def context_collectives(self) -> list[Collective]:
        """What ranks exchange that each see a stripe of the context."""
        return [op.item for op in self.ops if op.role in CONTEXT_PARALLEL and isinstance(op.item, Collective)]

    @property
    def expert_collectives(self) -> list[Collective]:
        """Tokens on their way to the experts and back."""
        return [op.item for op in self.ops if op.role in EXPERT_PARALLEL and isinstance(op.item, Collective)]

    @property
    def tensors(self) -> list[Tensor]:
        """What the operations read and make, in order."""
        return [tensor for op in self.ops for tensor in (*op.reads, *op.makes)]

    @property
    def matrices(self) -> list[Matrix]:
        """The matrices of weights that it multiplies with."""
        return [matrix for op in self.ops for matrix in op.matrices]


def label(phase: Phase | str, key: str, part: Part, what: Role | str) -> str:
    """How people call an operation: `forward.dense.mixer.qkv`, `decode.moe.experts.experts_up`.

    >>> label(Phase.FORWARD, "dense", Part.MIXER, Role.QKV)
    'forward.dense.mixer.qkv'
    """
    words = (phase.value if isinstance(phase, Phase) else phase, key, part.value, what.value if isinstance(what, Role) else what)
    return ".".join(word for word in words if word)
