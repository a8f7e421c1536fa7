"""Files are named from where the reader stands."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuplan.render.place import place_of


def test_a_file_below_the_current_folder_is_named_from_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert place_of(tmp_path / "specs" / "mine.yaml") == str(Path("specs") / "mine.yaml")


def test_a_file_elsewhere_keeps_its_whole_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    elsewhere = tmp_path / "herebefore" / "mine.yaml"
    assert place_of(elsewhere) == str(elsewhere)
    assert place_of("given.yaml") == "given.yaml"
