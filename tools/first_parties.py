"""How many values of the spec files cite a page of whoever makes the part or rents the machine, and how many someone else's?

    python -m tools.first_parties [--asked] [--least 20]

A value is its maker's where the address of its source is the maker's, or the provider's for instances and prices; of a machine also
that of a provider who rents it, or of who built it (tools/first_parties.yaml); worked out where it follows from other values or
defines what the file describes; without a page where no source is on record, or one that is assumed. `--least N` lists the files
with the most values that are not their maker's, for who looks for a datasheet to read. `--asked` is only of the parts and machines
that plans are most asked for (tools/most_asked.yaml).
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

from gpuplan.record import Record
from gpuplan.specs.accelerator import Accelerator
from gpuplan.specs.base import SpecFile
from gpuplan.specs.catalog import Catalog
from gpuplan.specs.instance import InstanceFamily
from gpuplan.specs.price import PriceList
from gpuplan.specs.system import System
from gpuplan.strict_yaml import load_yaml

WHOSE: Mapping[str, Sequence[str]] = load_yaml(Path(__file__).with_suffix(".yaml"))[0]
ASKED: Mapping[str, Sequence[str]] = load_yaml(Path(__file__).with_name("most_asked.yaml"))[0]
KINDS: Mapping[str, type[SpecFile]] = {
    "accelerators": Accelerator, "systems": System, "instances": InstanceFamily, "prices": PriceList,
}  # fmt: skip
WORKED_OUT = ("derived", "definition")
Page = Literal["the maker's own", "someone else's", "worked out", "no page"]
PAGES: tuple[Page, ...] = ("the maker's own", "someone else's", "worked out", "no page")


class Told(Record):
    """How many values of one file have which page."""

    kind: str
    ident: str
    pages: Mapping[Page, int]

    @property
    def others(self) -> int:
        """Values that a page of the maker could still be found for."""
        return self.pages.get("someone else's", 0) + self.pages.get("no page", 0)


def is_of(url: str, maker: str) -> bool:
    """Whether an address is that of a maker or provider.

    >>> [is_of("https://www.amd.com/en/products", "amd"), is_of("https://www.techpowerup.com/gpu-specs", "amd")]
    [True, False]
    >>> is_of("https://www.thundercompute.com/pricing", "thunder-compute")
    True
    """
    place = re.sub(r"^https?://(?:www\.)?", "", url).casefold()
    host = place.partition("/")[0]
    own = [one.casefold() for one in WHOSE.get(maker, ())]
    return (
        maker.replace("-", "") in re.split(r"[.]", host)
        or any(place.startswith(one) or host == one or host.endswith(f".{one}") for one in own)
    )  # fmt: skip


def makers_of(spec: SpecFile, catalog: Catalog) -> tuple[str, ...]:
    """The vendor of an accelerator, who sells instances and prices; of a system also who rents it, and its id."""
    if isinstance(spec, System):
        rents = (cloud.partition(":")[0] for cloud in spec.clouds)
        return tuple(dict.fromkeys((catalog.load(Accelerator, spec.accelerator).vendor, *rents, spec.id)))
    if isinstance(spec, Accelerator):
        return (spec.vendor,)
    return (spec.seller if isinstance(spec, PriceList) else str(getattr(spec, "provider", spec.id)),)


def page_of(spec: SpecFile, source: str, makers: Sequence[str]) -> Page:
    """Which page a value with this source has."""
    entry = spec.sources.get(source)
    if entry is None or entry.kind == "assumed":
        return "no page"
    if entry.kind in WORKED_OUT:
        return "worked out"
    if not entry.url:
        return "no page"
    return "the maker's own" if any(is_of(entry.url, maker) for maker in makers) else "someone else's"


def told(catalog: Catalog) -> Iterator[Told]:
    """Every shipped file of a part, a machine, an instance or a price."""
    for kind, schema in KINDS.items():
        for ident, path in catalog.paths(kind).items():
            spec = catalog.read(schema, path)
            makers = makers_of(spec, catalog)
            if isinstance(spec, PriceList):
                named = [offer.source for offer in spec.offers if offer.status == "current"]
            else:
                named = [value.source for _, value in spec.values()]
            yield Told(kind, ident, Counter(page_of(spec, one or "", makers) for one in named))


def table(files: Sequence[Told]) -> str:
    """The shares by kind of file, as Markdown."""
    lines = [f"| | values | {' | '.join(PAGES)} |", "|---|--:|" + "--:|" * len(PAGES)]
    for kind in (*KINDS, "all"):
        pages = sum((Counter(one.pages) for one in files if kind in (one.kind, "all")), Counter[Page]())
        if whole := sum(pages.values()):
            lines.append(f"| {kind} | {whole:,} | {' | '.join(f'{pages[page] / whole:.0%}' for page in PAGES)} |")
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> None:
    """Print the table, and the files that have the most to gain."""
    asked = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    asked.add_argument(
        "--least", type=int, default=0, metavar="N", help="also the N files with the most values of other pages or none"
    )
    asked.add_argument("--asked", action="store_true", help="only the parts and machines that plans are most asked for")
    options = asked.parse_args(argv)
    files = list(told(Catalog.open(env={"HOME": "/nonexistent"})))
    if options.asked:
        files = [one for one in files if one.ident in ASKED.get(one.kind, ())]
    print(table(files))
    for one in sorted(files, key=lambda one: (-one.others, one.ident))[: options.least]:
        print(f"- {one.kind}/{one.ident}: {one.others} of {sum(one.pages.values())}")


if __name__ == "__main__":
    main()
