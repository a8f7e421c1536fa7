"""Does a name mean a diffusion model, and which file or folder says what it is, without reading it?"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from gpuplan.files.home import from_home
from gpuplan.files.read import is_file, is_folder
from gpuplan.models.glance import called_in, card_aliases, card_text, cards_in

DIFFUSION = Path(__file__).parents[1] / "diffusion_cards"
"""The cards that come with gpuplan."""
INDEX = "model_index.json"
_DATE = re.compile(r"[-_](2\d(?:0\d|1[0-2]))(?=$|[-_])")
_TELLING = 8
"""Letters of a name without a number that tell it from others."""


def is_diffusion(path: Path) -> bool:
    """Whether a card is one of a diffusion model, by a look at its text."""
    return "kind: diffusion" in card_text(path)


def diffusion_path(name: str, extra_dirs: Sequence[Path] = ()) -> Path | None:
    """The file of such a card by its id or an alias, a user's before the shipped one, or a folder with an index; None: neither."""
    wanted = "-".join(name.lower().split())
    if not wanted:
        return None
    given = from_home(name)
    if given.name == INDEX and is_file(given):
        return given.parent
    if is_folder(given) and is_file(given / INDEX):
        return given
    if given.suffix in (".yaml", ".yml") and is_file(given) and is_diffusion(given):
        return given
    if "/" not in wanted and "\\" not in wanted:
        for folder in (*extra_dirs, DIFFUSION):
            path = folder / f"{wanted}.yaml"
            if is_file(path) and (folder is DIFFUSION or is_diffusion(path)):
                return path
    for folder in (*extra_dirs, DIFFUSION):
        for path in called_in(folder, wanted, "diffusion"):
            return path
    return _by_spelling(wanted)


def _by_spelling(wanted: str) -> Path | None:
    """The shipped card whose name differs in its owner and its spelling alone: `AI-ModelScope/FLUX.1-dev`, `flux_1-schnell`."""
    from gpuplan.models.spellings import squeezed

    spelled = squeezed(wanted)
    if _DATE.search(wanted) or (len(spelled) < _TELLING and not re.search(r"\d", spelled)):
        return None  # A release of another month may have other layers.
    words = sorted(re.split(r"[-_/\s]", wanted))
    for path in cards_in(DIFFUSION):
        if any(squeezed(one) == spelled or sorted(one.lower().split("-")) == words for one in (path.stem, *card_aliases(path))):
            return path
    return None
