"""A grid of questions says of each row what the question of the row alone says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gpuplan
from tests.sweeps import thinned

GRIDS: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "degrees": (
        gpuplan.train, "llama-3.1-8b",
        {"on": "64xh100", "tp": [1, 3, 8], "pp": range(1, 5, 3), "micro_batch": np.array([1, 4]), "recompute": ["none", "full"]},
    ),
    "lengths": (
        gpuplan.train, "llama-3.1-8b",
        {"on": "8xh100", "tp": 2, "seq_len": ["4k", 8192], "global_batch": [8, 12], "tokens": 1e12, "micro_batch": 1},
    ),
    "machines": (gpuplan.train, "llama-3.1-8b", {"on": ["8xh100", "8xl40s"], "precision": ["bf16", "fp8"], "zero_stage": [0, 3]}),
    "engines": (
        gpuplan.train, "llama-3.1-8b", {"on": "8xh100", "engine": ["fsdp", "megatron-lm"], "lora": 16, "micro_batch": [1, 2]},
    ),
    "offload": (gpuplan.train, "llama-3.1-8b", {"on": "aws:p4d.24xlarge", "offload": [["optimizer"], []], "micro_batch": [1, 2]}),
    "rl": (gpuplan.train, "llama-3.1-8b", {"on": "8xh100", "rl": "grpo", "prompts": [64, 128], "tp": 2, "rollout_tp": 1}),
    "batches": (
        gpuplan.serve, "llama-3.1-70b",
        {
            "on": "8xh100", "tp": 4, "pp": 1, "batch": [1, 64, 512], "prompt": [100, 9000], "context": 8192,
            "kv_cache": ["bf16", "fp8"],
        },
    ),
    "open serving": (gpuplan.serve, "llama-3.1-8b", {"on": ["h100", "2xl40s"], "batch": [2, 8], "weights": ["bf16", "fp8"]}),
    "models": (gpuplan.fit, ["llama-3.1-8b", "llama-3.1-70b"], {"on": "l40s", "weights": ["bf16", "int4"]}),
    "terms": (gpuplan.train, "llama-3.1-8b", {"on": "8xh100", "set": {"hw.hbm_bandwidth": "1 TB/s"}, "tp": [1, 2, 3], "pp": 1}),
    "samples": (gpuplan.train, "resnet-50", {"on": ["8xa100-sxm-80gb", "aws:p4d.24xlarge"], "micro_batch": [64, 128]}),
    "feeding": (
        gpuplan.train, "llama-3.1-8b", {"on": "8xh100", "sample_bytes": ["10 kB", "1 MB"], "storage_bandwidth": 5e9, "tp": 2},
    ),
    "fit": (gpuplan.fit, "llama-3.1-8b", {"on": ["h100", "t4"], "context": [1000, "32k"]}),
}  # fmt: skip


@pytest.mark.parametrize("name", thinned(GRIDS, every=2))
def test_a_row_says_what_its_question_alone_says(name: str) -> None:
    task, model, options = GRIDS[name]
    made = gpuplan.grid(task, model, **options)
    rows = len(made["legal"])
    assert rows == np.prod(made.shape)
    assert all(column.shape == (rows,) for column in made.values())
    assert made["legal"].any()
    for row in range(rows):
        figures = {key: made[key][row] for key in made.units}
        if not made["legal"][row]:
            assert all(np.isnan(value) for value in figures.values())
            assert not made["fits"][row]
            with pytest.raises((gpuplan.PlanError, gpuplan.InfeasibleError)):
                made.answer(row)
            continue
        alone = made.answer(row)
        assert alone.fits == made["fits"][row]
        assert {key: one.value for key, one in alone.figures.items()} == pytest.approx(
            {key: value for key, value in figures.items() if not np.isnan(value)}, rel=1e-12
        )
        assert {key: one.unit for key, one in alone.figures.items()}.items() <= made.units.items()


def test_axes_are_in_the_order_in_which_they_were_given() -> None:
    made = gpuplan.grid("train", "llama-3.1-8b", on="8xh100", micro_batch=[1, 2], engine=["megatron-lm", "fsdp"], tp=[1, 2, 4])
    assert list(made)[:3] == ["micro_batch", "engine", "tp"]
    assert made.shape == (2, 2, 3)
    assert made["micro_batch"].tolist() == [1] * 6 + [2] * 6
    assert made["engine"].tolist() == (["megatron-lm"] * 3 + ["fsdp"] * 3) * 2
    assert made.array("tp").tolist() == [[[1, 2, 4]] * 2] * 2
    assert made["legal"].dtype == made["fits"].dtype == np.bool_
    assert made["step_time_s"].dtype == np.float64
    assert "2 micro_batch x 2 engine x 3 tp" in repr(made)


def test_a_data_frame_takes_a_grid() -> None:
    pandas = pytest.importorskip("pandas")
    made = gpuplan.grid(gpuplan.train, "llama-3.1-8b", on="8xh100", tp=[1, 2, 3])
    frame = pandas.DataFrame(made)
    assert list(frame.columns) == list(made)
    assert frame.query("legal").tp.tolist() == [1, 2]
    assert frame.mfu.notna().tolist() == [True, True, False]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tp": 2}, "no option has several values"),
        ({"tp": [1, "x", 0]}, "--tp"),
        ({"tp": []}, "`tp` has no values"),
        ({"tpp": [1, 2]}, "did you mean `tp`"),
        ({"tp": [3, 5]}, "does not divide"),
        ({"tp": [1, 2], "precision": "fp9"}, "--precision fp9"),
    ],
)
def test_what_a_grid_refuses(options: dict[str, Any], message: str) -> None:
    with pytest.raises(gpuplan.GpuplanError, match=message):
        gpuplan.grid(gpuplan.train, "llama-3.1-8b", on="8xh100", **options)
