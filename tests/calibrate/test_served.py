"""Do kernels of what serving engines store become parameters of their own, which estimates take?"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from gpuplan.calibrate.device import Probe
from gpuplan.calibrate.formats import SERVED
from gpuplan.calibrate.measure import probe_list
from gpuplan.calibrate.measure.session import CalibrationWish, Listener, plan
from gpuplan.calibrate.show import fitted_seconds
from gpuplan.machine.build import hardware_of
from gpuplan.specs.base import load_spec
from gpuplan.specs.catalog import Catalog, shipped_folder
from gpuplan.specs.measured import Measured
from tests.calibrate.fake import Fake, Troubles, seconds, truth
from tests.calibrate.fake_runs import PLAIN, here, run

PLACES = ("matmul.fp8_block", "grouped.fp8", "attention.decode.fp8", "attention.latent.bf16")


def test_a_device_is_asked_for_what_it_knows_only() -> None:
    wish = CalibrationWish(extent="default", today="2026-11-22", version="0", env={"HOME": "/nowhere"})
    plain = plan(Fake(troubles=Troubles()), wish, PLAIN, Listener())
    assert not {one.probe.name for one in plain.planned} & set(SERVED)
    made = plan(Fake(troubles=Troubles(formats=SERVED)), wish, PLAIN, Listener())
    names = Counter(one.probe.name for one in made.planned)
    assert {name for name in SERVED if names[name] < 8} == set()
    assert sum(one.probe.kind == "grouped_matmul" and one.probe.dtype == "fp8" for one in made.planned) >= 8
    assert made.seconds <= 1.05 * probe_list.BUDGET["default"]
    quick = plan(
        Fake(troubles=Troubles(formats=SERVED)), CalibrationWish(env={"HOME": "/nowhere"}, extent="quick"), PLAIN, Listener()
    )
    assert not {one.probe.name for one in quick.planned} & set(probe_list.LONGER)


def test_what_serving_stores_is_fitted_and_used(tmp_path: Path) -> None:
    report = run(tmp_path, kinds=("matmul", "grouped_matmul", "decode", "stream"), formats=SERVED)
    for place in PLACES:
        found = report.made.sets.get(place)
        assert found is not None or "are nearer" in report.made.unfitted[place], (place, report.made.unfitted)
        if found is not None:
            assert found.errors.median_ape < 0.15, place
    path = tmp_path / "config" / "gpuplan" / "measured" / "h200-sxm-141gb.yaml"
    file = load_spec(Measured, path)
    there = {f"matmul.{key}" for key in file.matmul} | {f"grouped.{key}" for key in file.grouped}
    if file.attention is not None:
        there |= {f"attention.decode.{key}" for key in file.attention.decode}
        there |= {f"attention.latent.{key}" for key in file.attention.latent}
    assert {place for place in PLACES if place in report.made.sets} <= there
    hw = hardware_of(here("h200-sxm-141gb", PLAIN), catalog=Catalog([shipped_folder(), tmp_path / "config" / "gpuplan"]))
    for place in there & set(PLACES):
        key = "memory_efficiency"
        assert hw.parameters[f"{place}.{key}"].value == pytest.approx(report.made.sets[place].values[key].value, rel=1e-3), place


@pytest.mark.parametrize("name", ["fp8_block", "paged"])
def test_the_key_of_a_probe_says_what_it_is(name: str) -> None:
    kind = "decode" if name == "paged" else "matmul"
    probe = Probe(kind=kind, dtype="fp8", name=name, shape={"m": 1.0})
    assert f":{name}:" in probe.key()


def test_what_is_shown_of_served_kernels_are_their_own_parameters() -> None:
    hw = truth(1)
    shape = {"m": 64.0, "n": 4096.0, "k": 4096.0, "batch": 1.0}
    plain = Probe(kind="matmul", dtype="fp8", shape=shape)
    blocks, four = plain.replaced(name="fp8_block"), Probe(kind="matmul", name="int4_wo", shape=shape)
    assert fitted_seconds(blocks, hw) == pytest.approx(seconds(blocks, hw), rel=1e-6)
    assert fitted_seconds(blocks, hw) != fitted_seconds(plain, hw)
    assert fitted_seconds(four, hw) == pytest.approx(seconds(four, hw), rel=1e-6)
    caches = {"sequences": 8.0, "q_len": 1.0, "kv_len": 4096.0, "heads": 16.0, "kv_heads": 1.0, "k_dim": 576.0, "v_dim": 512.0}
    latent = Probe(kind="decode", name="latent", shape={**caches, "window": 0.0})
    wide, narrow = (fitted_seconds(latent.replaced(name=name), hw) for name in ("paged", "paged_fp8"))
    assert wide is not None
    assert narrow is not None
    assert narrow < wide
    assert fitted_seconds(latent, hw) is not None
