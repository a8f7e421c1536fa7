"""How is a model served by unlike accelerators of one host, each with some of its layers: who holds what, and how fast is it?

As llama.cpp does it: a token passes one accelerator after the other, and only a prompt of several passes keeps more than one busy.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any

from gpuplan.estimate.serving import ServingModel, ServingPhase
from gpuplan.estimate.serving_memory import ServingMemory
from gpuplan.estimate.spent import spent_by
from gpuplan.estimate.subject import Subject
from gpuplan.formulas import inference as form
from gpuplan.formulas.basic import rate, remaining_bytes
from gpuplan.formulas.collectives import wire_seconds
from gpuplan.formulas.memory import tensor_bytes
from gpuplan.models.architecture import Architecture, Run
from gpuplan.models.count import count
from gpuplan.models.stored import StoredTensors
from gpuplan.plan.precision import byte
from gpuplan.plan.serve import ServePlan
from gpuplan.record import Record, replace
from gpuplan.term import DEFINITION, Parts, Source, Term, greatest, total
from gpuplan.workload.context import ONE

SHARED = ("plan.", "engine.", "recipe.", "link.")
"""How leaves begin that are the same on every accelerator."""
_FP32 = 4.0
_LINK = Source("definition", "as much as the link is rated for")


class Piece(Record, kw_only=True):
    """What one accelerator holds: layers from `first` to before `end`, and the head where it is the last one."""

    name: str
    at: int
    first: int
    end: int
    last: bool
    subject: Subject
    plan: ServePlan

    @property
    def layers(self) -> int:
        """How many layers it holds."""
        return self.end - self.first


class Served(Record, kw_only=True):
    """What unlike accelerators come to together: figures by key, the parts of phases, and the memory of each."""

    figures: Mapping[str, Term]
    prefill: tuple[Term, Parts]
    decode: tuple[Term, Parts]
    memory: tuple[ServingMemory, ...]

    @property
    def fullest(self) -> int:
        """The accelerator of which the most of its memory budget is needed."""
        shares = [_value(one.needed) / max(_value(one.budget), 1.0) for one in self.memory]
        return shares.index(max(shares))


def shared_out(layers: int, shares: Sequence[float]) -> list[tuple[int, int]]:
    """First layer, and the one behind the last, of each accelerator: layers and head are dealt out in order, by shares.

    As llama.cpp does: layer `i` of n, of which the head is one more, goes to the accelerator in whose part i / (n + 1) lies.

    >>> shared_out(32, [1, 1]), shared_out(4, [3, 1]), shared_out(2, [1, 1, 1, 1])
    ([(0, 17), (17, 32)], [(0, 4), (4, 4)], [(0, 1), (1, 2), (2, 2), (2, 2)])
    """
    whole = sum(shares)
    ends = [part / whole for part in accumulate(shares)]
    places = [min(bisect_right(ends, unit / (layers + 1)), len(shares) - 1) for unit in range(layers)]
    counts = [places.count(at) for at in range(len(shares))]
    bounds = [0, *accumulate(counts)]
    return list(pairwise(bounds))


def pieces_of(subjects: Sequence[tuple[str, Subject]], plan: ServePlan, bounds: Sequence[tuple[int, int]]) -> list[Piece]:
    """What each accelerator holds; the subjects are those of the whole model on each of them."""
    made = []
    for at, ((name, subject), (first, end)) in enumerate(zip(subjects, bounds, strict=True)):
        last = at == len(bounds) - 1
        arch = sliced(subject.arch, first, end, last=last)
        own = subject.replaced(arch=arch, counts=count(arch, subject.card))
        made.append(
            Piece(name=name, at=at, first=first, end=end, last=last, subject=own, plan=_plan_of(plan, subject.arch, arch, last))
        )
    return made


def sliced(arch: Architecture, first: int, end: int, *, last: bool) -> Architecture:
    """Some layers of a decoder; without table and head but on the last accelerator, as the input table is the host's."""
    stack = arch.decoder
    runs: list[Run] = []
    at = 0
    for run in stack.layers:
        here = min(at + run.count, end) - max(at, first)
        at += run.count
        if here > 0:
            runs.append(Run(block=run.block, count=here))
    kept = {run.block for run in runs}
    blocks = {name: block for name, block in stack.blocks.items() if name in kept}
    own = stack.replaced(layers=tuple(runs), blocks=blocks, final_norm=stack.final_norm and last)
    if last:
        return arch.replaced(stacks=(own,))
    return arch.replaced(
        stacks=(own,), head=False, head_bias=False, tied=False, vocab=1, positions=0, token_types=0, embedding_width=None,
        embedding_norm=None, extra_params={}, vision=None,
    )  # fmt: skip


def _plan_of(plan: ServePlan, whole: Architecture, part: Architecture, last: bool) -> ServePlan:
    """The plan with what the checkpoint holds of the layers that are here."""
    made = plan.replaced(parts=plan.parts if last else tuple(one for one in plan.parts if one[0]))
    return made if plan.checkpoint is None else made.replaced(checkpoint=_stored(plan.checkpoint, whole, part, last))


def _stored(stored: StoredTensors, whole: Architecture, part: Architecture, last: bool) -> StoredTensors:
    """The bytes of a checkpoint's layers that are here, as even shares of all of a kind."""
    here, there = part.decoder.counts(), whole.decoder.counts()
    parts: dict[str, dict[str, int]] = {}
    for name, sizes in stored.parts.items():
        kind = name.partition(".")[0]
        if kind in there:
            ratio = here.get(kind, 0) / there[kind]
            if ratio:
                parts[name] = {of: max(round(size * ratio), 1) for of, size in sizes.items()}
        elif last:
            parts[name] = dict(sizes)
    return stored.replaced(parts=parts)


def room_of(pieces: Sequence[Piece]) -> float:
    """Sequences of the plan's context that all accelerators have room for, and that the engine runs."""
    memories = [ServingModel.of(one.subject, one.plan).memory() for one in pieces if one.layers]
    rooms = [_value(most) for one in memories if (most := one.max_sequences) is not None]
    return max(min([*rooms, *(_value(one.limit) for one in memories)]), 1.0)


def served(pieces: Sequence[Piece]) -> Served:
    """Figures of a plan whose layers are shared out; every sequence of its batch runs at once.

    Raises:
        UnknownError: an accelerator lacks a parameter that the plan needs.
        UsageError: the engine does not serve.
    """
    models = [ServingModel.of(one.subject, one.plan) for one in pieces]
    named = [_Named(one) for one in pieces]
    memory = tuple(name.memory(model.memory()) for name, model in zip(named, models, strict=True))
    last, plan = models[-1], pieces[-1].plan
    batch, output = last.serve.batch, last.subject.plan("output", plan.output)
    alone = _prompts("prefill", models, named, ONE)
    whole = _prompts("batch_prefill", models, named, batch)
    decode = _steps(models, named)
    seconds = form.generation_seconds.term("batch.seconds", prefill=whole[0], output=output, step=decode[0])
    tokens_per_s = form.batch_tokens_per_s.term("tokens_per_s", batch=batch, output=output, seconds=seconds, replicas=ONE)
    loaded = form.interrupted_seconds.term(
        "decode.loaded_seconds", step=decode[0], prefill=whole[0], batch=batch, output=output
    )  # fmt: skip
    figures: dict[str, Term] = {
        "ttft_s": total("ttft", {"prefill": alone[0], "request": last.subject.habit("request_host", last.profile.request_host)}),
        "tpot_s": loaded,
        "itl_s": decode[0],
        "tokens_per_s": tokens_per_s,
        "tokens_per_s_per_user": rate.term("tokens_per_s_per_user", count=ONE, seconds=loaded),
        "batch_prefill_s": whole[0],
    }
    made = Served(figures=figures, prefill=alone, decode=decode, memory=memory)
    full, own = memory[made.fullest], named[made.fullest]
    figures |= {
        "peak_memory_bytes": full.needed,
        "memory_budget_bytes": full.budget,
        "memory_capacity_bytes": own.term(pieces[made.fullest].subject.hw.seen_memory()),
        "headroom_bytes": remaining_bytes.term("memory.headroom", budget=full.budget, used=full.needed),
        "weights_bytes": total("memory.weights_of_all", [one.loaded for one in memory]),
        "kv_cache_bytes_per_sequence": total("cache.sequence_of_all", [one.sequence for one in memory]),
    }
    prices, powers = ([one.subject.price for one in pieces], [one.subject.hw.power for one in pieces])
    figures |= spent_by(_of_all("fleet.price", named, prices), _of_all("fleet.power", named, powers), tokens_per_s)
    return made


def _of_all(name: str, named: Sequence[_Named], each: Sequence[Term | None]) -> Term | None:
    """The sum over all accelerators; None where that of one is not known."""
    known = [own.term(one) for own, one in zip(named, each, strict=True) if one is not None]
    return total(name, known) if len(known) == len(each) else None


def _prompts(name: str, models: Sequence[ServingModel], named: Sequence[_Named], sequences: Term) -> tuple[Term, Parts]:
    """All prompts through all accelerators, which are busy together where there are several passes."""
    phases = [model.prefill(name, sequences) for model in models]
    last = models[-1]
    passes = phases[-1].seconds.find(f"{name}.passes")
    if passes is None:
        passes = ONE
    each = {own.key: own.without_host(phase, name) for own, phase in zip(named, phases, strict=True)}
    sent = _handed_over(name, models, named, last.leaves.times(f"{name}.tokens", sequences, last.prompt()))
    work = form.shared_out_seconds.term(
        f"{name}.of_layers", whole=total(f"{name}.in_turn", each), slowest=greatest(f"{name}.slowest", each), passes=passes,
        pipelined=last.subject.habit("pipelined_passes", last.profile.pipelined_passes),
    )  # fmt: skip
    parts: Parts = {"layers": work, "hand_over": sent, "host": phases[-1].parts["host"]}
    return total(f"{name}.seconds", parts), parts


def _steps(models: Sequence[ServingModel], named: Sequence[_Named]) -> tuple[Term, Parts]:
    """One decode step: every accelerator in its turn."""
    phases = [model.decode() for model in models]
    each = {own.key: own.without_host(phase, "decode") for own, phase in zip(named, phases, strict=True)}
    sent = _handed_over("decode", models, named, models[-1].serve.batch)
    parts: Parts = {**each, "hand_over": sent, "host": phases[-1].parts["host"]}
    return total("decode.seconds", parts), parts


def _handed_over(name: str, models: Sequence[ServingModel], named: Sequence[_Named], rows: Term) -> Term:
    """Hidden states of `rows` tokens from each accelerator to the next, through the memory of the host."""
    last = models[-1]
    hidden = last.leaves("hidden", last.subject.arch.hidden)
    size = tensor_bytes.term(f"{name}.handed_over", tokens=rows, width=hidden, element_bytes=byte("recipe.hidden_bytes", _FP32))
    whole = Term("link.share", 1.0, "1", _LINK)
    found: list[Term] = []
    for (one, own), (other, its) in pairwise(zip(models, named, strict=True)):
        for model, said, way in ((one, own, "out"), (other, its, "in")):
            link = model.subject.hw.host_link
            if link is not None:
                found.append(wire_seconds.term(f"{name}.{said.key}.{way}", wire=size, bandwidth=said.term(link), share=whole))
    return total(f"{name}.hand_over", found) if found else Term(f"{name}.hand_over", 0.0, "s", DEFINITION)


class _Named:
    """The terms of one accelerator under names of their own, as there are the same on others."""

    def __init__(self, piece: Piece) -> None:
        self.key = f"{piece.name}_{piece.at + 1}"
        self._leaf, self._made = piece.name, self.key
        self._done: dict[int, tuple[Term, Term]] = {}

    def term(self, term: Term) -> Term:
        """A term and all below it, so named; what is the same everywhere keeps its name."""
        done = self._done.get(id(term))
        if done is not None:
            return done[1]
        if term.formula is None:
            made = term if term.name.startswith(SHARED) else replace(term, name=f"{self._name(term.name)}.{term.name}")
        else:
            args = tuple((key, self.term(part)) for key, part in term.args)
            made = replace(term, name=f"{self._made}.{term.name}", args=args)
        self._done[id(term)] = term, made  # The term is kept, so that no other can have its id.
        return made

    def _name(self, leaf: str) -> str:
        return self._leaf if leaf.startswith("hw.") else self._made

    def memory(self, memory: ServingMemory) -> ServingMemory:
        """The memory of the accelerator with its terms so named."""
        given: dict[str, Any] = {
            name: self.term(value) for name in memory.field_names() if isinstance(value := getattr(memory, name), Term)
        }
        return memory.replaced(**given, parts={key: self.term(part) for key, part in memory.parts.items()})

    def without_host(self, phase: ServingPhase, name: str) -> Term:
        """What the accelerator works in a phase, without the host's share, which there is once."""
        made = self.term(total(name, {key: part for key, part in phase.parts.items() if key != "host"}))
        return replace(made, name=f"{name}.{self.key}")


def _value(term: Term) -> float:
    found: Any = term.value
    return float(found)
