"""Which kinds of files can be imported, and who reads each?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

from gpuplan.calibrate.imports import mamf, nccl, nvbandwidth, serving, trace
from gpuplan.calibrate.imports.parsed import ImportHints, ParsedFile
from gpuplan.errors import Problem, UsageError, did_you_mean
from gpuplan.files.read import unpacked_text

Parser: TypeAlias = Callable[[str, str, ImportHints], ParsedFile]
PARSERS: Mapping[str, Parser] = {
    "nccl-tests": nccl.parse, "nvbandwidth": nvbandwidth.parse, "mamf-finder": mamf.parse, "torch-trace": trace.parse,
    "vllm": serving.parse_vllm, "sglang": serving.parse_sglang,
}  # fmt: skip
TABLES = "aiconfigurator"
"""The tables of that package are read by `gpuplan calibrate fit`."""
KINDS = (*PARSERS, TABLES)


def parser_of(kind: str) -> Parser:
    """Who reads a kind of file.

    Raises:
        UsageError: no such kind.
    """
    if kind not in PARSERS:
        hint = did_you_mean(kind, KINDS) or f"there are {', '.join(KINDS)}"
        raise UsageError(Problem("usage.word", f"no kind of import is called `{kind}`", hint))
    return PARSERS[kind]


def text_of(path: Path) -> str:
    """The text of a file, which may be packed with gzip.

    Raises:
        UsageError: it cannot be read, is larger than any, or is no text.
    """
    return unpacked_text(path, code="import")
