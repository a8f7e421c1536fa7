"""What was made of a file is made again when the file has changed, however it was changed, and not before."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from gpuplan.errors import SpecError
from gpuplan.files import unchanged
from gpuplan.files.unchanged import while_unchanged
from gpuplan.specs.accelerator import Accelerator
from gpuplan.specs.base import load_spec
from gpuplan.specs.catalog import shipped_folder


@pytest.fixture
def _later(monkeypatch: pytest.MonkeyPatch) -> None:
    """A minute has gone by since the files were written."""
    monkeypatch.setattr(unchanged.time, "time", lambda now=time.time: now() + 60)


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


@pytest.mark.usefixtures("_later")
def test_a_file_is_read_once_while_it_stays_as_it_is(tmp_path: Path) -> None:
    path, reads = written(tmp_path / "a", "one"), []
    for _ in range(3):
        assert while_unchanged("text", path, lambda: reads.append(1) or path.read_text()) == "one"
    assert reads == [1]
    assert while_unchanged("length", path, lambda: len(path.read_text())) == 3


@pytest.mark.usefixtures("_later")
def test_every_change_is_seen(tmp_path: Path) -> None:
    path = written(tmp_path / "a", "one")

    def said() -> str:
        return while_unchanged("text", path, path.read_text)

    assert said() == "one"
    stat = path.stat()
    os.replace(written(tmp_path / "b", "two"), path)  # as gpuplan writes its files
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))  # as `cp -p` and archives leave them
    assert said() == "two"
    written(path, "three")
    assert said() == "three"
    path.unlink()
    with pytest.raises(FileNotFoundError):
        said()


def test_what_was_written_a_moment_ago_is_not_kept(tmp_path: Path) -> None:
    path = written(tmp_path / "a", "one")
    for text in ("two", "six", "ten"):  # of one length, and written within a tick of many file systems
        written(path, text)
        assert while_unchanged("text", path, path.read_text) == text


@pytest.mark.usefixtures("_later")
def test_a_spec_that_is_edited_in_a_long_process_is_read_again(tmp_path: Path) -> None:
    shipped = shipped_folder() / "accelerators" / "nvidia" / "l4.yaml"
    path = written(tmp_path / "l4.yaml", shipped.read_text())
    first = load_spec(Accelerator, path)
    assert load_spec(Accelerator, path) is first
    written(path, shipped.read_text().replace("id: l4", "id: l5"))
    with pytest.raises(SpecError, match="is not the name of the file"):
        load_spec(Accelerator, path)
