"""Which random tensors do PyTorch's kernels work on, and how many of them take turns so that no cache holds the next?

Data is random, since multiplying zeros draws less power and so runs at a higher clock. Tensors that a model would find in memory
and not in a cache take turns: they are pieces of one store that is larger than the last-level cache of the device, whose size a
datasheet or the driver tells.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any, TypeAlias

from gpuplan.calibrate.backends.telemetry import amd_cache_bytes, host_memory
from gpuplan.record import Record

DTYPES = {
    "bf16": "bfloat16", "fp16": "float16", "fp32": "float32", "tf32": "float32", "fp8": "float8_e4m3fn", "int8": "int8",
    "fp4": "float4_e2m1fn_x2",
}  # fmt: skip
"""What PyTorch calls a data type that its kernels multiply."""
BYTES = {"bf16": 2.0, "fp16": 2.0, "fp32": 4.0, "tf32": 4.0, "fp8": 1.0, "int8": 1.0, "fp4": 0.5}
OVER = 2
"""Tensors that take turns add up to so many times the last-level cache."""
OVER_OF_AMD = 4
"""The same on AMD's, whose memory-side caches need not forget the oldest first."""
UNKNOWN_CACHE = 512 * 2**20
"""Taken for the last-level cache of which nobody tells the size."""
MOST_COPIES = 1024
"""So many take turns at most: of smaller tensors a cache holds a part, and their time is the start of a kernel."""
FREE_SHARE = 0.15
"""What takes turns has no more of the free memory, since narrow types are made of wider ones."""
ALIGNED = 256
"""Elements that pieces of a store begin at multiples of, as tensors of their own do."""
STORE_BYTES = 512 * 2**20
"""The store of weights on a processor: more than a share of its caches holds."""
STORE_SHARE = 0.05
"""No more of the free memory than this, for each data type."""
BLOCK = 2**18
"""Random numbers that a processor's tensors repeat."""
MOST_PIECES = 4096


Call: TypeAlias = Callable[[], Any]


class Kernel(Record, kw_only=True):
    """One launch of a probe; `graph` says whether it may be captured, `host` whether the host's clock is to time it."""

    call: Call
    graph: bool = True
    host: bool = False
    """Timed by the host, since its own work is what is measured."""
    only_graph: bool = False
    """Worth nothing outside a graph, however long it takes."""
    copies: int = 1
    """How many launches it takes until the same tensors come again."""


class Tensors:
    """Makes the tensors of probes on one device."""

    def __init__(self, torch: Any, where: Any) -> None:
        self.torch, self.where = torch, where
        self.last_cache = 0.0
        """Bytes of the last-level cache as a datasheet has it; 0: none was named."""

    @property
    def gpu(self) -> bool:
        """Whether it is no processor."""
        return bool(self.where.type != "cpu")

    def dtype(self, name: str) -> Any:
        """PyTorch's name for a data type; CDNA 3 has 8-bit floats of its own kind."""
        if name == "fp8" and self.where.type == "cuda":
            return getattr(self.torch, fp8_name(getattr(self.torch.cuda.get_device_properties(self.where), "gcnArchName", "")))
        return getattr(self.torch, DTYPES[name])

    def one(self, dtype: str, *shape: int) -> Any:
        """A tensor of random numbers; of 4-bit floats `shape` counts the bytes that hold two of them."""
        torch, where = self.torch, self.where
        if not self.gpu:
            # Filling gigabytes with fresh random numbers takes a processor seconds; it draws no less power on repeated ones.
            count = math.prod(shape)
            block = torch.randn(min(count, BLOCK), dtype=torch.float32).to(self.dtype(dtype))
            return block.repeat(-(-count // BLOCK))[:count].view(shape)
        if dtype == "int8":
            return torch.randint(-127, 127, shape, dtype=torch.int8, device=where)
        if dtype == "fp4":
            return torch.randint(0, 256, shape, dtype=torch.uint8, device=where).view(self.dtype(dtype))
        if dtype == "fp8":
            return torch.randn(shape, dtype=torch.bfloat16, device=where).to(self.dtype(dtype))
        return torch.randn(shape, dtype=self.dtype(dtype), device=where)

    def turns(self, dtype: str, *shape: int) -> list[Any]:
        """Tensors of one shape that take turns, so that none of them is found in a cache when it comes again."""
        count = math.prod(shape)
        each = -(-count // ALIGNED) * ALIGNED if self.gpu else count
        if self.gpu:
            copies = self.copies(each * (1 if dtype == "fp4" else BYTES[dtype]))
            store = self.one(dtype, copies * each)
        else:
            store = _store(self.torch, dtype)
            copies = min(len(store) // count, MOST_PIECES)
        if copies < 2:
            return [self.one(dtype, *shape)]
        return [store[at * each : at * each + count].view(shape) for at in range(copies)]

    def copies(self, size: float) -> int:
        """How many tensors of `size` bytes take turns so that none of them is found in a cache; one on processors."""
        return copies_of(size, self.cold_bytes(), self._free()) if self.gpu else 1

    def cold_bytes(self) -> float:
        """Bytes that what takes turns must add up to."""
        torch, told = self.torch, self.last_cache
        hip = self.where.type == "cuda" and bool(torch.version.hip)
        if self.where.type == "cuda":
            told = max(told, float(getattr(torch.cuda.get_device_properties(self.where), "L2_cache_size", 0)))
        if hip:
            told = max(told, amd_cache_bytes())
        return (OVER_OF_AMD if hip else OVER) * (told or UNKNOWN_CACHE)

    def _free(self) -> float:
        if self.where.type == "cuda":
            return float(self.torch.cuda.mem_get_info(self.where)[0])
        return host_memory()[1]


def copies_of(size: float, cold: float, free: float) -> int:
    """How many tensors of `size` bytes add up to more than `cold` bytes, in a share of the free memory.

    >>> copies_of(2.0**20, 2.0**30, 2.0**37), copies_of(2.0**29, 2.0**30, 2.0**37), copies_of(2.0**29, 2.0**30, 2.0**30)
    (1024, 3, 1)
    """
    return max(1, min(MOST_COPIES, int(cold / max(size, 1)) + 1, int(FREE_SHARE * free / max(size, 1))))


def fp8_name(gcn_arch: str) -> str:
    """Which 8-bit floats a GPU multiplies: CDNA 3 has its own kind.

    >>> fp8_name("gfx942:sramecc+:xnack-"), fp8_name("gfx950"), fp8_name("")
    ('float8_e4m3fnuz', 'float8_e4m3fn', 'float8_e4m3fn')
    """
    return "float8_e4m3fnuz" if gcn_arch.startswith("gfx94") else DTYPES["fp8"]


@cache
def _store(torch: Any, dtype: str) -> Any:
    """The numbers that weights on a processor are pieces of."""
    bytes_ = min(STORE_BYTES, STORE_SHARE * host_memory()[1])
    return Tensors(torch, torch.device("cpu")).one(dtype, max(int(bytes_ / BYTES[dtype]), BLOCK))
