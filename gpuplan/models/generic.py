"""What is known of a model that is no transformer: parameters, and for each sample its FLOP, kept values and stored bytes?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from gpuplan.errors import Note, Problem, SpecError
from gpuplan.files.read import is_file
from gpuplan.models.card import CardSource
from gpuplan.models.glance import called_in, cards_in, is_generic
from gpuplan.optimizers import Optimizer
from gpuplan.schema import Fault, Limits, Pattern, PositiveInt, Schema, field, read
from gpuplan.strict_yaml import LineMap, load_yaml
from gpuplan.term import NOT_ON_RECORD, Source, Term

GENERIC = Path(__file__).parent / "generic_cards"
"""The cards that come with gpuplan."""


class SampleInput(Schema):
    """What feeding one sample takes."""

    stored_bytes: PositiveInt | None = None
    """Bytes of a sample as it lies in storage, compressed."""
    decoded_per_s: PositiveInt | None = None
    """Samples that one virtual processor decodes and augments in a second."""
    decoded_low: PositiveInt | None = None
    decoded_high: PositiveInt | None = None
    """The ends of what was seen of `decoded_per_s`."""
    samples: PositiveInt | None = None
    """Samples of the data set: one epoch."""

    @property
    def decoded_range(self) -> tuple[float, float] | None:
        """Low and high of `decoded_per_s`, where both are known."""
        return (float(self.decoded_low), float(self.decoded_high)) if self.decoded_low and self.decoded_high else None


class Tables(Schema):
    """Embedding tables, of which a sample reads a few rows: cut over all accelerators while the rest is replicated."""

    params: PositiveInt
    """Parameters of all tables; not among those of the model."""
    looked_up: PositiveInt
    """Values that one sample reads of them."""


class GenericCard(Schema):
    """A model by what training on one sample takes. Units: counts, FLOP (a multiplication and an addition are two), bytes."""

    format: Literal[1] = 1
    kind: Literal["generic"]
    id: Annotated[str, Pattern(r"^[a-z0-9][a-z0-9._-]*$")]
    name: str
    aliases: tuple[str, ...] = ()
    sources: Annotated[dict[str, CardSource], Limits(1)]
    """Where the figures come from, as `said_by` tells."""
    said_by: dict[str, str] = field(default_factory=dict)
    """The source of a figure by its name; of one that is not here no source is on record."""
    sample: str = "sample"
    """What a sample is, such as an image of 224 x 224 pixels."""
    params: PositiveInt
    forward_flop: PositiveInt
    """FLOP of the forward pass of one sample."""
    kept_values: PositiveInt
    """Values that one sample keeps for the backward pass, of the width of activations."""
    tables: Tables | None = None
    kernels: PositiveInt | None = None
    """Kernels of the forward pass."""
    batch: PositiveInt | None = None
    """Samples an accelerator takes at once in the published recipe."""
    optimizer: Optimizer | None = None
    """The optimizer of the published recipe."""
    input: SampleInput | None = None
    notes: tuple[str, ...] = ()

    def faults(self) -> Iterator[Fault]:
        """Sources that are not there."""
        for name, key in self.said_by.items():
            if key not in self.sources:
                yield Fault("model.unknown-source", f"`{key}` is no source of this card", f"there are {', '.join(self.sources)}", (
                    "said_by", name
                ))  # fmt: skip

    def term(self, name: str, value: float, unit: str = "1") -> Term:
        """The leaf `model.<name>` with what says so."""
        key = self.said_by.get(name)
        said = self.sources[key].source() if key is not None else NOT_ON_RECORD
        return Term(f"model.{name}", float(value), unit, said)

    @property
    def source(self) -> Source:
        """The source of the card, for terms."""
        return next(iter(self.sources.values())).source()

    def warnings(self) -> tuple[Note, ...]:
        """The card's notes for the reader of an estimate."""
        return tuple(Note("model.note", text) for text in self.notes)


def generic_path(name: str, extra_dirs: Sequence[Path] = ()) -> Path | None:
    """The file of a generic card by its id or an alias, a user's before the shipped one; None where there is none."""
    wanted = name.lower()
    if not wanted:
        return None
    if "/" not in wanted:
        for folder in (*extra_dirs, GENERIC):
            path = folder / f"{wanted}.yaml"
            if is_file(path) and (folder is GENERIC or is_generic(path)):
                return path
    return next((path for folder in (*extra_dirs, GENERIC) for path in called_in(folder, wanted, "generic")), None)


def generic_cards(extra_dirs: Sequence[Path] = ()) -> Iterator[GenericCard]:
    """Every card, the user's and the shipped ones, in the order of their ids by folder.

    Raises:
        SpecError: a card is not valid.
    """
    for folder in (*extra_dirs, GENERIC):
        for path in cards_in(folder):
            if folder is GENERIC or is_generic(path):
                yield load_generic(path)


def generic_names() -> list[str]:
    """The ids of the shipped generic cards."""
    return [path.stem for path in cards_in(GENERIC)]


def load_generic(path: Path) -> GenericCard:
    """The card that a YAML file holds.

    Raises:
        SpecError: everything that is wrong with the file, each problem with file:line, a code and a hint.
    """
    data, lines = load_yaml(path)
    card = parse_generic(data, lines)
    if card.id != path.stem:
        hint = f"rename the file to `{card.id}.yaml`, or write `id: {path.stem}`"
        raise SpecError(Problem("model.id-not-file-name", f"the id `{card.id}` is not the file's name", hint, lines.where(("id",))))
    return card


def parse_generic(data: dict[str, Any], lines: LineMap) -> GenericCard:
    """The card that plain data means; `lines` says where its keys stand.

    Raises:
        SpecError: all problems together.
    """
    return read(GenericCard, data, lines, "model", value_code="model.bad-value")
