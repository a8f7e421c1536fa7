"""Which kernels of vLLM, SGLang and FlashInfer, or of PyTorch itself, stand for what serving engines run beyond plain types?

Products over weights with scales by blocks, over 8- and 4-bit weights, in 4-bit floats, over experts in 8 bits; decode over pages
of 16 and of 8 bits, and over the latent of MLA. Of each the first library counts that is installed and whose kernel runs here on a
small case; where none does, the reason is told, and nothing else stands in. Called as their authors declare them:

- vLLM: `w8a8_triton_block_scaled_mm`, once called `w8a8_block_fp8_matmul`, of `VLLM_BLOCKS`;
  `cutlass_scaled_fp4_mm` in vllm/_custom_ops.py (https://github.com/vllm-project/vllm);
- SGLang: `w8a8_block_fp8_matmul` in sglang/srt/layers/quantization/fp8_kernel.py, `cutlass_scaled_fp4_mm` of sgl_kernel
  (https://github.com/sgl-project/sglang);
- FlashInfer: `BatchDecodeWithPagedKVCacheWrapper` in flashinfer/decode.py, `BatchMLAPagedAttentionWrapper` in flashinfer/mla.py
  (https://github.com/flashinfer-ai/flashinfer);
- PyTorch: `torch.nn.functional.scaled_mm` with scales by blocks, `_weight_int4pack_mm`, `_weight_int8pack_mm`, and
  `_scaled_grouped_mm`.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from itertools import cycle
from typing import Any, TypeAlias

from gpuplan.calibrate.backends.torch_tensors import Kernel, Tensors
from gpuplan.calibrate.device import Probe
from gpuplan.record import Record

Make: TypeAlias = Callable[[Tensors, Probe], Kernel]

PAGE = 16
"""Keys of a page: what vLLM and FlashInfer's examples take."""
GROUP = 128
"""Elements that share a scale: of blocks of 8-bit floats, and of groups of 4-bit integers."""
FP4_GROUP = 16
WORKSPACE = 128 * 2**20
"""Bytes that FlashInfer asks for: the size that its documentation recommends."""
ROPE = 64
"""Width of the part of MLA's keys that has positions; the values are what is left of them."""
TENSOR_CORES_FROM = 4
"""Heads of a key head from which FlashInfer's decode is called with tensor cores, as vLLM and SGLang do."""
SMALL: Mapping[str, Mapping[str, float]] = {
    "matmul": {"m": 64, "n": 512, "k": 512, "batch": 1}, "grouped_matmul": {"m": 64, "n": 512, "k": 512, "batch": 2},
    "decode": {"sequences": 2, "q_len": 1, "kv_len": 64, "heads": 16, "kv_heads": 4, "k_dim": 128, "v_dim": 128, "window": 0},
    "latent": {"sequences": 2, "q_len": 1, "kv_len": 64, "heads": 16, "kv_heads": 1, "k_dim": 576, "v_dim": 512, "window": 0},
}  # fmt: skip
"""The small cases."""


class EngineKernel(Record, kw_only=True):
    """A kernel that runs here: whose it is, and how it is made for a probe."""

    library: str
    make: Make


def chosen(torch: Any, where: Any, probe: Probe) -> EngineKernel | str:
    """The kernel of a probe, or why there is none here."""
    return _chosen(torch, where, probe.kind, probe.dtype, probe.name)


@cache
def _chosen(torch: Any, where: Any, kind: Any, dtype: str, name: str) -> EngineKernel | str:
    key = name or f"{kind}.{dtype}"
    ways, what = WAYS.get(key), WHAT.get(key, f"{kind} of {dtype}")
    if ways is None:
        return f"{what}: no library is known to have it"
    small = Probe(kind=kind, dtype=dtype, name=name, shape=SMALL.get(name) or SMALL[kind])
    reasons: list[str] = []
    for library, make in ways:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # Libraries warn of every extra that they lack.
                made = make(Tensors(torch, where), small)
                made.call()
                if where.type != "cpu":
                    getattr(torch, where.type).synchronize()
        except ModuleNotFoundError:
            reasons.append(f"{library} is not installed")
        except Exception as error:  # Whatever libraries raise where their kernels do not run.
            said = str(error).strip().partition("\n")[0][:80] or type(error).__name__
            reasons.append(f"that of {library} does not run ({said})")
        else:
            return EngineKernel(library=library, make=make)
    return f"{what} cannot be measured: {'; '.join(reasons)}"


def libraries(torch: Any, where: Any, probes: Iterable[Probe]) -> dict[str, str]:
    """Whose kernels stand for the served ones among some probes, with the version, by what they are."""
    kinds = {key: probe for probe in probes if (key := _key(probe)) in WAYS}
    found = {key: chosen(torch, where, probe) for key, probe in kinds.items()}
    return {WHAT[key]: _version(one.library) for key, one in found.items() if isinstance(one, EngineKernel)}


def _key(probe: Probe) -> str:
    return probe.name or f"{probe.kind}.{probe.dtype}"


def _version(library: str) -> str:
    try:
        return f"by {library} {version(PACKAGES[library])}"
    except PackageNotFoundError:
        return f"by {library}"


def _sides(probe: Probe) -> tuple[int, int, int]:
    m, n, k = (int(probe.shape[name]) for name in ("m", "n", "k"))
    return m, n, k


def _blocked(tensors: Tensors, probe: Probe) -> tuple[Any, Any, list[Any], Any]:
    """What is multiplied by blocks: rows with a scale for each 128 elements, weights with one for each square of 128."""
    m, n, k = _sides(probe)
    if n % GROUP or k % GROUP:
        raise RuntimeError(f"blocks want n and k in multiples of {GROUP}")
    torch, where = tensors.torch, tensors.where
    left_scale = torch.ones((m, k // GROUP), dtype=torch.float32, device=where)
    right_scale = torch.ones((n // GROUP, k // GROUP), dtype=torch.float32, device=where)
    return tensors.one("fp8", m, k), left_scale, tensors.turns("fp8", n, k), right_scale


def _block_by_function(module: str, *names: str) -> Make:
    def make(tensors: Tensors, probe: Probe) -> Kernel:
        product = _function(module, *names)
        left, left_scale, rights, right_scale = _blocked(tensors, probe)
        turn, dtype = cycle(rights), tensors.torch.bfloat16
        return Kernel(
            call=lambda: product(left, next(turn), left_scale, right_scale, [GROUP, GROUP], dtype), copies=len(rights)
        )  # fmt: skip

    return make


def _block_by_pytorch(tensors: Tensors, probe: Probe) -> Kernel:
    functional = tensors.torch.nn.functional
    product, recipe = functional.scaled_mm, functional.ScalingType
    left, left_scale, rights, right_scale = _blocked(tensors, probe)
    outer = left_scale.t().contiguous().t()  # cuBLAS wants the scales of one row apart.
    turn = cycle(rights)
    return Kernel(
        call=lambda: product(
            left, next(turn).t(), outer, recipe.BlockWise1x128, right_scale.t(), recipe.BlockWise128x128,
            output_dtype=tensors.torch.bfloat16,
        ),
        copies=len(rights),
    )  # fmt: skip


def _function(module: str, *names: str) -> Any:
    """The first function of these names that a module has.

    Raises:
        ModuleNotFoundError: the library is not installed.
        AttributeError: it is, and has none of them.
    """
    library = module.partition(".")[0]
    import_module(library)  # A library that is there and lacks the module is told apart from one that is not.
    try:
        found = import_module(module)
    except ModuleNotFoundError as error:
        raise AttributeError(f"this version has no {error.name}") from None
    for name in names:
        if hasattr(found, name):
            return getattr(found, name)
    raise AttributeError(f"this version has no {names[0]}")


def _fp4(tensors: Tensors, probe: Probe) -> tuple[Any, Any, list[Any], Any]:
    """Bytes of two 4-bit floats, and scales of 8 bits for each 16 elements, in the tiles of 128 x 4 that tensor cores read."""
    m, n, k = _sides(probe)
    torch, where = tensors.torch, tensors.where

    def scales(rows: int) -> Any:
        shape = (-(-rows // 128) * 128, -(-(k // FP4_GROUP) // 4) * 4)
        return torch.ones(shape, dtype=torch.float32, device=where).to(torch.float8_e4m3fn)

    return tensors.one("fp4", m, k // 2), scales(m), tensors.turns("fp4", n, k // 2), scales(n)


def _fp4_by_function(module: str) -> Make:
    def make(tensors: Tensors, probe: Probe) -> Kernel:
        product = _function(module, "cutlass_scaled_fp4_mm")
        left, left_scale, rights, right_scale = _fp4(tensors, probe)
        torch = tensors.torch
        one = torch.ones((), dtype=torch.float32, device=tensors.where)
        bytes_, turn = left.view(torch.uint8), cycle([right.view(torch.uint8) for right in rights])
        return Kernel(call=lambda: product(bytes_, next(turn), left_scale, right_scale, one, torch.bfloat16), copies=len(rights))

    return make


def _fp4_by_pytorch(tensors: Tensors, probe: Probe) -> Kernel:
    functional = tensors.torch.nn.functional
    product, recipe, swizzle = functional.scaled_mm, functional.ScalingType, functional.SwizzleType
    left, left_scale, rights, right_scale = _fp4(tensors, probe)
    turn = cycle(rights)
    return Kernel(
        call=lambda: product(
            left, next(turn).t(), left_scale.flatten(), recipe.BlockWise1x16, right_scale.flatten(), recipe.BlockWise1x16,
            swizzle.SWIZZLE_32_4_4, swizzle.SWIZZLE_32_4_4, output_dtype=tensors.torch.bfloat16,
        ),
        copies=len(rights),
    )  # fmt: skip


def _int4(tensors: Tensors, probe: Probe) -> Kernel:
    """Integers of 4 bits in groups of 128, widened on the way: PyTorch's kernel, which packs weights for itself."""
    m, n, k = _sides(probe)
    if n % 16 or k % GROUP:
        raise RuntimeError(f"4-bit weights want n in multiples of 16, and k of {GROUP}")
    torch, where, on_cpu = tensors.torch, tensors.where, not tensors.gpu
    left = tensors.one("bf16", m, k)
    scales = torch.ones((k // GROUP, n, 2), dtype=torch.bfloat16, device=where)
    if on_cpu:
        # A processor packs slowly; any bytes are weights of this size.
        product = torch.ops.aten._weight_int4pack_mm_for_cpu
        copies = [one.view(torch.uint8) for one in tensors.turns("int8", n, k // 2)]
    else:
        pack, product = torch.ops.aten._convert_weight_to_int4pack, torch.ops.aten._weight_int4pack_mm
        raw = torch.randint(0, 256, (n, k // 2), dtype=torch.uint8, device=where)
        packed = pack(raw, 8)
        copies = [packed, *(packed.clone() for _ in range(tensors.copies(packed.numel() * packed.element_size()) - 1))]
    turn = cycle(copies)
    return Kernel(call=lambda: product(left, next(turn), GROUP, scales), copies=len(copies))


def _int8(tensors: Tensors, probe: Probe) -> Kernel:
    """Integers of 8 bits with a scale for each row, widened on the way."""
    m, n, k = _sides(probe)
    torch = tensors.torch
    left, rights = tensors.one("bf16", m, k), tensors.turns("int8", n, k)
    scales = torch.ones(n, dtype=torch.bfloat16, device=tensors.where)
    turn, product = cycle(rights), torch.ops.aten._weight_int8pack_mm
    return Kernel(call=lambda: product(left, next(turn), scales), copies=len(rights))


def _experts(tensors: Tensors, probe: Probe) -> Kernel:
    """The rows of all experts in 8 bits, with a scale for each row, times the weights of their expert."""
    m, n, k = _sides(probe)
    count, torch, where = int(probe.shape["batch"]), tensors.torch, tensors.where
    left, rights = tensors.one("fp8", count * m, k), tensors.turns("fp8", count, n, k)
    ends = torch.arange(m, count * m + 1, m, dtype=torch.int32, device=where)
    rows = torch.ones(count * m, dtype=torch.float32, device=where)
    columns = torch.ones((count, n), dtype=torch.float32, device=where)
    turn, product = cycle(rights), torch._scaled_grouped_mm
    return Kernel(
        call=lambda: product(
            left, next(turn).transpose(1, 2), rows, columns, offs=ends, out_dtype=torch.bfloat16, use_fast_accum=True
        ),
        copies=len(rights),
    )


def _pages(tensors: Tensors, probe: Probe) -> tuple[Any, Any, Any, int]:
    """How far the pages of each sequence reach in the list of all, that list (mixed), keys in the last page, and their number."""
    torch, where = tensors.torch, tensors.where
    sequences, length = int(probe.shape["sequences"]), int(probe.shape["kv_len"])
    each = -(-length // PAGE)
    ends = torch.arange(0, sequences * each + 1, each, dtype=torch.int32, device=where)
    pages = torch.randperm(sequences * each, device=where).to(torch.int32)
    last = torch.full((sequences,), length - (each - 1) * PAGE, dtype=torch.int32, device=where)
    return ends, pages, last, sequences * each


def _paged(tensors: Tensors, probe: Probe) -> Kernel:
    """One query of each sequence over its pages, by FlashInfer."""
    decode = _function("flashinfer", "BatchDecodeWithPagedKVCacheWrapper")
    torch, where = tensors.torch, tensors.where
    sequences, heads, kv_heads, dim = (int(probe.shape[name]) for name in ("sequences", "heads", "kv_heads", "k_dim"))
    ends, pages, last, count = _pages(tensors, probe)
    kept = "fp8" if probe.name == "paged_fp8" else "bf16"
    queries, caches = tensors.one("bf16", sequences, heads, dim), tensors.turns(kept, count, 2, PAGE, kv_heads, dim)
    room = torch.zeros(WORKSPACE, dtype=torch.uint8, device=where)
    run = decode(room, "NHD", use_tensor_cores=kept == "fp8" or heads // kv_heads >= TENSOR_CORES_FROM)
    run.plan(
        ends, pages, last, heads, kv_heads, dim, PAGE, q_data_type=torch.bfloat16, kv_data_type=caches[0].dtype,
    )  # fmt: skip
    turn = cycle(caches)
    return Kernel(call=lambda: run.run(queries, next(turn)), copies=len(caches))


def _latent(tensors: Tensors, probe: Probe) -> Kernel:
    """One query of each sequence over the latent that is key and value of all heads (MLA), by FlashInfer."""
    mla = _function("flashinfer.mla", "BatchMLAPagedAttentionWrapper")
    torch, where = tensors.torch, tensors.where
    sequences, heads, width = (int(probe.shape[name]) for name in ("sequences", "heads", "v_dim"))
    ends, pages, _, count = _pages(tensors, probe)
    lengths = torch.full((sequences,), int(probe.shape["kv_len"]), dtype=torch.int32, device=where)
    starts = torch.arange(sequences + 1, dtype=torch.int32, device=where)
    run = mla(torch.zeros(WORKSPACE, dtype=torch.uint8, device=where))
    scale = 1.0 / math.sqrt(width + ROPE)
    run.plan(starts, ends, pages, lengths, heads, width, ROPE, PAGE, False, scale, torch.bfloat16, torch.bfloat16)
    plain, turned = tensors.one("bf16", sequences, heads, width), tensors.one("bf16", sequences, heads, ROPE)
    latents, positions = tensors.turns("bf16", count, PAGE, width), tensors.turns("bf16", count, PAGE, ROPE)
    turn = cycle(zip(latents, cycle(positions), strict=False))
    return Kernel(call=lambda: run.run(plain, turned, *next(turn)), copies=len(latents))


PACKAGES = {"vLLM": "vllm", "SGLang": "sglang", "FlashInfer": "flashinfer-python", "PyTorch": "torch"}
VLLM_BLOCKS = "vllm.model_executor.layers.quantization.utils.fp8_utils"
WAYS: Mapping[str, tuple[tuple[str, Make], ...]] = {
    "fp8_block": (
        ("vLLM", _block_by_function(VLLM_BLOCKS, "w8a8_triton_block_scaled_mm", "w8a8_block_fp8_matmul")),
        ("SGLang", _block_by_function("sglang.srt.layers.quantization.fp8_kernel", "w8a8_block_fp8_matmul")),
        ("PyTorch", _block_by_pytorch),
    ),
    "int8_wo": (("PyTorch", _int8),),
    "int4_wo": (("PyTorch", _int4),),
    "matmul.fp4": (
        ("vLLM", _fp4_by_function("vllm._custom_ops")), ("SGLang", _fp4_by_function("sgl_kernel")), ("PyTorch", _fp4_by_pytorch),
    ),
    "grouped_matmul.fp8": (("PyTorch", _experts),),
    "paged": (("FlashInfer", _paged),), "paged_fp8": (("FlashInfer", _paged),), "latent": (("FlashInfer", _latent),),
}  # fmt: skip
"""The libraries that have each kernel, the one that serving runs first."""
WHAT = {
    "fp8_block": "fp8 by blocks", "int8_wo": "8-bit weights", "int4_wo": "4-bit weights", "matmul.fp4": "fp4",
    "grouped_matmul.fp8": "experts in fp8", "paged": "decode over pages", "paged_fp8": "decode over 8-bit pages",
    "latent": "decode of MLA",
}  # fmt: skip
