"""Slices of TPU pods that no list names: shapes of whole cubes, and several slices where a pod is too small."""

from __future__ import annotations

import pytest

from gpuplan.errors import UnknownError, UsageError
from gpuplan.specs.catalog import Catalog
from gpuplan.specs.on import parse_target

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


@pytest.mark.parametrize(
    ("on", "near"),
    [
        ("24xtpu-v6e", "16 chips (`v6e-16`) or 32 chips (`v6e-32`)"),
        ("tpu-v6e-24", "`v6e-16` and `v6e-32`"),
        ("tpu-v5p-12", "`v5p-8` and `v5p-16`"),
        ("2x60xtpu-v5p", "32 chips (`v5p-64`) or 64 chips (`v5p-128`)"),
        ("tpu-v5e-512", "`v5litepod-256`"),
        ("tpu-v5p-8x8x9", "`v5p-4x12x12` (576 chips) and `v5p-4x8x20` (640 chips)"),
        ("tpu-v5e-4x3", "`v5e-2x4` (8 chips) and `v5e-4x4` (16 chips)"),
        ("tpu-v5e-16x32", "`v5e-16x16` (256 chips)"),
    ],
)
def test_odd_slices_name_the_nearest(on: str, near: str) -> None:
    with pytest.raises(UnknownError) as error:
        parse_target(on, CATALOG)
    assert near in error.value.problems[0].hint


def test_shapes_of_whole_cubes_need_no_list() -> None:
    """TPU v5p is cut in any shape of multiples of four."""
    target = parse_target("tpu-v5p-8x8x20", CATALOG)
    assert (target.levels[0].dims, target.count) == ((8, 8, 20), 1280)


def test_slices_of_a_number_of_chips() -> None:
    """`2x64xtpu-v5p`: two slices, not one of 128 chips."""
    target = parse_target("2x64xtpu-v5p", CATALOG)
    assert (target.count, target.units, target.per_unit) == (128, 2, 64)
    assert [level.name for level in target.levels] == ["ici", "dcn"]
    assert [level.name for level in parse_target("128xtpu-v5p", CATALOG).levels] == ["ici"]


def test_accelerators_without_slices_take_one_count() -> None:
    with pytest.raises(UsageError) as error:
        parse_target("2x8xh100-sxm-80gb", CATALOG)
    assert error.value.problems[0].code == "target.no-slices"
