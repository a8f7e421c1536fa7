"""A serving question about unlike accelerators of one host (`--on rtx-4090+rtx-3090`): who holds which layers, and the answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from gpuplan.errors import Note, PlanError, Problem, UsageError
from gpuplan.estimate.money import money_figures
from gpuplan.estimate.result import Breakdown, Choice, Estimate, Verdict
from gpuplan.estimate.serving_memory import ServingMemory, at_least
from gpuplan.estimate.unlike import Piece, Served, pieces_of, room_of, served, shared_out
from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.plan.read import said as told
from gpuplan.ranges import high_end
from gpuplan.search.library import Library
from gpuplan.search.serving import Settled, answer_serving, settled
from gpuplan.search.taken import DEGREES, refuse
from gpuplan.specs.target import Target
from gpuplan.specs.unlike import joined_accelerators
from gpuplan.units import human


def answer_unlike(ask: ServeAsk, library: Library) -> Estimate:
    """The answer for accelerators that a `+` joins; engines that give all the same are answered for the weakest of them.

    Raises:
        GpuplanError: a name is not known, or the question cannot be asked of unlike accelerators.
    """
    targets = joined_accelerators(ask.on, library.catalog)
    ids = [one.accelerator.id for one in targets]
    if len({*ids}) == 1 and ask.tensor_split is None:
        return answer_serving(ask.replaced(on=f"{len(ids)}x{ids[0]}"), library)
    name = ask.engine or _usual(ask, library)
    engine, _ = library.engine(name)
    if engine.serving is None or not engine.serving.layers_by_memory:
        if ask.tensor_split is not None:
            what = f"--tensor-split: {engine.name} gives every accelerator as much as the others"
            raise UsageError(Problem("engine.even-shares", what, "llama-cpp shares layers out; leave it out otherwise"))
        return _as_the_weakest(ask, targets, library, engine.name)
    refuse(ask, "unlike")
    asked = ask.replaced(engine=name, batch=ask.batch or 1, tensor_split=None)
    whole = {ident: settled(asked.replaced(on=ident, tp=1, pp=1, dp=1), library) for ident in dict.fromkeys(ids)}
    first = whole[ids[0]]
    arch = first.subject.arch
    if arch.two_stacks or not arch.generates or len(arch.stacks) > 1:
        what = f"{first.found.card.id} is no decoder alone, of which accelerators could share the layers"
        raise PlanError(Problem("plan.unlike-stacks", what, "name accelerators that are alike"))
    shares = _shares(ask, [whole[ident] for ident in ids])
    bounds = shared_out(arch.depth, shares)
    kept = [at for at, (begin, end) in enumerate(bounds) if end > begin or at == len(bounds) - 1]
    subjects = [(ids[at], whole[ids[at]].subject) for at in kept]
    pieces = pieces_of(subjects, first.plan, [bounds[at] for at in kept])
    batch = float(ask.batch) if ask.batch is not None else room_of(pieces)
    pieces = [one.replaced(plan=one.plan.replaced(batch=batch)) for one in pieces]
    return _answer(ask, asked, [whole[ident] for ident in ids], pieces, served(pieces), engine.name)


def _usual(ask: ServeAsk, library: Library) -> str:
    """The engine that shares layers out, where the question names none.

    Raises:
        UsageError: no engine on file does.
    """
    for ident in library.catalog.paths("engines"):
        serving = library.engine(ident)[0].serving
        if serving is not None and serving.layers_by_memory:
            return ident
    raise UsageError(Problem("target.unlike", f"no engine on file shares the layers of a model out over `{ask.on}`"))


def _as_the_weakest(ask: ServeAsk, targets: Sequence[Target], library: Library, engine: str) -> Estimate:
    """The answer of an engine that gives all accelerators the same: as many of the one with the least memory."""

    def strength(target: Target) -> tuple[float, float]:
        memory = target.accelerator.memory
        size: Any = memory.capacity.value
        return float(size), float(memory.bandwidth.value)

    weakest = min(targets, key=strength).accelerator
    on = f"{len(targets)}x{weakest.id}"
    made = answer_serving(ask.replaced(on=on), library)
    slower = min(float(one.accelerator.memory.bandwidth.value) for one in targets) < float(weakest.memory.bandwidth.value)
    text = f"{engine} gives every accelerator as much as the others: answered as {on}, the one with the least memory"
    hint = "another of them is slower, and waited for" if slower else "llama-cpp shares the layers out by memory"
    return made.replaced(question={**made.question, "on": ask.on}, notes=(Note("target.weakest", text, hint), *made.notes))


def _shares(ask: ServeAsk, whole: Sequence[Settled]) -> list[float]:
    """How the layers are shared out: as the user says, or by memory.

    Raises:
        UsageError: there is not one share for each accelerator.
    """
    if ask.tensor_split is None:
        memories: list[Any] = [one.subject.hw.seen_memory().value for one in whole]
        return [float(one) for one in memories]
    try:
        given = [float(part) for part in ask.tensor_split.replace("/", ",").split(",")]
    except ValueError:
        given = []
    if len(given) != len(whole) or any(not 0 <= one < 1e9 for one in given) or sum(given) <= 0:
        what = f"--tensor-split: `{ask.tensor_split}` is not one share for each of the {len(whole)} accelerators"
        raise UsageError(Problem("usage.bad-value", what, "write numbers with commas between, such as `3,1`"))
    return given


def _answer(
    ask: ServeAsk, asked: ServeAsk, whole: Sequence[Settled], pieces: Sequence[Piece], made: Served, engine: str
) -> Estimate:  # fmt: skip
    first, plan = whole[0], pieces[-1].plan
    said = [_said(piece, memory) for piece, memory in zip(pieces, made.memory, strict=True)]
    question = {
        "model": first.found.card.id, "on": ask.on, "accelerators": " + ".join(_counted([one.name for one in pieces])),
        "engine": first.subject.engine.id, "weights": plan.weights, "kv_cache": plan.kv_cache, "prompt": f"{plan.prompt:.12g}",
        "output": f"{plan.output:.12g}", "context": f"{plan.context:.12g}", "batch": f"{plan.batch:.12g}", "split": "; ".join(said),
    }  # fmt: skip
    question |= {name: text for name, text in told(ask).items() if name not in (*question, "task")}
    memories = [
        Breakdown(f"memory of {piece.name}, accelerator {piece.at + 1}", memory.needed, memory.parts)
        for piece, memory in zip(pieces, made.memory, strict=True)
    ]
    full = made.fullest
    breakdowns = (
        Breakdown("prefill of one request", *made.prefill), Breakdown("decode step", *made.decode),
        *(one for at, one in enumerate(memories) if at != full), memories[full],
    )  # fmt: skip
    why = "as --tensor-split says" if ask.tensor_split is not None else f"by memory, as {engine} does"
    chosen = [one for one in first.chosen if one.name not in (*DEGREES, "batch")]
    chosen.append(Choice("layers", " + ".join(str(one.layers) for one in pieces), why))
    if ask.engine is None:
        chosen.append(Choice("engine", first.subject.engine.id, "it shares layers out over unlike accelerators"))
    if ask.batch is None:
        chosen.append(Choice("batch", f"{plan.batch:.12g}", "of what the caches of all hold and the engine runs"))
    notes = {note.text: note for one in whole for note in one.found.notes if not note.code.startswith("target.")}
    turns = "each token passes one accelerator after the other: a second one gives room, and no pace"
    notes[turns] = Note("serve.in-turn", turns)
    command = "" if first.command is None else first.command.text
    if command and ask.tensor_split is not None:
        command = f"{command} --tensor-split {ask.tensor_split}"
    figures = {**made.figures, **money_figures(made.figures, first.subject.money)}
    return Estimate(
        "serve", question, _verdict(pieces, made, said), figures, breakdowns, tuple(chosen),
        (*getattr(ask, "heard", ()), *notes.values()), command if ask.engine is not None else "",
    )  # fmt: skip


def _counted(names: Sequence[str]) -> list[str]:
    return [name if number == 1 else f"{number} x {name}" for name, number in Counter(names).items()]


def _said(piece: Piece, memory: ServingMemory) -> str:
    need, have = (float(_number(one)) for one in (memory.needed, memory.budget))
    layers = f"{piece.layers} layer{'' if piece.layers == 1 else 's'}{' and the head' if piece.last else ''}"
    return f"{piece.name} {layers}, {human(need, 'B')} of {human(have, 'B')}"


def _verdict(pieces: Sequence[Piece], made: Served, said: Sequence[str]) -> Verdict:
    """It fits where every accelerator has room for what it holds; the fullest one binds."""
    full = made.memory[made.fullest]
    binding = max(full.parts.values(), key=_number)
    over = [one for one in made.memory if _number(one.needed) > _number(one.budget)]
    if over:
        most = max(over, key=lambda one: _number(one.needed) - _number(one.budget))
        much = human(_number(most.needed) - _number(most.budget), "B")
        name = pieces[made.memory.index(most)].name
        return Verdict(False, f"does not fit: {'; '.join(said)}: {much} too much on {name}", binding.name)
    high: Any = high_end(at_least(full.needed))
    if float(high) > _number(full.budget):
        name = pieces[made.fullest].name
        text = f"fits narrowly: {'; '.join(said)}; {name} may need up to {human(float(high), 'B')}"
        return Verdict(True, text, binding.name, narrowly=True)
    return Verdict(True, f"fits: {'; '.join(said)}", binding.name)


def _number(term: Any) -> float:
    return float(term.value)
