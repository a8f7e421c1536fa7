"""What does a fleet come to, of what one of its units does: accelerators, money a month and a token, power, and autoscaling?"""

from __future__ import annotations

from collections.abc import Iterator

from gpuplan.errors import Note
from gpuplan.estimate.money import month_in_use
from gpuplan.estimate.planned import Candidate
from gpuplan.estimate.result import Estimate
from gpuplan.formulas import cost
from gpuplan.formulas.basic import product
from gpuplan.formulas.inference import fleet_watts
from gpuplan.planner.serve import Served, Wanted
from gpuplan.planner.serve_ask import unit_replicas
from gpuplan.planner.serve_load import WINDOW, Loaded
from gpuplan.search.load import rate_text
from gpuplan.term import USER, Source, Term, total
from gpuplan.units import human, so_many


def fleet_figures(unit: Estimate, served: Served, want: Wanted) -> dict[str, Term]:
    """The figures of a whole fleet, each with its working down to those of the unit."""
    fleet = served.fleet
    needed = Term("fleet.parts", float(fleet.parts), "1", Source("chosen", "the fewest that keep the load with the promise"))
    parts = total("fleet.parts_with_spare", {"needed": needed, "spare": Term("plan.spare", float(want.spare), "1", USER)})
    of_part = Source("chosen", "accelerators of a replica" if served.option.alone else "accelerators of a unit")
    each = Term("fleet.accelerators_of_part", float(fleet.accelerators / (fleet.parts + want.spare)), "1", of_part)
    count = product.term("fleet.accelerators", a=parts, b=each)
    price, watts = price_each(unit), unit.find("hw.power")
    figures = spent(count, price, watts)
    if price is not None:
        tokens = _tokens(unit, served, want)
        if tokens is not None:
            whole = cost.usd_per_s_of_all.term("fleet.usd_per_s", units=count, price=price)
            million = "million_tokens" if want.promise.reads else "million_output_tokens"
            figures[f"cost_usd_per_{million}"] = cost.usd_per_million_tokens.term(
                f"fleet.{million}", price=whole, tokens_per_s=tokens
            )
    return figures


def spent(count: Term, price: Term | None, watts: Term | None) -> dict[str, Term]:
    """Accelerators, and what they cost a month and draw, as far as the price and the power of one are known."""
    figures = {"accelerators": count}
    if price is not None:
        month = month_in_use(price)
        figures["cost_usd_per_month"] = cost.run_usd.term("fleet.usd_per_month", chips=count, seconds=month, price=price)
    if watts is not None:
        figures["fleet_power_watts"] = fleet_watts.term("fleet.watts", chips=count, watts=watts)
    return figures


def price_each(unit: Estimate) -> Term | None:
    """USD a second of one accelerator, as the estimate of a unit takes it; None where no price is known."""
    whole = unit.find("fleet.price")
    return None if whole is None else dict(whole.args).get("price")


def _tokens(unit: Estimate, served: Served, want: Wanted) -> Term | None:
    """Tokens a second of all parts together: those that are made, or that a model reads which makes none."""
    one = unit.figures.get("tokens_per_s")
    if one is None:
        return None
    units = served.fleet.parts / (unit_replicas(served, served.fleet.parts) if served.option.alone else 1)
    units_term = Term("fleet.units", units, "1", Source("derived", "replicas over those of the unit that was estimated"))
    return product.term("fleet.tokens_per_s", a=one, b=units_term) if one.unit == "1" else _rates(one, units_term)


def _rates(one: Term, units: Term) -> Term:
    from gpuplan.formulas.queueing import tokens_of_requests

    return tokens_of_requests.term("fleet.tokens_per_s", rate=one, tokens=units)


def fleet_words(served: Served, spare: int) -> str:
    """How a fleet is divided, in words."""
    fleet, option = served.fleet, served.option
    replicas = fleet.parts if option.alone else fleet.parts * fleet.division.dp
    each = fleet.division.words()
    more = ""
    if spare:
        more = f" + {spare} spare" if option.alone else f" + {spare * fleet.division.dp} spare"
    return f"{replicas:,} x {each}{more}"


def autoscaled(load: Loaded, want: Wanted, served: Served, best: Candidate) -> Iterator[Note]:
    """What a fleet takes that grows and shrinks with its load, beside one for the busiest window of a trace or for a peak."""
    if load.mean is not None:
        yield _between(load.mean, want, served, best)
    if load.rates is None or not load.rates.size:
        return
    import numpy as np

    fleet = served.fleet
    each = load.rates.max() / fleet.parts
    parts = np.maximum(np.ceil(load.rates / each - 1e-9), 1.0) + want.spare
    share = float(parts.mean()) / (fleet.parts + want.spare)
    usd = best.figures.get("cost_usd_per_month")
    money = "" if usd is None else f", {human(usd * share, 'USD')} a month in place of {human(usd, 'USD')}"
    text = (
        f"scaled every {WINDOW / 60:g} minutes of the trace, {parts.mean():.3g} of {so_many(fleet.parts + want.spare, 'part')}"
        f" run in the mean and {parts.min():.0f} at least ({share:.0%} of the hours{money})"
    )
    yield Note("plan.autoscaled", text, "what a start takes is not counted")


def _between(mean: float, want: Wanted, served: Served, best: Candidate) -> Note:
    """What a fleet takes in the mean whose parts carry as much each as at the peak: at least one, and the spare ones besides."""
    whole = served.fleet.parts + want.spare
    parts = max(served.fleet.parts * mean / want.amount, 1.0) + want.spare
    usd = best.figures.get("cost_usd_per_month")
    money = "" if usd is None else f", {human(usd * parts / whole, 'USD')} a month in place of {human(usd, 'USD')}"
    busy = f"{parts:.3g} of {so_many(whole, 'part')} are busy as at the peak ({parts / whole:.0%}{money})"
    text = f"at the mean of {rate_text(mean)} {busy}"
    return Note("plan.autoscaled", text, "parts come whole and take a while to start: count on more")
