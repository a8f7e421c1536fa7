"""What do PyTorch's errors say of the device: is it out of memory, lost, or is it the kernel alone that failed?"""

from __future__ import annotations

from typing import Any

from gpuplan.calibrate.device import DeviceLostError, DeviceMemoryError

LOST = ("device-side assert", "unspecified launch failure", "illegal memory access", "device lost", "ecc error", "uncorrectable",
        "misaligned address", "illegal instruction", "launch timed out", "fallen off the bus", "driver shutting down")  # fmt: skip
"""What the messages of errors say after which no kernel runs in this process."""


class told:
    """What PyTorch raises becomes what the measuring knows."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None or isinstance(error, (DeviceLostError, DeviceMemoryError)):
            return
        text = str(error).lower()
        if isinstance(error, (self._torch.OutOfMemoryError, MemoryError)) or "not enough memory" in text or "alloc" in text:
            raise DeviceMemoryError(str(error).partition("\n")[0]) from None
        if isinstance(error, RuntimeError) and any(word in text for word in LOST):
            raise DeviceLostError(str(error).partition("\n")[0]) from None
