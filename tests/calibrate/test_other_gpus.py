"""Are Apple's and Intel's GPUs measured through PyTorch, and nothing by the processor in their place?

There is none here: PyTorch on the processor plays one, under the names that its modules for these GPUs have.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from gpuplan.calibrate.device import Probe
from gpuplan.calibrate.measure.measured_subject import subject_of
from gpuplan.errors import UsageError
from gpuplan.probe.host import Host
from tests.calibrate.fake_runs import PLAIN

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

HEADS = {"heads": 4.0, "kv_heads": 2.0, "k_dim": 64.0, "v_dim": 64.0, "window": 0.0}
RUN = [
    *(Probe(kind="matmul", dtype=dtype, shape={"m": 32.0, "n": 64.0, "k": 64.0, "batch": 1.0}) for dtype in ("bf16", "fp32")),
    Probe(kind="prefill", shape=HEADS | {"sequences": 1.0, "q_len": 64.0, "kv_len": 64.0}),
    Probe(kind="decode", shape=HEADS | {"sequences": 2.0, "q_len": 1.0, "kv_len": 64.0}),
    *(Probe(kind=kind, shape={"size": 1e5}) for kind in ("stream", "norm", "activation")),
    Probe(kind="launch", shape={"launches": 10.0}),
]
REFUSED = {
    "PyTorch has no graphs of launches on this device": Probe(kind="graph", shape={"launches": 10.0}),
    "fp8 needs a GPU of compute capability 8.9 or more": Probe(kind="matmul", dtype="fp8", shape=dict(RUN[0].shape)),
    "one Apple or Intel GPU is measured alone": Probe(kind="collective", name="all_reduce", shape={"size": 64.0, "group": 2.0}),
    "grouped matmul here": Probe(kind="grouped_matmul", shape=RUN[0].shape | {"batch": 4.0}),
}


class Name(str):
    """The processor, by the name of a GPU."""

    type: str


class Playing:
    """PyTorch with one module in place of that for a kind of GPU."""

    def __init__(self, kind: str) -> None:
        self.waits = 0
        properties = SimpleNamespace(
            name="Intel(R) Data Center GPU Max 1100", total_memory=48 * 2**30, driver_version="1.6", gpu_subslice_count=56, uuid="u"
        )

        def wait() -> None:
            self.waits += 1

        module = SimpleNamespace(
            synchronize=wait, empty_cache=lambda: None, device_count=lambda: 1, is_available=lambda: True,
            get_device_properties=lambda index: properties, mem_get_info=lambda index: (40 * 2**30, 48 * 2**30),
            recommended_max_memory=lambda: 48 * 2**30, driver_allocated_memory=lambda: 2**30,
        )  # fmt: skip
        self.kind, self.module = kind, module
        self.backends = SimpleNamespace(mps=module if kind == "mps" else None, cuda=torch.backends.cuda)

    def device(self, kind: str, index: int = 0) -> Name:
        made = Name("cpu")
        made.type = kind
        assert index == 0
        return made

    def __getattr__(self, name: str) -> Any:
        return self.module if name == self.kind else None if name == "xpu" else getattr(torch, name)


@pytest.fixture(params=["mps", "xpu"])
def played(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[Playing, Any]:
    from gpuplan.calibrate.backends import telemetry, torch_other

    monkeypatch.setattr(telemetry, "apple_name", lambda: "Apple M2 Ultra")
    monkeypatch.setattr(telemetry, "apple_cores", lambda: 76)
    monkeypatch.delenv(torch_other.FALLBACK, raising=False)
    pytorch = Playing(request.param)
    assert torch_other.found(pytorch) == request.param
    return pytorch, torch_other.opened(pytorch, request.param, None, 1)


def test_kernels_are_timed_with_a_wait_behind_them(played: tuple[Playing, Any]) -> None:
    pytorch, device = played
    for probe in RUN:
        assert device.refuses(probe) is None, probe
        run = device.prepare(probe)
        before = pytorch.waits
        assert run(3) > 0
        assert pytorch.waits == before + 2, "before the clock starts, and before it stops"


def test_what_does_not_run_there_is_told(played: tuple[Playing, Any]) -> None:
    _, device = played
    for why, probe in REFUSED.items():
        assert why in device.refuses(probe)
    copies = device.refuses(Probe(kind="host_to_device", shape={"size": 64.0}))
    assert copies == ("the processor and its GPU share their memory" if played[0].kind == "mps" else None)


def test_it_is_found_in_the_catalog_and_is_no_processor(played: tuple[Playing, Any]) -> None:
    pytorch, device = played
    identity = device.identity()
    subject = subject_of(identity.replaced(memory_bytes=None), PLAIN, Host())
    assert not subject.processor
    assert subject.spec is not None
    assert subject.spec.id == ("max-1100" if pytorch.kind == "xpu" else "apple-m2-ultra")
    assert 0 < device.memory()["free"] <= device.memory()["total"]
    assert device.read() is None


def test_the_processor_never_stands_in(monkeypatch: pytest.MonkeyPatch) -> None:
    from gpuplan.calibrate.backends import torch_other

    monkeypatch.setenv(torch_other.FALLBACK, "1")
    with pytest.raises(UsageError, match="PYTORCH_ENABLE_MPS_FALLBACK lets the processor stand in"):
        torch_other.opened(Playing("mps"), "mps", None, 1)
    with pytest.raises(UsageError, match="PyTorch sees 1 of them"):
        torch_other.opened(Playing("xpu"), "xpu", 1, 1)
    with pytest.raises(UsageError, match="2 processes were started"):
        torch_other.opened(Playing("xpu"), "xpu", None, 2)
