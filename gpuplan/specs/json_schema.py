"""Which JSON Schema describes the files of each kind, for editors and for the tools of others? Generated, never edited."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path

from gpuplan.files.read import text_if_there
from gpuplan.files.write import write_all
from gpuplan.schema_json import json_schema
from gpuplan.specs.catalog import KINDS, schema_of

FILE_NAMES = {
    "accelerators": "accelerator", "systems": "system", "instances": "instance", "prices": "price",
    "networks": "network", "clusters": "cluster", "measured": "measured", "engines": "engine",
    "arguments": "arguments", "operations": "operations", "usual": "usual", "sites": "site", "grids": "grid", "launches": "launch",
}  # fmt: skip


@lru_cache(maxsize=1)
def texts() -> dict[str, str]:
    """The text of each schema file by its name, for every kind whose schema lives in this layer."""
    kinds = {kind: cls for kind in KINDS if (cls := schema_of(kind)) is not None}
    return {
        f"{FILE_NAMES[kind]}.schema.json": json.dumps(json_schema(cls), indent=1, ensure_ascii=False) + "\n"
        for kind, cls in kinds.items()
    }


def write(folder: Path) -> list[Path]:
    """Write every schema file into a folder, and say which changed."""
    changed = stale(folder)
    made = texts()
    write_all({path: made[path.name] for path in changed}, force=True)
    return changed


def stale(folder: Path) -> list[Path]:
    """The schema files of a folder that are missing or differ from what the code says."""
    return [folder / name for name, text in texts().items() if text_if_there(folder / name) != text]
