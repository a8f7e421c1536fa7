"""A question about a diffusion model to a complete plan: what was left out is chosen, and what would make it fit is tried."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import cast, get_args

from gpuplan.errors import GpuplanError, Note, PlanError, Problem, UsageError
from gpuplan.estimate.answer import Said, diffusion_answer, with_pins
from gpuplan.estimate.diffusion import (
    DiffusionModel,
    DiffusionTimes,
    diffusion_figures,
    diffusion_profile,
    diffusion_times,
    factors,
    tiles_of,
)
from gpuplan.estimate.diffusion_memory import DiffusionMemory, all_weights, diffusion_memory
from gpuplan.estimate.result import Change, Choice, Estimate
from gpuplan.estimate.subject import Setting
from gpuplan.formulas.cost import usd_per_s_of_all
from gpuplan.machine.hardware import Hardware
from gpuplan.models.diffusion.card import DiffusionCard
from gpuplan.models.diffusion.catalog import load_diffusion
from gpuplan.models.diffusion.glance import diffusion_path
from gpuplan.models.diffusion.network import Product
from gpuplan.plan.ask_money import Spending
from gpuplan.plan.ask_serving import FitAsk, ServeAsk
from gpuplan.plan.common import Common
from gpuplan.plan.diffusion import DiffusionPlan, diffusion_rules
from gpuplan.plan.option import entries, grouped
from gpuplan.plan.parallelism import require
from gpuplan.plan.read import said as told
from gpuplan.plan.words import Guidance, OffloadComponents, WeightFormat
from gpuplan.record import Record
from gpuplan.search.library import Library, Place, Unsaid
from gpuplan.search.taken import refuse
from gpuplan.term import Source

ENGINE = "diffusers"
SHARED = ("weights", "batch", "dp", "heard", "task")
"""What a question about serving also means of a diffusion model."""
_SIZE = re.compile(r"\s*(\d{1,6})\s*[xX*]\s*(\d{1,6})\s*")
MOST_PIXELS = 65_536
_NARROWER: tuple[WeightFormat, ...] = ("fp8", "nf4")
_BIGGER = ("rtx-4090", "l40s", "a100-sxm-80gb", "h100-sxm-80gb", "h200-sxm-141gb", "b200-sxm-180gb")
"""Cards that are widely rented, tried where nothing else helps."""
MOST = 3
_KEPT = get_args(OffloadComponents)
"""Ways of keeping components, the ones that move least first."""


def _folders(library: Library) -> list[Path]:
    return [folder / "models" for folder in library.catalog.folders[1:]]


class Answered(Record, kw_only=True):
    """A plan with what it takes and holds."""

    model: DiffusionModel
    times: DiffusionTimes | None
    memory: DiffusionMemory

    def fits(self) -> bool:
        """Whether the accelerator holds it."""
        return bool(self.memory.peak.value <= self.model.setting.hw.seen_memory().value)


def answer_diffusion(ask: ServeAsk | FitAsk, library: Library, *, advise: bool = True) -> Estimate:
    """The answer to a question about serving a diffusion model, or whether it fits.

    Raises:
        UnknownError: a name, a rate or a parameter that is not known (exit 5).
        UsageError: a bad value, or an option that means nothing here.
        PlanError: the plan breaks rules; all of them are listed.
    """
    _refuse(ask)
    path = diffusion_path(ask.model, _folders(library))
    if path is None:
        raise UsageError(Problem("model.unknown", f"no diffusion model named `{ask.model}` is known"))
    card = load_diffusion(path)
    place = library.place(ask, "serve", usual=Unsaid(ENGINE), with_price=isinstance(ask, ServeAsk))
    place = place.replaced(hw=place.hw.under_load())
    base, chosen = _plan(ask, card, place.hw)
    setting = _setting(ask, card, place, chosen)
    _ = diffusion_profile(setting)
    space, time = factors(card)
    sides = space * _patch(card)
    require(diffusion_rules(base, sides=sides, beyond_first=time, clips=card.makes_clips))
    timed = isinstance(ask, ServeAsk)
    best, tried = _best(ask, setting, card, base)
    if ask.offload_components is None:
        why = "as little as fits" if best.fits() else f"least memory of {tried} ways, none of which fits"
        chosen.append(Choice("offload_components", best.model.plan.offload, why))
    if ask.vae_slicing is None and best.model.plan.sliced:
        chosen.append(Choice("vae_slicing", "true", "all at once do not fit" if best.fits() else "least memory"))
    if ask.vae_tiling is None and best.model.plan.tiled:
        chosen.append(Choice("vae_tiling", "true", "whole pictures do not fit" if best.fits() else "least memory"))
    setting = _setting(ask, card, place, chosen)
    best = _made(setting, card, best.model.plan, timed=timed)
    figures = best.memory.figures(setting.hw.seen_memory(), all_weights(best.model))
    if best.times is not None:
        figures = diffusion_figures(best.model, best.times, figures)
    elif setting.price is not None:
        figures["price_usd_per_s"] = usd_per_s_of_all.term("fleet.price", units=setting.accelerators(), price=setting.price)
    if best.memory.host is not None and setting.hw.host_memory is not None:
        figures["host_memory_capacity_bytes"] = setting.hw.host_memory
    said = Said(
        money=place.money,
        question=_question(ask, card, place, best.model.plan), chosen=tuple(chosen),
        notes=(*card.warnings(), *place.notes, *_notes(card, best)),
    )  # fmt: skip
    made = with_pins(diffusion_answer(figures, best.times, best.memory, said, task="serve" if timed else "fit"), ask.pins)
    return made.replaced(advice=partial(_changes, ask, made, library)) if advise else made


def _refuse(ask: ServeAsk | FitAsk) -> None:
    """Refuse what only a language model has.

    Raises:
        UsageError: all of them together.
    """
    kept = {*Common.field_names(), *Spending.field_names(), *grouped(type(ask), "pictures"), *SHARED, "tp", "pp", "ep"}
    refuse(ask, "pictures", but=frozenset(kept))


def _plan(ask: ServeAsk | FitAsk, card: DiffusionCard, hw: Hardware) -> tuple[DiffusionPlan, list[Choice]]:
    """The plan as far as the question and the card's habits say it, and what was chosen of it."""
    usual, chosen = card.usual, list[Choice]()
    why = f"usual of the model ({card.sources[usual.source].title if usual.source in card.sources else usual.source})"

    def taken(name: str, given: object, value: object) -> object:
        if given is not None:
            return given
        chosen.append(Choice(name, str(value), why))
        return value

    width, height = usual.width, usual.height
    if ask.size is not None:
        width, height = _sides(ask.size)
    else:
        chosen.append(Choice("size", f"{width}x{height}", why))
    if not card.makes_clips:
        clips = [f"--{name}" for name in ("frames", "fps") if getattr(ask, name, None) is not None]
        if clips:
            raise UsageError(
                Problem("diffusion.no-clip", f"{', '.join(clips)}: {card.id} makes pictures, not clips", "leave it out")
            )
        frames = 1
    else:
        frames = cast("int", taken("frames", ask.frames, usual.frames))
    replicas = getattr(ask, "dp", None)
    if replicas not in (None, hw.count):
        what = f"--dp {replicas}: every one of the {hw.count} accelerators has a replica"
        raise PlanError(Problem("diffusion.replicas", what, "leave it out"))
    if replicas is None and hw.count > 1:
        chosen.append(Choice("dp", str(hw.count), "a replica on every accelerator"))
    steps = cast("int", taken("steps", ask.steps, usual.steps)) if isinstance(ask, ServeAsk) else usual.steps
    guidance = taken("guidance", ask.guidance, usual.guidance)
    weights = _weights(ask, card, hw, chosen)
    plan = DiffusionPlan(
        width=float(width), height=float(height), frames=float(frames), steps=float(steps),
        batch=float(cast("int", taken("batch", ask.batch, 1))), dp=float(hw.count),
        text_tokens=float(usual.text_tokens if ask.text_tokens is None else ask.text_tokens), guidance=cast("Guidance", guidance),
        fps=_fps(ask, card), weights=weights, compiled=bool(getattr(ask, "compiled", None)),
    )  # fmt: skip
    return plan, chosen


def _fps(ask: ServeAsk | FitAsk, card: DiffusionCard) -> float | None:
    found = getattr(ask, "fps", None) or card.usual.fps
    return float(found) if card.makes_clips and found else None


def _sides(text: str) -> tuple[int, int]:
    """Width and height of `--size`.

    Raises:
        UsageError: it is not two whole numbers, or one of them is zero or beyond any screen.
    """
    found = _SIZE.fullmatch(text)
    if found is None or not all(0 < int(side) <= MOST_PIXELS for side in found.groups()):
        raise UsageError(
            Problem("diffusion.size", f"--size {text[:40]}: no width and height in pixels", "write such as `1024x1024`")
        )
    return int(found[1]), int(found[2])


def _weights(ask: ServeAsk | FitAsk, card: DiffusionCard, hw: Hardware, chosen: list[Choice]) -> dict[str, WeightFormat]:
    """The type of each component: the user's, or the published one where the machine multiplies it."""
    given = {"denoiser": ask.weights, "encoder": ask.encoder_weights, "decoder": ask.vae_weights}
    of_text = [entries(type(ask))[name].flag for name in ("encoder_weights", "text_tokens") if getattr(ask, name) is not None]
    if of_text and not card.of("encoder"):
        raise UsageError(Problem("diffusion.no-encoder", f"{', '.join(of_text)}: {card.id} reads no text", "leave it out"))
    found: dict[str, WeightFormat] = {}
    for name, one in card.components.items():
        own: WeightFormat = cast("WeightFormat", one.dtype)
        if own == "bf16" and "bf16" not in hw.peaks:
            own = "fp16"
        found[name] = given[one.kind] or own
    for word, kind in (("weights", "denoiser"), ("encoder_weights", "encoder"), ("vae_weights", "decoder")):
        if given[kind] is None and card.of(kind):
            types = dict.fromkeys(found[name] for name in card.of(kind))
            chosen.append(Choice(word, ", ".join(types), "as published"))
    return found


def _setting(ask: Common, card: DiffusionCard, place: Place, chosen: list[Choice]) -> Setting:
    origins = {one.name: Source("chosen", one.reason) for one in chosen}
    if "size" in origins:
        origins |= {"width": origins["size"], "height": origins["size"]}
    if getattr(ask, "text_tokens", None) is None:
        origins["text_tokens"] = card.sources[card.usual.source].source() if card.usual.source in card.sources else card.source
    return Setting(
        model_name=card.id,
        card=card.source,
        hw=place.hw,
        engine=place.engine,
        price=place.price,
        money=place.money,
        pins=ask.pins,
        origins=origins,
    )


def _patch(card: DiffusionCard) -> int:
    """Positions of the latent along a side of what the denoiser takes in."""
    name, one = next(iter(card.of("denoiser").items()))
    first = one.network(name).layers[0].ops[0]
    return first.rows[0].down if isinstance(first, Product) else 1


def _ways(ask: ServeAsk | FitAsk, hw: Hardware) -> Iterator[tuple[OffloadComponents, bool, bool]]:
    """Ways of keeping components and decoding that the question leaves open, the fastest first."""
    modes: tuple[OffloadComponents, ...] = ("none", "model", "sequential") if hw.host_link is not None else ("none",)
    if ask.offload_components is not None:
        modes = (ask.offload_components,)
    several = ask.batch is not None and ask.batch > 1
    slicing = (False, True) if ask.vae_slicing is None and several else (bool(ask.vae_slicing),)
    for mode in modes:
        for tiled in (False, True) if ask.vae_tiling is None else (ask.vae_tiling,):
            for sliced in slicing:
                yield mode, sliced, tiled


def _best(
    ask: ServeAsk | FitAsk, setting: Setting, card: DiffusionCard, base: DiffusionPlan
) -> tuple[Answered, int]:  # fmt: skip
    """The first way that fits, as the fastest stand first; or the one of least memory, and how many were looked at."""
    least: Answered | None = None
    tried = 0
    for mode, sliced, tiled in _ways(ask, setting.hw):
        tried += 1
        one = _made(setting, card, base.replaced(offload=mode, sliced=sliced, tiled=tiled), timed=False)
        if one.fits():
            return one, tried
        if least is None or one.memory.peak.value < least.memory.peak.value:
            least = one
    if least is None:
        raise PlanError(Problem("diffusion.no-way", "there is no way to run it", "leave --offload-components out"))
    return least, tried


def _made(setting: Setting, card: DiffusionCard, plan: DiffusionPlan, *, timed: bool) -> Answered:
    model = DiffusionModel.of(setting, card, plan)
    return Answered(model=model, times=diffusion_times(model) if timed else None, memory=diffusion_memory(model))


def _notes(card: DiffusionCard, best: Answered) -> Iterator[Note]:
    plan = best.model.plan
    widened = [name for name, one in plan.weights.items() if one not in ("bf16", "fp16", "fp32")]
    if widened:
        text = f"weights of {', '.join(widened)} are widened to 16 bits before each product: they save memory, not time"
        yield Note("diffusion.widened", text)
    if plan.sliced and plan.batch == 1:
        yield Note("diffusion.one-slice", "--vae-slicing changes nothing where one is decoded at a time")
    if plan.tiled and tiles_of(best.model) == 1:
        yield Note("diffusion.one-tile", "--vae-tiling changes nothing: a picture of this size is one tile")
    if plan.offload == "encoders":
        yield Note("diffusion.encoders", "text is encoded before the denoiser is loaded; loading it again is not counted")
    if best.times is not None and not plan.compiled:
        yield Note("diffusion.eager", "kernels run one by one, as PyTorch does unasked", "--compile says what compiling would give")


def _question(ask: ServeAsk | FitAsk, card: DiffusionCard, place: Place, plan: DiffusionPlan) -> dict[str, str]:
    asked = {
        "model": card.id, "on": ask.on, "accelerators": f"{place.target.count} x {place.target.accelerator.id}",
        "engine": place.engine.id, "weights": plan.weights[next(iter(card.of("denoiser")))],
        "size": f"{plan.width:g}x{plan.height:g}",
    }  # fmt: skip
    if card.makes_clips:
        asked["frames"] = f"{plan.frames:g}"
        if plan.fps is not None:
            asked["fps"] = f"{plan.fps:g}"
    if isinstance(ask, ServeAsk):
        asked["steps"] = f"{plan.steps:g}"
    asked |= {"guidance": plan.guidance, "batch": f"{plan.batch:.12g}", "dp": f"{plan.dp:g}", "offload_components": plan.offload}
    asked |= {name: "true" for name, on in (("vae_slicing", plan.sliced), ("vae_tiling", plan.tiled)) if on}
    return asked | {name: text for name, text in told(ask).items() if name not in (*asked, "task")}


def _changes(ask: ServeAsk | FitAsk, made: Estimate, library: Library) -> tuple[Change, ...]:
    """The smallest changes that make it fit, or that keep it off the host; and where it fits so, what makes it faster."""
    found: list[Change] = []
    slow = made.question.get("offload_components") in ("model", "sequential") and ask.offload_components is None
    if made.verdict.fits and not slow and not isinstance(ask, ServeAsk):
        return ()
    before = made.figures.get("latency_s")
    for changed, flags in _trials(ask, made):
        try:
            one = answer_diffusion(changed, library, advise=False)
        except GpuplanError:
            continue
        if not one.verdict.fits:
            continue
        now = one.figures.get("latency_s")
        if not made.verdict.fits:
            spare = float(one.figures["headroom_bytes"].value)
            found.append(Change(flags, f"fits with {spare / 2**30:.1f} GiB to spare"))
        elif before is None and _KEPT.index(one.question["offload_components"]) < _KEPT.index(made.question["offload_components"]):
            found.append(Change(flags, f"then offloads {one.question['offload_components']}"))
        elif before is not None and now is not None and float(now.value) < 0.98 * float(before.value):
            found.append(Change(flags, f"takes {float(now.value) / float(before.value):.0%} of the time"))
        if len(found) == MOST:
            break
    return tuple(found)


def _trials(ask: ServeAsk | FitAsk, made: Estimate) -> Iterator[tuple[ServeAsk | FitAsk, Mapping[str, str]]]:
    if isinstance(ask, ServeAsk) and ask.compiled is None and made.verdict.fits:
        yield ask.replaced(compiled=True), {"compile": ""}
    slow = made.question.get("offload_components") != "none"
    if not made.verdict.fits or slow:
        if ask.offload_components is not None:
            for mode in get_args(OffloadComponents):
                if mode != ask.offload_components:
                    yield ask.replaced(offload_components=mode), {"offload-components": mode}
        elif made.question.get("offload_components") in ("model", "sequential"):
            yield ask.replaced(offload_components="encoders"), {"offload-components": "encoders"}
        if ask.vae_tiling is False:
            yield ask.replaced(vae_tiling=None), {"vae-tiling": ""}
        if ask.weights is None:
            for kind in _NARROWER:
                yield ask.replaced(weights=kind), {"weights": kind}
            if ask.encoder_weights is None:
                yield ask.replaced(weights="nf4", encoder_weights="nf4"), {"weights": "nf4", "encoder-weights": "nf4"}
        if ask.batch is not None and ask.batch > 1:
            yield ask.replaced(batch=ask.batch // 2), {"batch": str(ask.batch // 2)}
        for name in _BIGGER:
            yield ask.replaced(on=name, pins={}, **dict.fromkeys(grouped(Common, "price"))), {"on": name}
