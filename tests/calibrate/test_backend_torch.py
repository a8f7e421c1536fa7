"""The PyTorch backend on the processor, for real: every kind of probe runs, in the time that its size asks for."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from gpuplan.calibrate.backends.telemetry import from_nvidia_smi, from_rocm_smi, others_of, processor_reading
from gpuplan.calibrate.device import Device, DeviceMemoryError, Probe

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

HEADS = {"heads": 4.0, "kv_heads": 2.0, "k_dim": 64.0, "v_dim": 64.0, "window": 0.0}
MATMUL = {"m": 64.0, "n": 256.0, "k": 256.0, "batch": 1.0}
PROBES = [
    Probe(kind="matmul", dtype="bf16", shape=MATMUL),
    Probe(kind="matmul", dtype="fp32", shape=MATMUL),
    Probe(kind="grouped_matmul", dtype="bf16", shape=MATMUL | {"batch": 4.0}),
    Probe(kind="prefill", dtype="bf16", shape=HEADS | {"sequences": 1.0, "q_len": 128.0, "kv_len": 128.0}),
    Probe(kind="prefill_backward", dtype="bf16", shape=HEADS | {"sequences": 1.0, "q_len": 128.0, "kv_len": 128.0}),
    Probe(kind="decode", dtype="bf16", shape=HEADS | {"sequences": 2.0, "q_len": 1.0, "kv_len": 128.0}),
    Probe(kind="stream", shape={"size": 1e5}),
    Probe(kind="norm", shape={"size": 1e5}),
    Probe(kind="activation", shape={"size": 1e5}),
    Probe(kind="launch", shape={"launches": 10.0}),
]


@pytest.fixture(scope="module")
def device() -> Device:
    from gpuplan.calibrate.backends.torch import open_device

    if torch.cuda.is_available():
        pytest.skip("there is a GPU: the tests marked gpu measure it")
    return open_device(None)


def test_the_processor_says_who_it_is(device: Device) -> None:
    identity = device.identity()
    assert identity.backend == "torch"
    assert identity.name
    assert identity.units is not None
    assert identity.units >= 1
    assert "torch" in identity.libraries
    memory = device.memory()
    assert 0 < memory["free"] <= memory["total"]


@pytest.mark.parametrize("probe", PROBES, ids=Probe.key)
def test_every_kind_runs(device: Device, probe: Probe) -> None:
    assert device.refuses(probe) is None
    assert device.prepare(probe)(2) > 0


@pytest.mark.parametrize(
    ("probe", "why"),
    [
        (Probe(kind="matmul", dtype="fp8", shape=MATMUL), "fp8"),
        (Probe(kind="matmul", dtype="fp4", shape=MATMUL), "fp4"),
        (Probe(kind="matmul", dtype="tf32", shape=MATMUL), "tf32"),
        (Probe(kind="graph", shape={"launches": 1.0}), "no device"),
        (Probe(kind="host_to_device", shape={"size": 1.0}), "no device"),
        (Probe(kind="collective", name="all_reduce", shape={"size": 1.0, "group": 2.0}), "one process"),
        (Probe(kind="decode", shape=HEADS | {"window": 8.0, "sequences": 1.0, "q_len": 1.0, "kv_len": 8.0}), "window"),
    ],
    ids=lambda one: one.key() if isinstance(one, Probe) else "",
)
def test_what_cannot_run_says_why(device: Device, probe: Probe, why: str) -> None:
    assert why in (device.refuses(probe) or "")


def test_five_hundred_times_the_work_takes_longer(device: Device) -> None:
    small, large = (
        device.prepare(Probe(kind="matmul", dtype="fp32", shape={"m": size, "n": size, "k": size, "batch": 1.0}))
        for size in (128.0, 1024.0)
    )
    small(1), large(1)
    assert min(large(1) for _ in range(3)) > 4 * min(small(1) for _ in range(30))


def test_weights_on_a_processor_take_turns_out_of_one_store() -> None:
    from gpuplan.calibrate.backends.telemetry import host_memory
    from gpuplan.calibrate.backends.torch_kernels import kernel
    from gpuplan.calibrate.backends.torch_tensors import MOST_PIECES, STORE_BYTES, STORE_SHARE, Tensors

    tensors = Tensors(torch, torch.device("cpu"))
    made = kernel(tensors, Probe(kind="matmul", shape={"m": 1.0, "n": 1024.0, "k": 2048.0, "batch": 1.0}))
    assert made.copies * 1024 * 2048 * 2 >= 0.9 * min(STORE_BYTES, STORE_SHARE * host_memory()[1])
    pieces = tensors.turns("bf16", 64, 64)
    assert len({one.data_ptr() for one in pieces}) == len(pieces) == MOST_PIECES
    assert bool(torch.isfinite(pieces[-1].float()).all())


def test_what_does_not_fit_is_told_apart(device: Device) -> None:
    with pytest.raises(DeviceMemoryError):
        device.prepare(Probe(kind="stream", shape={"size": 1e16}))


def test_a_number_that_no_gpu_has_is_an_error() -> None:
    from gpuplan.calibrate.backends.torch import open_device
    from gpuplan.errors import UsageError

    with pytest.raises(UsageError, match="--device 7"):
        open_device(7)


def test_tools_are_read_whatever_they_leave_out() -> None:
    reading, driver = from_nvidia_smi("[N/A], 1980, 2619, [N/A], 700.00, 61, [N/A], 12, 550.54.15, 0x0000000000000064\n")
    assert (reading.clock_mhz, reading.uncorrected_errors, reading.temperature_c) == (None, None, 61.0)
    assert reading.throttle == ("power_cap", "thermal")
    assert driver == "550.54.15"
    assert from_rocm_smi("not json") is None
    assert from_rocm_smi('{"system": {}}') is None
    assert others_of("10, 100\n20, 200\n", 10) == (1, 200 * 2**20)
    assert processor_reading() is not None


def test_amd_smi_is_read_in_both_of_its_forms() -> None:
    from gpuplan.calibrate.backends.telemetry import from_amd_smi

    card = """{"gpu": 1, "power": {"socket_power": {"value": 542, "unit": "W"}},
        "clock": {"gfx_0": {"clk": {"value": 2085, "unit": "MHz"}, "max_clk": {"value": 2100, "unit": "MHz"}}, "mem_0": "N/A"},
        "temperature": {"edge": "N/A", "hotspot": {"value": 71, "unit": "C"}},
        "ecc": {"total_uncorrectable_count": 2}, "mem_usage": {"used_vram": {"value": 1024, "unit": "MB"}},
        "throttle": {"accumulation_counter": 7, "ppt_violation_status": "ACTIVE",
                     "hbm_thermal_violation_status": "ACTIVE", "prochot_violation_status": "NOT ACTIVE"}}"""
    for text in (f"WARNING: user is not in the render group\n[{card}]", f'{{"gpu_data": [{card}]}}'):
        reading = from_amd_smi(text, 1)
        assert reading is not None
        assert (reading.clock_mhz, reading.max_clock_mhz, reading.memory_clock_mhz) == (2085, 2100, None)
        assert (reading.temperature_c, reading.power_w, reading.uncorrected_errors) == (71, 542, 2)
        assert reading.memory_used_bytes == 2**30
        assert reading.throttle == ("power_cap", "thermal")
    assert from_amd_smi("amd-smi: command failed", 0) is None


def test_launches_in_a_graph_are_never_timed_outside_of_one() -> None:
    from types import SimpleNamespace
    from unittest.mock import MagicMock

    from gpuplan.calibrate.backends.torch_tensors import Kernel
    from gpuplan.calibrate.backends.torch_timing import Timer

    fake, calls = MagicMock(), list[int]()
    fake.cuda.Event.return_value.elapsed_time.return_value = 4.0
    kernel = Kernel(call=lambda: calls.append(1), only_graph=True)
    Timer(fake, SimpleNamespace(type="cuda")).run(kernel)(1)
    assert fake.cuda.CUDAGraph.return_value.replay.called
    fake.cuda.graph.side_effect = RuntimeError("cannot capture")
    with pytest.raises(RuntimeError, match="cannot be captured"):
        Timer(fake, SimpleNamespace(type="cuda")).run(kernel)


def test_tf32_is_set_for_the_call_alone_by_either_name() -> None:
    from types import SimpleNamespace

    from gpuplan.calibrate.backends.torch_kernels import _precision

    for flags, key, wanted in (
        (SimpleNamespace(fp32_precision="none", allow_tf32=False), "fp32_precision", ("tf32", "ieee")),
        (SimpleNamespace(allow_tf32=True), "allow_tf32", (True, False)),
    ):
        fake = SimpleNamespace(backends=SimpleNamespace(cuda=SimpleNamespace(matmul=flags)))
        before = getattr(flags, key)
        for tf32, value in zip((True, False), wanted, strict=True):
            with _precision(fake, tf32=tf32)():
                assert getattr(flags, key) == value
            assert getattr(flags, key) == before


def test_on_a_gpu_short_kernels_run_in_graphs_that_hold_every_copy() -> None:
    from types import SimpleNamespace
    from unittest.mock import MagicMock

    from gpuplan.calibrate.backends.torch_tensors import Kernel
    from gpuplan.calibrate.backends.torch_timing import WARM_UP, Timer

    calls: list[int] = []
    fake = MagicMock()
    fake.cuda.Event.return_value.elapsed_time.return_value = 0.1  # ms
    run = Timer(fake, SimpleNamespace(type="cuda")).run(Kernel(call=lambda: calls.append(1), copies=50))
    assert len(calls) == WARM_UP + 1 + 50
    replays = fake.cuda.CUDAGraph.return_value.replay
    before = replays.call_count
    assert run(75) == pytest.approx(1e-4 * 75 / 100)
    assert replays.call_count == before + 2
    calls.clear()
    fake.cuda.Event.return_value.elapsed_time.return_value = 1.0
    run = Timer(fake, SimpleNamespace(type="cuda")).run(Kernel(call=lambda: calls.append(1), copies=50))
    assert len(calls) == WARM_UP + 1, "long kernels need no graph"
    assert run(3) == pytest.approx(1e-3)
    assert len(calls) == WARM_UP + 4


def test_kernels_of_attention_are_chosen_by_name() -> None:
    from gpuplan.calibrate.backends.torch_kernels import _attend, attention_backend

    where = torch.device("cpu")
    assert attention_backend(torch, where, decode=True) == ""
    q, k = torch.randn(1, 4, 16, 64), torch.randn(1, 2, 16, 64)
    plain = _attend(torch, "")(q, k, k, is_causal=True, enable_gqa=True)
    named = _attend(torch, "FLASH_ATTENTION")(q, k, k, is_causal=True, enable_gqa=True)
    assert torch.allclose(plain, named, atol=1e-5)
    with pytest.raises(RuntimeError, match="backend"):
        _attend(torch, "CUDNN_ATTENTION")(q, k, k, is_causal=True, enable_gqa=True)


def ranks(count: int, body: str, tmp_path: Path, *words: str, **env: str) -> list[subprocess.Popen[str]]:
    """So many processes that run a script together, as a launcher of one's own would start them."""
    script = tmp_path / "rank.py"
    script.write_text(body, encoding="utf-8")
    with socket.socket() as free:  # One that nobody has; what others open from now on gets another.
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    common = {
        **os.environ,
        "WORLD_SIZE": str(count),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
        "OMP_NUM_THREADS": "1",
        **env,
    }
    return [
        subprocess.Popen(
            [sys.executable, str(script), *words], env=common | {"RANK": str(rank), "LOCAL_RANK": str(rank)}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        for rank in range(count)
    ]  # fmt: skip


TOGETHER = """
from gpuplan.calibrate.backends.torch import open_device
from gpuplan.calibrate.device import Probe
device = open_device(None)
if device.identity().rank:
    device.follow()
else:
    for name in ("all_reduce", "all_gather", "all_to_all", "broadcast"):
        for group in sorted({2, device.identity().ranks}):
            probe = Probe(kind="collective", name=name, shape={"size": 65536.0, "group": float(group)})
            assert device.refuses(probe) is None, device.refuses(probe)
            print(name, group, device.prepare(probe)(3) > 0)
    print("transfer", device.prepare(Probe(kind="transfer", shape={"size": 65536.0, "group": 2.0}))(3) > 0)
device.close()
"""


@pytest.mark.parametrize("count", [2, 4])
def test_processes_measure_collectives_together(count: int, tmp_path: Path) -> None:
    started = ranks(count, TOGETHER, tmp_path)
    made = [process.communicate(timeout=300) for process in started]
    assert [process.returncode for process in started] == [0] * count, made
    lines = made[0][0].split("\n")
    assert "transfer True" in lines
    assert f"all_reduce {count} True" in lines


NODES = """
import os, sys
os.environ["GPUPLAN_NODE"] = sys.argv[1][int(os.environ["RANK"])]
from gpuplan.calibrate.backends.torch import open_device
from gpuplan.calibrate.device import Probe
device = open_device(None)
if device.identity().rank:
    device.follow()
else:
    print("near", device.identity().near)
    for group, stride in ((2, 1), (2, 2), (4, 1), (3, 1)):
        shape = {"size": 65536.0, "group": float(group), "stride": float(stride)}
        for name in ("all_reduce", "all_to_all", "broadcast"):
            probe = Probe(kind="collective", name=name, shape=shape)
            why = device.refuses(probe)
            print(name, group, stride, why or device.prepare(probe)(3) > 0)
    swap = Probe(kind="transfer", shape={"size": 65536.0, "group": 2.0, "stride": 2.0})
    print("transfer", device.refuses(swap) or device.prepare(swap)(3) > 0)
device.close()
"""


@pytest.mark.parametrize("nodes", ["aabb", "abab"])
def test_groups_across_two_nodes_are_measured_wherever_the_ranks_are(nodes: str, tmp_path: Path) -> None:
    started = ranks(4, NODES, tmp_path, nodes)
    made = [process.communicate(timeout=300) for process in started]
    assert [process.returncode for process in started] == [0] * 4, made
    lines = made[0][0].splitlines()
    assert lines[0] == "near 2"
    for layout in ("2 1", "2 2", "4 1"):
        assert f"all_reduce {layout} True" in lines
        assert f"broadcast {layout} True" in lines
    assert "all_reduce 3 1 such a group would fill nodes of 2 processes unevenly" in lines
    assert "transfer True" in lines


def test_uneven_nodes_measure_the_first_alone(tmp_path: Path) -> None:
    started = ranks(3, NODES, tmp_path, "aab")
    made = [process.communicate(timeout=300) for process in started]
    assert [process.returncode for process in started] == [0] * 3, made
    assert "all_reduce 2 1 True" in made[0][0]
    assert "all_reduce 3 1 the nodes hold different numbers of processes" in made[0][0]


TROUBLE = """
import gpuplan.calibrate.backends.distributed as distributed
from gpuplan.calibrate.backends.torch import open_device
from gpuplan.calibrate.device import DeviceMemoryError, Probe
made = distributed.Peers._tensor
def tensor(self, count):
    if self.rank == 1 and count > 5000:
        raise RuntimeError("not enough memory: you tried to allocate")
    return made(self, count)
distributed.Peers._tensor = tensor
device = open_device(None)
if device.identity().rank:
    device.follow()
else:
    for size in (65536.0, 1024.0):
        try:
            print(device.prepare(Probe(kind="collective", name="all_reduce", shape={"size": size, "group": 2.0}))(3) > 0)
        except DeviceMemoryError as error:
            print(error)
device.close()
"""


def test_trouble_of_another_rank_is_told_to_the_first(tmp_path: Path) -> None:
    started = ranks(2, TROUBLE, tmp_path)
    made = [process.communicate(timeout=300) for process in started]
    assert [process.returncode for process in started] == [0] * 2, made
    assert made[0][0].splitlines() == ["rank 1: not enough memory: you tried to allocate", "True"]


def test_a_rank_that_never_comes_is_named(tmp_path: Path) -> None:
    first, second, third = ranks(3, TOGETHER, tmp_path, GPUPLAN_PEER_TIMEOUT="3")
    third.kill()
    for process in (first, second):
        _, said = process.communicate(timeout=300)
        assert process.returncode != 0
        assert "not all others" in said
    third.communicate()


def test_a_rank_that_dies_ends_the_others_with_a_message(tmp_path: Path) -> None:
    waiting = TOGETHER.replace("else:", "else:\n    import time; print('up', flush=True); time.sleep(600)", 1)
    first, second = ranks(2, waiting, tmp_path, GPUPLAN_PEER_TIMEOUT="30")  # on a busy machine they begin seconds apart
    assert first.stdout is not None
    assert first.stdout.readline() == "up\n"
    second.send_signal(signal.SIGKILL)
    _, said = first.communicate(timeout=300)
    assert first.returncode == 5
    assert "rank 1 has not answered" in said
    assert "start all 2 ranks again" in said
    second.communicate()


def test_slurm_says_who_meets_where(monkeypatch: pytest.MonkeyPatch) -> None:
    from gpuplan.calibrate.backends.distributed import PORT, Peers
    from gpuplan.errors import UsageError

    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "SLURM_STEP_NODELIST"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    slurm = {"SLURM_PROCID": "9", "SLURM_STEP_NUM_TASKS": "16", "SLURM_LOCALID": "1", "SLURM_NODELIST": "gpu[07-08]"}
    for name, value in slurm.items():
        monkeypatch.setenv(name, value)
    peers = Peers.found(torch)
    assert (peers.rank, peers.ranks, peers.local_rank) == (9, 16, 1)
    assert (os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"]) == ("gpu07", str(PORT))
    monkeypatch.delenv("SLURM_STEP_NUM_TASKS")
    monkeypatch.setenv("SLURM_NTASKS", "16")
    assert Peers.found(torch).ranks == 1, "a batch script is one process"
    monkeypatch.setenv("RANK", "one")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(UsageError, match="RANK=`one`"):
        Peers.found(torch)
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.delenv("MASTER_ADDR")
    with pytest.raises(UsageError, match="where the ranks meet"):
        Peers.found(torch)


def test_torchrun_starts_it(tmp_path: Path) -> None:
    env = {**os.environ, "OMP_NUM_THREADS": "1", "XDG_CONFIG_HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    words = ["-m", "gpuplan", "calibrate", "--backend", "torch", "--dry-run", "--quick", "--kinds", "transfer"]
    ran = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", *words],
        env=env, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert "transfer  bf16  1.00 KiB, 2 ranks" in ran.stdout
