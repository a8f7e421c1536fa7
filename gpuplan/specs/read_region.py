"""Which region does a user mean: by its code, in other letters, by a zone of it, or by the name that its provider gives it?"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from gpuplan.errors import Problem, UnknownError, did_you_mean
from gpuplan.specs.catalog import key
from gpuplan.specs.offers import price_list, regions_of, sellers

if TYPE_CHECKING:
    from collections.abc import Iterable

    from gpuplan.specs.catalog import Catalog

_NAMED = 12
_ZONE = re.compile(r"(.*\d)-?[a-z]|(.*[a-z])-\d", re.IGNORECASE)
"""`us-east-1a` and `us-central1-a` are zones of regions whose codes end in a number, `fr-par-2` of one that does not."""


def region_meant(catalog: Catalog, said: str, provider: str | None) -> str:
    """The code of the region that a user means: of the provider, or of any where none is named.

    Raises:
        UnknownError: no price is on record for such a region; it names the nearest ones and the usual ones.
    """
    everywhere = {one: regions_of(catalog, one) for one in sellers(catalog)}
    known = sorted(everywhere.get(provider, ())) if provider is not None else sorted(frozenset().union(*everywhere.values()))
    if said in known:
        return said
    other = _whose(said, [one for one, regions in everywhere.items() if said in regions])
    meant = _read(said, known, provider) if other is None else None  # `us-east1` is Google's, and no slip for that of AWS
    if meant is not None:
        return meant
    whose = f" of {provider}" if provider is not None else ""
    what = f"no price{whose} is on record in a region `{said}`{f', which is of {other}' if other else ''}"
    if not known:
        told = f"the prices{whose} on record are the same in every region: leave --region out"
    elif provider is not None:
        usual = _usual_region(catalog, provider)
        first = [*([usual] if usual in known else []), *(one for one in known if one != usual)]
        told = f"there is {', '.join(first[:_NAMED])}{f' and {len(first) - _NAMED} more' if len(first) > _NAMED else ''}"
    else:
        large = sorted(everywhere, key=lambda one: (-len(everywhere[one]), one))
        usual_of = {one: _usual_region(catalog, one) for one in large}
        ones = [f"{code} of {one}" for one, code in usual_of.items() if code in everywhere[one] and _whose(code, [one])]
        told = f"each provider has its own, such as {', '.join(ones[:_NAMED])}: `gpuplan prices list` shows them"
    near = did_you_mean(said, known)
    raise UnknownError(Problem("price.no-region", what, f"{near} {told[:1].upper()}{told[1:]}" if near else told))


def _read(said: str, known: Iterable[str], provider: str | None) -> str | None:
    """The one known region that is written so in other letters, has such a zone, or is called so by its provider."""
    zone = _ZONE.fullmatch(said.strip())
    for wanted in (said, *([zone[1] or zone[2]] if zone else [])):
        for same in (key, _letters):  # `us_east_1` is `us-east-1` before it is `us-east1`
            found = [one for one in known if same(one) == same(wanted)]
            if len(found) == 1:
                return found[0]
    return _called(said, known, provider)


def _called(said: str, known: Iterable[str], provider: str | None) -> str | None:
    """The one known region that its provider calls so, whole or by the place alone: `US East (N. Virginia)`, `n virginia`."""
    from gpuplan.specs.regions import names_of

    called = names_of(provider)
    found = {code for code in known for name in called.get(code, ()) if _letters(name) == _letters(said)}
    return found.pop() if len(found) == 1 else None


def _whose(region: str, having: list[str]) -> str | None:
    """Whose region a code is, of those that have prices there: who runs machines in others' regions does not own them."""
    from gpuplan.specs.regions import owners_of

    owners = owners_of(region)
    return next((one for one in having if not owners or one in owners), None)


def _letters(text: str) -> str:
    """The letters and digits of a name, small.

    >>> _letters("East US 2"), _letters("us-east-1")
    ('eastus2', 'useast1')
    """
    return re.sub(r"[\W_]", "", text).lower()


def _usual_region(catalog: Catalog, provider: str) -> str:
    """The provider's usual region, or an empty string where no file says it."""
    prices = price_list(catalog, provider)
    return prices.default_region if prices is not None else ""
