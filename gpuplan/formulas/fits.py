"""What were the shapes of our own formulas fitted to, and where do they hold?"""

from __future__ import annotations

from gpuplan.term import Source, fitted

TABLES = "https://github.com/ai-dynamo/aiconfigurator/tree/095f58a51c4ca8e61b66ec108d86f223f8d559ce"
_KERNELS = "measured kernels of hardware_specs/measured, most from AIConfigurator's op tables (NVIDIA A100 to GB300)"


def matmuls(note: str = "") -> Source:
    """A fit to measured products."""
    return fitted(_KERNELS, "products of 1 to 32,768 rows, with 32 to 65,536 columns and depth", url=TABLES, note=note)


def prefills(note: str = "") -> Source:
    """A fit to measured attention over whole sequences."""
    return fitted(_KERNELS, "1 to 256 sequences of 1 to 16,384 tokens, head dimensions 64 to 512", url=TABLES, note=note)


def decodes(note: str = "") -> Source:
    """A fit to measured attention of single queries."""
    return fitted(_KERNELS, "1 to 2,048 sequences of 2 to 131,072 keys, head dimensions 64 to 512", url=TABLES, note=note)


def collectives(note: str = "") -> Source:
    """A fit to measured collectives."""
    data = "measured collectives of hardware_specs/measured, most from AIConfigurator's tables of NCCL and of engines' kernels"
    return fitted(data, "2 to 8 accelerators of one node, messages of 256 B to 1 GiB", url=TABLES, note=note)


def training_runs(holds: str, note: str = "") -> Source:
    """A fit to published training runs."""
    return fitted("published training runs of gpuplan/accuracy/runs, by engine as its profile says", holds, note=note)
