"""A model in many files tells which of them is read."""

from __future__ import annotations

import json
from pathlib import Path

from gpuplan.files.progress import watching
from gpuplan.models.checkpoint.folder import import_path
from tests.files.watcher import Kept
from tests.models.made_files import LLAMA, llama_safetensors, safetensors


def test_each_file_of_weights_is_told(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA), encoding="utf-8")
    mapped = {}
    for at in range(4):
        file = f"model-{at + 1:05d}-of-00004.safetensors"
        rows = llama_safetensors(layers=range(8 * at, 8 * at + 8), edges=at == 0)
        safetensors(tmp_path / file, rows)
        mapped |= {row[0]: file for row in rows}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": mapped}), encoding="utf-8")
    kept = Kept()
    with watching(kept):
        import_path(tmp_path)
    assert kept.done == {"files of weights read": [(at, 4) for at in range(4)]}
    assert kept.ended == ["files of weights read"]
