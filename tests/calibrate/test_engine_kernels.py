"""Are the kernels of serving engines called as their libraries declare them, and named where they cannot be?

Modules of the libraries are faked by functions and classes with the parameters of the real ones, in their order, which compute what
the real ones do; PyTorch's own kernels for processors run for real.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from gpuplan.calibrate.device import Probe

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

SIDES = {"m": 48.0, "n": 256.0, "k": 384.0, "batch": 1.0}
CACHE = {"sequences": 3.0, "q_len": 1.0, "kv_len": 50.0, "heads": 8.0, "kv_heads": 2.0, "k_dim": 64.0, "v_dim": 64.0, "window": 0.0}
MLA = {**CACHE, "kv_heads": 1.0, "k_dim": 576.0, "v_dim": 512.0}


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    """What was chosen for one set of libraries says nothing of the next."""
    from gpuplan.calibrate.backends import engine_kernels

    engine_kernels._chosen.cache_clear()
    yield
    engine_kernels._chosen.cache_clear()


def installed(monkeypatch: pytest.MonkeyPatch, name: str, **content: Any) -> None:
    """A module of that name, and the packages around it."""
    parts = name.split(".")
    for number in range(1, len(parts) + 1):
        whole = ".".join(parts[:number])
        module = sys.modules.get(whole) or ModuleType(whole)
        if number < len(parts):
            module.__path__ = []
        monkeypatch.setitem(sys.modules, whole, module)
    for key, value in content.items():
        monkeypatch.setattr(sys.modules[name], key, value, raising=False)


def absent(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Libraries that are not installed, whatever is here."""
    for name in names:
        for key in [one for one in sys.modules if one == name or one.startswith(f"{name}.")]:
            monkeypatch.delitem(sys.modules, key)
        monkeypatch.setitem(sys.modules, name, None)


def bound(order: str, given: tuple[Any, ...], named: dict[str, Any]) -> SimpleNamespace:
    """The arguments of a call, by the names that the real function has in this order."""
    names = order.split()
    assert len(given) <= len(names)
    assert set(named) <= set(names[len(given) :]), "no such parameter, or twice"
    return SimpleNamespace(**dict(zip(names, given, strict=False)), **named)


def made(probe: Probe) -> Any:
    from gpuplan.calibrate.backends.torch_kernels import kernel, refusal
    from gpuplan.calibrate.backends.torch_tensors import Tensors

    assert refusal(torch, torch.device("cpu"), probe) is None
    return kernel(Tensors(torch, torch.device("cpu")), probe)


def why_not(probe: Probe) -> str:
    from gpuplan.calibrate.backends.torch_kernels import refusal

    return refusal(torch, torch.device("cpu"), probe) or ""


# vllm/model_executor/layers/quantization/utils/fp8_utils.py and sglang/srt/layers/quantization/fp8_kernel.py
def w8a8_block(
    A: Any, B: Any, As: Any, Bs: Any, block_size: list[int], output_dtype: Any = torch.float16
) -> Any:  # fmt: skip
    block_n, block_k = block_size
    (m, k), n = A.shape, B.shape[0]
    assert A.dtype == B.dtype == torch.float8_e4m3fn
    assert A.is_contiguous()
    assert As.shape == (m, math.ceil(k / block_k))
    assert Bs.shape == (math.ceil(n / block_n), math.ceil(k / block_k))
    left = A.float() * As.repeat_interleave(block_k, 1)
    right = B.float() * Bs.repeat_interleave(block_n, 0).repeat_interleave(block_k, 1)
    return (left @ right.t()).to(output_dtype)


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("vllm.model_executor.layers.quantization.utils.fp8_utils", "w8a8_triton_block_scaled_mm"),
        ("vllm.model_executor.layers.quantization.utils.fp8_utils", "w8a8_block_fp8_matmul"),
        ("sglang.srt.layers.quantization.fp8_kernel", "w8a8_block_fp8_matmul"),
    ],
)
def test_products_by_blocks_are_those_of_the_engine_that_is_installed(
    monkeypatch: pytest.MonkeyPatch, module: str, name: str
) -> None:
    from gpuplan.calibrate.backends import engine_kernels

    absent(monkeypatch, "vllm", "sglang")
    for part in ("vllm", "sglang"):
        if module.startswith(part):
            monkeypatch.delitem(sys.modules, part)
    installed(monkeypatch, module, **{name: w8a8_block})
    probe = Probe(kind="matmul", dtype="fp8", name="fp8_block", shape=SIDES)
    kernel = made(probe)
    assert kernel.call().shape == (48, 256)
    assert kernel.call().dtype == torch.bfloat16
    found = engine_kernels.chosen(torch, torch.device("cpu"), probe)
    assert isinstance(found, engine_kernels.EngineKernel)
    assert found.library == ("vLLM" if module.startswith("vllm") else "SGLang")
    told = engine_kernels.libraries(torch, torch.device("cpu"), [probe, Probe(kind="matmul", shape=SIDES)])
    assert list(told) == ["fp8 by blocks"]
    assert told["fp8 by blocks"].startswith(f"by {found.library}")


def test_a_library_that_is_there_and_lacks_the_kernel_is_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    absent(monkeypatch, "sglang")
    installed(monkeypatch, "vllm.model_executor")
    said = why_not(Probe(kind="matmul", dtype="fp8", name="fp8_block", shape=SIDES))
    assert said.startswith("fp8 by blocks cannot be measured: that of vLLM does not run (this version has no vllm.model_executor.")
    assert "SGLang is not installed" in said
    assert "that of PyTorch does not run" in said, "a processor multiplies no blocks"


# vllm/_custom_ops.py and sgl_kernel/gemm.py
def cutlass_scaled_fp4_mm(
    a: Any, b: Any, block_scale_a: Any, block_scale_b: Any, alpha: Any, out_dtype: Any
) -> Any:  # fmt: skip
    assert a.ndim == b.ndim == 2
    assert a.dtype == b.dtype == torch.uint8
    m, n, k = a.shape[0], b.shape[0], 2 * a.shape[1]
    for rows, scale in ((m, block_scale_a), (n, block_scale_b)):
        assert scale.dtype == torch.float8_e4m3fn
        assert scale.shape == (math.ceil(rows / 128) * 128, math.ceil(k / 16 / 4) * 4)
    assert alpha.dtype == torch.float32
    return torch.empty((m, n), dtype=out_dtype)


def test_products_in_4_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    from gpuplan.calibrate.backends.torch_tensors import Tensors

    # A processor makes no tensors of 4-bit floats: bytes of theirs will do.
    monkeypatch.setattr(Tensors, "one", lambda self, dtype, *shape: torch.zeros(shape, dtype=torch.uint8))
    monkeypatch.setattr(Tensors, "turns", lambda self, dtype, *shape: [torch.zeros(shape, dtype=torch.uint8)] * 2)
    installed(monkeypatch, "vllm._custom_ops", cutlass_scaled_fp4_mm=cutlass_scaled_fp4_mm)
    assert made(Probe(kind="matmul", dtype="fp4", shape=SIDES)).call().shape == (48, 256)
    from gpuplan.calibrate.backends import engine_kernels

    engine_kernels._chosen.cache_clear()
    absent(monkeypatch, "vllm")
    installed(monkeypatch, "sgl_kernel", cutlass_scaled_fp4_mm=cutlass_scaled_fp4_mm)
    assert made(Probe(kind="matmul", dtype="fp4", shape=SIDES)).call().shape == (48, 256)


class PagedDecode:
    """flashinfer/decode.py, BatchDecodeWithPagedKVCacheWrapper: attention of one query of each sequence over its pages."""

    def __init__(
        self, float_workspace_buffer: Any, kv_layout: str = "NHD", use_cuda_graph: bool = False, use_tensor_cores: bool = False,
    ) -> None:  # fmt: skip
        assert kv_layout == "NHD"
        assert float_workspace_buffer.numel() >= 128 * 2**20
        assert not use_cuda_graph
        self.use_tensor_cores = use_tensor_cores

    def plan(self, *given: Any, **named: Any) -> None:
        order = "indptr indices last_page_len num_qo_heads num_kv_heads head_dim page_size pos_encoding_mode window_left"
        p = self.planned = bound(f"{order} logits_soft_cap q_data_type kv_data_type", given, named)
        assert p.indptr.dtype == p.indices.dtype == p.last_page_len.dtype == torch.int32
        assert p.indptr[0] == 0
        assert len(p.indices) == p.indptr[-1]
        assert sorted(p.indices.tolist()) == list(range(len(p.indices))), "each page is of one sequence"
        assert ((p.last_page_len >= 1) & (p.last_page_len <= p.page_size)).all()

    def run(self, q: Any, paged_kv_cache: Any) -> Any:
        p = self.planned
        assert q.shape == (len(p.last_page_len), p.num_qo_heads, p.head_dim)
        assert q.dtype == p.q_data_type
        assert paged_kv_cache.shape == (p.indptr[-1], 2, p.page_size, p.num_kv_heads, p.head_dim)
        assert paged_kv_cache.dtype == p.kv_data_type
        out = []
        for at in range(len(p.last_page_len)):
            pages = p.indices[p.indptr[at] : p.indptr[at + 1]].long()
            length = (len(pages) - 1) * p.page_size + int(p.last_page_len[at])
            k, v = (paged_kv_cache[pages].float()[:, side].flatten(0, 1)[:length].transpose(0, 1) for side in (0, 1))
            each = torch.nn.functional.scaled_dot_product_attention(q[at].float()[:, None], k, v, enable_gqa=True)
            out.append(each[:, 0])
        return torch.stack(out)


@pytest.mark.parametrize(("name", "dtype"), [("paged", torch.bfloat16), ("paged_fp8", torch.float8_e4m3fn)])
def test_decode_over_pages(monkeypatch: pytest.MonkeyPatch, name: str, dtype: Any) -> None:
    seen: list[PagedDecode] = []

    def opened(*given: Any, **named: Any) -> PagedDecode:
        seen.append(PagedDecode(*given, **named))
        return seen[-1]

    installed(monkeypatch, "flashinfer", BatchDecodeWithPagedKVCacheWrapper=opened)
    kernel = made(Probe(kind="decode", name=name, shape=CACHE))
    result = kernel.call()
    assert result.shape == (3, 8, 64)
    assert bool(torch.isfinite(result).all())
    assert seen[-1].planned.kv_data_type == dtype
    assert seen[-1].use_tensor_cores
    assert kernel.copies > 1, "caches take turns"


class LatentDecode:
    """flashinfer/mla.py, BatchMLAPagedAttentionWrapper."""

    def __init__(self, float_workspace_buffer: Any, use_cuda_graph: bool = False, backend: str = "auto") -> None:
        assert float_workspace_buffer.numel() >= 128 * 2**20
        assert (use_cuda_graph, backend) == (False, "auto")

    def plan(self, *given: Any, **named: Any) -> None:
        order = "qo_indptr kv_indptr kv_indices kv_len_arr num_heads head_dim_ckv head_dim_kpe page_size causal sm_scale"
        p = self.planned = bound(f"{order} q_data_type kv_data_type", given, named)
        assert p.qo_indptr.tolist() == list(range(len(p.qo_indptr)))
        assert len(p.kv_indices) == p.kv_indptr[-1]
        assert p.kv_len_arr.dtype == torch.int32
        assert 0 < p.sm_scale < 1
        assert p.causal is False

    def run(self, q_nope: Any, q_pe: Any, ckv_cache: Any, kpe_cache: Any) -> Any:
        p, pages = self.planned, int(self.planned.kv_indptr[-1])
        assert q_nope.shape[1:] == (p.num_heads, p.head_dim_ckv)
        assert q_pe.shape[1:] == (p.num_heads, p.head_dim_kpe)
        assert ckv_cache.shape == (pages, p.page_size, p.head_dim_ckv)
        assert kpe_cache.shape == (pages, p.page_size, p.head_dim_kpe)
        assert (q_nope.dtype, ckv_cache.dtype) == (p.q_data_type, p.kv_data_type)
        return torch.empty_like(q_nope)


def test_decode_of_mla(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, "flashinfer")
    installed(monkeypatch, "flashinfer.mla", BatchMLAPagedAttentionWrapper=LatentDecode)
    assert made(Probe(kind="decode", name="latent", shape=MLA)).call().shape == (3, 8, 512)


def test_what_no_library_has_here_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    absent(monkeypatch, "vllm", "sglang", "sgl_kernel", "flashinfer")
    assert why_not(Probe(kind="decode", name="paged", shape=CACHE)) == (
        "decode over pages cannot be measured: FlashInfer is not installed"
    )
    assert (
        why_not(Probe(kind="decode", name="latent", shape=MLA)) == "decode of MLA cannot be measured: FlashInfer is not installed"
    )
    said = why_not(Probe(kind="grouped_matmul", dtype="fp8", shape={**SIDES, "batch": 4.0}))
    assert said.startswith("experts in fp8 cannot be measured: that of PyTorch does not run")
    assert "vLLM is not installed; SGLang is not installed" in why_not(Probe(kind="matmul", dtype="fp4", shape=SIDES))


@pytest.mark.parametrize("name", ["int8_wo", "int4_wo"])
def test_narrow_weights_run_for_real_on_a_processor(name: str) -> None:
    kernel = made(Probe(kind="matmul", name=name, shape=SIDES))
    assert kernel.call().shape == (48, 256)
    assert kernel.copies > 1, "weights take turns"


def test_4_bit_weights_of_odd_sides_are_left_out() -> None:
    from gpuplan.calibrate.backends.torch_kernels import kernel
    from gpuplan.calibrate.backends.torch_tensors import Tensors

    with pytest.raises(RuntimeError, match="4-bit weights want n in multiples of 16"):
        kernel(Tensors(torch, torch.device("cpu")), Probe(kind="matmul", name="int4_wo", shape={**SIDES, "n": 100.0}))
