"""The memory of a part that is sold with several sizes."""

from __future__ import annotations

import pytest

import gpuplan
from gpuplan.errors import UnknownError, UsageError

GIB = 2**30


@pytest.mark.parametrize("typed", ["64GB", "64 GiB", "64", "64g", 64 * GIB, 64e9])
def test_a_size_is_taken_as_it_is_sold(typed: str | float) -> None:
    made = gpuplan.fit("llama-3.1-8b", on="m3 max", memory=typed, advise=False)
    whole = gpuplan.fit("llama-3.1-8b", on="m3 max", advise=False)
    assert made["memory_capacity_bytes"].value == 0.75 * 64 * GIB
    assert whole["memory_capacity_bytes"].value == 0.75 * 128 * GIB
    assert any("comes with" in note.text for note in whole.notes)
    assert not any("comes with" in note.text for note in made.notes)


def test_what_is_not_sold_is_refused_and_the_sibling_named() -> None:
    with pytest.raises(UsageError, match="48 GiB, 64 GiB or 128 GiB") as caught:
        gpuplan.fit("llama-3.1-8b", on="m3 max", memory="36GB")
    assert "apple-m3-max-30c" in caught.value.problems[0].hint
    assert gpuplan.fit("llama-3.1-8b", on="apple-m3-max-30c", memory="36GB", advise=False).fits


def test_one_size_is_the_only_one() -> None:
    assert gpuplan.fit("llama-3.1-8b", on="h100", memory="80GB", advise=False).fits
    with pytest.raises(UsageError, match="80 GiB alone"):
        gpuplan.fit("llama-3.1-8b", on="h100", memory="94GB")


def test_a_processor_has_what_its_user_put_in() -> None:
    made = gpuplan.fit("llama-3.1-8b", on="cpu-epyc-9654", memory="512GB", advise=False)
    assert made["memory_budget_bytes"].value < 512 * GIB
    assert made["memory_capacity_bytes"].value > 400 * GIB


def test_two_sizes_at_once() -> None:
    with pytest.raises(UsageError, match="exclude"):
        gpuplan.fit("llama-3.1-8b", on="m3 max", memory="64GB", set={"hw.memory_capacity": "48 GiB"})


@pytest.mark.parametrize("typed", ["lots", "-4GB", "0", ""])
def test_no_size(typed: str) -> None:
    with pytest.raises(UsageError, match="--memory"):
        gpuplan.fit("llama-3.1-8b", on="m3 max", memory=typed)


def test_a_size_in_the_name() -> None:
    named = gpuplan.fit("llama-3.1-8b", on="M3 Max 64GB", advise=False)
    assert named["memory_capacity_bytes"].value == 0.75 * 64 * GIB
    assert not any("comes with" in note.text for note in named.notes)
    whole, alone = (gpuplan.fit("llama-3.1-8b", on=on, advise=False) for on in ("rtx-4080-16gb", "rtx-4080"))
    assert whole["memory_budget_bytes"].value == alone["memory_budget_bytes"].value
    with pytest.raises(UsageError, match="`RTX 4070 48GB`: rtx-4070 comes with 12 GiB alone"):
        gpuplan.fit("llama-3.1-8b", on="RTX 4070 48GB")
    with pytest.raises(UnknownError, match="`RTX 4090 48GB`: rtx-4090 comes with 24 GiB alone"):  # Others refit it so.
        gpuplan.fit("llama-3.1-8b", on="RTX 4090 48GB")
    with pytest.raises(UsageError, match="say two sizes"):
        gpuplan.fit("llama-3.1-8b", on="m3-max-64gb", memory="128GB")
