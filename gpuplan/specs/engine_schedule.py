"""How does an engine fill its steps: with prompts and decoding sequences together or in turn, and what room does it keep?"""

from __future__ import annotations

from typing import Literal, TypeAlias

from gpuplan.schema import Schema
from gpuplan.specs.base import Id, Section
from gpuplan.specs.quantity import CountField, RatioField, SecondsField, ShareField

Steps: TypeAlias = Literal["mixed", "prefill-first"]
"""A step holds prompts beside the sequences that decode, or those wait while prompts are read."""
Admits: TypeAlias = Literal["reserved", "grown"]
"""A sequence is begun when the cache has room for all it may come to, or for its prompt: its output grows into what is free then,
and others are put back and read again where nothing is."""


class Schedule(Section):
    """How an engine schedules a stream of requests, step by step."""

    steps: Steps
    admits: Admits
    cuts: bool = True
    """Whether a prompt is cut where a step has no room for all of it; otherwise it waits for a step that has."""
    passes_return: bool = False
    """Whether requests that were read in one pass, and so end in one step where they are as long, come back into one pass."""
    first_alone: bool = False
    """Of those that come back into one pass the first has one to itself, which begins as soon as it is there."""
    sends_back: bool = False
    """Whether sequences begin without regard to what those that run will still write, so that as much is sent back as grows;
    engines that foresee a part of it (SGLang's `new_token_ratio`) send back few."""
    ahead: int = 0
    """Steps that are put together before the one that runs has ended: what comes meanwhile waits for them too."""


class InChunks(Schema):
    """What an engine does otherwise where it cuts prompts that it usually reads whole."""

    schedule: Schedule
    max_batched_tokens: CountField
    """Tokens of one pass at most."""
    above: CountField | None = None
    """It cuts them by itself where the longest sequence that it accepts has more tokens than this; None: only where told to."""


class StageHost(Schema):
    """Host time of a pass of a micro-batch on a pipeline stage, where no schedule hides it behind the pass before.

    A stage works as long as its kernels take, or as its host.
    """

    step: SecondsField
    """Of any pass in which sequences get a token."""
    sequence: SecondsField
    """Of each of these sequences: sampling, and what stages tell each other of it."""


class OwnProcessors(Schema):
    """What an engine does otherwise where the accelerator is a processor: it issues its own kernels, and nothing hides that."""

    families: tuple[Id, ...]
    layer: SecondsField
    """Time to issue a layer, beside what its kernels take."""
    cache_passes: RatioField
    """How often a decode step reads or writes caches beside its attention: they grow by copying, and are written out for each head
    that reads them, unless all read one."""


class WarpExperts(Schema):
    """Products over experts by matrix instructions of single warps, on chips whose full rate takes those of several at once.

    Such instructions know no 8-bit values there: those are widened to 16 bits on the way.
    """

    share: ShareField
    """What they reach of the peak of 16-bit products."""
    families: tuple[Id, ...]
    """Families of such chips."""


class UndividedWindows(Schema):
    """Decode attention within a window that one compute unit does for a head: the keys of a sequence are not divided."""

    rows: CountField
    """Rows of queries of a tile, of which a step has one."""
    on: tuple[str, ...] = ()
    """Families of accelerators that run such a kernel."""


class AwqKernels(Schema):
    """The kernels that AWQ came with, which an engine has beside faster ones for the same weights, and runs where it is told to."""

    whole_from: CountField
    """Tokens of a pass from which on a kernel of its own widens the weights of a product to 16 bits before it."""
    rows: CountField | None = None
    """Rows of tokens of a block of a product of fewer, each of which widens the weights anew; None: there are none so few."""


class VectorDecode(Schema):
    """Decode attention on the vector units: every head of the queries reads the keys by itself."""

    values: CountField
    """Products that a compute unit does of them in a clock, with loads and conversions between."""
    not_widths: tuple[int, ...] = ()
    """Widths of heads for which there is a kernel of matrix units, of as many heads a key head as below."""
    not_heads_per_key: tuple[int, ...] = ()
    """How many heads share a key head where there is."""


class UndividedContexts(Schema):
    """Decode attention whose kernel does not divide a context: one compute unit reads all keys of a key head of a sequence."""

    clocks: CountField
    """Clocks that it takes for a key and its value."""
