"""Which model does a name mean: a card by its id or an alias, a user's card, or a `config.json`?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gpuplan.errors import Problem, SpecError, UnknownError, UsageError
from gpuplan.files.home import from_home
from gpuplan.files.read import exists, is_file
from gpuplan.models.card import ModelCard, load_card
from gpuplan.models.diffusion.glance import diffusion_path, is_diffusion
from gpuplan.models.glance import called_in, card_aliases, cards_in, is_generic, names_in
from gpuplan.models.spellings import unrouted

if TYPE_CHECKING:
    from gpuplan.models.hub import HubName

CARDS = Path(__file__).parent / "cards"
"""The cards that come with gpuplan."""


def find(name: str, extra_dirs: Sequence[Path] = (), *, cards_only: bool = False) -> ModelCard:
    """The card of a model: by id, by alias (in any case), from a file or folder, by its name in Ollama's library, or by its size.

    Cards in `extra_dirs` win over the shipped ones, the first folder over the next. `cards_only`: no files and no other names.

    Raises:
        UnknownError: no such model (with what is near), or a config.json whose architecture is not known.
        UsageError: a path that cannot be read or holds no model.
        SpecError: the card that was found is not a valid card, or two cards share the alias.
    """
    if not cards_only and (":" in name) and not exists(Path(name)):
        from gpuplan.models.file_of_repository import without_file

        name = without_file(name)
    if not _looks_like_path(name):
        folders = [*extra_dirs, CARDS]
        path = _by_id(name, folders) or _by_alias(name, folders)
        if path is not None and (path.parent == CARDS or not is_diffusion(path)):
            return load_card(path)
    if not cards_only and diffusion_path(name, extra_dirs) is not None:
        what = f"`{name}` makes pictures or clips: only `gpuplan serve` and `gpuplan fit` answer for it"
        raise UsageError(Problem("model.diffusion", what, f"gpuplan serve {name} --on …"))
    if not cards_only and (_looks_like_path(name) or exists(Path(name))):
        path = Path(name)
        if path.suffix in (".yaml", ".yml"):
            return load_card(path)
        from gpuplan.models.checkpoint.folder import import_path

        if path.suffix.lower() == ".gguf" and not exists(from_home(path)):
            from gpuplan.models.gguf_repositories import card_of_file

            alike = card_of_file(path, extra_dirs)
            if alike is not None:
                return alike
        if path.suffix and not exists(from_home(path)):
            from gpuplan.models.missing_files import ENDS, refuse_missing

            if path.suffix.lower() in ENDS:
                refuse_missing(path)
        return import_path(from_home(path))
    if not cards_only and (found := _elsewhere(name, extra_dirs)) is not None:
        return found
    from gpuplan.models.by_size import card_by_size
    from gpuplan.models.generic import generic_names, generic_path

    sized = None if cards_only else card_by_size(name)
    if sized is not None:
        return sized
    if generic_path(name, extra_dirs) is not None:
        what = f"`{name}` is given by its samples: only `gpuplan train` answers for it"
        raise UsageError(Problem("model.generic", what, f"gpuplan train {name} --on …"))
    from gpuplan.models.gguf_repositories import card_of_typed_name
    from gpuplan.models.repositories import card_by_name, made_from

    stored = (
        None
        if cards_only
        else card_of_typed_name(name, extra_dirs) or card_by_name(unrouted(name), f"`{name}` is no card", extra_dirs)
    )
    stored = stored or (None if cards_only else _with_its_count(name, extra_dirs))
    if stored is not None:
        return stored
    hint = made_from(name, [*names(extra_dirs), *generic_names()]) or "run `gpuplan models list`"
    hint += "; any other model: give its config.json, GGUF file or folder, or its size alone, such as `13b` or `30b-a3b`"
    raise UnknownError(Problem("model.unknown", f"no model named `{name}` is known", hint))


def _with_its_count(name: str, extra_dirs: Sequence[Path]) -> ModelCard | None:
    """The card of a name behind which stands what it counts, `T5 Large 770M`; None: it does not count so many."""
    from gpuplan.models.ollama import of_that_size

    stem, _, size = "-".join(name.split()).rpartition("-")
    said = re.fullmatch(r"\d+(?:\.\d+)?[bm]", size.lower()) if stem and "/" not in name else None
    card = of_that_size(stem.lower(), size.lower(), extra_dirs) if said is not None else None
    if card is None:
        return None
    return card.replaced(notes=(*card.notes, f"`{name}` is no card: taken for {card.id}, which counts so many"))


def imported(name: str) -> ModelCard:
    """The model of a file, a folder, or an id of the hub or of Ollama, whatever cards there are.

    Raises:
        UsageError: there is nothing there, or it holds no model.
        UnknownError: the architecture or the name is not known.
    """
    from gpuplan.models.checkpoint.folder import import_path

    if _looks_like_path(name) or exists(Path(name)):
        return import_path(from_home(name))
    found = _elsewhere(name, ())
    return found if found is not None else import_path(Path(name))


def _elsewhere(name: str, extra_dirs: Sequence[Path]) -> ModelCard | None:
    """The model of a name that no card has, by Ollama's library or the Hugging Face hub; None: it is no name of theirs."""
    from gpuplan.models import hub, ollama

    bare = unrouted(name)
    if bare != name and (" " not in name or bare != "-".join(name.split())):
        return _routed(name, bare, extra_dirs)
    if ollama.is_ollama(name):
        return ollama.import_ollama(name, extra_dirs)
    made = hub.hub_name(name)
    if made is None:
        return None
    try:
        return hub.import_hub(made, names(extra_dirs))
    except UnknownError as error:
        path = _by_alias(made.repo, [*extra_dirs, CARDS]) if made.asked else None
        if path is None:
            alike = _by_words(made, extra_dirs) if error.problems[0].code in hub.AWAY else None
            if alike is None:
                raise
            return alike
        card = load_card(path)
        return card.replaced(notes=(*card.notes, f"{error.problems[0].message}: the card of that name is taken"))


def _routed(name: str, bare: str, extra_dirs: Sequence[Path]) -> ModelCard:
    """The model of a name that a router or a cloud puts words around."""
    owner, _, tail = bare.rpartition("/")
    for one in dict.fromkeys((tail, f"{owner}-{tail}")):
        try:
            card = find(one, extra_dirs, cards_only=True)
            break
        except UnknownError:
            continue
    else:
        card = find(bare, extra_dirs)
    said = f"`{name}` is taken for `{bare}`: the rest says where or how it is served, which is not looked at"
    return card.replaced(notes=(*card.notes, said))


def _by_words(name: HubName, extra_dirs: Sequence[Path]) -> ModelCard | None:
    """The model that a repository is called after, where the hub cannot be asked for its files."""
    from gpuplan.models.gguf_repositories import card_of_repository, is_gguf_repository
    from gpuplan.models.hub import away
    from gpuplan.models.repositories import card_by_name

    if is_gguf_repository(name):
        return card_of_repository(name, away(name), extra_dirs)
    return card_by_name(name.repo, away(name), extra_dirs)


def names(extra_dirs: Sequence[Path] = ()) -> list[str]:
    """Every id and alias, in lower case, without parsing a card."""
    if not extra_dirs:
        return [*names_in(CARDS)]
    return sorted({name for path in paths(extra_dirs) for name in (path.stem, *card_aliases(path))})


def paths(extra_dirs: Sequence[Path] = ()) -> Iterator[Path]:
    """The file of every card, a user's before the shipped one of the same id, which is left out."""
    seen: set[str] = set()
    for folder in [*extra_dirs, CARDS]:
        for path in cards_in(folder):
            if path.stem not in seen:
                seen.add(path.stem)
                yield path


def cards(extra_dirs: Sequence[Path] = ()) -> Iterator[ModelCard]:
    """Every card, in the order of their ids by folder.

    Raises:
        SpecError: a card is not valid.
    """
    for path in paths(extra_dirs):
        if path.parent == CARDS or not (is_generic(path) or is_diffusion(path)):
            yield load_card(path)


def _looks_like_path(name: str) -> bool:
    return (
        name.lower().endswith((".json", ".yaml", ".yml", ".gguf", ".safetensors", "/", "\\"))
        or name.startswith((".", "/", "~/"))
        or "\\" in name
        or (name.startswith("~") and from_home(name) != Path(name))  # `~user/model`, unlike OpenRouter's `~maker/model`
    )


def _by_id(name: str, folders: Iterable[Path]) -> Path | None:
    wanted = name.lower()
    if "/" in wanted or not wanted:
        return None
    return next((path for folder in folders if is_file(path := folder / f"{wanted}.yaml")), None)


def _by_alias(name: str, folders: Iterable[Path]) -> Path | None:
    wanted = name.lower()
    for folder in folders:
        found = [*called_in(folder, wanted)]
        if len(found) > 1:
            both = " and ".join(f"`{path.stem}`" for path in found)
            raise SpecError(Problem("model.alias-twice", f"`{name}` is an alias of {both}", "take it out of one", str(found[0])))
        if found:
            return found[0]
    return None
