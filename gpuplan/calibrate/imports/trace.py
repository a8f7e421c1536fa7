"""Which matmuls and attentions ran in a trace of the PyTorch profiler (Chrome trace JSON)?

Shapes stand at the operators of the host (`record_shapes=True`: `Input Dims`, `Input type`), times at the kernels of the device;
an `External id`, or the `correlation` of the launch, ties them together. Repetitions of one shape become their median.
Format: https://github.com/pytorch/kineto/blob/main/tb_plugin/README.md
"""

from __future__ import annotations

import statistics
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

from gpuplan.calibrate.device import Probe
from gpuplan.calibrate.imports.parsed import ImportHints, ParsedFile, TimedKernel, fault, json_of
from gpuplan.files.progress import steps

TYPES = {
    "c10::BFloat16": "bf16", "c10::Half": "fp16", "c10::Float8_e4m3fn": "fp8", "c10::Float8_e4m3fnuz": "fp8", "signed char": "int8",
}  # fmt: skip
MATMULS = ("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::_scaled_mm")
ATTENTIONS = (
    "aten::_flash_attention_forward", "aten::_scaled_dot_product_flash_attention", "aten::_scaled_dot_product_cudnn_attention",
    "aten::_efficient_attention_forward", "aten::_scaled_dot_product_efficient_attention",
)  # fmt: skip
FLOATS = ("fp32", "tf32")
"""What PyTorch may multiply 32-bit floats in: the trace does not say which of them."""
KERNELS = ("kernel",)
LAUNCHES = ("cuda_runtime", "cuda_driver", "hip_runtime")
WHAT = "a trace of torch.profiler with record_shapes=True, as export_chrome_trace writes it"


def parse(text: str, name: str, given: ImportHints) -> ParsedFile:
    """The median time of each shape.

    Raises:
        UsageError: it is no trace, has no kernels of a device, or no shapes.
    """
    data = json_of(text, name, WHAT)
    events = data.get("traceEvents") if isinstance(data, dict) else data
    if not isinstance(events, list):
        raise fault(name, 0, "it has no `traceEvents`", f"give {WHAT}")
    events = [event for event in events if isinstance(event, dict) and isinstance(event.get("args"), dict)]
    operators = [event for event in events if event.get("cat") == "cpu_op" and event.get("name") in (*MATMULS, *ATTENTIONS)]
    kernels = [event for event in events if event.get("cat") in KERNELS]
    if not kernels:
        raise fault(name, 0, "it has no kernels of a device", "profile with ProfilerActivity.CUDA")
    if not operators:
        names = ", ".join(MATMULS)
        raise fault(name, 0, f"none of its operators is a matmul or an attention ({names} …)", f"give {WHAT}")
    if not any(event["args"].get("Input Dims") for event in operators):
        raise fault(name, 0, "its matmuls have no shapes", "profile with record_shapes=True")
    spent = _spent(operators, kernels, [event for event in events if event.get("cat") in LAUNCHES])
    times: dict[str, list[float]] = {}
    probes: dict[str, Probe] = {}
    left_out: dict[str, int] = {}
    for at, operator in enumerate(steps(operators, f"matmuls and attentions of {name}")):
        if not spent.get(at):
            continue
        probe = _probe(operator, given.dtype)
        if isinstance(probe, str):
            left_out[probe] = left_out.get(probe, 0) + 1
            continue
        probes[probe.key()] = probe
        times.setdefault(probe.key(), []).append(spent[at] * 1e-6)
    if not times:
        why = "; ".join(left_out) or "no kernel belongs to one"
        raise fault(name, 0, f"none of its {len(operators)} matmuls and attentions can be taken: {why}", f"give {WHAT}")
    info = data.get("deviceProperties") if isinstance(data, dict) else None
    devices = tuple(dict.fromkeys(str(one["name"]) for one in info or () if isinstance(one, dict) and one.get("name")))
    return ParsedFile(
        points=tuple(TimedKernel(probe=probes[key], seconds=statistics.median(found)) for key, found in times.items()),
        devices=devices, software="torch profiler", left_out=tuple(f"{name}: {n} x {why}" for why, n in left_out.items()),
    )  # fmt: skip


def _spent(
    operators: Sequence[Mapping[str, Any]], kernels: Sequence[Mapping[str, Any]], launches: Sequence[Mapping[str, Any]]
) -> dict[int, float]:
    """Microseconds of the kernels of each operator, by its place in the list."""
    by_id = {str(one["args"]["External id"]): at for at, one in enumerate(operators) if "External id" in one["args"]}
    by_launch = {one["args"]["correlation"]: one for one in launches if "correlation" in one["args"]}
    threads: dict[Any, list[tuple[float, float, int]]] = {}
    for at, one in enumerate(operators):
        threads.setdefault(one.get("tid"), []).append((float(one["ts"]), float(one["ts"]) + float(one.get("dur", 0)), at))
    for spans in threads.values():
        spans.sort()
    spent: dict[int, float] = {}
    for kernel in steps(kernels, "kernels of the trace"):
        at_ = by_id.get(str(kernel["args"].get("External id")))
        if at_ is None:
            launch = by_launch.get(kernel["args"].get("correlation"))
            at_ = None if launch is None else _around(threads.get(launch.get("tid"), []), float(launch["ts"]))
        if at_ is not None:
            spent[at_] = spent.get(at_, 0.0) + float(kernel.get("dur", 0))
    return spent


def _around(spans: Sequence[tuple[float, float, int]], moment: float) -> int | None:
    """The innermost operator that runs at a moment: of those that began before, the last that has not ended."""
    for begin, end, at in reversed(spans[: bisect_right(spans, (moment, float("inf"), 0))]):
        if begin <= moment <= end:
            return at
    return None


def _probe(operator: Mapping[str, Any], said: str | None) -> Probe | str:
    """What an operator computed, or why it does not count. `said`: what 32-bit floats were multiplied in, fp32 or tf32."""
    args = operator["args"]
    dims = list(args.get("Input Dims") or ())
    types = list(args.get("Input type") or ())
    name = str(operator["name"])
    first = 1 if name in ("aten::addmm", "aten::baddbmm") else 0
    dtype = TYPES.get(types[first]) if len(types) > first else None
    if dtype is None and types[first : first + 1] == ["float"] and said in FLOATS:
        dtype = said
    if dtype is None and types[first : first + 1] == ["float"]:
        return f"{name} of float, which may have run in tf32 (say --dtype fp32 or --dtype tf32)"
    if dtype is None:
        return f"{name} of {types[first] if len(types) > first else 'unknown type'}, which may have run in another one"
    if name in ATTENTIONS:
        return _attention(name, dims, dtype, args)
    left, right = dims[first], dims[first + 1]
    if len(left) == 2 and len(right) == 2 and left[1] == right[0]:
        shape = {"m": left[0], "n": right[1], "k": left[1], "batch": 1}
    elif len(left) == 3 and len(right) == 3 and left[2] == right[1]:
        shape = {"m": left[1], "n": right[2], "k": left[2], "batch": left[0]}
    else:
        return f"{name} with dimensions that do not match"
    if min(shape.values()) < 1:
        return f"{name} of nothing"
    return Probe(kind="matmul", dtype=dtype, shape={key: float(value) for key, value in shape.items()})


def _attention(name: str, dims: Sequence[Any], dtype: str, args: Mapping[str, Any]) -> Probe | str:
    if len(dims) < 3 or any(len(dim) != 4 for dim in dims[:3]):
        return f"{name} without four dimensions (variable lengths)"
    middle = (2, 1) if name.startswith("aten::_scaled") else (1, 2)  # positions and heads change places
    (length, heads), (keys, kv_heads) = ((dim[middle[0]], dim[middle[1]]) for dim in dims[:2])
    if length > 1 and "True" not in [str(one) for one in args.get("Concrete Inputs") or ()][3:]:
        return f"{name} that is not causal, or does not say so (no `Concrete Inputs`)"
    shape = {"sequences": dims[0][0], "q_len": length, "kv_len": keys, "heads": heads, "kv_heads": kv_heads,
             "k_dim": dims[0][3], "v_dim": dims[2][3], "window": 0}  # fmt: skip
    return Probe(
        kind="decode" if length == 1 else "prefill", dtype=dtype, shape={key: float(value) for key, value in shape.items()}
    )  # fmt: skip
