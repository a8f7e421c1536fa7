"""Which collectives did a program of nccl-tests (or rccl-tests) time?

The table has the size of the message in bytes (the larger of what goes in and comes out), the time in microseconds out of
place and again in place; the out-of-place time counts. Comment lines in front name the program and the ranks:
https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md
Launchers may put the rank before every line: `[1,0]<stdout>:` (`mpirun --tag-output`), `0: ` (`srun --label`), `[default0]:`
(`torchrun --tee`). That is taken off.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from gpuplan.calibrate.device import Probe
from gpuplan.calibrate.imports.parsed import ImportHints, ParsedFile, TimedKernel, fault

PROGRAMS = {
    "all_reduce": "all_reduce", "all_gather": "all_gather", "reduce_scatter": "reduce_scatter", "alltoall": "all_to_all",
    "sendrecv": "transfer",
}  # fmt: skip
DTYPES = {"float": "fp32", "half": "fp16", "bfloat16": "bf16", "double": "fp64", "int8": "int8", "uint8": "int8", "fp8_e4m3": "fp8"}
_PROGRAM = re.compile(r"\b(\w+?)_perf\b")
_RANK = re.compile(r"^#\s*Rank\s+(\d+)\s+.*?\bon\s+(\S+)\s+device\s+\S+\s+\[[^\]]*\]\s+(.+?)\s*$")
_TAG = re.compile(r"^(?:\w{3} \w{3} +\d+ [\d:]+ \d{4})?(?:\[[^\[\]\s]+\](?:<std\w+>)?:? ?|<std\w+>:? ?)|^ *\d+: ")
"""Open MPI: https://docs.open-mpi.org/en/main/man-openmpi/man1/mpirun.1.html (--tag-output); Slurm:
https://slurm.schedmd.com/srun.html (--label)."""
_GPUS = re.compile(r"\bnThread\s+(\d+)\s+nGpus\s+(\d+)")
WHAT = "the whole output of a program of nccl-tests, comment lines included"


def parse(text: str, name: str, given: ImportHints) -> ParsedFile:
    """The collectives of one or several runs, one after the other in a file.

    Raises:
        UsageError: no table, a row that does not match its header, or ranks that nobody named.
    """
    points: list[TimedKernel] = []
    left_out: list[str] = []
    devices: dict[str, None] = {}
    software = "NCCL"
    program, state = _named(name), _Ranks()
    header: list[str] = []
    for number, whole in enumerate(text.splitlines(), start=1):
        line = _TAG.sub("", whole, count=1)
        words = line.replace("#", " # ", 1).split() if line.lstrip().startswith("#") else line.split()
        if found := re.search(r"NCCL version (\S+)", line):
            software = f"NCCL {found[1]}"
        if found := _RANK.match(line.strip()):
            state.add(int(found[1]), found[2])
            devices[found[3]] = None
        elif "Collective test starting" in line and (found := _PROGRAM.search(line)):
            program, header, state = found[1], [], _Ranks()
        elif found := _GPUS.search(line):
            state.asked = int(found[1]) * int(found[2])
        elif words[:2] == ["#", "size"] and "time" in words:
            header = words[1:]
        elif header and len(words) > 3 and words[0].isdigit() and words[1].isdigit():
            if len(words) != len(header):
                raise fault(name, number, f"the row has {len(words)} columns, its header {len(header)}", f"give {WHAT}")
            point = _point(words, header, program, state.count(given, name, number), name, number, left_out)
            if point is not None and state.near is None:
                left_out.append(f"{name}: ranks on {state.uneven}: groups that are no rectangle of hosts tell nothing")
            elif point is not None:
                points.append(point.replaced(near=state.near))
    if not points and not left_out:
        raise fault(name, 0, "it holds no table of nccl-tests", f"give {WHAT}")
    return ParsedFile(points=tuple(points), devices=tuple(devices), software=software, left_out=tuple(dict.fromkeys(left_out)))


class _Ranks:
    """Which ranks the comment lines named."""

    def __init__(self) -> None:
        self._named: dict[int, str] = {}
        self.asked = 0

    def add(self, rank: int, host: str) -> None:
        self._named[rank] = host

    @property
    def near(self) -> int | None:
        """How many ranks each of several hosts has; 0: there is one host, None: not all have as many."""
        counts = Counter(self._named.values())
        if len(counts) < 2:
            return 0
        return min(counts.values()) if len(set(counts.values())) == 1 else None

    @property
    def uneven(self) -> str:
        """The hosts that do not have as many ranks each, in words."""
        counts = sorted(set(Counter(self._named.values()).values()))
        return f"{len(set(self._named.values()))} hosts with {' and '.join(map(str, counts))} of them"

    def count(self, given: ImportHints, name: str, line: int) -> int:
        count = given.ranks or len(self._named) or self.asked
        if count < 2:
            raise fault(name, line, "it does not say how many ranks there were, or only one", "say it with --ranks N")
        return count


def _named(name: str) -> str:
    """The program that a file's name suggests."""
    return next((program for program in PROGRAMS if program in name), "")


def _point(
    words: list[str], header: list[str], program: str, ranks: int, name: str, line: int, left_out: list[str]
) -> TimedKernel | None:  # fmt: skip
    kind: Any = PROGRAMS.get(program)
    if kind is None:
        what = f"`{program}_perf` has no parameters of its own" if program else "the program is not named"
        left_out.append(f"{name}: {what} (there are {', '.join(f'{one}_perf' for one in PROGRAMS)})")
        return None
    row = dict(zip(reversed(header), reversed(words), strict=True))  # of columns that come twice the first, out of place
    try:
        size, seconds = float(row["size"]), float(row["time"]) * 1e-6
    except ValueError:
        raise fault(name, line, f"`{row['time']}` is no time in microseconds", f"give {WHAT}") from None
    wrong = row.get("#wrong", row.get("error", "0"))
    if wrong not in ("0", "N/A") and not re.fullmatch(r"\d\.?\d*e[+-]\d+", wrong):
        left_out.append(f"{name}:{line}: {wrong} wrong results")
        return None
    if size <= 0 or seconds <= 0:
        return None
    dtype = DTYPES.get(row.get("type", ""), "fp32")
    shape = {"size": size, "group": float(ranks)}
    if kind == "transfer":
        return TimedKernel(probe=Probe(kind="transfer", dtype=dtype, shape=shape), seconds=seconds, line=line)
    return TimedKernel(probe=Probe(kind="collective", name=kind, dtype=dtype, shape=shape), seconds=seconds, line=line)
