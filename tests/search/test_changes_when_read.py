"""Changes that help are looked for once somebody reads them, of what was asked and of nothing else."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import gpuplan
from gpuplan.estimate.result import Change
from gpuplan.search import changes

CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336, "vocab_size": 128256,
    "max_position_embeddings": 131072, "torch_dtype": "bfloat16", "rms_norm_eps": 1e-5,
}  # fmt: skip


def test_nothing_is_looked_for_until_it_is_read_and_then_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = []
    whole = changes.better_changes

    def counted(*given: Any, **named: Any) -> tuple[Change, ...]:
        looked.append(1)
        return whole(*given, **named)

    monkeypatch.setattr(changes, "better_changes", counted)
    made = gpuplan.serve("llama-3.1-8b", on="h100")
    assert made.fits
    assert not looked
    first = made.changes
    assert first
    assert made.changes is first
    assert made.estimate.replaced(notes=()).changes is first
    assert len(looked) == 1


@pytest.mark.parametrize(("task", "on"), [("serve", "h100"), ("fit", "h100"), ("train", "8xh100")])
def test_changes_of_a_checkpoint_are_those_of_what_was_read(task: str, on: str, tmp_path: Path) -> None:
    """Also where it has gone since: every change was taken for none that works."""
    (tmp_path / "model").mkdir()
    config = tmp_path / "model" / "config.json"
    config.write_text(json.dumps(CONFIG))
    ask = getattr(gpuplan, task)
    there, gone = (ask(str(config.parent), on=on) for _ in range(2))
    told = there.changes
    assert told
    shutil.rmtree(config.parent)
    assert gone.changes == told
