"""Which small changes of a question would make it fit, or make it better? Each is tried with the same estimator."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple, TypeVar

from gpuplan.errors import GpuplanError
from gpuplan.estimate.result import Change, Estimate
from gpuplan.plan.ask import TrainAsk
from gpuplan.plan.ask_serving import FitAsk, ServeAsk
from gpuplan.plan.common import Common
from gpuplan.plan.option import grouped
from gpuplan.record import Record
from gpuplan.search.load import rate_text
from gpuplan.specs.engine import Engine, Formats
from gpuplan.units import human, so_many

MOST = 3
"""Changes that an answer shows."""
WORTH = 0.02
"""The share by which a change must raise a figure to be shown."""
_COUNTED = re.compile(r"^\s*(\d+)\s*[xX]\s*(.+)$")
_SLICE = re.compile(r"^\s*((?:\d+\s*[xX]\s*)?(?:tpu-)?v\d[a-z]*-)(\d+)$", re.IGNORECASE)
_BIGGER = (
    "l40s", "a100-sxm-80gb", "h100-sxm-80gb", "h200-sxm-141gb", "b200-sxm-180gb", "mi300x", "8xh100-sxm-80gb", "8xh200-sxm-141gb",
)  # fmt: skip
"""Accelerators that are widely rented, in order of price; tried where more of the same does not help."""

Question = TypeVar("Question", bound=Common)


_LENGTHS = tuple(2**power for power in range(20, 11, -1))
"""Lengths that an engine may be told to accept in place of the model's own: the longest with room is taken."""
_SEQUENCES = (256, 64, 16, 4, 1)
"""Sequences that an engine may be told to run at most in place of its own number: the most with room are taken."""
_HOST_EXPERTS, _GPU_LAYERS = (8, 16, 24, 32, 40, 48, 64), (88, 72, 64, 56, 48, 40, 32, 24, 16, 8)
"""Layers of which experts are tried on the host, and layers that are left to accelerators."""
_DEGREES = ("tp", "pp", "dp", "cp", "ep", "vpp")


class Relief(NamedTuple):
    """What an engine has for less memory and traffic than is taken unasked: narrower types, and the host's own memory."""

    weights: tuple[str, ...] = ("fp8", "int4")
    kv_cache: tuple[str, ...] = ("fp8",)
    hosted: tuple[str, ...] = ()
    """What it can have the processors of the host work on, by option."""
    alone: str | None = None
    """The engine that one user of such an accelerator may take instead, with files and places in the host of its own."""

    @classmethod
    def of(cls, engine: Engine) -> Relief:
        """What is on record of an engine; of one that says nothing, what most have."""
        serving = engine.serving
        formats = serving.formats if serving is not None else Formats()
        weights = cls().weights if formats.narrow is None else tuple(formats.narrow.text.split())
        cache = cls().kv_cache if formats.narrow_kv is None else tuple(formats.narrow_kv.text.split())
        places = () if serving is None or serving.host is None else tuple(serving.host.places)
        return cls(weights, () if cache == ("none",) else cache, places)


USUAL = Relief()
"""What most engines have."""


COMES = ("batch", "concurrency", "rate", "requests", "trace")
"""How a question says how many sequences there are; where it does not, as many are taken as there is room for."""


class Trial(Record):
    """A changed question and the flags that change it; one success of a `group` is enough ("": all are of interest).

    `freed` are options of the user that are chosen anew: what was chosen is among the flags of the change.
    """

    ask: Common
    flags: dict[str, str]
    group: str = ""
    freed: tuple[str, ...] = ()


def fitting_changes(
    ask: Question, answer: Callable[[Question], Estimate], options: Collection[str] | None = None,
    *, roughly: Callable[[Question], Estimate] | None = None, relief: Relief = USUAL, overloaded: bool = False,
) -> tuple[Change, ...]:  # fmt: skip
    """The smallest changes that make a question fit: formats and lengths first, then more of the same, then other accelerators.

    Only changes in `options` are looked at; None: all. `roughly` is a faster answer that says as well whether something fits.
    `overloaded`: it fits, and does not keep the rate that is asked for.
    """
    found: list[Change] = []
    done: set[str] = set()
    for trial in _trials(_resident(ask), relief):
        if trial.group in done or not _among(trial, options):
            continue
        made = _tried(trial.ask, roughly or answer)  # type: ignore[arg-type]
        if made is None or not made.verdict.fits or (_nobody_knows(made) and trial.group != "host"):
            continue
        made = _tried(trial.ask, answer) or made  # type: ignore[arg-type]
        machine = made.question.get("accelerators", "") if "on" in trial.flags else ""
        if machine in done:
            done |= {trial.group} if len(trial.flags) > 1 else set()  # with nothing else it is enough: with more it helps nobody
            continue
        flags = trial.flags | {name: made.question[name] for name in trial.freed if name in made.question}
        there = made.figures.get("host_memory_bytes") if trial.group == "host" else None
        beside = "" if there is None else f", and {human(float(there.value), 'B')} in the memory of the host"
        stored = f" in {made.question['weights']}" if "engine" in flags and "weights" in made.question else ""
        effect = f"fits{' narrowly' if made.verdict.narrowly else ''}{stored}{_room(trial.ask, made)}{beside}"
        if overloaded and (most := made.figures.get("highest_rate_per_s")) is not None:
            effect = f"up to {rate_text(float(most.value))}{', if it fits' if made.verdict.narrowly else ''}"
        found.append(Change(flags, effect))
        done |= {trial.group, machine} - {""}
        if len(found) == MOST:
            break
    return tuple(found)


def _room(ask: Question, made: Estimate) -> str:
    """The room that there is: of sequences that fill it, where as many are taken as it holds, or else of memory."""
    many = made.figures.get("max_sequences")
    filled = isinstance(ask, ServeAsk) and all(getattr(ask, name) is None for name in COMES)
    if filled and many is not None and float(many.value) >= 1:
        return f" with room for {so_many(float(many.value), 'sequence')} at once"
    spare = float(made.figures["headroom_bytes"].value)
    return f" with {human(spare, 'B')} to spare" if spare > 0 else ""


def _resident(ask: Question) -> Question:
    """The question without the last resort, offloading unasked: a change that helps does so by itself."""
    return ask.replaced(offload=()) if isinstance(ask, TrainAsk) and ask.offload is None else ask


def _among(trial: Trial, options: Collection[str] | None) -> bool:
    return options is None or {*trial.flags, *trial.freed} <= {*options}


def _nobody_knows(made: Estimate) -> bool:
    """Whether it fits only because nobody said how large the host's memory or disks are."""
    return any(
        f"{place}_bytes" in made.figures and f"{place}_capacity_bytes" not in made.figures for place in ("host_memory", "disk")
    )


def better_changes(
    ask: Question, before: Estimate, answer: Callable[[Question], Estimate], figure: str, options: Collection[str] | None = None,
    *, relief: Relief = USUAL,
) -> tuple[Change, ...]:  # fmt: skip
    """Changes of a question that fits which raise a figure most: narrower formats and more accelerators."""
    if figure not in before.figures:
        return ()
    now = float(before.figures[figure].value)
    told = next((key for key in ("images_per_s", "audio_seconds_per_s") if key in before.figures), figure)  # as much faster
    gains: list[tuple[float, Change]] = []
    for trial in _improvements(_resident(ask), before, relief):
        if not _among(trial, options):
            continue
        made = _tried(trial.ask, answer)  # type: ignore[arg-type]
        if made is None or not made.verdict.fits or _nobody_knows(made):
            continue
        gain = float(made.figures[figure].value) / now - 1 if now else 0.0
        if gain > WORTH:
            name = told.replace("_per_s", "/s").replace("_", " ")
            narrowly = ", which fits narrowly" if made.verdict.narrowly and not before.verdict.narrowly else ""
            gains.append((gain, Change(trial.flags, f"{name} +{gain:.0%}{narrowly}")))
    gains.sort(key=lambda one: -one[0])
    return tuple(change for _, change in gains[:MOST])


def _tried(ask: Question, answer: Callable[[Question], Estimate]) -> Estimate | None:
    """The answer to a changed question, or None where it cannot be asked."""
    try:
        return answer(ask)
    except GpuplanError:
        return None


def _trials(ask: Common, relief: Relief) -> Iterator[Trial]:
    if isinstance(ask, TrainAsk):
        yield from _divided(ask)
    yield from _narrower(ask, relief)
    yield from _partly_on_host(ask, relief)
    yield from _of_one_user(ask, relief)
    yield from _shorter(ask)
    yield from _more(ask, {})
    if isinstance(ask, (ServeAsk, FitAsk)) and ask.weights is None and relief.weights:
        least = relief.weights[-1]
        yield from _more(ask.replaced(weights=least), {"weights": least})
    if isinstance(ask, TrainAsk):
        yield from _adapted(ask)
    for name in _BIGGER:
        yield Trial(_free(ask, name), {"on": name}, "other", _freed(ask))


def _divided(ask: TrainAsk) -> Iterator[Trial]:
    """The same work on the same machine, divided otherwise than the user said, or with more of it run again."""
    if ask.zero_stage is not None and ask.zero_stage < 3:
        yield Trial(ask.replaced(zero_stage=3), {"zero-stage": "3"})
    if ask.recompute not in (None, "full"):
        again = ask.replaced(recompute="full", recompute_layers=None, keep=None, to_host=None)
        if ask.recompute_layers is None and ask.keep is None and ask.to_host is None:
            yield Trial(again, {"recompute": "full"})
    freed = _freed(ask)
    if freed:
        yield Trial(ask.replaced(**dict.fromkeys(freed)), {}, "divided", freed)


def _adapted(ask: TrainAsk) -> Iterator[Trial]:
    """Fewer trained weights: adapters, on quantised weights where that is not enough."""
    if ask.rl is not None or ask.optimizer not in (None, "adamw", "adamw-8bit"):
        return
    if ask.lora is None and not ask.scales:
        yield Trial(ask.replaced(lora=16), {"lora": "16"}, "adapters")
        yield Trial(ask.replaced(lora=16, qlora=True), {"lora": "16", "qlora": ""}, "adapters")
    elif ask.qlora is None and ask.base_weights is None:
        yield Trial(ask.replaced(qlora=True), {"qlora": ""}, "adapters")


def _stored(ask: ServeAsk | FitAsk, relief: Relief, *, weights: bool, kv_cache: bool) -> Iterator[Trial]:
    """Narrower types of the weights and of the cache."""
    for name, types in (("kv_cache", relief.kv_cache if kv_cache else ()), ("weights", relief.weights if weights else ())):
        for one in types:
            yield Trial(ask.replaced(**{name: one}), {name.replace("_", "-"): one})


def _narrower(ask: Common, relief: Relief) -> Iterator[Trial]:
    if isinstance(ask, (ServeAsk, FitAsk)):
        yield from _stored(ask, relief, weights=ask.weights is None, kv_cache=ask.kv_cache is None)
    if isinstance(ask, (TrainAsk, FitAsk)) and ask.optimizer is None:
        yield Trial(ask.replaced(optimizer="adamw-8bit"), {"optimizer": "adamw-8bit"})
    if isinstance(ask, TrainAsk) and ask.zero_stage is None:
        yield Trial(ask.replaced(zero_stage=3), {"zero-stage": "3"})
    if isinstance(ask, TrainAsk) and ask.chunked_loss is None:
        yield Trial(ask.replaced(chunked_loss=True), {"chunked-loss": ""})
    if isinstance(ask, TrainAsk) and not ask.offload and ask.lora is None and not ask.scales:
        yield Trial(ask.replaced(offload=("optimizer",)), {"offload": "optimizer"})
    if isinstance(ask, TrainAsk) and ask.offload_to is None and {*(ask.offload or ())} & {"optimizer", "params"}:
        yield Trial(ask.replaced(offload_to="nvme"), {"offload-to": "nvme"})
    if isinstance(ask, TrainAsk) and ask.precision is None:
        yield Trial(ask.replaced(precision="bf16-pure"), {"precision": "bf16-pure"})


def _partly_on_host(ask: Common, relief: Relief) -> Iterator[Trial]:
    """As few experts or layers in the memory of the host as fit, of an engine that can have them there."""
    if not isinstance(ask, ServeAsk) or ask.gpu_layers is not None or ask.host_experts is not None:
        return
    for experts in _HOST_EXPERTS if "host_experts" in relief.hosted else ():
        yield Trial(ask.replaced(host_experts=experts), {"host-experts": str(experts)}, "host")
    for layers in _GPU_LAYERS if "gpu_layers" in relief.hosted else ():
        yield Trial(ask.replaced(gpu_layers=layers), {"gpu-layers": str(layers)}, "host")


def _of_one_user(ask: Common, relief: Relief) -> Iterator[Trial]:
    """The engine that one user may take, with as little in the memory of the host as fits."""
    if relief.alone is None or not isinstance(ask, (ServeAsk, FitAsk)) or ask.weights is not None:
        return
    taken, flags = ask.replaced(engine=relief.alone), {"engine": relief.alone}
    yield Trial(taken, flags, "host")
    for trial in _partly_on_host(taken, Relief(hosted=("host_experts", "gpu_layers"))):
        yield Trial(trial.ask, {**flags, **trial.flags}, "host")


def _shorter(ask: Common) -> Iterator[Trial]:
    if isinstance(ask, (ServeAsk, FitAsk)):
        if ask.batch is not None and ask.batch > 1:
            yield Trial(ask.replaced(batch=ask.batch // 2), {"batch": str(ask.batch // 2)})
        if ask.context is not None and ask.context > 1024 and (isinstance(ask, FitAsk) or not ask.prompt):
            yield Trial(ask.replaced(context=ask.context // 2), {"context": str(ask.context // 2)})
    if isinstance(ask, ServeAsk) and ask.as_model:
        for longest in _LENGTHS:
            yield Trial(ask.replaced(max_context=longest, as_model=None), {"max-context": str(longest)}, "accepted")
    if isinstance(ask, ServeAsk) and (ask.as_model or ask.max_context is not None) and ask.max_sequences is None:
        for most in _SEQUENCES:
            yield Trial(ask.replaced(max_sequences=most), {"max-sequences": str(most)}, "fewer")
    if isinstance(ask, TrainAsk):
        for name, flag in (("micro_batch", "micro-batch"), ("seq_len", "seq-len")):
            value = getattr(ask, name)
            if value is not None and value > 1:
                half = {name: value // 2}
                yield Trial(ask.replaced(**half), {flag: str(value // 2)})


def _more(ask: Common, flags: dict[str, str]) -> Iterator[Trial]:
    """More of the same accelerators, or the next larger slices; degrees that the user set are left to be chosen anew."""
    sliced = _SLICE.match(ask.on)
    counted = _COUNTED.match(ask.on)
    count, name = (int(counted[1]), counted[2]) if counted else (1, ask.on)
    for factor in (2, 4, 8, 16, 32):
        if sliced:
            on = f"{sliced[1]}{int(sliced[2]) * factor}"
        elif count * factor <= 4096:
            on = f"{count * factor}x{name}"
        else:
            return
        yield Trial(_free(ask, on), {**flags, "on": on}, f"more {' '.join(flags)}", _freed(ask))


def _freed(ask: Common) -> tuple[str, ...]:
    """Degrees that the user set: on another number of accelerators they are chosen anew."""
    return tuple(name for name in _DEGREES if getattr(ask, name, None) is not None)


def _free(ask: Common, on: str) -> Common:
    """The question on other accelerators: degrees, pinned terms and prices belonged to the old ones."""
    ask = ask.replaced(**dict.fromkeys(grouped(Common, "price")))
    if isinstance(ask, TrainAsk):
        return ask.replaced(on=on, pins={}, **dict.fromkeys(_DEGREES))
    if isinstance(ask, (ServeAsk, FitAsk)):
        return ask.replaced(on=on, pins={}, **dict.fromkeys(_freed(ask)))
    raise TypeError(f"{type(ask).__name__} is no question")


def _improvements(ask: Common, before: Estimate, relief: Relief) -> Iterator[Trial]:
    chosen = {choice.name for choice in before.chosen}
    if isinstance(ask, (ServeAsk, FitAsk)):
        plain = "weights" in chosen and before.question.get("weights") in ("bf16", "fp16")
        yield from _stored(ask, relief, weights=plain, kv_cache="kv_cache" in chosen)
        if isinstance(ask, ServeAsk) and ask.batch is not None:
            yield Trial(ask.replaced(batch=ask.batch * 2), {"batch": str(ask.batch * 2)})
    if isinstance(ask, TrainAsk):
        if "precision" in chosen:
            yield Trial(ask.replaced(precision="fp8"), {"precision": "fp8"})
        if ask.recompute not in (None, "none") or any(one.habit and one.name == "recompute" for one in before.chosen):
            yield Trial(ask.replaced(recompute="none"), {"recompute": "none"})
        if not ask.offload and "host_memory_bytes" not in before.figures:
            yield Trial(ask.replaced(offload=("optimizer",)), {"offload": "optimizer"})
        if ask.micro_batch is not None:
            yield Trial(ask.replaced(micro_batch=ask.micro_batch * 2), {"micro-batch": str(ask.micro_batch * 2)})
        if ask.tp is not None and ask.tp > 1:
            yield Trial(ask.replaced(tp=ask.tp // 2, dp=None), {"tp": str(ask.tp // 2)})
