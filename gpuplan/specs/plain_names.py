"""What is a part called without what drivers, shops and board makers write around its name?

`AMD Radeon RX 7900 XTX`, `Intel(R) Arc(TM) B580 Graphics`, `ASUS ROG Strix RTX 4090`, `AMD EPYC 9654 96-Core Processor`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuplan.specs.catalog import Catalog, key

_MARKS = re.compile(r"\((?:r|tm|c)\)|[®™]", re.IGNORECASE)
_BEHIND = re.compile(
    r"\s+(?:w/|with|@)\s.*$|\s+\d+-core\b.*$|\s+(?:cpu|processor)$"
    r"|\s+(?:graphics|gpu|oam|mcm|ac|mba|edition|generation|gaming|trio|x|oc|community|secure|cloud|accelerator)$"
    r"|\s+(?:(?:dev|developer)[\s-]?kit|dual[\s-]slot)$",
    re.IGNORECASE,
)
_BEFORE = re.compile(
    r"^(?:nvidia|amd|intel|qualcomm|apple|google|geforce|radeon|instinct|asus|msi|gigabyte|zotac|pny|evga|palit|inno3d|gainward|sapphire|"
    r"powercolor|xfx|asrock|colorful|galax|rog|strix|tuf|ventus|aorus|eagle|windforce|nitro\+?|pulse|founders|edition|gaming|core|"
    r"navi\s\d+|aqua\svanjaram)[\s-]+",
    re.IGNORECASE,
)


def plain_names(name: str) -> Iterator[str]:
    """The name with less and less around it, the fullest first; without the name itself.

    >>> list(plain_names("Intel(R) Arc(TM) B580 Graphics"))
    ['Intel Arc B580 Graphics', 'Intel Arc B580', 'Arc B580 Graphics', 'Arc B580']
    """
    seen = {key(name)}
    inside = re.search(r"\[([^\]]*)\]", name)
    for begin in dict.fromkeys((_clean(name), _clean(re.sub(r"[\[(][^\])]*[\])]", " ", _MARKS.sub("", name))), *_shown(inside))):
        for front in _steps(begin, _BEFORE):
            for one in _steps(front, _BEHIND):
                if one and key(one) not in seen:
                    seen.add(key(one))
                    yield one


def size_last(name: str) -> str | None:
    """A name as it is compared with the memory, which people write anywhere, behind the rest; None where it is there or missing.

    >>> [size_last("a100-80gb-sxm4"), size_last("v100-32gb-sxm2"), size_last("a100-sxm4-80gb"), size_last("l4")]
    ['a100-sxm4-80gb', 'v100-sxm2-32gb', None, None]
    """
    said = re.fullmatch(r"(.+?)-(\d+gb)-(.+)", name)
    return f"{said[1]}-{said[3]}-{said[2]}" if said else None


def known_as(name: str, catalog: Catalog) -> str | None:
    """The first of the plainer names that an accelerator, a system or the table of unknown parts has; None: none of them has."""
    from gpuplan.specs.kinds_of_parts import nearest

    for one in plain_names(name):
        if any(key(one) in catalog.paths(kind) or key(one) in catalog.names(kind) for kind in ("accelerators", "systems")):
            return one
        if nearest(one):
            return one
    return None


def _shown(inside: re.Match[str] | None) -> tuple[str, ...]:
    """What stands in brackets, where it names one part."""
    return () if inside is None or "/" in inside[1] else (_clean(inside[1]),)


def _clean(text: str) -> str:
    """Without marks, and 16G as 16GB."""
    return re.sub(r"(?<=\d)G\b", "GB", " ".join(_MARKS.sub("", text).split()))


def _steps(text: str, drop: re.Pattern[str]) -> Iterator[str]:
    """The text, and the same with one thing after another dropped."""
    while text:
        yield text
        shorter = drop.sub("", text, count=1)
        if shorter == text:
            return
        text = shorter
