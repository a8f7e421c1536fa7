"""Which JSON Schema describes the files of each kind, for editors and for the tools of others? Generated, never edited."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from gpuplan.specs.base import SpecFile, Strict, documented
from gpuplan.specs.catalog import KINDS, schema_of

FILE_NAMES = {
    "accelerators": "accelerator", "systems": "system", "instances": "instance", "prices": "price",
    "measured": "measured", "engines": "engine",
}  # fmt: skip


class _Documented(GenerateJsonSchema):
    """Takes the description of each key from the docstring below the attribute."""

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        made = super().model_schema(schema)
        cls = schema["cls"]
        if issubclass(cls, Strict):
            for name, text in documented(cls).items():
                if name in made.get("properties", {}):
                    made["properties"][name]["description"] = text
        return made

    def get_title_from_name(self, name: str) -> str:
        return name


def json_schema(cls: type[SpecFile]) -> dict[str, Any]:
    """The JSON Schema (2020-12) of a kind of spec file."""
    made = cls.model_json_schema(schema_generator=_Documented)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **made}


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
    folder.mkdir(parents=True, exist_ok=True)
    made = texts()
    for path in changed:
        path.write_text(made[path.name], encoding="utf-8")
    return changed


def stale(folder: Path) -> list[Path]:
    """The schema files of a folder that are missing or differ from what the code says."""
    return [
        folder / name
        for name, text in texts().items()
        if not (folder / name).is_file() or (folder / name).read_text(encoding="utf-8") != text
    ]
