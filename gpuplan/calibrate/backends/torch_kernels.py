"""Which kernel does each probe stand for in PyTorch, on which random tensors?

Data is random, since multiplying zeros draws less power and so runs at a higher clock. Tensors that a model would find in memory
and not in a cache take turns: on GPUs several copies of them, on processors pieces of one large store, which fills slowly.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache, partial
from itertools import cycle
from typing import Any, TypeAlias

from gpuplan.calibrate.backends.telemetry import host_memory
from gpuplan.calibrate.device import Probe
from gpuplan.record import Record

Call: TypeAlias = Callable[[], Any]

DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32", "tf32": "float32", "fp8": "float8_e4m3fn", "int8": "int8"}
"""What PyTorch calls a data type that its kernels multiply."""
BYTES = {"bf16": 2, "fp16": 2, "fp32": 4, "tf32": 4, "fp8": 1, "int8": 1}
WIDTH = 4096
"""Length of the rows that norms work on."""
COLD_BYTES = 256 * 2**20
"""Copies that take turns add up to so much: twice the largest last-level cache of NVIDIA's GPUs."""
COLD_BYTES_OF_AMD = 1024 * 2**20
"""The same of AMD's, whose largest are of 256 MiB and need not forget the oldest first."""
MOST_COPIES = 256
"""Tensors of less than a MiB (on AMD's 4) stay in a cache in part: their time is the start of a kernel."""
STORE_BYTES = 512 * 2**20
"""The store of weights on a processor: more than a share of its caches holds."""
STORE_SHARE = 0.05
"""No more of the free memory than this, for each data type."""
BLOCK = 2**18
"""Random numbers that a processor's tensors repeat."""
FP8_CAPABILITY = (8, 9)


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


def refusal(torch: Any, where: Any, probe: Probe) -> str | None:
    """Why a probe cannot run on a device, or None."""
    gpu = where.type == "cuda"
    if probe.dtype not in DTYPES:
        return f"PyTorch has no kernel for {probe.dtype} here"
    if probe.kind in ("graph", "host_to_device", "device_to_host") and not gpu:
        return "there is no device beside the processor"
    if probe.kind == "norm" and gpu and not hasattr(torch, "_fused_rms_norm"):
        return "PyTorch before 2.9 has no fused RMS norm"
    if probe.dtype == "tf32" and (not gpu or torch.version.hip or torch.cuda.get_device_capability(where) < (8, 0)):
        return "tf32 needs an NVIDIA GPU of compute capability 8.0 or more"
    if probe.dtype == "fp8":
        if not gpu or (not torch.version.hip and torch.cuda.get_device_capability(where) < FP8_CAPABILITY):
            return "fp8 needs a GPU of compute capability 8.9 or more"
        if probe.shape.get("n", 16) % 16 or probe.shape.get("k", 16) % 16:
            return "fp8 matmuls need n and k in multiples of 16"
    if probe.dtype in ("fp8", "int8") and probe.kind != "matmul":
        return f"PyTorch runs only matmuls in {probe.dtype}"
    if probe.dtype == "int8" and (not gpu or torch.version.hip):
        return "int8 matmuls are timed on NVIDIA GPUs only"
    if probe.dtype == "int8" and (probe.shape["m"] <= 16 or probe.shape["n"] % 8 or probe.shape["k"] % 8):
        return "int8 matmuls need more than 16 rows, and n and k in multiples of 8"
    if probe.kind == "grouped_matmul" and not hasattr(torch, "_grouped_mm"):
        return "this PyTorch has no grouped matmul: 2.8 brings it"
    if probe.kind == "matmul" and probe.dtype in ("fp8", "int8") and probe.shape["batch"] > 1:
        return f"PyTorch has no batched matmul in {probe.dtype}"
    if probe.kind in ("prefill", "prefill_backward", "decode"):
        if probe.shape.get("window"):
            return "PyTorch's own attention kernels have no window"
        if probe.shape["k_dim"] != probe.shape["v_dim"]:
            return "PyTorch's own attention kernels want keys as wide as values"
    return None


def kernel(torch: Any, where: Any, probe: Probe) -> Kernel:
    """The kernel of a probe with its tensors. PyTorch raises what it raises when they do not fit."""
    match probe.kind:
        case "matmul":
            return _matmul(torch, where, probe)
        case "grouped_matmul":
            return _grouped(torch, where, probe)
        case "prefill" | "decode":
            return _attention(torch, where, probe)
        case "prefill_backward":
            return _backward(torch, where, probe)
        case "host_to_device" | "device_to_host":
            return _copy(torch, where, probe)
        case "launch" | "graph":
            return _launches(torch, where, probe)
        case _:
            return _stream(torch, where, probe)


def _tensor(torch: Any, where: Any, dtype: str, *shape: int) -> Any:
    if where.type == "cpu":
        # Filling gigabytes with fresh random numbers takes a processor seconds; it draws no less power on repeated ones.
        count = math.prod(shape)
        block = torch.randn(min(count, BLOCK), dtype=torch.float32).to(getattr(torch, DTYPES[dtype]))
        return block.repeat(-(-count // BLOCK))[:count].view(shape)
    if dtype == "int8":
        return torch.randint(-127, 127, shape, dtype=torch.int8, device=where)
    if dtype == "fp8":
        name = fp8_name(getattr(torch.cuda.get_device_properties(where), "gcnArchName", ""))
        return torch.randn(shape, dtype=torch.bfloat16, device=where).to(getattr(torch, name))
    return torch.randn(shape, dtype=getattr(torch, DTYPES[dtype]), device=where)


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
    return _tensor(torch, torch.device("cpu"), dtype, max(int(bytes_ / BYTES[dtype]), BLOCK))


def _turns(torch: Any, where: Any, dtype: str, *shape: int) -> list[Any]:
    """Tensors of one shape that take turns, so that none of them is found in a cache when it comes again."""
    count = math.prod(shape)
    if where.type == "cuda":
        return [_tensor(torch, where, dtype, *shape) for _ in range(_copies(torch, where, count * BYTES[dtype]))]
    store = _store(torch, dtype)
    pieces = len(store) // count
    if pieces < 2:
        return [_tensor(torch, where, dtype, *shape)]
    return [store[at * count : (at + 1) * count].view(shape) for at in range(min(pieces, 16 * MOST_COPIES))]


def _copies(torch: Any, where: Any, size: float) -> int:
    """How many copies of tensors of `size` bytes take turns so that none of them is found in a cache."""
    if where.type != "cuda":
        return 1
    free, _ = torch.cuda.mem_get_info(where)
    fit = int(0.5 * free / max(size, 1))
    cold = COLD_BYTES_OF_AMD if torch.version.hip else COLD_BYTES
    return max(1, min(MOST_COPIES, int(cold / max(size, 1)) + 1, fit))


def _matmul(torch: Any, where: Any, probe: Probe) -> Kernel:
    m, n, k, batch = (int(probe.shape[name]) for name in ("m", "n", "k", "batch"))
    if batch > 1:
        left = _tensor(torch, where, probe.dtype, batch, m, k)
        copies = [one.transpose(1, 2) for one in _turns(torch, where, probe.dtype, batch, n, k)]
        rights = cycle(copies)
        return Kernel(call=lambda: torch.bmm(left, next(rights)), copies=len(copies))
    left = _tensor(torch, where, probe.dtype, m, k)
    copies = _turns(torch, where, probe.dtype, n, k)
    weights = cycle(copies)
    if probe.dtype == "fp8":
        one = torch.ones((), dtype=torch.float32, device=where)
        # Sums as the kernels of engines keep them: in the tensor cores, whose accumulators are narrower than fp32.
        fast = {} if torch.version.hip else {"use_fast_accum": True}
        scaled = partial(torch._scaled_mm, scale_a=one, scale_b=one, out_dtype=torch.bfloat16, **fast)
        return Kernel(call=lambda: scaled(left, next(weights).t()), copies=len(copies))
    if probe.dtype == "int8":
        return Kernel(call=lambda: torch._int_mm(left, next(weights).t()), copies=len(copies))
    linear = torch.nn.functional.linear
    if where.type != "cuda":
        # Into a result that is there already: a processor would spend more time on fresh pages than on small products.
        out = _tensor(torch, where, probe.dtype, m, n)
        return Kernel(call=lambda: torch.mm(left, next(weights).t(), out=out), copies=len(copies))
    if probe.dtype not in ("fp32", "tf32"):
        return Kernel(call=lambda: linear(left, next(weights)), copies=len(copies))
    precise = _precision(torch, tf32=probe.dtype == "tf32")

    def call() -> Any:
        with precise():
            return linear(left, next(weights))

    return Kernel(call=call, copies=len(copies))


def _grouped(torch: Any, where: Any, probe: Probe) -> Kernel:
    """The rows of all experts behind each other, as many for each, times the weights of their expert: one kernel on a GPU."""
    m, n, k, experts = (int(probe.shape[name]) for name in ("m", "n", "k", "batch"))
    left = _tensor(torch, where, probe.dtype, experts * m, k)
    copies = _turns(torch, where, probe.dtype, experts, n, k)
    ends = torch.arange(m, experts * m + 1, m, dtype=torch.int32, device=where)
    weights = cycle([one.transpose(1, 2) for one in copies])
    return Kernel(call=lambda: torch._grouped_mm(left, next(weights), offs=ends), copies=len(copies))


def _precision(torch: Any, *, tf32: bool) -> Callable[[], AbstractContextManager[None]]:
    """How products of 32-bit floats are rounded, by the name that this PyTorch has for it: the old one warns in new ones."""
    flags = torch.backends.cuda.matmul
    key, value = ("fp32_precision", "tf32" if tf32 else "ieee")
    if not hasattr(flags, key):
        key, value = ("allow_tf32", tf32)  # type: ignore[assignment]

    @contextmanager
    def precise() -> Iterator[None]:
        before = getattr(flags, key)
        setattr(flags, key, value)
        try:
            yield
        finally:
            setattr(flags, key, before)

    return precise


def _queries(torch: Any, where: Any, probe: Probe) -> tuple[Any, Any, Any]:
    shape = {key: int(value) for key, value in probe.shape.items()}
    sequences, dim = shape["sequences"], shape["k_dim"]
    q = _tensor(torch, where, probe.dtype, sequences, shape["heads"], shape["q_len"], dim)
    k = _tensor(torch, where, probe.dtype, sequences, shape["kv_heads"], shape["kv_len"], dim)
    v = _tensor(torch, where, probe.dtype, sequences, shape["kv_heads"], shape["kv_len"], dim)
    return q, k, v


def attention_order(capability: tuple[int, int], *, rocm: bool, decode: bool) -> tuple[str, ...]:
    """Which of PyTorch's attention kernels are tried on a GPU, the best first; plain attention is none of them.

    >>> attention_order((9, 0), rocm=False, decode=False), attention_order((8, 0), rocm=False, decode=False)
    (('CUDNN_ATTENTION', 'FLASH_ATTENTION'), ('FLASH_ATTENTION', 'CUDNN_ATTENTION'))
    """
    if rocm:
        return ("FLASH_ATTENTION",)
    order = ("FLASH_ATTENTION", "CUDNN_ATTENTION")
    # On Hopper and data centre Blackwell cuDNN uses instructions that PyTorch's flash attention does not.
    return order[::-1] if not decode and capability in ((9, 0), (10, 0), (10, 3)) else order


@cache
def attention_backend(torch: Any, where: Any, *, decode: bool, backward: bool = False) -> str:
    """The kernels that attention is measured with on a GPU: the first that runs grouped heads; nothing: PyTorch chooses.

    `backward`: of those that also have a backward pass.
    """
    if where.type != "cuda":
        return ""
    q = torch.zeros((1, 4, 1 if decode else 128, 128), dtype=torch.float16, device=where)
    k = torch.zeros((1, 1, 128, 128), dtype=torch.float16, device=where)
    for name in attention_order(torch.cuda.get_device_capability(where), rocm=bool(torch.version.hip), decode=decode):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # PyTorch warns of every reason why a kernel does not run.
                made = _attend(torch, name)(q.requires_grad_(backward), k, k, is_causal=not decode, enable_gqa=True)
                if backward:
                    torch.autograd.grad(made, q, torch.ones_like(made))
                torch.cuda.synchronize(where)
        except RuntimeError:
            continue
        return name
    return ""


def _attend(torch: Any, name: str) -> Callable[..., Any]:
    """Attention by the kernels of a name; where they cannot run, no others do."""
    attend: Callable[..., Any] = torch.nn.functional.scaled_dot_product_attention
    if not name:
        return attend
    only = getattr(torch.nn.attention.SDPBackend, name)

    def call(*given: Any, **how: Any) -> Any:
        with torch.nn.attention.sdpa_kernel([only]):
            return attend(*given, **how)

    return call


def _attention(torch: Any, where: Any, probe: Probe) -> Kernel:
    shape = probe.shape
    causal = shape["q_len"] > 1
    grouped = shape["heads"] != shape["kv_heads"]
    kept = 2 * shape["sequences"] * shape["kv_heads"] * shape["kv_len"] * shape["k_dim"] * BYTES[probe.dtype]
    copies = 1 if causal else _copies(torch, where, kept)
    if causal or where.type == "cuda":
        given = cycle([_queries(torch, where, probe) for _ in range(copies)])
    else:
        sizes = [int(shape[name]) for name in ("sequences", "kv_heads", "kv_len", "k_dim")]
        q, _, _ = _queries(torch, where, probe.replaced(shape={**shape, "kv_len": 1.0}))
        caches = _turns(torch, where, probe.dtype, 2, *sizes)
        given = cycle([(q, *one) for one in caches])
    attend = _attend(torch, attention_backend(torch, where, decode=not causal))
    return Kernel(call=lambda: attend(*next(given), is_causal=causal, enable_gqa=grouped), copies=copies)


def _backward(torch: Any, where: Any, probe: Probe) -> Kernel:
    q, k, v = (one.requires_grad_() for one in _queries(torch, where, probe))
    grouped = probe.shape["heads"] != probe.shape["kv_heads"]
    out = _attend(torch, attention_backend(torch, where, decode=False, backward=True))(q, k, v, is_causal=True, enable_gqa=grouped)
    gradient = torch.randn_like(out)
    return Kernel(call=lambda: torch.autograd.grad(out, (q, k, v), gradient, retain_graph=True), graph=False)


def _stream(torch: Any, where: Any, probe: Probe) -> Kernel:
    """Streams add two tensors, norms normalise rows of `WIDTH`, activations gate one tensor with another: all as plain calls."""
    size, element = probe.shape["size"], BYTES[probe.dtype]
    copies = range(_copies(torch, where, size))
    if probe.kind == "norm":
        rows = max(int(size / (2 * element * WIDTH)), 1)
        weight = _tensor(torch, where, probe.dtype, WIDTH)
        inputs = cycle([_tensor(torch, where, probe.dtype, rows, WIDTH) for _ in copies])
        return Kernel(call=lambda: torch.nn.functional.rms_norm(next(inputs), (WIDTH,), weight), copies=len(copies))
    count = max(int(size / (3 * element)), 1)
    sets = cycle([tuple(_tensor(torch, where, probe.dtype, count) for _ in range(3)) for _ in copies])
    if probe.kind == "activation":

        def gate() -> Any:
            left, right, out = next(sets)
            return torch.mul(torch.nn.functional.silu(left), right, out=out)

        return Kernel(call=gate, copies=len(copies))

    def add() -> Any:
        left, right, out = next(sets)
        return torch.add(left, right, out=out)

    return Kernel(call=add, copies=len(copies))


def _copy(torch: Any, where: Any, probe: Probe) -> Kernel:
    size = max(int(probe.shape["size"]), 1)
    host = torch.empty(size, dtype=torch.uint8, pin_memory=True)
    device = torch.empty(size, dtype=torch.uint8, device=where)
    if probe.kind == "host_to_device":
        return Kernel(call=lambda: device.copy_(host, non_blocking=True), graph=False)
    return Kernel(call=lambda: host.copy_(device, non_blocking=True), graph=False)


def _launches(torch: Any, where: Any, probe: Probe) -> Kernel:
    """Kernels of one element back to back: what is left is what a launch costs."""
    one, count = torch.ones(1, device=where), int(probe.shape["launches"])

    def call() -> None:
        for _ in range(count):
            one.mul_(1.0)

    return Kernel(call=call, graph=probe.kind == "graph", host=probe.kind == "launch", only_graph=probe.kind == "graph")
