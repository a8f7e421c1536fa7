"""What follows in money and carbon from the figures of an answer: owning against renting, credits, commitments, the grid?"""

from __future__ import annotations

from collections.abc import Mapping

from gpuplan.formulas import carbon, owning, spot
from gpuplan.formulas import token_prices as prices
from gpuplan.formulas.cost import usd_per_s_of_all
from gpuplan.num import agreed
from gpuplan.record import Record
from gpuplan.term import DEFINITION, Term
from gpuplan.units import YEAR

MONTH = Term("month", YEAR / 12, "s", DEFINITION)
_USED = "own.month_in_use"
_FLEET = "fleet.price"
"""What all machines of an answer cost a second, below its costs."""


class Spot(Record, kw_only=True):
    """Instances that are taken back: how many there are, how long each lives, and how long another is waited for."""

    units: Term
    life: Term
    wait: Term | None = None


class Owned(Record, kw_only=True):
    """Machines that are bought, each accelerator's part: paid once, then running, and the rent of the same, where known."""

    bought: Term
    running: Term
    rent: Term | None = None


class Money(Record, kw_only=True):
    """What an answer's place says of money and power beside the price of an accelerator; None: not known, or not asked."""

    accelerators: Term
    pue: Term | None = None
    grid: Term | None = None
    credits: Term | None = None
    commitment: Term | None = None
    """The term that is paid, used or not."""
    spot: Spot | None = None
    owned: Owned | None = None

    def alike(self) -> tuple[object, ...]:
        """What must be the same for places whose figures are made together."""
        terms = [self.pue, *((self.spot.units, self.spot.life, self.spot.wait) if self.spot is not None else ())]
        return tuple(None if one is None else (float(one.value), one.source.title) for one in terms)


def month_in_use(price: Term) -> Term:
    """The seconds of a month that are paid at a price: all, but of what is bought those in which it works, which bear the rest."""
    use = dict(price.args).get("use") if price.formula is owning.usd_per_used_s else None
    return MONTH if use is None or agreed(use.value == 1) else owning.seconds_in_use.term(_USED, time=MONTH, use=use)


def money_figures(figures: Mapping[str, Term], money: Money | None) -> dict[str, Term]:
    """The figures that `money` adds to those of an answer, which it does not change."""
    if money is None:
        return {}
    found = _carbon(figures, money)
    fleet = _fleet(figures, money.accelerators)
    if fleet is not None and money.commitment is not None:
        found["committed_usd"] = prices.usd_in_time.term("cost.committed", price=fleet, time=money.commitment)
    if money.credits is not None:
        found |= _credits(figures, fleet, money.credits)
    if money.spot is not None and "tokens_per_s" in figures and "cost_usd" not in figures and money.spot.wait is not None:
        share = spot.available_share.term("spot.available_share", life=money.spot.life, wait=money.spot.wait)
        found["available_share"] = share
        found["available_tokens_per_s"] = spot.available_rate.term(
            "spot.available_tokens_per_s", rate=figures["tokens_per_s"], available=share
        )
    return found | _break_even(money)


def _fleet(figures: Mapping[str, Term], chips: Term) -> Term | None:
    """What all machines cost a second; None where no cost is told."""
    costs = [term for key, term in figures.items() if "usd" in key]
    whole = next((one for term in costs if (one := term.find(_FLEET)) is not None), None)
    each = None if whole is not None else next((one for term in costs if (one := term.find("hw.price")) is not None), None)
    return whole if each is None else usd_per_s_of_all.term(_FLEET, units=chips, price=each)


def _carbon(figures: Mapping[str, Term], money: Money) -> dict[str, Term]:
    if money.grid is None:
        return {}
    found: dict[str, Term] = {}
    for key, term in figures.items():
        if key == "energy_joules":
            found["co2e_kg"] = carbon.co2e_kg.term("carbon.co2e", energy=term, grid=money.grid)
        elif key.startswith("energy_joules_per_"):
            what = key.removeprefix("energy_joules_per_")
            found[f"co2e_kg_per_million_{what}s"] = carbon.co2e_kg_per_million.term(
                f"carbon.million_{what}s", energy=term, grid=money.grid
            )
    return found


def _credits(figures: Mapping[str, Term], fleet: Term | None, credits: Term) -> dict[str, Term]:
    if "cost_usd" in figures:
        cost = figures["cost_usd"]
        return {
            "credits_used_usd": spot.credits_used.term("cost.credits_used", cost=cost, credits=credits),
            "cost_after_credits_usd": spot.after_credits.term("cost.after_credits", cost=cost, credits=credits),
        }
    if fleet is None:
        return {}
    return {"credits_last_s": spot.credits_last_seconds.term("cost.credits_last", credits=credits, price=fleet)}


def _break_even(money: Money) -> dict[str, Term]:
    """When buying has paid, where renting costs more than running what is bought."""
    owned = money.owned
    if owned is None or owned.rent is None or agreed(owned.rent.value <= owned.running.value) or agreed(owned.bought.value == 0):
        return {}
    return {
        "break_even_s": owning.break_even_seconds.term(
            "own.break_even", bought=owned.bought, rent=owned.rent, running=owned.running
        )
    }
