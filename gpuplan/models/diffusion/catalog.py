"""Which diffusion models are there, and what do their cards say?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from gpuplan.errors import Problem, SpecError
from gpuplan.files.read import is_folder
from gpuplan.models.diffusion.card import DiffusionCard, parse_diffusion
from gpuplan.models.diffusion.glance import DIFFUSION, is_diffusion
from gpuplan.models.glance import card_aliases, cards_in
from gpuplan.strict_yaml import load_yaml


def diffusion_names() -> list[str]:
    """The ids of the shipped cards."""
    return [path.stem for path in cards_in(DIFFUSION)]


def diffusion_aliases() -> list[str]:
    """The other names of the shipped cards, as they are written there."""
    return [name for path in cards_in(DIFFUSION) for name in card_aliases(path)]


def diffusion_cards(extra_dirs: Sequence[Path] = ()) -> Iterator[DiffusionCard]:
    """Every card, the user's and the shipped ones, in the order of their ids by folder.

    Raises:
        SpecError: a card is not valid.
    """
    for folder in (*extra_dirs, DIFFUSION):
        for path in cards_in(folder):
            if folder is DIFFUSION or is_diffusion(path):
                yield load_diffusion(path)


def load_diffusion(path: Path) -> DiffusionCard:
    """The card that a YAML file or a folder of diffusers holds.

    Raises:
        SpecError: everything that is wrong with the file, each problem with file:line, a code and a hint.
        UsageError: a file of the folder that cannot be read or is damaged.
        UnknownError: a component of a class that gpuplan does not know.
    """
    if is_folder(path):
        from gpuplan.models.diffusion.folder import import_diffusers

        return import_diffusers(path)
    data, lines = load_yaml(path)
    card = parse_diffusion(data, lines)
    if card.id != path.stem:
        hint = f"rename the file to `{card.id}.yaml`, or write `id: {path.stem}`"
        raise SpecError(Problem("model.id-not-file-name", f"the id `{card.id}` is not the file's name", hint, lines.where(("id",))))
    return card
