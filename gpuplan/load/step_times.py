"""How long does any step of a replica take: so many tokens of prompts beside so many sequences that decode, from a table?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gpuplan.errors import Problem, UsageError
from gpuplan.estimate.attention_ranks import EXCHANGE
from gpuplan.estimate.drafting import undrafted
from gpuplan.estimate.pins import with_values
from gpuplan.estimate.serving import ServingModel, ServingPhase
from gpuplan.estimate.step_parts import server_host
from gpuplan.formulas.basic import remaining_seconds
from gpuplan.formulas.inference import mixed_residual
from gpuplan.formulas.training import unmodelled_seconds
from gpuplan.record import Record
from gpuplan.term import DEFINITION, Term
from gpuplan.workload.context import ONE, Group

Floats = NDArray[np.float64]
AROUND = ("head", "issue_wait", "host", "sequences", "unmodelled", "context_wait")
"""The parts of a step that are no work of its layers; ranks of attention that wait for each other are simulated."""
EACH_UP_TO = 1024
"""Every number of tokens up to here is estimated; beyond, the last and the first that kernels cut into as many tiles."""
TILE = 64
COARSE_FROM = 16384
COARSE_TILE = 512
FINE_CHUNKS = 2048
"""The same of chunks of prompts, whose attention has tiles of queries."""
AT_ONCE = 2048
"""Candidates of one call of the estimator: their terms stay within some megabytes."""
JUMP = 0.01
"""A share of its time that a step grows by between two places where nothing but a change of kernels explains it."""
RATIO = 1.08
"""Of neighbouring places in the tables of attention."""


class StepTimes(Record, eq=False, kw_only=True):
    """The times of steps, made by the estimator on arrays once, and read from tables as often as a simulation asks.

    The work of a step is that of all its tokens alike (`shared`), attention of chunks, attention of sequences that decode, and the
    head: these add up, so that a table over each of them gives every mixture.
    """

    shared: Floats
    """Seconds of the work that all tokens share, by their number."""
    head: Floats
    """Seconds of the head by its rows: one for each sequence of the step."""
    chunk_tokens: Floats
    chunk_keys: Floats
    chunk: Floats
    """Seconds of what chunks of prompts do for themselves, by their tokens and the keys that one of them sees in the mean."""
    decode_rows: Floats
    decode_keys: Floats
    decode: Floats
    """Seconds of what sequences that decode do for themselves, by their number and mean context."""
    issue: float
    """Host time to issue all layers of a decode step, which the accelerator waits for; `prompt_issue` of a step with prompts."""
    prompt_issue: float
    short_issue: float
    """The same of a step with prompts of at most `short_tokens`, which graphs may hold."""
    short_tokens: float
    host: float
    sequence_host: float
    stage_issue: float
    """Host time of all stages of a pipeline for a step of each micro-batch, and for each sequence of one: it hides as `issue`."""
    stage_sequence: float
    prefill_residual: float
    decode_residual: float
    verified: int = 1
    """Tokens of each sequence in a step that verifies drafts."""
    experts: Floats | None = None
    """Seconds of experts by the tokens of all ranks of attention that share them, which are then no part of `shared`."""
    travels: Floats | None = None
    """What tokens take longer to their experts in a step that reads prompts, by those of the rank; None: nothing is kept apart."""

    @classmethod
    def of(cls, model: ServingModel, *, most_tokens: int, most_rows: int, longest: int) -> StepTimes:
        """The table of a serving model: of steps of at most so many tokens and sequences, none of which is longer.

        `most_rows` are sequences and `most_tokens` tokens of one pass through the stages, of one rank of attention. Where tokens
        are drafted it is of the steps that verify them, without the drafter.

        Raises:
            UnknownError: the hardware lacks a parameter that the work needs.
            UsageError: the model reads with an encoder, or is partly in the memory of the host, where no table holds.
        """
        if model.subject.arch.two_stacks:
            raise UsageError(Problem("load.two-stacks", "no load of an encoder-decoder can be answered for", "ask without a load"))
        if model.plan.settings.uses_host:
            hint = "ask without a load, or keep all of the model on accelerators"
            raise UsageError(
                Problem("load.host-weights", "no load of a model that is partly in the host's memory is modelled", hint)
            )
        drafter = model.drafter()
        verified = 1 if drafter is None else round(float(drafter.verified.value))
        most_tokens = max(most_tokens, most_rows * verified, 2)
        model = undrafted(model).replaced(serve=model.serve.replaced(batch=_term("batch", float(most_rows))))
        ranks = round(float(model.serve.sharing.attention_dp.value))
        pins = model.subject.pins

        def step(groups: tuple[Group, ...], tokens: Any, experts: Any = None) -> ServingPhase:
            # Leaves of a model are made once by name, and those of a step have other values in the next call.
            some = None if experts is None else _term("tokens_of_all", experts)
            made = model.replaced(leaves=model.subject.leaves()).step("step", groups, _term("tokens", tokens), shared_by=some)
            return with_values(made, pins)

        chunk_tokens, chunk_keys = _chunk_places(most_tokens), _places(longest)
        decode_rows, decode_keys = _places(most_rows), _places(longest)
        tokens = np.union1d(_token_places(most_tokens), np.union1d(chunk_tokens, decode_rows * verified))
        apart = None if ranks == 1 else 1.0
        # What travels to experts is that of the rank with the most tokens; the experts' own work is by the tokens of all.
        kept = () if ranks == 1 else (EXCHANGE,)
        alike = _line(tokens, most_tokens, lambda some: _layers(step((), some, apart), kept))
        shared, travels = alike, None
        if ranks > 1:
            decodes = _line(tokens, most_tokens, lambda some: step((), some, some * ranks).parts[EXCHANGE].value)
            reads = _line(
                tokens, most_tokens,
                lambda some: step((chunk_group(some, (some + 1) / 2),), some, some * ranks).parts[EXCHANGE].value,
            )  # fmt: skip
            shared, travels = alike + decodes, reads - decodes
        head = _line(_token_places(most_rows * verified), most_rows * verified, lambda some: step((), some).parts["head"].value)
        experts = None
        if ranks > 1:
            alone = float(_layers(step((), 1.0, 1.0), kept))
            whole = ranks * most_tokens
            experts = _line(_token_places(whole), whole, lambda some: _layers(step((), np.ones_like(some), some), kept) - alone)

        def own(make: Callable[[Floats, Floats], Group], counts: Floats, keys: Floats, each: int) -> Floats:
            across, along = (one.ravel() for one in np.meshgrid(counts, keys, indexing="ij"))
            places = np.arange(len(across))

            def of(some: Floats) -> Any:
                at = some.astype(int)
                return _layers(step((make(across[at], along[at]),), across[at] * each, apart), kept)

            whole = _each(places.astype(float), of).reshape(len(counts), len(keys))
            return np.asarray(whole - alike[(counts * each).astype(int)][:, None])

        def decoding_rows(rows: Any, keys: Any) -> Group:
            return decoding_group(rows, keys, verified)

        decoding = step((decoding_rows(1.0, 1.0),), float(verified))
        short = _graphed(model)
        shortest, reading = (step((chunk_group(some, (some + 1) / 2),), some) for some in (1.0, short + 1.0))
        profile, habit = model.profile, model.subject.habit
        residuals = [
            with_values(habit(f"{name}_residual", getattr(profile, f"{name}_residual")), pins) for name in ("prefill", "decode")
        ]
        return cls(
            shared=shared, head=head, experts=experts, travels=travels, verified=verified,
            chunk_tokens=chunk_tokens, chunk_keys=chunk_keys, chunk=own(chunk_group, chunk_tokens, chunk_keys, 1),
            decode_rows=decode_rows, decode_keys=decode_keys, decode=own(decoding_rows, decode_rows, decode_keys, verified),
            issue=_issue(decoding), prompt_issue=_issue(reading), short_issue=_issue(shortest), short_tokens=short,
            **_stages(model),
            host=float(decoding.parts["host"].value),
            sequence_host=float(decoding.parts["sequences"].value) if "sequences" in decoding.parts else 0.0,
            prefill_residual=float(residuals[0].value), decode_residual=float(residuals[1].value),
        )  # fmt: skip

    def seconds(
        self, prefill_tokens: ArrayLike, prefill_context: ArrayLike, decode_rows: ArrayLike, decode_context: ArrayLike,
        prompts: ArrayLike | None = None,
    ) -> Floats:  # fmt: skip
        """Seconds of steps with so many tokens of prompts beside so many sequences that decode at a mean context.

        A token of a prompt sees `prefill_context` keys in the mean, itself among them. `prompts` are those that the step takes
        chunks of; None: as many as there are if all are whole. Ranks of attention that share experts all have the same.
        """
        read, keys, rows, context = np.broadcast_arrays(
            *(np.asarray(one, dtype=float) for one in (prefill_tokens, prefill_context, decode_rows, decode_context))
        )
        some = np.where(read > 0, np.maximum(1.0, read / np.maximum(2 * keys - 1, 1.0)), 0.0)
        some = some if prompts is None else np.asarray(prompts, dtype=float)
        tokens = read + rows * self.verified
        busy = (
            _along(self.shared, tokens)
            + _along(self.head, np.minimum(rows * self.verified + some, len(self.head) - 1))
            + np.where(read > 0, _between(self.chunk_tokens, self.chunk_keys, self.chunk, read, keys), 0.0)
            + np.where(rows > 0, _between(self.decode_rows, self.decode_keys, self.decode, rows, context), 0.0)
        )
        if self.experts is not None:
            if self.travels is not None:
                busy = busy + np.where(read > 0, _along(self.travels, tokens), 0.0)
            busy = busy + _along(self.experts, tokens * ((len(self.experts) - 1) / (len(self.shared) - 1)))
        return np.asarray(self.whole(busy, read, tokens, rows + some))

    def whole(self, busy: Any, read: Any, tokens: Any, sequences: Any) -> Any:
        """Seconds of a step whose work keeps the accelerator busy so long: with the host's part, and what no part counts."""
        prompts = np.where(np.asarray(tokens) <= self.short_tokens, self.short_issue, self.prompt_issue)
        issue = np.where(np.asarray(read) > 0, prompts, self.issue)
        waited = remaining_seconds(whole=np.maximum(issue, self.stage_issue + self.stage_sequence * sequences), hidden=busy)
        counted = busy + waited + self.host + self.sequence_host * sequences
        residual = mixed_residual(prefill=self.prefill_residual, decode=self.decode_residual, read=read, tokens=tokens)
        return counted + unmodelled_seconds(counted=counted, residual=residual)


def chunk_group(tokens: Any, keys: Any) -> Group:
    """Chunks of prompts of so many tokens in all, of which one sees so many keys in the mean: one chunk, or whole prompts."""
    each = np.minimum(tokens, 2 * keys - 1)
    return Group(
        sequences=_term("chunks", tokens / each), q_len=_term("chunk_tokens", each), kv_len=_term("keys", keys + (each - 1) / 2)
    )


def decoding_group(rows: Any, keys: Any, verified: int = 1) -> Group:
    """Sequences that make a token each at a mean context, or verify so many."""
    each = ONE if verified == 1 else _term("verified", float(verified))
    return Group(sequences=_term("rows", rows), q_len=each, kv_len=_term("context", keys), decodes=True)


def _term(name: str, value: Any) -> Term:
    return Term(f"load.{name}", value, "1", DEFINITION)


def _layers(phase: ServingPhase, but: tuple[str, ...] = ()) -> Any:
    """The work of the layers of a step, but for some parts."""
    return sum(one.value for kind, one in phase.parts.items() if kind not in AROUND and kind not in but)


def _graphed(model: ServingModel) -> float:
    """Tokens of the longest pass with prompts that a graph holds."""
    captures = model.profile.captures
    if captures is None or model.profile.prompt_host is None or not model.profile.replays_prompts:
        return 0.0
    return float(with_values(model.subject.habit("captured_most", captures.most), model.subject.pins).value)


def _issue(phase: ServingPhase) -> float:
    """Host time to issue all layers of a step."""
    made = dict(phase.parts["issue_wait"].args)
    if "whole" in made:
        made = dict(dict(made["whole"].args)["issue"].args)
        return float(made["count"].value) * float(made["seconds"].value)
    return float(made["layers"].value) * float(made["layer_host"].value)


def _stages(model: ServingModel) -> dict[str, float]:
    """Host time of all stages for a micro-batch each, and for a sequence of one; without stages, of a server for each sequence."""
    own, pp = model.profile.stage_host, float(model.serve.pp.value)
    if pp == 1:
        served = server_host(model, "served")
        each = 0.0 if served is None else float(with_values(served, model.subject.pins).value)
        return {"stage_issue": 0.0, "stage_sequence": each}
    if own is None:
        return {"stage_issue": 0.0, "stage_sequence": 0.0}
    both = (model.subject.habit("stage_host", own.step), model.subject.habit("stage_sequence_host", own.sequence))
    step, sequence = (pp * float(with_values(one, model.subject.pins).value) for one in both)
    return {"stage_issue": step, "stage_sequence": sequence}


def _each(places: Floats, of: Callable[[Floats], Any]) -> Floats:
    """What an estimate says of each of many places, some at a time."""
    cuts = [places[start : start + AT_ONCE] for start in range(0, len(places), AT_ONCE)]
    return np.concatenate([np.broadcast_to(np.asarray(of(some), dtype=float), some.shape) for some in cuts])


def _line(places: Floats, most: int, of: Callable[[Floats], Any]) -> Floats:
    """An estimate by every number up to `most`, from some places, and from each between two of them that differ much."""
    found = _each(places, of)
    jumps = np.flatnonzero((np.diff(places) > 1) & (np.abs(np.diff(found)) > JUMP * found[1:]))
    if len(jumps):
        more = np.concatenate([np.arange(places[at] + 1, places[at + 1]) for at in jumps])
        values = _each(more, of)
        places, found = np.concatenate((places, more)), np.concatenate((found, values))
        order = np.argsort(places)
        places, found = places[order], found[order]
    return np.concatenate(([0.0], np.interp(np.arange(1, most + 1), places, found)))


def _token_places(most: int) -> Floats:
    """Numbers of tokens that are estimated: kernels take as long for any that fill as many tiles, and longer from the next on."""
    each = np.arange(1, min(most, EACH_UP_TO) + 1)
    fine = np.arange(EACH_UP_TO, min(most, COARSE_FROM) + TILE, TILE)
    coarse = np.arange(COARSE_FROM, most + COARSE_TILE, COARSE_TILE) if most > COARSE_FROM else np.empty(0, int)
    more = np.concatenate((fine, fine + 1, coarse, coarse + 1, [most]))
    return np.unique(np.concatenate((each, more[more <= most]))).astype(float)


def _chunk_places(most: int) -> Floats:
    """Tokens of chunks: those that fill tiles of queries and the first of the next, besides places a ratio apart."""
    fine = np.arange(TILE, min(most, FINE_CHUNKS), TILE)
    coarse = np.arange(FINE_CHUNKS, most, FINE_CHUNKS // 8) if most > FINE_CHUNKS else np.empty(0, int)
    return np.unique(np.concatenate((_places(most), fine, fine + 1, coarse, coarse + 1, [float(most)])))


def _places(most: int) -> Floats:
    """Whole numbers in a row whose neighbours are the next, or a ratio apart."""
    found = [1.0]
    while found[-1] < most:
        found.append(min(float(max(found[-1] + 1, round(found[-1] * RATIO))), float(most)))
    return np.array(found if len(found) > 1 else [1.0, 2.0])


def _along(table: Floats, at: Any) -> Floats:
    low = np.minimum(at.astype(int), len(table) - 1)
    part = at - low
    return np.asarray(table[low] * (1 - part) + table[np.minimum(low + 1, len(table) - 1)] * part)


def _between(across: Floats, along: Floats, table: Floats, x: Any, y: Any) -> Floats:
    """A table read between its places, and in line with its ends beyond them."""
    i = np.clip(np.searchsorted(across, x, side="right") - 1, 0, len(across) - 2)
    j = np.clip(np.searchsorted(along, y, side="right") - 1, 0, len(along) - 2)
    u = (x - across[i]) / (across[i + 1] - across[i])
    v = (y - along[j]) / (along[j + 1] - along[j])
    low = table[i, j] * (1 - v) + table[i, j + 1] * v
    high = table[i + 1, j] * (1 - v) + table[i + 1, j + 1] * v
    return np.asarray(low * (1 - u) + high * u)
