"""What stands in a question for a machine that it does not name: a size of memory, `a Mac`, `the CPU`?"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress

from gpuplan.cli.in_words.fillers import FILLER
from gpuplan.cli.in_words.names import Named
from gpuplan.errors import GpuplanError

_PROCESSORS = frozenset(("amd", "intel", "ryzen", "core", "epyc", "xeon", "threadripper", "i5", "i7", "i9"))
_LINES = frozenset(("epyc", "xeon", "threadripper", "ryzen", "i5", "i7", "i9"))
"""Those of them that say by themselves that they are processors."""
_MEMORY = re.compile(r"(\d+)gb")
_ADVICE = (
    (
        frozenset(("mac", "macs", "macbook", "macbooks", "imac")),
        "a Mac is named by its chip and its memory, such as `--on m4-pro-48gb`",
    ),
    (frozenset(("cpu", "cpus", "processor")), "a processor is named too, such as `--on ryzen-9-7950x --memory 64GB`"),
    (
        frozenset(("unified",)),
        "memory that processor and graphics share is named by its chip, such as `--on m4-max-128gb` or `--on strix-halo-128gb`",
    ),
    (
        frozenset(("different", "mixed", "mixing", "mismatched", "unlike")),
        "unlike cards beside each other are not answered for: name alike ones, such as `--on 2x3090`",
    ),
    (frozenset(("laptop", "notebook")), "a laptop is named by its part, such as `--on rtx-4060-laptop`"),
)


def memory_alone(names: Named) -> tuple[int, Named]:
    """The size in GB that stands for a card, and the names with a card of that size in its place; 0: none does.

    Behind the name of a machine a size is checked against it, and kept among the words that are left where it is another.
    """
    sizes = [(word, int(found[1])) for word in names.rest if (found := _MEMORY.fullmatch(word))]
    words = [word for word in names.rest if word != "vram"]
    if not sizes:
        return 0, names._replace(rest=tuple(words))
    told = [word for word, _ in sizes]
    if names.places:
        known = _memories(names.places)
        rest = [word for word in words if word not in told or int(word.removesuffix("gb")) not in known]
        return 0, names._replace(rest=tuple(rest))
    from gpuplan.specs.cards_of_memory import card_of_memory

    otherwise = unnamed([word for word in words if word not in told])
    card = card_of_memory(sizes[0][1]) if len(set(told)) == 1 and not otherwise else ""
    if not card:
        return 0, names._replace(rest=tuple(words))
    count = next((word for word in words if re.fullmatch(r"\d+x", word)), "")
    if count:
        words.remove(count)
    return sizes[0][1], names._replace(places=(f"{count}{card}",), rest=tuple(word for word in words if word not in told))


def _memories(places: Sequence[str]) -> set[int]:
    """The memory of each machine in GB, as its cards are sold: of one card, and of all of them."""
    from gpuplan.specs.catalog import Catalog
    from gpuplan.specs.on import parse_target

    catalog, made = Catalog.open(), set[int]()
    for place in places:
        with suppress(GpuplanError):
            target = parse_target(place, catalog)
            size = target.accelerator.memory.capacity.value
            each = {round(size / 1e9), round(size / 2**30)}
            made |= each | {one * target.count for one in each}
    return made


def without_host(text: str, given: Mapping[str, str], names: Named) -> tuple[Named, str]:
    """The names without the processors of a computer whose graphics card is named too, with its memory; and what is said of it.

    Raises:
        GpuplanError: as `parse_target`.
    """
    if not names.places or "host_memory" not in given or re.search(r"\b(?:vs|versus|or|than)\b", text):
        return names, ""
    if len(names.places) == 1 and not _LINES & set(names.rest):
        return names, ""
    from gpuplan.specs.catalog import Catalog
    from gpuplan.specs.on import parse_target

    catalog = Catalog.open()
    units = [parse_target(place, catalog).accelerator.unit for place in names.places]
    cards = tuple(place for place, unit in zip(names.places, units, strict=True) if unit != "socket")
    lines = [word for word in names.rest if word in _PROCESSORS]
    if not cards or (len(cards) == len(names.places) and not (len(cards) == 1 and lines)):
        return names, ""
    told = " and ".join(f"`{place}`" for place in names.places if place not in cards) or f"`{lines[0]}`"
    rest = tuple(word for word in names.rest if word not in lines)
    why = "is taken for the processor beside the card, of which the memory alone counts"
    return names._replace(places=cards, rest=rest), f"{told} {why}"


def unnamed(words: Sequence[str]) -> str:
    """How to name the machine that words stand for without naming it; "" where they stand for none.

    >>> unnamed(["64gb", "mac"])
    'a Mac is named by its chip and its memory, such as `--on m4-pro-48gb`'
    >>> unnamed(["raspberry", "pi", "5"]).startswith("the nearest on record is `")
    True
    """
    for meant, advice in _ADVICE:
        if meant & set(words):
            return advice
    from gpuplan.models import kinds_of_names
    from gpuplan.specs import kinds_of_parts

    runs = [" ".join(words[at : at + size]) for size in (4, 3, 2, 1) for at in range(len(words) - size + 1)]
    part = next(filter(None, (kinds_of_parts.nearest(run) for run in runs if " " in run)), "")
    if part:
        return part
    # A word alone may be a common one that some pattern of names fits: it has to say a number.
    telling = (run for run in runs if not FILLER & set(run.split()) and (" " in run or re.search(r"[a-z].*\d", run)))
    return next(filter(None, map(kinds_of_names.nearest, telling)), "")
