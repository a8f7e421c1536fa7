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

OF_ONE_USER = "q4_k_m"
"""How one user stores a model that a card of one's own does not hold as published, as Ollama does."""
COUNTS = (1, 2, 4, 8, 16, 32)
"""What is tried, the fewest first."""
HOME = ("PCIe graphics card", "laptop")
"""Forms of the cards that people have at home; those of servers have no fans of their own, or no place in a computer."""
_COUNTED = re.compile(r"\d+\s*x|.*[:@]")
"""A number of them, an instance of a cloud, or a network: what there is of it is said."""


def enough(model: str, places: Sequence[str], options: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    """The places with the fewest of each that hold the model, and the options with what was added for that.

    They stay as they are where one of them is counted, or none of the counts do. A comparison of single cards says nothing of a
    model that none of them holds; on cards that people have at home it is one in 4 bits, if each of them holds that.
    """
    if any(_COUNTED.match(place) for place in places):
        return list(places), {**options}
    given = {name: options[name] for name in ("weights", "kv_cache", "context") if "," not in options.get(name, ",")}
    counted = [_fewest(model, place, given) or place for place in places]
    if counted == list(places) or "weights" in given:
        return counted, {**options}
    small = {"weights": OF_ONE_USER}
    if all(_at_home(model, place) and _fewest(model, place, given | small) == place for place in places):
        return list(places), {**options, **small}
    return counted, {**options}


def in_four_bits(model: str, place: str, options: Mapping[str, str]) -> bool:
    """Whether a card that people have at home holds a model in 4 bits alone, of which the question names no type."""
    if {"weights", "host_memory", "kv_cache"} & {*options} or not _at_home(model, place):
        return False
    given = {name: options[name] for name in ("context",) if name in options}
    return not _holds(model, place, given) and _holds(model, place, given | {"weights": OF_ONE_USER})


def _holds(model: str, place: str, given: Mapping[str, str]) -> bool:
    return _fewest(model, place, given, counts=COUNTS[:1]) == place


def _at_home(model: str, place: str) -> bool:
    try:
        ask = FitAsk(model=model, on=place)
        target = Library.of(ask).target(place)
        own = target.instance is None and target.accelerator.form_factor in HOME
        return own and of_one_user(ask, target) is not None
    except GpuplanError:
        return False


def _fewest(model: str, place: str, given: Mapping[str, str], counts: Sequence[int] = COUNTS) -> str:
    """So many of a machine as hold the model; empty where no count does, or it cannot be asked."""
    from gpuplan.plan.read import question

    try:
        ask = question(FitAsk, {"model": model, "on": place, **given})
        library = Library.of(ask)
        library.card(model)
    except GpuplanError:
        return ""
    for count in counts:
        on = place if count == 1 else f"{count}x{place}"
        with suppress(GpuplanError):  # Nobody knows what joins so many of some, and of more it is known.
            if fit(ask.replaced(on=on), advise=False, library=library).verdict.fits:
                return on
    return ""
