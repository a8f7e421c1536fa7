"""`tools/memory_sources.py`: the range of memory is that of sources left out, and what was learnt from a source goes with it."""

from __future__ import annotations

import pytest

from gpuplan.specs.catalog import Catalog, shipped_folder
from gpuplan.specs.engine import Engine
from tools.memory_sources import ABOVE, BELOW, KNEW, OWN, Case, found, learnt, left_out, peaks, profiles, residual_of, unlearnt

ENGINES = profiles()


def shipped() -> dict[str, tuple[float, float]]:
    """The residual's range of every engine that has the common one."""
    catalog = Catalog([shipped_folder()])
    engines = {ident: catalog.load(Engine, ident) for ident in ENGINES if ident not in OWN}
    made = {}
    for ident, engine in engines.items():
        assert engine.training is not None
        assert engine.training.memory_residual is not None, ident
        assert engine.training.memory_residual.accept is not None, ident
        made[ident] = engine.training.memory_residual.accept
    return made


def test_all_engines_share_one_range() -> None:
    assert len(set(shipped().values())) == 1


@pytest.mark.slow
@pytest.mark.long
def test_the_range_is_what_the_tool_finds() -> None:
    (kept,) = set(shipped().values())
    assert residual_of(left_out(peaks(), ENGINES)) == pytest.approx(kept)


def test_a_residual_leaves_few_rows_out_and_no_more_room_than_that() -> None:
    # Ninety peaks as estimated, nine of each kind off: a range that leans upwards holds all but the shares that may lie outside.
    rows = [Case("a", measured, 1.0, 1.0) for measured in [1.0] * 82 + [1.2] * 9 + [0.9] * 9]
    low, high = residual_of(rows)
    assert (low, high) == (0.9, 1.2)
    above = sum(one.measured > one.ends((low, high))[1] for one in rows)
    below = sum(one.measured < one.ends((low, high))[0] for one in rows)
    assert above <= ABOVE * len(rows)
    assert below <= BELOW * len(rows)


def test_swings_of_the_residual_and_of_counts_add_in_quadrature() -> None:
    assert Case("a", 1.0, 0.97, 1.3).ends((0.96, 1.4)) == pytest.approx((0.95, 1.5))


def test_sources_count_nearly_alike_however_many_rows_they_have() -> None:
    many = [Case("many", 1.0, 1.0, 1.0)] * 99
    assert residual_of([*many, Case("few", 1.3, 1.0, 1.0)])[1] == pytest.approx(1.3)


def test_one_row_of_twenty_sources_makes_no_range() -> None:
    others = [Case(f"source {at}", 1.0, 1.0, 1.0) for at in range(19) for _ in range(9)]
    assert residual_of([*others, Case("one", 1.3, 1.0, 1.0)]) == (1.0, 1.0)
    assert residual_of([*others, *[Case("many", 1.3, 1.0, 1.0)] * 40, *[Case("too", 1.3, 1.0, 1.0)] * 40])[1] == pytest.approx(1.3)


@pytest.mark.parametrize("source", sorted({name for names in KNEW.values() for name in names}))
def test_nothing_that_was_learnt_from_a_source_is_left(source: str) -> None:
    without = unlearnt(ENGINES, source)
    for ident, knew in KNEW.items():
        for at in learnt(ENGINES[ident]):
            others = [one for other, one in ENGINES.items() if source not in KNEW.get(other, ())]
            values = [found(one, at) for one in others if found(one, at) is not None]
            now = found(without[ident], at)
            if source not in knew:
                assert now == found(ENGINES[ident], at)
            elif values:
                assert now["value"] in [one["value"] if isinstance(one, dict) else one for one in values]
            else:
                assert now is None
