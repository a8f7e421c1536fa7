"""Which of our accelerators does a catalog mean by a name, a memory size and whatever else it says? Never a guess."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from gpuplan.specs.accelerator import Accelerator
from gpuplan.specs.catalog import Catalog, key

FORMS = ("pcie", "sxm", "nvl", "oam", "die", "board", "server", "workstation")
_IGNORED = {
    "nvidia",
    "amd",
    "google",
    "intel",
    "tesla",
    "geforce",
    "instinct",
    "radeon",
    "quadro",
    "graphics",
    "gpu",
    "mega",
    "blackwell",
}
_MEMORY = re.compile(r"(\d+)gb")
_FORM = re.compile(r"(pcie|sxm|nvl|oam|die|board|server|workstation)\d*")
_GLUED = re.compile(r"([a-z]+\d+)(nvl|sxm|pcie)\d*")
_NEAR, _NEARLY = 0.08, 0.12
"""How far a catalog's memory may be from ours: it prints GB as GiB, raw as usable, and what drivers report."""


@dataclass
class AcceleratorNames:
    """Finds accelerators by what catalogs call them."""

    catalog: Catalog
    _bases: dict[str, list[str]] = field(default_factory=dict, repr=False)
    _known: dict[tuple[str, int, str], tuple[str, ...]] = field(default_factory=dict, repr=False)

    def candidates(self, name: str, memory: float | None, hints: str = "") -> tuple[str, ...]:
        """The ids that a name can mean, given the bytes of one accelerator and a text that may tell its form.

        None: it is unknown. Several: it is ambiguous.
        """
        forms = "+".join(form for form in FORMS if form in f"{name} {hints}".lower())
        asked = (name, int(memory or 0), forms)
        if asked not in self._known:
            self._known[asked] = self._look(name, memory, forms)
        return self._known[asked]

    def _look(self, name: str, memory: float | None, forms: str) -> tuple[str, ...]:
        base, stated, form = _taken_apart(key(name))
        ids = self._ids(base) or list(self.catalog.names("accelerators").get(key(name), []))
        size = memory if memory is not None else (stated * 2.0**30 if stated else None)
        if size is not None:
            ids = [one for one in ids if self._fits(one, size, _NEAR)] or [one for one in ids if self._fits(one, size, _NEARLY)]
        for wanted in dict.fromkeys([*([form] if form else []), *filter(None, forms.split("+"))]):
            ids = [one for one in ids if wanted in one] or ids
        return tuple(ids)

    def _ids(self, base: str) -> list[str]:
        if not self._bases:
            for ident in self.catalog.paths("accelerators"):
                self._bases.setdefault(_taken_apart(ident)[0], []).append(ident)
            for alias, ids in self.catalog.names("accelerators").items():
                short = _taken_apart(alias)[0]
                for ident in ids:
                    known = self._bases.setdefault(short, [])
                    if ident not in known and not any(_taken_apart(one)[0] == short for one in known):
                        known.append(ident)
        return list(self._bases.get(base, ()))

    def _fits(self, ident: str, memory: float, tolerance: float) -> bool:
        of = self.catalog.read(Accelerator, self.catalog.paths("accelerators")[ident]).memory
        sizes = [of.capacity.value, *([of.capacity_reported.value] if of.capacity_reported is not None else [])]
        return any(abs(memory / size - 1) <= tolerance for size in sizes)


def _taken_apart(name: str) -> tuple[str, int, str]:
    """A name without its vendor, memory and form, then the memory in GB (0: none) and the form.

    >>> _taken_apart("nvidia-a100-sxm4-80gb"), _taken_apart("a100-80gb"), _taken_apart("h100nvl")
    (('a100', 80, 'sxm'), ('a100', 80, ''), ('h100', 0, 'nvl'))
    """
    words, memory, form = [], 0, ""
    for word in name.split("-"):
        if found := _MEMORY.fullmatch(word):
            memory = int(found[1])
        elif found := _FORM.fullmatch(word):
            form = found[1]
        elif word not in _IGNORED:
            glued = _GLUED.fullmatch(word)
            words.append(glued[1] if glued else word)
            form = glued[2] if glued else form
    return "".join(words), memory, form
