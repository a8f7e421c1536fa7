"""What was an engine like before? States of a profile up to a date, by what has changed since."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from gpuplan.errors import Problem, UsageError
from gpuplan.schema import Schema
from gpuplan.specs.base import Id
from gpuplan.specs.engine_defaults import Beside, Dispatching, ExpertWays, MicroBatch, Replayed, TrainingDefaults
from gpuplan.specs.engine_policies import Portion
from gpuplan.specs.quantity import BytesField, SecondsField, Sourced
from gpuplan.specs.training_habits import Pace, Share

POLICIES: Mapping[str, tuple[str, str]] = {
    "expert_host": ("experts", "host"), "expert_start": ("experts", "start"), "layer_host": ("host", "layer"),
    "dp_overlap": ("overlap", "dp"), "ep_overlap": ("overlap", "ep"), "logits_split": ("loss", "split"),
    "edges": ("sharding", "edges"),
    "heads": ("attention", "heads"), "remade_attention": ("recompute", "remade_attention"),
    "unfused_latent": ("attention", "unfused_latent"), "at_step": ("gradients", "at_step"),
    "temporaries": ("gradients", "temporaries"),
}  # fmt: skip
"""What an era may state of a training profile: a policy, and its part."""
BYTES = ("logits_split", "at_step", "temporaries")
"""Those of them that say how much memory is held."""
SAID = re.compile(r"^(?:(20\d\d)|(\d\d))[-.](\d{1,2})(?:[-.](\d{1,2}))?(?:\.\d+)?$")


class Era(Schema):
    """What an engine did otherwise in software of a month or before; a later era's values hold where this one says nothing."""

    name: str
    """The month of the last software of the era, as `YYYY-MM`."""
    note: str
    """What changed then."""
    source: Id
    """The source of the change."""
    profile: Id | None = None
    """The profile that describes the engine of that time, in place of this one."""
    pace: dict[str, Pace] | None = None
    """Paces of that time, by accelerator or family; kinds that are missing are as they are today."""
    expert_host: SecondsField | None = None
    expert_start: SecondsField | None = None
    layer_host: SecondsField | None = None
    dp_overlap: Share | None = None
    ep_overlap: Share | None = None
    held_logits: BytesField | None = None
    """Bytes alive for each logit at the loss of a compiled model."""
    logits_split: BytesField | None = None
    """Bytes alive for each logit at the loss where tensor parallel ranks share the vocabulary."""
    edges: Literal["together", "in-turn"] | None = None
    """Whether embedding and head were gathered one after the other."""
    heads: Literal["own", "repeated"] | None = None
    """Whether keys and values were written out for every head of the queries."""
    remade_attention: tuple[str, ...] | None = None
    """Families of accelerators on which selective recomputation ran attention again."""
    unfused_latent: tuple[str, ...] | None = None
    """Families of accelerators on which latent attention (MLA) had no fused kernel."""
    at_step: BytesField | None = None
    """Bytes that the optimizer's step made for each parameter beside its states."""
    temporaries: Portion | None = None
    """Copies of the second moment that the step made for a moment."""
    attention_like: Id | None = None
    """The engine whose measured attention kernels stand for those of that time."""
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

    def defaults(self, today: TrainingDefaults | None) -> TrainingDefaults | None:
        """What was taken then where a user said nothing; `today` is what held after."""
        given = {
            name: value
            for name in ("micro_batch", "dispatcher", "etp", "beside", "replayed")
            if (value := getattr(self, name)) is not None
        }
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
        if self.held_logits is not None and profile.compiled is not None:
            given["compiled"] = profile.compiled.replaced(held_logits=self.held_logits)
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


def split_date(name: str) -> tuple[str, str | None]:
    """An engine's name and the month of its software: `nemo@25.04` and `nemo@2025-04` mean April 2025.

    >>> split_date("nemo@25.04"), split_date("torchtitan@2024-12-01"), split_date("nemo")
    (('nemo', '2025-04'), ('torchtitan', '2024-12'), ('nemo', None))

    Raises:
        UsageError: no month stands behind the `@`.
    """
    engine, at, said = name.partition("@")
    if not at:
        return name, None
    found = SAID.match(said.strip())
    if found is None or not 1 <= int(found[3]) <= 12:
        hint = "write a release or a month, such as `nemo@25.04` or `torchtitan@2024-12`"
        raise UsageError(Problem("engine.date", f"`{said}` is no month of software", hint))
    return engine, f"{found[1] or '20' + found[2]}-{int(found[3]):02d}"
