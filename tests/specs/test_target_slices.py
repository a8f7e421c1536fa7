"""Slices of TPU pods that no list names: shapes of whole cubes, and several slices where a pod is too small."""

from __future__ import annotations

import pytest

from gpuplan.errors import UnknownError
from gpuplan.specs.catalog import Catalog
from gpuplan.specs.target import parse_target

CATALOG = Catalog.open()


@pytest.mark.parametrize(
    ("on", "dims", "units"), [("192xtpu-v4", (4, 4, 12), 1), ("6144xtpu-v4", (12, 16, 16), 2), ("512xtpu-v5e", (16, 16), 2)]
)
def test_chips_are_cut_into_cubes_or_joined_slices(on: str, dims: tuple[int, ...], units: int) -> None:
    """Chips of a pod with cubes make the most cube-like torus, more chips than a pod has several slices on the network."""
    target = parse_target(on, CATALOG)
    assert target.levels[0].dims == dims
    assert target.units == units
    assert [level.name for level in target.levels] == ["ici", "dcn"][: 1 + (units > 1)]


def test_other_counts_are_refused() -> None:
    """A count that is no torus is no slice."""
    with pytest.raises(UnknownError):
        parse_target("100xtpu-v4", CATALOG)
