"""Which engine serves where a question names none: that of the chip, of the checkpoint, of what is named, or the usual one?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from gpuplan.models.card import ModelCard
from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.plan.common import Common
from gpuplan.plan.words import SHARED_FORMATS, SHARED_KV_FORMATS
from gpuplan.record import Record
from gpuplan.specs.accelerator import Accelerator
from gpuplan.specs.engine import Engine
from gpuplan.specs.engine_era import split_name
from gpuplan.specs.target import Target

SERVES = "vllm"
"""The engine that most people serve with, where an accelerator's file names no other."""
SERVES_OLD = "llama-cpp"
"""The same on accelerators that it does not run on."""
HELD = ("gpu_layers", "host_experts", "host_weights")
"""What of a model a question can keep in the memory of the host."""
FEW_CARDS = 4
"""So many accelerators one user has at most."""
LAYERED = frozenset({"gpu_layers", "host_experts"})
"""What of it runs there."""
Has = Callable[[Engine], bool]


class Engines(Record):
    """The engines on record: one by name, and the names of all."""

    named: Callable[[str], Engine]
    names: Iterable[str]


def serving_engine(ask: Common, card: ModelCard, target: Target, engines: Engines) -> tuple[str, str]:
    """The name of the engine of a question that names none, and half a sentence why; empty where it is the usual one."""
    chip = target.accelerator
    own = chip.default_engines.get("serve")
    if card.engine is not None and (own is None or _made_for(engines.named(card.engine), chip)):
        return card.engine, f"it serves what {card.id} is stored in"
    usual, why = _usual(ask, target, engines)
    named = [(said, has) for said, has in _named(ask) if not has(engines.named(split_name(usual)[0]))]
    if not named:
        return usual, why
    for name in dict.fromkeys((SERVES, *engines.names)):
        engine = engines.named(name)
        runs = engine.serving is not None and engine.refused_by(chip.vendor, chip.family) is None
        if runs and (own is None or _made_for(engine, chip)) and all(has(engine) for _, has in named):
            return name, named[0][0]
    return usual, why


def _usual(ask: Common, target: Target, engines: Engines) -> tuple[str, str]:
    """The engine of those who say nothing of it, and why."""
    chip = target.accelerator
    if (own := chip.default_engines.get("serve")) is not None:
        return own, f"others do not run on {chip.name}"
    if (alone := chip.default_engines.get("alone")) is not None and target.count == 1 and not _of_many(ask):
        return alone, f"one user of one {chip.name} mostly runs models with it"
    if (usual := engines.named(SERVES)).refused_by(chip.vendor, chip.family) is not None:
        if (last := usual.last_on(chip.vendor, chip.family)) is not None:
            return f"{SERVES}@{last}", f"later releases than {last} do not run on {chip.name}"
        return SERVES_OLD, f"vLLM does not run on {chip.name}"
    return SERVES, ""


def of_one_user(ask: Common, target: Target) -> str | None:
    """The engine that one user of a few cards without HBM may take where the usual one does not hold a model; None: none."""
    few = ask.engine is None and target.count <= FEW_CARDS and not _of_many(ask)
    plain = not target.accelerator.memory.type.upper().startswith("HBM") and not target.accelerator.default_engines.get("serve")
    return SERVES_OLD if few and plain else None


def _made_for(engine: Engine, chip: Accelerator) -> bool:
    """Whether an engine is known to run on a vendor's accelerators, among few."""
    return engine.runs_on is not None and chip.vendor in engine.runs_on.text.split()


def _of_many(ask: Common) -> bool:
    """Whether a question is about more than one user at once."""
    at_once = [getattr(ask, name, None) or 1 for name in ("batch", "concurrency")]
    return max(at_once) > 1 or any(getattr(ask, name, None) is not None for name in ("rate", "trace"))


def _named(ask: Common) -> Iterator[tuple[str, Has]]:
    """What a question names that not every engine has: half a sentence, and whether an engine has it."""
    weights, cache = getattr(ask, "weights", None), getattr(ask, "kv_cache", None)
    if weights is not None and weights not in SHARED_FORMATS:
        yield f"{weights} is a type of its files", lambda one: weights in _words(one, "files")
    if cache is not None and cache not in SHARED_KV_FORMATS:
        yield f"a cache in {cache} is its own", lambda one: cache in _words(one, "caches")
    if not isinstance(ask, ServeAsk):
        return
    held = frozenset(name for name in HELD if getattr(ask, name) is not None)
    if held:
        flag = min(held).replace("_", "-")
        yield f"--{flag} is a setting of it", lambda one: held <= places(one)
    elif ask.host_memory is not None or ask.host_bandwidth is not None:
        yield "it runs a part of the model in the memory of the host", lambda one: places(one) >= LAYERED


def _words(engine: Engine, name: str) -> list[str]:
    """The types of a kind that an engine alone has."""
    text = None if engine.serving is None else getattr(engine.serving.formats, name)
    return [] if text is None else text.text.split()


def places(engine: Engine) -> frozenset[str]:
    """What an engine can keep in the memory of the host."""
    host = None if engine.serving is None else engine.serving.host
    return frozenset(() if host is None else host.places)
