"""Which regions does a provider have, where it has so many that a price can name a wrong one?"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from gpuplan.schema import Schema, field
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
    called: dict[str, str] = field(default_factory=dict)
    """What the provider calls them, by code, such as `US East (N. Virginia)`."""


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
    found = [one for one in _table() if provider in (one.provider, *one.also)]
    return frozenset(code for one in found for code in (*one.codes, *one.beside)) if found else None


def owners_of(code: str) -> frozenset[str]:
    """The providers that are known to have a region of that code; empty where no table has it.

    >>> sorted(owners_of("us-east-1")), owners_of("GRA")
    (['aws', 'aws-sagemaker'], frozenset())
    """
    return frozenset(whose for one in _table() if code in one.codes for whose in (one.provider, *one.also))


def names_of(provider: str | None) -> Mapping[str, tuple[str, ...]]:
    """What regions are called, by code, whole and by the place alone; of all providers where none is named.

    >>> names_of("aws")["us-east-1"]
    ('US East (N. Virginia)', 'N. Virginia')
    """
    found = [one for one in _table() if provider in (None, one.provider, *one.also)]
    return {code: (name, *re.findall(r"\((.+)\)", name)) for one in found for code, name in one.called.items()}


@cache
def _table() -> tuple[ProvidersRegions, ...]:
    return load_spec(Regions, shipped_folder() / "rules" / "regions.yaml").regions


__all__ = ["ProvidersRegions", "Regions", "names_of", "owners_of", "regions_of"]
