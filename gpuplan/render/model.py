"""What is a model made of: its names, its sizes part by part, its layers, and where that is known from?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gpuplan.models.architecture import Block, Mlp, Moe
from gpuplan.models.card import ModelCard
from gpuplan.models.count import ParamCount
from gpuplan.models.diffusion.card import DiffusionCard
from gpuplan.models.generic import GenericCard
from gpuplan.models.selection import license_of, released_of
from gpuplan.models.stored import StoredTensors
from gpuplan.render.diffusion_card import diffusion_page, diffusion_record, diffusion_row
from gpuplan.render.text import Look, amount, columns, label, percent, shown, wrap
from gpuplan.schema import Schema
from gpuplan.term import NOT_ON_RECORD, Term
from gpuplan.units import so_many
from gpuplan.yaml_text import yaml_text

HEADS = ("id", "params", "active", "layers", "hidden", "context", "name")
ALIGNED = "lrrrrrl"


def model_row(card: ModelCard) -> list[str]:
    """One line of the list of models."""
    size, arch = card.count(), card.architecture
    total, active = (_count(term) for term in (size.params_total, size.params_active))
    context = f"{arch.max_context:,}" if arch.max_context else ""
    return [card.id, total, active if active != total else "", str(arch.depth), f"{arch.hidden:,}", context, card.name]


def model_record(card: ModelCard) -> dict[str, object]:
    """The same as numbers for JSON and CSV."""
    size, arch = card.count(), card.architecture
    return {
        "id": card.id, "name": card.name, "params_total": float(size.params_total.value),
        "params_active": float(size.params_active.value), "layers": arch.depth, "hidden": arch.hidden, "vocab": arch.vocab,
        "max_context": arch.max_context, "aliases": " ".join(card.aliases),
    }  # fmt: skip


def row_of(card: ModelCard | GenericCard | DiffusionCard) -> list[str]:
    """One line of the list for any card."""
    if isinstance(card, DiffusionCard):
        return diffusion_row(card)
    return generic_row(card) if isinstance(card, GenericCard) else model_row(card)


def record_of(card: ModelCard | GenericCard | DiffusionCard) -> dict[str, object]:
    """The same as numbers, with the licence of the weights and the day they came out, empty where it is not on record."""
    if isinstance(card, DiffusionCard):
        made = {key: value for key, value in diffusion_record(card).items() if key != "params_by_part"}
    else:
        made = generic_record(card) if isinstance(card, GenericCard) else model_record(card)
    return made | {"license": license_of(card) or None, "released": released_of(card) or None}


def page_of(card: ModelCard | GenericCard | DiffusionCard, look: Look) -> str:
    """Everything that a card says."""
    if isinstance(card, DiffusionCard):
        return diffusion_page(card, look)
    return generic_page(card, look) if isinstance(card, GenericCard) else model_page(card, look)


def generic_row(card: GenericCard) -> list[str]:
    """One line of the list for a model that is given by its samples."""
    size = float(card.params + (card.tables.params if card.tables is not None else 0))
    return [card.id, _count(card.term("params", size)), "", "", "", "", card.name]


def generic_record(card: GenericCard) -> dict[str, object]:
    """The same as numbers; what such a model does not have is empty."""
    return {
        "id": card.id, "name": card.name, "params_total": float(card.params + (card.tables.params if card.tables else 0)),
        "params_active": float(card.params), "layers": None,
        "hidden": None, "vocab": None, "max_context": None, "aliases": " ".join(card.aliases),
    }  # fmt: skip


def generic_page(card: GenericCard, look: Look) -> str:
    """Everything that a card of samples says, each figure with its source."""
    lines = [f"{look.bold(card.id)}  {card.name}"]
    lines += wrap(", ".join(card.aliases), look.width, "  also called ", "    ") if card.aliases else []
    figures = [
        card.term("params", card.params), card.term("forward_flop", card.forward_flop, "FLOP"),
        card.term("kept_values", card.kept_values),
    ]  # fmt: skip
    given: dict[str, tuple[int | None, str]] = {"kernels": (card.kernels, "1")}
    if card.tables is not None:
        given |= {"tables": (card.tables.params, "1"), "looked_up": (card.tables.looked_up, "1")}
    if card.input is not None:
        given |= {"stored_bytes": (card.input.stored_bytes, "B"), "samples": (card.input.samples, "1")}
        given |= {"decoded_per_s": (card.input.decoded_per_s, "1/s")}
    figures += [card.term(name, value, unit) for name, (value, unit) in given.items() if value is not None]
    rows = [
        (label(name), shown(one.name, float(one.value), one.unit), card.said_by.get(name, NOT_ON_RECORD.title))
        for one in figures
        for name in [one.name.partition(".")[2]]
    ]
    lines += ["", f"  each sample is {card.sample}", "", *columns([list(row) for row in rows], "lrl"), ""]
    for note in card.notes:
        lines += wrap(note, look.width, "  - ", "    ")
    for key, source in card.sources.items():
        text = f"{key}: {source.kind}, {source.title}, checked {source.checked}" + (f", {source.note}" if source.note else "")
        lines += wrap(text, look.width, "  ", "    ")
        lines += [f"    {source.url}"] if source.url else []
    return "\n".join(lines) + "\n"


def shown_record(card: ModelCard | GenericCard | DiffusionCard) -> dict[str, object]:
    """A card as plain data, with what its parameters come to: in all, of a token, and by part."""
    if isinstance(card, DiffusionCard):
        return {**card.plain(), **{key: diffusion_record(card)[key] for key in ("params_total", "params_by_part")}}
    if isinstance(card, GenericCard):
        counted = {key: generic_record(card)[key] for key in ("params_total", "params_active")}
        return {**card.plain(), **counted}
    size = card.count()
    return {
        **card.plain(), "params_total": float(size.params_total.value), "params_active": float(size.params_active.value),
        "params_by_part": {name: float(term.value) for name, term in _parts(size)},
    }  # fmt: skip


def _parts(size: ParamCount) -> list[tuple[str, Term]]:
    """The parameters by part, whose sum is all of them."""
    parts = [("embedding", size.embedding), *((f"{one.stack} {one.block}", one.total) for one in size.blocks)]
    parts += [(name, term) for name, term in (("final norm", size.final), ("head", size.head)) if term is not None]
    return parts + [(name.replace("_", " "), term) for name, term in size.extra.items()]


def model_page(card: ModelCard, look: Look) -> str:
    """Everything that a card says, with its parameters by part and its sources."""
    size, arch = card.count(), card.architecture
    lines = [f"{look.bold(card.id)}  {card.name}"]
    lines += wrap(", ".join(card.aliases), look.width, "  also called ", "    ") if card.aliases else []
    total, active = size.params_total, size.params_active
    sizes = f"{_count(total)} parameters ({float(total.value):,.0f})"
    sizes += f", {_count(active)} active for a token" if active.value != total.value else ""
    stored = f", stored as {card.weights.method}" if card.weights is not None else f", stored as {card.dtype}" if card.dtype else ""
    lines += wrap(sizes + stored, look.width, "  ")
    facts = [f"hidden {arch.hidden:,}", f"vocabulary {arch.vocab:,}", so_many(arch.depth, "layer")]
    facts += ["embedding tied to the head"] if arch.tied else []
    facts += [f"context {arch.max_context:,}"] if arch.max_context else []
    lines += wrap(", ".join(facts), look.width, "  ")
    lines += [] if card.license is None else [f"  licence {card.license.name}"]
    lines += [""]
    for stack in arch.stacks:
        for name, count in stack.counts().items():
            lines += wrap(", ".join(_block(stack.blocks[name])), look.width, f"  {stack.kind}, {count} x {name}: ", "    ")
    if card.stored is not None:
        lines += ["", *_stored(card.stored, look)]
    rows = [[name, _count(term), percent(float(term.value), float(total.value))] for name, term in _parts(size)]
    lines += ["", look.bold("Parameters"), *columns([*rows, ["total", _count(total), ""]], "lrr"), ""]
    for note in card.notes:
        lines += wrap(note, look.width, "  - ", "    ")
    for source in card.sources.values():
        facts = [source.kind, source.title, f"checked {source.checked}", source.note]
        lines += wrap(", ".join(fact for fact in facts if fact), look.width, "  ", "    ")
        lines += [f"    {source.url}"] if source.url else []
    return "\n".join(lines) + "\n"


def _stored(stored: StoredTensors, look: Look) -> Iterator[str]:
    """What the parts of a checkpoint take, and in which types."""
    yield look.bold(f"Stored, by {stored.source().title}")
    parts = [
        (name, sum(sizes.values()), ", ".join(sorted(sizes, key=lambda kind: -sizes[kind]))) for name, sizes in stored.parts.items()
    ]
    rows = [[name, shown("stored_bytes", float(size), "B"), percent(size, stored.total), types] for name, size, types in parts]
    yield from columns(
        [*rows, ["total", shown("stored_bytes", float(stored.total), "B"), "", f"{so_many(stored.total, 'byte')}"]], "lrrl"
    )
    for name, size in stored.beside.items():
        yield f"  beside the model: {name}, {shown('stored_bytes', float(size), 'B')}"


def card_yaml(card: ModelCard) -> str:
    """The card as the YAML that gpuplan reads, without keys that only repeat a default."""
    return yaml_text(_data(card))


def _data(part: Schema) -> dict[str, Any]:
    """The fields of a card's part that are not left at their defaults; what tells kinds apart always stays."""
    said = {**part.stated(), **{key: getattr(part, key) for key in ("kind", "format") if hasattr(part, key)}}
    return {key: _plain(said[key]) for key in part.field_names() if key in said}


def _plain(value: Any) -> Any:
    if isinstance(value, Schema):
        return _data(value)
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, tuple) else value


def _block(block: Block) -> Iterator[str]:
    for mixer in block.mixers:
        yield ("cross " if mixer is block.cross else "") + mixer.summary()
    match block.mlp:
        case Mlp(width=width, gated=gated):
            yield f"{'gated ' if gated else ''}MLP {width:,} wide"
        case Moe() as moe:
            shared = f" and {moe.shared_experts} shared" if moe.shared_experts else ""
            yield f"{moe.top_k} of {so_many(moe.experts, 'expert')}{shared}, {moe.width:,} wide"
        case None:
            pass


def _count(term: Term) -> str:
    number, word = amount(term.name, float(term.value), term.unit)
    return f"{number} {word[:1].upper() if word else ''}".strip() if word else shown(term.name, float(term.value), term.unit)
