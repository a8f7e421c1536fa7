"""Which kinds of values does a publisher hold, and whom may nobody cite?"""

from __future__ import annotations

import re
from functools import cache

from gpuplan.schema import Schema
from gpuplan.specs.base import SpecFile, load_spec
from gpuplan.specs.catalog import shipped_folder

_PAGE_NUMBER = re.compile(r"\.c\d+$")
_SIZES = re.compile(r"(\d+)-gb")
_PLACE = re.compile(r"^https?://(?:www\.)?", re.IGNORECASE)


class Publisher(Schema):
    """Someone whose pages spec files cite."""

    name: str
    """What the publication is called."""
    url: str
    """How its addresses begin, without `https://` and `www.`."""
    holds: tuple[str, ...]
    """The dotted names of the values that it prints, without numbers of list items; the beginning of one stands for all below."""

    about: tuple[str, ...] = ()
    """Whose things its pages are about: vendors of accelerators, or providers; nothing stands for everybody's."""
    part_words: tuple[str, ...] = ()
    """Of a publisher with a page for each part: words in names that tell parts apart, `|` between those that mean the same."""

    def prints(self, path: str) -> bool:
        """Whether it prints values of that dotted name."""
        return any(path == held or path.startswith(f"{held}.") for held in self.holds)

    def other_part(self, url: str, name: str, *aliases: str) -> bool:
        """Whether a page is that of another part than the one with these names, by the numbers and words in its address.

        >>> page = "https://www.techpowerup.com/gpu-specs/geforce-rtx-4070-ti.c3950"
        >>> site = Publisher(name="", url="techpowerup.com/gpu-specs", holds=(), part_words=("ti", "super"))
        >>> [site.other_part(page, name) for name in ("GeForce RTX 4070 Ti", "GeForce RTX 4070", "GeForce RTX 4080 Ti")]
        [False, True, True]
        """
        if not self.part_words:
            return False
        page, known = _words(_PAGE_NUMBER.sub("", url.rpartition("/")[2])), _words(name)
        numbers = {word for word in page if word.isdigit()} - _words(" ".join((name, *aliases)))
        variants = [set(words.split("|")) for words in self.part_words]
        return bool(numbers - set(_SIZES.findall(url))) or any(bool(page & one) != bool(known & one) for one in variants)


class Refused(Schema):
    """A place that no file may link to."""

    url: str
    """How its addresses begin, without `https://` and `www.`."""
    why: str
    """What is wrong with it, and what to cite instead."""


class Publishers(SpecFile):
    """What each publisher holds."""

    refused: tuple[Refused, ...]
    """Places that no file may link to."""
    publishers: tuple[Publisher, ...]
    """Who prints what; one who is not listed may be cited for anything."""

    def of(self, url: str) -> Publisher | None:
        """The publisher of an address, or None where none is listed; of several the one whose addresses begin most alike."""
        bare = _bare(url)
        fit = [one for one in self.publishers if bare.startswith(one.url.casefold())]
        return max(fit, key=lambda one: len(one.url), default=None)

    def refusal(self, url: str) -> Refused | None:
        """Why an address may not be cited; None where it may."""
        bare = _bare(url)
        return next((one for one in self.refused if bare.startswith(one.url.casefold())), None)


def _words(text: str) -> set[str]:
    return set(re.findall(r"[a-z]+|\d+", text.casefold()))


def _bare(url: str) -> str:
    """An address without what is alike in most."""
    return _PLACE.sub("", url).casefold()


@cache
def publishers() -> Publishers:
    """The table that is shipped."""
    return load_spec(Publishers, shipped_folder() / "rules" / "publishers.yaml")


__all__ = ["Publisher", "Publishers", "Refused", "publishers"]
