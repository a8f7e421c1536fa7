"""Says at the end of a run how much of the exam the formulas answer, and what they do not."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

if TYPE_CHECKING:
    import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    ran = [report for state in ("passed", "failed") for report in terminalreporter.getreports(state)]
    if not any("exam/test_exam.py" in report.nodeid for report in ran):
        return
    cases = yaml.safe_load(Path(__file__).with_name("cases.yaml").read_text())["cases"]
    everything: Counter[str] = Counter()
    asked: Counter[str] = Counter()
    for case in cases:
        everything[case["tier"]] += 1
        asked[case["tier"]] += "out" not in case
    terminalreporter.write_line("exam: " + ", ".join(f"{asked[tier]} of {count} {tier}" for tier, count in everything.items()))
    for case in cases:
        if "out" in case:
            terminalreporter.write_line(f"  not asked: {case['id']}: {case['out']}")
