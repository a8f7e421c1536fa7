"""What does a token cost here by its kind, what would an API ask, and from how many tokens a month on is this cheaper?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gpuplan.estimate.money import month_in_use
from gpuplan.formulas import token_prices as form
from gpuplan.formulas.basic import difference, product, rate_each
from gpuplan.formulas.cost import usd_per_s_of_all
from gpuplan.record import Record
from gpuplan.term import Term, total
from gpuplan.workload.context import ONE

if TYPE_CHECKING:
    from gpuplan.estimate.serving_figures import ServingFigures
    from gpuplan.estimate.subject import Subject
    from gpuplan.plan.serve import ServePlan


class Listed(Record, kw_only=True):
    """What an API asks for a million tokens read, written, and read from a cache; without a price of the last as for any."""

    read: Term
    written: Term
    cached: Term | None = None


def token_figures(
    made: ServingFigures, plan: ServePlan, subject: Subject, listed: Listed | None
) -> dict[str, Term]:  # fmt: skip
    """Costs by kind of token and by month under a load or beside an API's prices, where the price of the machines is known."""
    figures = made.figures
    if subject.price is None or (plan.load is None and listed is None) or "tokens_per_s" not in figures or not float(plan.output):
        return {}
    fleet = usd_per_s_of_all.term("fleet.price", units=subject.accelerators(), price=subject.price)
    output = subject.plan("output", plan.output)
    tokens_per_s = figures["tokens_per_s"]
    requests = figures.get("requests_per_s") or rate_each.term("cost.requests_per_s", rate=tokens_per_s, ways=output)
    found = _by_kind(made, plan, subject, fleet, requests)
    found["cost_usd_per_month"] = form.usd_in_time.term("cost.month", price=fleet, time=month_in_use(subject.price))
    if listed is not None:
        found |= _against(listed, figures, fleet, requests, subject, plan)
    return found


def _tokens(plan: ServePlan, subject: Subject) -> tuple[Term, Term | None]:
    """Tokens of a prompt that are read anew, and those that the cache holds."""
    prompt = subject.plan("prompt", plan.prompt)
    share = 0.0 if plan.load is None else plan.load.cached_share
    if not share:
        return prompt, None
    cached = product.term("cost.cached_tokens", a=prompt, b=subject.plan("cached_share", share))
    return difference.term("cost.fresh_tokens", whole=prompt, part=cached), cached


def _by_kind(
    made: ServingFigures, plan: ServePlan, subject: Subject, fleet: Term, requests: Term
) -> dict[str, Term]:  # fmt: skip
    """Dollars of a million tokens read, read from the cache, and written, by the time that each takes of the machines."""
    share = _prompts_share(made, plan, subject, requests)
    if share is None or made.prefill is None:
        return {}
    fresh, cached = _tokens(plan, subject)
    found: dict[str, Term] = {}
    reading = share
    if cached is not None and "attention" in made.prefill.parts:
        part = form.cached_share_of_reading.term(
            "cost.cached_part", attention=made.prefill.parts["attention"], reading=made.prefill.seconds, cached=cached, fresh=fresh
        )
        held = form.part_of_part.term("cost.cached_time_share", whole=share, part=part)
        reading = difference.term("cost.fresh_time_share", whole=share, part=held)
        found["cached_cost_usd_per_million"] = _million("cached", fleet, held, requests, cached)
    found = {"input_cost_usd_per_million": _million("reading", fleet, reading, requests, fresh), **found}
    writing = difference.term("cost.writing_time_share", whole=ONE, part=share)
    found["output_cost_usd_per_million"] = form.usd_per_million_read.term(
        "cost.million_written", price=fleet, share=writing, tokens_per_s=made.figures["tokens_per_s"]
    )
    return found


def _million(what: str, fleet: Term, share: Term, requests: Term, tokens: Term) -> Term:
    rate = _rate(f"cost.{what}_tokens_per_s", requests, tokens)
    return form.usd_per_million_read.term(f"cost.million_{what}", price=fleet, share=share, tokens_per_s=rate)


def _rate(name: str, per_s: Term, tokens: Term) -> Term:
    """So many tokens each, so often a second."""
    from gpuplan.formulas.queueing import tokens_of_requests

    return tokens_of_requests.term(name, rate=per_s, tokens=tokens)


def _prompts_share(made: ServingFigures, plan: ServePlan, subject: Subject, requests: Term) -> Term | None:
    """Part of the machines' time in use that prompts take; the time without work is shared out alike."""
    full = made.figures.get("highest_rate_per_s")
    if full is not None:
        args = dict(full.args)
        if {"places", "output", "step", "added"} <= args.keys():
            return form.prompts_share_when_full.term(
                "cost.prompts_share", **{name: args[name] for name in ("places", "output", "step", "added")}
            )
        return None
    batch = made.figures["tokens_per_s"].find("batch.seconds")
    if batch is not None and "batch_prefill_s" in made.figures:
        return form.prompts_share_of_batch.term("cost.prompts_share", prefill=made.figures["batch_prefill_s"], whole=batch)
    if made.prefill is None:
        return None
    replicas = subject.plan("dp", plan.parallel.dp)
    return form.prompts_share_of_rate.term("cost.prompts_share", per_s=requests, seconds=made.prefill.seconds, replicas=replicas)


def _against(
    listed: Listed, figures: Mapping[str, Term], fleet: Term, requests: Term, subject: Subject, plan: ServePlan
) -> dict[str, Term]:  # fmt: skip
    """What an API asks for the same requests, and from how many tokens a month on these machines cost no more."""
    assert subject.price is not None  # `token_figures` asks nothing else.
    month = month_in_use(subject.price)
    fresh, cached = _tokens(plan, subject)
    output = subject.plan("output", plan.output)
    none = product.term("cost.no_tokens", a=fresh, b=Term("zero", 0.0, "1", ONE.source))
    each = form.listed_usd.term(
        "api.request", fresh=fresh, cached=cached or none, output=output, input_price=listed.read,
        cached_price=listed.cached or listed.read, output_price=listed.written,
    )  # fmt: skip
    tokens = total("cost.tokens_of_request", {"prompt": subject.plan("prompt", plan.prompt), "output": output})
    most = figures.get("highest_rate_per_s", requests)
    return {
        "cost_usd_per_thousand_requests": form.usd_per_thousand_requests.term("cost.requests", price=fleet, per_s=requests),
        "api_cost_usd_per_thousand_requests": form.usd_of_thousand.term("api.requests", each=each),
        "api_cost_usd_per_month": form.usd_of_rate.term("api.month", each=each, per_s=requests, time=month),
        "break_even_tokens_per_month": form.break_even_tokens.term(
            "api.break_even_tokens", monthly=form.usd_in_time.term("cost.month", price=fleet, time=month), each=each, tokens=tokens
        ),
        "carried_tokens_per_month": form.tokens_in_time.term(
            "cost.carried_tokens", per_s=_rate("cost.most_tokens_per_s", most, tokens), time=month
        ),
    }
