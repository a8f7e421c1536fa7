"""The tables that names are told by are checked as all files are: a slip in one would show at somebody's question only."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuplan.check.examine import check
from gpuplan.specs.catalog import shipped_folder

TABLES = ("kinds_of_parts", "cards_of_memory")


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize(
    ("before", "after", "code"),
    [("\nid: ", "\nid: twice\nid: ", "yaml.duplicate-key"), ("\nsources:", "\nsauces: 1\nsources:", "spec.unknown-key")],
)
def test_a_slip_in_a_table_is_found(tmp_path: Path, name: str, before: str, after: str, code: str) -> None:
    text = (shipped_folder() / "rules" / f"{name}.yaml").read_text(encoding="utf-8")
    assert before in text
    path = tmp_path / "rules" / f"{name}.yaml"
    path.parent.mkdir()
    path.write_text(text.replace(before, after, 1), encoding="utf-8")
    assert code in {finding.code for finding in check([path])}


@pytest.mark.parametrize("name", TABLES)
def test_what_is_shipped_is_right(name: str) -> None:
    assert check([shipped_folder() / "rules" / f"{name}.yaml"]) == []
