"""A folder that cannot be written to is said before seconds of work."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuplan.cli import specs_schema
from tests.cli.cli_calls import Call


def test_a_folder_that_cannot_be_is_said_before_the_schemas_are_made(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def work() -> dict[str, str]:
        raise AssertionError("the schemas were made first")

    monkeypatch.setattr(specs_schema, "schemas", work)
    (tmp_path / "file").touch()
    said = call("specs", "schema", "--write", str(tmp_path / "file" / "below"))
    assert said.code == 2
    assert "cannot write" in said.err
