"""Which kinds of kernels take the time of a case: as the profiler of PyTorch measures it, and as an estimate has it?

So that a wrong prediction says where it is wrong. What no kernel takes is the host's: starting kernels, and waiting.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from gpuplan.term import Term

KINDS: Mapping[str, tuple[str, ...]] = {
    "matmuls": ("hw.matmul_residual", "hw.grouped_residual"),
    "attention": ("hw.prefill_residual", "hw.decode_residual"),
    "streams": ("hw.stream_residual",),
}
"""Kinds of kernels, and the terms that all times of such kernels are multiplied by."""
REST = "host"
NUDGE = 0.01
MATMUL = ("mm", "gemm", "gemv", "nvjet", "cutlass", "cijk", "splitk", "linear", "xmma")
"""Parts of the names of matmuls: PyTorch's operators on processors, kernels of cuBLAS, CUTLASS and Tensile on GPUs."""
SPANS = ("Optimizer.", "ProfilerStep")
"""What the framework marks on the time line of a GPU beside kernels: spans over many of them."""
ATTENTION = ("attention", "flash", "fmha", "sdpa", "attn")


def kind_of(name: str) -> str:
    """The kind of a kernel or an operator, by its name.

    >>> kind_of("aten::addmm"), kind_of("nvjet_tst_128x256_64x4_2x1_v_bz_NNT"), kind_of("aten::silu")
    ('matmuls', 'matmuls', 'streams')
    >>> kind_of("aten::_scaled_dot_product_flash_attention_for_cpu"), kind_of("cudnn_generated_fort_native_sdpa_sm90_flash_fprop")
    ('attention', 'attention')
    """
    low = name.lower()
    if any(part in low for part in ATTENTION):
        return "attention"
    return "matmuls" if any(part in low for part in MATMUL) else "streams"


def foretold_kinds(seconds: Term) -> dict[str, float]:
    """The seconds of each kind of kernel in a predicted time: how much it grows with all kernels of the kind."""
    whole = _number(seconds)
    made = {}
    for kind, names in KINDS.items():
        moved = _number(seconds.given(dict.fromkeys(names, 1 + NUDGE)))
        made[kind] = (moved - whole) / NUDGE
    rest = whole - sum(made.values())
    return {**made, REST: rest if abs(rest) > 1e-9 * whole else 0.0}


def measured_kinds(run: Callable[[], None], gpu: bool, seconds: float) -> dict[str, float] | None:
    """The seconds of each kind of kernel while something runs once, which takes `seconds` without the profiler; None: it fails."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # Otherwise it tells the terminal when it begins and ends.
    import torch

    activities = torch.profiler.ProfilerActivity
    try:
        with torch.profiler.profile(activities=[activities.CUDA, activities.CPU] if gpu else [activities.CPU]) as profile:
            run()
            if gpu:
                torch.cuda.synchronize()
    except RuntimeError:  # Profilers need counters that containers may not give.
        return None
    return shared(spent(profile.events() or (), gpu=gpu), seconds, gpu=gpu)


def spent(events: Iterable[Any], *, gpu: bool) -> dict[str, float]:
    """The seconds of each kind in the events of a profile: of kernels on a GPU, of operators themselves on a processor."""
    found = dict.fromkeys(KINDS, 0.0)
    for event in events:
        on_gpu = str(getattr(event, "device_type", "")).endswith("CUDA")
        spans = getattr(event, "is_user_annotation", False) or event.name.startswith(SPANS)
        if gpu and on_gpu and not spans:
            found[kind_of(event.name)] += 1e-6 * float(event.time_range.elapsed_us())
        elif not gpu and event.name.startswith("aten::"):
            found[kind_of(event.name)] += 1e-6 * float(event.self_cpu_time_total)
    return found


def shared(found: Mapping[str, float], seconds: float, *, gpu: bool) -> dict[str, float] | None:
    """The same with what is left of the whole for the host; where the profiler slowed a processor down, in proportion.

    >>> shared({"matmuls": 3.0, "attention": 1.0, "streams": 4.0}, 4.0, gpu=False)["matmuls"]
    1.5
    """
    whole = sum(found.values())
    if not whole:
        return None
    scale = seconds / whole if whole > seconds and not gpu else 1.0
    made = {kind: scale * one for kind, one in found.items()}
    return {**made, REST: max(seconds - sum(made.values()), 0.0)}


def _number(term: Term) -> float:
    value: Any = term.value
    return float(value)
