"""Which model, in which type of weights, is in a repository whose files cannot be asked? Its name says so.

`Qwen/Qwen3-32B-AWQ`, `nvidia/DeepSeek-R1-FP4` and `unsloth/Llama-3.2-3B-Instruct-bnb-4bit` are called after the model that they
hold and after what was done to its weights; `repositories.yaml` has the settings that stand behind the words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from functools import cache, lru_cache
from pathlib import Path
from typing import Annotated

from gpuplan.errors import GpuplanError, did_you_mean
from gpuplan.models.architecture import Architecture, Moe
from gpuplan.models.card import CardSource, ModelCard, WeightsFormat
from gpuplan.models.kinds_of_names import Like, built_like, is_apart, last_resort, nearest, of_another_size, of_its_size, table
from gpuplan.models.letters import by_letters, pictures_alike
from gpuplan.models.spellings import respelled, spelled_like, squeezed, unserved
from gpuplan.schema import Limits, Schema, read
from gpuplan.strict_yaml import load_yaml

TABLE = Path(__file__).parent / "repositories.yaml"
_FILES = re.compile(r"[-_.](?:gguf|onnx|mlx)$", re.IGNORECASE)
"""What repositories of one kind of file end in."""
_SIZED = re.compile(r"\d[bm]$")
"""What names of models that others are made from end with: a size."""
_OWNER = re.compile(r"^(?:[a-z0-9.-]+_|huihui-)(?=.)", re.IGNORECASE)
_TUNED = re.compile(
    r"[-_](?:instruct|chat|it|base|pt|hf|thinking|reasoning|mpo|sft|dpo|pretrained|bf16|qat(?:-q4_0)?(?:-unquantized)?|abliterated(?:-v\d)?|1m|128k|rtx|2\d(?:0\d|1[0-2]))(?=$|[-_])",
    re.IGNORECASE,
)
"""Words of a name that say how or when a model was tuned, or that it is stored plain: not how it is built."""

_QUANTISED = re.compile(
    r"(?<![a-z])(?:gptq|awq|hqq|aqlm|quip|exl[23]|bnb|int[2-8]|fp[468]|nvfp4|mxfp[468]|[0-9.]+bpw|[2-8][-_]?bits?|w\d+[ag]\d+)(?![a-z])",
    re.IGNORECASE,
)
"""Words of a name that say that its weights are quantised."""


class Rule(Schema):
    """What the end of a name says."""

    ends: str
    """An expression for the end of the name; a group of digits in it are bits."""
    owners: tuple[str, ...] = ()
    """Whose repositories; none: everybody's."""
    mixture: bool | None = None
    """Only of mixtures of experts; None: of all models."""
    weights: WeightsFormat | None = None
    """How the weights are stored; None: in 16 bits."""
    engine: str | None = None
    """The engine that reads such files where a question names none."""
    source: str


class Rules(Schema):
    """The rules, the first that fits counts."""

    format: int
    sources: Annotated[dict[str, CardSource], Limits(1)]
    rules: tuple[Rule, ...]


@cache
def rules() -> tuple[tuple[re.Pattern[str], Rule, str], ...]:
    """The rules that are shipped, with the expression for a whole name and the title of the source of each.

    Raises:
        SpecError: the file is not valid.
    """
    data, lines = load_yaml(TABLE)
    made = read(Rules, data, lines, "model", value_code="model.bad-value")
    return tuple((re.compile(rf"(.+?)(?:{one.ends})$", re.IGNORECASE), one, made.sources[one.source].title) for one in made.rules)


def card_by_name(repository: str, why: str, extra_dirs: Sequence[Path] = ()) -> ModelCard | None:
    """The card of the model after which a quantised repository is called, in the type that its name says; None: neither is known.

    `why` says in the card's note why the files were not looked at.
    """
    owner, _, name = repository.rpartition("/")
    if is_apart(repository):
        return None
    for pattern, rule, title in rules():
        found = pattern.match(name)
        if found is None or (rule.owners and owner.lower() not in rule.owners):
            continue
        stem = f"{owner}/{found[1]}" if owner else found[1]
        card = card_called(stem, extra_dirs)
        if card is None and (inner := _told_by_rule(stem, why, extra_dirs)) is not None:
            if rule.weights is None and rule.engine is None:
                return inner  # A word of tuning behind what says how the weights are stored.
            card = _of_names(inner.id, extra_dirs) if inner.stored is None and _is_plain(inner, extra_dirs) else None
        if card is None or rule.mixture not in (None, _is_mixture(card.architecture)):
            continue
        return _stored(card, rule, _bits_said(found), f"{why}: ", title, owner)
    first = _named if _has_its_name(repository, extra_dirs) else _listed  # An entry of the table knows more than words of tuning.
    plain = first(repository, why, extra_dirs) or _tuned(owner, name, why, extra_dirs) or _named(repository, why, extra_dirs)
    if plain is None or of_another_size(repository, plain.id):
        return None
    unread = _QUANTISED.search(name)
    if unread is None or plain.weights is not None:
        return plain
    said = f"`{unread[0]}` in its name was not read: these are weights in 16 bits; say with `--weights` how they are stored"
    return plain.replaced(notes=(*plain.notes, said))


def _bits_said(found: re.Match[str]) -> float | None:
    """How many bits a weight has by the end of a name; None: it does not say."""
    if "bpw" in found.re.groupindex:
        return float(found["bpw"])
    return next((int(one) for one in found.groups()[1:] if one), None)


def _has_its_name(repository: str, extra_dirs: Sequence[Path], *, itself: bool = False) -> bool:
    """Whether a card of another owner, or of none, is called just so; `itself`: or of its own."""
    from gpuplan.models.catalog import names

    tails = {one.rpartition("/")[2].lower() for one in _of_owners(repository)}
    return any(one.rpartition("/")[2] in tails and (itself or one != repository.lower()) for one in names(extra_dirs))


def _listed(repository: str, why: str, extra_dirs: Sequence[Path]) -> ModelCard | None:
    """The card that the table says a repository is built as; None: the table does not have it."""
    like = built_like(repository)
    return None if like is None else like_card(like, why, extra_dirs)


def _told_by_rule(repository: str, why: str, extra_dirs: Sequence[Path]) -> ModelCard | None:
    """The card where one more rule fits the end of what is left of a name; None: none does."""
    name = repository.rpartition("/")[2]
    if not any(pattern.match(name) for pattern, _, _ in rules()):
        return None
    found = card_by_name(repository, why, extra_dirs)
    return None if found is None or (_QUANTISED.search(name) and found.weights is None) else found


def _is_plain(card: ModelCard, extra_dirs: Sequence[Path]) -> bool:
    """Whether a rule left the weights as the card of the model has them, or in 16 bits."""
    from gpuplan.models.catalog import find

    return card.weights is None or card.weights == find(card.id, extra_dirs, cards_only=True).weights


def _tuned(owner: str, name: str, why: str, extra_dirs: Sequence[Path]) -> ModelCard | None:
    """The card of another model of the same owner whose name differs in words of tuning alone."""
    from gpuplan.models.catalog import find, names

    whole = f"{owner}/{name}".lower()
    wanted = _untuned(whole)
    alike = [one for one in names(extra_dirs) if one.startswith(f"{owner}/".lower()) and _untuned(one) == wanted]
    if not owner or not alike:
        return None
    near = _nearest_of(whole, alike)
    card = find(near, extra_dirs, cards_only=True)
    return card.replaced(notes=(*card.notes, f"{why}: taken to be built as {near}, whose name differs in how it was tuned"))


def _nearest_of(name: str, alike: Sequence[str]) -> str:
    """Of names that differ in words of tuning, the one with the most words of a name: its date may say which of two sizes it is.

    >>> _nearest_of("mistral-small-instruct-2409", ["mistral-small-24b-instruct-2501", "mistral-small-2409"])
    'mistral-small-2409'
    """
    words = set(re.split(r"[-_]", name))
    return max(alike, key=lambda one: sum(2 if word[:1].isdigit() else 1 for word in words & set(re.split(r"[-_]", one))))


def _named(repository: str, why: str, extra_dirs: Sequence[Path]) -> ModelCard | None:
    """The card of a model that stands under another owner's name or under none, or that is built as another."""
    from gpuplan.models.catalog import find, names

    owner, _, name = repository.rpartition("/")
    card = None if owner or not name else _of_names(repository, extra_dirs)
    if owner and re.search(r"[a-z]", name, re.IGNORECASE):  # Of `vit-g/14` the number alone is no name.
        same = next((one for one in names(extra_dirs) if one.rpartition("/")[2] == name.lower()), None)
        card = None if same is None else find(same, extra_dirs, cards_only=True)
    if card is not None:
        return card.replaced(notes=(*card.notes, f"{why}: taken for {card.id}, by its name"))
    like = built_like(repository) or built_like(respelled(repository))
    if like is not None:
        return like_card(like, why, extra_dirs)
    if nearest(repository):
        return None
    whole = [one for entry in table().like for one in entry.names if "*" not in one]
    alias = spelled_like(repository, [*names(extra_dirs), *whole])
    if alias is None:
        return None
    other = built_like(alias) if alias in whole else None
    card = find(alias if other is None else other.card, extra_dirs, cards_only=True)
    said = f"{why}: taken for {card.id}, as `{alias}`, which is that name in another spelling"
    return card.replaced(notes=(*card.notes, said))


def like_card(like: Like, why: str, extra_dirs: Sequence[Path] = ()) -> ModelCard:
    """The card of what a name is built as, with a note that says so."""
    from gpuplan.models.catalog import find

    card = find(like.card, extra_dirs, cards_only=True)
    note = f"{why}: taken to be built as {card.id}: {like.why} ({table().sources[like.source].title})"
    if like.reads and card.architecture.generates:
        card = card.replaced(architecture=card.architecture.replaced(head=False))
        note += "; it only reads, without a head"
    return card.replaced(notes=(*card.notes, note))


def _published(card: ModelCard, short: str, owner: str) -> WeightsFormat | None:
    """The checkpoint of a type that is on record, unless the repository's owner is another: each quantises by its own rules."""
    found = card.quantised.get(short)
    if found is None or not owner:
        return found
    makers = {alias.partition("/")[0].lower() for alias in card.aliases if "/" in alias}
    return found if owner.lower() in ({found.by} if found.by else makers) else None


def _stored(card: ModelCard, rule: Rule, bits: float | None, why: str, title: str, owner: str) -> ModelCard:
    """The card in the type that a rule tells, as the owner of the repository stores it where that is known."""
    weights = rule.weights
    if weights is not None:
        short = "fp8" if weights.bits == 8 and weights.number == "float" else weights.method
        weights = _published(card, short, owner) or weights.replaced(bits=(bits and round(bits)) or weights.bits, source=title)
        if isinstance(bits, float):
            weights = weights.replaced(millibits=round(bits * 1000))
    said = f"{why}taken for {card.id} in {'16 bits' if weights is None else _said(weights)}, by its name"
    return card.replaced(weights=weights, stored=None, quantised={}, engine=rule.engine or card.engine, notes=(*card.notes, said))


def _said(of: WeightsFormat) -> str:
    """A type of weights in words: `awq, 4 bits`."""
    bits = of.bits if of.millibits is None else of.millibits / 1000
    return of.method if bits is None else f"{of.method}, {bits:g} bits"


def _is_mixture(arch: Architecture) -> bool:
    return any(isinstance(block.mlp, Moe) for stack in arch.stacks for block in stack.blocks.values())


def card_called(repository: str, extra_dirs: Sequence[Path] = ()) -> ModelCard | None:
    """The card of the model after which a repository is called, or as which that is built; None: no card is so called."""
    # What the table says of a name goes before a card whose name differs in its date; a card that is just so called goes first.
    named = _has_its_name(repository, extra_dirs, itself=True)
    like = None if named else next(filter(None, map(built_like, _of_owners(repository))), None)
    found = _of_names(repository, extra_dirs) if like is None else None
    if found is not None:
        return None if of_another_size(repository, found.id) else found
    if like is None:
        return _spelled(repository, extra_dirs)
    return like_card(like, f"`{repository}` is no card", extra_dirs)


def _spelled(repository: str, extra_dirs: Sequence[Path]) -> ModelCard | None:
    """The card whose name is that of a repository in another spelling (`Qwen-2.5_1.5B_Instruct`); None: there is none."""
    from gpuplan.models.catalog import find, names

    if nearest(repository):
        return None
    known = names(extra_dirs)
    spelled = (spelled_like(one.rpartition("/")[2].replace("_", "-"), known) for one in _of_owners(repository))
    alias = next(filter(None, spelled), None)
    return None if alias is None else find(alias, extra_dirs, cards_only=True)


def _of_owners(repository: str) -> tuple[str, ...]:
    """A repository's name, and the same without the owner of the model, whom some who quantise put before its name.

    >>> _of_owners("bartowski/mistralai_Magistral-Small-2509")
    ('bartowski/mistralai_Magistral-Small-2509', 'Magistral-Small-2509')
    """
    return tuple(dict.fromkeys((repository, _OWNER.sub("", repository.rpartition("/")[2]) if "/" in repository else repository)))


def _of_names(repository: str, extra_dirs: Sequence[Path]) -> ModelCard | None:
    """The card that is called as a repository is, but for its owner and for words of tuning."""
    from gpuplan.models.catalog import find, names

    known = names(extra_dirs)
    for name in names_in(repository):
        wanted = name.lower()
        alias = wanted if wanted in known else next((one for one in known if one.partition("/")[2] == wanted), None)
        if alias is not None:
            try:
                return find(alias, extra_dirs, cards_only=True)
            except GpuplanError:
                continue
    return _alike(repository, known, extra_dirs)


def _alike(repository: str, known: Sequence[str], extra_dirs: Sequence[Path]) -> ModelCard | None:
    """The card with an alias that differs from a name in its owner and in words of tuning alone."""
    from gpuplan.models.catalog import find

    tail = repository.rpartition("/")[2].lower()
    wanted = _untuned(tail)
    alike = {one.rpartition("/")[2]: one for one in reversed(known) if wanted == _untuned(one.rpartition("/")[2])}
    return find(alike[_nearest_of(tail, sorted(alike))], extra_dirs, cards_only=True) if alike else None


def names_in(repository: str) -> Iterator[str]:
    """What the model in a repository may be called, the likeliest first.

    >>> list(names_in("bartowski/google_gemma-3-27b-it"))
    ['bartowski/google_gemma-3-27b-it', 'google_gemma-3-27b-it', 'gemma-3-27b-it', 'google_gemma-3-27b', 'gemma-3-27b']
    """
    whole = repository.rpartition("/")[2]
    bare = _OWNER.sub("", whole)
    yield from dict.fromkeys((repository, whole, bare, _untuned(whole), _untuned(bare)))


@lru_cache(16384)
def _untuned(name: str) -> str:
    """A name without words of tuning."""
    return _TUNED.sub("", name)


def made_from(name: str, known: Sequence[str]) -> str:
    """A hint where a name tells which model it was made from, or else which names are near; empty where none is.

    >>> made_from("teknium/OpenHermes-2.5-Mistral-7B", ["mistral-7b", "llama-2-7b"])
    'its name says that it was made from `mistral-7b`: ask for that if it is built alike'
    """
    if hint := next(filter(None, map(nearest, dict.fromkeys((name, respelled(name), _FILES.sub("", name))))), ""):
        return hint
    if hint := next(filter(None, map(nearest, name.split("/")[1:-1])), "") or pictures_alike(name):
        return hint  # `openai/gpt-image-2/edit`: what is done with a model stands behind it.
    if (without := unserved(name)) and (served := card_called(without)):
        return f"the nearest on record is `{served.id}`: the rest of the name says how a provider serves it, which is not looked at"
    tail = name.rpartition("/")[2].lower()
    inside = [
        one for one in known
        if one in tail and _SIZED.search(one) and re.search(rf"(?<![a-z0-9]){re.escape(one)}(?![a-z0-9.])", tail)
    ]  # fmt: skip
    if inside and max(inside, key=len) != tail:
        return f"its name says that it was made from `{max(inside, key=len)}`: ask for that if it is built alike"
    if family := of_its_family(name, known):
        return family
    near = get_close_matches(name.lower(), known, 1, 0.9)
    if near and re.sub(r"\d", "", near[0]) == re.sub(r"\d", "", name.lower()):
        return f"the nearest on record is `{near[0]}`: the version or the size in the name is not on record"
    if near:
        return did_you_mean(name, known)
    return (
        of_its_size(name)
        or by_letters(name, known)
        or next(filter(None, map(nearest, name.split("/")[:-1])), "")
        or last_resort(name)
    )


_SIZE_IN = re.compile(r"[-_:](e?\d+(?:\.\d+)?[bm]|\d+x\d+(?:\.\d+)?b|\d+(?:\.\d+)?b-a\d+(?:\.\d+)?b)(?=$|[-_:])")
"""The size in a name."""
_MOST_SIZES = 8


def of_its_family(name: str, known: Sequence[str]) -> str:
    """A hint with the sizes of a model that a name says without one, by names that are known; empty where there are none.

    >>> of_its_family("Qwen2.5-Coder-Instruct", ["qwen2.5-coder-7b", "qwen/qwen2.5-coder-32b-instruct", "qwen2.5-72b"])
    'the name says no size: name one: `qwen2.5-coder-7b` or `qwen/qwen2.5-coder-32b-instruct`'
    """
    wanted = _plain(name.rpartition("/")[2])
    sizes: dict[float, str] = {}
    every = frozenset(known)
    for one in known if len(wanted) > 1 and _SIZE_IN.search(name.lower()) is None else ():
        tail = one.rpartition("/")[2]
        said = _SIZE_IN.search(tail)
        if said is not None and _plain(tail[: said.start()]) == wanted and (size := re.search(r"(\d+(?:\.\d+)?)([bm])", said[1])):
            short = next(each for each in (tail[: said.end()], tail, one) if each in every)
            of = float(size[1]) * (1e-3 if size[2] == "m" else 1.0)
            sizes[of] = min(short, sizes.get(of, short), key=len)
    some = [f"`{sizes[one]}`" for one in sorted(sizes)][:_MOST_SIZES]
    if not some:
        return ""
    told = " or ".join([", ".join(some[:-1]), some[-1]] if len(some) > 1 else some)
    return f"the name says no size: name one: {told}"


@lru_cache(8192)
def _plain(name: str) -> str:
    """A name without words of tuning and separators."""
    return squeezed(_untuned(name.lower()))
