"""Does `gpuplan calibrate show` set what was measured beside what estimates use?"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gpuplan.calibrate.device import Probe
from gpuplan.calibrate.imports import points
from gpuplan.cli.calibrate_show_run import ShowRequest, show_fit
from gpuplan.errors import UnknownError, UsageError
from tests.calibrate.fake import seconds, truth

ID = "h200-sxm-141gb"
ASKED = ShowRequest(ID, None, None, (), False)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.delenv("GPUPLAN_SPECS", raising=False)
    return tmp_path


@pytest.fixture
def kept(home: Path) -> Path:
    """Points of the machine of `fake.truth`, 10 % slower."""
    probes = [
        Probe(kind="matmul", shape={"m": m, "n": n, "k": n, "batch": 1.0}) for m in (16.0, 256.0, 4096.0) for n in (2048.0, 8192.0)
    ]
    probes += [Probe(kind="collective", name="all_reduce", shape={"size": 2.0**power, "group": 8.0}) for power in range(12, 33, 4)]
    probes += [Probe(kind="stream", shape={"size": 2.0**power}) for power in range(18, 33, 2)]
    made = [
        points.KeptPoint(probe=one, seconds=1.1 * seconds(one, truth()), kind="test", file="f", date="2026-11-21") for one in probes
    ]
    path = home / "xdg_config_home" / "gpuplan" / "measured" / f"{ID}.points.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text(points.text(made))
    return path


@pytest.mark.usefixtures("kept")
def test_the_plot_fits_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    show_fit(ASKED)
    said = capsys.readouterr().out
    assert "matmul bf16: 6 kernels, median error" in said
    assert "all reduce: 6 kernels" in said
    assert "stream: 8 kernels" in said
    assert all(len(line) <= 80 for line in said.splitlines())
    assert "+" in said
    assert "o" in said


@pytest.mark.usefixtures("kept")
def test_kinds_pick_and_json_tells_all(capsys: pytest.CaptureFixture[str]) -> None:
    show_fit(ShowRequest(None, "all_reduce", None, (), True))
    said = json.loads(capsys.readouterr().out)
    assert said["id"] == ID
    assert [one["name"] for one in said["series"]] == ["all reduce"]
    assert said["series"][0]["bias"] == pytest.approx(1 / 1.1 - 1, abs=0.02)
    with pytest.raises(UsageError, match="did you mean `matmul`"):
        show_fit(ShowRequest(ID, "matmull", None, (), False))
    with pytest.raises(UnknownError, match="no measured decode kernels are kept"):
        show_fit(ShowRequest(ID, "decode", None, (), False))


def test_without_points_it_says_how_to_get_them() -> None:
    with pytest.raises(UnknownError, match="gpuplan calibrate import"):
        show_fit(ASKED)
    with pytest.raises(UnknownError, match="no measured kernels are kept here"):
        show_fit(ShowRequest(None, None, None, (), False))


@pytest.mark.usefixtures("kept")
def test_the_picture(home: Path) -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    path = home / "kernels.png"
    show_fit(ShowRequest(ID, None, str(path), (), False))
    assert path.read_bytes().startswith(b"\x89PNG")
    with pytest.raises(UsageError, match="is no PNG file"):
        show_fit(ShowRequest(ID, None, str(home / "kernels.gif"), (), False))
    with pytest.raises(UsageError, match="does not exist"):
        show_fit(ShowRequest(ID, None, str(home / "none" / "kernels.png"), (), False))


def test_a_point_that_is_none_says_where(kept: Path) -> None:
    kept.write_text(kept.read_text() + "{}\n")
    with pytest.raises(UsageError, match=r"points\.jsonl:21: the line is no point"):
        show_fit(ASKED)
