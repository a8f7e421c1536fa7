"""A plan of a diffusion model on its way to figures: the time of each phase, what a picture takes, and what is held meanwhile."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Literal, TypeAlias

from gpuplan.errors import Problem, UnknownError, UsageError
from gpuplan.estimate.pricing import priced
from gpuplan.estimate.subject import Setting
from gpuplan.formulas import cost
from gpuplan.formulas import diffusion as form
from gpuplan.formulas.basic import product, rate, remaining_seconds, repeated_bytes, repeated_flop, repeated_seconds, whole_pieces
from gpuplan.formulas.carbon import site_watts
from gpuplan.formulas.collectives import wire_seconds
from gpuplan.formulas.flop import mfu
from gpuplan.formulas.inference import fleet_watts
from gpuplan.formulas.training import unmodelled_seconds
from gpuplan.machine.hardware import Hardware
from gpuplan.models.diffusion.card import DiffusionCard
from gpuplan.models.diffusion.components import CLASSES
from gpuplan.models.diffusion.config import Config
from gpuplan.models.diffusion.network import Between as BetweenKind
from gpuplan.models.diffusion.network import Network
from gpuplan.plan.diffusion import DiffusionPlan
from gpuplan.plan.precision import byte, stored_in
from gpuplan.plan.words import WeightFormat
from gpuplan.record import Record
from gpuplan.specs.engine_diffusion import DiffusionProfile
from gpuplan.term import DEFINITION, Parts, Source, Term, total
from gpuplan.work import Dtype
from gpuplan.workload.context import ONE
from gpuplan.workload.diffusion import ComponentPass, Habits, Latent, PassTypes

Phase: TypeAlias = Literal["encode", "denoise", "decode"]
PHASES: tuple[Phase, ...] = ("encode", "denoise", "decode")
PHASE_OF: Mapping[str, Phase] = {"encoder": "encode", "denoiser": "denoise", "decoder": "decode"}
_PLAIN: Mapping[str, Dtype] = {"bf16": "bf16", "fp16": "fp16", "fp32": "fp32"}
BITSANDBYTES = ("nf4", "nf4-dq", "int8-bnb")
_SECOND = Term("second", 1.0, "s", DEFINITION)
_HOUR = Term("hour", 3600.0, "s", DEFINITION)
_BOTH = Source("definition", "with the condition and without it")
_WAY_BACK = Source("definition", "there and back: a component that is taken off is copied to the host again")


class Made(Record, kw_only=True):
    """A component: its pass, its type, and how much of it there is."""

    name: str
    phase: Phase
    network: Network
    weights: WeightFormat
    work: ComponentPass
    size: Term
    """Bytes of its weights as they are held."""
    largest: Term
    """Bytes of its largest layer."""


class PassTime(Record, kw_only=True):
    """The time of one pass of a component, its parts, and the FLOP of its products."""

    seconds: Term
    parts: Parts
    flop: Term


def diffusion_profile(setting: Setting) -> DiffusionProfile:
    """How the engine makes pictures.

    Raises:
        UsageError: it does not.
        UnknownError: nobody knows how it runs on the accelerator.
    """
    profile = setting.engine.diffusion
    if profile is None:
        what = f"nothing is known of how `{setting.engine.id}` runs a diffusion model"
        raise UsageError(Problem("engine.no-diffusion", what, "use --engine diffusers"))
    if setting.hw.asked("family", lambda one: one.family in profile.not_on):
        what = f"nothing is known of how {setting.engine.name} runs on {setting.hw.name}"
        raise UnknownError(Problem("engine.not-on", what, "name a GPU, such as `--on l4`"))
    return profile


class DiffusionModel(Record, kw_only=True):
    """A plan with the leaves that time and memory share."""

    setting: Setting
    card: DiffusionCard
    plan: DiffusionPlan
    profile: DiffusionProfile
    latent: Latent
    components: tuple[Made, ...]

    @classmethod
    def of(cls, setting: Setting, card: DiffusionCard, plan: DiffusionPlan) -> DiffusionModel:
        """The shared leaves of a plan.

        Raises:
            UsageError: the engine makes no pictures.
            UnknownError: the accelerator multiplies no type that would do.
        """
        profile = diffusion_profile(setting)
        space, time = factors(card)
        side = Term("vae.space_factor", float(space), "1", card.source)
        samples = setting.plan("batch", plan.batch)
        guided = samples
        if plan.guidance == "batched":
            guided = product.term("denoise.samples", a=samples, b=Term("guidance.halves", 2.0, "1", _BOTH))
        latent = Latent(
            width=whole_pieces.term("latent.width", amount=setting.plan("width", plan.width), piece=side),
            height=whole_pieces.term("latent.height", amount=setting.plan("height", plan.height), piece=side),
            frames=form.latent_frames.term(
                "latent.frames", frames=setting.plan("frames", plan.frames),
                factor=Term("vae.time_factor", float(time), "1", card.source),
            ),
            text=setting.plan("text_tokens", plan.text_tokens), samples=guided,
        )  # fmt: skip
        made = [_component(setting, card, plan, profile, latent, samples, name) for name in card.components]
        return cls(setting=setting, card=card, plan=plan, profile=profile, latent=latent, components=tuple(made))

    def of_phase(self, phase: Phase) -> tuple[Made, ...]:
        """The components that run in a phase."""
        return tuple(one for one in self.components if one.phase == phase)

    @property
    def running(self) -> Mapping[Phase, tuple[Made, ...]]:
        """Those that run in each phase; of several denoisers, each takes some of the steps, all of them alike."""
        return {phase: self.of_phase(phase)[:1] if phase == "denoise" else self.of_phase(phase) for phase in PHASES}

    def pass_time(self, one: Made) -> PassTime:
        """The time of one pass of a component.

        Raises:
            UnknownError: the hardware lacks a parameter that the work needs.
        """
        hw = self.setting.hw
        kinds: dict[str, dict[str, Term]] = {"matmuls": {}, "attention": {}, "between": {}}
        kernels: list[Term] = []
        flop: list[Term] = []
        for layer in one.network.layers:
            turn = one.work.turn(layer)
            times = Term(f"{one.name}.{layer.name}.times", float(layer.times), "1", self.card.source)
            for kind, items in (("matmuls", turn.matmuls), ("attention", turn.attention), ("between", turn.between)):
                if items:
                    at = f"{one.name}.{layer.name}.{kind}"
                    kinds[kind][layer.name] = repeated_seconds.term(f"{at}.all", count=times, seconds=priced(at, items, hw))
            kernels.append(product.term(f"{one.name}.{layer.name}.all_kernels", a=turn.kernels, b=times))
            flop.append(repeated_flop.term(f"{one.name}.{layer.name}.all_flop", count=times, flop=turn.flop))
        parts = {kind: total(f"{one.name}.{kind}", found) for kind, found in kinds.items() if found}
        habits = self.profile.compiled if self.plan.compiled and one.phase == "denoise" else self.profile.eager
        compiled = "compiled_" if habits is self.profile.compiled else ""
        device = total(f"{one.name}.device", dict(parts))
        whole = form.issued_seconds.term(
            f"{one.name}.issued", device=device, kernels=total(f"{one.name}.kernels", kernels),
            issue=self.setting.habit(f"{compiled}issue", habits.issue),
        )  # fmt: skip
        parts["host"] = remaining_seconds.term(f"{one.name}.waits_for_host", whole=whole, hidden=device)
        return PassTime(seconds=total(f"{one.name}.pass", parts), parts=parts, flop=total(f"{one.name}.flop", flop))


def factors(card: DiffusionCard) -> tuple[int, int]:
    """Pixels of a side, and frames beyond the first, for one position of the latent."""
    name, one = next(iter(card.of("decoder").items()))
    config, kind = Config(one.config, name), CLASSES[one.type]
    return kind.space(config) if kind.space else 1, kind.time(config) if kind.time else 1


def _component(
    setting: Setting, card: DiffusionCard, plan: DiffusionPlan, profile: DiffusionProfile, latent: Latent, samples: Term, name: str
) -> Made:  # fmt: skip
    said = card.components[name]
    network, phase, stored = said.network(name), PHASE_OF[said.kind], plan.weights[name]
    types = types_of(setting.hw, name, stored, said.multiplies)
    habits = profile.compiled if plan.compiled and phase == "denoise" else profile.eager
    word = "compiled" if habits is profile.compiled else "eager"

    def habit(kind: BetweenKind) -> tuple[Term, Term]:
        one = getattr(habits, kind)
        return setting.habit(f"{word}.{kind}.passes", one.passes), setting.habit(f"{word}.{kind}.kernels", one.kernels)

    of_phase = latent
    if phase == "encode":
        of_phase = latent.replaced(samples=latent.samples if plan.guidance != "in-turn" else product.term(
            "encode.samples", a=samples, b=Term("guidance.prompts", 2.0, "1", _BOTH)
        ))  # fmt: skip
    elif phase == "decode":
        of_phase = latent.replaced(samples=samples)
    engine = Habits(
        between=habit, reach=setting.habit(f"{word}.reach", habits.reach),
        copies=setting.habit("convolution_copies", profile.convolution_copies),
    )  # fmt: skip
    work = ComponentPass(name, network, of_phase, types, engine, card.source)
    wide = network.wide if stored in BITSANDBYTES else 0
    linear = Term(f"{name}.linear_params", float(network.linear - wide), "1", card.source)
    others = Term(f"{name}.other_params", float(network.params - network.linear), "1", card.source)
    size = (
        Term(f"{name}.weights", float(said.stored_bytes), "B", card.source)
        if said.stored_bytes is not None and stored == said.dtype
        else total(
            f"{name}.weights",
            {
                "linear": repeated_bytes.term(f"{name}.linear_bytes", count=linear, size=types.stored),
                "others": repeated_bytes.term(f"{name}.other_bytes", count=others, size=types.plain),
                "wide": repeated_bytes.term(
                    f"{name}.wide_bytes",
                    count=Term(f"{name}.wide_params", float(wide), "1", card.source),
                    size=byte("recipe.wide_bytes", 4.0),
                ),
            },
        )
    )
    largest = repeated_bytes.term(
        f"{name}.largest_layer", count=Term(f"{name}.largest_params", float(network.largest), "1", card.source), size=types.stored
    )
    return Made(name=name, phase=phase, network=network, weights=stored, work=work, size=size, largest=largest)


def types_of(hw: Hardware, name: str, stored: WeightFormat, multiplies: str | None) -> PassTypes:
    """What a component multiplies: its own type where weights are stored plain, else the 16-bit type of the machine."""
    usual: Dtype = "bf16" if "bf16" in hw.peaks else "fp16" if "fp16" in hw.peaks else "fp32"
    wanted = multiplies or stored
    matmul: Dtype = _PLAIN.get(wanted, usual)
    if matmul not in hw.peaks:
        matmul = usual
    convolution: Dtype = matmul
    if matmul == "fp32" and "tf32" in hw.peaks:
        convolution = "tf32"  # what PyTorch takes for convolutions unasked
    element = 4.0 if matmul == "fp32" else 2.0
    held = stored_in(stored)
    plain = held.bytes_per_value if stored in _PLAIN else element
    return PassTypes(
        matmul=matmul, convolution=convolution,
        attention=matmul if f"attention.prefill.{matmul}.start" in hw.parameters else usual,
        activation=byte(f"{name}.activation_bytes", element),
        stored=byte(f"{name}.stored_bytes", held.bytes_per_value, held.source),
        plain=byte(f"{name}.plain_bytes", plain), widens=stored != matmul,
    )  # fmt: skip


class DiffusionTimes(Record, kw_only=True):
    """What a batch takes, by phase, and one step of it."""

    seconds: Term
    parts: Parts
    step: Term
    steps: Parts
    flop: Term
    """Of all denoising."""
    denoise: Term


def diffusion_times(model: DiffusionModel) -> DiffusionTimes:
    """The time of a batch of pictures or clips; errors as `DiffusionModel.pass_time`."""
    setting, plan, profile = model.setting, model.plan, model.profile
    passes = Term("guidance.passes", 2.0 if plan.guidance == "in-turn" else 1.0, "1", _BOTH)
    (denoiser,) = model.running["denoise"]
    one = model.pass_time(denoiser)
    steps: dict[str, Term] = {
        kind: repeated_seconds.term(f"step.{kind}", count=passes, seconds=term) for kind, term in one.parts.items()
    }
    if plan.offload == "sequential":
        steps["host_link"] = repeated_seconds.term("step.host_link", count=passes, seconds=_layers_moved(model, denoiser))
    steps["scheduler"] = setting.habit("step_host", profile.step_host)
    step = total("step.seconds", steps)
    often = form.evaluations.term("denoise.passes", steps=setting.plan("steps", plan.steps), passes=passes)
    denoise = repeated_seconds.term("batch.denoise", count=setting.plan("steps", plan.steps), seconds=step)
    parts: dict[str, Term] = {}
    encoders = {each.name: model.pass_time(each).seconds for each in model.running["encode"]}
    if encoders:
        parts["encode_text"] = total("batch.encode_text", encoders)
    parts["denoise"] = denoise
    (decoder,) = model.running["decode"]
    parts["decode"] = decoded(model, decoder)
    moved = _moved(model)
    parts |= moved
    parts["request"] = setting.habit("request_host", profile.request_host)
    parts["unmodelled"] = unmodelled_seconds.term(
        "batch.unmodelled",
        counted=total("batch.counted", dict(parts)),
        residual=setting.habit("diffusion_residual", profile.residual),
    )
    flop = repeated_flop.term("denoise.flop", count=often, flop=one.flop)
    return DiffusionTimes(
        seconds=total("batch.seconds", parts), parts=parts, step=step, steps=steps, flop=flop, denoise=denoise
    )  # fmt: skip


def decoded(model: DiffusionModel, decoder: Made) -> Term:
    """The time of the autoencoder; tiles that overlap are decoded twice there."""
    whole = model.pass_time(decoder).seconds
    if not model.plan.tiled:
        return total("batch.decode", {decoder.name: whole})
    tile, overlap = tile_of(model), model.setting.habit("tile_overlap", model.profile.overlap)
    more = {
        side: form.tiled_share.term(f"decode.more_{side}", side=getattr(model.latent, side), tile=tile, overlap=overlap)
        for side in ("width", "height")
    }
    return repeated_seconds.term(
        "batch.decode_tiles", count=product.term("decode.more", a=more["width"], b=more["height"]), seconds=whole
    )


def tiles_of(model: DiffusionModel) -> int:
    """How many tiles a picture has."""
    tile = float(tile_of(model).value)
    width, height = float(model.latent.width.value), float(model.latent.height.value)
    return 1 if max(width, height) <= tile else ceil(width / tile) * ceil(height / tile)


def tile_of(model: DiffusionModel) -> Term:
    """A side of a tile in positions of the latent."""
    name, one = next(iter(model.card.of("decoder").items()))
    tile = CLASSES[one.type].tile
    pixels = Term("vae.tile", float(tile(Config(one.config, name)) if tile else 512), "1", model.card.source)
    factor = Term("vae.space_factor", float(factors(model.card)[0]), "1", model.card.source)
    return whole_pieces.term("decode.tile", amount=pixels, piece=factor)


def _moved(model: DiffusionModel) -> dict[str, Term]:
    """What copying components from and to the host takes for a batch."""
    plan, setting, profile = model.plan, model.setting, model.profile
    if plan.offload == "sequential":
        once = {one.name: _layers_moved(model, one) for one in model.components if one.phase != "denoise"}
        return {"host_link": total("batch.host_link", once)}
    if plan.offload != "model":
        return {}
    link = _link(model)
    ways = Term("moves", 2.0, "1", _WAY_BACK)
    size = total("moved.once", {one.name: one.size for one in model.components})
    both = repeated_bytes.term("moved.bytes", count=ways, size=size)
    share = setting.habit("link_share", profile.link_share)
    return {"host_link": wire_seconds.term("batch.host_link", wire=both, bandwidth=link, share=share)}


def _layers_moved(model: DiffusionModel, one: Made) -> Term:
    share = model.setting.habit("layer_link_share", model.profile.layer_link_share)
    return wire_seconds.term(f"{one.name}.moved", wire=one.size, bandwidth=_link(model), share=share)


def _link(model: DiffusionModel) -> Term:
    """The link to the host's memory.

    Raises:
        UsageError: the accelerator has no host whose memory is another.
    """
    link = model.setting.hw.host_link
    if link is None:
        what = f"nothing is known of a link between {model.setting.hw.name} and a host with memory of its own"
        raise UsageError(Problem("hw.no-host-link", what, "leave --offload-components out, or name an accelerator on a PCIe slot"))
    return link


def _peak(model: DiffusionModel) -> Term:
    """The peak of the type in which the denoiser multiplies, or where it is higher of the one of its convolutions."""
    types, hw = model.running["denoise"][0].work.types, model.setting.hw
    found = [hw.peak(one) for one in dict.fromkeys((types.matmul, types.convolution, types.attention))]
    return max(found, key=lambda one: float(one.value))


def diffusion_figures(model: DiffusionModel, times: DiffusionTimes, memory: Mapping[str, Term]) -> dict[str, Term]:
    """Every figure of a plan; `memory` are those that need no time."""
    setting, plan = model.setting, model.plan
    replicas, batch = setting.plan("dp", plan.dp), setting.plan("batch", plan.batch)
    what = "clips" if model.card.makes_clips else "images"
    made = form.made_per_s.term(f"{what}_per_s", batch=batch, replicas=replicas, seconds=times.seconds)
    figures = {
        "latency_s": times.seconds,
        "step_time_s": times.step,
        f"{what}_per_s": made,
        f"{what}_per_hour": form.made_per_hour.term(f"{what}_per_hour", per_s=made, hour=_HOUR),
        "mfu": mfu.term(
            "mfu", model_flop=times.flop, seconds=times.denoise, chips=ONE,
            peak_flop_per_s=_peak(model),
        ),
        **memory,
    }  # fmt: skip
    if plan.fps is not None:
        fps = setting.plan("fps", plan.fps)
        per_s = rate.term("clip.frames_per_s", count=fps, seconds=_SECOND)
        figures["clip_length_s"] = form.clip_seconds.term("clip.length", frames=setting.plan("frames", plan.frames), per_s=per_s)
    if setting.price is not None:
        fleet = cost.usd_per_s_of_all.term("fleet.price", units=setting.accelerators(), price=setting.price)
        figures[f"cost_usd_per_thousand_{what}"] = form.usd_per_thousand.term(f"cost.thousand_{what}", price=fleet, per_s=made)
    if setting.hw.power is not None:
        power = fleet_watts.term("fleet.power", chips=setting.accelerators(), watts=setting.hw.power)
        if setting.money is not None and setting.money.pue is not None:
            power = site_watts.term("site.power", watts=power, pue=setting.money.pue)
        figures[f"energy_joules_per_{what[:-1]}"] = cost.joules_per_token.term(
            f"energy.{what[:-1]}", watts=power, tokens_per_s=made
        )
    return figures
