"""The JAX backend on the processor, for real: every kind of probe runs, longer for more of it, and between devices too."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from gpuplan.calibrate.backends.jax_kernels import refusal, splash, tensor
from gpuplan.calibrate.device import Device, DeviceMemoryError, Probe
from gpuplan.errors import UsageError

jax = pytest.importorskip("jax", reason="JAX is not installed")

HEADS = {"heads": 4.0, "kv_heads": 2.0, "k_dim": 64.0, "v_dim": 64.0, "window": 0.0}
MATMUL = {"m": 64.0, "n": 256.0, "k": 256.0, "batch": 1.0}
PROMPT = HEADS | {"sequences": 1.0, "q_len": 128.0, "kv_len": 128.0}
PROBES = [
    Probe(kind="matmul", dtype="bf16", shape=MATMUL),
    Probe(kind="matmul", dtype="fp32", shape=MATMUL),
    Probe(kind="grouped_matmul", dtype="bf16", shape=MATMUL | {"batch": 4.0}),
    Probe(kind="prefill", dtype="bf16", shape=PROMPT),
    Probe(kind="prefill_backward", dtype="bf16", shape=PROMPT),
    Probe(kind="decode", dtype="bf16", shape=HEADS | {"sequences": 2.0, "q_len": 1.0, "kv_len": 128.0}),
    Probe(kind="stream", shape={"size": 1e5}),
    Probe(kind="norm", shape={"size": 1e5}),
    Probe(kind="activation", shape={"size": 1e5}),
    Probe(kind="launch", shape={"launches": 10.0}),
]


@pytest.fixture(scope="module")
def device() -> Device:
    from gpuplan.calibrate.backends.jax import open_device

    if jax.default_backend() != "cpu":
        pytest.skip("there is an accelerator: these are tests of the processor")
    return open_device(None)


def square(width: float) -> Probe:
    return Probe(kind="matmul", dtype="fp32", shape={"m": width, "n": width, "k": width, "batch": 1.0})


def test_the_processor_says_who_it_is(device: Device) -> None:
    identity = device.identity()
    assert identity.backend == "jax"
    assert identity.units is not None
    assert identity.units >= 1
    assert "jax" in identity.libraries
    memory = device.memory()
    assert 0 < memory["free"] <= memory["total"]


@pytest.mark.parametrize("probe", PROBES, ids=Probe.key)
def test_every_kind_runs(device: Device, probe: Probe) -> None:
    assert device.refuses(probe) is None
    assert device.prepare(probe)(2) > 0


@pytest.mark.parametrize(
    ("platform", "probe", "why"),
    [
        ("cpu", Probe(kind="matmul", dtype="fp8", shape=MATMUL), "no fast fp8"),
        ("cpu", Probe(kind="matmul", dtype="fp4", shape=MATMUL), "fp4"),
        ("tpu", Probe(kind="matmul", dtype="tf32", shape=MATMUL), "tf32"),
        ("tpu", Probe(kind="matmul", dtype="fp32", shape=MATMUL), "passes of bf16"),
        ("tpu", Probe(kind="prefill", shape=PROMPT), "multiples of 128"),
        ("gpu", Probe(kind="graph", shape={"launches": 1.0}), "no graphs"),
        ("cpu", Probe(kind="host_to_device", shape={"size": 1.0}), "no device"),
        ("tpu", Probe(kind="collective", name="all_reduce", shape={"size": 1.0, "group": 2.0}), "one device"),
        ("cpu", Probe(kind="prefill", shape=PROMPT | {"q_len": 65536.0, "kv_len": 65536.0}), "scores"),
        ("tpu", Probe(kind="decode", shape=PROMPT | {"window": 8.0}), "window"),
    ],
)
def test_what_cannot_run_says_why(platform: str, probe: Probe, why: str) -> None:
    assert why in (refusal(platform, 1, probe) or "")


def test_sixty_four_times_the_work_takes_longer(device: Device) -> None:
    small, large = device.prepare(square(128.0)), device.prepare(square(512.0))
    assert min(large(10) for _ in range(3)) > 4 * min(small(10) for _ in range(3))


def test_nothing_is_taken_out_of_the_loop(device: Device) -> None:
    for probe in (square(512.0), Probe(kind="stream", shape={"size": 2.0**24})):
        run = device.prepare(probe)
        # In turns, so that a busy moment of the machine hits both: eight times the launches take far more than four times as long.
        taken = [(run(4), run(32)) for _ in range(8)]
        assert min(many for _, many in taken) > 4 * min(few for few, _ in taken)


def test_what_does_not_fit_is_told_apart(device: Device) -> None:
    with pytest.raises(DeviceMemoryError):
        device.prepare(Probe(kind="stream", shape={"size": 1e13}))


def test_a_number_that_no_device_has_is_an_error() -> None:
    from gpuplan.calibrate.backends.jax import open_device

    with pytest.raises(UsageError, match="--device 97"):
        open_device(97)


def test_several_processes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from gpuplan.calibrate.backends.jax import open_device

    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(UsageError, match="one process"):
        open_device(None)


def test_the_kernel_for_tpus_agrees_with_plain_attention() -> None:
    q = tensor(jax, "fp32", 1, 128, 2, 128)
    k = tensor(jax, "fp32", 1, 128, 1, 128)
    made = splash(jax, 2, 128, interpret=True)(q, k, k)
    plain = jax.nn.dot_product_attention(q, k, k, is_causal=True)
    assert float(abs(made - plain).max()) < 2e-2


LINKS = """
from gpuplan.calibrate.backends.jax import open_device
from gpuplan.calibrate.device import Probe
device = open_device(None)
assert device.identity().ranks == 4, device.identity()
for group in (2, 4):
    for name in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all"):
        probe = Probe(kind="collective", name=name, dtype="fp32", shape={"size": 65536.0, "group": float(group)})
        assert device.refuses(probe) is None
        assert device.prepare(probe)(3) > 0
assert device.prepare(Probe(kind="transfer", dtype="fp32", shape={"size": 65536.0, "group": 2.0}))(3) > 0
print("all of them")
"""


def test_devices_of_one_process_measure_collectives() -> None:
    env = {**os.environ, "XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_PLATFORMS": "cpu"}
    ran = subprocess.run([sys.executable, "-c", LINKS], env=env, capture_output=True, text=True, timeout=300, check=False)
    assert ran.stdout == "all of them\n", ran.stderr
