"""What a run or a token costs: accelerator time, money, energy, and owning the machine."""

from __future__ import annotations

from gpuplan.num import Count, Joules, PerS, Ratio, Seconds, Usd, UsdPerS, Watts
from gpuplan.term import DEFINITION, Source, formula

_LLAMA = Source("paper", "LLaMA: Open and Efficient Foundation Language Models", "https://arxiv.org/abs/2302.13971", "section 6")


@formula(DEFINITION)
def accelerator_seconds(*, chips: Count, seconds: Seconds) -> Seconds:
    """Chip-time of a run: what is billed by the accelerator-hour.

    >>> accelerator_seconds(chips=2048, seconds=3.66 * 86400) / 3600 / 1e3
    179.9
    """
    return chips * seconds


@formula(DEFINITION)
def run_usd(*, chips: Count, seconds: Seconds, price: UsdPerS) -> Usd:
    """Money for a run at a price for each chip (or node) and second.

    440 A100 for 9.5 days at 2 USD an hour, published as about 200,000 USD:

    >>> run_usd(chips=440, seconds=9.5 * 86400, price=2 / 3600)
    200640.0
    """
    return chips * seconds * price


@formula(DEFINITION)
def usd_per_million_tokens(*, price: UsdPerS, tokens_per_s: PerS) -> Usd:
    """Money for a million tokens, from the price of all machines a second and the tokens they make a second.

    >>> usd_per_million_tokens(price=3.6 / 3600, tokens_per_s=1000)
    1.0
    """
    return 1e6 * price / tokens_per_s


@formula(_LLAMA)
def energy_joules(*, accelerator_seconds: Seconds, watts: Watts, pue: Ratio) -> Joules:
    """Energy of so much chip-time at a power for each chip, with the site's power usage effectiveness.

    LLaMA 65B, 1,022,362 GPU hours at 400 W and PUE 1.1, published as 449 MWh:

    >>> energy_joules(accelerator_seconds=1022362 * 3600, watts=400, pue=1.1) / 3.6e9
    449.8
    """
    return accelerator_seconds * watts * pue


@formula(DEFINITION)
def joules_per_token(*, watts: Watts, tokens_per_s: PerS) -> Joules:
    """Energy of a token, from the power of all machines and the tokens they make a second.

    >>> joules_per_token(watts=700.0, tokens_per_s=1000.0)
    0.7
    """
    return watts / tokens_per_s


@formula(DEFINITION)
def usd_per_s_of_all(*, price: UsdPerS, units: Count) -> UsdPerS:
    """What so many priced units cost together.

    >>> usd_per_s_of_all(price=2 / 3600, units=8.0) * 3600
    16.0
    """
    return price * units


@formula(DEFINITION)
def usd_per_s_each(*, price: UsdPerS, parts: Count) -> UsdPerS:
    """What one of the accelerators of an instance costs.

    >>> usd_per_s_each(price=16 / 3600, parts=8.0) * 3600
    2.0
    """
    return price / parts
