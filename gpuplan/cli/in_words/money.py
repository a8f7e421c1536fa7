"""What does a question mean by a sum of money: one that is paid once for a machine, or what it may cost to rent one?"""

from __future__ import annotations

import re
from collections.abc import Mapping

_BUY = r"(?:buy|buying|bought|purchas(?:e|ing)|own|owning)"
_PARTS = r"(?:gpus?|graphics cards?|cards?|pcs?|computers?|macs?|macbooks?|laptops?|workstations?|rigs?|builds?|box)"
_ONCE = re.compile(
    rf"\b{_BUY}\b|\b{_PARTS} (?:for |that costs? )?(?:under|below|less than|up to|within|around|about|at most)\b|"
    rf"\b{_PARTS} for \$?\d"
)
_EACH = re.compile(r"(?:\b(?:per|each|every|an?)|/) ?(?:hour|hr|h|day|week|month|mo|year|yr)\b|\bmonthly|\bhourly|\byearly")
"""Words of what is paid again and again."""
EITHER = re.compile(rf"\b{_BUY}\b.*\b(?:rent|renting|cloud|lease)\b|\b(?:rent|renting|cloud|lease)\b.*\b{_BUY}\b")
"""Words of who weighs owning against renting: the answer is a cost of serving or of training."""
_CARBON = re.compile(r"\b(?:carbon|co2e?|emissions?|footprint)\b")


def paid_once(text: str, given: Mapping[str, str]) -> tuple[Mapping[str, str], str]:
    """The amounts without a sum that is paid once for a machine, and that sum; "" where the question has none.

    >>> paid_once("best gpu under 500 dollars for qwen3 14b", {"budget": "500"})
    ({}, '500')
    >>> paid_once("which gpu for under 500 dollars a month", {"budget": "500"})
    ({'budget': '500'}, '')
    """
    if "budget" not in given or _EACH.search(text) or not _ONCE.search(text):
        return given, ""
    return {name: value for name, value in given.items() if name != "budget"}, given["budget"]


def of_money(text: str, once: str) -> str:
    """What a question about money leaves open that no option of its command says; "" where it leaves nothing open.

    `once`: the sum that is to be paid once.

    >>> of_money("buy or rent 8 h100", "").startswith("a machine of one's own is said with `--own USD`")
    True
    """
    if once:
        return (
            f"{once} USD is paid once, and prices on record are those of renting: name a card that you find for it, and what it "
            f"costs a month is said with `--on CARD --own {once}`"
        )
    if EITHER.search(text):
        return "a machine of one's own is said with `--own USD`, all that is paid for it: ask with it and without, and compare"
    return (
        "carbon is said with `--grid`, the country whose electricity it takes, such as `--grid france`"
        if _CARBON.search(text)
        else ""
    )


def terms_of(text: str) -> list[str]:
    """The option of `gpuplan prices list` for the terms that a question names.

    >>> terms_of("spot h100 price"), terms_of("h100 price")
    (['--kind', 'spot'], [])
    """
    return ["--kind", "spot"] if re.search(r"\b(?:spot|preemptible|interruptible)\b", text) else []
