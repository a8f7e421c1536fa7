"""Which matmuls did mamf-finder time? Its lines have TFLOP/s and the shape, `707.1 TFLOPS @ 2048x2048x13312`, M x N x K.

Older versions print one figure a shape, newer ones a mean, a median and a maximum, of which the median counts; the best so far,
behind it on the same line, is left out. Terminals overwrite the line, so that carriage returns separate them as well.
Format: https://github.com/stas00/ml-engineering/blob/master/compute/accelerator/benchmarks/mamf-finder.py
"""

from __future__ import annotations

import re

from gpuplan.calibrate.device import Probe
from gpuplan.calibrate.imports.parsed import ImportHints, ParsedFile, TimedKernel, fault

DTYPES = {
    "bfloat16": "bf16", "float16": "fp16", "float32": "fp32", "float8_e4m3fn": "fp8", "float8_e4m3fnuz": "fp8",
    "bf16": "bf16", "fp16": "fp16", "fp8": "fp8", "int8": "int8",
}  # fmt: skip
_SHAPE = r"(\d+)\s*x\s*(\d+)\s*x\s*(\d+)"
_LINE = re.compile(rf"^\s*(?:\d+\s*\|\s*)?(.*?)@\s*{_SHAPE}")
_ROW = re.compile(rf"^\s*\|?\s*{_SHAPE}\s*[|:,\t ]\s*(\d+(?:\.\d+)?)\s*(?:TFLOPS)?\b", re.I)
_FIGURE = re.compile(r"(\d+(?:\.\d+)?)\s*(?:\((\w+)\)|TFLOPS)?", re.I)
_DTYPE = re.compile(r"--dtype[= ]+(?:torch\.)?(\w+)|\bdtype[:=]\s*(?:torch\.)?(\w+)", re.I)
_DEVICE = re.compile(r"DeviceProperties\(name='([^']+)'")
_TORCH = re.compile(r"^torch=(\S+)", re.M)
WHAT = "the text that mamf-finder.py printed or wrote with --output_file"


def parse(text: str, name: str, given: ImportHints) -> ParsedFile:
    """The matmuls of every shape; of one that comes more often the last.

    Raises:
        UsageError: no line with a shape and its rate, or a data type that neither the file nor the user names.
    """
    word = given.dtype or next((one[1] or one[2] for one in _DTYPE.finditer(text)), "")
    dtype = DTYPES.get(word)
    if dtype is None:
        message = f"the data type `{word}` is not known" if word else "it does not say which data type was multiplied"
        raise fault(name, 0, message, f"say it with --dtype: {', '.join(sorted(set(DTYPES.values())))}")
    points: dict[str, TimedKernel] = {}
    for number, whole in enumerate(text.splitlines(), start=1):
        for line in whole.split("\r"):
            found = _timed(line)
            if found is None:
                continue
            tflops, (m, n, k) = found
            if min(tflops, m, n, k) <= 0:
                raise fault(name, number, "a shape or a rate of zero", f"give {WHAT}, unchanged")
            probe = Probe(kind="matmul", dtype=dtype, shape={"m": m, "n": n, "k": k, "batch": 1.0})
            points[probe.key()] = TimedKernel(probe=probe, seconds=2 * m * n * k / (tflops * 1e12), line=number)
    if not points:
        raise fault(name, 0, "it holds no line such as `707.1 TFLOPS @ 2048x2048x13312`", f"give {WHAT}")
    devices = tuple(dict.fromkeys(_DEVICE.findall(text)))
    version = _TORCH.search(text)
    software = f"mamf-finder, torch {version[1]}" if version else "mamf-finder"
    return ParsedFile(points=tuple(points.values()), devices=devices, software=software)


def _timed(line: str) -> tuple[float, tuple[float, float, float]] | None:
    """The rate in TFLOP/s and the shape of a line."""
    if line.lower().lstrip(" *").startswith(("the best", "tried", "best")):
        return None
    if found := _LINE.match(line):
        figures = {(label or "").lower(): float(figure) for figure, label in _FIGURE.findall(found[1])}
        if not figures:
            return None
        return figures.get("median", next(iter(figures.values()))), (float(found[2]), float(found[3]), float(found[4]))
    if found := _ROW.match(line):
        return float(found[4]), (float(found[1]), float(found[2]), float(found[3]))
    return None
