"""Do tensors that take turns outgrow the last-level cache, whoever tells its size: the datasheet or the driver?"""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpuplan.calibrate.backends import torch_tensors
from gpuplan.calibrate.backends.telemetry import amd_cache_bytes
from gpuplan.calibrate.backends.torch_tensors import Tensors
from gpuplan.calibrate.measure.session import CalibrationWish, Listener, plan
from tests.calibrate.fake import Fake, Troubles
from tests.calibrate.fake_runs import PLAIN

MIB = 2.0**20
FREE = 150 * 2.0**30


def tensors(*, hip: bool = False, l2: float = 0.0) -> Tensors:
    cuda = SimpleNamespace(
        get_device_properties=lambda where: SimpleNamespace(L2_cache_size=l2), mem_get_info=lambda where: (FREE, FREE)
    )
    torch: Any = SimpleNamespace(cuda=cuda, version=SimpleNamespace(hip="6.4" if hip else None))
    return Tensors(torch, SimpleNamespace(type="cuda"))


@pytest.fixture(autouse=True)
def _no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_tensors, "amd_cache_bytes", lambda: 0.0)


def test_the_whole_last_cache_is_outgrown(monkeypatch: pytest.MonkeyPatch) -> None:
    amd = tensors(hip=True, l2=4 * MIB)
    amd.last_cache = 256 * MIB
    for size in (MIB, 8 * MIB, 96 * MIB):
        assert amd.copies(size) * size >= 4 * 256 * MIB
    monkeypatch.setattr(torch_tensors, "amd_cache_bytes", lambda: 512 * MIB)
    assert amd.cold_bytes() == 2048 * MIB, "the driver knows of a larger one"


def test_without_a_datasheet_the_driver_says_it_and_without_both_a_large_one_is_taken() -> None:
    assert tensors(l2=50 * MIB).cold_bytes() == 100 * MIB
    assert tensors().cold_bytes() >= 1024 * MIB


def test_amds_driver_lists_the_caches_of_its_gpus(tmp_path: Path) -> None:
    for node, simd, sizes in (("0", 0, (524288,)), ("1", 304, (32, 4096, 262144))):
        (tmp_path / node / "caches").mkdir(parents=True)
        (tmp_path / node / "properties").write_text(f"cpu_cores_count 0\nsimd_count {simd}\nname mi300x\n")
        for number, size in enumerate(sizes):
            (tmp_path / node / "caches" / str(number)).mkdir()
            (tmp_path / node / "caches" / str(number) / "properties").write_text(f"level {number + 1}\nsize {size}\n")
    assert amd_cache_bytes(tmp_path) == 256 * MIB, "those of processors are none of a GPU's"
    assert amd_cache_bytes(tmp_path / "none") == 0.0


def test_a_device_is_told_what_the_datasheet_says() -> None:
    heard: list[float] = []

    class Told(Fake):
        def know(self, last_cache: float) -> None:
            heard.append(last_cache)

    plan(Told(troubles=Troubles()), CalibrationWish(extent="quick", env={"HOME": "/nowhere"}), PLAIN, Listener())
    assert heard == [50 * MIB]
