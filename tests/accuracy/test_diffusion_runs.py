"""Published runs of diffusion models against what is said of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpuplan.accuracy.judge import Judged, judge_typed
from gpuplan.accuracy.report import errors
from gpuplan.accuracy.rows import packaged, read_rows
from gpuplan.cli.accuracy_run import answers

FILE = packaged() / "diffusion.yaml"


@pytest.fixture(scope="module")
def judged() -> Judged:
    return judge_typed(read_rows([FILE]), answers())


def test_every_run_is_asked(judged: Judged) -> None:
    assert not judged.skipped
    assert len({point.row.id for point in judged.points}) >= 55


@pytest.mark.parametrize(
    ("metric", "unseen", "median", "p90"),
    [
        ("throughput", False, 0.13, 0.65),
        ("throughput", True, 0.24, 0.7),
        ("memory", False, 0.155, 0.32),
        ("memory", True, 0.175, 0.34),
    ],
)
def test_times_and_peaks_are_as_measured(judged: Judged, metric: str, unseen: bool, median: float, p90: float) -> None:
    """What docs/diffusion.md says, of all runs and of sources that gave no parameter."""
    made = errors([one for one in judged.points if one.metric == metric and one.row.unseen >= unseen])
    assert made["median_ape"] <= median
    assert made["p90_ape"] <= p90


def test_the_decoder_of_flux_takes_what_was_measured(judged: Judged) -> None:
    """Batches of 1, 4 and 8 pictures on one H100: nothing but a picture's tensors comes beside the weights."""
    found = [one for one in judged.points if one.metric == "memory" and one.row.id.startswith("torchao-flux-h100-bf16")]
    assert len(found) == 6
    assert all(abs(one.error) < 0.015 for one in found)


def test_rows_that_say_nonsense_are_skipped(tmp_path: Path) -> None:
    base = {
        "task": "diffusion", "engine": "diffusers", "model": {"id": "sdxl"}, "hardware": {"accelerator": "rtx-4090", "count": 1},
        "measured": {"latency_s": 5.0},
    }  # fmt: skip
    rows = [
        {**base, "id": "type", "run": {"weights": "int3-mine"}},
        {**base, "id": "size", "run": {"size": "big"}},
        {**base, "id": "nothing", "run": {}, "measured": {"psnr": 31.0}},
        {**base, "id": "model", "run": {}, "model": {"id": "no-such-model"}},
    ]
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(rows))
    made = judge_typed(read_rows([path]), answers())
    assert not made.points
    why = {row.id: text for row, text in made.skipped}
    assert "no plan for weights in `int3-mine`" in why["type"]
    assert "no width and height" in why["size"]
    assert "nothing was measured" in why["nothing"]
    assert "no-such-model" in why["model"]
