"""How many accelerators does a load take at best, and can a machine keep the promise at all? Bounds that no estimate is below.

Every product of weights takes its FLOP at the dense peak of the type that it is in, and every decode step reads the weights of a
token once; prompts that are read beside decoding may hide behind the reading of weights, but for no longer than that takes. What a
promise leaves no time for, and what no memory holds, is ruled out; of the rest the accelerators that the FLOP of all requests keep
busy are the fewest that there can be, and what these cost and draw the least.
"""

from __future__ import annotations

from math import ceil, inf

from gpuplan.models.card import ModelCard
from gpuplan.models.stored import StoredTensors, counted_parts
from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.plan.precision import stored_in
from gpuplan.plan.words import WeightFormat
from gpuplan.planner.promise import Promise
from gpuplan.planner.where import Chip
from gpuplan.record import Record
from gpuplan.search.requests import lengths_of
from gpuplan.search.serving_types import published

LEAST_BYTES, MOST_BYTES = 0.25, 4.0
"""Bytes of a weight in the narrowest and the widest type that a checkpoint is published in."""
WIDE = ("half", "tf32")
ROOM = 500.0
"""Tokens of prompts that a pass of every engine on record has room for, beside as many sequences as it runs."""

CLOSE = 1 - 1e-9
"""So much less is asked of whole units, for the last digit of a sum may be wrong."""


class Requests(Record, kw_only=True):
    """What requests take, whatever serves them."""

    flop_of_prompt: float
    flop_of_output: float
    """After the first token."""
    output: float
    held: float
    """Bytes of weights that must lie in the memory of accelerators."""
    streamed: float
    """Bytes of weights at most whose reading a pass of prompts may hide behind."""
    read: float
    """Bytes of weights that a token needs."""
    passes: float
    """Passes that a prompt is read in at most."""
    amount: float
    """Requests a second; 0 where it is users that come, of whom no bound is told."""
    rates: tuple[str, ...]
    """The rates that products may run at; none: any that there is."""


def requests_of(card: ModelCard, run: ServeAsk, weights: WeightFormat | None) -> Requests:
    """What the requests of a question take at least with weights in a format; None: as the checkpoint has them.

    Values of terms that the user sets may carry an estimate below physics: then nothing is bounded.
    """
    counts = card.count()
    total, active = float(counts.params_total.value), float(counts.params_active.value)
    embedding = float(counts.embedding.value)
    reads = not card.architecture.generates
    multiplied = active - embedding
    if reads:  # What is pooled, classified or scored is one token of a sequence.
        multiplied -= sum(float(one.value) for one in (counts.head, *counts.extra.values()) if one is not None)
    # What makes no tokens reads a page; of one output token there is nothing to count after the first.
    prompt, output = (run.prompt or 1, 1) if reads else lengths_of(run, run.context or card.architecture.max_context)
    new = prompt * (1 - (run.cached_share or 0.0))
    plain = card.weights is None and card.stored is None
    least, most = LEAST_BYTES, MOST_BYTES
    if weights is not None:
        least = most = min(stored_in(weights, 0).bytes_per_value, 2.0)
    elif plain:
        least = most = 2.0
    files = published(card) if weights is None else None
    held, read = total * least, multiplied * least
    if files is not None:
        held, read = float(files.total), multiplied * _narrowest(card, files)
    # Of two stacks, not every weight sees every token; of drafts, several tokens come of a step.
    physical = not run.pins and len(card.architecture.stacks) == 1 and run.draft is None
    room = ROOM if run.max_batched_tokens is None and run.max_sequences is None else 1.0
    elsewhere = run.pins or any(one is not None for one in (run.memory, run.gpu_layers, run.host_experts, run.host_weights))
    # Embedding and head may stay in 16 bits.
    streamed = total * most if weights is None and not plain else total * most + 4 * embedding
    return Requests(
        flop_of_prompt=2 * multiplied * new if physical else 0.0, flop_of_output=2 * multiplied * (output - 1) if physical else 0.0,
        output=float(output), held=0.0 if elsewhere else held, streamed=streamed, read=read if physical else 0.0,
        passes=ceil(new / room), amount=run.rate or 0.0, rates=_rates(card, weights),
    )  # fmt: skip


def _narrowest(card: ModelCard, files: StoredTensors) -> float:
    """Bytes of a value of the part of a checkpoint that has the fewest, of those that a token is multiplied by."""
    counted = counted_parts(card.architecture, card.count())
    each = (sum(sizes.values()) / counted[name] for name, sizes in files.parts.items() if name in counted and name != "embedding")
    return min(each, default=LEAST_BYTES)


def _rates(card: ModelCard, weights: WeightFormat | None) -> tuple[str, ...]:
    """At which rates the products of weights in a format may run."""
    if weights is None:
        return WIDE if card.weights is None and card.stored is None else ()
    multiply = stored_in(weights, 0).multiply
    return (*WIDE, *((multiply,) if multiply is not None else ("int8",)))


def fewest(requests: Requests, chip: Chip, ranks: int, promise: Promise, *, alone: bool = False, spare: int = 0) -> float:
    """The fewest accelerators of a kind that may keep the load, beside spare parts; infinity where none can keep the promise.

    They come in units of `ranks`; `alone`: in replicas, each of as many as its weights need at least.
    """
    if chip.memory is not None and ranks * chip.memory < requests.held:
        return inf
    peak = max((rate for name, rate in chip.rates.items() if not requests.rates or name in requests.rates), default=inf)
    band = chip.bandwidth or inf
    step = requests.read / (ranks * band)
    first = requests.flop_of_prompt / (ranks * peak)
    allowed = (
        (promise.tpot, step), (promise.ttft, first), (promise.e2e, first + (requests.output - 1) * step),
    )  # fmt: skip
    if any(limit is not None and least > limit for limit, least in allowed):
        return inf
    busy = requests.amount * max(
        (requests.flop_of_prompt + requests.flop_of_output) / peak - requests.passes * requests.streamed / band, 0.0
    )
    if not alone:
        return float(ranks * (max(ceil(busy / ranks * CLOSE), 1) + spare))
    replica = 1 if chip.memory is None else max(ceil(requests.held / chip.memory), 1)
    return max(busy, replica) + spare * replica
