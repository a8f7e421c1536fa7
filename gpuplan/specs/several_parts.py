"""Which parts does a name stand for that has several, as `lspci` prints what shares a chip?"""

from __future__ import annotations

import re
from collections.abc import Sequence

from gpuplan.errors import Problem, UnknownError
from gpuplan.specs.catalog import Catalog, key
from gpuplan.specs.kinds_of_parts import nearest
from gpuplan.specs.plain_names import MOBILE, known_as
from gpuplan.specs.target import FORMS
from gpuplan.specs.target_by_name import is_named

_SIZES = re.compile(r"(.*\S)\s+(\d+)(?:\s*gb)?\s*/\s*(\d+)\s*gb", re.IGNORECASE)
"""One card with either of two memories."""


def alternatives(name: str) -> list[str]:
    """The names of several parts that stand in one, divided by slashes; none where it has none.

    >>> alternatives("Radeon RX 6700/6700 XT / 6800M")
    ['Radeon RX 6700', 'Radeon RX 6700 XT', 'Radeon RX 6800M']
    >>> alternatives("A100 PCIe 40/80GB")
    ['A100 PCIe 40GB', 'A100 PCIe 80GB']
    """
    if sizes := _SIZES.fullmatch(name.strip()):
        return [f"{sizes[1]} {one}GB" for one in sizes.groups()[1:]]
    words = MOBILE.sub(" Mobile", name)
    parts = [part.strip() for part in re.split(r"(?<!\bw)/", words) if part.strip()]
    if len(parts) < 2:
        return []
    line = re.match(r"(?:[^\W\d]+\s+)*", parts[0])
    before = line[0] if line is not None else ""
    return [parts[0], *(part if re.match(r"[^\W\d]{2,}", part) else f"{before}{part}" for part in parts[1:])]


def several_parts(name: str, several: Sequence[str], catalog: Catalog) -> UnknownError:
    """The error for a name of several parts, with those of them that are known."""
    known: list[str] = []
    for one in several:
        plain = one if is_named("accelerators", key(one), catalog) else known_as(one, catalog)
        if plain is not None and not nearest(plain):
            part = is_named("accelerators", key(plain), catalog)
            known.append(catalog.find("accelerators", plain).id if part else key(plain))
    told = ", ".join(f"`{one}`" for one in dict.fromkeys(known))
    near = next((hint for one in several if (hint := nearest(one))), "")
    what = f"`{name}` stands for several parts"
    return UnknownError(Problem("target.unknown-name", what, f"name one: {told}" if told else near or FORMS))
