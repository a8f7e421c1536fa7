"""A file is written whole or not at all, one writer after the other, and never outside its folder."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuplan.errors import UsageError
from gpuplan.files import write

FULL = Path("/dev/full")


def test_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a" / "b.yaml"
    write.write(path, "one\n")
    before = os.stat(path)
    path.chmod(0o640)

    def fails(handle: int, data: bytes, *, wait: bool = True) -> None:
        os.write(handle, data[:1])
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(write, "append", fails)
        with pytest.raises(UsageError, match="No space left"):
            write.write_all({path: "two\n", tmp_path / "c": "three\n"}, force=True)
    assert path.read_text() == "one\n"
    assert sorted(one.name for one in tmp_path.rglob("*")) == ["a", "b.yaml"]
    write.write(path, "two\n")
    assert path.read_text() == "two\n"
    assert path.stat().st_mode & 0o777 == 0o640
    assert path.stat().st_ino != before.st_ino


def test_links_are_followed_and_devices_written_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write.write(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"
    write.write(Path("/dev/null"), "gone")
    assert not Path("/dev/null").is_file()
    with pytest.raises(UsageError, match="No space left"):
        write.write(FULL, "x")


@pytest.mark.parametrize("place", ["file/below", "a" * 300, "\0"])
@pytest.mark.parametrize("do", [lambda path: write.write(path, "x"), write.check_writable])
def test_what_cannot_be_written_is_one_message(tmp_path: Path, place: str, do: Callable[[Path], None]) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot write"):
        do(tmp_path / place)
    with pytest.raises(UsageError, match="it is a folder"):
        write.write(tmp_path, "x")
    assert [one.name for one in tmp_path.iterdir()] == ["file"]


@given(st.text(max_size=120))
def test_no_name_leads_out_of_its_folder(name: str) -> None:
    try:
        kept = write.component(name, "--provider")
    except UsageError:
        return
    inside = Path("/folder") / kept
    assert inside.parent == Path("/folder")
    assert Path(os.path.normpath(inside)) == inside
    assert kept == name


@pytest.mark.parametrize(
    "name", ["../../evil", "..", ".", "", "a/b", "a\\b", "A", ".hidden", "a" * 200, "a\nb", "-x", "con:", "a..b"]
)
def test_names_that_are_none(name: str) -> None:
    with pytest.raises(UsageError, match="cannot be the name of a file"):
        write.component(name, "--provider")


def test_scratch_files_stay_in_their_folder(tmp_path: Path) -> None:
    write.write_below(tmp_path / "in", "a/b", b"x")
    assert (tmp_path / "in" / "a" / "b").read_bytes() == b"x"
    for outside in ("../b", "a/../../b", "../inside", str(tmp_path / "b"), "."):
        with pytest.raises(UsageError, match="leads out"):
            write.write_below(tmp_path / "in", outside, b"x")
    assert [one.name for one in tmp_path.iterdir()] == ["in"]


COUNT = """
import sys
from pathlib import Path
from gpuplan.files.write import locked, write
place = Path(sys.argv[1])
for _ in range(20):
    with locked(place.parent):
        write(place, str(int(place.read_text() if place.exists() else "0") + 1))
"""


def test_writers_wait_for_each_other(tmp_path: Path) -> None:
    place = tmp_path / "new" / "count"
    jobs = [subprocess.Popen([sys.executable, "-c", COUNT, str(place)]) for _ in range(4)]
    assert [job.wait(timeout=300) for job in jobs] == [0] * 4
    assert place.read_text() == "80"
    assert [one.name for one in place.parent.iterdir()] == ["count"]


def test_who_does_not_end_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write, "PATIENCE_S", 0.05)
    with write.locked(tmp_path), pytest.raises(UsageError, match="has been writing"), write.locked(tmp_path):
        pass
    with write.locked(tmp_path / "new"):
        pass
    assert list(tmp_path.iterdir()) == []
