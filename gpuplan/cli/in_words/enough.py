"""How many of each machine hold a model, where a question in words compares them and says no number of any?"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress

from gpuplan.errors import GpuplanError
from gpuplan.plan.ask_serving import FitAsk
from gpuplan.search.ask import fit
from gpuplan.search.library import Library
from gpuplan.search.serving_engine import of_one_user

COUNTS = (1, 2, 4, 8, 16, 32)
"""What is tried, the fewest first."""
OF_ONE_USER = "q4_k_m"
"""How one user stores a model that a card of one's own does not hold as published: what Ollama and llama.cpp's users mostly take."""
_COUNTED = re.compile(r"\d+\s*x|.*[:@]")
"""A number of them, an instance of a cloud, or a network: what there is of it is said."""


def enough(model: str, places: Sequence[str], options: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    """The places with the fewest of each that hold the model, and options that were added for that.

    They stay as they are where one of them is counted, or none of the counts do. A comparison of single cards says nothing of a
    model that none of them holds; on cards that people have at home it is one in 4 bits, if each of them holds that.
    """
    if any(_COUNTED.match(place) for place in places):
        return list(places), {}
    given = {name: options[name] for name in ("weights", "kv_cache", "context") if "," not in options.get(name, ",")}
    counted = [_fewest(model, place, given) or place for place in places]
    if counted == list(places) or "weights" in given:
        return counted, {}
    small = {"weights": OF_ONE_USER}
    if all(_at_home(model, place) and _fewest(model, place, given | small) == place for place in places):
        return list(places), small
    return counted, {}


def _at_home(model: str, place: str) -> bool:
    try:
        ask = FitAsk(model=model, on=place)
        return of_one_user(ask, Library.of(ask).target(place)) is not None
    except GpuplanError:
        return False


def _fewest(model: str, place: str, given: Mapping[str, str]) -> str:
    """So many of a machine as hold the model; empty where no count does, or it cannot be asked."""
    from gpuplan.plan.read import question

    try:
        ask = question(FitAsk, {"model": model, "on": place, **given})
        library = Library.of(ask)
        library.card(model)
    except GpuplanError:
        return ""
    for count in COUNTS:
        on = place if count == 1 else f"{count}x{place}"
        with suppress(GpuplanError):  # Nobody knows what joins so many of some, and of more it is known.
            if fit(ask.replaced(on=on), advise=False, library=library).verdict.fits:
                return on
    return ""
