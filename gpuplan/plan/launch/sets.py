"""Which options of `gpuplan serve` follow from what an engine's arguments set together?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from gpuplan.errors import Note, Problem, UsageError
from gpuplan.plan.precision import KV_BYTES
from gpuplan.plan.words import KvFormat
from gpuplan.record import Record

_DIRECT = (
    "model", "weights", "kv_cache", "tp", "pp", "dp", "ep", "context", "batch", "max_context", "max_sequences",
    "redundant_experts", "expert_exchange", "decode_cp", "draft_tokens", "overlap_batches", "max_batched_tokens",
    "memory_utilization", "page_tokens", "cache_tokens", "graphs", "chunked_prefill", "recv_interval", "batch_wait", "mixed_chunk",
    "awq_kernels", "adapters", "adapter_rank", "gpu_layers", "host_experts", "tensor_split",
)  # fmt: skip
_SWITCHES = ("graphs", "chunked_prefill", "overlap_batches", "mixed_chunk", "awq_kernels")


NOTHING: Mapping[str, str] = {}


class Options(Record):
    """Options of `gpuplan serve` by name, and the argument that each comes from."""

    given: dict[str, Any]
    by: dict[str, str]
    notes: tuple[Note, ...] = ()


def options(
    sets: Mapping[str, tuple[str, str]], *, lora: Mapping[str, str] = NOTHING, tags: Mapping[str, str] = NOTHING
) -> Options:
    """The options that follow from what arguments set: `sets` has text and argument by what is set.

    `lora` is what places for adapters mean where nothing is said of them, `tags` what tags behind a model's
    name say of its weights.

    >>> options({"tp": ("8", "--tp"), "dp": ("4", "--dp"), "attention_dp": ("true", "--enable-dp-attention")}).given
    {'tp': '2', 'dp': '1', 'attention_dp': '4', 'ep': '1'}

    Raises:
        UsageError: arguments that do not go together.
    """
    given: dict[str, Any] = {}
    by: dict[str, str] = {}
    notes: list[Note] = []

    def put(name: str, value: Any, source: str) -> None:
        given[name], by[name] = value, source

    for name in _DIRECT:
        if name in sets:
            text, flag = sets[name]
            put(name, text == "true" if name in _SWITCHES else text, flag)
    if "awq_kernels" in given and "weights" not in given:
        put("weights", "int4", by["awq_kernels"])
    for name in ("cache_memory", "host_weights"):
        if name in sets:
            put(name, f"{sets[name][0]} B", sets[name][1])
    if "tagged_model" in sets:
        text, flag = sets["tagged_model"]
        name, _, tag = text.partition(":")
        put("model", name, flag)
        if tag.upper() in tags:
            put("weights", tags[tag.upper()], flag)
        elif tag:
            text = f"understood, not counted yet: the types of {tag} in {flag} {name}:{tag}"
            notes.append(Note("command.not-counted", text, "name the nearest with --weights"))
    if sets.get("attention_dp", ("false", ""))[0] == "true":
        _attention_dp(sets, put)
    elif sets.get("expert_parallel", ("false", ""))[0] == "true":
        put("spread_experts", True, sets["expert_parallel"][1])
    notes += _drafts(sets, put, given, by)
    if "key_cache" in sets or "value_cache" in sets:
        notes += _two_caches(sets, put)
    if given.keys() & {"adapters", "adapter_rank"} or "lora" in sets:
        notes += _adapters(sets, lora, given, by)
    if "split" in sets:
        _split(sets, put)
    if "slot_context" in sets:
        _slots(sets, put)
    return Options(given, by, tuple(notes))


def _attention_dp(sets: Mapping[str, tuple[str, str]], put: Any) -> None:
    """Attention with replicas of its own inside the tensor parallel group, which the experts are spread over."""
    flag = sets["attention_dp"][1]
    ranks, groups = (_whole(sets, name) for name in ("tp", "dp"))
    groups = ranks if "dp" not in sets else groups
    if ranks % groups:
        what = (
            f"{flag}: {groups} replicas of attention do not divide the {ranks} ranks of {sets['tp'][1] if 'tp' in sets else 'tp'}"
        )
        raise UsageError(Problem("command.attention-dp", what, "use a number of replicas that divides them"))
    put("tp", str(ranks // groups), flag)
    put("attention_dp", str(groups), flag)
    put("dp", "1", flag)
    if groups > 1 or "ep" in sets:
        put("ep", str(_whole(sets, "ep")), sets["ep"][1] if "ep" in sets else flag)


def _drafts(sets: Mapping[str, tuple[str, str]], put: Any, given: dict[str, Any], by: dict[str, str]) -> list[Note]:
    """What drafts tokens: a kind of drafter that needs no model named, or the model that is named.

    A single layer that is drafted with (`layer`) is the model's own module where no other checkpoint is named for it.
    """
    kind, flag = sets.get("draft_kind", ("", ""))
    model, named = sets.get("draft_model", ("", ""))
    if kind == "layer":
        kind = "eagle" if model else "mtp"
    if kind in ("mtp", "eagle"):
        put("draft", kind, flag)
    elif model and (kind or "draft_kind" not in sets):
        put("draft", model, named)
    elif "draft_tokens" in given:
        # Nothing that is counted drafts them.
        given.pop("draft_tokens")
        return [Note("command.not-counted", f"understood, not counted yet: {by.pop('draft_tokens')} (this way of drafting)")]
    return []


def _adapters(
    sets: Mapping[str, tuple[str, str]], usual: Mapping[str, str], given: dict[str, Any], by: dict[str, str]
) -> list[Note]:
    """Places for adapters, which an engine makes only where it is told to."""
    word, flag = sets.get("lora", ("false", ""))
    both = ("adapters", "adapter_rank")
    if word == "false":
        idle = ", ".join(by[name] for name in both if name in given)
        for name in both:
            given.pop(name, None)
        return [Note("command.no-effect", f"no effect on the estimate: {idle} (adapters are not switched on)")] if idle else []
    for name in both:
        if name not in given and name in usual:
            given[name], by[name] = usual[name], flag
    if all(name in given for name in both):
        return []
    for name in both:
        given.pop(name, None)
    return [Note("command.not-counted", f"understood, not counted yet: {flag} (room for adapters, whose rank nothing says)")]


def _split(sets: Mapping[str, tuple[str, str]], put: Any) -> None:
    """How one process divides a model over all accelerators: by layers, by rows, or not."""
    word, flag = sets["split"]
    put("dp", "1", flag)
    for name in {"layers": ("tp",), "rows": ("pp",), "one": ("tp", "pp")}[word]:
        put(name, "1", flag)


def _whole(sets: Mapping[str, tuple[str, str]], name: str) -> int:
    text, flag = sets.get(name, ("1", name))
    if not text.isdigit() or int(text) < 1:
        raise UsageError(Problem("command.value", f"{flag} {text}: a whole number of at least 1 is wanted"))
    return int(text)


def _two_caches(sets: Mapping[str, tuple[str, str]], put: Any) -> list[Note]:
    """One type for keys and values: the wider of two, where they differ."""
    flag = (sets.get("key_cache") or sets["value_cache"])[1]
    types = [sets.get(name, ("fp16", ""))[0] for name in ("key_cache", "value_cache")]
    if types[0] == types[1]:
        put("kv_cache", types[0], flag)
        return []
    wide = max(types, key=lambda one: KV_BYTES.get(cast("KvFormat", one), 0.0))
    put("kv_cache", wide, flag)
    text = f"keys in {types[0]} and values in {types[1]}: both are counted in {wide}"
    return [Note("command.two-caches", text, "an estimate has one type for the KV cache")]


def _slots(sets: Mapping[str, tuple[str, str]], put: Any) -> None:
    """The context of llama.cpp: each slot's share of it where the number of slots is said, otherwise one cache that all share."""
    text, flag = sets["slot_context"]
    total = _whole({"slot_context": (text, flag)}, "slot_context")
    if "max_sequences" in sets:
        put("context", str(max(total // _whole(sets, "max_sequences"), 1)), flag)
    else:
        put("cache_tokens", text, flag)
        put("max_context", text, flag)
