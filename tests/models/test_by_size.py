"""A model of which only the size is known is a transformer of that size, with the proportions of published ones."""

from __future__ import annotations

from itertools import pairwise

import pytest

from gpuplan.errors import UnknownError
from gpuplan.models.by_size import card_by_size, size_said
from gpuplan.models.catalog import find

SIZES = ("60m", "124m", "350M", "760m", "1.3b", "2.7B", "7b", "13b", "34b", "70b", "175b", "405b", "1t", "10t")
MIXTURES = {"8b-a1b": 1e9, "30b-a3b": 3e9, "47b-a13b": 13e9, "120b-a5b": 5e9, "480b-a35b": 35e9, "1t-a32b": 32e9}


@pytest.mark.parametrize("name", [*SIZES, *MIXTURES])
def test_it_has_just_so_many_parameters(name: str) -> None:
    size, card = size_said(name), card_by_size(name)
    assert size is not None
    assert card is not None
    found = card.count()
    assert float(found.params_total.value) == pytest.approx(size.total, rel=0.03 if name in MIXTURES else 0.01)
    assert float(found.params_active.value) == pytest.approx(MIXTURES.get(name, size.total), rel=0.05 if name in MIXTURES else 0.01)
    assert "is a size and no model" in card.notes[0]


@pytest.mark.parametrize(
    ("size", "card"),
    [("8.03b", "llama-3.1-8b"), ("70.55b", "llama-3.1-70b"), ("405.85b", "llama-3.1-405b"), ("30.53b-a3.353b", "qwen3-30b-a3b")],
)
def test_a_published_model_is_met_by_its_size(size: str, card: str) -> None:
    made = card_by_size(size)
    assert made is not None
    known = find(card)
    assert made.architecture == known.architecture
    assert made.id == size
    assert made.license is None
    assert made.published is None


def test_larger_ones_are_deeper_and_wider() -> None:
    for small, large in pairwise(SIZES[6:]):
        one, two = find(small).architecture, find(large).architecture
        assert (one.depth, one.hidden) <= (two.depth, two.hidden)
        assert all(mixer.kv_heads_held() is not None and mixer.divided_by() % 8 == 0 for mixer in (*one.mixers, *two.mixers))


@pytest.mark.parametrize("name", ["13", "b", "0b", "1m", "9999t", "3b-a3b", "3b-a30b", "llama-13b", "13b-instruct", "-7b", "7b:q4"])
def test_what_says_more_or_nothing_is_no_size(name: str) -> None:
    assert size_said(name) is None


def test_where_cards_alone_are_asked_for_a_size_is_none() -> None:
    with pytest.raises(UnknownError):
        find("13b", cards_only=True)
