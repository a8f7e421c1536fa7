"""What does a token cost, in money and in energy, on accelerators whose price and power are known?"""

from __future__ import annotations

from gpuplan.estimate.subject import Subject
from gpuplan.formulas import cost
from gpuplan.formulas.carbon import site_watts
from gpuplan.formulas.inference import fleet_watts
from gpuplan.term import Term


def spent(subject: Subject, tokens_per_s: Term, what: str = "output_tokens") -> dict[str, Term]:
    """The figures of all accelerators of a question: dollars of a million tokens, joules of one; nothing of what is not known."""
    chips, power = subject.accelerators(), subject.hw.power
    price = None if subject.price is None else cost.usd_per_s_of_all.term("fleet.price", units=chips, price=subject.price)
    drawn = None if power is None else fleet_watts.term("fleet.power", chips=chips, watts=power)
    pue = None if subject.money is None else subject.money.pue
    if drawn is not None and pue is not None:
        drawn = site_watts.term("site.power", watts=drawn, pue=pue)
    return spent_by(price, drawn, tokens_per_s, what)


def spent_by(price: Term | None, watts: Term | None, tokens_per_s: Term, what: str = "output_tokens") -> dict[str, Term]:
    """The same from the price of a second and the power of all accelerators together."""
    figures = dict[str, Term]()
    if price is not None:
        figures[f"cost_usd_per_million_{what}"] = cost.usd_per_million_tokens.term(
            f"cost.million_{what}", price=price, tokens_per_s=tokens_per_s
        )
    if watts is not None:
        figures["energy_joules_per_token"] = cost.joules_per_token.term("energy.token", watts=watts, tokens_per_s=tokens_per_s)
    return figures
