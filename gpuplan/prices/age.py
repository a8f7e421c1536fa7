"""How old are the prices on record, provider by provider, and which should be read again?"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

from gpuplan.errors import Problem, UnknownError, did_you_mean
from gpuplan.record import Record
from gpuplan.specs.catalog import Catalog, key
from gpuplan.specs.dates import age_days
from gpuplan.specs.offers import ANYWHERE, price_lists, sellers

OLD = 90
"""Days after which a price should be read again, where nobody says otherwise."""


class ProviderAge(Record):
    """How many current prices of a provider there are, and how old they are."""

    provider: str
    prices: int
    """Current ones."""
    instances: int
    """With a current price."""
    regions: int
    """That are named; none where every price is for any region."""
    newest: str | None
    """The day of the newest, as exactly as is known."""
    oldest: str | None
    """The day of the oldest."""
    old: int
    """Older than was asked for."""
    undated: int
    """Whose source says no day."""


def ages(catalog: Catalog, words: Sequence[str], most: int, today: date) -> list[ProviderAge]:
    """How old the current prices of providers are, all of them where none is named; what needs a look most stands first.

    Raises:
        UnknownError: there is no price of a provider that is named.
    """
    known = sellers(catalog)
    for word in words:
        if key(word) not in known:
            hint = did_you_mean(key(word), known) or f"there is {', '.join(known[:12])} and {len(known) - 12} more"
            raise UnknownError(Problem("price.no-provider", f"no price of a provider `{word}` is on record", hint))
    made = [_age(catalog, one, most, today) for one in known if not words or one in map(key, words)]
    return sorted(made, key=lambda one: (-(one.old + one.undated), one.provider))


def _age(catalog: Catalog, provider: str, most: int, today: date) -> ProviderAge:
    offers = [
        entry
        for _, prices in price_lists(catalog, provider)
        for entry in prices.offers
        if entry.status == "current" and entry.kind != "free"
    ]
    dated = sorted(entry.date for entry in offers if entry.date is not None)
    return ProviderAge(
        provider,
        prices=len(offers),
        instances=len({entry.instance for entry in offers}),
        regions=len({entry.region for entry in offers} - {ANYWHERE}),
        newest=dated[-1] if dated else None,
        oldest=dated[0] if dated else None,
        old=sum(age_days(one, today) > most for one in dated),
        undated=len(offers) - len(dated),
    )


__all__ = ["OLD", "ProviderAge", "ages"]
