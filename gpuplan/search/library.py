"""From the names in a question to what an estimate is about: the card, the target, the engine, the price."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from functools import partial
from pathlib import Path
from typing import Literal, TypeAlias

from gpuplan.errors import GpuplanError, Note, Problem, UnknownError, UsageError
from gpuplan.estimate.money import Money
from gpuplan.estimate.pins import checked
from gpuplan.estimate.subject import Subject
from gpuplan.formulas.basic import unspared_bytes
from gpuplan.machine.build import hardware_of
from gpuplan.machine.experts_like import with_experts_like
from gpuplan.machine.half_sums import with_half_sums
from gpuplan.machine.hardware import Hardware
from gpuplan.machine.overlay import withheld
from gpuplan.machine.undivided_contexts import with_undivided_contexts
from gpuplan.machine.undivided_windows import with_undivided_windows
from gpuplan.machine.vector_attention import with_vector_decode
from gpuplan.machine.warp_experts import with_warp_experts
from gpuplan.models.card import ModelCard
from gpuplan.models.catalog import CARDS, find
from gpuplan.models.count import ParamCount
from gpuplan.plan.ask import TrainAsk
from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.plan.common import Common
from gpuplan.plan.disaggregated import disaggregated
from gpuplan.plan.option import grouped
from gpuplan.record import Record
from gpuplan.search.engine_there import FLASH2, paced_by_flash2, refuse_elsewhere
from gpuplan.search.local import local_target, names_local
from gpuplan.search.money import money_of
from gpuplan.search.price import price_of
from gpuplan.search.serving_engine import Engines, serving_engine
from gpuplan.search.usual import having_what_is_named, usual_engine
from gpuplan.specs.accelerator import Accelerator
from gpuplan.specs.apart import joined, target_or_apart
from gpuplan.specs.capacity import capacity_of
from gpuplan.specs.catalog import Catalog, key
from gpuplan.specs.dates import today
from gpuplan.specs.engine import Engine
from gpuplan.specs.engine_era import split_name
from gpuplan.specs.measured import Measured
from gpuplan.specs.on import parse_target
from gpuplan.specs.target import Target
from gpuplan.specs.target_in_sites import in_sites
from gpuplan.specs.usual_training import Unnamed, UsualTraining
from gpuplan.term import USER, Source, Term
from gpuplan.units import human

Task: TypeAlias = Literal["train", "serve"]


class Unsaid(Record):
    """The engine of a question that names none, why it is taken, and its profile as far as it holds for others too."""

    engine: str
    why: str = ""
    blurred: Callable[[Engine], Engine] | None = None


def _unnamed(said: Unnamed, usual: UsualTraining, profile: Engine) -> Engine:
    """A profile with what is taken of it where the engine may be another."""
    if profile.training is None:
        return profile
    return profile.replaced(training=said.blurred(profile.training), sources={**profile.sources, **usual.sources})


class Found(Record, kw_only=True):
    """Everything that a question names, read once."""

    card: ModelCard
    target: Target
    subject: Subject
    notes: tuple[Note, ...]
    defaults: UsualTraining | None = None
    """What most take where a training question says nothing; None: it is another question."""

    @property
    def usual(self) -> UsualTraining:
        """The defaults of a training question.

        Raises:
            TypeError: it is another question.
        """
        if self.defaults is None:
            raise TypeError("only questions of training have these defaults")
        return self.defaults


class Place(Record, kw_only=True):
    """Where a question runs: its target with the kernels of its engine, at a price in USD a second of one accelerator."""

    target: Target
    hw: Hardware
    engine: Engine
    price: Term | None
    notes: tuple[Note, ...]
    money: Money | None = None


class Library:
    """The data files of one question and of the variations that its answer tries: each is read once."""

    def __init__(self, catalog: Catalog, cards: Mapping[str, ModelCard] | None = None) -> None:
        self.catalog = catalog
        self._cards: dict[str, ModelCard] = dict(cards or {})
        self._no_cards: dict[str, GpuplanError] = {}
        self._targets: dict[str, Target] = {}
        self._machines: dict[tuple[str, str, float | None], Hardware] = {}
        self._counted: dict[str, tuple[ModelCard, ParamCount, Source]] = {}
        self._engines: dict[tuple[str, str | None, str | None], Engine] = {}
        """One for each way in which an engine is asked about, so that all machines with it can be priced together."""
        self._sparing: dict[tuple[int, float], tuple[Hardware, Hardware]] = {}
        """Hardware of which a share stays free, beside the whole one, whose place in memory is the key."""
        self._prices: dict[tuple[object, ...], tuple[Term | None, tuple[Note, ...]]] = {}

    @classmethod
    def shared(cls, specs: Sequence[Path] = (), *, calibrated: bool = False) -> Library:
        """The library of this process for the shipped files and the user's, with all that it has read already.

        It is made anew where a file or folder of specs came, went or changed, or where the environment names other folders.

        Raises:
            UsageError: a folder that the user named does not exist or holds nothing.
        """
        catalog = Catalog.open(specs, calibrated=calibrated)
        folders, stamp = tuple(map(str, catalog.folders)), stamp_of((*catalog.folders, CARDS))
        key = folders, calibrated
        if (found := _SHARED.get(key)) is None or found[0] != stamp:
            found = _SHARED[key] = stamp, cls(catalog)
        return found[1]

    @classmethod
    def of(cls, ask: Common) -> Library:
        """The shipped files and the user's.

        Raises:
            UsageError: a folder that the user named does not exist or holds nothing.
        """
        return cls(Catalog.open(ask.specs, calibrated=bool(ask.calibrated)))

    def card(self, name: str) -> ModelCard:
        """The card of a model; errors as `gpuplan.models.catalog.find`. A checkpoint is read anew when it changed."""
        key = f"{name} {_changed(Path(name))}" if name not in self._cards and Path(name).exists() else name
        if key in self._no_cards:
            raise self._no_cards[key]
        if key not in self._cards:
            try:
                self._cards[key] = find(name, self.own_cards())
            except GpuplanError as error:
                self._no_cards[key] = error
                raise
        return self._cards[key]

    def as_read(self, name: str) -> Library:
        """The same library, in which the checkpoint that a name leads to, if it leads to one, stays as it was read."""
        if name in self._cards or not Path(name).exists():
            return self
        made = copy(self)
        with suppress(GpuplanError):  # A model by its samples may be called like a folder.
            made._cards = {**self._cards, name: self.card(name)}
        return made

    def own_cards(self) -> list[Path]:
        """The user's folders of cards."""
        return [folder / "models" for folder in self.catalog.folders[1:] if (folder / "models").is_dir()]

    def keep(self, card: ModelCard) -> str:
        """Make a card of no file known by its id, which is returned."""
        self._cards[card.id] = card
        self._no_cards.pop(card.id, None)
        return card.id

    def target(self, on: str, *, apart: bool = False) -> Target:
        """What `--on` names; errors as `parse_target` and `local_target`. `apart`: nothing need join all of its accelerators."""
        if on not in self._targets:
            self._targets[on] = local_target(on, self.catalog) if names_local(on) else target_or_apart(on, self.catalog)
        return self._targets[on] if apart else joined(self._targets[on])

    def where(self, ask: Common) -> str:
        """The name of where a question runs: what `--on` names, or that in several sites.

        Raises:
            UsageError: sites without the lines between them, or the other way round; or that do not divide it.
        """
        if not isinstance(ask, TrainAsk) or (ask.sites is None and ask.wan is None and ask.wan_latency is None):
            return ask.on
        if ask.sites is None or ask.wan is None:
            lacks = "--sites" if ask.sites is None else "--wan"
            hint = "say both, such as `--sites 4 --wan 1.6TB/s`"
            raise UsageError(Problem("target.sites", f"{lacks} is not said: sites and the lines between them go together", hint))
        name = f"{ask.on} in {ask.sites} sites with {ask.wan} {ask.wan_latency}"
        if name not in self._targets:
            self._targets[name] = in_sites(self.target(ask.on), ask.sites, ask.wan, ask.wan_latency)
        return name

    def is_here(self, on: str) -> None:
        """Take what `--on` names for this very machine, whose own calibration counts; errors as `parse_target`."""
        self._targets[on] = parse_target(on, self.catalog).replaced(local=True)

    def engine(self, name: str) -> tuple[Engine, tuple[Note, ...]]:
        """The profile that answers for an engine or framework, and what is to be said where it is another's.

        Raises:
            UnknownError: neither a profile nor one that stands in is known.
            UsageError: several profiles could be meant.
            SpecError: a data file that is wrong.
        """
        try:
            return self.catalog.load(Engine, name), ()
        except UnknownError:
            for ident in self.catalog.paths("engines"):
                engine = self.catalog.load(Engine, ident)
                if key(name) in map(key, engine.stands_in_for):
                    told = f"{name} has no profile of its own: that of {engine.name}, which works most alike, answers for it"
                    return engine, (Note("engine.stands-in", told, "expect errors beyond the range"),)
            raise

    def machine(self, on: str, engine: Engine, memory: float | None = None) -> Hardware:
        """The hardware that `--on` names, with the kernels of an engine; errors as `parse_target` and `hardware_of`.

        `memory` is the user's capacity in bytes: engines take other limits where there is less of it.
        """
        kernels = engine.attention_like or engine.id
        serving = engine.serving
        vector, warps = (None, None) if serving is None else (serving.vector_decode, serving.warp_experts)
        contexts, windows = (None, None) if serving is None else (serving.undivided_contexts, serving.undivided_windows)
        own = f"{contexts} {windows} {engine.experts_like} {engine.fused_quantisation} {engine.eight_bit_inputs} {engine.half_sums}"
        key = on, f"{engine.id} {kernels} {engine.kernels} {vector} {warps} {own}", memory
        if key not in self._machines and memory is not None:
            hw = self.machine(on, engine)
            self._machines[key] = hw.replaced(
                memory_capacity=hw.memory_capacity.given({"hw.memory_capacity": memory}), visible_memory=None
            )
        elif key not in self._machines:
            target = self.target(on, apart=True)
            made = hardware_of(
                target, catalog=self.catalog, engine=kernels, kernels_then=engine.kernels,
                matmuls_of={str(kind): other for kind, other in engine.matmuls_like.items()},
                fused_experts=serving is not None and not serving.experts_as_others, fused_quantisation=engine.fused_quantisation,
                eight_bit_inputs=engine.eight_bit_inputs,
            )  # fmt: skip
            if target.accelerator.family in engine.experts_like:
                made = with_experts_like(made, dict[str, str](engine.experts_like[target.accelerator.family].items()))
            if vector is not None:
                made = with_vector_decode(made, target.accelerator, vector, engine.term("engine.vector_decode", vector.values))
            if contexts is not None:
                clocks = engine.term("engine.undivided_contexts", contexts.clocks)
                made = with_undivided_contexts(made, target.accelerator, clocks)
            if windows is not None:
                rows = engine.term("engine.undivided_windows", windows.rows)
                made = with_undivided_windows(made, target.accelerator, windows, rows)
            if warps is not None:
                made = with_warp_experts(made, warps, engine.term("engine.warp_experts", warps.share))
            self._machines[key] = with_half_sums(made, target.accelerator, engine.half_sums)
        return self._machines[key]

    def _spared(self, ask: Common, hw: Hardware) -> Hardware:
        """The hardware with less memory, where a share of it is to stay free.

        Raises:
            UsageError: all of it is.
        """
        if not ask.margin:
            return hw
        if ask.margin >= 1:
            raise UsageError(
                Problem("usage.margin", f"--margin {ask.margin:.0%} leaves no memory to use", "use a share such as 5%")
            )
        if (id(hw), ask.margin) not in self._sparing:
            margin = Term("plan.margin", ask.margin, "1", USER)
            left = unspared_bytes.term("hw.memory_within_margin", capacity=hw.seen_memory(), margin=margin)
            self._sparing[id(hw), ask.margin] = hw, hw.replaced(memory_capacity=left, visible_memory=None)
        return self._sparing[id(hw), ask.margin][1]

    def price(self, ask: Common, target: Target) -> tuple[Term | None, tuple[Note, ...]]:
        """What the machine of a question costs today; errors as `price_of`."""
        key = (ask.on, today(), *(getattr(ask, name) for name in grouped(Common, "price")))
        if key not in self._prices:
            self._prices[key] = price_of(ask, target, self.catalog)
        return self._prices[key]

    def look_up(self, ask: Common, task: Task, *, with_price: bool = True) -> Found:
        """The card, target and engine of a question; without an engine, the accelerator's usual one for the task is taken.

        Prices are only looked for where `with_price` says that the answer always shows a cost, or where the question asks.

        Raises:
            UnknownError: a name that nothing has (exit 5).
            UsageError: an ambiguous name, a bad count or a missing folder.
            SpecError: a data file that is wrong.
        """
        card = self.card(ask.model)
        usual = self.catalog.load(UsualTraining, "training") if isinstance(ask, TrainAsk) else None
        place = self.place(ask, task, with_price=with_price, usual=self._engine_of(ask, card, task, usual))
        if card.id not in self._counted or self._counted[card.id][0] is not card:
            self._counted[card.id] = card, card.count(), card.source
        _, counts, source = self._counted[card.id]
        place = self._as_benchmarked(place, card.id)
        subject = Subject(
            model_name=card.id, arch=card.architecture, counts=counts, card=source, hw=place.hw, engine=place.engine,
            price=place.price, money=place.money, pins=ask.pins, usual=usual,
        )  # fmt: skip
        notes = (*card.warnings(), *(_of_training(card, place.target.accelerator) if task == "train" else ()), *place.notes)
        return Found(card=card, target=place.target, subject=subject, notes=notes, defaults=usual)

    def _as_benchmarked(self, place: Place, model: str) -> Place:
        """The place with what the user's own runs of the model told of its engine there, where they count."""
        chip, serving = place.target.accelerator.id, place.engine.serving
        for path in self.catalog.layers("measured", chip):
            file = self.catalog.read(Measured, path)
            runs = file.serving.get(place.engine.id, {}).get(model)
            if file.machine is None or runs is None or serving is None:
                continue
            if withheld(file.machine, self.catalog, chip, local=place.target.local):
                continue
            given = {f"{name}_residual": one for name in ("prefill", "decode") if (one := getattr(runs, name)) is not None}
            key = place.engine.id, chip, f"{model} {place.engine.attention_like} {id(place.engine)}"
            sources = {**place.engine.sources, **file.sources}
            engine = self._engines.setdefault(
                key, place.engine.replaced(serving=serving.replaced(**given), sources=sources)
            )  # fmt: skip
            told = ", ".join(f"{name.partition('_')[0]} x {one.value:.3g}" for name, one in given.items())
            text = f"your own runs of {model} in {engine.name} on {chip} scale what is counted: {told}"
            note = Note("engine.benchmarked", text, "of `gpuplan calibrate import`")
            return place.replaced(engine=engine, notes=(*place.notes, note))
        return place

    def _engine_of(self, ask: Common, card: ModelCard, task: Task, usual: UsualTraining | None) -> Unsaid:
        """The engine of a question that names none, and why."""
        target = self.target(ask.on, apart=_of_replicas(ask))
        if task == "serve" or usual is None or not isinstance(ask, TrainAsk):
            engines = Engines(lambda name: self.engine(name)[0], self.catalog.paths("engines"))
            return Unsaid(*serving_engine(ask, card, target, engines))
        if (own := target.accelerator.default_engines.get(task)) is not None:
            return Unsaid(own, f"others do not run on {target.accelerator.name}")
        found = usual_engine(ask, card, target, usual)
        if (other := having_what_is_named(ask, found, usual, lambda name: self.engine(name)[0])) is not None:
            return Unsaid(*other)
        return Unsaid(found.engine.text, found.why, None if found.unnamed is None else partial(_unnamed, found.unnamed, usual))

    def place(self, ask: Common, task: Task, *, usual: Unsaid, with_price: bool = True) -> Place:
        """Where a question runs, whatever it asks about; errors as `look_up`. `usual` is the engine if it names none."""
        where = self.where(ask)
        target = self.target(where, apart=_of_replicas(ask))
        name, said_of = split_name(ask.engine or usual.engine)
        profile, instead = self.engine(name)
        month = next((last for one, last in profile.earlier_names.items() if key(one) == key(name)), None)
        if month is not None and said_of is None:
            instead = (*instead, Note("engine.release", f"{name} was last released in {month}: it is taken as it was then"))
        if said_of is not None:
            own = not instead or key(name) in map(key, profile.numbers_alike)
            builds = next((one for one in profile.builds if key(name) in map(key, one.names)), None)
            month, taken_as = profile.released(said_of, name, own=own, builds=builds)
            instead = (*instead, Note("engine.release", taken_as)) if taken_as else instead
        if (before := profile.before(month)) is not None:
            profile, _ = self.engine(before)
        then = profile.dated(month, getattr(ask, "kv_cache", None), target.accelerator.family)
        fell_back, profile = month is not None and then != profile.dated(month), then
        refuse_elsewhere(profile, target.accelerator, self.engine(profile.id)[0])
        if getattr(ask, "attention", None) == "flash2":
            profile = paced_by_flash2(profile, self.engine(FLASH2)[0], target.accelerator.family)
        blurred = ask.engine is None and usual.blurred is not None
        if ask.engine is None and usual.blurred is not None:
            profile = usual.blurred(profile)
        profile = self._engines.setdefault((profile.id, month, f"{profile.attention_like} {blurred} {fell_back}"), profile)
        pinned = checked(ask.pins).get("hw.memory_capacity")
        said_notes = target.notes
        if ask.memory is not None:
            if pinned is not None:
                both = Problem("usage.memory", "--memory and --set hw.memory_capacity exclude each other", "leave one out")
                raise UsageError(both)
            pinned = capacity_of(target.accelerator, ask.memory, self.catalog)
            said_notes = tuple(note for note in target.notes if note.code != "target.capacity")
            if target.memory not in {None, pinned}:
                what = f"--on {ask.on} and --memory {human(ask.memory, 'B')} say two sizes"
                raise UsageError(Problem("usage.memory", what, "leave one out"))
        elif pinned is None:
            pinned = target.memory
        hw = self._spared(ask, self.machine(where, profile, pinned))
        price, said = self.price(ask, target) if with_price or ask.asks_for_price() else (None, ())
        spent = money_of(ask, target, hw, self.catalog, price)
        notes = (*said_notes, *hw.notes, *said, *spent.notes, *instead)
        if ask.engine is None:
            taken = f"the engine is taken as {profile.name}" + (f": {usual.why}" if usual.why else "")
            if blurred:
                taken += ", in code and at a site that may be less tuned than its benchmarks'"
            notes = (*notes, Note("engine.default", taken, "name another with --engine"))
        return Place(target=target, hw=hw, engine=profile, price=spent.price, notes=notes, money=spent.money)


def _of_replicas(ask: Common) -> bool:
    """Whether a question is about replicas, which know nothing of each other, and not about accelerators that work together."""
    return not isinstance(ask, TrainAsk) and not (isinstance(ask, ServeAsk) and disaggregated(ask))


def _of_training(card: ModelCard, chip: Accelerator) -> tuple[Note, ...]:
    """That the types of a file that only serves are not trained in, and that nothing trains on an accelerator that only serves."""
    made: list[Note] = []
    if card.engine is not None:
        text = "training takes the architecture alone, not the types that the file is stored in"
        hint = "it begins from 16 bits; --base-weights says how frozen weights are stored"
        made.append(Note("model.architecture-alone", text, hint))
    if (said := chip.serves_only) is not None:
        text = f"{chip.name} is made for inference alone ({chip.source_of(said).title}: {said.text})"
        made.append(Note("hardware.serves-only", text, "this is what its peaks would allow: no engine on record trains there"))
    return tuple(made)


Stamp: TypeAlias = tuple[tuple[str, int, int], ...]
_SHARED: dict[tuple[tuple[str, ...], bool], tuple[Stamp, Library]] = {}


def stamp_of(folders: Iterable[Path]) -> Stamp:
    """Every file and folder below some folders with when it changed and its size: another stamp, and something is different."""
    found: list[tuple[str, int, int]] = []
    todo = [str(folder) for folder in folders]
    while todo:
        with os.scandir(todo.pop()) as entries:
            for one in entries:
                try:
                    state = one.stat()
                except OSError:
                    continue  # A link to nothing.
                found.append((one.path, state.st_mtime_ns, state.st_size))
                if one.is_dir(follow_symlinks=False):
                    todo.append(one.path)
    return tuple(found)


def _changed(path: Path) -> int:
    """When a model's file, or the `config.json` of its folder, changed last."""
    inside = path / "config.json"
    return max(one.stat().st_mtime_ns for one in (path, inside) if one.exists())
