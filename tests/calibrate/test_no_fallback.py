"""Is the processor only ever measured where there is nothing else, or where somebody asks for it?"""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpuplan.calibrate.backends import jax as jax_backend
from gpuplan.calibrate.backends import telemetry
from gpuplan.calibrate.backends import torch as torch_backend
from gpuplan.calibrate.device import PROCESSOR
from gpuplan.cli.calibrate_run import device_choice
from gpuplan.errors import UsageError

ABSENT = SimpleNamespace(is_available=lambda: False)
THERE = SimpleNamespace(is_available=lambda: True)


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A host without any GPU, whatever this one has."""
    for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "JAX_PLATFORMS", "RANK", "WORLD_SIZE", "SLURM_STEP_NUM_TASKS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(telemetry, "nvidia_names", list)
    monkeypatch.setattr(torch_backend, "KFD", tmp_path / "kfd")
    monkeypatch.setattr(torch_backend, "TorchDevice", lambda torch, index, peers: ("device", index))
    monkeypatch.setattr(torch_backend.shutil, "which", lambda name: f"/bin/{name}")


def pytorch(monkeypatch: pytest.MonkeyPatch, mps: Any = ABSENT, xpu: Any = ABSENT) -> None:
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=ABSENT, backends=SimpleNamespace(mps=mps), xpu=xpu))


def test_without_any_gpu_it_is_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    pytorch(monkeypatch)
    assert torch_backend.open_device(None) == ("device", None)


@pytest.mark.parametrize(("mps", "xpu", "kind"), [(THERE, ABSENT, "mps"), (ABSENT, THERE, "xpu")])
def test_gpus_of_apple_and_intel_are_measured_themselves(monkeypatch: pytest.MonkeyPatch, mps: Any, xpu: Any, kind: str) -> None:
    pytorch(monkeypatch, mps, xpu)
    opened: list[tuple[Any, ...]] = []
    monkeypatch.setattr(torch_backend.torch_other, "opened", lambda torch, *given: opened.append(given))
    torch_backend.open_device(None)
    torch_backend.open_device(1)
    assert opened == [(kind, None, 1), (kind, 1, 1)]
    assert torch_backend.open_device(PROCESSOR) == ("device", None)


@pytest.mark.parametrize("kind", ["AMD GPU", "a GPU"])
def test_a_gpu_that_pytorch_does_not_drive_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str) -> None:
    pytorch(monkeypatch)
    if kind == "AMD GPU":
        (tmp_path / "kfd").touch()
    if kind == "a GPU":
        monkeypatch.setattr(telemetry, "nvidia_names", lambda: ["GPU 0: NVIDIA H100"])
    with pytest.raises(UsageError, match=f"there is .*{kind.split(maxsplit=1)[-1]}") as told:
        torch_backend.open_device(None)
    assert "--device cpu" in told.value.problems[0].hint
    assert torch_backend.open_device(PROCESSOR) == ("device", None)


def test_gpus_that_are_hidden_are_not_meant(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytorch(monkeypatch)
    (tmp_path / "kfd").touch()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setattr(telemetry, "nvidia_names", lambda: ["GPU 0: NVIDIA H100"])
    assert torch_backend.open_device(None) == ("device", None)


def test_jax_that_sees_the_processor_only(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu = SimpleNamespace(platform="cpu")
    monkeypatch.setitem(sys.modules, "jax", SimpleNamespace(local_devices=lambda backend=None: [cpu]))
    monkeypatch.setattr(jax_backend, "JaxDevice", lambda jax, devices, index: ("device", index))
    assert jax_backend.open_device(None) == ("device", 0)
    monkeypatch.setattr(telemetry, "nvidia_names", lambda: ["GPU 0: NVIDIA H100"])
    with pytest.raises(UsageError, match="there is a GPU, but JAX sees the processor only"):
        jax_backend.open_device(None)
    assert jax_backend.open_device(PROCESSOR) == ("device", 0)
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    assert jax_backend.open_device(None) == ("device", 0)


def test_the_device_is_a_number_or_the_processor() -> None:
    assert (device_choice(None), device_choice("2"), device_choice("cpu")) == (None, 2, PROCESSOR)
    with pytest.raises(UsageError, match="--device: `gpu` is not a count"):
        device_choice("gpu")
