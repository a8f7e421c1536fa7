"""Which model does a row mean: a card, or the dimensions that it states, which win over the card?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from gpuplan.accuracy.rows import Row, Skip
from gpuplan.errors import GpuplanError
from gpuplan.models.architecture import Architecture, Block, Mlp, Moe, Run, Stack
from gpuplan.models.card import CardSource, ModelCard
from gpuplan.models.mixers import Attention, Mla

NEAR = 0.03
"""A card whose size is this close to the row's is the row's model."""
FAR = 0.10
"""Dimensions that give a size this far from the row's are not all of the model."""
USUAL_HEAD = 128
"""Width of a head where a row does not say how many there are."""
BUILT_FROM = ("layers", "hidden", "heads", "vocab")


def card_of(row: Row, find: Callable[[str], ModelCard]) -> ModelCard:
    """The card of a row's model, or one made of the dimensions that the row states.

    Raises:
        Skip: the row says too little of its model.
    """
    stated = row.model
    card = None
    for name in (stated.get("id"), stated.get("name")):
        if name and card is None:
            try:
                card = find("-".join(str(name).split()))
            except GpuplanError:
                card = None
    size = stated.get("params_b")
    named_so = card is not None and _rounds_to(card, size) and stated.get("id") in (card.id, *card.aliases)
    near = card is not None and (not size or named_so or abs(_billions(card) / float(size) - 1) <= NEAR)
    if card is not None and near and _agrees(card.architecture, stated):
        return card
    made = _built(row)
    if made is None:
        if card is not None and (not size or abs(_billions(card) / float(size) - 1) <= FAR):
            return card
        raise Skip(
            "the model is not known"
            if card is None
            else f"`{name}` is another model than the row's, whose dimensions are not all there"
        )
    if size and _off(made, float(size)) > FAR:
        if card is not None and abs(_billions(card) / float(size) - 1) <= FAR:
            return card
        raise Skip("the row's dimensions do not give its number of parameters")
    return made


def known_as(card: ModelCard, row: Row, find: Callable[[str], ModelCard], keep: Callable[[ModelCard], str]) -> str:
    """The name by which a question finds the card of a row: that of a checkpoint whose card is not the model's own, or its id."""
    for name in (row.model.get("id"), row.model.get("name")):
        said = "-".join(str(name).split())
        if "/" in said:
            try:
                if find(said) is card and find(card.id) is not card:
                    return said
            except GpuplanError:
                continue
    return keep(card)


def _off(card: ModelCard, size: float) -> float:
    """How far a card is from a stated size, which may leave the embedding out."""
    whole = _billions(card)
    inner = whole - card.architecture.hidden * card.architecture.vocab / 1e9
    return min(abs(whole / size - 1), abs(inner / size - 1))


def _rounds_to(card: ModelCard, size: object) -> bool:
    """Whether a size in whole billions is the card's, rounded up or down."""
    return isinstance(size, (int, float)) and size == int(size) and abs(_billions(card) - size) < 1


def _billions(card: ModelCard) -> float:
    value: Any = card.count().params_total.value
    return float(value) / 1e9


def _agrees(arch: Architecture, stated: Mapping[str, Any]) -> bool:
    """Whether the dimensions that a row states are the card's."""
    if stated.get("layers") and stated["layers"] != arch.depth:
        return False
    return not (stated.get("hidden") and stated["hidden"] != arch.hidden)


def _built(row: Row) -> ModelCard | None:
    stated = _with_heads(_with_layers(row.model), int(row.run.get("tp") or 1))
    if any(not isinstance(stated.get(key), int) for key in BUILT_FROM) or stated.get("hybrid") or stated.get("mamba"):
        return None
    gated = bool(stated.get("gated_mlp", True))
    hidden, layers, heads = stated["hidden"], stated["layers"], stated["heads"]
    style: dict[str, Any] = {} if gated else {"norm": "layer"}
    dense_width = stated.get("ffn") or (None if gated else 4 * hidden)
    mixer: Attention | Mla
    if isinstance(stated.get("mla"), Mapping):
        made = _latent(stated["mla"], heads)
        if made is None:
            return None
        mixer = made
    else:
        window = stated.get("sliding_window")
        mixer = Attention(
            heads=heads, kv_heads=stated.get("kv_heads") or (1 if stated.get("attention") == "mqa" else heads),
            head_dim=stated.get("head_dim") or hidden // heads, window=window if isinstance(window, int) else None,
            qkv_bias=not gated, out_bias=not gated, fused_qkv=bool(stated.get("fused_qkv")),
        )  # fmt: skip
    parallel = bool(stated.get("parallel_block"))
    blocks: dict[str, Block] = {}
    runs: list[Run] = []
    experts = stated.get("moe")
    dense_layers = int(stated.get("dense_layers") or 0) if experts else layers
    if dense_layers:
        if not dense_width:
            return None
        mlp = Mlp(width=dense_width, gated=gated, bias=not gated)
        blocks["dense"] = Block(mixer=mixer, mlp=mlp, parallel=parallel, **style)
        runs.append(Run(block="dense", count=dense_layers))
    if experts:
        routed = _experts(experts, gated)
        if routed is None:
            return None
        blocks["moe"] = Block(mixer=mixer, mlp=routed, parallel=parallel, **style)
        runs.append(Run(block="moe", count=layers - dense_layers))
    learned = "learned" in str(stated.get("position"))
    architecture = Architecture(
        hidden=hidden, vocab=stated["vocab"], tied=bool(stated.get("tied_embeddings")),
        positions=int(row.run.get("seq_len") or 0) if learned else 0,
        stacks=(Stack(kind="decoder", blocks=blocks, layers=tuple(runs), **style),),
    )  # fmt: skip
    name = str(stated.get("name") or stated.get("id") or row.id)
    ident = "row-" + "".join(char if char.isalnum() else "-" for char in f"{name}-{_key(stated)}".lower())
    source = CardSource(title=f"dimensions of {name} as the run's row states them", checked="2026-11-21", kind="user")
    return ModelCard(id=ident, name=name, sources={"row": source}, architecture=architecture)


def _with_layers(stated: Mapping[str, Any]) -> Mapping[str, Any]:
    """The dimensions with the number of layers that gives the row's parameters, where a plain GPT's are all there but that."""
    size, hidden, vocab = (stated.get(key) for key in ("params_b", "hidden", "vocab"))
    plain = stated.get("gated_mlp") is False and stated.get("attention") == "mha" and not stated.get("moe")
    if stated.get("layers") or not (size and hidden and vocab and plain and stated.get("tied_embeddings")):
        return stated
    return {**stated, "layers": round((size * 1e9 - vocab * hidden) / (12 * hidden**2))}


def _with_heads(stated: Mapping[str, Any], tp: int) -> Mapping[str, Any]:
    """The dimensions with heads near 128 wide, where a plain GPT's are all there but their number, which hardly matters.

    Tensor parallel ranks have whole heads.
    """
    hidden = stated.get("hidden")
    if stated.get("heads") or not isinstance(hidden, int) or stated.get("attention") != "mha" or stated.get("head_dim"):
        return stated
    widths = [width for width in range(64, 257, 8) if hidden % width == 0 and hidden // width % tp == 0]
    return {**stated, "heads": hidden // min(widths, key=lambda width: abs(width - USUAL_HEAD))} if widths else stated


def _latent(mla: Mapping[str, Any], heads: int) -> Mla | None:
    keys = ("kv_lora", "qk_nope", "qk_rope", "v_head")
    if any(not isinstance(mla.get(key), int) for key in keys):
        return None
    return Mla(
        heads=heads, q_rank=mla.get("q_lora") or None, kv_rank=mla["kv_lora"], nope_dim=mla["qk_nope"], rope_dim=mla["qk_rope"],
        v_dim=mla["v_head"],
    )  # fmt: skip


def _experts(moe: Mapping[str, Any], gated: bool) -> Moe | None:
    if any(not isinstance(moe.get(key), int) for key in ("experts", "top_k", "expert_ffn")) or moe.get("every"):
        return None
    shared = int(moe.get("shared_experts") or 0)
    width = moe.get("shared_expert_ffn") or (moe["expert_ffn"] if shared else 0)
    return Moe(
        experts=moe["experts"], top_k=moe["top_k"], width=moe["expert_ffn"], gated=gated, shared_experts=shared, shared_width=width
    )  # fmt: skip


def _key(stated: Mapping[str, Any]) -> str:
    """What tells rows of one model name but other dimensions apart."""
    return "-".join(
        str(stated.get(key)) for key in ("layers", "hidden", "heads", "kv_heads", "ffn", "vocab", "gated_mlp") if stated.get(key)
    )
