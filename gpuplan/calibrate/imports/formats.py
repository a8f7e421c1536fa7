"""Which kinds of files can be imported, and who reads each?"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

from gpuplan.calibrate.imports import mamf, nccl, nvbandwidth, serving, trace
from gpuplan.calibrate.imports.parsed import ImportHints, ParsedFile
from gpuplan.errors import Problem, UsageError, did_you_mean

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
        UsageError: it cannot be read, or is no text.
    """
    try:
        data = path.read_bytes()
        if data[:2] == b"\x1f\x8b":
            data = gzip.decompress(data)
        return data.decode("utf-8-sig")
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        what = getattr(error, "strerror", None) or str(error)
        raise UsageError(Problem("import.unreadable", f"cannot read {path}: {what}", "give a whole text file")) from None
