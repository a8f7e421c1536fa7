"""Do the public formulas reproduce the worked numbers that papers, books and model cards publish?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from gpuplan.units import DAY, HOUR, YEAR

from .bounds import BOUNDS
from .pace import PACE
from .work import WORK

EXAM: dict[str, Any] = yaml.load(Path(__file__).with_name("cases.yaml").read_bytes(), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
CASES: dict[str, Any] = {case["id"]: case for case in EXAM["cases"]}
ASKED = [case for case in CASES.values() if "out" not in case]
ANSWERS = WORK | BOUNDS | PACE
ROUNDING = 1e-9  # what floats cost where a case allows no tolerance
# What one of the unit is in base units; units that count things are 1.
UNITS = {
    "ms": 1e-3, "us": 1e-6, "s": 1.0, "h": HOUR, "days": DAY, "years": YEAR, "GPU-years": YEAR, "GPU-hours": HOUR,
    "bytes": 1.0, "KiB": 2.0**10, "MiB": 2.0**20, "GiB": 2.0**30, "TiB": 2.0**40, "MB": 1e6, "GB": 1e9, "TB": 1e12, "TB/day": 1e12,
    "bytes/param": 1.0, "bits/param": 1 / 8, "GB/s": 1e9, "TB/s": 1e12, "FLOP/byte": 1.0, "FLOP": 1.0, "TFLOP": 1e12,
    "FLOP/param/token": 1.0, "FLOP/s": 1.0, "TFLOPS": 1e12, "USD": 1.0, "MWh": 3.6e9,
    "ratio": 1.0, "tokens": 1.0, "params": 1.0, "ways": 1.0, "tokens/GPU": 1.0, "chips": 1.0, "tokens/chip": 1.0, "sequences": 1.0,
    "QPS/chip": 1.0, "elements": 1.0, "hosts": 1.0, "tokens/s": 1.0, "tokens/s/chip": 1.0, "tokens/step": 1.0, "cores": 1.0,
    "GPUs": 1.0, "checkpoints": 1.0, "multiple of sbh": 1.0, "nodes": 1.0,
}  # fmt: skip


def answer(case: dict[str, Any]) -> float:
    """What the formulas say, in the unit of the case."""
    return float(ANSWERS[case["id"]](SimpleNamespace(**case["inputs"]))) / UNITS[case["answer"]["unit"]]


@pytest.mark.parametrize("case", ASKED, ids=[case["id"] for case in ASKED])
def test_case(case: dict[str, Any]) -> None:
    want = case["answer"]
    assert answer(case) == pytest.approx(want["value"], rel=max(want["tolerance"], ROUNDING))


def test_every_case_is_asked_or_says_why_not() -> None:
    assert ANSWERS.keys() == {case["id"] for case in ASKED}
    assert all(case["out"] for case in CASES.values() if "out" in case)


def test_sources_can_be_checked() -> None:
    for case in CASES.values():
        key, section = case["source"]
        assert section
        assert EXAM["sources"][key]["url"].startswith("https://")


def test_most_of_the_exam_is_answered(record_property: Callable[[str, object], None]) -> None:
    everything = Counter(case["tier"] for case in CASES.values())
    answered = Counter(case["tier"] for case in ASKED)
    for tier, count in everything.items():
        record_property(tier, f"{answered[tier]} of {count}")
    assert answered["core"] >= 0.95 * everything["core"]
    assert answered["expert"] >= 0.95 * everything["expert"]
