"""What is known about a model: its names, sources, published size, the format of its weights, and its architecture."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field, PositiveInt, ValidationError

from gpuplan.errors import Note, Problem, SpecError, did_you_mean
from gpuplan.models.architecture import Architecture, Attention, Block, Mla, Mlp, Moe, Part, Run, Stack, StateSpace
from gpuplan.models.count import ParamCount, count
from gpuplan.strict_yaml import LineMap, load_yaml
from gpuplan.term import Kind, Source

Dtype: TypeAlias = Literal["bf16", "fp16", "fp32", "fp8"]
Date: TypeAlias = Annotated[str, Field(pattern=r"^20\d\d-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])$")]


class CardSource(Part):
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


class Published(Part):
    """The size that the model's makers or its stored weights state, against which the card's own count is tested."""

    params_total: PositiveInt | None = None
    params_active: PositiveInt | None = None
    exactness: Literal["exact", "rounded"]
    """`exact`: the count of the stored tensors; `rounded`: an announced size."""
    source: str
    """What says so."""
    note: str = ""
    """Why the card's count differs from it, where it does by more than 0.1 %."""


class WeightsFormat(Part):
    """How a quantised checkpoint stores its weights."""

    method: str
    """`fp8`, `gptq`, `awq`, `nvfp4`, `mxfp4`, `bitsandbytes`, `compressed-tensors`, … as the file names it, in lower case."""
    bits: PositiveInt | None = None
    """Bits of one quantised weight, scales left out; None: mixed or not stated."""
    number: Literal["int", "float"] | None = None
    group_size: PositiveInt | None = None
    """Weights that share one scale along a row; None: one scale a row, a block or a tensor."""
    block: tuple[PositiveInt, ...] = ()
    """Rows and columns of a block that shares one scale."""
    activation_bits: PositiveInt | None = None
    kv_cache: str | None = None
    """The format of the KV cache that the checkpoint asks for."""
    excluded: tuple[str, ...] = ()
    """Modules that stay in the checkpoint's plain type, as the file names them."""


class ModelCard(Part):
    """A model as gpuplan knows it."""

    format: Literal[1] = 1
    id: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]*$")]
    name: str
    aliases: tuple[str, ...] = ()
    """Usual names and Hugging Face ids."""
    sources: Annotated[dict[str, CardSource], Field(min_length=1)]
    """Where the card's facts come from; the first is the source of the architecture."""
    published: Published | None = None
    recount: Published | None = None
    """The same counted by another implementation, which builds the model and adds up its tensors."""
    dtype: Dtype | None = None
    """The plain type of the stored weights."""
    weights: WeightsFormat | None = None
    """How the weights are quantised; None: they are stored in `dtype`."""
    checkpoint_extra: dict[str, PositiveInt] = Field(default_factory=dict)
    """Parameters that the stored checkpoint holds beside the model: multi-token prediction, copies of tied matrices."""
    notes: tuple[str, ...] = ()
    architecture: Architecture

    @property
    def source(self) -> Source:
        """The source of the architecture, for terms."""
        return next(iter(self.sources.values())).source()

    def count(self) -> ParamCount:
        """Parameters by part, total and active."""
        return count(self.architecture, self.source)

    def warnings(self) -> tuple[Note, ...]:
        """The card's notes for the reader of an estimate."""
        return tuple(Note("model.note", text) for text in self.notes)


PARTS: tuple[type[Part], ...] = (
    ModelCard, CardSource, Published, WeightsFormat, Architecture, Stack, Run, Block, Attention, Mla, StateSpace, Mlp, Moe,
)  # fmt: skip
KINDS = {"attention", "mla", "mamba1", "mamba2", "gated_delta", "linear_attention", "mlp", "moe"}


def load_card(path: Path) -> ModelCard:
    """The card that a YAML file holds.

    Raises:
        SpecError: everything that is wrong with the file, each problem with file:line, a code and a hint.
    """
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
    try:
        card = ModelCard.model_validate(data)
    except ValidationError as error:
        raise SpecError(*(_problem(dict(one), lines) for one in error.errors(include_url=False))) from None
    problems = list(_structure(card.architecture, lines))
    if problems:
        raise SpecError(*problems)
    return card


def _structure(arch: Architecture, lines: LineMap) -> list[Problem]:
    """What the schema's types cannot say: runs name blocks, heads divide, no expert is chosen twice."""
    problems = []
    kinds = [stack.kind for stack in arch.stacks]
    if not kinds or len(set(kinds)) < len(kinds):
        where = lines.where(("architecture", "stacks"))
        problems.append(Problem("model.stacks", "a model has one decoder, one encoder, or one of each", "", where))
    for at, stack in enumerate(arch.stacks):
        place = ("architecture", "stacks", at)
        for step, run in enumerate(stack.layers):
            if run.block not in stack.blocks:
                hint = did_you_mean(run.block, stack.blocks) or f"blocks are {', '.join(stack.blocks)}"
                where = lines.where((*place, "layers", step))
                problems.append(Problem("model.unknown-block", f"`{run.block}` is no block of this stack", hint, where))
        for name, block in stack.blocks.items():
            where = lines.where((*place, "blocks", name))
            for one in (block.mixer, block.mixer2, block.cross):
                if one is not None and one.kind == "attention" and one.heads % one.kv_heads:
                    message = f"{one.kv_heads} key and value heads do not divide {one.heads} query heads"
                    problems.append(Problem("model.heads", message, "", where))
                if one is not None and one.kind in ("mamba1", "mamba2", "gated_delta") and not one.conv_kernel:
                    problems.append(Problem("model.bad-value", f"a {one.kind} layer has no `conv_kernel`", "", where))
                if one is not None and one.kind == "mamba1" and not one.dt_rank:
                    problems.append(Problem("model.bad-value", "a mamba1 layer has no `dt_rank`", "", where))
            if not (block.mixer or block.cross or block.mlp):
                problems.append(Problem("model.empty-block", "the block has no mixer and no mlp", "", where))
            if block.mlp is not None and block.mlp.kind == "moe" and block.mlp.shared_experts and not block.mlp.shared_width:
                problems.append(Problem("model.bad-value", "shared experts have no `shared_width`", "", where))
            if block.mlp is not None and block.mlp.kind == "moe" and block.mlp.top_k > block.mlp.experts:
                message = f"{block.mlp.top_k} experts a token are more than the {block.mlp.experts} there are"
                problems.append(Problem("model.experts", message, "", where))
    return problems


def _problem(error: dict[str, Any], lines: LineMap) -> Problem:
    """A complaint of pydantic as a problem with its line."""
    loc = _place(error["loc"])
    key, where, given = ".".join(map(str, loc)), lines.where(loc), error.get("input")
    match error["type"]:
        case "missing":
            return Problem("model.missing-key", f"`{key}` is missing", "", where)
        case "extra_forbidden":
            known = {name for part in PARTS for name in part.model_fields}
            return Problem("model.unknown-key", f"`{key}` is not a key gpuplan knows", did_you_mean(str(loc[-1]), known), where)
        case "union_tag_invalid" | "union_tag_not_found":
            kinds = error["ctx"].get("expected_tags", "attention, mla, mamba2, …").replace("'", "`")
            message = f"{key}: the kind is missing or not known"
            return Problem("model.bad-value", message, f"write `kind:` with one of {kinds}", where)
        case _:
            shown = f"`{given}`" if isinstance(given, (str, int, float)) else "this"
            want = error["msg"].removeprefix("Input should be ").removeprefix("String should ")
            return Problem("model.bad-value", f"{key}: {shown} is not as it must be: {want}", "", where)


def _place(loc: tuple[str | int, ...]) -> tuple[str | int, ...]:
    """A place in the file, without the kind that pydantic puts after a mixer or an mlp."""
    made: list[str | int] = []
    for before, part in zip((None, *loc), loc, strict=False):
        kind_of_part = before in ("mixer", "mixer2", "mlp") and part in KINDS
        if not kind_of_part and not (isinstance(part, str) and part.endswith("[key]")):
            made.append(part)
    return tuple(made)
