"""Prices on the command line: which one a question takes, how it is said, and when it is refused."""

from __future__ import annotations

import json

import pytest
from cli_calls import Call

SERVE = ("serve", "llama-3.1-8b", "--on", "aws:p5.48xlarge")


def said_price(text: str) -> str:
    return " ".join(text[text.index("price: ") :].partition("give another")[0].split())


def test_the_note_names_price_date_region_kind_and_source(call: Call) -> None:
    said = call(*SERVE, columns=100)
    assert said.code == 0
    note = said_price(said.out)
    for part in ("55.04 USD/h", "aws:p5.48xlarge in us-east-1", "on demand", "2026-07-20", "("):
        assert part in note
    spot = said_price(call(*SERVE, "--price-kind", "spot").out)
    assert "spot" in spot
    assert "USD/h for aws:p5.48xlarge in us-east-1" in spot


def test_street_prices_are_on_the_terms_asked_for(call: Call) -> None:
    said = call("serve", "llama-3.1-8b", "--on", "h100", "--price-kind", "spot", "--region", "us-east-1")
    assert said.code == 0
    assert "the cheapest spot price in us-east-1 on record is taken" in " ".join(said.out.split())


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (("--price-kind", "spt"), 2, "--price-kind spt: no such choice"),
        (("--price-date", "2026-02-30"), 2, "--price-date 2026-02-30: no such day"),
        (("--price-date", "yesterday"), 2, "no such day"),
        (("--max-price-age", "0"), 2, "--max-price-age 0"),
        (("--price", "2", "--region", "us-east-1"), 2, "--region means nothing beside --price"),
        (("--price", "0"), 2, "a price is above zero"),
        (("--price", "nan"), 2, "--price"),
        (("--region", "eu-west-9"), 5, "no on-demand price in eu-west-9"),
        (("--price-date", "2020-01-01"), 5, "from 2020-01-01 or before"),
        (("--max-price-age", "1", "--price-date", "2026-11-21"), 5, "is of 2026-07-20, 124 days old; --max-price-age allows 1"),
    ],
)
def test_prices_that_are_refused(call: Call, words: tuple[str, ...], code: int, text: str) -> None:
    said = call(*SERVE, *words)
    assert said.code == code
    assert text in said.err
    assert "Traceback" not in said.err


def test_an_old_street_price_is_named_with_its_date(call: Call) -> None:
    said = call("serve", "llama-3.1-8b", "--on", "h100", "--max-price-age", "1", "--price-date", "2026-11-21")
    assert said.code == 5
    assert "days old; --max-price-age allows 1" in said.err


def test_fit_shows_a_price_only_where_one_is_asked_for(call: Call) -> None:
    plain = json.loads(call("fit", "llama-3.1-8b", "--on", "2xaws:p5.48xlarge", "--json").out)
    asked = json.loads(call("fit", "llama-3.1-8b", "--on", "2xaws:p5.48xlarge", "--price", "36", "--json").out)
    assert "price_usd_per_s" not in plain["figures"]
    assert asked["figures"]["price_usd_per_s"]["value"] == pytest.approx(0.02)


def test_prices_in_a_comparison(call: Call) -> None:
    words = ("compare", "serve", "llama-3.1-8b", "--on", "aws:p5.48xlarge", "--on", "aws:p5en.48xlarge", "--price-kind", "spot")
    said = call(*words, columns=120)
    assert said.code in (0, 5)
    assert "Traceback" not in said.err
