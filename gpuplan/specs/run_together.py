"""Which part does a name mean whose words are run together, as schedulers have them: `GeForceGTX1080Ti`, `teslaP100`?"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuplan.specs.catalog import Catalog, key

_MAKERS = re.compile(r"^(?:nvidia|amd|intel|geforce|tesla|radeon|instinct)+(?=[a-z]*\d|titan)")
"""What names begin with that says no more of a part than its maker and line."""
_SHORTEST = 3


def run_together(name: str, catalog: Catalog) -> str | None:
    """The one accelerator whose id, alias or driver's name has the letters and digits of a name; None: there is none, or several.

    >>> shipped = Catalog.open()
    >>> [run_together(one, shipped) for one in ("GeForceGTX1080Ti", "teslaP100", "TeslaM4024GB", "mi325", "GTX2080TI", "purple")]
    ['gtx-1080-ti', 'p100-pcie-12gb', 'm40-24gb', 'mi325x', 'rtx-2080-ti', None]
    """
    known: dict[str, set[str]] = {}
    named = [*catalog.names("accelerators").items(), *((ident, [ident]) for ident in catalog.paths("accelerators"))]
    for alias, idents in named:
        for one in {_letters(alias), _MAKERS.sub("", _letters(alias))}:
            known.setdefault(one, set()).update(idents)
    for one in _spellings(name):
        found = known.get(one, set()) if len(one) >= _SHORTEST else set()
        if len(found) == 1:
            return next(iter(found))
    return None


def _letters(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", key(name))


def _spellings(name: str) -> Iterator[str]:
    """The letters and digits of a name, with what people leave out or mistake: the unit of its memory, the line, AMD's x."""
    yield _letters(name)
    plain = _MAKERS.sub("", _letters(name))
    yield plain
    if re.search(r"[-_]\d{2,3}$", name):
        yield f"{plain}gb"
    if re.fullmatch(r"mi\d{3}", plain):
        yield f"{plain}x"
    other = {"g": "r", "r": "g"}
    if line := re.match(r"([gr])tx(?=\d{4})", plain):
        yield f"{other[line[1]]}{plain[1:]}"
