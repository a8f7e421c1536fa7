"""What a question names: prices are looked for where a cost is shown, and a missing one is said, never zero."""

from __future__ import annotations

from gpuplan.plan.ask_serving import ServeAsk
from gpuplan.search.library import Library
from gpuplan.units import HOUR


def found(on: str, **more: float):
    ask = ServeAsk(model="llama-3.1-8b", on=on, **more)
    return Library.of(ask).look_up(ask, "serve")


def test_an_instance_is_priced_by_its_offer_and_the_note_names_it():
    one = found("2xaws:p5.48xlarge")
    assert abs(one.subject.price.value * HOUR - 55.04 / 8) < 1e-9
    assert any("us-east-1" in note.text and "2026-10-10" in note.text for note in one.notes if note.code == "price.used")


def test_an_instance_without_a_price_says_so():
    one = found("aws:trn2.48xlarge")
    assert one.subject.price is None
    assert any(note.code == "price.unknown" for note in one.notes)


def test_bare_accelerators_take_the_street_price_and_say_so():
    one = found("8xh100")
    assert one.subject.price.value > 0
    assert any(note.code == "price.street" for note in one.notes)


def test_the_users_price_is_for_what_on_counts():
    one = found("2xdgx-h100", price=80 / HOUR)
    assert abs(one.subject.price.value * HOUR - 10.0) < 1e-9
