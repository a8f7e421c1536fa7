"""Which collectives did a program of nccl-tests (or rccl-tests) time?

The table has the size of the message in bytes (the larger of what goes in and comes out), the time in microseconds out of
place and again in place; the out-of-place time counts. Comment lines in front name the ranks and, since 2.17, the program:
https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md; where nobody names it, the columns tell it if they can: which
reduction, which root, and the bus over the algorithm bandwidth. `-J` writes the same as JSON (src/util.cu there, version 2).
Launchers may put the rank before every line: `[1,0]<stdout>:` (`mpirun --tag-output`), `0: ` (`srun --label`), `[default0]:`
(`torchrun --tee`). That is taken off. A run that was stopped may end in the midst of a row, which is left out. A broadcast counts
as the all-gather that brings every rank as many bytes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from gpuplan.calibrate.device import Probe
from gpuplan.calibrate.imports.parsed import ImportHints, ParsedFile, TimedKernel, fault, json_of
from gpuplan.errors import UsageError

PROGRAMS = {
    "all_reduce": "all_reduce", "all_gather": "all_gather", "reduce_scatter": "reduce_scatter", "alltoall": "all_to_all",
    "sendrecv": "transfer", "broadcast": "broadcast",
}  # fmt: skip
DTYPES = {"float": "fp32", "half": "fp16", "bfloat16": "bf16", "double": "fp64", "int8": "int8", "uint8": "int8", "fp8_e4m3": "fp8"}
_PROGRAM = re.compile(r"\b(\w+?)_perf\b")
_RANK = re.compile(r"^#\s*Rank\s+(\d+)\s+.*?\bon\s+(\S+)\s+device\s+\S+\s+\[[^\]]*\]\s+(.+?)\s*$")
_TAG = re.compile(r"^(?:\w{3} \w{3} +\d+ [\d:]+ \d{4})?(?:\[[^\[\]\s]+\](?:<std\w+>)?:? ?|<std\w+>:? ?)|^ *\d+: ")
"""Open MPI: https://docs.open-mpi.org/en/main/man-openmpi/man1/mpirun.1.html (--tag-output); Slurm:
https://slurm.schedmd.com/srun.html (--label)."""
_GPUS = re.compile(r"\bnThread\s+(\d+)\s+nGpus\s+(\d+)")
WHAT = "the whole output of a program of nccl-tests, comment lines included"
_CALLED = re.compile(r"(?:^|[\s/])(\w+?)_perf\b")
ALIKE = 0.06
"""How far printed bandwidths may be from a ratio that they stand for: they have two decimals."""
LEAST_PRINTED = 1.0
"""GB/s below which the two decimals tell no ratio."""


def parse(text: str, name: str, given: ImportHints) -> ParsedFile:
    """The collectives of one or several runs, one after the other in a file.

    Raises:
        UsageError: no table, a row that does not match its header, or ranks that nobody named.
    """
    if text.lstrip()[:1] == "{":
        return _of_json(text, name, given)
    table = _Table(name)
    left_out = table.left_out
    devices: dict[str, None] = {}
    software = "NCCL"
    program, state = _named(name), _Ranks()
    header: list[str] = []
    cut: UsageError | None = None
    for number, whole in enumerate(text.splitlines(), start=1):
        line = _TAG.sub("", whole, count=1)
        words = line.replace("#", " # ", 1).split() if line.lstrip().startswith("#") else line.split()
        if found := re.search(r"NCCL version (\S+)", line):
            software = f"NCCL {found[1]}"
        if found := _RANK.match(line.strip()):
            state.add(int(found[1]), found[2])
            devices[found[3]] = None
        elif "Collective test starting" in line and (found := _PROGRAM.search(line)):
            table.close()
            program, header, state, cut = found[1], [], _Ranks(), None
        elif not header and "_perf" in line and (found := _CALLED.search(line)) and found[1] in PROGRAMS:
            program = found[1]  # The command, as a script echoes it.
        elif found := _GPUS.search(line):
            state.asked = int(found[1]) * int(found[2])
        elif words[:2] == ["#", "size"] and {"time", "cputime"} & set(words):
            table.close()
            header = words[1:]
        elif header and len(words) > 3 and words[0].isdigit() and words[1].isdigit():
            if cut is not None:
                raise cut
            stamped = header[-1] == "timestamp"  # One head over a day and a time.
            if len(words) != len(header) + stamped:
                cut = fault(name, number, f"the row has {len(words)} columns, its header {len(header)}", f"give {WHAT}")
                if len(words) > len(header):
                    raise cut
                table.close()
                left_out.append(f"{name}:{number}: the last row is cut")
                continue
            row: dict[str, str] = {}
            for head, word in zip(header, words, strict=False):
                row.setdefault(head, word)  # Of columns that come twice the first, out of place.
            table.add(row, program, state.count(given, name, number), state, number)
    table.close()
    if not table.points and not left_out:
        raise fault(name, 0, "it holds no table of nccl-tests", f"give {WHAT}")
    return ParsedFile(
        points=tuple(table.points), devices=tuple(devices), software=software, left_out=tuple(dict.fromkeys(left_out))
    )


class _Table:
    """The rows of one run after the other. A run whose program nobody named is what those of its rows say that can tell."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._rows: list[tuple[Mapping[str, str], str, int, _Ranks, int]] = []
        self.points: list[TimedKernel] = []
        self.left_out: list[str] = []

    def add(self, row: Mapping[str, str], program: str, ranks: int, state: _Ranks, line: int) -> None:
        """A row, with the program that was named."""
        self._rows.append((row, program, ranks, state, line))

    def close(self) -> None:
        """A run is at its end: its rows become points."""
        told = {word for row, _, ranks, _, _ in self._rows if (word := _told(row, ranks))}
        guess = told.pop() if len(told) == 1 else ""
        for row, program, ranks, state, line in self._rows:
            point = _point(row, program or guess, ranks, self._name, line, self.left_out)
            if point is not None and state.near is None:
                self.left_out.append(f"{self._name}: ranks on {state.uneven}: groups that are no rectangle of hosts tell nothing")
            elif point is not None:
                self.points.append(point.replaced(near=state.near))
        self._rows = []


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
        count = given.ranks or max(len(self._named), self.asked)
        if count < 2:
            raise fault(name, line, "it does not say how many ranks there were, or only one", "say it with --ranks N")
        return count


def _named(name: str) -> str:
    """The program that a file's name suggests."""
    return next((program for program in PROGRAMS if program in name), "")


def _told(row: Mapping[str, str], ranks: int) -> str:
    """The program that a row's columns can only be of; nothing where they do not tell, as of all-gathers and all-to-alls.

    >>> _told({"redop": "sum", "root": "-1", "algbw": "200.00", "busbw": "350.00"}, 8)
    'all_reduce'
    >>> _told({"redop": "none", "root": "-1", "algbw": "200.00", "busbw": "175.00"}, 8)
    ''
    """
    try:
        algorithm, bus = float(row["algbw"]), float(row["busbw"])
    except (KeyError, ValueError):
        return ""
    if algorithm < LEAST_PRINTED or ranks < 3:
        return ""
    summed, rooted = row.get("redop", "none") != "none", row.get("root", "-1") != "-1"
    part = (ranks - 1) / ranks
    wanted = {
        (True, False): {"all_reduce": 2 * part, "reduce_scatter": part}, (False, True): {"broadcast": 1.0}, (True, True): {},
        (False, False): {"": part, "sendrecv": 1.0},
    }[summed, rooted]  # fmt: skip
    near = {program: abs(bus / algorithm / ratio - 1) for program, ratio in wanted.items()}
    best = min(near, key=lambda program: near[program], default="")
    return best if best and near[best] < min(ALIKE, 0.4 / ranks) else ""


def _of_json(text: str, name: str, given: ImportHints) -> ParsedFile:
    """What `-J` wrote.

    Raises:
        UsageError: it holds no results, or does not say of how many ranks.
    """
    data = json_of(text, name, "the whole JSON file that nccl-tests wrote")
    if not isinstance(data, Mapping) or not isinstance(data.get("results"), list):
        raise fault(name, 0, "it holds no results of nccl-tests", "give the whole JSON file that nccl-tests wrote")
    table = _Table(name)
    left_out = table.left_out
    state, config = _Ranks(), data.get("config") or {}
    for device in config.get("devices") or data.get("devices") or ():
        state.add(int(device["rank"]), str(device["hostname"]))
    devices = dict.fromkeys(str(one["device_info"]) for one in config.get("devices") or data.get("devices") or ())
    state.asked = int(config.get("nthreads") or 1) * int(config.get("ngpus") or 1)
    called = next((found[1] for word in data.get("args") or () if (found := _CALLED.search(str(word)))), _named(name))
    for number, result in enumerate(data["results"], start=1):
        body = result.get("out_of_place") or {}
        row = {
            "size": str(result["size"]), "type": str(result.get("type", "")), "redop": str(result.get("redop", "none")),
            "root": str(result.get("root", "-1")).strip(), "time": str(body.get("time", "")), "algbw": str(body.get("alg_bw", "")),
            "busbw": str(body.get("bus_bw", "")), "#wrong": "N/A" if body.get("nwrong") is None else f"{body['nwrong']:g}",
        }  # fmt: skip
        if not row["time"]:
            left_out.append(f"{name}: result {number} has no time of the device out of place")
            continue
        table.add(row, called, state.count(given, name, 0), state, 0)
    table.close()
    version = data.get("nccl_version")
    software = f"NCCL {version // 10_000}.{version // 100 % 100}.{version % 100}" if isinstance(version, int) else "NCCL"
    if not table.points and not left_out:
        raise fault(name, 0, "it holds no results", "give the whole JSON file that nccl-tests wrote")
    return ParsedFile(
        points=tuple(table.points), devices=tuple(devices), software=software, left_out=tuple(dict.fromkeys(left_out))
    )


def _point(row: Mapping[str, str], program: str, ranks: int, name: str, line: int, left_out: list[str]) -> TimedKernel | None:
    kind: Any = PROGRAMS.get(program)
    if kind is None:
        what = f"`{program}_perf` has no parameters of its own" if program else (
            "the program is not named, and the columns do not tell it: put its name into the file's"
        )  # fmt: skip
        left_out.append(f"{name}: {what} (there are {', '.join(f'{one}_perf' for one in PROGRAMS)})")
        return None
    if "time" not in row:
        left_out.append(f"{name}: its times are those of the host, which say how fast launches are")
        return None
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
    if kind == "broadcast":
        kind, size = "all_gather", size * ranks / (ranks - 1)
    shape = {"size": size, "group": float(ranks)}
    if kind == "transfer":
        return TimedKernel(probe=Probe(kind="transfer", dtype=dtype, shape=shape), seconds=seconds, line=line)
    return TimedKernel(probe=Probe(kind="collective", name=kind, dtype=dtype, shape=shape), seconds=seconds, line=line)
