"""Is every kind of measured kernel refused that is faster than the hardware, and none that is as fast as it can be?"""

from __future__ import annotations

import pytest

from gpuplan.calibrate.device import Probe
from gpuplan.calibrate.measure.cases import FitBasis
from gpuplan.calibrate.measure.measured_subject import MeasuredSubject, ground_of
from gpuplan.calibrate.measure.sample import Sample
from gpuplan.calibrate.measure.sample_fits import fit_samples
from gpuplan.calibrate.possible import too_fast
from gpuplan.specs.accelerator import Accelerator
from tests.calibrate.fake_runs import PLAIN

FAR = Probe(kind="collective", name="all_reduce", shape={"size": 2.0**33, "group": 16.0})
HEADS = {"heads": 32.0, "kv_heads": 8.0, "k_dim": 128.0, "v_dim": 128.0, "window": 0.0}
LONG = {"sequences": 1.0, "q_len": 8192.0, "kv_len": 8192.0, **HEADS}
CACHE = {"sequences": 64.0, "q_len": 1.0, "kv_len": 32768.0, **HEADS}
PAIRS = 32 * 8192**2 / 2
"""Queries with the keys that each may see."""


def basis(ident: str, on: str = "") -> FitBasis:
    spec = PLAIN.load(Accelerator, ident)
    units = None if spec.units is None else int(spec.units.count.value)
    subject = MeasuredSubject(ident, spec.name, spec.vendor, spec.family, spec, processor=False, units=units)
    return ground_of(subject, [sample(FAR, 1.0)] if on else [], PLAIN, on)


def sample(probe: Probe, seconds: float) -> Sample:
    return Sample(probe=probe, seconds=seconds, low=seconds, high=seconds, samples=5, launches=1)


H200 = basis("h200-sxm-141gb", "2xdgx-h200")
A100 = basis("a100-sxm-80gb", "2xdgx-a100")


def wired(name: str, group: int, gib: float = 4.0) -> Probe:
    kind = "transfer" if name == "transfer" else "collective"
    return Probe(kind=kind, name="" if kind == "transfer" else name, shape={"size": gib * 2**30, "group": float(group)})


@pytest.mark.parametrize(
    ("probe", "ground", "least_s"),
    [
        (Probe(kind="matmul", shape={"m": 8192.0, "n": 8192.0, "k": 8192.0, "batch": 1.0}), H200, 2 * 8192**3 / 989.4e12),
        (Probe(kind="prefill", shape=LONG), H200, 4 * PAIRS * 128 / 989.4e12),
        (Probe(kind="stream", shape={"size": 2.0**32}), H200, (2**32 - 50 * 2**20) / 4.8e12),
        (Probe(kind="decode", shape=CACHE), H200, (64 * 32768 * 8 * 256 * 2 - 50 * 2**20) / 4.8e12),
        (wired("all_gather", 8), H200, 7 / 8 * 2**32 / 450e9),
        (wired("all_reduce", 8), H200, 7 / 8 * 2**32 / 450e9),
        (wired("all_reduce", 8), A100, 2 * 7 / 8 * 2**32 / 300e9),
        (wired("all_gather", 16), H200, 1 / 2 * 2**32 / (8 * 50e9)),
        (wired("all_to_all", 16), H200, 8 / 2 * 2**32 / (8 * 50e9)),
        (wired("transfer", 2), H200, 2**32 / 450e9),
    ],
)  # fmt: skip
def test_what_is_faster_than_the_hardware_is_told(probe: Probe, ground: FitBasis, least_s: float) -> None:
    assert too_fast(probe, 1.005 * least_s, ground) == ""
    assert " is above " in too_fast(probe, 0.96 * least_s, ground)


def test_what_a_cache_may_have_served_is_let_pass() -> None:
    assert too_fast(Probe(kind="stream", shape={"size": 40 * 2.0**20}), 1e-6, H200) == ""
    unknown = FitBasis(peaks={}, bandwidth=H200.bandwidth, units=H200.units)
    assert too_fast(Probe(kind="stream", shape={"size": 2.0**34}), 1e-6, unknown) == ""


def test_where_many_of_a_kind_are_impossible_none_is_taken() -> None:
    probes = [Probe(kind="stream", shape={"size": 2.0**power}) for power in range(24, 34)]
    true = [sample(one, one.shape["size"] / 4e12 + 3e-6) for one in probes]
    twice = [one.replaced(seconds=one.seconds / 2) if at > 5 else one for at, one in enumerate(true)]
    once = [one.replaced(seconds=one.seconds / 2) if at == 9 else one for at, one in enumerate(true)]
    assert "4 of 10 rows are impossible, and none is taken" in fit_samples(twice, H200, "x").unfitted["stream.bf16"]
    assert "stream" not in fit_samples(twice, H200, "x").sets
    assert "1 of 10 rows are left out" in fit_samples(once, H200, "x").unfitted["stream.bf16"]
