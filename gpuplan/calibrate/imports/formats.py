"""Which kinds of files can be imported, and who reads each?"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isfinite
from pathlib import Path
from typing import Any, TypeAlias

from gpuplan.calibrate.imports import clients, mamf, nccl, nvbandwidth, serving, trace
from gpuplan.calibrate.imports.parsed import ImportHints, ParsedFile, fault
from gpuplan.errors import Problem, UsageError, did_you_mean
from gpuplan.files.read import unpacked_text

Parser: TypeAlias = Callable[[str, str, ImportHints], ParsedFile]
PARSERS: Mapping[str, Parser] = {
    "nccl-tests": nccl.parse, "nvbandwidth": nvbandwidth.parse, "mamf-finder": mamf.parse, "torch-trace": trace.parse,
    "vllm": serving.parse_vllm, "sglang": serving.parse_sglang, "genai-perf": clients.parse_client,
    "aiperf": clients.parse_client, "llama-bench": clients.parse_llama_bench,
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


def parsed(kind: str, path: Path, given: ImportHints) -> ParsedFile:
    """What a file of a kind holds, all of it figures that can be.

    Raises:
        UsageError: it cannot be read, or is not of that kind.
    """
    parse, name = parser_of(kind), path.name
    try:
        found = parse(text_of(path), name, given)
    except (KeyError, IndexError, TypeError, AttributeError, ValueError, ArithmeticError) as error:
        # Files of other programs nest values of any kind; what a parser did not look for ends here.
        what = f"an entry is not what a file of {kind} holds ({type(error).__name__}: {str(error)[:80]})"
        raise fault(name, 0, what, "give it as the tool wrote it, whole") from None
    odd = next((point for point in found.points if not (isfinite(point.seconds) and point.seconds > 0)), None)
    if odd is not None:
        raise fault(name, odd.line, f"a time of {odd.seconds:g} s is none", "give it as the tool wrote it, whole")
    if not all(isfinite(rate) and rate > 0 for rate in found.rates.values()) or not _finite(found.runs):
        raise fault(name, 0, "a figure of it is not finite", "give it as the tool wrote it, whole")
    return found


def _finite(value: Any) -> bool:
    """Whether all numbers in a value are finite."""
    if isinstance(value, Mapping):
        return all(_finite(one) for one in value.values())
    if isinstance(value, (list, tuple)):
        return all(_finite(one) for one in value)
    return not isinstance(value, float) or isfinite(value)


def text_of(path: Path) -> str:
    """The text of a file, which may be packed with gzip.

    Raises:
        UsageError: it cannot be read, is larger than any, or is no text.
    """
    return unpacked_text(path, code="import")
