"""Requests at a rate that a fleet may just not keep: their times have no high end, in words and as null."""

from __future__ import annotations

import csv
import json
import re
from math import inf, isfinite
from pathlib import Path
from typing import Any

import pytest

from gpuplan.estimate.result import Estimate
from gpuplan.search.ask import answered
from tests.cli.cli_calls import Call

ONE: dict[str, Any] = {"model": "llama-3.1-8b", "on": "h100", "prompt": 1024, "output": 256}
PAIR = {**ONE, "prefill_on": "h100", "prefill_workers": 1, "decode_workers": 1}
WAITS = ("ttft_s", "e2e_s", "waiting_requests")


def served(**given: Any) -> Estimate:
    return answered("serve", given, advise=False, keep=True)


@pytest.mark.parametrize("asked", [ONE, PAIR])
def test_times_have_a_high_end_where_all_of_the_range_keeps_up(asked: dict[str, Any]) -> None:
    calm = served(**asked, rate=2)
    most = 2 / max(float(term.value) for key, term in calm.figures.items() if key.endswith("utilization"))
    near = served(**asked, rate=round(0.95 * most, 2))
    for key in calm.figures:
        assert isfinite(calm.ranges[key][1]), key
        assert not calm.no_bound(key)
    used = [key for key in near.figures if key.endswith("utilization")]
    assert max(near.ranges[key][1] for key in used) >= 1 > max(float(near.figures[key].value) for key in used)
    assert [key for key in near.figures if near.ranges[key][1] == inf] == [key for key in near.figures if key in WAITS]
    assert near.ranges["tpot_s"][1] == near.ranges["full_tpot_s"][1]
    assert "arrive faster than they are served" in near.no_bound("ttft_s")
    assert any(note.code == "load.narrowly" and "without bound" in note.text for note in near.notes)


def test_more_than_is_kept_is_told_the_token_of_full_replicas() -> None:
    near, over = (served(**ONE, rate=rate) for rate in (21, 1000))
    assert "tpot_s" not in over.figures
    full = float(over.figures["full_tpot_s"].value)
    assert full == pytest.approx(float(near.figures["full_tpot_s"].value))
    assert full > float(near.figures["tpot_s"].value)


def test_users_of_a_closed_loop_wait_for_each_other_and_no_longer() -> None:
    made = served(**PAIR, concurrency=2000)
    assert float(made.figures["prefill_utilization"].value) == pytest.approx(1.0)
    assert all(isfinite(high) for _, high in made.ranges.values())


def test_every_form_says_so(call: Call, tmp_path: Path) -> None:
    words = ("serve", "llama-3.1-8b", "--on", "h100", "--rate", "21/s", "--prompt", "1024", "--output", "256")
    assert "– no bound" in call(*words).out
    assert "to no bound" in call(*words, "--plain").out
    first = json.loads(call(*words, "--json").out)["figures"]["ttft_s"]
    assert first["high"] is None
    assert "arrive faster" in first["unbounded"]
    rows = {row["name"]: row for row in csv.DictReader(call(*words, "--csv").out.splitlines())}
    assert rows["ttft_s"]["high"] == ""
    page = tmp_path / "page.html"
    assert not call(*words, "--html", str(page)).code
    assert "no bound" in page.read_text(encoding="utf-8")
    assert not re.search(r"\b(nan|inf)\b", page.read_text(encoding="utf-8"))
    assert "no bound" in call("compare", *words, "--on", "h200").out
