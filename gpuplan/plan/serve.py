"""What serving means here: sequences in flight, their lengths, how weights and KV cache are stored, and the rules."""

from __future__ import annotations

from collections.abc import Iterator

from gpuplan.errors import Problem
from gpuplan.models.image_rules import Seen
from gpuplan.models.stored import StoredTensors
from gpuplan.models.stored_parts import StoredPart
from gpuplan.num import Num
from gpuplan.plan.attention_ranks import attention_rules
from gpuplan.plan.context_ranks import context_rules
from gpuplan.plan.drafting import Drafting, drafting_rules
from gpuplan.plan.load import Load
from gpuplan.plan.parallelism import Parallelism, Rule, Shape, at_least_one, parallel_rules
from gpuplan.plan.words import ExpertExchange, KvFormat, WeightFormat
from gpuplan.record import Record


class Settings(Record, kw_only=True):
    """What is set of an engine in place of its habits; None: as the engine has it. Of the same names as the options."""

    max_context: float | None = None
    """Tokens of the longest sequence that is accepted: the cache must have room for one."""
    max_sequences: float | None = None
    max_batched_tokens: float | None = None
    memory_utilization: float | None = None
    page_tokens: float | None = None
    adapters: float | None = None
    """Low-rank adapters that a rank has places for."""
    adapter_rank: float | None = None
    cache_tokens: float | None = None
    """Tokens that the cache of a replica holds at most."""
    cache_memory: float | None = None
    """Bytes of the cache on each rank, in place of what the share of memory leaves."""
    overlap_batches: bool | None = None
    """Two micro-batches by turns: tokens of one travel to their experts while the other computes."""
    chunked_prefill: bool | None = None
    recv_interval: float | None = None
    """Decode steps from one look at new requests to the next; None: every step."""
    mixed_chunk: bool | None = None
    """Chunks of prompts run in one pass with sequences that decode."""
    batch_wait: float | None = None
    """Steps that new requests wait at most until their prompts fill a pass, or until each rank of attention has one."""
    graphs: bool | None = None
    awq_kernels: bool | None = None
    """Weights in 4 bits are multiplied by the kernels that AWQ came with."""
    gpu_layers: float | None = None
    """Layers on the accelerators, the last ones; the head counts as one more. The others run in the memory of the host."""
    host_experts: float | None = None
    """Layers whose experts run in the memory of the host."""
    host_weights: float | None = None
    """Bytes of weights of each accelerator that are copied from the memory of the host for every pass."""
    host_memory: float | None = None
    """Bytes of it for each accelerator, in place of what is on record."""
    host_bandwidth: float | None = None
    """Bytes a second that it delivers at most."""

    @property
    def uses_host(self) -> bool:
        """Whether something of the model is kept in the memory of the host."""
        return any(one is not None for one in (self.gpu_layers, self.host_experts, self.host_weights))


class Images(Record, kw_only=True):
    """The images of a request, all of one size, and what the model makes of each."""

    count: float
    seen: Seen
    where: str
    """The address of the code that cuts them so."""
    across: bool = False
    """Layers of attention across see them, and the prompt has a mark for each alone."""


class ServePlan(Record, kw_only=True):
    """A complete serving plan: `batch` sequences for each replica; `dp` counts replicas.

    `prompt` tokens of text in, `output` tokens out (0 of a model that only reads); `context` is the most tokens that one sequence
    may hold. Sequences that the cache has no room for wait where `queues` says so; otherwise all must fit at once.
    """

    parallel: Parallelism
    batch: Num
    prompt: Num
    output: Num
    context: Num
    weights: WeightFormat = "bf16"
    kv_cache: KvFormat = "bf16"
    queues: bool = True
    settings: Settings = Settings()
    drafting: Drafting | None = None
    """What drafts tokens that the model verifies; None: nothing does."""
    expert_exchange: ExpertExchange | None = None
    """How tokens reach experts that ranks of attention share; None: as the engine has it."""
    load: Load | None = None
    """The load that it is under; None: none, or a batch that is always there."""
    group: int = 0
    """Quantised weights that share a scale; 0: as is usual of the type."""
    plain: tuple[tuple[str, str, float], ...] = ()
    """Parts of kinds of layers that are not quantised, and how much of them: (kind, part, share)."""
    checkpoint: StoredTensors | None = None
    """The bytes of the checkpoint part by part; None: as `weights` stores them."""
    parts: tuple[StoredPart, ...] = ()
    """Parts whose bytes a value are their own, where a checkpoint mixes types."""
    images: Images | None = None
    """What a request shows; None: text alone."""
    beams: float = 1.0
    """Hypotheses that a search keeps of each sequence."""
    audio: float | None = None
    """Seconds of the recording that is written down; None: the model hears nothing."""

    @property
    def read(self) -> Num:
        """Tokens that a request brings: its text, and its images."""
        return self.prompt if self.images is None else self.prompt + self.images.count * self.images.seen.tokens


def serve_rules(
    plan: ServePlan, shape: Shape, positions: int = 0, *, generates: bool = True, can: frozenset[str] = frozenset()
) -> Iterator[Rule]:
    """Every rule that a serving plan must keep, for one plan or a grid.

    `positions` are those that the model learned one by one: there is none beyond them. Other positions can be scaled. A model that
    `generates` nothing has no output. `can` is what the engine knows besides the usual degrees.
    """
    yield from parallel_rules(plan.parallel, shape)
    if shape.one_split:
        yield split_once(plan.parallel, shape)
    if shape.joined is not None:
        yield within_a_machine(plan.parallel, shape.joined)
    yield from attention_rules(
        plan.parallel, shape, can, overlaps=bool(plan.settings.overlap_batches), exchange=plan.expert_exchange
    )
    yield from context_rules(plan.parallel, shape, can)
    yield from drafting_rules(plan.drafting, plan.parallel)
    lengths = {"batch": plan.batch, "prompt": plan.prompt, "output": plan.output if generates else 1, "context": plan.context}
    for name, value in lengths.items():
        yield at_least_one("plan.batch", name, value)
    yield Rule(
        plan.read + plan.output <= plan.context,
        lambda: Problem(
            "plan.context",
            f"prompt {plan.prompt:.12g}{_shown(plan)} + output {plan.output:.12g} tokens exceed the context of {plan.context:.12g}",
            "use a longer --context or shorter sequences",
        ),
    )
    together = (plan.settings.adapters is None) == (plan.settings.adapter_rank is None)
    yield Rule(
        together,
        lambda: Problem(
            "plan.adapters", "the number of adapters and their rank go together", "give both --adapters and --adapter-rank"
        ),
    )
    longest = plan.settings.max_context
    if longest is not None:
        yield Rule(
            plan.context <= longest,
            lambda: Problem(
                "plan.longest",
                f"a context of {plan.context:.12g} tokens is beyond the {longest:.12g} that the engine is set to accept",
                "use shorter sequences or a longer --max-context",
            ),
        )
    if positions:
        yield Rule(
            plan.context <= positions,
            lambda: Problem(
                "plan.max-context",
                f"a context of {plan.context:.12g} tokens exceeds the {positions} positions that the model learned",
                f"use --context {positions} or less",
            ),
        )


UNJOINED = "plan.no-network"
"""The code of the rule that nothing is known to join the machines that a replica would be spread over."""


def split_once(p: Parallelism, shape: Shape) -> Rule:
    """A replica is divided by its layers or by its matrices."""
    return Rule(
        (p.tp == 1) | (p.pp == 1),
        lambda: Problem(
            "plan.one-split",
            f"tp {p.tp:g} with pp {p.pp:g}: {shape.engine} divides layers or rows of matrices over accelerators, and not both",
            "use --tp 1 or --pp 1",
        ),
    )


def within_a_machine(p: Parallelism, joined: int) -> Rule:
    """Replicas stay within machines of so many accelerators that nothing is known to join."""
    replica = p.tp * p.pp * p.attention_dp
    return Rule(
        joined % replica == 0,
        lambda: Problem(
            UNJOINED,
            f"a replica of {replica:g} accelerators would span machines of {joined}, and no network between them is known",
            "name one behind an @, such as `@ib-ndr`, or divide it so that it stays within one",
        ),
    )


def _shown(plan: ServePlan) -> str:
    """The tokens of images beside those of text, in words."""
    one = plan.images
    return "" if one is None else f" + {one.count:g} {'image' if one.count == 1 else 'images'} of {one.seen.tokens:g}"
