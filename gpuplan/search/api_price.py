"""What does an API ask for a million tokens, as a question says it, and which is cheaper?"""

from __future__ import annotations

from collections.abc import Mapping

from gpuplan.errors import Note, Problem, UsageError
from gpuplan.estimate.result import Estimate
from gpuplan.estimate.token_prices import Listed
from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.term import USER, Term
from gpuplan.units import UnitError, human, number

_HINT = "write USD for a million tokens read and written, and read from a cache, such as `--api-price 0.60/2.40/0.06`"
_MOST = 1e9
_CHEAPER = "api.cheaper"


def listed_of(ask: ServeAsk) -> Listed | None:
    """The prices of `--api-price`; None where there are none.

    Raises:
        UsageError: they are no two or three amounts.
    """
    if ask.api_price is None:
        return None
    texts = [one.strip() for one in ask.api_price.split("/")]
    if len(texts) not in (2, 3):
        raise UsageError(Problem("usage.api-price", f"--api-price {ask.api_price}: two or three prices are wanted", _HINT))
    try:
        values = [number(one.removeprefix("$")) for one in texts]
    except UnitError as error:
        raise UsageError(Problem("usage.api-price", f"--api-price: {error}", _HINT)) from None
    if not all(0 <= one <= _MOST for one in values) or not values[1]:
        raise UsageError(Problem("usage.api-price", f"--api-price {ask.api_price}: what is written has a price above zero", _HINT))
    names = ("read", "written", "cached")
    terms = [Term(f"api.usd_per_million_{name}", value, "USD", USER) for name, value in zip(names, values, strict=False)]
    return Listed(read=terms[0], written=terms[1], cached=terms[2] if len(terms) == 3 else None)


def told_anew(ask: ServeAsk, answer: Estimate) -> Estimate:
    """An answer whose figures changed, with what follows from them for `--api-price`."""
    rest = [note for note in answer.notes if note.code != _CHEAPER]
    return answer if ask.api_price is None else answer.replaced(notes=(*rest, *api_notes(ask, answer.figures)))


def api_notes(ask: ServeAsk, figures: Mapping[str, Term]) -> list[Note]:
    """Which is cheaper, and from how many tokens a month on; or why that is not known."""
    if ask.api_price is None:
        return []
    if "break_even_tokens_per_month" not in figures:
        known = any("usd" in key for key in figures)
        why = (
            "of requests that write nothing, it is not compared"
            if known
            else "without a price of the machines there is nothing to compare it with"
        )
        return [Note("api.idle", f"--api-price: {why}", "" if known else "give one with --price")]
    own, api = (float(figures[key].value) for key in ("cost_usd_per_month", "api_cost_usd_per_month"))
    even, most = (float(figures[f"{key}_tokens_per_month"].value) for key in ("break_even", "carried"))
    cheaper = "these machines are" if own <= api else "the API is"
    at = f"at this rate {cheaper} cheaper: {human(own, 'USD')} a month here, {human(api, 'USD')} there"
    if even > most:
        told = f"and however full, as they carry {human(most, '1')} tokens a month and would have to carry {human(even, '1')}"
    else:
        told = f"from {human(even, '1')} tokens a month on these machines are no dearer, and they carry {human(most, '1')}"
    return [Note(_CHEAPER, f"{at}; {told}")]
