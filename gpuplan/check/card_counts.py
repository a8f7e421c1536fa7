"""Has a model as many parameters as its makers, another implementation, and its own name say?"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuplan.check.checked_files import Finding, LoadedCard
from gpuplan.models.card import ModelCard, Published

_SIZE = re.compile(r"(?:^|[-_])(?:(\d+)x)?(\d+(?:\.\d+)?)([bmt])(?=[-_]|$)", re.IGNORECASE)
"""`8b`, `8x7b`, `135m` as a part of a name between hyphens."""
_ACTIVE = re.compile(r"(?:^|[-_])a(\d+(?:\.\d+)?)([bm])(?=[-_]|$)", re.IGNORECASE)
"""`a3b`, `a400m`."""
_EXPERTS = re.compile(r"(?:^|[-_])(\d+)e(?=[-_]|$)", re.IGNORECASE)
"""`16e`, after a size that is the active one."""
_TIMES = {"m": 1e6, "b": 1e9, "t": 1e12}
_NAMED = (0.86, 1.35)
"""What a model may have, over the size in its name: names leave out embeddings, and round (cards: 0.88 to 1.34)."""
_NAMED_ONE = (0.86, 1.7)
"""The same of a name that says 1B, which the largest share is cut off for (Falcon3 1B has 1.67)."""
_MIXED = (0.75, 1.05)
"""The same where the name says experts x size: they share what is not an expert."""
_NAMED_ACTIVE = (0.85, 1.45)
_SAME = 1e-6
_ROUNDED = 0.03
_ACTIVE_ROUNDED = 0.1


def counts(one: LoadedCard, card: ModelCard) -> Iterator[Finding]:
    """The counted parameters against every number on record."""
    made = card.count()
    total, active = float(made.params_total.value), float(made.params_active.value)
    found = list(_against(one, card, "recount", card.recount, total, active))
    found += _against(one, card, "published", card.published, total, active)
    yield from found
    if not found:
        yield from _name(one, card, total, active)
        yield from _names_of_sizes(one, card)
        yield from _shares(one, card, total)


def _against(
    one: LoadedCard, card: ModelCard, key: str, stated: Published | None, total: float, active: float
) -> Iterator[Finding]:
    """A count that someone else made; that of stored tensors may hold parts beside the model."""
    if stated is None:
        return
    exact = stated.exactness == "exact" and not stated.note
    extra = sum(card.checkpoint_extra.values())
    if stated.params_total is not None:
        near = min(abs((total + more) / stated.params_total - 1) for more in ((0, extra) if key == "published" else (0,)))
        if near > (_SAME if exact else _ROUNDED):
            counted = f"{total:,.0f}" + (f" (with `checkpoint_extra` {total + extra:,.0f})" if extra and key == "published" else "")
            message = f"the card counts {counted} parameters, and {stated.params_total:,} are {_said(key)}"
            hint = "is a width, a number of layers, heads or experts, or the size wrong? A `note` beside the size explains it"
            yield one.bad("model.params-recount", _at(one, key, "params_total", card), message, hint)
    if stated.params_active is not None and abs(active / stated.params_active - 1) > (_SAME if exact else _ACTIVE_ROUNDED):
        message = f"a token passes {active:,.0f} parameters, and {stated.params_active:,} are {_said(key)}"
        hint = "is `top_k`, the number of experts, or that of shared ones wrong?"
        yield one.bad("model.params-active", (key, "params_active"), message, hint)


def _said(key: str) -> str:
    return "published" if key == "published" else "what another implementation counts"


def _at(one: LoadedCard, key: str, name: str, card: ModelCard) -> tuple[str, ...]:
    """The architecture where both counts of others agree against it, otherwise the count."""
    stated = [each.params_total for each in (card.recount, card.published) if each is not None and each.params_total]
    extra = sum(card.checkpoint_extra.values())
    agreed = len(stated) == 2 and any(abs((stated[0] + more) / stated[1] - 1) <= _ROUNDED for more in (0, extra))
    return ("architecture",) if agreed and key == "recount" else (key, name)


def _name(one: LoadedCard, card: ModelCard, total: float, active: float) -> Iterator[Finding]:
    """The size, and the active one, that the id says."""
    said = _ACTIVE.search(card.id)
    if said is not None:
        right = float(said[1]) * _TIMES[said[2].lower()]
        if not _NAMED_ACTIVE[0] <= active / right <= _NAMED_ACTIVE[1]:
            message = f"a token passes {active / 1e9:.3g}B parameters, where the name says {said[1]}{said[2].upper()}"
            yield one.bad("model.size-in-name", ("architecture",), message, "is `top_k` or a width of the experts wrong?")
    size = _sizes(card.id)
    if not size:
        return
    right, bounds = size
    if said is not None and right == float(said[1]) * _TIMES[said[2].lower()]:
        return  # Qwen1.5-MoE-A2.7B says no other size
    text = sum(value for key, value in card.architecture.extra_params.items() if key != "embedding")
    values = [total, total - text]
    if card.architecture.moes and _EXPERTS.search(card.id):
        values = [active]  # Llama 4 Scout 17B-16E: the size is that of a token
    if all(not bounds[0] <= value / right <= bounds[1] for value in values):
        message = f"the card counts {values[0] / 1e9:.3g}B parameters, where the name `{card.id}` says {right / 1e9:.4g}B"
        yield one.bad("model.size-in-name", ("architecture",), message, "is a width, a number of layers or experts wrong?")
    experts = _EXPERTS.search(card.id)
    if experts is not None and all(moe.experts != int(experts[1]) for moe in card.architecture.moes):
        message = f"no layer has the {experts[1]} experts of the name `{card.id}`"
        yield one.bad("model.size-in-name", ("architecture",), message, "correct the number of experts")


def _sizes(name: str) -> tuple[float, tuple[float, float]] | None:
    """The size that a name says, and what a count may be over it."""
    found = _SIZE.search(re.sub(r"(?<=\d)_(?=\d)", ".", name))
    if found is None:
        return None
    size = float(found[2]) * _TIMES[found[3].lower()]
    if found[1]:
        return size * int(found[1]), _MIXED
    return size, _NAMED_ONE if size == 1e9 else _NAMED


def _names_of_sizes(one: LoadedCard, card: ModelCard) -> Iterator[Finding]:
    """Aliases that say another size than the id."""
    own = _sizes(card.id)
    for alias in card.aliases:
        other = _sizes(alias.rpartition("/")[2])
        if own is None or other is None or _ACTIVE.search(alias):
            continue
        if not 0.75 <= other[0] / own[0] <= 1.35:
            message = f"the alias `{alias}` says another size than `{card.id}`"
            yield one.bad("model.size-in-name", ("aliases",), message, "is it the name of a sibling?")


def _is_tower(card: ModelCard, value: int) -> bool:
    """Whether an encoder of images beside an encoder of text (CLIP) has as many parameters as its own layers say, or some more."""
    seen = card.architecture.vision
    if seen is None or seen.layers is None or card.architecture.head:
        return False
    layers = seen.layers * (4 * seen.width**2 + (3 if seen.gated else 2) * seen.width * seen.inner)
    return layers <= value <= 1.1 * layers


def _shares(one: LoadedCard, card: ModelCard, total: float) -> Iterator[Finding]:
    """Parts that no field breaks down are small, and what is stored beside the model too."""
    for key, at in (("extra_params", ("architecture", "extra_params")), ("checkpoint_extra", ("checkpoint_extra",))):
        parts = card.architecture.extra_params if key == "extra_params" else card.checkpoint_extra
        for name, value in parts.items():
            sees = name == "vision_tower" and (value < total * 0.6 or _is_tower(card, value))  # those that read pages see with most
            if value > total / 2 and not sees:
                message = f"`{name}` of {value:,} is more than half of the {total:,.0f} parameters"
                yield one.bad("model.params-recount", (*at, name), message, "is a digit too many in it?")
