"""How little of a model must lie in the memory of the host, where accelerators cannot hold it and the engine places it there?"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable

from gpuplan.errors import GpuplanError
from gpuplan.estimate.result import Choice
from gpuplan.estimate.serving import ServingModel
from gpuplan.models.architecture import Moe
from gpuplan.models.card import ModelCard
from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.search.library import Library
from gpuplan.search.serving import settled
from gpuplan.search.serving_engine import HELD, LAYERED, places
from gpuplan.search.start_command import arguments_of
from gpuplan.specs.engine_era import split_name
from gpuplan.term import Parts

WHY = {
    "host_experts": "experts of as few layers as fit nowhere else, which leaves attention to the accelerator",
    "gpu_layers": "as many layers as fit",
}


def least_on_host(card: ModelCard, fits: Callable[[str, int], bool], *, whole: bool = False) -> dict[str, int]:
    """As few layers' experts as fit, of a model without them or where that is not enough as many whole layers; {}: nothing fits.

    `fits` says of an option and its number whether that is enough; `whole`: the engine places whole layers alone.
    """
    depth, mixtures = card.architecture.depth, layers_with_experts(card)
    if mixtures and not whole and fits("host_experts", mixtures):
        return {"host_experts": bisect_left(range(mixtures), True, key=lambda n: fits("host_experts", n))}
    if not fits("gpu_layers", 0):
        return {}
    return {"gpu_layers": depth + 1 - bisect_left(range(depth + 1), True, key=lambda n: fits("gpu_layers", depth + 1 - n))}


def layers_with_experts(card: ModelCard) -> int:
    """Layers with experts."""
    stack = card.architecture.decoder
    return sum(run.count for run in stack.layers if isinstance(stack.blocks[run.block].mlp, Moe))


def whole_layers(engine: str | None, profile: str, library: Library) -> bool:
    """Whether an engine by its name has no word for the experts of a layer alone (Ollama: `num_gpu` is all there is)."""
    table = None if engine is None else arguments_of(engine, profile, library)
    return table is not None and all(flag.sets != "host_experts" for flag in table.flags().values())


def host_holds(figures: Parts) -> bool:
    """Whether the memory of the host is not known to be too small for what lies there."""
    there, room = figures.get("host_memory_bytes"), figures.get("host_memory_capacity_bytes")
    return there is None or room is None or bool(there.value <= room.value)


def spilled(ask: ServeAsk, library: Library) -> tuple[ServeAsk, Choice | None]:
    """The question with what does not fit in the memory of the host, of which it tells; the same where it need or can not.

    An engine that runs layers there decides so by itself (llama.cpp: --fit, on unless it is switched off), so a whole command
    of one that says nothing of it (`ollama run`) is answered as it runs, though nothing is told of the host.
    Errors as `settled`.
    """
    told = ask.host_memory is not None or ask.host_bandwidth is not None
    if not told and not _decides(ask, library):
        return ask, None
    if any(getattr(ask, name) is not None for name in HELD) or ask.is_simulated:
        return ask, None
    whole = settled(ask, library)
    if whole.fits or not places(whole.subject.engine) >= LAYERED:
        return ask, None

    def fits(name: str, count: int) -> bool:
        try:
            one = settled(ask.replaced(**{name: count}), library)
        except GpuplanError:
            return False
        return one.fits and host_holds(ServingModel.of(one.subject, one.plan).memory().on_host)

    found = least_on_host(whole.found.card, fits, whole=whole_layers(ask.engine, whole.subject.engine.id, library))
    if not found:
        return ask, None
    name, count = next(iter(found.items()))
    why = WHY[name] if told else f"{WHY[name]}, as its engine does unasked; whether the host holds the rest says `--host-memory`"
    return ask.replaced(**found), Choice(name, str(count), why)


def _decides(ask: ServeAsk, library: Library) -> bool:
    """Whether a whole command starts an engine that runs in the memory of the host what fits nowhere else."""
    if not ask.commanded or ask.placed or ask.engine is None:
        return False
    name, release = split_name(ask.engine)
    return not release and places(library.engine(name)[0]) >= LAYERED
