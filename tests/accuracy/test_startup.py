"""Published logs of engines' start-ups against what is said of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpuplan.accuracy.judge import judge_typed
from gpuplan.accuracy.report import errors
from gpuplan.accuracy.rows import packaged, read_rows
from gpuplan.cli.accuracy_run import answers

FILES = sorted(packaged().glob("startup-*.yaml"))


@pytest.fixture(scope="module")
def judged() -> object:
    return judge_typed(read_rows(FILES), answers())


def test_every_start_up_is_asked(judged: object) -> None:
    assert not judged.skipped  # type: ignore[attr-defined]
    assert len({point.row.id for point in judged.points}) >= 15  # type: ignore[attr-defined]


def test_weights_and_pools_are_as_printed(judged: object) -> None:
    points = judged.points  # type: ignore[attr-defined]
    for unseen in (False, True):
        found = {
            metric: errors([one for one in points if one.metric == metric and one.row.unseen >= unseen])
            for metric in ("weights", "kv_pool")
        }
        assert found["weights"]["median_ape"] < 0.01
        assert found["weights"]["p90_ape"] < 0.03
        assert found["kv_pool"]["median_ape"] < 0.02
        assert found["kv_pool"]["p90_ape"] < 0.05


def test_what_did_not_start_is_not_said_to_fit(judged: object) -> None:
    failed = [one for one in judged.fits if not one.ran]  # type: ignore[attr-defined]
    assert len(failed) >= 4
    assert not [one.row.id for one in failed if one.said_fits]


def row(**changed: object) -> dict[str, object]:
    made = {
        "id": "mine", "task": "startup", "engine": "vllm 0.11.2", "model": {"id": "llama-3.1-8b"},
        "hardware": {"accelerator": "rtx-4090", "count": 1}, "run": {"max_context": 8192}, "measured": {"kv_pool_gib": 4.9},
    }  # fmt: skip
    return made | changed


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"run": {"weights": "int3-mine"}}, "no plan for weights in `int3-mine`"),
        ({"run": {"kv_cache": "int3-mine"}}, "no plan for a cache in `int3-mine`"),
        ({"measured": {"activations_gib": 1.2}}, "nothing was printed that an estimate has"),
        ({"model": {"id": "nobody-knows-it"}}, "the model is not known"),
        ({"run": {"max_context": "many"}}, "run: max_context is the text `many`, where a number is wanted"),
    ],
)
def test_a_row_that_cannot_be_compared_says_why(tmp_path: Path, changed: dict[str, object], why: str) -> None:
    file = tmp_path / "mine.json"
    file.write_text(json.dumps([row(**changed)]), encoding="utf-8")
    ((_, said),) = judge_typed(read_rows([file]), answers()).skipped
    assert said == why


def test_the_error_of_a_pool_is_a_share_of_the_device(tmp_path: Path) -> None:
    file = tmp_path / "mine.json"
    file.write_text(json.dumps([row(measured={"kv_pool_gib": -1.0, "device_gib": 20.0})]), encoding="utf-8")
    (point,) = judge_typed(read_rows([file]), answers()).points
    assert point.error == pytest.approx((point.expected / 2**30 + 1.0) / 20.0)
    assert point.ratio == pytest.approx(1 - point.error)
