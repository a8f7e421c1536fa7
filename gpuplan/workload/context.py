"""The quantities that a layer's work is made of: shared leaves and degrees, each a term, none of them hardware."""

from __future__ import annotations

from gpuplan.formulas.basic import product, share, smaller
from gpuplan.num import all_true
from gpuplan.plan.words import ExpertExchange
from gpuplan.record import Record
from gpuplan.specs.engine import KvHeads
from gpuplan.term import DEFINITION, Formula, Source, Term, WiringError
from gpuplan.work import Dtype

ONE = Term("one", 1.0, "1", DEFINITION)
_STATE = Source("assumed", "recurrent states are kept in fp32, as the reference kernels do")
STATE_BYTES = Term("recipe.state_bytes", 4.0, "B", _STATE)


class Sharing(Record, kw_only=True):
    """Ranks of attention inside a replica, which share its experts."""

    attention_dp: Term
    """How many there are, each of `tp` accelerators."""
    kind: ExpertExchange | None = None
    """Every rank gathers the tokens of all, and sums come back scattered; or copies of tokens are sent to their experts alone.
    None: by the number of ranks."""
    gathers: Term = ONE
    """Ranks up to which tokens are gathered, where nothing says how they travel."""
    quantised: bool = False
    """Tokens are gathered in the type that experts multiply, where that is a narrower one without blocks."""
    summed_prompts: bool = False
    """Tokens of passes with prompts are gathered as a sum of buffers, and what experts made is summed for all ranks."""
    redundant: Term | None = None
    """Experts that are held a second time; None: none is."""


class Split(Record, kw_only=True):
    """How the ranks of a stage divide a layer: tensor, expert and expert-tensor ways, and the norms' share."""

    tp: Term
    ep: Term
    etp: Term
    sequence_parallel: bool = False
    """Norms and residuals are cut over the tensor parallel ranks."""
    tp_stride: Term = ONE
    kv_heads: KvHeads = "replicated"
    """What ranks do that are more than the key and value heads."""
    sharing: Sharing | None = None
    """Serving: the ranks of attention that share the experts of a replica. None: as in training."""
    context_ranks: Term | None = None
    """Serving: ranks that share the caches along the context, for attention of decode steps; None: none do."""
    experts_apart: bool = False
    """The ranks that share an expert (`etp`) are neighbours, and those that hold other experts are as far apart."""

    @property
    def sp(self) -> Term:
        """Ways that norms and residuals are cut: tp under sequence parallelism, otherwise one."""
        return self.tp if self.sequence_parallel else ONE

    @property
    def ep_stride(self) -> Term:
        """How far apart ranks with different experts are."""
        return self.etp if self.experts_apart else ONE


class Types(Record, kw_only=True):
    """Bytes and types of a pass: what matmuls multiply, and how activations, weights and the KV cache are stored."""

    matmul: Dtype
    attention: Dtype
    activation: Term
    operand: Term
    """One element of the left matrix as the tensor cores read it."""
    weight: Term
    """One element of a weight matrix as it is read from memory."""
    kv: Term
    blocked: bool = False
    """Operands carry scales by blocks."""
    streamed: Term | None = None
    """One element of what elementwise passes read and write; None: of an activation."""
    micro: bool = False
    """Stored weights carry a scale for each block of 32 (the MX formats)."""
    coded: bool = False
    """Stored weights are put together of several fields, or looked up (GGUF's K and I types)."""


class Group(Record, kw_only=True):
    """Sequences that a pass treats alike: how many, how many new tokens each brings, and the keys that the last of these sees.

    A training step and a prefill are one group of whole prompts; a decode step is one of single tokens; a step of chunked prefill
    holds a group of chunks beside a group that decodes.
    """

    sequences: Term
    q_len: Term
    kv_len: Term
    decodes: bool = False
    """Each sequence goes on from its cache: keys are compressed there, recurrent states are read and written."""
    appends: bool = False
    """New keys and values are copied into a cache for later steps."""


class OwnKernels(Record, kw_only=True):
    """What an engine launches for some kinds of layers beside what it launches for all."""

    state: Term | None = None
    """Memory-bound kernels of a layer that keeps a state in place of keys and values."""
    norm: Term | None = None
    """Kernels for each norm beyond two."""
    states_apart: bool = False
    """Projections to states are a product for each matrix that checkpoints store."""


NO_KERNELS = OwnKernels()


class Pass(Record, kw_only=True):
    """One pass of a layer: the tokens that its products see on a rank, and the groups of sequences that attention sees."""

    tokens: Term
    groups: tuple[Group, ...]
    expert_tokens: Term
    """Token copies that the experts of one rank process, for one copy a token (top_k comes from the block)."""
    expert_skew: Term | None = None
    """Tokens of the busiest expert over those of the idlest: the fullest rank has more than the mean. None: even."""
    hidden_passes: Term
    rms_passes: Term | None = None
    """Further passes over the hidden width in layers with RMS norms."""
    modulated_passes: Term | None = None
    """The same in layers whose norms are modulated by a condition; None: as many as their code has, in one type."""
    activation_passes: Term
    document: Term | None = None
    """Tokens of the documents that a sequence is packed of, where attention stays within each."""
    kernels: Term
    """Memory-bound kernels a layer."""
    own_kernels: OwnKernels = NO_KERNELS
    """What layers of a kind launch beside that."""
    whole_chunks: bool = False
    """Whether layers that see a chunk of the tokens see all of them: the engine has no kernel for chunks."""
    joins: bool = False
    """Whether halves of a layer that a model adds before ranks sum them are summed once."""
    source: Term | None = None
    """Positions of the encoder that attention across the stacks sees; None: those of the pass itself."""
    source_beams: Term | None = None
    """Hypotheses that look at the same positions of the encoder; None: each sequence has its own."""
    source_rows: Term | None = None
    """Positions of the encoder whose keys and values are made in this pass; None: they are in the cache."""

    @property
    def decodes(self) -> bool:
        """Every sequence goes on from its cache."""
        return all(group.decodes for group in self.groups)


class Leaves:
    """Makes each leaf of a model once by name, so that every part of the graph shares it."""

    def __init__(self, source: Source, made: dict[str, Term] | None = None, root: str = "model") -> None:
        self.source = source
        self.made: dict[str, Term] = {} if made is None else made
        self.root = root
        """What the names of leaves begin with."""

    def __call__(self, name: str, value: float) -> Term:
        """The leaf `model.<name>`, which must not stand for another number.

        Raises:
            WiringError: it does.
        """
        key = f"{self.root}.{name}"
        made = self.made.get(key)
        if made is None:
            made = self.made[key] = Term(key, float(value), "1", self.source)
        elif made.value != value:
            raise WiringError(f"`{key}` is {made.value:g} and {value:g}")
        return made

    @property
    def hidden(self) -> Term:
        """The model's hidden width."""
        return self.made[f"{self.root}.hidden"]

    def split(self, name: str, amount: Term, ways: Term) -> Term:
        """An amount cut `ways` ways, made once."""
        return self._once(name, share, amount=amount, ways=ways)

    def times(self, name: str, a: Term, b: Term) -> Term:
        """A product, made once."""
        return self._once(name, product, a=a, b=b)

    def least(self, name: str, a: Term, b: Term) -> Term:
        """The smaller of two, made once."""
        return self._once(name, smaller, a=a, b=b)

    def _once(self, name: str, formula: Formula[...], **args: Term) -> Term:
        """What a formula makes of some terms under a name, which must not stand for anything else.

        Raises:
            WiringError: it does: two quantities would share a number because they share a name.
        """
        made = self.made.get(name)
        if made is None:
            made = self.made[name] = formula.term(name, **args)
        elif any(part is not args[key] for key, part in made.args) and not all_true(formula.term(name, **args).value == made.value):
            raise WiringError(f"`{name}` is made twice, of different terms")
        return made
