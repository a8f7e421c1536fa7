"""Is what was measured kept, gone on with, and never half written?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpuplan.calibrate.measure import journal
from gpuplan.calibrate.measure.session import CalibrationReport, CalibrationWish, Listener, calibrate, plan
from gpuplan.errors import UnknownError, UsageError
from gpuplan.specs.catalog import Catalog, shipped_folder
from tests.calibrate.fake import Fake, Troubles
from tests.calibrate.fake_runs import STREAMS, TODAY, Said, run


def run_streams(folder: Path, said: Listener | None = None, *, fresh: bool = False, **troubles: Any) -> CalibrationReport:
    return run(folder, said, fresh=fresh, kinds=STREAMS, **troubles)


def test_a_lost_device_keeps_the_journal_and_the_next_run_goes_on(tmp_path: Path) -> None:
    with pytest.raises(UnknownError, match="does not answer any more: Xid 79"):
        run_streams(tmp_path, lost_after=500)
    (kept,) = (tmp_path / "cache").rglob("*.jsonl")
    before = journal.load(kept)
    assert before is not None
    assert len(before.samples) > 20
    assert not list((tmp_path / "config").rglob("*.yaml"))
    said = Said()
    report = run_streams(tmp_path, said)
    assert report.run.resumed == len(before.samples)
    assert any("going on from" in text for text in said.texts)
    assert len(report.run.samples) == len(report.plan.planned)


def test_fresh_and_another_driver_start_again(tmp_path: Path) -> None:
    with pytest.raises(UnknownError):
        run_streams(tmp_path, lost_after=500)
    assert run_streams(tmp_path, fresh=True).run.resumed == 0
    with pytest.raises(UnknownError):
        run_streams(tmp_path, lost_after=500)
    said = Said()
    assert run_streams(tmp_path, said, name="NVIDIA H200", units=131).run.resumed == 0
    assert any("of another device, software or set of probes" in text for text in said.texts)


def test_a_finished_journal_is_not_gone_on_with(tmp_path: Path) -> None:
    run_streams(tmp_path)
    assert run_streams(tmp_path).run.resumed == 0


def test_two_at_once_are_told(tmp_path: Path) -> None:
    first = journal.Journal(tmp_path / "x.jsonl", {"format": 1}, resume=False)
    first.add(begin="a")
    with pytest.raises(UsageError, match=r"another `gpuplan calibrate` measures here: it writes .*x\.jsonl"):
        journal.Journal(tmp_path / "x.jsonl", {"format": 1}, resume=False)
    first.close()
    text = (tmp_path / "x.jsonl").read_text()
    assert text.count("\n") == 2, "the second left the first one's lines alone"
    journal.Journal(tmp_path / "x.jsonl", {"format": 1}, resume=False).close()
    assert (tmp_path / "x.jsonl").read_text().count("\n") == 1


def test_a_torn_line_is_tolerated(tmp_path: Path) -> None:
    with pytest.raises(UnknownError):
        run_streams(tmp_path, lost_after=500)
    (kept,) = (tmp_path / "cache").rglob("*.jsonl")
    text = kept.read_bytes()
    kept.write_bytes(text[:-40])
    before = journal.load(kept)
    assert before is not None
    assert run_streams(tmp_path).run.resumed == len(before.samples)


def test_a_full_disk_is_told_and_what_is_there_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import errno
    import os

    write, left = os.write, [20_000]

    def full(number: int, data: bytes) -> int:
        left[0] -= len(data)
        if left[0] < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(number, data)

    monkeypatch.setattr("gpuplan.calibrate.measure.journal.os.write", full)
    with pytest.raises(UsageError, match=r"cannot write the journal .*No space left"):
        run_streams(tmp_path)
    monkeypatch.undo()
    assert not list((tmp_path / "config").rglob("*.yaml"))
    assert run_streams(tmp_path).run.resumed > 5


def test_a_disk_that_fills_up_at_the_end_leaves_no_half_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import errno
    import os

    def full(_half: object, _whole: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("gpuplan.files.write.os.replace", full)
    with pytest.raises(UsageError, match="No space left"):
        run_streams(tmp_path)
    monkeypatch.undo()
    assert [path.name for path in (tmp_path / "config").rglob("*") if path.is_file()] == []
    assert run_streams(tmp_path).run.resumed > 50


def test_a_folder_that_cannot_be_written_is_told_before_measuring(tmp_path: Path) -> None:
    (tmp_path / "config").write_text("a file")
    with pytest.raises(UsageError, match="cannot write"):
        run_streams(tmp_path)
    assert not list(tmp_path.rglob("*.jsonl"))


@pytest.mark.parametrize(
    "line",
    ['{"sample": {}}', '{"sample": {"probe": {"kind": "matmul"}, "seconds": 1}}', '{"skipped": 7}', '{"plan": [1]}'],
)
def test_a_journal_that_somebody_edited_is_started_again(tmp_path: Path, line: str) -> None:
    with pytest.raises(UnknownError):
        run_streams(tmp_path, lost_after=500)
    (kept,) = (tmp_path / "cache").rglob("*.jsonl")
    lines = kept.read_text().splitlines()
    kept.write_text("\n".join([*lines[:5], line, *lines[5:]]) + "\n")
    report = run_streams(tmp_path)
    assert report.run.resumed == 0
    assert report.made.sets


def test_a_file_that_is_no_measured_file_is_told_before_measuring(tmp_path: Path) -> None:
    place = tmp_path / "mine.yaml"
    place.write_text("hello\n")
    device, catalog = Fake(troubles=Troubles()), Catalog([shipped_folder()])
    wish = CalibrationWish(extent="quick", today=TODAY, version="0", env={"HOME": str(tmp_path)}, out=place)
    made = plan(device, wish, catalog, Listener())
    before = device.runs
    with pytest.raises(UsageError, match="no measured file that can be added to"):
        calibrate(device, made, wish, catalog, Listener())
    assert device.runs == before
    assert place.read_text() == "hello\n"


def test_kinds_that_tell_no_parameter_say_so_and_are_measured_anew(tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(UsageError, match="no parameter comes of these kinds"):
            run(tmp_path, kinds=("graph",))
    (kept,) = (tmp_path / "cache").rglob("*.jsonl")
    told = journal.load(kept)
    assert told is not None
    assert told.done
