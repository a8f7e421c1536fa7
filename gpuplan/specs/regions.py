"""Which regions does a provider have, where it has so many that a price can name a wrong one?"""

from __future__ import annotations

from functools import cache

from gpuplan.schema import Schema
from gpuplan.specs.base import SpecFile, load_spec
from gpuplan.specs.catalog import shipped_folder


class ProvidersRegions(Schema):
    """The regions of one provider."""

    provider: str
    """Its id."""
    also: tuple[str, ...] = ()
    """Providers that sell in the same regions."""
    source: str
    """What lists them."""
    codes: tuple[str, ...]
    """As the provider writes them."""
    beside: tuple[str, ...] = ()
    """Places that its prices name beside."""


class Regions(SpecFile):
    """The regions of all providers that are known."""

    regions: tuple[ProvidersRegions, ...]
    """One entry for each provider."""


@cache
def regions_of(provider: str) -> frozenset[str] | None:
    """The regions that prices of a provider may name; None: it may write them in any form.

    >>> "us-east-1" in regions_of("aws-sagemaker"), regions_of("runpod")
    (True, None)

    Raises:
        SpecError: the table is not valid.
    """
    table = load_spec(Regions, shipped_folder() / "rules" / "regions.yaml")
    found = [one for one in table.regions if provider in (one.provider, *one.also)]
    return frozenset(code for one in found for code in (*one.codes, *one.beside)) if found else None


__all__ = ["ProvidersRegions", "Regions", "regions_of"]
