"""From the names in a question to what an estimate is about: the card, the target, the engine, the price."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from gpuplan.errors import GpuplanError, Note, UnknownError
from gpuplan.estimate.subject import Subject
from gpuplan.machine.build import hardware_of
from gpuplan.machine.hardware import Hardware
from gpuplan.models.card import ModelCard
from gpuplan.models.catalog import find
from gpuplan.plan.ask import Common
from gpuplan.record import Record
from gpuplan.search.price import price_of
from gpuplan.specs.catalog import Catalog, key
from gpuplan.specs.engine import Engine
from gpuplan.specs.engine_era import split_date
from gpuplan.specs.on import parse_target
from gpuplan.specs.target import Target
from gpuplan.term import Term

Task: TypeAlias = Literal["train", "serve"]
FLASH2 = "fsdp"
"""The engine whose measured attention is FlashAttention-2's."""
USUAL_ENGINES: Mapping[Task, str] = {"train": "megatron-lm", "serve": "vllm"}
"""The engines that most people run, where an accelerator's file names no other."""


class Found(Record, kw_only=True):
    """Everything that a question names, read once."""

    card: ModelCard
    target: Target
    subject: Subject
    notes: tuple[Note, ...]


class Place(Record, kw_only=True):
    """Where a question runs: its target with the kernels of its engine, at a price in USD a second of one accelerator."""

    target: Target
    hw: Hardware
    engine: Engine
    price: Term | None
    notes: tuple[Note, ...]


@dataclass
class Library:
    """The data files of one question and of the variations that its answer tries: each is read once."""

    catalog: Catalog
    _cards: dict[str, ModelCard] = field(default_factory=dict, repr=False)
    _no_cards: dict[str, GpuplanError] = field(default_factory=dict, repr=False)
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
        if name in self._no_cards:
            raise self._no_cards[name]
        if name not in self._cards:
            own = [folder / "models" for folder in self.catalog.folders[1:] if (folder / "models").is_dir()]
            try:
                self._cards[name] = find(name, own)
            except GpuplanError as error:
                self._no_cards[name] = error
                raise
        return self._cards[name]

    def keep(self, card: ModelCard) -> str:
        """Make a card of no file known by its id, which is returned."""
        self._cards[card.id] = card
        self._no_cards.pop(card.id, None)
        return card.id

    def target(self, on: str) -> Target:
        """What `--on` names; errors as `parse_target`."""
        if on not in self._targets:
            self._targets[on] = parse_target(on, self.catalog)
        return self._targets[on]

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

    def machine(self, on: str, engine: Engine) -> Hardware:
        """The hardware that `--on` names, with the kernels of an engine; errors as `parse_target` and `hardware_of`."""
        kernels = engine.attention_like or engine.id
        if (on, f"{engine.id} {kernels}") not in self._machines:
            self._machines[on, f"{engine.id} {kernels}"] = hardware_of(
                self.target(on), catalog=self.catalog, engine=kernels, matmuls_of=engine.matmuls_like,
                fused_experts=engine.serving is not None,
            )  # fmt: skip
        return self._machines[on, f"{engine.id} {kernels}"]

    def look_up(self, ask: Common, task: Task, *, with_price: bool = True) -> Found:
        """The card, target and engine of a question; without an engine, the accelerator's usual one for the task is taken.

        Prices are only looked for where `with_price` says that the answer always shows a cost, or where the question asks.

        Raises:
            UnknownError: a name that nothing has (exit 5).
            UsageError: an ambiguous name, a bad count or a missing folder.
            SpecError: a data file that is wrong.
        """
        card = self.card(ask.model)
        place = self.place(ask, task, with_price=with_price)
        subject = Subject(
            model_name=card.id, arch=card.architecture, counts=card.count(), card=card.source, hw=place.hw, engine=place.engine,
            price=place.price,
        )  # fmt: skip
        return Found(card=card, target=place.target, subject=subject, notes=(*card.warnings(), *place.notes))

    def place(self, ask: Common, task: Task, *, with_price: bool = True, usual: str | None = None) -> Place:
        """Where a question runs, whatever it asks about; errors as `look_up`. `usual` is the engine where the user names none."""
        target = self.target(ask.on)
        usual = usual or target.accelerator.default_engines.get(task, USUAL_ENGINES[task])
        name, month = split_date(ask.engine or usual)
        profile, instead = self.engine(name)
        profile = profile.dated(month)
        if getattr(ask, "attention", None) == "flash2":
            profile = profile.replaced(attention_like=FLASH2)
        hw = self.machine(ask.on, profile)
        price, said = price_of(ask, target, self.catalog) if with_price or ask.asks_for_price() else (None, ())
        notes = (*target.notes, *hw.notes, *said, *instead)
        if ask.engine is None:
            notes = (*notes, Note("engine.default", f"the engine is taken as {profile.name}", "name another with --engine"))
        return Place(target=target, hw=hw, engine=profile, price=price, notes=notes)
