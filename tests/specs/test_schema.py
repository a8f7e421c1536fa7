"""The generated JSON Schemas are those that the code describes, and say what each key is."""

import json
from typing import Any

import pytest

from gpuplan.schema_json import json_schema
from gpuplan.specs.accelerator import Accelerator
from gpuplan.specs.catalog import KINDS, schema_of, shipped_folder
from gpuplan.specs.json_schema import stale, write
from gpuplan.strict_yaml import load_yaml


def test_the_committed_schemas_are_up_to_date() -> None:
    assert stale(shipped_folder() / "schema") == [], "run gpuplan.specs.json_schema.write on hardware_specs/schema"


def test_every_key_is_described() -> None:
    schema = json_schema(Accelerator)
    missing = [
        f"{name}.{key}"
        for name, part in (("Accelerator", schema), *schema["$defs"].items())
        for key, value in part.get("properties", {}).items()
        if "description" not in value
    ]
    assert missing == []
    assert schema["properties"]["id"]["description"] == "The name of the file without `.yaml`."


def test_writes_only_what_changed(tmp_path) -> None:
    first = write(tmp_path)
    assert len(first) >= 5
    assert write(tmp_path) == []
    first[0].write_text("{}")
    assert write(tmp_path) == [first[0]]
    assert json.loads(first[0].read_text())["additionalProperties"] is False


@pytest.mark.parametrize("kind", [kind for kind in KINDS if schema_of(kind) is not None])
def test_what_is_shipped_is_right_by_its_json_schema_too(kind: str) -> None:
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed")
    cls: Any = schema_of(kind)
    validator = jsonschema.Draft202012Validator(json_schema(cls))
    for path in sorted((shipped_folder() / kind).rglob("*.yaml"))[::10]:
        data = json.loads(json.dumps(load_yaml(path)[0]))
        assert [error.message for error in validator.iter_errors(data)] == [], path
