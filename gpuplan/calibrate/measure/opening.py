"""Which backend drives the device: PyTorch, JAX, or a class that somebody names?"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from gpuplan.calibrate.device import Device, DeviceChoice, DeviceLostError
from gpuplan.errors import GpuplanError, Problem, UsageError, did_you_mean, install
from gpuplan.probe import tpu
from gpuplan.probe.host import Host

BACKENDS = ("torch", "jax")
"""Modules of `gpuplan.calibrate.backends`, in the order in which `auto` looks for their frameworks."""
INSTALL = f"{install('calibrate')} brings PyTorch; on a TPU, {install('tpu')} brings JAX"


def open_device(backend: str, index: DeviceChoice) -> Device:
    """The device of that number, the processor, or the first one, through a backend: `auto`, `torch`, `jax` or `module:Class`.

    `auto` takes the first framework that is installed; on the host of a TPU JAX goes first.

    Raises:
        UsageError: no such backend or class, its framework is not installed, or there is no such device.
    """
    if ":" in backend:
        return _own(backend, index)
    if backend == "auto":
        # PyTorch would measure the processor of a TPU's host.
        order = reversed(BACKENDS) if tpu.ask_host(Host()).devices else BACKENDS
        backend = next((name for name in order if find_spec(name) is not None), "")
        if not backend:
            raise UsageError(Problem("calibrate.no-backend", "neither PyTorch nor JAX is installed", INSTALL))
    if backend not in BACKENDS:
        hint = did_you_mean(backend, BACKENDS) or f"there are auto, {', '.join(BACKENDS)} and module:Class"
        raise UsageError(Problem("usage.word", f"--backend: no backend `{backend}`", hint))
    if find_spec(backend) is None:
        raise UsageError(Problem("calibrate.no-backend", f"{backend} is not installed", INSTALL))
    module: Any = import_module(f"gpuplan.calibrate.backends.{backend}")
    device: Device = module.open_device(index)
    return device


def _own(backend: str, index: DeviceChoice) -> Device:
    module_name, _, name = backend.partition(":")
    hint = "write it as `package.module:Class`; the module must be found from this folder or be installed"
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = import_module(module_name)
    except Exception as error:  # whatever the module of somebody else raises
        told = f"{error}" if isinstance(error, ImportError) else f"{type(error).__name__}: {error}"
        raise UsageError(Problem("usage.word", f"--backend: cannot import `{module_name}`: {told}", hint)) from None
    made: Callable[[DeviceChoice], Device] | None = getattr(module, name, None)
    if not callable(made):
        raise UsageError(Problem("usage.word", f"--backend: `{module_name}` has no class `{name}`", hint))
    try:
        device = made(index)
    except (GpuplanError, DeviceLostError):
        raise
    except Exception as error:
        what = f"--backend: `{backend}` opens no device: {type(error).__name__}: {error}"
        raise UsageError(Problem("usage.word", what, "it is called with the number of the device, `cpu`, or None")) from None
    if not callable(getattr(device, "prepare", None)):
        hint = "gpuplan/calibrate/device.py says what a device must be able to do"
        raise UsageError(Problem("usage.word", f"--backend: what `{backend}` gives is no device", hint))
    return device
