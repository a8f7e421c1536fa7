"""Are kernels that engines sum with, and the bounds up to which they take them, found again in rows that were made with them?"""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from gpuplan.calibrate.link_fits import fit_one
from gpuplan.calibrate.table_rows import Rows, TableRow, own_all_reduce_rows
from gpuplan.calibrate.trial_chip import Chip
from gpuplan.search.library import Library
from gpuplan.specs.accelerator import Accelerator

LIBRARY = {
    "pair": 0.78, "full": 0.89, "start": 6e-6, "per_doubling": 4.4e-6, "ramp": 7e-6, "bulk": 8.5e-6, "switch": 7e5, "ranks": 8.0,
}  # fmt: skip
KERNEL = {"pair": 0.6, "full": 0.75, "start": 3e-6, "per_doubling": 3e-7, "bulk": 4e-6, "ramp": 0.0}


def chip() -> Chip:
    return Chip.of(Library.shared().catalog.load(Accelerator, "h100-sxm-80gb"), 450e9)


def table_rows(kernel: str, seconds: np.ndarray, shapes: list[tuple[int, int]]) -> list[TableRow]:
    common = {"framework": "X", "version": "1.0", "kernel_source": kernel}
    return [
        TableRow(common | {"num_gpus": str(ranks), "message_size": str(size // 2), "latency": repr(1e3 * float(time))})
        for (size, ranks), time in zip(shapes, seconds, strict=True)
    ]


@pytest.mark.parametrize(("most", "up_to"), [(8.0, 1.5 * 2.0**23), (4.0, 1.5 * 2.0**24)])
def test_a_kernel_and_its_bounds_are_found_again(most: float, up_to: float) -> None:
    shapes = [(2**power, ranks) for power, ranks in product(range(8, 31), (2, 4, 8))]
    cols = {"size": np.array([float(size) for size, _ in shapes]), "group": np.array([float(ranks) for _, ranks in shapes])}
    blank = Rows(cols, np.ones(len(shapes)), np.zeros(len(shapes), dtype=bool), "")
    made = chip().custom(blank, {**KERNEL, "most_ranks": most, "up_to": up_to}, most, LIBRARY)
    found = fit_one(chip(), own_all_reduce_rows(table_rows("Own_graph", made, shapes), ("Own",)), LIBRARY)
    assert found is not None
    assert (found.values["most_ranks"].value, found.values["up_to"].value) == (most, up_to)
    assert found.errors.p90_ape < 0.02
    assert found.values["start"].value == pytest.approx(3e-6, rel=0.05)


def test_calls_without_a_graph_are_left_out_and_every_number_of_ranks_has_rows_held_back() -> None:
    shapes = [(2**power, ranks) for power, ranks in product(range(8, 31), (2, 4, 8))]
    seconds = np.ones(len(shapes))
    rows = table_rows("Own_graph", seconds, shapes) + table_rows("Own_eager", 2 * seconds, shapes)
    found = own_all_reduce_rows(rows, ("Own",))
    assert len(found) == len(shapes)
    assert set(found.seconds.tolist()) == {1.0}
    assert set(own_all_reduce_rows(rows, ("Own",), graphs=False).seconds.tolist()) == {2.0}
    for ranks in (2.0, 4.0, 8.0):
        mine = found.where(found.columns["group"] == ranks)
        sizes = np.log2(mine.columns["size"])
        assert 0.3 < mine.held_back.mean() < 0.5
        # Nowhere more than three sizes in a row that a fit does not see: the bound of an engine lies between neighbours.
        assert np.diff(np.sort(sizes[~mine.held_back])).max() <= 3
