"""What comes nearest to a part that gpuplan does not know, and why does it not? `rules/kinds_of_parts.yaml` says so by names."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from functools import cache
from typing import Annotated, Literal

from gpuplan.schema import Limits, Schema
from gpuplan.specs.base import SpecFile, load_spec
from gpuplan.specs.catalog import key, shipped_folder

_OF_LAPTOPS = re.compile(r"((?:[a-z]+-)?\d+(?:-ti|-super|-ada)*)-(?:laptop|mobile|max-q)(?:-gpu)?(?:-\d+gb)?(?:-\d+w)?")
"""The part of a laptop, with what its maker writes behind it: its memory and the power that it lets it draw."""
_SLICE = re.compile(r"\d+g\.(\d+)gb")
"""The memory of a slice of a card by MIG, as its profile says it: `1g.5gb`."""


class KindOfPart(Schema):
    """Parts of which there is no file."""

    nearest: tuple[str, ...] = ()
    """Accelerators or systems that come nearest to them, the nearest first; none: nothing does."""
    why: str
    """Why there is no file."""
    source: str
    """What says what they are."""
    machine: Literal["", "laptop", "server", "board"] = ""
    """What the names call where they are machines of a maker, which may say their part: a laptop has the one made for laptops."""
    last: bool = False
    """Only where nothing else is known of a name: what a maker or a site alone says."""
    names: Annotated[tuple[str, ...], Limits(1)]
    """As names are compared (lower case, hyphens); `*` stands for anything."""


class KindsOfParts(SpecFile):
    """The table; the first entry that fits counts."""

    kinds: tuple[KindOfPart, ...]
    """The entries."""


@cache
def table() -> KindsOfParts:
    """The table that is shipped.

    Raises:
        SpecError: it is not valid.
    """
    return load_spec(KindsOfParts, shipped_folder() / "rules" / "kinds_of_parts.yaml")


def nearest(name: str) -> str:
    """A hint with what comes nearest to a part, and why gpuplan does not know it; empty where no entry fits.

    >>> nearest("groq-lpu").startswith("the nearest on record is `")
    True
    >>> nearest("h100")
    ''
    """
    found = _entry(name)
    if found is None:
        return ""
    own = _laptop_part(name)
    parts = f"`{own}`" if own else " or ".join(f"`{one}`" for one in found.nearest)
    why = found.why
    if size := _SLICE.search(key(name)):
        why = re.sub(r"\d+(?=GiB)", size[1], why)
    return f"the nearest on record is {parts}: {why}" if parts else why


def _laptop_part(name: str) -> str:
    """The part on record that a name of a laptop part with its power is of; empty where it is no such name or none is on record."""
    said = _OF_LAPTOPS.fullmatch(key(name).removeprefix("nvidia-").removeprefix("geforce-"))
    ident = f"{said[1]}-laptop" if said is not None else ""
    return ident if ident and any((shipped_folder() / "accelerators").glob(f"*/{ident}.yaml")) else ""


def machine_of(name: str) -> str:
    """What a name is where it is a machine of a maker by the table: `laptop`, `server` or `board`; otherwise empty.

    >>> machine_of("Razer Blade 16 RTX 5090"), machine_of("rtx 5090")
    ('laptop', '')
    """
    found = _entry(name)
    return found.machine if found is not None else ""


def _entry(name: str) -> KindOfPart | None:
    wanted = key(name)
    return next((one for one in table().kinds if not one.last and any(fnmatchcase(wanted, pattern) for pattern in one.names)), None)


def last_resort(name: str) -> str:
    """A hint for a name of which nothing else is known: what is known without its first or its last word, or of its maker alone.

    >>> "`mi250x`" in last_resort("Pawsey Setonix"), last_resort("h100")
    (True, '')
    """
    words = name.split()
    fewer = (" ".join(words[1:]), " ".join(words[:-1]), " ".join(words[:-2])) if len(words) > 1 else ()
    for one in fewer:
        if one and (near := nearest(one)):
            return f"{near} (`{one}`; what the rest of the name says is not looked at)"
    wanted = key(name)
    found = next((one for one in table().kinds if one.last and any(fnmatchcase(wanted, pattern) for pattern in one.names)), None)
    return f"the nearest on record is {' or '.join(f'`{one}`' for one in found.nearest)}: {found.why}" if found is not None else ""
