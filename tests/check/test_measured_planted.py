"""Faults planted in copies of shipped measured files: each is found on its line, and estimates refuse the file as well."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

import pytest

from gpuplan.check.examine import Finding, examine
from gpuplan.errors import SpecError
from gpuplan.search.ask import answered
from gpuplan.specs.base import load_spec
from gpuplan.specs.catalog import shipped_folder
from gpuplan.specs.measured import Measured

TODAY = date(2026, 12, 1)
H100 = shipped_folder() / "measured/h100-sxm-80gb.yaml"
SHARES = ("efficiency", "memory_efficiency", "unhidden", "whole", "pair")
STARTS = ("start", "launch")
SECONDS = (*STARTS, "settle", "per_tile", "ramp", "per_doubling", "bulk")


def planted(to: Path, old: str, new: str, file: Path = H100) -> tuple[Path, int]:
    """A copy of a file with the first match changed, in a specs folder; and the line of the change."""
    text = file.read_text(encoding="utf-8")
    found = re.search(old, text, re.M)
    assert found is not None, old
    made = to / "specs" / file.relative_to(shipped_folder())
    made.parent.mkdir(parents=True, exist_ok=True)
    made.write_text(text[: found.start()] + found.expand(new) + text[found.end() :], encoding="utf-8")
    return made, text[: found.start() + len(found[0]) - len(found[0].lstrip())].count("\n") + 1


def found_in(path: Path) -> tuple[Finding, ...]:
    return examine([path], today=TODAY).findings


@pytest.mark.parametrize("key", [*SHARES, "full", "throttle"])
def test_a_share_in_percent(tmp_path: Path, key: str) -> None:
    text = H100.read_text(encoding="utf-8")
    value = next(one for one in re.findall(rf"^ +{key}: (?:\{{value: )?([\d.]+)", text, re.M) if float(one) > 0.05)
    path, line = planted(tmp_path, rf"^( +{key}: (?:\{{value: )?){value}", rf"\g<1>{100 * float(value):g}")
    assert [(one.code, one.line) for one in found_in(path)] == [("spec.physics", line)]
    with pytest.raises(SpecError, match=r"is no "):
        load_spec(Measured, path)


@pytest.mark.parametrize("key", SHARES[:2])
def test_a_share_of_nothing(tmp_path: Path, key: str) -> None:
    path, line = planted(tmp_path, rf"^( +{key}: (?:\{{value: )?)[\d.]+", r"\g<1>0")
    assert [(one.code, one.line) for one in found_in(path)] == [("spec.physics", line)]


@pytest.mark.parametrize("key", SECONDS)
def test_seconds_for_microseconds(tmp_path: Path, key: str) -> None:
    path, line = planted(tmp_path, rf"^( +{key}: (?:\{{value: )?0?\.?[1-9][\d.]*) us", r"\g<1> s")
    assert [(one.code, one.line) for one in found_in(path)] == [("spec.physics", line)]


@pytest.mark.parametrize("key", STARTS)
@pytest.mark.parametrize("wrong", ["0 us", "3 ns", "4 ms"])
def test_a_start_that_no_kernel_has(tmp_path: Path, key: str, wrong: str) -> None:
    path, line = planted(tmp_path, rf"^( +{key}: (?:\{{value: )?)[\d.]+ us", rf"\g<1>{wrong}")
    assert [(one.code, one.line) for one in found_in(path)] == [("spec.physics", line)]


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        (r"^units: 132", "units: 108", "spec.measured-units"),
        (r"^describes: accelerator", "describes: family", "spec.measured-subject"),
        (r'^measured: "2026-08-21"', 'measured: "2028-08-21"', "spec.future-date"),
        (r"^  matmul: \{(source: \S+, )?low: [\d.]+, high: [\d.]+\}", "  matmul: {low: 1.130, high: 0.913}", "spec.physics"),
        (r"^  matmul: \{(source: \S+, )?low: [\d.]+, high: [\d.]+\}", "  matmul: {low: 91.3, high: 113}", "spec.physics"),
        (r"^  vllm:", "  vlm:", "spec.unknown-reference"),
        (r"^matmul:\n  bf16:", "matmul:\n  fp4:", "spec.measured-dtype"),
        (r"^( +)p90_ape: [\d.]+", r"\g<1>p90_ape: 0.001", "spec.physics"),
        (r'^( +)bias: "[^"]+"', r'\g<1>bias: "+61.0 %"', "spec.physics"),
        (r"^( +)ranks: 8", r"\g<1>ranks: 80", "spec.measured-ranks"),
    ],
)
def test_what_belongs_to_something_else(tmp_path: Path, old: str, new: str, code: str) -> None:
    path, _ = planted(tmp_path, old, new)
    assert code in [one.code for one in found_in(path)]


def test_a_file_like_one_that_does_not_exist(tmp_path: Path) -> None:
    path, _ = planted(tmp_path, r"^describes: accelerator", "describes: accelerator\nlike: h100-smx-80gb")
    assert [one.code for one in found_in(path)] == ["spec.unknown-reference"]


def test_an_estimate_refuses_what_the_check_finds(tmp_path: Path) -> None:
    path, _ = planted(tmp_path, r"^( +efficiency: )[\d.]+", r"\g<1>89.87")
    with pytest.raises(SpecError, match=r"89\.87.* is no share"):
        answered("train", {"model": "llama-3.1-8b", "on": "8xh100", "specs": [str(path.parents[1])]}, advise=False)


def test_the_shipped_files_are_right() -> None:
    assert examine([H100.parent], today=TODAY).findings == ()
