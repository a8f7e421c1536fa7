"""From the names in a question to what an estimate is about: the card, the target, the engine, the price."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from gpuplan.errors import Note, UnknownError
from gpuplan.estimate.subject import Subject
from gpuplan.machine.build import hardware_of
from gpuplan.machine.hardware import Hardware
from gpuplan.models.card import ModelCard
from gpuplan.models.catalog import find
from gpuplan.plan.ask import Common
from gpuplan.record import Record
from gpuplan.specs.catalog import Catalog
from gpuplan.specs.engine import Engine
from gpuplan.specs.target import Target, parse_target
from gpuplan.term import USER, Source, Term

Task: TypeAlias = Literal["train", "serve"]
USUAL_ENGINES: Mapping[Task, str] = {"train": "megatron-lm", "serve": "vllm"}
"""The engines that most people run, where an accelerator's file names no other."""


class Found(Record, kw_only=True):
    """Everything that a question names, read once."""

    card: ModelCard
    target: Target
    subject: Subject
    notes: tuple[Note, ...]


@dataclass
class Library:
    """The data files of one question and of the variations that its answer tries: each is read once."""

    catalog: Catalog
    _cards: dict[str, ModelCard] = field(default_factory=dict, repr=False)
    _targets: dict[str, Target] = field(default_factory=dict, repr=False)
    _machines: dict[tuple[str, str], Hardware] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, ask: Common) -> Library:
        """The shipped files and the user's.

        Raises:
            UsageError: a folder that the user named does not exist or holds nothing.
        """
        return cls(Catalog.open(ask.specs))

    def card(self, name: str) -> ModelCard:
        """The card of a model; errors as `gpuplan.models.catalog.find`."""
        if name not in self._cards:
            own = [folder / "models" for folder in self.catalog.folders[1:] if (folder / "models").is_dir()]
            self._cards[name] = find(name, own)
        return self._cards[name]

    def target(self, on: str) -> Target:
        """What `--on` names; errors as `parse_target`."""
        if on not in self._targets:
            self._targets[on] = parse_target(on, self.catalog)
        return self._targets[on]

    def machine(self, on: str, engine: Engine) -> Hardware:
        """The hardware that `--on` names, with the kernels of an engine; errors as `parse_target` and `hardware_of`."""
        if (on, engine.id) not in self._machines:
            self._machines[on, engine.id] = hardware_of(
                self.target(on), catalog=self.catalog, engine=engine.id, matmuls_of=engine.matmuls_like
            )
        return self._machines[on, engine.id]

    def look_up(self, ask: Common, task: Task, *, with_price: bool = True) -> Found:
        """The card, target and engine of a question; without an engine, the accelerator's usual one for the task is taken.

        Prices are only looked for where `with_price` says that the answer shows a cost.

        Raises:
            UnknownError: a name that nothing has (exit 5).
            UsageError: an ambiguous name, a bad count or a missing folder.
            SpecError: a data file that is wrong.
        """
        card, target = self.card(ask.model), self.target(ask.on)
        usual = target.accelerator.default_engines.get(task, USUAL_ENGINES[task])
        profile = self.catalog.load(Engine, ask.engine or usual)
        hw = self.machine(ask.on, profile)
        price, said = _price(ask, target, self.catalog) if with_price else (None, ())
        subject = Subject(
            model_name=card.id, arch=card.architecture, counts=card.count(), card=card.source, hw=hw, engine=profile, price=price
        )
        notes = (*card.warnings(), *target.notes, *hw.notes, *said)
        if ask.engine is None:
            notes = (*notes, Note("engine.default", f"the engine is taken as {profile.name}", "name another with --engine"))
        return Found(card=card, target=target, subject=subject, notes=notes)


def _price(ask: Common, target: Target, catalog: Catalog) -> tuple[Term | None, tuple[Note, ...]]:
    """USD a second of one accelerator: the user's, the instance's, or the cheapest on record for bare accelerators."""
    from gpuplan.specs.offers import price_for, street_price, usd_per_s, usd_per_s_each, usd_per_s_of_all

    parts = Term("price.accelerators", float(target.count), "1", Source("derived", f"accelerators in {target.text}"))
    if ask.price is not None:
        units = Term("price.units", float(target.units), "1", Source("derived", f"what --on counts in {target.text}"))
        own = Term("price.given", ask.price, "USD/s", USER)
        whole = usd_per_s_of_all.term("price.usd_per_s", price=own, units=units)
        return usd_per_s_each.term("hw.price", price=whole, parts=parts), ()
    if target.instance is not None:
        try:
            offer = price_for(target, catalog)
            price = usd_per_s(target, offer)
        except UnknownError as error:
            return None, tuple(Note("price.unknown", problem.message, "give a price with --price") for problem in error.problems)
        text = f"{offer.provider}:{offer.instance} in {offer.region}, {offer.kind.replace('_', ' ')}, {offer.date}"
        note = Note("price.used", f"price: {text}", "give another with --price")
        return usd_per_s_each.term("hw.price", price=price, parts=parts), (note,)
    try:
        street = street_price(target.accelerator.id, catalog)
    except UnknownError:
        what = f"no price of {target.accelerator.id} is on record, so there is no cost"
        return None, (Note("price.unknown", what, "give one with --price"),)
    offer = street.offer
    place = f"{offer.provider}:{offer.instance} in {offer.region}, {offer.date}"
    text = f"price: {target.text} has none of its own; the cheapest on-demand rate on record is taken ({place})"
    return street.price, (Note("price.street", text, "give your own with --price, or name an instance"),)
