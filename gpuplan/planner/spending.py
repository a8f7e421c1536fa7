"""What else of money and carbon follows from a plan: owning beside renting, credits, the grid?"""

from __future__ import annotations

from collections.abc import Iterator

from gpuplan.errors import Note
from gpuplan.estimate.money import month_in_use
from gpuplan.estimate.planned import Candidate
from gpuplan.units import MONTH, human

TOLD = ("own.", "price.committed")
"""How the codes of notes begin that an answer about the machine alone has and that a plan must not leave out."""


def spending(one: Candidate, rate: float | None = None, *, counted: bool = True) -> Iterator[Note]:
    """Notes on the money and the carbon of a plan beside its cost; `rate` is that of the requests of a whole fleet.

    `counted`: the user says how many of the machine there are.
    """
    yield from _beside_api(one, rate)
    text = _ranged(one, "break_even_s", "s")
    if text:
        rent = one.estimate.find("rent.price")
        at = "" if rent is None else f" at {human(float(rent.value), 'USD/s')} for an accelerator"
        yield Note(
            "plan.break-even", f"beside renting{at}, buying has paid after {text}", "--own-use says how much of it is worked"
        )
    text = _ranged(one, "co2e_kg", "kg")
    if text:
        yield Note("plan.carbon", f"{one.offering.target}: {text} CO2e by the grid that is given")
    text = _ranged(one, "co2e_kg_per_million_tokens", "kg")
    if text:
        yield Note("plan.carbon", f"{one.offering.target}: {text} CO2e for a million tokens by the grid that is given")
    left = _ranged(one, "cost_after_credits_usd", "USD")
    if left:
        yield Note("plan.credits", f"credits pay {_ranged(one, 'credits_used_usd', 'USD')} of it, and {left} are left to pay")
    for note in one.estimate.notes:
        if note.code == "own.costs":
            yield note.replaced(text=_owning(one, counted=counted) or note.text)
        elif note.code.startswith(TOLD):
            yield note


def _owning(one: Candidate, *, counted: bool) -> str:
    """How many are bought in all, and for how much: the estimate is of one unit of a fleet; empty where nothing is paid."""
    found = [one.estimate.find(name) for name in ("own.price", "own.accelerators")]
    if any(term is None or not term.value for term in found):
        return ""
    paid, each = (float(term.value) for term in found if term is not None)
    many = one.offering.count / each
    which = "one" if many == 1 else f"{many:g} at {human(paid, 'USD')} each, {human(many * paid, 'USD')} in all"
    if counted and many > 1 and each == 1:  # A bill is of a machine: its sum is easily taken for the price of each card.
        which += f" (--own {paid / many:.6g} where it is what all cost)"
    return f"costs are those of owning {which}; what renting costs is only compared with them"


def _beside_api(one: Candidate, rate: float | None) -> Iterator[Note]:
    """What an API would ask for the same load, beside what the fleet costs."""
    each, fleet = one.figures.get("api_cost_usd_per_thousand_requests"), one.figures.get("cost_usd_per_month")
    if each is None or fleet is None or rate is None:
        return
    price = one.offering.price
    month = MONTH if price is None else float(month_in_use(price).value)
    asked = rate * month * each / 1000
    cheaper = "the fleet" if fleet < asked else "the API"
    prices = f"an API would ask {human(asked, 'USD')} a month for this load, the fleet costs {human(fleet, 'USD')}"
    even = rate * fleet / asked if asked else None
    hint = (
        "" if even is None else f"they cost the same at {even:.3g} requests a second in the mean, as far as the fleet carries them"
    )
    yield Note("plan.api", f"{prices}: {cheaper} is cheaper", hint)


def _ranged(one: Candidate, key: str, unit: str) -> str:
    """A figure with its range where it has one; empty where the plan has no such figure."""
    term, ends = one.estimate.figures.get(key), one.estimate.ranges.get(key)
    if term is None:
        return ""
    value = human(float(term.value), unit)
    return value if ends is None or ends[0] == ends[1] else f"{value} ({human(ends[0], unit)} – {human(ends[1], unit)})"
