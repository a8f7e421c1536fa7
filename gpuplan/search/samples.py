"""A training question about a model that is given by its samples, to a complete plan and what feeds it."""

from __future__ import annotations

from collections.abc import Iterable

from gpuplan.errors import Note, PlanError, Problem, UsageError
from gpuplan.estimate.answer import Said, samples_answer, with_pins
from gpuplan.estimate.input import Supply
from gpuplan.estimate.long_run import Run
from gpuplan.estimate.result import Choice, Estimate
from gpuplan.estimate.samples import SampledModel, samples_figures, samples_profile
from gpuplan.estimate.subject import Setting
from gpuplan.models.catalog import CARDS
from gpuplan.models.generic import GenericCard, generic_names, generic_path, load_generic
from gpuplan.num import where
from gpuplan.plan.ask import TrainAsk
from gpuplan.plan.option import entries, grouped
from gpuplan.plan.parallelism import require
from gpuplan.plan.read import said
from gpuplan.plan.samples import SamplesPlan, samples_rules
from gpuplan.search.best import Judged, best
from gpuplan.search.idle import run_idle
from gpuplan.search.library import Library, Place, Unsaid
from gpuplan.search.sample_supply import pace_notes, samples_seen, supplied
from gpuplan.search.shape import positive
from gpuplan.search.space import Part, Space
from gpuplan.search.training_defaults import default_precision
from gpuplan.search.training_notes import run_notes
from gpuplan.specs.operations import Operations
from gpuplan.specs.usual_training import UsualTraining
from gpuplan.term import USER, Source

FEW = 16
"""So many batches are sooner looked at one by one than numpy is imported."""
MOST_AT_ONCE = 256
"""The largest batch of an accelerator that is tried where neither user nor card names one."""


def _flags(names: Iterable[str]) -> list[str]:
    return [f"--{name.replace('_', '-')}" for name in names]


def described(ask: TrainAsk, library: Library) -> GenericCard | SampledModel | None:
    """The model of a question that is given by its samples; None where it is not.

    Raises:
        UsageError: some of what describes it is missing.
        SpecError: the card is not valid.
    """
    given = [name for name in grouped(TrainAsk, "described") if getattr(ask, name) is not None]
    if given:
        if (CARDS / f"{ask.model.lower()}.yaml").is_file():
            what = f"{', '.join(_flags(given))}: `{ask.model}` is a card, which describes its model"
            raise UsageError(Problem("samples.twice", what, "give yours another name, or leave these out"))
        missing = _flags(name for name in grouped(TrainAsk, "described") if name not in given)
        if missing:
            what = f"{', '.join(missing)} missing: parameters, FLOP and kept bytes of a sample together describe a model"
            hint = f"or name a card: {', '.join(generic_names())}; a transformer is named by its size, such as `gpuplan train 124m`"
            raise UsageError(Problem("samples.incomplete", what, hint))
        return SampledModel.said(float(ask.params or 0), float(ask.flop_per_sample or 0), float(ask.activation_bytes or 0))
    path = generic_path(ask.model, [folder / "models" for folder in library.catalog.folders[1:]])
    return None if path is None else load_generic(path)


def answer_samples(ask: TrainAsk, library: Library) -> Estimate:
    """The answer to such a question: replicas of the model, with as many samples at once as fit.

    Raises:
        UnknownError: a name, a rate or a parameter that is not known (exit 5).
        UsageError: a bad value, or an option that means nothing here.
        PlanError: the user's plan breaks rules; all of them are listed.
    """
    _refuse(ask)
    positive(ask, ("global_batch", "micro_batch", "cpus"))
    found = described(ask, library)
    card = found if isinstance(found, GenericCard) else None
    model = SampledModel.of(found) if isinstance(found, GenericCard) else found
    if model is None:
        raise UsageError(Problem("samples.unknown", f"no model named `{ask.model}` is given by its samples"))
    place = library.place(ask, "train", usual=Unsaid(library.catalog.load(UsualTraining, "training").by_samples.text))
    setting = Setting(
        model_name=card.id if card else ask.model, card=card.source if card else USER, hw=place.hw, engine=place.engine,
        price=place.price, money=place.money,
        pins=ask.pins,
    )  # fmt: skip
    profile, _ = samples_profile(setting)
    if ask.dp is not None and ask.dp != place.hw.count:
        what = f"--dp {ask.dp}: every one of the {place.hw.count} accelerators has a replica"
        raise PlanError(Problem("samples.degree", what, "leave it out"))
    fed = supplied(ask, card, place.target)
    chosen: list[Choice] = []
    precision = ask.precision
    if precision is None:
        precision = default_precision(place.hw)
        chosen.append(Choice("precision", precision, "the widest training type that the accelerator multiplies fast"))
    optimizer = ask.optimizer
    if optimizer is None:
        optimizer = (card.optimizer if card else None) or "adamw"
        chosen.append(Choice("optimizer", optimizer, "as the published recipe" if card and card.optimizer else "the usual one"))
    zero = profile.sharding.stage if ask.zero_stage is None else ask.zero_stage
    base = SamplesPlan(
        dp=float(place.hw.count), global_batch=1.0, micro_batch=1.0, zero_stage=zero, precision=precision, optimizer=optimizer
    )
    plan, said = _batches(ask, card, setting, model, base, fed.supply)
    chosen += said
    require(samples_rules(plan))
    setting = setting.replaced(origins={one.name: Source("chosen", one.reason) for one in chosen})
    run = None
    if (seen := samples_seen(ask)) is not None:
        run = Run(tokens=seen, counted="samples", accelerator_mtbf=ask.mtbf, checkpoint_interval=ask.checkpoint_every)
        setting = setting.replaced(operations=library.catalog.load(Operations, "usual"))
    made = samples_figures(setting, model, plan, fed.supply, run)
    notes = [
        *(card.warnings() if card else ()),
        *place.notes,
        *pace_notes(made.figures, fed),
        *(run_notes(ask, made.figures) if run else ()),
        *run_idle(ask, made.figures),
    ]
    if run is not None and model.tables is not None:
        notes.append(Note("samples.tables", "the checkpoint leaves the embedding tables out"))
    answer = Said(money=place.money, question=_question(ask, setting, place, plan), chosen=(*chosen, *fed.said), notes=tuple(notes))
    return with_pins(samples_answer(made, setting, answer), ask.pins)


def _refuse(ask: TrainAsk) -> None:
    """Refuse what only a transformer has, and divisions other than replicas.

    Raises:
        UsageError: all of them together.
    """
    hint = "leave it out"
    problems = [
        Problem("samples.option", f"{one.flag}: not of a model that is given by its samples", hint)
        for name, one in entries(TrainAsk).items()
        if not one.option.samples and getattr(ask, name) is not None
    ]
    for name in ("tp", "pp", "cp", "ep"):
        if getattr(ask, name) not in (None, 1):
            what = f"--{name} {getattr(ask, name)}: a model that is given by its samples is replicated, not cut"
            problems.append(Problem("samples.degree", what, hint))
    if ask.precision == "fp8":
        problems.append(Problem("samples.precision", "--precision fp8: nothing is known of it here", "use bf16, fp16 or fp32"))
    if problems:
        raise UsageError(*problems)


def _batches(
    ask: TrainAsk, card: GenericCard | None, setting: Setting, model: SampledModel, base: SamplesPlan, supply: Supply
) -> tuple[SamplesPlan, list[Choice]]:
    """Samples at once and in a step: the user's, the recipe's, or as many as fit."""
    chosen: list[Choice] = []
    micro, most = ask.micro_batch, (card.batch if card else None) or MOST_AT_ONCE
    if micro is None and ask.global_batch is not None:
        most = min(most, max(int(ask.global_batch // base.dp), 1))
    if micro is None:
        sizes = [most, *(2**power for power in range(10, -1, -1) if 2**power < most)]
        if ask.global_batch is not None:
            sizes = [one for one in sizes if ask.global_batch % (one * base.dp) == 0] or [1]
        micro, fits = _most_at_once(sizes, setting, model, base, supply)
        why = "the recipe's" if card and card.batch == micro else "the most that fit, in powers of two" if fits else "none fits"
        chosen.append(Choice("micro_batch", str(micro), why))
    whole = ask.global_batch
    if whole is None:
        whole = int(micro * base.dp)
        chosen.append(Choice("global_batch", str(whole), "every accelerator takes its samples once"))
    if base.dp != 1:
        chosen.append(Choice("dp", f"{base.dp:g}", "a replica on every accelerator"))
    return base.replaced(micro_batch=float(micro), global_batch=float(whole)), chosen


def _most_at_once(sizes: list[int], setting: Setting, model: SampledModel, base: SamplesPlan, supply: Supply) -> tuple[int, bool]:
    """The most samples at once that fit, or the fewest where none does; and whether they fit."""
    space = Space(
        plan=base, axes={"micro_batch": sizes}, rules=samples_rules,
        completed=lambda values: {**values, "global_batch": values["micro_batch"] * base.dp},
    )  # fmt: skip

    def judge(part: Part[SamplesPlan]) -> Judged[SamplesPlan]:
        made, at_once = samples_figures(setting, model, part.plan, supply), part.plan.micro_batch
        fits = made.memory.value <= made.figures["memory_capacity_bytes"].value
        return Judged(part, part.count(fits), (where(fits, 0.0, 1.0), where(fits, -1.0, 1.0) * at_once))

    found = best(space, judge, few=FEW)
    return (sizes[-1], False) if found is None else (int(float(found.plan.micro_batch)), found.fits)


def _question(ask: TrainAsk, setting: Setting, place: Place, plan: SamplesPlan) -> dict[str, str]:
    asked = {
        "model": setting.model_name,
        "on": ask.on,
        "accelerators": f"{place.target.count} x {place.target.accelerator.id}",
        "engine": setting.engine.id,
        "precision": plan.precision,
        "optimizer": plan.optimizer,
        "global_batch": f"{plan.global_batch:.12g}",
        "micro_batch": f"{plan.micro_batch:g}",
        "dp": f"{plan.dp:g}",
        "zero_stage": str(plan.zero_stage),
    }
    return asked | {name: text for name, text in said(ask).items() if name not in asked}
