"""Engines on accelerators that once were far off: whole groups of published runs that no fit saw stay near."""

from __future__ import annotations

import statistics

import pytest

from gpuplan.accuracy.judge import judge_typed
from gpuplan.accuracy.rows import packaged, read_rows
from gpuplan.cli.accuracy_run import answers


@pytest.mark.parametrize(("file", "most"), [("rocm-vllm", 0.12), ("dstack", 0.15)])
def test_vllm_on_mi300x(file: str, most: float) -> None:
    """AMD's own batches, and dstack's without graphs: with the all-reduces, the bandwidth and the checkpoint that they had."""
    offline = ("fixed-batch", "offline-max-throughput")
    rows = [row for row in read_rows([packaged() / f"{file}.yaml"]) if row.run.get("mode") in offline]
    points = [point for point in judge_typed(rows, answers()).points if point.metric == "throughput"]
    assert len(points) >= 38
    assert statistics.median(abs(point.error) for point in points) <= most
