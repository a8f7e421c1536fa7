"""What do the arguments of a serving engine mean: which set something of a plan, which are understood, which change nothing?"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, TypeAlias

from gpuplan.schema import Fault, Limits, Pattern, Schema, field
from gpuplan.specs.base import Id, Section, SpecFile

Takes: TypeAlias = Literal["switch", "whole", "number", "text", "texts", "word", "json", "perhaps"]
"""What follows a flag: nothing; a whole number; a number; a text; one text or more; one of a few words; JSON; a text or nothing."""
Target: TypeAlias = Literal[
    "model", "weights", "kv_cache", "tp", "pp", "dp", "ep", "context", "batch", "max_context", "max_sequences",
    "max_batched_tokens", "memory_utilization", "page_tokens", "cache_tokens", "cache_memory", "chunked_prefill", "recv_interval",
    "batch_wait", "mixed_chunk", "awq_kernels", "graphs", "adapters", "adapter_rank", "gpu_layers", "host_experts", "host_weights",
    "redundant_experts", "expert_exchange", "decode_cp", "draft_tokens", "draft_kind", "draft_model", "overlap_batches",
    "file", "expert_parallel", "attention_dp", "key_cache", "value_cache", "slot_context", "tagged_model", "split", "lora",
    "tensor_split",
]  # fmt: skip
"""What a flag can set: options of `gpuplan serve`, and behind them what those follow from (`gpuplan.plan.engine_sets`)."""
Release: TypeAlias = Annotated[str, Pattern(r"^[0-9]+(\.[0-9]+)*$")]


class Meaning(Schema):
    """What one argument, or one key inside a JSON argument or a file of settings, means."""

    takes: Takes = "text"
    sets: Target | None = None
    """What it sets; None: nothing, or what `later` says."""
    to: str = ""
    """What a switch sets it to where that is not `true`."""
    times: int = 1
    """What a number is multiplied by for its value in base units, such as bytes of a GiB."""
    words: dict[str, str] = field(default_factory=dict)
    """The words that it takes and what each sets; a word that means `` leaves it as it is without the argument."""
    otherwise: str = ""
    """What is said of words that are not among these, which are understood and not counted; nothing: they are refused."""
    open: tuple[str, ...] = ()
    """Texts that leave it to the engine, such as `auto` or `-1`."""
    later: str = ""
    """What it changes, and no estimate counts yet."""


class Flag(Meaning):
    """One argument of an engine."""

    also: tuple[str, ...] = ()
    """Its other spellings."""
    inner: dict[str, Meaning] = field(default_factory=dict)
    """The keys of a JSON argument, with dots where objects are inside each other."""
    since: Release | None = None
    """The first release that knows it."""
    until: Release | None = None
    """The last release that knows it."""

    def faults(self) -> Iterator[Fault]:
        """An argument that says nothing of what it means."""
        if self.sets is not None and self.later:
            yield Fault("spec.two-meanings", "it sets something, and is not counted", "leave out `sets` or `later`")
        if self.inner and self.takes != "json":
            yield Fault("spec.inner-keys", "only `takes: json` has keys inside", "write `takes: json`")


class Silent(Schema):
    """Arguments that change nothing of what is estimated, by what follows them."""

    switches: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    lists: tuple[str, ...] = ()
    """One text or more follow."""
    perhaps: tuple[str, ...] = ()
    """A text or nothing follows."""


class Group(Section):
    """Arguments that one source tells of."""

    flags: dict[str, Flag] = field(default_factory=dict)
    """Each under the spelling that answers print."""
    keys: dict[str, Meaning] = field(default_factory=dict)
    """What only a file of settings has, with dots where mappings are inside each other."""
    environment: dict[str, Meaning] = field(default_factory=dict)
    """Variables of the environment."""
    silent: Silent = Silent()
    """What changes nothing of what is estimated."""
    silent_keys: tuple[str, ...] = ()
    """Keys of files of settings that change nothing of what is estimated, with all below them."""
    silent_environment: tuple[str, ...] = ()
    """Variables that change nothing of what is estimated; an ending `*` stands for any others."""


class Command(Section):
    """How the engine is started."""

    words: Annotated[tuple[str, ...], Limits(1)]
    """The words that start it, without paths: `[python, -m, sglang.launch_server]`."""
    model: Literal["first", "flag", "either"] = "flag"
    """Where the model stands: the first word that belongs to no argument, behind an argument, or either."""


class OnLoad(Section):
    """What an engine makes of weights of 16 bits while it loads them."""

    weights: tuple[str, ...]
    """The types; of others a checkpoint must be stored so."""


class Container(Section):
    """The engine's own container image."""

    image: str
    """Its name and tag."""
    tagged: str | None = None
    """The same of one release, whose numbers stand where `{}` does; None: it is not on file."""
    starts: tuple[str, ...] = ()
    """The words that it starts by itself, so that only arguments are said to it."""


class EngineArguments(SpecFile):
    """The command line of a serving engine; `id` is the engine's, or that of a program which runs it."""

    engine: Id
    """The engine that it starts."""
    commands: tuple[Command, ...]
    container: Container | None = None
    """The container image that serves, where there is one."""
    images: tuple[str, ...] = ()
    """Container images that start it, without their tags; all but the last word of a tag is a release."""
    dashes: Literal["apart", "alike"] = "apart"
    """Whether `-` and `_` inside long arguments mean the same."""
    negated: bool = False
    """Whether `--no-…` takes back any switch."""
    counts: Literal["plain", "suffixed"] = "plain"
    """Whether whole numbers may end in k (1000), K (1024) and so on."""
    joined: tuple[str, ...] = ()
    """Short arguments whose value may follow without a space, such as `-O3`."""
    file: Literal["overwrites", "yields"] = "yields"
    """Whether what a file of settings says holds before the arguments beside it."""
    tags: dict[str, str] = field(default_factory=dict)
    """What the tag behind a model's name (`NAME:Q4_K_M`), in capitals, says of its weights."""
    lora: dict[str, str] = field(default_factory=dict)
    """What places for adapters that are switched on mean where nothing else is said of them."""
    on_load: OnLoad | None = None
    """What it quantises as it loads; None: not on record, or it loads files of any type."""
    unsaid: dict[str, str] = field(default_factory=dict)
    """What a whole command that says nothing of it means; `model`: as the model has it."""
    groups: Annotated[tuple[Group, ...], Limits(1)]

    def flags(self) -> dict[str, Flag]:
        """Every argument that sets something or is understood, by each of its spellings."""
        found: dict[str, Flag] = {}
        for group in self.groups:
            for name, flag in group.flags.items():
                found |= dict.fromkeys((name, *flag.also), flag)
        return found

    def faults(self) -> Iterator[Fault]:
        """Besides what every file is held to: one spelling for two arguments."""
        yield from super().faults()
        seen: set[str] = set()
        for at, group in enumerate(self.groups):
            silent = group.silent
            names = [name for key, flag in group.flags.items() for name in (key, *flag.also)]
            names += [*silent.switches, *silent.values, *silent.lists, *silent.perhaps]
            for name in names:
                if name in seen:
                    yield Fault("spec.argument-twice", f"`{name}` stands there twice", "take one of them out", ("groups", at))
                seen.add(name)


__all__ = ["Command", "EngineArguments", "Flag", "Group", "Meaning", "Silent", "Target"]
