"""How do several processes measure together what travels between their devices: under torchrun, srun, or started by hand?

Rank 0 drives: it writes what is to be done into the job's key-value store, and the others, who look there, do it with it. Every
rank also writes a beat there once a second; a rank whose beat stops is gone, and the survivors say so and end.
"""

from __future__ import annotations

import json
import os
import re
import socket
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

from gpuplan.calibrate.backends.load import Load
from gpuplan.calibrate.device import PEER_TIMEOUT, DeviceMemoryError, Probe, RanksLostError, TimedLaunches
from gpuplan.errors import Problem, UsageError
from gpuplan.files.json_text import parse

NODE_VARIABLE = "GPUPLAN_NODE"
"""Names the node where its host name does not, as in containers."""
LIMIT_S = 60.0
"""Seconds after which a rank that does not answer counts as gone."""
BEAT_S = 1.0
LOOK_S = 0.02
SOON_S = 0.001
"""How often ranks look for the next order while orders come, and for the answers to one."""
GONE = 5
"""Exit code of a rank that lost another: what it needed is not there."""
PORT = 29533
ELEMENT = {"cpu": ("float32", 4), "cuda": ("bfloat16", 2)}
"""What is sent, by the kind of device, and its bytes."""


class Peers:
    """The processes that measure together; alone where none were started."""

    def __init__(self, torch: Any, rank: int, ranks: int, local_rank: int) -> None:
        self._torch, self.rank, self.ranks, self.local_rank = torch, rank, ranks, local_rank
        self._works: set[str] = set()
        self._places = list(range(ranks))
        """The ranks node by node, that of rank 0 first."""
        self.near = ranks
        """How many ranks are on each node; 0: not as many on each."""
        self._first = ranks
        """How many are on the first."""
        self._groups: dict[tuple[int, int], Any] = {}
        self._step = 0
        self._closed = threading.Event()
        self._beats: threading.Thread | None = None
        self.neighbours: tuple[int, ...] = ()
        """The processes of the other ranks on this node."""
        self._load: Load | None = None
        self._loads: dict[int, float] = {}

    def loads(self) -> list[float]:
        """What the others of each node take of its processors besides these processes, as its first rank last told."""
        return list(self._loads.values())

    @classmethod
    def found(cls, torch: Any) -> Peers:
        """What torchrun, srun or a launcher of one's own says in the environment.

        Raises:
            UsageError: the environment names a rank but not how to meet the others, or no number where one must be.
        """
        env = os.environ
        if "RANK" in env and "WORLD_SIZE" in env:
            rank, ranks, local = _count("RANK"), _count("WORLD_SIZE"), _count("LOCAL_RANK" if "LOCAL_RANK" in env else "RANK")
        elif "SLURM_STEP_NUM_TASKS" in env and "SLURM_PROCID" in env:
            # SLURM_NTASKS stands also in batch scripts, which are one process until they call srun.
            rank, ranks, local = _count("SLURM_PROCID"), _count("SLURM_STEP_NUM_TASKS"), _count("SLURM_LOCALID", "0")
            if ranks == 1:
                return cls(torch, 0, 1, 0)
            nodes = env.get("SLURM_STEP_NODELIST") or env.get("SLURM_NODELIST", "")
            env.setdefault("MASTER_ADDR", first_host(nodes) or "localhost")
            env.setdefault("MASTER_PORT", str(PORT))
        else:
            return cls(torch, 0, 1, 0)
        if ranks > 1 and ("MASTER_ADDR" not in env or "MASTER_PORT" not in env):
            hint = "start it with torchrun or srun, or set MASTER_ADDR and MASTER_PORT"
            raise UsageError(Problem("calibrate.no-rendezvous", "RANK is set, but nothing says where the ranks meet", hint))
        return cls(torch, rank, ranks, local)

    def join(self, where: Any) -> None:
        """Meet the others, and find out which collectives work between them.

        Raises:
            UsageError: not all ranks came within the limit.
        """
        if self.ranks == 1:
            return
        distributed = self._torch.distributed
        self._where, self._limit = where, _limit()
        try:
            distributed.init_process_group(
                "nccl" if where.type == "cuda" else "gloo", rank=self.rank, world_size=self.ranks,
                timeout=timedelta(seconds=self._limit), **({"device_id": where} if where.type == "cuda" else {}),
            )  # fmt: skip
            self._store = distributed.distributed_c10d._get_default_store()
            self._everyone_is_here()
        except (RuntimeError, ValueError, TimeoutError) as error:
            first = str(error).strip().partition("\n")[0][:160]
            hint = f"see that all {self.ranks} are started; --timeout gives them more than {self._limit:g} s"
            problem = Problem("calibrate.ranks-missing", f"rank {self.rank} of {self.ranks} met not all others: {first}", hint)
            raise UsageError(problem) from None
        self._beats = threading.Thread(target=self._beat, name="gpuplan-beat", daemon=True)
        self._beats.start()
        for name in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast"):
            try:
                self._call(name, 4096, self.ranks, 1)()
                self._works.add(name)
            except (RuntimeError, NotImplementedError, ValueError):
                continue

    def refuses(self, probe: Probe) -> str | None:
        """Why a collective cannot be measured here, or None."""
        if self.ranks == 1:
            return "there is one process: start several with torchrun or srun"
        group, stride = int(probe.shape["group"]), int(probe.shape.get("stride", 1))
        if group * stride > self.ranks:
            return f"there are only {self.ranks} processes"
        if group * stride > self._first and not self.near:
            return "the nodes hold different numbers of processes"
        if group * stride > self._first and not _fills(group, stride, self.near):
            return f"such a group would fill nodes of {self.near} processes unevenly"
        if probe.kind == "collective" and probe.name not in self._works:
            return f"the backend of torch.distributed has no {probe.name} here"
        return None

    def prepare(self, probe: Probe) -> TimedLaunches:
        """The collective of a probe, which all ranks do together."""
        stride = int(probe.shape.get("stride", 1))
        order = {
            "kind": probe.kind, "name": probe.name, "size": probe.shape["size"], "group": int(probe.shape["group"]),
            "stride": stride,
        }  # fmt: skip
        step = self._step
        self._order({"do": "prepare", **order})
        try:
            made = self._prepared(order)
        finally:
            troubles = self._answers(step)
        if troubles:
            raise (DeviceMemoryError if any("memory" in one.lower() for one in troubles) else RuntimeError)(troubles[0])
        return made

    def follow(self) -> None:
        """Do what rank 0 orders until it closes."""
        run: TimedLaunches | None = None
        while True:
            order = parse(self._wait_for(f"gpuplan/{self._step}"))
            step = self._step
            self._step += 1
            if order["do"] == "close":
                return
            if order["do"] == "prepare":
                run, said = None, ""
                try:
                    run = self._prepared(order)
                except (RuntimeError, MemoryError) as error:
                    said = str(error).strip().partition("\n")[0] or type(error).__name__
                self._told(f"gpuplan/made/{step}/{self.rank}", said)
            elif run is not None:
                run(order["launches"])

    def _wait_for(self, key: str) -> str:
        """What is written under a key, once it is: rank 0 may be long in coming, and the beat says whether it lives."""
        since = time.monotonic()
        try:
            while not self._store.check([key]):
                time.sleep(SOON_S if time.monotonic() - since < 1.0 else LOOK_S)
            return bytes(self._store.get(key)).decode()
        except RuntimeError as error:
            raise _gone(error) from None

    def _told(self, key: str, text: str) -> None:
        try:
            self._store.set(key, text)
        except RuntimeError as error:
            raise _gone(error) from None

    def _answers(self, step: int) -> list[str]:
        """What went wrong on other ranks when they prepared what was ordered in a step."""
        told = [self._wait_for(f"gpuplan/made/{step}/{rank}") for rank in range(1, self.ranks)]
        return [f"rank {rank}: {text}" for rank, text in enumerate(told, 1) if text]

    def close(self) -> None:
        """Send the others home."""
        if self.ranks == 1 or self._closed.is_set():
            return
        try:
            if self.rank == 0:
                self._order({"do": "close"})
                self._wait_for_farewells()
            else:
                self._store.set(f"gpuplan/bye/{self.rank}", "1")
        except (RuntimeError, RanksLostError):
            pass  # Whoever is gone needs no farewell.
        self._closed.set()
        if self._beats is not None:
            self._beats.join()
        with suppress(RuntimeError):
            self._torch.distributed.destroy_process_group()

    def _order(self, order: dict[str, Any]) -> None:
        self._told(f"gpuplan/{self._step}", json.dumps(order))
        self._step += 1

    def _prepared(self, order: dict[str, Any]) -> TimedLaunches:
        size, group, stride = int(order["size"]), int(order["group"]), int(order["stride"])
        call = self._swap(size, stride) if order["kind"] == "transfer" else self._call(order["name"], size, group, stride)

        def run(launches: int) -> float:
            if self.rank == 0:
                self._order({"do": "run", "launches": launches})
            try:
                return self._slowest(self._timed(call, launches))
            except RuntimeError as error:
                # Behind an error in one of them, no collective of these ranks can be trusted any more.
                raise _gone(error) from None

        return run

    def _timed(self, call: Any, launches: int) -> float:
        """All ranks meet; those of the groups then run. Seconds, 0 on the others."""
        torch, where = self._torch, self._where
        torch.distributed.barrier()
        if call is None:
            return 0.0
        if where.type != "cuda":
            begin = time.perf_counter()
            for _ in range(launches):
                call()
            return time.perf_counter() - begin
        first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda.synchronize(where)
        first.record()
        for _ in range(launches):
            call()
        last.record()
        last.synchronize()
        return float(first.elapsed_time(last)) * 1e-3

    def _slowest(self, seconds: float) -> float:
        torch = self._torch
        told = torch.tensor([seconds], dtype=torch.float32, device=self._where)
        torch.distributed.all_reduce(told, op=torch.distributed.ReduceOp.MAX)
        return float(told.item())

    def _group(self, size: int, stride: int) -> Any:
        """The group of this rank among the `stride` groups of so many ranks each, or None; every rank must come by here."""
        if (size, stride) not in self._groups:
            mine = None
            for first in range(stride):
                ranks = [self._places[first + number * stride] for number in range(size)]
                made = self._torch.distributed.new_group(ranks, timeout=timedelta(seconds=self._limit))
                mine = made if self.rank in ranks else mine
            self._groups[size, stride] = mine
        return self._groups[size, stride]

    def _tensor(self, count: int) -> Any:
        name, _ = ELEMENT[self._where.type]
        return self._torch.ones(max(count, 1), dtype=getattr(self._torch, name), device=self._where)

    def _call(self, name: str, size: int, ranks: int, stride: int) -> Any:
        """One collective of a buffer of `size` bytes, as nccl-tests counts it, over groups of `ranks` ranks."""
        distributed, group = self._torch.distributed, self._group(ranks, stride)
        if group is None:
            return None
        part = max(size // ELEMENT[self._where.type][1] // ranks, 1)
        whole = self._tensor(part * ranks)
        match name:
            case "all_reduce":
                return lambda: distributed.all_reduce(whole, group=group)
            case "all_gather":
                mine = self._tensor(part)
                gather = getattr(distributed, "all_gather_single", None) or distributed.all_gather_into_tensor
                return lambda: gather(whole, mine, group=group)
            case "reduce_scatter":
                mine = self._tensor(part)
                scatter = getattr(distributed, "reduce_scatter_single", None) or distributed.reduce_scatter_tensor
                return lambda: scatter(mine, whole, group=group)
            case "all_to_all":
                got = self._tensor(part * ranks)
                return lambda: distributed.all_to_all_single(got, whole, group=group)
            case _:
                return lambda: distributed.broadcast(whole, group=group, group_src=0)

    def _swap(self, size: int, stride: int) -> Any:
        """Each rank before `stride` sends a buffer to the one behind it and gets one back: two transfers of half the buffer."""
        distributed = self._torch.distributed
        place = self._places.index(self.rank)
        if place >= 2 * stride:
            return None
        buffer = self._tensor(size // 2 // ELEMENT[self._where.type][1])
        first = place < stride
        other = self._places[place + stride if first else place - stride]

        def call() -> None:
            for sends in (first, not first):
                (distributed.send if sends else distributed.recv)(buffer, other)

        return call

    def _everyone_is_here(self) -> None:
        self._store.set(f"gpuplan/here/{self.rank}", f"{os.environ.get(NODE_VARIABLE) or socket.gethostname()} {os.getpid()}")
        until = time.monotonic() + self._limit
        for rank in range(self.ranks):
            while not self._store.check([f"gpuplan/here/{rank}"]):
                if time.monotonic() > until:
                    raise TimeoutError(f"rank {rank} did not come within {self._limit:g} s")
                time.sleep(LOOK_S)
        told = [bytes(self._store.get(f"gpuplan/here/{rank}")).rpartition(b" ") for rank in range(self.ranks)]
        nodes = [node for node, _, _ in told]
        here = [rank for rank, node in enumerate(nodes) if node == nodes[self.rank]]
        self.neighbours = tuple(int(told[rank][2]) for rank in here if rank != self.rank)
        if self._where.type == "cpu" and here[0] == self.rank and self.rank:
            self._load = Load(beside=self.neighbours)
        self._places, self.near = layout(nodes)
        self._first = nodes.count(nodes[0])

    def _wait_for_farewells(self) -> None:
        until = time.monotonic() + self._limit
        for rank in range(1, self.ranks):
            while not self._store.check([f"gpuplan/bye/{rank}"]) and time.monotonic() < until:
                time.sleep(LOOK_S)

    def _beat(self) -> None:
        """Tell the others that this rank lives, and end this process when one of them does not."""
        heard: dict[int, tuple[str, float]] = {}
        count = 0
        while not self._closed.wait(BEAT_S):
            count += 1
            try:
                load = None if self._load is None else self._load.share()
                self._store.set(f"gpuplan/beat/{self.rank}", str(count) if load is None else f"{count} {load:.3f}")
                for rank in self._watched():
                    key = f"gpuplan/beat/{rank}"
                    told = bytes(self._store.get(key)).decode() if self._store.check([key]) else ""
                    if rank not in heard or heard[rank][0] != told:
                        heard[rank] = (told, time.monotonic())
                        if (share := told.partition(" ")[2]) and self.rank == 0:
                            self._loads[rank] = float(share)
                    elif time.monotonic() - heard[rank][1] > self._limit:
                        self._leave(f"rank {rank} has not answered for {self._limit:g} s")
            except RuntimeError:
                if not self._closed.is_set():
                    self._leave("the store of the job, which rank 0 or torchrun holds, is gone")

    def _watched(self) -> list[int]:
        """Rank 0 watches all others, they watch rank 0; who said farewell is not watched."""
        if self.rank:
            return [0]
        return [rank for rank in range(1, self.ranks) if not self._store.check([f"gpuplan/bye/{rank}"])]

    def _leave(self, why: str) -> None:
        print(
            f"error: {why}: rank {self.rank} stops\n  hint: what was measured is kept; start all {self.ranks} ranks again to go on",
            file=sys.stderr, flush=True,
        )  # fmt: skip
        os._exit(GONE)


def layout(nodes: Sequence[bytes]) -> tuple[list[int], int]:
    """The ranks node by node, and how many each node has (0: not as many), from the name of each rank's node.

    >>> layout([b"a", b"b", b"a", b"b"]), layout([b"a", b"a", b"b"])
    (([0, 2, 1, 3], 2), ([0, 1, 2], 0))
    """
    by_node: dict[bytes, list[int]] = {}
    for rank, node in enumerate(nodes):
        by_node.setdefault(node, []).append(rank)
    counts = {len(ranks) for ranks in by_node.values()}
    return [rank for ranks in by_node.values() for rank in ranks], counts.pop() if len(counts) == 1 else 0


def _fills(group: int, stride: int, near: int) -> bool:
    """Whether groups that span nodes have as many ranks on each of them."""
    return stride % near == 0 or (near % stride == 0 and group * stride % near == 0)


def _gone(error: RuntimeError) -> RanksLostError:
    said = str(error).strip().partition("\n")[0][:160] or type(error).__name__
    return RanksLostError(f"another rank is gone, or the connection to it broke: {said}")


def _count(name: str, default: str = "") -> int:
    text = os.environ.get(name, default)
    if not re.fullmatch(r"\d{1,9}", text.strip(), re.ASCII):
        what = f"{name}=`{text}` in the environment is no number of a rank"
        raise UsageError(Problem("calibrate.no-rendezvous", what, "start it with torchrun or srun, or unset the variable"))
    return int(text)


def _limit() -> float:
    """Seconds after which a silent rank counts as gone.

    Raises:
        UsageError: the environment says something that is no number of seconds.
    """
    text = os.environ.get(PEER_TIMEOUT) or f"{LIMIT_S}"
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 1 <= value <= 86_400:
        what = f"{PEER_TIMEOUT}: `{text}` is no number of seconds"
        raise UsageError(Problem("usage.number", what, "leave it out, or write it as `120`"))
    return value


def first_host(nodes: str) -> str:
    """The first host of a Slurm node list.

    >>> first_host("gpu[07-09,12],login1"), first_host("a100-3"), first_host("node-[1,5]-ib")
    ('gpu07', 'a100-3', 'node-1-ib')
    """
    found = re.match(r"([^\[,]*)(?:\[(\d+)[^\]]*\])?([^,]*)", nodes.strip())
    return "".join(part or "" for part in found.groups()) if found else ""
