"""Which kernel does each probe stand for in PyTorch?"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cache, partial
from itertools import cycle
from typing import Any

from gpuplan.calibrate.backends import engine_kernels
from gpuplan.calibrate.backends.torch_tensors import BYTES, DTYPES, Kernel, Tensors
from gpuplan.calibrate.device import Probe

WIDTH = 4096
"""Length of the rows that norms work on."""
FP8_CAPABILITY = (8, 9)


def refusal(torch: Any, where: Any, probe: Probe) -> str | None:
    """Why a probe cannot run on a device, or None."""
    if probe.name and probe.kind not in ("collective", "transfer"):
        found = engine_kernels.chosen(torch, where, probe)
        return found if isinstance(found, str) else None
    if probe.dtype == "fp4" or (probe.kind == "grouped_matmul" and probe.dtype == "fp8"):
        found = engine_kernels.chosen(torch, where, probe)
        return found if isinstance(found, str) else None
    if probe.dtype not in DTYPES:
        return f"PyTorch has no kernel for {probe.dtype} here"
    for why in (_kind_refusal(torch, where, probe), _dtype_refusal(torch, where, probe)):
        if why is not None:
            return why
    return _attention_refusal(probe) if probe.kind in ("prefill", "prefill_backward", "decode") else None


def _kind_refusal(torch: Any, where: Any, probe: Probe) -> str | None:
    gpu = where.type != "cpu"
    if probe.kind in ("graph", "host_to_device", "device_to_host") and not gpu:
        return "there is no device beside the processor"
    if probe.kind == "graph" and where.type != "cuda":
        return "PyTorch has no graphs of launches on this device"
    if probe.kind in ("host_to_device", "device_to_host") and where.type == "mps":
        return "the processor and its GPU share their memory"
    if probe.kind == "norm" and gpu and not hasattr(torch, "_fused_rms_norm"):
        return "PyTorch before 2.9 has no fused RMS norm"
    if probe.kind == "grouped_matmul" and (not hasattr(torch, "_grouped_mm") or where.type in ("mps", "xpu")):
        return "this PyTorch has no grouped matmul here: 2.8 brings it to NVIDIA's and AMD's GPUs"
    return None


def _dtype_refusal(torch: Any, where: Any, probe: Probe) -> str | None:
    gpu = where.type == "cuda"
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
    if probe.kind == "matmul" and probe.dtype in ("fp8", "int8") and probe.shape["batch"] > 1:
        return f"PyTorch has no batched matmul in {probe.dtype}"
    return None


def _attention_refusal(probe: Probe) -> str | None:
    if probe.shape.get("window"):
        return "PyTorch's own attention kernels have no window"
    if probe.shape["k_dim"] != probe.shape["v_dim"]:
        return "PyTorch's own attention kernels want keys as wide as values"
    return None


def kernel(tensors: Tensors, probe: Probe) -> Kernel:
    """The kernel of a probe with its tensors. PyTorch raises what it raises when they do not fit."""
    named = probe.name or probe.dtype == "fp4" or (probe.kind == "grouped_matmul" and probe.dtype == "fp8")
    if named and probe.kind not in ("collective", "transfer"):
        found = engine_kernels.chosen(tensors.torch, tensors.where, probe)
        if isinstance(found, str):
            raise RuntimeError(found)
        return found.make(tensors, probe)
    match probe.kind:
        case "matmul":
            return _matmul(tensors, probe)
        case "grouped_matmul":
            return _grouped(tensors, probe)
        case "prefill" | "decode":
            return _attention(tensors, probe)
        case "prefill_backward":
            return _backward(tensors, probe)
        case "host_to_device" | "device_to_host":
            return _copy(tensors, probe)
        case "launch" | "graph":
            return _launches(tensors, probe)
        case _:
            return _stream(tensors, probe)


def _matmul(tensors: Tensors, probe: Probe) -> Kernel:
    torch, where = tensors.torch, tensors.where
    m, n, k, batch = (int(probe.shape[name]) for name in ("m", "n", "k", "batch"))
    if batch > 1:
        left = tensors.one(probe.dtype, batch, m, k)
        copies = [one.transpose(1, 2) for one in tensors.turns(probe.dtype, batch, n, k)]
        rights = cycle(copies)
        return Kernel(call=lambda: torch.bmm(left, next(rights)), copies=len(copies))
    left = tensors.one(probe.dtype, m, k)
    copies = tensors.turns(probe.dtype, n, k)
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
    if not tensors.gpu:
        # Into a result that is there already: a processor would spend more time on fresh pages than on small products.
        out = tensors.one(probe.dtype, m, n)
        return Kernel(call=lambda: torch.mm(left, next(weights).t(), out=out), copies=len(copies))
    if probe.dtype not in ("fp32", "tf32") or where.type != "cuda":
        return Kernel(call=lambda: linear(left, next(weights)), copies=len(copies))
    precise = _precision(torch, tf32=probe.dtype == "tf32")

    def call() -> Any:
        with precise():
            return linear(left, next(weights))

    return Kernel(call=call, copies=len(copies))


def _grouped(tensors: Tensors, probe: Probe) -> Kernel:
    """The rows of all experts behind each other, as many for each, times the weights of their expert: one kernel on a GPU."""
    torch, where = tensors.torch, tensors.where
    m, n, k, experts = (int(probe.shape[name]) for name in ("m", "n", "k", "batch"))
    left = tensors.one(probe.dtype, experts * m, k)
    copies = tensors.turns(probe.dtype, experts, n, k)
    ends = torch.arange(m, experts * m + 1, m, dtype=torch.int32, device=where)
    weights = cycle([one.transpose(1, 2) for one in copies])
    return Kernel(call=lambda: torch._grouped_mm(left, next(weights), offs=ends), copies=len(copies))


def _precision(torch: Any, *, tf32: bool) -> Callable[[], AbstractContextManager[None]]:
    """How products of 32-bit floats are rounded, by the name that this PyTorch has for it: the old one warns in new ones."""
    flags = torch.backends.cuda.matmul
    named = hasattr(flags, "fp32_precision")
    key = "fp32_precision" if named else "allow_tf32"
    value = ("tf32" if tf32 else "ieee") if named else tf32

    @contextmanager
    def precise() -> Iterator[None]:
        before = getattr(flags, key)
        setattr(flags, key, value)
        try:
            yield
        finally:
            setattr(flags, key, before)

    return precise


def _queries(tensors: Tensors, probe: Probe) -> tuple[Any, Any, Any]:
    shape = {key: int(value) for key, value in probe.shape.items()}
    sequences, dim = shape["sequences"], shape["k_dim"]
    q = tensors.one(probe.dtype, sequences, shape["heads"], shape["q_len"], dim)
    k = tensors.one(probe.dtype, sequences, shape["kv_heads"], shape["kv_len"], dim)
    v = tensors.one(probe.dtype, sequences, shape["kv_heads"], shape["kv_len"], dim)
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


def _attention(tensors: Tensors, probe: Probe) -> Kernel:
    torch, where, shape = tensors.torch, tensors.where, probe.shape
    causal = shape["q_len"] > 1
    grouped = shape["heads"] != shape["kv_heads"]
    kept = 2 * shape["sequences"] * shape["kv_heads"] * shape["kv_len"] * shape["k_dim"] * BYTES[probe.dtype]
    copies = 1 if causal else tensors.copies(kept)
    if causal or tensors.gpu:
        given = cycle([_queries(tensors, probe) for _ in range(copies)])
    else:
        sizes = [int(shape[name]) for name in ("sequences", "kv_heads", "kv_len", "k_dim")]
        q, _, _ = _queries(tensors, probe.replaced(shape={**shape, "kv_len": 1.0}))
        caches = tensors.turns(probe.dtype, 2, *sizes)
        given = cycle([(q, *one) for one in caches])
    attend = _attend(torch, attention_backend(torch, where, decode=not causal))
    return Kernel(call=lambda: attend(*next(given), is_causal=causal, enable_gqa=grouped), copies=copies)


def _backward(tensors: Tensors, probe: Probe) -> Kernel:
    torch, where = tensors.torch, tensors.where
    q, k, v = (one.requires_grad_() for one in _queries(tensors, probe))
    grouped = probe.shape["heads"] != probe.shape["kv_heads"]
    out = _attend(torch, attention_backend(torch, where, decode=False, backward=True))(q, k, v, is_causal=True, enable_gqa=grouped)
    gradient = torch.randn_like(out)
    return Kernel(call=lambda: torch.autograd.grad(out, (q, k, v), gradient, retain_graph=True), graph=False)


def _stream(tensors: Tensors, probe: Probe) -> Kernel:
    """Streams add two tensors, norms normalise rows of `WIDTH`, activations gate one tensor with another: all as plain calls."""
    torch, size, element = tensors.torch, probe.shape["size"], BYTES[probe.dtype]
    if probe.kind == "norm":
        rows = max(int(size / (2 * element * WIDTH)), 1)
        weight = tensors.one(probe.dtype, WIDTH)
        given = tensors.turns(probe.dtype, rows, WIDTH) if tensors.gpu else [tensors.one(probe.dtype, rows, WIDTH)]
        inputs = cycle(given)
        return Kernel(call=lambda: torch.nn.functional.rms_norm(next(inputs), (WIDTH,), weight), copies=len(given))
    count = max(int(size / (3 * element)), 1)
    copies = tensors.turns(probe.dtype, 3, count) if tensors.gpu else [[tensors.one(probe.dtype, count) for _ in range(3)]]
    sets = cycle([tuple(one) for one in copies])
    if probe.kind == "activation":

        def gate() -> Any:
            left, right, out = next(sets)
            return torch.mul(torch.nn.functional.silu(left), right, out=out)

        return Kernel(call=gate, copies=len(copies))

    def add() -> Any:
        left, right, out = next(sets)
        return torch.add(left, right, out=out)

    return Kernel(call=add, copies=len(copies))


def _copy(tensors: Tensors, probe: Probe) -> Kernel:
    torch, where, size = tensors.torch, tensors.where, max(int(probe.shape["size"]), 1)
    host = torch.empty(size, dtype=torch.uint8, pin_memory=True)
    device = torch.empty(size, dtype=torch.uint8, device=where)
    if probe.kind == "host_to_device":
        return Kernel(call=lambda: device.copy_(host, non_blocking=True), graph=False)
    return Kernel(call=lambda: host.copy_(device, non_blocking=True), graph=False)


def _launches(tensors: Tensors, probe: Probe) -> Kernel:
    """Kernels of one element back to back: what is left is what a launch costs."""
    one, count = tensors.torch.ones(1, device=tensors.where), int(probe.shape["launches"])

    def call() -> None:
        for _ in range(count):
            one.mul_(1.0)

    return Kernel(call=call, graph=probe.kind == "graph", host=probe.kind == "launch", only_graph=probe.kind == "graph")
