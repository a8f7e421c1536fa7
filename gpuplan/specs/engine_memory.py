"""How does an engine find out how much memory is left for its caches, and what did it do otherwise before?"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal

from gpuplan.errors import Problem, UsageError
from gpuplan.schema import Schema
from gpuplan.specs.base import Id
from gpuplan.specs.quantity import BytesField, CountField, RatioField, ShareField

_RELEASE = re.compile(r"^v?(\d+(?:\.\d+)*)")
_RELEASE_NAMED = re.compile(r"^v?(\d(?:\.\d+)+)")
"""One digit before the first point: two are those of a year."""


class Profiling(Schema):
    """The pass with which an engine measures what it needs beside its caches, before it gives these the rest."""

    sampler: BytesField
    """Bytes alive for each logit while tokens are sampled for the most sequences that may run."""
    hidden: RatioField
    """Hidden states of the pass that are alive beside the widths inside the widest layer."""
    outside: BytesField
    """What kernels and libraries take on an accelerator beside tensors and the driver's context, once the pass has run."""
    joined: BytesField
    """The same of the collective library where ranks are joined by links of their own."""
    plugged: BytesField
    """The same where ranks are joined by the bus of the host."""
    context_counted: bool = False
    """Whether the setting's share of memory counts the driver's context, or begins after it was made."""
    graphs_counted: bool = False
    """Whether it counts captured graphs, or leaves them to what is beside it."""
    holds_context: bool = False
    """Whether the pass is as long as the longest sequence that is accepted, where that is more than the tokens of a pass."""


class SmallDevice(Schema):
    """What an engine takes by default on accelerators with less memory."""

    below: BytesField
    """Memory below which it holds."""
    too: tuple[Id, ...] = ()
    """Accelerators on which it holds as well, whatever memory they have."""
    max_batched_tokens: CountField
    max_sequences: CountField


class ServingEra(Schema):
    """What an engine did otherwise when serving, up to a release; a later era's values hold where this one says nothing."""

    until: str
    """The last release of the era, such as `0.14`: all whose number begins so belong to it."""
    note: str
    """What changed after it."""
    source: Id
    """The source of the change."""
    memory_utilization: ShareField | None = None
    max_batched_tokens: CountField | None = None
    max_sequences: CountField | None = None
    small_device: SmallDevice | None = None
    near_groups: RatioField | None = None
    tokens_told: Literal["of-pages", "of-concurrency"] | None = None
    sampler: BytesField | None = None
    outside: BytesField | None = None
    context_counted: bool | None = None
    graphs_counted: bool | None = None
    holds_context: bool | None = None

    def covers(self, release: Sequence[int]) -> bool:
        """Whether a release belongs to this era or to one before it."""
        last = numbers(self.until)
        return tuple(release[: len(last)]) <= last

    def changes(self, profiling: Profiling | None) -> dict[str, Any]:
        """The fields of a serving profile that this era changes, and their values."""
        made = {name: value for name in _OF_PROFILE if (value := getattr(self, name)) is not None}
        inner = {name: value for name in _OF_PROFILING if (value := getattr(self, name)) is not None}
        if inner and profiling is not None:
            made["profiling"] = profiling.replaced(**inner)
        return made


_OF_PROFILE = ("memory_utilization", "max_batched_tokens", "max_sequences", "small_device", "near_groups", "tokens_told")
_OF_PROFILING = ("sampler", "outside", "context_counted", "graphs_counted", "holds_context")


def numbers(release: str) -> tuple[int, ...]:
    """The numbers of a release.

    >>> numbers("0.10.1"), numbers("v0.21rc1")
    ((0, 10, 1), (0, 21))

    Raises:
        UsageError: it has none.
    """
    found = _RELEASE.match(release.strip())
    if found is None:
        raise UsageError(Problem("engine.release", f"`{release}` is no release of an engine", "write one such as `vllm@0.10.1`"))
    return tuple(int(one) for one in found[1].split("."))


def split_release(name: str) -> tuple[str, str | None]:
    """An engine's name without the release behind it, and that release; a month stays with the name.

    >>> split_release("vllm@0.10.1"), split_release("sglang@v0.5"), split_release("nemo@25.04"), split_release("vllm")
    (('vllm', '0.10.1'), ('sglang', '0.5'), ('nemo@25.04', None), ('vllm', None))
    """
    engine, at, said = name.partition("@")
    found = _RELEASE_NAMED.match(said.strip()) if at else None
    return (name, None) if found is None else (engine, found[1])
