"""What is known about a model: its names, sources, published size, the format of its weights, and its architecture."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from gpuplan.errors import Note, Problem, SpecError
from gpuplan.files.unchanged import while_unchanged
from gpuplan.models.architecture import Architecture
from gpuplan.models.count import ParamCount, count
from gpuplan.models.stored import StoredTensors
from gpuplan.schema import DAY, Fault, Limits, Pattern, PositiveInt, Schema, field, read
from gpuplan.strict_yaml import LineMap, load_yaml
from gpuplan.term import Kind, Source

Dtype: TypeAlias = Literal["bf16", "fp16", "fp32", "fp8"]
NumberKind: TypeAlias = Literal["int", "float"]
Dispatcher: TypeAlias = Literal["deepep", "hybridep"]
Schedule: TypeAlias = Literal["gpipe", "zb-h1", "zb-h2", "zb-v", "dualpipe"]
Date: TypeAlias = Annotated[str, Pattern(rf"^{DAY}$", "write a day: 2026-10-31")]


class CardSource(Schema):
    """A page, paper or file that says what the card repeats."""

    title: str
    url: str = ""
    checked: Date
    """The day on which someone last looked."""
    kind: Kind = "model-card"
    note: str = ""

    def source(self) -> Source:
        """The same as the source of a term."""
        return Source(self.kind, self.title, self.url, "", self.checked, self.note)


class License(Schema):
    """Under which terms the weights may be used."""

    name: Annotated[str, Pattern(r"^[a-z0-9][a-z0-9.-]*$")]
    """As the Hugging Face hub calls it: `apache-2.0`, `mit`, `llama3.1`, `gemma`."""
    source: str
    """The source of the card that says so."""


class Released(Schema):
    """When the weights came out."""

    day: Date
    """The first day on which the Hugging Face hub had them from their makers."""
    source: str
    """The source of the card that says so."""


class Published(Schema):
    """The size that the model's makers or its stored weights state, against which the card's own count is tested."""

    params_total: PositiveInt | None = None
    params_active: PositiveInt | None = None
    exactness: Literal["exact", "rounded"]
    """`exact`: the count of the stored tensors; `rounded`: an announced size."""
    source: str
    """What says so."""
    note: str = ""
    """Why the card's count differs from it, where it does by more than 0.1 %."""


class Pretraining(Schema):
    """How the model's makers trained it: what is taken where a question leaves sequence and batch out."""

    seq_len: PositiveInt
    """Tokens of a sequence in the main stage."""
    global_batch: PositiveInt
    """Sequences of a step, once the batch had grown to its full size."""
    dispatcher: Dispatcher | None = None
    """How tokens travelled to experts, where that was no plain all-to-all."""
    schedule: Schedule | None = None
    """The order of its pipeline's work, where that was not one forward, one backward."""
    source: str
    """What says so."""
    url: str
    checked: Date
    note: str = ""


class FineTuning(Schema):
    """A published recipe for fine-tuning the model: what is taken on one accelerator, or where adapters are trained."""

    seq_len: PositiveInt | None = None
    """Tokens of a sequence; None: as in its training, or all that it reads."""
    global_batch: PositiveInt
    """Sequences of a step on one accelerator."""
    source: str
    """What says so."""
    url: str
    checked: Date
    note: str = ""


class TokenPrediction(Schema):
    """Modules of multi-token prediction that were trained with the model, each with a block like its last layer."""

    modules: PositiveInt
    source: str
    """What says so."""
    url: str
    checked: Date


class NumberFormat(Schema):
    """How a quantised matrix is stored."""

    method: str
    """`fp8`, `gptq`, `awq`, `nvfp4`, `mxfp4`, `bitsandbytes`, `compressed-tensors`, … as the file names it, in lower case."""
    bits: PositiveInt | None = None
    """Bits of one quantised weight, scales left out; None: mixed or not stated."""
    number: NumberKind | None = None
    group_size: PositiveInt | None = None
    """Weights that share one scale along a row; None: one scale a row, a block or a tensor."""
    block: tuple[PositiveInt, ...] = ()
    """Rows and columns of a block that shares one scale."""
    scales: Literal["tensor", "row"] | None = None
    """What shares a scale where there are neither groups nor blocks; None: as the method has it."""
    zeros: bool = False
    """Groups have a zero point too."""
    ordered: bool = False
    """Columns were quantised in an order of their own, which is stored beside them (GPTQ's `desc_act`)."""
    nested: bool = False
    """Scales are quantised themselves (bitsandbytes' double quantisation)."""
    millibits: PositiveInt | None = None
    """Mean bits of a weight with its scales, in thousandths, of methods that mix widths within a matrix (EXL2, EXL3)."""


class WeightsFormat(NumberFormat):
    """How a quantised checkpoint stores its weights."""

    activation_bits: PositiveInt | None = None
    kv_cache: str | None = None
    """The format of the KV cache that the checkpoint asks for."""
    excluded: tuple[str, ...] = ()
    """Modules that stay in the checkpoint's plain type, as the file names them; `[0-9]` stands for a range of layers."""
    included: tuple[str, ...] = ()
    """Modules that alone are quantised; none: all matrices of layers."""
    edges: bool = False
    """Embedding and head are quantised as the layers are (MLX)."""
    otherwise: dict[str, NumberFormat] = field(default_factory=dict)
    """Modules that are quantised in another way, by name; the head only where it is named here, or where `edges` says so."""
    by: str = ""
    """Whose checkpoint it is, as the owner of its repository; empty: the model's maker's."""
    source: str = ""
    """What says so, where it is not the card's first source."""


class ModelCard(Schema):
    """A model as gpuplan knows it."""

    format: Literal[1] = 1
    id: Annotated[str, Pattern(r"^[a-z0-9][a-z0-9._-]*$")]
    name: str
    aliases: tuple[str, ...] = ()
    """Usual names and Hugging Face ids."""
    sources: Annotated[dict[str, CardSource], Limits(1)]
    """Where the card's facts come from; the first is the source of the architecture."""
    license: License | None = None
    """Of the weights; None: not on record."""
    released: Released | None = None
    """None: not on record, or earlier than the hub's own records (March 2022)."""
    published: Published | None = None
    recount: Published | None = None
    """The same counted by another implementation, which builds the model and adds up its tensors."""
    pretraining: Pretraining | None = None
    """The published sequence length and batch of its training."""
    fine_tuning: FineTuning | None = None
    """A published recipe for fine-tuning it; None: as the engine fine-tunes."""
    """What is asked of it where a question leaves prompt and output out."""
    mtp: TokenPrediction | None = None
    """What predicts more than the next token; not counted in the model's size."""
    dtype: Dtype | None = None
    """The plain type of the stored weights."""
    weights: WeightsFormat | None = None
    """How the weights are quantised; None: they are stored in `dtype`."""
    quantised: dict[str, WeightsFormat] = field(default_factory=dict)
    """The usual quantised checkpoints of a model that is stored plain, by the type of weights that asks for each (`fp8`)."""
    stored: StoredTensors | None = None
    """The bytes of the stored tensors, where the checkpoint's own files say so; None: as its format makes them."""
    engine: str | None = None
    """The engine that serves it where a question names none: the one that reads its files."""
    checkpoint_extra: dict[str, PositiveInt] = field(default_factory=dict)
    """Parameters that the stored checkpoint holds beside the model: multi-token prediction, copies of tied matrices."""
    notes: tuple[str, ...] = ()
    architecture: Architecture

    def faults(self) -> Iterator[Fault]:
        """A licence or a day of a source that is not there."""
        for name, said in (("license", self.license), ("released", self.released)):
            if said is not None and said.source not in self.sources:
                yield Fault("model.no-source", f"`{said.source}` is no source of the card", at=(name, "source"))

    @property
    def source(self) -> Source:
        """The source of the architecture, for terms."""
        return next(iter(self.sources.values())).source()

    def count(self) -> ParamCount:
        """Parameters by part, total and active."""
        return count(self.architecture, self.source)

    def stored_as(self, of: WeightsFormat) -> StoredTensors | None:
        """The bytes of the parts of one of its quantised checkpoints, by its settings; None: no rule is known for its method."""
        if id(of) not in self._stored_as:
            from gpuplan.models.stored_by_rule import stored_by_rule

            dtype = self.dtype if self.weights is not None else "bf16"
            where = of.source or self.source.title
            made = stored_by_rule(self.architecture, self.count(), of, dtype=dtype or "bf16", where=where)
            self._stored_as[id(of)] = of, made
        return self._stored_as[id(of)][1]

    @cached_property
    def _stored_as(self) -> dict[int, tuple[WeightsFormat, StoredTensors | None]]:
        """What was worked out: a search asks the same for every machine."""
        return {}

    def warnings(self) -> tuple[Note, ...]:
        """The card's notes for the reader of an estimate."""
        return tuple(Note("model.note", text) for text in self.notes)


def load_card(path: Path) -> ModelCard:
    """The card that a YAML file holds, parsed once in a process while the file does not change.

    Raises:
        SpecError: everything that is wrong with the file, each problem with file:line, a code and a hint.
    """
    return while_unchanged(ModelCard, path, lambda: _read_card(path))


def _read_card(path: Path) -> ModelCard:
    data, lines = load_yaml(path)
    card = parse_card(data, lines)
    if card.id != path.stem:
        hint = f"rename the file to `{card.id}.yaml`, or write `id: {path.stem}`"
        problem = Problem("model.id-not-file-name", f"the id `{card.id}` is not the name of the file", hint, lines.where(("id",)))
        raise SpecError(problem)
    return card


def parse_card(data: dict[str, Any], lines: LineMap) -> ModelCard:
    """The card that plain data means; `lines` says where its keys stand.

    Raises:
        SpecError: all problems together.
    """
    return read(ModelCard, data, lines, "model", value_code="model.bad-value")
