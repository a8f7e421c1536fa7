"""What was an engine like before? States of a profile up to a date, by what has changed since."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from gpuplan.errors import Problem, UsageError
from gpuplan.schema import DAY, Limits, Pattern, Schema
from gpuplan.specs.base import Id, Section
from gpuplan.specs.engine_defaults import (
    Beside,
    Dispatching,
    ExpertWays,
    Loading,
    Loss,
    MicroBatch,
    Recomputed,
    Replayed,
    TrainingDefaults,
    Types,
)
from gpuplan.specs.engine_memory import LargeDevice, PaddedExperts, ProfilingEra, SmallDevice, WindowedKv
from gpuplan.specs.engine_policies import Piece, Portion, Rotary, StoredBytes
from gpuplan.specs.engine_schedule import (
    InChunks,
    Schedule,
    StageHost,
    UndividedContexts,
    UndividedWindows,
    VectorDecode,
    WarpExperts,
)
from gpuplan.specs.measured_base import MatmulKind
from gpuplan.specs.quantity import BytesField, CountField, FactorField, RatioField, SecondsField, ShareField, Sourced, TextField
from gpuplan.specs.training_habits import Pace, Share

POLICIES: Mapping[str, tuple[str, str]] = {
    "graph": ("loss", "graph"), "logits": ("loss", "alive"), "adapter_inputs": ("adapters", "kept"),
    "expert_host": ("experts", "host"), "expert_start": ("experts", "start"), "layer_host": ("host", "layer"),
    "dp_overlap": ("overlap", "dp"), "ep_overlap": ("overlap", "ep"), "logits_split": ("loss", "split"), "piece": ("loss", "piece"),
    "fused_capped": ("loss", "fused_capped"),
    "edges": ("sharding", "edges"), "gathered": ("tensor", "gathered"),
    "heads": ("attention", "heads"), "scores": ("attention", "scores"), "remade_attention": ("recompute", "remade_attention"),
    "unfused_latent": ("attention", "unfused_latent"), "at_step": ("gradients", "at_step"),
    "temporaries": ("gradients", "temporaries"), "stand_ins": ("gradients", "stand_ins"), "fp8_weight": ("fp8", "weight"),
    "adapter_read": ("adapters", "read"), "adapter_read_backward": ("adapters", "read_backward"),
    "dequantise_in_place": ("adapters", "dequantise_in_place"), "rotary": ("host", "rotary"), "slice": ("host", "slice"),
}  # fmt: skip
"""What an era may state of a training profile: a policy, and its part."""
BYTES = ("logits", "logits_split", "at_step", "temporaries", "stand_ins", "fp8_weight")
"""Those of them that say how much memory is held."""
_UNSAID = ("recompute", "inputs_from", "unsharded", "loaded", "loss", "micro_batch", "dispatcher", "etp", "beside", "replayed")
"""What an era may state of that which is taken where a user says nothing."""
RELEASE = re.compile(r"^v?(\d+(?:\.\d+)*)(?:[.+-]?(?:post|rc|dev|[a-z]).*)?$")
SAID = re.compile(r"^(?:(20\d\d)|(\d\d))[-.](\d{1,2})(?:[-.](\d{1,2}))?(?:\.\d+)?$")


class Releases(Section):
    """When releases came out."""

    days: Annotated[dict[str, Annotated[str, Pattern(DAY)]], Limits(1)]
    """The day of each release, as `YYYY-MM-DD`; `0.11` stands for every 0.11.x that is not there itself."""


class Builds(Releases):
    """When builds of an engine were made that others ship under releases of their own."""

    names: Annotated[tuple[str, ...], Limits(1)]
    """What ships them, by the names that the engine stands in for."""

    def day_of(self, said: str, name: str) -> str | None:
        """The day of the build in a release; None: none that begins with the same two numbers is on record.

        >>> found = Builds(source="log", names=("nim",), days={"1.0.0": "2024-05-30"})
        >>> found.day_of("1.0.3", "nim"), found.day_of("1.8.0", "nim")
        ('2024-05-30', None)
        """
        release = RELEASE.match(said)
        if release is None or _numbers(release[1])[:2] not in {_numbers(one)[:2] for one in self.days}:
            return None
        return dated(said, self.days, name)[0]


class ServingEra(Schema):
    """What an engine did otherwise in serving; the names are those of its serving profile."""

    memory_utilization: ShareField | None = None
    page_tokens: CountField | None = None
    windowed_kv: WindowedKv | None = None
    max_batched_tokens: CountField | None = None
    max_sequences: CountField | None = None
    small_device: SmallDevice | None = None
    """The limits on small devices and which these were, in place of those that `max_batched_tokens` and `max_sequences` change."""
    large_device: LargeDevice | None = None
    schedule: Schedule | None = None
    in_chunks: InChunks | None = None
    kernels_per_layer: RatioField | None = None
    norm_kernels: RatioField | None = None
    padded_experts: PaddedExperts | None = None
    vector_decode: VectorDecode | None = None
    undivided_contexts: UndividedContexts | None = None
    undivided_windows: UndividedWindows | None = None
    warp_experts: WarpExperts | None = None
    near_groups: RatioField | None = None
    tokens_told: Literal["of-pages", "of-concurrency"] | None = None
    profiling: ProfilingEra | None = None
    workspace: RatioField | None = None
    graphs: BytesField | None = None
    layer_graphs: BytesField | None = None
    layer_host: SecondsField | None = None
    prompt_host: SecondsField | None = None
    replays_prompts: bool | None = None
    eager_host: SecondsField | None = None
    latent_prompt_host: SecondsField | None = None
    linear_prompt_host: SecondsField | None = None
    step_host: SecondsField | None = None
    sequence_host: SecondsField | None = None
    server_sequence_host: SecondsField | None = None
    page_host: SecondsField | None = None
    joined_host: SecondsField | None = None
    rank_wait: SecondsField | None = None
    stage_host: StageHost | None = None
    request_host: SecondsField | None = None
    server_host: SecondsField | None = None
    prefill_residual: FactorField | None = None
    decode_residual: FactorField | None = None
    whole_chunks: bool | None = None
    sums_each_half: bool | None = None

    def changes(self) -> dict[str, Any]:
        """The fields of a serving profile that this changes, and their values."""
        own = (name for name in self.field_names() if name != "profiling")
        return {name: value for name in own if (value := getattr(self, name)) is not None}


class Fallback(Section):
    """Until when an engine fell back to what it was in an era, for caches that its new kernels could not read."""

    until: Annotated[str, Pattern(DAY)]
    """The day of the last software that did."""
    kv_cache: Annotated[tuple[str, ...], Limits(1)]
    """The types of caches, asked for by name, that it did so for."""
    not_on: tuple[str, ...] = ()
    """Families of accelerators whose kernels read them."""

    def holds(self, month: str, kv_cache: str | None, family: str) -> bool:
        """Whether a question of that month, type of cache and family is answered so."""
        return month <= self.until and kv_cache in self.kv_cache and family not in self.not_on


class Era(Schema):
    """What an engine did otherwise in software of a month or before; a later era's values hold where this one says nothing."""

    name: str
    """The month of the last software of the era, as `YYYY-MM`, or its day."""
    note: str
    """What changed then."""
    source: Id
    """The source of the change."""
    fallback: Fallback | None = None
    """Who ran it as in this era in later software too; None: nobody."""
    profile: Id | None = None
    """The profile that describes the engine of that time, in place of this one."""
    pace: dict[str, Pace] | None = None
    """Paces of that time, by accelerator or family; kinds that are missing are as they are today."""
    expert_host: SecondsField | None = None
    expert_start: SecondsField | None = None
    layer_host: SecondsField | None = None
    rotary: Rotary | None = None
    """How queries and keys were turned."""
    slice: SecondsField | None = None
    """Host time to find a slice of a document where ranks exchanged tokens for heads."""
    dp_overlap: Share | None = None
    ep_overlap: Share | None = None
    held_logits: BytesField | None = None
    """Bytes alive for each logit at the loss of a compiled model."""
    logits: BytesField | None = None
    """Bytes alive for each logit at the loss."""
    logits_split: BytesField | None = None
    """Bytes alive for each logit at the loss where tensor parallel ranks share the vocabulary."""
    fused_capped: Literal["as-others", "whole"] | None = None
    """Whether a head that was fused with the loss capped logits."""
    piece: Piece | None = None
    """The pieces that a chunked loss was made of."""
    graph: Literal["freed", "held"] | None = None
    """Whether the graph of the last micro-batch, as large as this one's, was there until this one's logits were made."""
    edges: Literal["together", "in-turn"] | None = None
    """Whether embedding and head were gathered one after the other."""
    gathered: Literal["again", "kept"] | None = None
    """Whether what was gathered along the sequence for products was kept whole."""
    heads: Literal["own", "repeated"] | None = None
    """Whether keys and values were written out for every head of the queries."""
    scores: Literal["fused", "masked", "written"] | None = None
    """Whether scores stayed in the kernel of attention, which may have been handed a mask, or were written out."""
    remade_attention: tuple[str, ...] | None = None
    """Families of accelerators on which selective recomputation ran attention again."""
    unfused_latent: tuple[str, ...] | None = None
    """Families of accelerators on which latent attention (MLA) had no fused kernel."""
    at_step: BytesField | None = None
    """Bytes that the optimizer's step made for each parameter beside its states."""
    temporaries: Portion | None = None
    """Copies of the second moment that the step made for a moment."""
    fp8_weight: BytesField | None = None
    """Bytes of the working copies of a weight in fp8 training."""
    stand_ins: StoredBytes | None = None
    """Bytes for each element of one matrix of each shape that stood in for gradients."""
    segments: Literal["fixed", "growing"] | None = None
    """Whether segments of the allocator stayed with the tensors that they were made for."""
    adapter_read: StoredBytes | None = None
    """Traffic of a forward pass for each element that an adapted matrix reads."""
    adapter_read_backward: StoredBytes | None = None
    """The same of a backward pass."""
    dequantise_in_place: BytesField | None = None
    """Traffic of widening a frozen weight of 4 bits by one kernel."""
    adapter_inputs: Literal["dropped", "input"] | None = None
    """What adapters kept of the result of a norm."""
    second_sums: StoredBytes | None = None
    """Bytes of the gradients that every rank kept whole between micro-batches under the second version of FSDP."""
    attention_like: Id | None = None
    """The engine whose measured attention kernels stand for those of that time."""
    recompute: Recomputed | None = None
    """What was made again where nobody said."""
    inputs_from: CountField | None = None
    """Tokens of the shortest sequences whose layers' inputs waited in the memory of the host."""
    unsharded: Types | None = None
    """What 16-bit training was where layers were divided and no weights sharded, where nobody said."""
    loaded: Loading | None = None
    """In which type weights were loaded where nobody said."""
    loss: Loss | None = None
    """Whether logits were made and reduced piece by piece where nobody said."""
    micro_batch: MicroBatch | None = None
    """How a rank's batch was cut where nobody said."""
    dispatcher: Dispatching | None = None
    """How tokens reached experts where nobody said."""
    etp: ExpertWays | None = None
    """How many ranks shared an expert where nobody said."""
    beside: Beside | None = None
    """Whether tokens travelled beside another micro-batch of interleaved stages where nobody said."""
    replayed: Replayed | None = None
    """Which training was replayed whole from graphs where nobody said."""
    fused_quantisation: tuple[MatmulKind, ...] | None = None
    """Kinds of matmuls whose input the kernels before them quantised then."""
    own_kernels: bool = False
    """Whether it served with other kernels: measured files hold those as `<engine>.<era>`, and else those of today."""
    not_on: TextField | None = None
    """Families of accelerators that no release of that time ran on, in place of those of today, with spaces between them."""
    serving: ServingEra | None = None
    """What it did otherwise in serving."""

    def holds(self, month: str, kv_cache: str | None = None, family: str = "") -> bool:
        """Whether software of a month, or of a day, was so for caches of that type on accelerators of that family."""
        return month[: len(self.name)] <= self.name or (self.fallback is not None and self.fallback.holds(month, kv_cache, family))

    def defaults(self, today: TrainingDefaults | None) -> TrainingDefaults | None:
        """What was taken then where a user said nothing; `today` is what held after."""
        given = {name: value for name in _UNSAID if (value := getattr(self, name)) is not None}
        return (today or TrainingDefaults()).replaced(**given) if given else today

    def changes(self, profile: Any) -> dict[str, Any]:
        """The fields of a training profile that this era changes, and their values."""
        given: dict[str, Any] = {}
        for name, (policy, part) in POLICIES.items():
            if (value := getattr(self, name)) is not None:
                given[policy] = given.get(policy, getattr(profile, policy)).replaced(**{part: value})
        if self.pace:
            paces = dict(profile.pace)
            for who, one in self.pace.items():
                said = {kind: value for kind in one.field_names() if (value := getattr(one, kind)) is not None}
                paces[who] = paces[who].replaced(**said) if who in paces else one
            given["pace"] = paces
        if self.segments is not None:
            given["segments"] = self.segments
        if self.held_logits is not None and profile.compiled is not None:
            given["compiled"] = profile.compiled.replaced(held_logits=self.held_logits)
        if self.second_sums is not None and profile.fsdp is not None:
            given["fsdp"] = profile.fsdp.replaced(second_sums=self.second_sums)
        return given


def ever(profile: Any, eras: Sequence[Era]) -> dict[str, Any]:
    """The fields of a training profile whose bytes were others before, with those of every era in their range.

    Whoever does not say which month's software runs may have any of them.
    """
    given: dict[str, Any] = {}
    for name, (policy, part) in POLICIES.items():
        if name in BYTES and (before := [value for era in eras if (value := getattr(era, name)) is not None]):
            now = given.get(policy, getattr(profile, policy))
            if (today := getattr(now, part)) is not None:
                given[policy] = now.replaced(**{part: spanning(today, before)})
    logits = [era.held_logits for era in eras if era.held_logits is not None]
    if logits and profile.compiled is not None and profile.compiled.held_logits is not None:
        given["compiled"] = profile.compiled.replaced(held_logits=spanning(profile.compiled.held_logits, logits))
    sums = [era.second_sums for era in eras if era.second_sums is not None]
    if sums and profile.fsdp is not None and profile.fsdp.second_sums is not None:
        given["fsdp"] = profile.fsdp.replaced(second_sums=spanning(profile.fsdp.second_sums, sums))
    return given


def spanning(today: Sourced, before: Sequence[Sourced]) -> Sourced:
    """A value whose range reaches to what it was before.

    >>> now, then = Sourced(4.0, "B", "4 B", accept=(4.0, 10.0)), Sourced(13.0, "B", "13 B", accept=(6.0, 14.0))
    >>> spanning(now, [then]).accept
    (4.0, 13.0)
    """
    low, high = today.accept or (today.value, today.value)
    values = [one.value for one in before]
    return today.replaced(accept=(min(low, *values), max(high, *values)))


def split_name(name: str) -> tuple[str, str | None]:
    """An engine's name and what stands behind its `@`, a release or a month.

    >>> split_name("vllm@0.11"), split_name("nemo@ 25.04 "), split_name("nemo")
    (('vllm', '0.11'), ('nemo', '25.04'), ('nemo', None))
    """
    engine, at, said = name.partition("@")
    return (engine, said.strip()) if at else (name, None)


def month_of(said: str) -> str | None:
    """The month that a text means: `25.04` and `2025-04` are April 2025; None: it means none.

    >>> month_of("25.04"), month_of("2024-12-01"), month_of("0.11")
    ('2025-04', '2024-12', None)
    """
    found = SAID.match(said)
    if found is None or not 1 <= int(found[3]) <= 12:
        return None
    return f"{found[1] or '20' + found[2]}-{int(found[3]):02d}"


def dated(said: str, releases: Mapping[str, str], name: str) -> tuple[str, str]:
    """The day or month of a release, or of a text that means one, and what is to be said where another release answers for it.

    `releases` has the day of each release on record; of `0.11`, the last of those that begin so is meant.

    >>> known = {"0.9.0": "2025-05-28", "0.9.2": "2025-07-08", "0.11.0": "2025-10-04"}
    >>> dated("0.9", known, "vLLM"), dated("v0.9.0.post1", known, "vLLM"), dated("25.04", {}, "NeMo")
    (('2025-07-08', ''), ('2025-05-28', ''), ('2025-04', ''))
    >>> dated("0.9.1", known, "vLLM")
    ('2025-05-28', 'vLLM 0.9.1 is not on record: it is taken as 0.9.0 of 2025-05-28, the nearest before it')
    >>> dated("0.12", known, "vLLM")[1]
    'vLLM 0.12 is not on record: it is taken as 0.11.0 of 2025-10-04, the newest that is'

    Raises:
        UsageError: neither a release that there can be nor a month.
    """
    month = month_of(said)
    if month is not None:
        return month, ""
    if not releases:
        hint = "write a release or a month, such as `nemo@25.04` or `torchtitan@2024-12`"
        raise UsageError(Problem("engine.date", f"`{said}` is no month of software", hint))
    known = {_numbers(one): day for one, day in releases.items()}
    newest = max(known)
    found = RELEASE.match(said)
    if found is None:
        hint = f"write a release or a month, such as `@{_shown(newest)}` or `@{known[newest][:7]}`"
        raise UsageError(Problem("engine.date", f"`{said}` is neither a release of {name} nor a month", hint))
    parts = _numbers(found[1])
    alike = [one for one in known if one[: len(parts)] == parts or parts[: len(one)] == one]
    if alike:
        return known[max(alike)], ""
    before = [one for one in known if one[:2] == parts[:2] and one < parts]
    if not before and (parts < newest or parts[0] != newest[0]):
        near = sorted(known, key=lambda one: [abs(a - b) for a, b in zip((*one, 0, 0), (*parts, 0, 0), strict=False)])[:2]
        both = " and ".join(_shown(one) for one in sorted(near))
        hint = f"near are {both}; the newest on record is {_shown(newest)}; or name a month"
        raise UsageError(Problem("engine.release", f"{name} has no release {said}", hint))
    taken, why = (max(before), "the nearest before it") if before else (newest, "the newest that is")
    text = f"{name} {found[1]} is not on record: it is taken as {_shown(taken)} of {known[taken]}, {why}"
    return known[taken], text


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split("."))


def _shown(release: tuple[int, ...]) -> str:
    return ".".join(map(str, release))
