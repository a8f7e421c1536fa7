"""The PyTorch backend on a GPU: every kind runs or says why not, and faster than no GPU is. Run with `pytest -m gpu`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gpuplan.calibrate.device import Device, DeviceMemoryError, Probe

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
pytestmark = pytest.mark.gpu

SQUARE = {"m": 4096.0, "n": 4096.0, "k": 4096.0, "batch": 1.0}
HEADS = {"heads": 32.0, "kv_heads": 8.0, "k_dim": 128.0, "v_dim": 128.0, "window": 0.0}
PROMPT = HEADS | {"sequences": 1.0, "q_len": 4096.0, "kv_len": 4096.0}
STEP = HEADS | {"sequences": 16.0, "q_len": 1.0, "kv_len": 4096.0}
PROBES = [
    *(Probe(kind="matmul", dtype=dtype, shape=SQUARE) for dtype in ("bf16", "fp16", "tf32", "fp32", "fp8", "int8")),
    Probe(kind="grouped_matmul", shape=SQUARE | {"m": 64.0, "batch": 8.0}),
    Probe(kind="grouped_matmul", dtype="fp8", shape=SQUARE | {"m": 64.0, "batch": 8.0}),
    Probe(kind="matmul", dtype="fp4", shape=SQUARE),
    Probe(kind="matmul", dtype="fp8", name="fp8_block", shape=SQUARE),
    *(Probe(kind="matmul", name=name, shape=SQUARE | {"m": 16.0}) for name in ("int8_wo", "int4_wo")),
    *(Probe(kind="decode", name=name, shape=STEP) for name in ("paged", "paged_fp8")),
    Probe(kind="decode", name="latent", shape=STEP | {"kv_heads": 1.0, "k_dim": 576.0, "v_dim": 512.0}),
    Probe(kind="prefill", shape=PROMPT),
    Probe(kind="prefill_backward", shape=PROMPT),
    Probe(kind="decode", shape=STEP),
    *(Probe(kind=kind, shape={"size": 2.0**28}) for kind in ("stream", "norm", "activation", "host_to_device", "device_to_host")),
    Probe(kind="launch", shape={"launches": 100.0}),
    Probe(kind="graph", shape={"launches": 100.0}),
]


@pytest.fixture(scope="module")
def device() -> Iterator[Device]:
    if not torch.cuda.is_available():
        pytest.skip("there is no GPU that PyTorch can use")
    from gpuplan.calibrate.backends.torch import open_device

    made = open_device(None)
    yield made
    made.close()


@pytest.mark.parametrize("probe", PROBES, ids=Probe.key)
def test_every_kind_runs_or_says_why_not(device: Device, probe: Probe) -> None:
    why = device.refuses(probe)
    if why is not None:
        pytest.skip(why)
    run = device.prepare(probe)
    run(20)
    few, many = (min(run(count) for _ in range(5)) for count in (20, 200))
    assert 5 < many / few < 20, "ten times the launches take ten times as long"


def test_matmuls_are_within_what_any_gpu_can_do(device: Device) -> None:
    run = device.prepare(Probe(kind="matmul", dtype="fp16", shape=SQUARE))
    run(100)
    assert 5e12 < 2 * 4096**3 * 100 / run(100) < 5e15


def test_it_says_who_it_is_and_how_it_is(device: Device) -> None:
    identity = device.identity()
    assert identity.architecture
    assert identity.units
    assert "attention" in identity.libraries
    memory = device.memory()
    assert 0 < memory["free"] <= memory["total"]
    reading = device.read()
    assert reading is not None
    assert reading.temperature_c is None or 0 < reading.temperature_c < 120


def test_what_does_not_fit_is_told_apart(device: Device) -> None:
    with pytest.raises(DeviceMemoryError):
        device.prepare(Probe(kind="stream", shape={"size": 1e13}))
    assert device.prepare(Probe(kind="stream", shape={"size": 1e6}))(1) > 0
